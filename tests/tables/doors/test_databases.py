"""DuckDB files and a real PostgreSQL server: the release of files, types kept, whole or nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpuanon.errors import InputError, OutputError
from gpuanon.tables.doors import Address, doors
from tests.support.at_doors import command, environment, plain_rows, table_of_types
from tests.support.postgres import PASSWORD, server


@pytest.fixture(scope="module")
def socket():
    with server() as folder:
        yield folder


@pytest.fixture(params=["duckdb", "postgresql"])
def place(request, tmp_path, monkeypatch):
    """Addresses of tables in an empty database."""
    if request.param == "duckdb":
        pytest.importorskip("duckdb")
        return lambda table: f"duckdb:///{tmp_path}/data.duckdb?table={table}"
    folder = request.getfixturevalue("socket")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    execute(folder, "drop schema public cascade", "create schema public")
    return lambda table: f"postgresql://tester@/postgres?host={folder}&table={table}"


def execute(folder, *commands):
    """Commands, and the rows of the last, by the driver alone."""
    from adbc_driver_postgresql import dbapi

    uri = f"postgresql://tester:{PASSWORD}@/postgres?host={folder}"
    with dbapi.connect(uri) as connection, connection.cursor() as cursor:
        for one in commands:
            cursor.execute(one)
        rows = cursor.fetchall() if commands[-1].startswith("select") else []
        connection.commit()
    return rows


def stored(table, address, folder, force=False):
    """Send a table to an address."""
    with pa.OSFile(str(folder / "sent.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table, max_chunksize=50)
    door = doors()[Address(address).scheme]
    return door.send(Address(address), folder / "sent.arrow", {"gpuanon": "test"}, force)


def received(address, folder, query=None):
    folder.mkdir(exist_ok=True)
    return pq.read_table(doors()[Address(address).scheme].receive(Address(address, query), folder))


def test_every_type_comes_back_with_its_values(place, tmp_path):
    table = table_of_types()
    stored(table, place("types"), tmp_path)
    found = received(place("types"), tmp_path / "in")
    assert plain_rows(found) == plain_rows(table)
    changed = {f.name for f in found.schema if f.type != table.schema.field(f.name).type}
    assert changed == {"stage"}  # numbers of levels are wider
    assert found["stage"].type.ordered
    assert found["stage"].chunk(0).dictionary.to_pylist() == ["low", "mid", "high"]


def test_the_release_through_a_database_is_that_of_files(place, tmp_path):
    table = table_of_types()
    stored(table, place("persons"), tmp_path)
    pq.write_table(table, tmp_path / "registry.parquet")
    done = command(tmp_path, "protect", "registry.parquet", "recipe.toml", "-o", "release.parquet", "--key-file", "key")
    assert done.returncode == 0, done.stderr
    run = ("protect", place("persons"), "recipe.toml", "-o", place("release"), "--key-file", "key", "--json")
    done = command(tmp_path, *run, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["output"] == place("release")
    wanted = plain_rows(pq.read_table(tmp_path / "release.parquet"))
    assert plain_rows(received(place("release"), tmp_path / "in")) == wanted
    again = command(tmp_path, *run, text=True)
    assert again.returncode == 2
    assert "exists already" in again.stderr
    forced = command(tmp_path, *run[:-1], "--force", "--quiet")
    assert (forced.returncode, forced.stdout, forced.stderr) == (0, b"", b"")
    assert PASSWORD not in done.stdout + done.stderr + again.stderr


def test_a_query_is_a_table_and_every_command_takes_one(place, tmp_path):
    stored(table_of_types(), place("persons"), tmp_path)
    sql = "select person, age, height from persons where age < 60"
    (tmp_path / "query.sql").write_text(sql + ";\n")
    assert received(place("persons"), tmp_path / "in", sql).column_names == ["person", "age", "height"]
    done = command(tmp_path, "init", place("persons"), "--query", "@query.sql", "--yes", text=True)
    assert done.returncode == 0, done.stderr
    assert "height" in done.stdout
    assert "cost" not in done.stdout
    done = command(tmp_path, "check", place("persons"), "recipe.toml", "--quick", text=True)
    assert done.returncode == 0, done.stderr


def test_a_table_of_somebody_else_is_never_replaced(place, tmp_path):
    table = table_of_types(30)
    stored(table, place("release"), tmp_path)
    door, address = doors()[Address(place("x")).scheme], Address(place("release"))
    with pytest.raises(OutputError, match="exists already"):
        door.check(address, False)
    door.check(address, True)
    if address.scheme == "duckdb":
        import duckdb

        with duckdb.connect(address.path[1:]) as connection:
            connection.execute("update release set age = age + 1 where person = 'p0003'")
    else:
        execute(address.options["host"], "update release set age = age + 1 where person = 'p0003'")
    with pytest.raises(OutputError, match="changed since"):
        door.check(address, True)
    with pytest.raises(OutputError, match="changed since"):
        stored(table, place("release"), tmp_path, force=True)


def test_arrays_are_refused_by_their_names(place, tmp_path):
    with pytest.raises(OutputError, match="column 'tags': an array"):
        stored(pa.table({"tags": pa.array([[1], [2]])}), place("arrays"), tmp_path)
    stored(pa.table({"a": [1]}), place("one"), tmp_path)
    array = "array[1, 2]" if place("x").startswith("postgresql") else "[1, 2]"
    with pytest.raises(InputError, match="column 'tags': an array"):
        received(place("one"), tmp_path / "in", f"select {array} as tags from one")


def test_a_stored_value_that_differs_is_found(place, tmp_path, monkeypatch):
    from gpuanon.tables.doors import sql

    sent = sql._sent
    calls = []

    def changed(rows, schema):
        calls.append(1)
        at = rows.column_names.index("age")
        other = rows.set_column(at, "age", pa.array([*rows["age"].to_pylist()[:-1], 7], pa.int32()))
        return sent(other if len(calls) == 1 else rows, schema)

    monkeypatch.setattr(sql, "_sent", changed)
    with pytest.raises(OutputError, match="are not those that were sent"):
        stored(table_of_types(), place("release"), tmp_path)
    monkeypatch.undo()
    if place("x").startswith("postgresql"):
        left = "select count(*) from pg_tables where schemaname = 'public'"
        assert execute(Address(place("x")).options["host"], left) == [(0,)]


def test_postgresql_keeps_its_types_and_says_what_is_wrong(socket, tmp_path, monkeypatch):
    base = f"postgresql://tester@/postgres?host={socket}&table="
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    execute(
        socket, "drop schema public cascade", "create schema public", "create type mood as enum ('b', 'a')",
        "create table t (n numeric(12, 2), free numeric, m mood, z timestamptz, u uuid)",
        "insert into t values (1.5, 1.234, 'a', '2020-01-02 03:04+02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')",
        "insert into t (n) values (null)",
    )  # fmt: skip
    found = received(base + "t", tmp_path / "in")
    assert [str(f.type) for f in found.schema][:2] == ["decimal128(12, 2)", "decimal128(4, 3)"]
    assert found["m"].chunk(0).dictionary.to_pylist() == ["b", "a"]
    assert str(found["z"][0]) == "2020-01-02 01:04:00+00:00"
    for table, query, reason in (("none", None, "no such table"), ("t", "delete from t", "not understood")):
        with pytest.raises(InputError, match=reason):
            received(base + table, tmp_path / "in", query)
    monkeypatch.setenv("PGPASSWORD", "wrong-" + PASSWORD)
    with pytest.raises(InputError, match=r"login|cannot be reached") as error:
        received(base + "t", tmp_path / "in")
    assert PASSWORD not in str(error.value)


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_the_old_table_or_the_new_one(socket, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    execute(socket, "drop schema public cascade", "create schema public")
    base, table = f"postgresql://tester@/postgres?host={socket}&table=", table_of_types(3000)
    stored(table, base + "persons", tmp_path)
    run = ["protect", base + "persons", "recipe.toml", "-o", base + "release", "--force"]
    began = time.monotonic()
    assert command(tmp_path, *run).returncode == 0
    whole, draws = time.monotonic() - began, random.Random(3)
    for _ in range(12):
        before = execute(socket, "select md5(string_agg(r::text, '')) from release r")
        started = subprocess.Popen([sys.executable, "-m", "gpuanon", *run], cwd=tmp_path, env=environment(),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        time.sleep(draws.uniform(0.5, 1.0) * whole)
        os.kill(started.pid, signal.SIGKILL)
        killed = started.wait() == -signal.SIGKILL
        assert execute(socket, "select count(*) from release") == [(3000,)]
        after = execute(socket, "select md5(string_agg(r::text, '')) from release r")
        assert killed or after != before
    tables = execute(socket, "select count(*) from pg_tables where schemaname = 'public'")
    assert tables == [(2,)]
    assert command(tmp_path, "clean", base + "release").returncode == 0
