"""The command line.  Results on stdout (``--json`` for machines), progress and log on stderr.

Exit codes: 0 done; 1 a guarantee or limit was not met (nothing written); 2 bad usage, recipe or input.
"""

from __future__ import annotations

import atexit
import copy
import gc
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from gpuanon.arrays import progress
from gpuanon.cli import measuring, releasing, telling
from gpuanon.cli.printing import err, print_result
from gpuanon.errors import GpuanonError, Remark
from gpuanon.tables.formats.places import PLACED
from gpuanon.version import __version__

app = typer.Typer(
    name="gpuanon",
    help="Mask a registry, verify what the release promises, measure risk and utility.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a pretty traceback shows local variables: cell values
)


def examples(*commands: str) -> str:
    """Commands as they stand below the help of a command."""
    return "\n\n".join(["Examples:", *commands])


# In the order of the help.
app.command(
    epilog=examples(
        "gpuanon init registry.csv -o recipe.toml",
        "gpuanon init registry.parquet --for public-use --yes -o recipe.toml",
        "gpuanon init notes.csv --csv newlines=true --csv 'separator=|' -o recipe.toml",
    )
)(releasing.init)
app.command(epilog=examples("gpuanon recipes", "gpuanon init registry.csv --for training"))(releasing.recipes)
app.command(
    epilog=examples(
        "gpuanon protect registry.parquet recipe.toml -o release.parquet --report report.html",
        "gpuanon protect registry/ recipe.toml -o release/ --workers 8 --key-file key --resume",
    )
)(releasing.protect)
app.command(
    epilog=examples(
        "gpuanon assess registry.parquet release.parquet --recipe recipe.toml --link link.csv",
        "gpuanon assess registry.csv release.csv --recipe recipe.toml --measures k_anonymity,suda2 --json",
    )
)(measuring.assess)
app.command(epilog=examples("gpuanon compare registry.parquet recipe.toml other.toml --report map.html"))(
    measuring.compare
)
app.command(epilog=examples("gpuanon intervals release.parquet --statistic mean --statistic 'correlation(a, b)'"))(
    measuring.intervals
)
app.command(epilog=examples("gpuanon demo --rows 10000 --report story.html"))(releasing.demo)
app.command(epilog=examples("gpuanon clean release.parquet"))(releasing.clean)
app.command(epilog=examples("gpuanon check recipe.toml", "gpuanon check registry.parquet recipe.toml"))(releasing.check)
app.command(epilog=examples("gpuanon methods", "gpuanon methods --json"))(telling.methods)
app.command(epilog=examples("gpuanon measures", "gpuanon measures --json"))(telling.measures)
app.command(epilog=examples("gpuanon explain microaggregation", "gpuanon explain suda2", "gpuanon explain mdav"))(
    telling.explain
)
app.command(epilog=examples("gpuanon schema > recipe.schema.json", "gpuanon schema --of assess"))(telling.schema)
app.command(epilog=examples("gpuanon doctor", "gpuanon doctor --full"))(telling.doctor)


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="print the version")] = False) -> None:
    """Mask a registry, verify what the release promises, measure risk and utility."""
    if version:
        print(f"gpuanon {__version__}")
        raise typer.Exit


class Terminated(BaseException):
    """SIGTERM, which batch systems send: to be cleaned up after like an interrupt."""


class Interrupted(BaseException):
    """SIGINT (Ctrl-C).  Not a `KeyboardInterrupt`, which typer turns into an exit without a message."""


def main() -> None:
    """Run the command line; every failure is one clear message and an exit code."""
    gc.set_threshold(100_000, 50, 50)  # imports make many objects that stay: a tenth of the time of a small run
    # The end of the process frees all memory: searching it first takes as long again.  DuckDB prints what is not freed.
    atexit.register(lambda: None if "duckdb" in sys.modules else gc.freeze())
    # Pydantic asks every installed package for a plugin, which would be shown every recipe.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    PLACED.clear()
    signal.signal(signal.SIGTERM, lambda number, frame: progress.interrupt(Terminated()))
    signal.signal(signal.SIGINT, lambda number, frame: progress.interrupt(Interrupted()))
    try:
        _run(_only(sys.argv[1:2]))
    except GpuanonError as error:
        _fail(str(error), error.exit_code, error)
    except (Interrupted, KeyboardInterrupt) as error:
        _fail(f"interrupted; {_written()}", 130, error)
    except Terminated as error:
        _fail(f"terminated; {_written()}", 143, error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:  # its text says what failed and at which file, and quotes no cell
        if os.environ.get("GPUANON_DEBUG"):
            raise
        file = f"{error.filename}: " if error.filename else ""
        _fail(f"{file}{os.strerror(error.errno) if error.errno else 'input/output error'}; {_written()}", 2, error)
    except MemoryError as error:
        _fail(f"out of memory; {_written()}\nHint: --workers spreads the work over parts that fit", 2, error)
    except Exception as error:  # an unforeseen error's own text may quote a cell
        where = traceback.extract_tb(error.__traceback__)[-1]
        if os.environ.get("GPUANON_DEBUG"):
            raise
        place = f"{Path(where.filename).name}:{where.lineno}"
        _fail(
            f"internal error: {type(error).__name__} at {place}; {_written()}\n"
            "Hint: GPUANON_DEBUG=1 shows the whole traceback, which may quote cell values",
            2,
            error,
        )


def _run(command: typer.Typer) -> None:
    """Run the command.  An error after a request to stop is that request: an import may turn one into the other."""
    try:
        sys.exit(command(standalone_mode="--json" not in sys.argv) or 0)
    except Exception as error:
        if hasattr(error, "format_message"):  # typer's own, on bad usage
            _fail(error.format_message(), 2, error)
        request = progress.interrupt_requested()
        if request is None:
            raise
        for note in getattr(error, "__notes__", ()):
            request.add_note(note)
        raise request from error


def _only(names: list[str]) -> typer.Typer:
    """The app with the named command alone: typer builds every command that an app has before it runs one."""
    called = [command for command in app.registered_commands if getattr(command.callback, "__name__", "") in names]
    if not called:
        return app
    only = copy.copy(app)
    only.registered_commands = called
    return only


def _written() -> str:
    """What a run that failed has written, for its message."""
    left = [str(path) for path in PLACED if path.exists()]  # files of a workspace went with it
    return f"these files were written before: {', '.join(left)}" if left else "nothing was written"


def _fail(message: str, code: int, error: BaseException) -> None:
    """Print the message, and the notes that the run added to the error: what is left, and where.

    With ``--json`` the same is on stdout as JSON.
    """
    notes = [note for note in getattr(error, "__notes__", ()) if isinstance(note, Remark)]
    if "--json" in sys.argv:
        text, _, hint = message.partition("\nHint: ")
        what = {"type": type(error).__name__, "message": text, "hint": hint or None, "notes": notes}
        print_result({"error": {**what, "exit_code": code}})
    err.print("\n".join([f"error: {message}", *notes]), style="red", markup=False, highlight=False, soft_wrap=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
