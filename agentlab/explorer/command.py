"""``agentlab explore TASK``: the explorer from the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentlab.explorer.api import durability_dial, explore, replay, zombie_drill
from agentlab.explorer.schedule import read_schedule


def run_explore(options: argparse.Namespace) -> int:
    """Explore as the options say; 0 when every promise was kept."""
    if options.replay:
        return _replay(options)
    if options.dial:
        return _dial(options)
    if options.drill:
        report = zombie_drill(options.task)
    else:
        report = explore(
            options.task,
            pairs=not options.single,
            seconds=options.seconds,
            seed=options.seed,
            merge=not options.no_merge,
            time_limit_s=options.time_limit,
            keep=Path(options.keep),
        )
    _show(options, report.to_json(), report.lines)
    return 0 if report.clean else 1


def _replay(options: argparse.Namespace) -> int:
    _, schedule = read_schedule(Path(options.replay))
    found = replay(options.task, schedule)
    shown = [{"invariant": invariant, "message": message} for invariant, message in found]
    _show(options, shown, lambda: [f"{i}: {m}" for i, m in found] or ["every promise was kept"])
    return 1 if found else 0


def _dial(options: argparse.Namespace) -> int:
    rows = durability_dial(options.task)
    head = f"{'durability':<12}{'death':<10}{'schedules':>10}{'events lost':>13}{'worst':>7}{'broken':>8}"
    _show(
        options,
        [row.to_json() for row in rows],
        lambda: [head, *(
            f"{r.durability:<12}{r.death:<10}{r.schedules:>10}{r.lost_events:>13}{r.worst:>7}{r.violations:>8}" for r in rows
        )],
    )  # fmt: skip
    return 0


def _show(options: argparse.Namespace, value: Any, lines: Callable[[], list[str]]) -> None:
    print(json.dumps(value, ensure_ascii=False) if options.json else "\n".join(lines()))
