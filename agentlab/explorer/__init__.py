"""The explorer: thousands of crash schedules in one process, over the very same harness, judged from outside.

    import agentlab as al

    report = al.explore(my_task)                # every single death, every pair
    print("\\n".join(report.lines()))

``explore`` finds the tool that is not idempotent, the state that was kept in a global, the effect that nobody
registered. What it finds is shrunk to the least schedule that still fails and kept as a file that pytest replays.
Names load when first used: tools import :mod:`agentlab.explorer.outbox` in processes whose start is recovery time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentlab.explorer.api import Dial, always_replayed, durability_dial, explore, replay, zombie_drill
    from agentlab.explorer.report import Report
    from agentlab.explorer.schedule import Strike, Violation, parse_schedule, read_schedule

_HOMES = {
    "Dial": "api",
    "Report": "report",
    "Strike": "schedule",
    "Violation": "schedule",
    "always_replayed": "api",
    "durability_dial": "api",
    "explore": "api",
    "parse_schedule": "schedule",
    "read_schedule": "schedule",
    "replay": "api",
    "zombie_drill": "api",
}

__all__ = [
    "Dial",
    "Report",
    "Strike",
    "Violation",
    "always_replayed",
    "durability_dial",
    "explore",
    "parse_schedule",
    "read_schedule",
    "replay",
    "zombie_drill",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
