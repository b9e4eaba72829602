"""``agentlab explore TASK``: the explorer from the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentlab.explorer.api import always_replayed, durability_dial, explore, replay, zombie_drill
from agentlab.explorer.report import Report
from agentlab.explorer.schedule import read_schedule


def run_explore(options: argparse.Namespace) -> int:
    """Explore as the options say; 0 when every promise was kept."""
    if options.replay:
        return _replay(options)
    if options.schedule:
        return _told(options, replay(options.task, options.schedule.split(",")))
    if options.dial:
        return _dial(options)
    if options.replayed:
        return _told(options, always_replayed(options.task))
    report = explored(options, options.task)
    show(options, report.to_json(), report.lines)
    return 0 if report.clean else 1


def explored(options: argparse.Namespace, task: Any) -> Report:
    """The exploration, or the drill, that the options ask for."""
    if options.zombie:
        return zombie_drill(task)
    return explore(
        task,
        pairs=options.pairs,
        seconds=options.seconds,
        seed=options.seed,
        merge=not options.no_merge,
        time_limit_s=options.time_limit,
        budget_s=options.budget,
        keep=Path(options.keep),
    )


def _replay(options: argparse.Namespace) -> int:
    _, schedule = read_schedule(Path(options.replay))
    return _told(options, replay(options.task, schedule))


def _told(options: argparse.Namespace, found: list[tuple[str, str]]) -> int:
    shown = [{"invariant": invariant, "message": message} for invariant, message in found]
    show(options, shown, lambda: [f"{i}: {m}" for i, m in found] or ["every promise was kept"])
    return 1 if found else 0


def _dial(options: argparse.Namespace) -> int:
    rows = durability_dial(options.task)
    head = f"{'durability':<12}{'death':<10}{'schedules':>10}{'events lost':>13}{'worst':>7}{'sessions lost':>15}{'broken':>8}"
    show(
        options,
        [row.to_json() for row in rows],
        lambda: [head, *(
            f"{r.durability:<12}{r.death:<10}{r.schedules:>10}{r.lost_events:>13}{r.worst:>7}{r.lost_sessions:>15}"
            f"{r.violations:>8}" for r in rows
        )],
    )  # fmt: skip
    return 0


def show(options: argparse.Namespace, value: Any, lines: Callable[[], list[str]]) -> None:
    print(json.dumps(value, ensure_ascii=False) if options.json else "\n".join(lines()))
