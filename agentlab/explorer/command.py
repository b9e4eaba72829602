"""``agentlab explore TASK``: the explorer from the command line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentlab.explorer.api import (
    Replayed,
    always_replayed,
    durability_dial,
    explore,
    replayed,
    replayed_file,
    zombie_drill,
)
from agentlab.explorer.report import Report


def run_explore(options: argparse.Namespace) -> int:
    """Explore as the options say; 0 when every promise was kept."""
    found = retold(options, options.task)
    if found is not None:
        show(options, found.to_json(), found.lines)
        return 1 if found.found else 0
    if options.dial:
        return _dial(options)
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
        faults=options.faults,
    )


def retold(options: argparse.Namespace, task: Any) -> Replayed | None:
    """The one run that the options ask for instead of an exploration, judged; None when they ask for none."""
    if options.replay:
        return replayed_file(task, Path(options.replay))
    if options.schedule:
        return replayed(task, options.schedule.split(","))
    if options.replayed:
        return Replayed(tuple(always_replayed(task)))
    return None


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
