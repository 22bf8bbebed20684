"""A private PostgreSQL server for tests: a cluster in a temporary folder, reached through a socket only."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from tempfile import mkdtemp

import pytest

PASSWORD = "a-password-that-must-not-be-seen"


def program(name):
    """A program of the server; Debian keeps them beside the path."""
    found = shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)
    if found is None:
        pytest.skip(f"PostgreSQL is not installed (no {name}): .ci/install-postgresql.sh installs it")
    return found


@contextmanager
def server():
    """Folder of the socket of a running server, whose user ``tester`` has `PASSWORD`."""
    pytest.importorskip("adbc_driver_postgresql")
    initdb, control = program("initdb"), program("pg_ctl")
    as_user = []
    folder = Path(mkdtemp(prefix="gpuanon-pg-", dir="/tmp"))  # a socket's path is short
    try:
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:  # initdb refuses root
            if shutil.which("setpriv") is None:
                pytest.skip("PostgreSQL does not run as root, and there is no setpriv")
            as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
            for path in (folder, folder / "password"):
                shutil.chown(path, "nobody", "nogroup")
        data = str(folder / "data")
        make = [*as_user, initdb, "-D", data, "-U", "tester", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]
        subprocess.run([*make, f"--pwfile={folder / 'password'}"], check=True, capture_output=True, cwd="/")
        settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        start = [*as_user, control, "-D", data, "-w", "-l", str(folder / "log"), "-o", settings, "start"]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        try:
            yield folder
        finally:
            stop = [*as_user, control, "-D", data, "-m", "immediate", "stop"]
            subprocess.run(stop, check=False, capture_output=True, cwd="/")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
