"""Progress on stderr for anything over a second: a bar on a terminal, a line a stage elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from gpuanon.arrays.progress import listening

PATIENCE = 1.0  # seconds of silence that need no explanation


class _Bars:
    """Draws the stages; nothing appears before the run has lasted a second."""

    def __init__(self, console: Console) -> None:
        columns = (TextColumn("{task.description:<8}"), BarColumn(), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True, auto_refresh=True)
        self.console, self.began = console, time.monotonic()
        self.tasks: dict[str, TaskID] = {}
        self.stage_began: dict[str, float] = {}
        self.started = False

    def __call__(self, stage: str, done: float) -> None:
        if done == 0.0 or stage not in self.stage_began:
            self.stage_began[stage] = time.monotonic()
        if self.console.is_terminal:
            self._bar(stage, done)
        elif done >= 1.0 and (took := time.monotonic() - self.stage_began.pop(stage)) > PATIENCE:
            self.console.print(f"{stage}: {took:.1f} s", highlight=False)

    def _bar(self, stage: str, done: float) -> None:
        if stage not in self.tasks:
            self.tasks[stage] = self.progress.add_task(stage, total=1.0)
        self.progress.update(self.tasks[stage], completed=done)
        if not self.started and time.monotonic() - self.began > PATIENCE:
            self.started = True
            self.progress.start()


@contextmanager
def shown(console: Console, *, quiet: bool) -> Iterator[None]:
    """Show the progress of what is done inside."""
    if quiet:
        yield
        return
    bars = _Bars(console)
    try:
        with listening(bars):
            yield
    finally:
        if bars.started:
            bars.progress.stop()
