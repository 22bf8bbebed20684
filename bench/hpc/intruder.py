"""Attack the cluster of a run from another account while it runs: ``python intruder.py FOLDER COMMAND …`` (as root).

Every port that begins to listen while COMMAND runs is asked by the account 65534 for what a Dask server tells its
clients: without encryption, without a certificate and with a certificate of its own; and for the pages that show what
workers do.  Every file that appears below FOLDER is tried as well.  A cluster without certificates is attacked first,
and one with certificates by its owner, to see that each way of asking works.  Exit code 1 if anything but these lets
the intruder in, or if fewer ports than those of a scheduler and a worker were found to be a cluster's: then the attack
came too late.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import ssl
import subprocess
import sys
import time
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

if TYPE_CHECKING:
    from distributed import LocalCluster
    from distributed.security import Security

STRANGER = 65534
PAGES = ("info/main/workers.html", "info/main/logs.html", "json/identity.json", "json/counts.json", "metrics")
PUBLIC = ("slurm.conf",)
"""Files that everybody may read."""
PATIENCE = 5.0
"""Seconds after which a port that does not answer is given up."""


async def _answers(address: str, context: ssl.SSLContext | None = None) -> bool:
    """Whether a Dask server at `address` does what we ask."""
    from distributed.comm import connect

    async def ask() -> bool:
        comm = await connect(address, timeout=PATIENCE, ssl_context=context, require_encryption=False)
        try:
            await comm.write({"op": "identity", "reply": True})
            return "type" in await comm.read()
        finally:
            comm.abort()

    try:
        return await asyncio.wait_for(ask(), PATIENCE)
    except ImportError:  # the attack is broken, not repelled
        raise
    except Exception:
        return False


def _careless(context: ssl.SSLContext) -> ssl.SSLContext:
    """A context that accepts any server."""
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _speaks_tls(port: int) -> bool:
    """Whether the port answers a TLS greeting."""
    context = _careless(ssl.create_default_context())
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port, ssl=context), PATIENCE)
    except (OSError, TimeoutError):
        return False
    writer.transport.abort()
    return True


def _page(port: int, page: str) -> bool:
    """Whether a page of a Dask server is shown."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/{page}", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):
        return False


async def _attack(port: int, certificate: ssl.SSLContext) -> dict[str, Any]:
    """What the stranger gets from one port."""
    place = f"127.0.0.1:{port}"
    tls, open_, bare, own, *pages = await asyncio.gather(
        _speaks_tls(port),
        _answers(f"tcp://{place}"),
        _answers(f"tls://{place}", _careless(ssl.create_default_context())),
        _answers(f"tls://{place}", certificate),
        *(asyncio.to_thread(_page, port, page) for page in PAGES),
    )
    ways = {"tcp": open_, "tls": bare, "tls with a certificate of its own": own, **dict(zip(PAGES, pages, strict=True))}
    return {"port": port, "tls": tls, "entered": [way for way, let_in in ways.items() if let_in]}


def _readable(folder: Path) -> list[str]:
    """Files below a folder that the stranger can read."""
    return [
        os.path.join(where, name)
        for where, _, names in os.walk(folder)
        for name in names
        if os.path.isfile(os.path.join(where, name)) and os.access(os.path.join(where, name), os.R_OK)
    ]


def _cluster(security: Security | None = None) -> LocalCluster:
    """A cluster in this process; without `security` anybody may enter it."""
    from distributed import LocalCluster

    protocol = "tls" if security else "tcp"
    where = "127.0.0.1:0"
    return LocalCluster(n_workers=1, processes=False, protocol=protocol, security=security, dashboard_address=where)


def _context(security: Security) -> ssl.SSLContext:
    return _careless(security.get_connection_args("client")["ssl_context"])


def _port(cluster: LocalCluster) -> int:
    return int(cluster.scheduler_address.rpartition(":")[2])


def _rehearse(certificate: ssl.SSLContext) -> None:
    """See that each way of asking works, and load every module: the other account may not be able to read them."""
    from distributed.security import Security

    with _cluster() as cluster:
        assert "tcp" in asyncio.run(_attack(_port(cluster), certificate))["entered"]
    owner = Security.temporary()
    with _cluster(owner) as cluster:
        assert asyncio.run(_answers(cluster.scheduler_address, _context(owner)))


def stranger(folder: Path) -> None:
    """Become another account; attack the ports that come on standard input, a line of them at a time."""
    from distributed.security import Security

    logging.disable()  # what is no Dask message is logged with a traceback
    certificate = _context(Security.temporary())
    _rehearse(certificate)
    os.setgroups([])
    os.setgid(STRANGER)
    os.setuid(STRANGER)
    os.chdir("/")
    print(json.dumps({"ready": True}), flush=True)

    async def report(port: int) -> None:
        try:
            found: dict[str, Any] = {"ports": [await _attack(port, certificate)]}
        except Exception as broken:
            found = {"broken": [repr(broken)]}
        print(json.dumps(found), flush=True)

    async def attack_all() -> None:
        async with asyncio.TaskGroup() as attacks:
            while line := await asyncio.to_thread(sys.stdin.readline):
                print(json.dumps({"files": _readable(folder)}), flush=True)
                for port in json.loads(line):
                    attacks.create_task(report(port))

    asyncio.run(attack_all())


def _listening() -> set[int]:
    """Ports on which a process of this machine listens."""
    import psutil

    return {one.laddr.port for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN}


class Attack:
    """Attacks from the other account, which go on beside the run."""

    def __init__(self, folder: Path) -> None:
        program = [sys.executable, __file__, "--stranger", str(folder)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(program, stdin=pipe, stdout=pipe, text=True)
        self.ports: list[dict[str, Any]] = []
        self.files: set[str] = set()
        self.broken: set[str] = set()
        self.ready = Event()
        self.reader = Thread(target=self._read, daemon=True)
        self.reader.start()
        if not self.ready.wait(timeout=120):
            self.broken.add("the other account did not begin")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line)
            self.ports += found.get("ports", [])
            self.files.update(found.get("files", []))
            self.broken.update(found.get("broken", []))
            if "ready" in found:
                self.ready.set()

    def start(self, ports: list[int]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(ports) + "\n")
        self.process.stdin.flush()

    def finish(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.reader.join(timeout=60)
        if self.reader.is_alive():
            self.broken.add("the other account did not end")
        self.process.kill()


def main(folder: Path, command: list[str]) -> int:
    logging.disable()
    attack = Attack(folder)
    with _cluster() as unlocked:
        attack.start([_port(unlocked)])
        for _ in range(300):
            if attack.ports or attack.broken:
                break
            time.sleep(0.2)
    works, attack.ports = any(port["entered"] for port in attack.ports), []
    known = _listening()
    asked = 0
    with subprocess.Popen(command) as run:
        while run.poll() is None:
            if fresh := sorted(_listening() - known):
                known.update(fresh)
                asked += len(fresh)
                attack.start(fresh)
            time.sleep(0.1)
    attack.finish()
    ports, files = attack.ports, attack.files
    closed = sum(port["tls"] for port in ports)
    entered = [port for port in ports if port["entered"]]
    read = sorted(path for path in files if Path(path).name not in PUBLIC)
    print(f"another account: {asked} ports, {closed} of a cluster, {len(entered)} entered; {len(read)} files read")
    for what in (*entered, *read):
        print("LET IN:", what)
    for what in attack.broken:
        print("the attack is broken:", what)
    if not works:
        print("the attack does not work: a cluster without certificates was not entered")
    held = works and closed >= 2 and len(ports) == asked and not (attack.broken or entered or read)
    return run.returncode or (0 if held else 1)


if __name__ == "__main__":
    if sys.argv[1] == "--stranger":
        stranger(Path(sys.argv[2]))
    else:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
