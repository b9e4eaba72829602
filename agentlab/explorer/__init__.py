"""The explorer: thousands of crash schedules in one process, over the very same harness, judged from outside.

    import agentlab as al

    report = al.explore(my_task)                # every single death, every pair
    print("\n".join(report.lines()))

``explore`` finds the tool that is not idempotent, the state that was kept in a global, the effect that nobody
registered. What it finds is shrunk to the least schedule that still fails and kept as a file that pytest replays.
"""

from __future__ import annotations

from agentlab.explorer.api import Dial, durability_dial, explore, replay, zombie_drill
from agentlab.explorer.report import Report
from agentlab.explorer.schedule import Strike, Violation, parse_schedule, read_schedule

__all__ = [
    "Dial",
    "Report",
    "Strike",
    "Violation",
    "durability_dial",
    "explore",
    "parse_schedule",
    "read_schedule",
    "replay",
    "zombie_drill",
]
