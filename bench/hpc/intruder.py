"""Attack the cluster of a run from another account while it runs: ``python intruder.py FOLDER COMMAND …`` (as root).

Every port that begins to listen while COMMAND runs is tried from the account 65534: as a Dask client without
encryption, without a certificate and with a certificate of its own, and for the pages that show what workers do.  Every
file that appears below FOLDER is tried as well.  A scheduler without certificates is attacked first, to see that the
attack works.  Exit code 1 if anything but that one lets the intruder in, or if fewer ports than those of a scheduler
and a worker were found to be a cluster's: then the attack came too late.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

STRANGER = 65534
PAGES = ("info/main/workers.html", "info/main/logs.html", "json/identity.json", "json/counts.json", "metrics")
PUBLIC = ("slurm.conf",)
"""Files that everybody may read."""


def _client(address: str, security: object, timeout: str) -> bool:
    """Whether somebody at `address` runs our code."""
    from distributed import Client

    try:
        with Client(address, security=security, timeout=timeout, set_as_default=False) as client:
            return client.submit(os.getpid).result(timeout=10) > 0
    except BaseException:
        return False


def _page(port: int, page: str) -> bool:
    """Whether a page of a Dask server is shown."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/{page}", timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, HTTPException):
        return False


def _speaks_tls(port: int) -> bool:
    """Whether the port answers a TLS greeting."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as raw, context.wrap_socket(raw):
            return True
    except OSError:
        return False


def _attack(port: int, timeout: str = "5s") -> dict[str, Any]:
    """What the stranger gets from one port."""
    from distributed.security import Security

    tls = _speaks_tls(port)  # at once: the run may end before the slower attacks do
    own, nothing = Security.temporary(), Security(require_encryption=False)
    ways = {"tcp": ("tcp", nothing), "tls": ("tls", nothing), "tls with a certificate of its own": ("tls", own)}
    found = {name: _client(f"{protocol}://127.0.0.1:{port}", who, timeout) for name, (protocol, who) in ways.items()}
    return {
        "port": port,
        "tls": tls,
        "entered": [*(way for way in ways if found[way]), *(page for page in PAGES if _page(port, page))],
    }


def _readable(folder: Path) -> list[str]:
    """Files below a folder that the stranger can read."""
    return [
        os.path.join(where, name)
        for where, _, names in os.walk(folder)
        for name in names
        if os.path.isfile(os.path.join(where, name)) and os.access(os.path.join(where, name), os.R_OK)
    ]


def stranger(folder: Path) -> None:
    """Become another account; attack the ports that come on standard input, a line of them at a time."""
    _attack(1, "0.1s")  # loads what another account may not be able to read
    os.setgroups([])
    os.setgid(STRANGER)
    os.setuid(STRANGER)
    os.chdir("/")
    print(json.dumps({"ready": True}), flush=True)
    pool = ThreadPoolExecutor(32)

    def report(done: Future[dict[str, Any]]) -> None:
        print(json.dumps({"ports": [done.result()]}), flush=True)

    for line in sys.stdin:
        print(json.dumps({"files": _readable(folder)}), flush=True)
        for port in json.loads(line):
            pool.submit(_attack, port).add_done_callback(report)
    pool.shutdown()
    os._exit(0)  # clients that were refused may still wait


def _listening() -> set[int]:
    """Ports on which a process of this machine listens."""
    import psutil

    return {one.laddr.port for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN}


class Attack:
    """Attacks from the other account, which go on beside the run; one that gets no answer is given up."""

    def __init__(self, folder: Path) -> None:
        program = [sys.executable, __file__, "--stranger", str(folder)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=nowhere, text=True)
        self.ports: list[dict[str, Any]] = []
        self.files: set[str] = set()
        self.ready = Event()
        self.reader = Thread(target=self._read, daemon=True)
        self.reader.start()
        self.ready.wait(timeout=120)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            found = json.loads(line)
            self.ports += found.get("ports", [])
            self.files.update(found.get("files", []))
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
        self.process.kill()


def main(folder: Path, command: list[str]) -> int:
    from distributed import LocalCluster

    logging.getLogger("tornado.application").setLevel(
        logging.CRITICAL
    )  # what is no Dask message is logged with a traceback
    attack = Attack(folder)
    with LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0") as unlocked:
        attack.start([int(unlocked.scheduler_address.rpartition(":")[2])])
        for _ in range(300):
            if attack.ports:
                break
            time.sleep(0.2)
    works, attack.ports = any(port["entered"] for port in attack.ports), []
    known = _listening()
    with subprocess.Popen(command) as run:
        while run.poll() is None:
            if fresh := sorted(_listening() - known):
                known.update(fresh)
                attack.start(fresh)
            time.sleep(0.1)
    attack.finish()
    ports, files = attack.ports, attack.files
    closed = sum(port["tls"] for port in ports)
    entered = [port for port in ports if port["entered"]]
    read = sorted(path for path in files if Path(path).name not in PUBLIC)
    print(f"another account: {len(ports)} ports, {closed} of a cluster, {len(entered)} entered; {len(read)} files read")
    for what in (*entered, *read):
        print("LET IN:", what)
    if not works:
        print("the attack does not work: a cluster without certificates was not entered")
    return run.returncode or (0 if works and closed >= 2 and not entered and not read else 1)


if __name__ == "__main__":
    if sys.argv[1] == "--stranger":
        stranger(Path(sys.argv[2]))
    else:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
