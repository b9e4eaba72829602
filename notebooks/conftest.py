"""Lessons are tests: every cell against its kept output (nbval), then *Restart and run all* in the same lab folder.

A lesson puts its lab into a folder that goes away with the kernel. Here it is a folder that stays, as people have it for
their own work: nbval's run of the cells fills it, and a fresh kernel runs them all again beside what is there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbval import kernel as nbval_kernel

from agentlab.lab import Lab
from tests.kernels import OwnSockets, start_kernel

PASSING_LAB = "{home.name}/lab"
"""How a lesson names its lab."""
CELL_TIMEOUT_S = 120
OUTPUT_TIMEOUT_S = 60
"""How long the output of a cell that has been answered may take; nbval gives it five seconds."""
LESSON_TIMEOUT_S = 600
nbval_kernel.KernelManager = OwnSockets
KEPT = pytest.StashKey[tempfile.TemporaryDirectory]()  # type: ignore[type-arg]


def kept_lab(config: pytest.Config, lesson: Path) -> Path:
    """The folder of this test run that is the lab of ``lesson``."""
    if KEPT not in config.stash:
        config.stash[KEPT] = tempfile.TemporaryDirectory(prefix="agentlab-lessons-", ignore_cleanup_errors=True)
    return Path(config.stash[KEPT].name, lesson.stem, "lab")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The labs go away with the test run; a worker that has said that it is done is cut short in whatever it does later."""
    if KEPT in session.config.stash:
        session.config.stash[KEPT].cleanup()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Beside nbval's cells each lesson is one test more."""
    if file_path.suffix != ".ipynb" or not getattr(parent.config.option, "nbval", False):
        return None
    collected: pytest.Collector = Lesson.from_parent(parent, path=file_path)
    return collected


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the cells before all other tests, notebook by notebook, from the top: each notebook has one kernel."""
    cells = [item for item in items if hasattr(item, "cell_num")]
    others = [item for item in items if not hasattr(item, "cell_num")]
    items[:] = [*sorted(cells, key=lambda cell: (str(cell.path), cell.cell_num)), *others]
    for cell in cells:
        if hasattr(cell, "cell"):
            cell.cell.source = cell.cell.source.replace(PASSING_LAB, str(kept_lab(config, cell.path)))
            cell.output_timeout = OUTPUT_TIMEOUT_S


class Lesson(pytest.File):
    """A lesson as a whole: one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """The one test in it."""
        yield RunAgain.from_parent(self, name="restart and run all again")


class RunAgain(pytest.Item):
    """All cells in a fresh kernel, in the lab folder of the run before. Nothing fails, and nothing of that run is lost.

    Outputs are not compared: the second time sessions have other names. Where the cells have not been run (they were not
    asked for) they are run here first, in a kernel of their own.
    """

    cell_num = 1_000_000  # behind the cells of the same lesson

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.add_marker(pytest.mark.timeout(LESSON_TIMEOUT_S))

    def runtest(self) -> None:
        """Run it, and look at the lab before and after."""
        folder = kept_lab(self.config, self.path)
        source = nbformat.read(self.path, as_version=4)
        cells = [c.source.replace(PASSING_LAB, str(folder)) for c in source.cells if c.cell_type == "code"]
        if not folder.exists():
            run_all(cells, self.path.parent)
        before = sessions(folder)
        run_all(cells, self.path.parent)
        assert before and before <= sessions(folder), f"of the first run {before - sessions(folder)} are lost"

    def reportinfo(self) -> tuple[Path, int, str]:
        """How the report names it."""
        return self.path, 0, f"{self.path.name}: restart and run all again"


def run_all(cells: list[str], folder: Path) -> None:
    """Run ``cells`` in a kernel of their own.

    Raises:
        AssertionError: a cell failed.
    """
    manager, client = start_kernel(cwd=str(folder))
    try:
        for source in cells:
            reply = client.execute_interactive(
                source, timeout=CELL_TIMEOUT_S, allow_stdin=False, output_hook=lambda message: None
            )["content"]
            assert reply["status"] == "ok", f"{reply.get('ename')}: {reply.get('evalue')}\nin the cell\n{source}"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)


def sessions(folder: Path) -> set[str]:
    """The sessions of a lab, none of them damaged."""
    with Lab(folder) as lab:
        statuses = lab.statuses()
    assert "damaged" not in {status.status for status in statuses}
    return {status.session_id for status in statuses}
