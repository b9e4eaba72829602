"""Before the first test the package is compiled once; after the last, what tests have counted stands on the terminal."""

from __future__ import annotations

import compileall
from pathlib import Path
from typing import Any

import pytest

import agentlab


def pytest_configure(config: pytest.Config) -> None:
    """Where no bytecode is written (PYTHONDONTWRITEBYTECODE) each of the thousands of children would compile it all again."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(agentlab.__file__).parent, quiet=2)


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
