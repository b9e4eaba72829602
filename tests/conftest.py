"""What a test has counted or measured and hands over as ``record_property("figures", text)`` stands at the end of the run."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
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
