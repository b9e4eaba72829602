"""The pytest plugin: crash schedules as tests.

    def test_my_agent(agent_explorer):
        agent_explorer.check(my_task, pairs=True)

A schedule that breaks a promise fails the test, shrunk, and is kept as ``*.schedule.json`` in the folder that the
option ``--agentlab-schedules`` names (without it beside the test). Such files are collected again as tests of their
own whose task is found by its name or module: beside tests, in that folder, or where the line of pytest names the file or
its folder. What an exploration outside of tests kept (in ``./schedules``) is no test until then.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agentlab.explorer import Report

SUFFIX = ".schedule.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that says where failing schedules are kept."""
    group = parser.getgroup("agentlab")
    group.addoption("--agentlab-schedules", metavar="FOLDER", help="keep schedules that fail in this folder")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Kept schedules are tests where tests are, or where they are asked for."""
    if file_path.name.endswith(SUFFIX) and _asked_for(file_path, parent.config) and _ours(file_path):
        collected: pytest.Collector = ScheduleFile.from_parent(parent, path=file_path)
        return collected
    return None


def _asked_for(path: Path, config: pytest.Config) -> bool:
    given, here = config.getoption("--agentlab-schedules"), config.invocation_params.dir
    if given and (here / given).resolve() == path.parent.resolve():
        return True
    named = {(here / str(arg).partition("::")[0]).resolve() for arg in config.args} - {here, config.rootpath}
    if not named.isdisjoint((path.resolve(), path.parent.resolve())):
        return True
    patterns = config.getini("python_files")
    return any(fnmatch(one.name, pattern) for pattern in patterns for one in path.parent.glob("*.py"))


def _ours(path: Path) -> bool:
    """Whether a file looks like a kept schedule: other tools may use the same ending."""
    try:
        head = path.read_text(encoding="utf-8")[:10_000]
    except (OSError, UnicodeDecodeError):
        return False
    return '"invariant"' in head and '"schedule"' in head


class ScheduleFile(pytest.File):
    """A kept schedule; one test."""

    def collect(self) -> Iterator[pytest.Item]:
        """The one test in it."""
        yield ScheduleItem.from_parent(self, name=self.path.name.removesuffix(SUFFIX))


class ScheduleItem(pytest.Item):
    """Runs a kept schedule; passes when it breaks no promise any more."""

    def runtest(self) -> None:
        """Run it."""
        from agentlab.explorer import read_schedule, replay

        found = replay(*read_schedule(self.path))
        if found:
            raise BrokenPromise("; ".join(f"{invariant}: {message}" for invariant, message in found))

    def repr_failure(self, excinfo: Any, style: Any = None) -> str:
        """One line: what is broken needs no traceback."""
        if isinstance(excinfo.value, BrokenPromise):
            return f"{self.path}: {excinfo.value}"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands."""
        return self.path, None, f"schedule {self.name}"


class BrokenPromise(AssertionError):
    """A schedule ended otherwise than promised."""


class AgentExplorer:
    """Explores tasks within a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def check(self, task: Any, *, pairs: bool = False, **options: Any) -> Report:
        """Explore ``task`` and fail with the least schedule of every kind of violation; options as for ``explore``.

        Raises:
            BrokenPromise: the schedules, ready to be pasted behind ``--crash``.
        """
        __tracebackhide__ = True
        from agentlab.explorer import explore

        report = explore(task, pairs=pairs, **{"keep": self._folder, **options})
        if not report.clean:
            raise BrokenPromise("\n".join(str(violation) for violation in report.violations))
        return report


@pytest.fixture
def agent_explorer(request: pytest.FixtureRequest) -> AgentExplorer:
    """An :class:`AgentExplorer` that keeps failing schedules beside the test."""
    given = request.config.getoption("--agentlab-schedules")
    folder = Path(given) if given else Path(str(request.path)).parent
    return AgentExplorer(folder)
