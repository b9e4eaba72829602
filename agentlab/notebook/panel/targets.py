"""What a fault is about to strike: process, pid and start time, in words for a person."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from agentlab import process
from agentlab.notebook.panel.allowed import Moment


def record_of(now: Moment, target: str) -> Mapping[str, Any]:
    """The record of the process that ``target`` names; empty when there is none."""
    return now.state.process if target == "harness" else now.state.sandbox.record


def target_words(now: Moment, target: str) -> str:
    """Which process that is and whether it still is the one on record."""
    record = record_of(now, target)
    if not record:
        return f"no {target} yet"
    found = process.liveness(record)
    if found == "unknown":
        return f"{target} on host {record.get('host')}: out of reach"
    if found == "dead":
        return f"{target} pid {record['pid']}: dead already"
    frozen = ", stopped" if process.stopped(int(record["pid"])) else ""
    return (
        f"{target} pid {record['pid']}, started {started_words(str(record['start_time']))}, start time matches{frozen}"
    )


def started_words(start_time: str) -> str:
    """A start time of :mod:`agentlab.process` as the clock shows it."""
    if not start_time.isdigit():
        return start_time
    try:
        with open("/proc/stat", encoding="ascii") as file:
            boot = next(int(line.split()[1]) for line in file if line.startswith("btime"))
    except (OSError, StopIteration, ValueError):
        return f"at tick {start_time}"
    return time.strftime("%H:%M:%S", time.localtime(boot + int(start_time) / os.sysconf("SC_CLK_TCK")))
