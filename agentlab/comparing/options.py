"""The options of ``%agent compare`` and ``agentlab compare``; light, because every start of the command line reads them."""

from __future__ import annotations

import argparse
import re
from typing import Any

from agentlab.errors import BadDefinition

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|m|min|h|d)?")
_UNITS = {None: 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
_PAIR = re.compile(r"([a-z_]+)[=:](.+)")

FAULTS = ("poisson", "weibull", "bursty", "deadline", "crash_loop", "times")
MODES = ("simulated", "real", "what-if")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    add = parser.add_argument
    add("task", help="a task, or package.module[:NAME]; for what-if a recorded session")
    add(
        "--policy", action="append", default=[], metavar="WHEN",
        help="a checkpoint policy: every=1,5,20 (three of them), seconds=30, milestones, daly, never …",
    )  # fmt: skip
    add(
        "--scheme",
        action="append",
        default=[],
        choices=("hybrid", "events", "snapshot"),
        help="what a recovery rests on",
    )
    add("--mtbf", metavar="TIME", help="mean time between crashes: 60s, 5m, 2h")
    add(
        "--faults", metavar="PROCESS",
        help="another failure process: weibull:shape=0.7, bursty, deadline:60s, crash_loop:20, times:FILE",
    )  # fmt: skip
    add("--target", choices=("both", "harness", "sandbox"), default="both", help="what a crash kills")
    add("--seeds", type=int, default=20, metavar="N", help="runs of each condition (20)")
    add(
        "--mode",
        choices=MODES,
        default="simulated",
        help="simulated, real (child processes, SIGKILL), what-if (no model)",
    )
    add("--baseline", metavar="WHEN", help="what the others are compared with (the first one)")
    add("--model", metavar="NAME", help="another model than the task's")
    add("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the task")
    add("--workers", type=int, metavar="N", help="processes that run at once (one per core)")
    add("--name", metavar="ID", help="the experiment's own session; an unfinished one is gone on with")


def policies(options: argparse.Namespace) -> list[str]:
    """The policies that were asked for; the default one without any."""
    return list(options.policy) or ["default"]


def failure_process(mtbf: str | None, faults: str | None) -> Any:
    """The failure process that ``--mtbf`` and ``--faults`` mean, None for no crash.

    Raises:
        BadDefinition, UnknownName: no such process, or a number that is missing.
    """
    from agentlab.errors import UnknownName
    from agentlab.failures import Times, from_json

    if faults is None:
        return None if mtbf is None else from_json({"kind": "exponential", "mtbf": seconds(mtbf)})
    name, _, rest = faults.partition(":")
    kind = name.strip().replace("-", "_")
    if kind not in (*FAULTS, "exponential"):
        raise UnknownName("failure process", name, FAULTS)
    if kind == "times":
        return Times.load(rest)
    data: dict[str, Any] = {"kind": "exponential" if kind == "poisson" else kind}
    if mtbf is not None:
        data["mtbf"] = seconds(mtbf)
    for part in filter(None, (p.strip() for p in rest.split(","))):
        pair = _PAIR.fullmatch(part)
        field = pair[1] if pair else _PLAIN[data["kind"]]
        data[field] = _number(field, pair[2] if pair else part)
    return from_json(data)


_PLAIN = {
    "exponential": "mtbf",
    "weibull": "shape",
    "bursty": "burst_fraction",
    "deadline": "period_s",
    "crash_loop": "at_event",
}
"""The field that a bare value means."""
_COUNTS = ("at_event", "kills")


def _number(field: str, text: str) -> float | int:
    if field in ("shape", "burst_fraction", *_COUNTS):
        try:
            return int(text) if field in _COUNTS else float(text)
        except ValueError:
            raise BadDefinition(f"--faults: {field} is a number, not {text!r}") from None
    return seconds(text)


def seconds(text: str) -> float:
    """``60``, ``60s``, ``5m``, ``2h`` or ``250ms`` as seconds.

    Raises:
        BadDefinition: it is none of these.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise BadDefinition(f"{text!r} is no time: write 60s, 5m, 2h or 250ms")
    return float(match[1]) * _UNITS[match[2]]
