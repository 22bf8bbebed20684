"""Progress on stderr for anything over a second: a bar on a terminal, a line a stage elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from gpuanon.arrays.progress import listening

PATIENCE = 1.0  # seconds of silence that need no explanation
_BETWEEN = 5.0  # seconds between notes, where each is a line of its own


class _Lines:
    """Prints a line for each stage that took longer than a second."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began: dict[str, float] = {}
        self.noted = time.monotonic()

    def note(self, stage: str, text: str) -> None:
        """Print what a stage says, not more often than every few seconds."""
        if time.monotonic() - self.noted > _BETWEEN:
            self.noted = time.monotonic()
            self.console.print(f"{stage}: {text}", highlight=False)

    def __call__(self, stage: str, done: float) -> None:
        if done == 0.0 or stage not in self.began:
            self.began[stage] = time.monotonic()
        if done >= 1.0 and (took := time.monotonic() - self.began.pop(stage)) > PATIENCE:
            self.console.print(f"{stage}: {took:.1f} s", highlight=False)

    def stop(self) -> None:
        """Nothing is to be removed."""


class _Bars:
    """Draws the stages; nothing appears before the run has lasted a second."""

    def __init__(self, console: Console) -> None:
        # Imported here because only terminals have bars.
        from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:<8}"), BarColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True, auto_refresh=True)
        self.began = time.monotonic()
        self.tasks: dict[str, TaskID] = {}
        self.started = False

    def __call__(self, stage: str, done: float) -> None:
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(stage, total=1.0)
        self.progress.update(self.tasks[stage], completed=done)
        if not self.started and time.monotonic() - self.began > PATIENCE:
            self.started = True
            self.progress.start()

    def note(self, stage: str, text: str) -> None:
        """Show what a stage says beside its bar."""
        if stage in self.tasks:
            self.progress.update(self.tasks[stage], description=f"{stage}: {text}")

    def stop(self) -> None:
        """Remove the bars."""
        if self.started:
            self.progress.stop()


@contextmanager
def shown(console: Console, *, quiet: bool) -> Iterator[None]:
    """Show the progress of what is done inside."""
    if quiet:
        yield
        return
    listener = _Bars(console) if console.is_terminal else _Lines(console)
    try:
        with listening(listener):
            yield
    finally:
        listener.stop()
