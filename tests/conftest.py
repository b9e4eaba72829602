"""The package is compiled once, long files come first, examples are drawn alike, and what was counted stands at the end."""

from __future__ import annotations

import compileall
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import agentlab

settings.register_profile("steady", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
"""The same examples everywhere and every time, and none fails because the machine was slow."""

LONG = (
    "e2e/test_real_kills.py", "notebook/test_browser.py", "explorer/test_real.py", "explorer/test_explorer.py",
    "explorer/test_mutations.py", "notebook/test_panel.py", "cli/test_cli.py", "e2e/test_anthropic_session.py",
    "explorer/test_schedules.py", "analysis/test_plots.py", "notebook/test_kernel.py", "e2e/test_bad_input.py",
    "notebook/test_analysing.py", "e2e/test_recordings.py", "e2e/test_effects_outside.py", "harness/test_crash_matrix.py",
)  # fmt: skip
"""Files of a minute or so, each of which one process runs alone: begun last, they would keep the others waiting."""


def pytest_configure(config: pytest.Config) -> None:
    """Where no bytecode is written (PYTHONDONTWRITEBYTECODE) each of the thousands of children would compile it all again."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(agentlab.__file__).parent, quiet=2)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files and lessons first, everything else in the random order that it has."""
    items.sort(key=lambda item: not item.nodeid.partition("::")[0].endswith((".ipynb", *LONG)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What a test hands over as ``record_property("figures", text)`` stands at the end of the run."""
    said = [
        (report.nodeid, value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for name, value in report.user_properties
        if name == "figures" and report.when == "call"
    ]
    if said:
        terminalreporter.section("figures")
    for place, text in said:
        terminalreporter.write_line(f"{place.rpartition('::')[2]}: {text}")
