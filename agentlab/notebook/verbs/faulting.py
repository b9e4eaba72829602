"""inject, faults: arm what is to go wrong, in a running session too, and see what has struck."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from agentlab.faults import NAMED
from agentlab.faults.kinds import ACTIONS, KINDS, PLACES, PROCESSES, TARGETS
from agentlab.faults.spec import points
from agentlab.lab.faulting import fault_rows
from agentlab.notebook.completion import SOURCES
from agentlab.notebook.faultviews import FaultsView, KindsView
from agentlab.notebook.registry import Request, verb


def _inject_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "fault", nargs="+", metavar="FAULT", help="harness@tool_result, model:529*3, tool(notify):lost_reply …"
    )
    parser.add_argument("--session", metavar="ID", help="a session's id; the one in hand without it")
    parser.add_argument("--seed", type=int, help="the seed of random times, recorded with the faults")


@verb("inject", "arm faults in a session, running or resting", "%agent inject model:529*3", _inject_arguments)
def inject(request: Request) -> FaultsView:
    """Arm: a living harness takes it up before its next command."""
    o = request.options
    session = request.place.session(o.session)
    session.inject(o.fault, seed=o.seed)
    return FaultsView(session, tuple(fault_rows(session.replay())))


def _faults_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="a session's id; the one in hand without it")
    parser.add_argument("--kinds", action="store_true", help="what can go wrong, in the words to write it")


@verb(
    "faults", "what is armed in a session and what has struck; --kinds lists what there is", arguments=_faults_arguments
)
def faults(request: Request) -> FaultsView | KindsView:
    """The table of faults."""
    if request.options.kinds:
        return KindsView()
    session = request.place.session(request.options.session)
    return FaultsView(session, tuple(fault_rows(session.replay())))


def _words(namespace: Mapping[str, Any]) -> Iterable[str]:
    places = [*points(), "step=", "seq=", "after=", *(f"{name}=" for name in PROCESSES)]
    yield from NAMED
    yield from (f"{target}@{place}" for target in TARGETS for place in places)
    yield from (f"{action}:harness@{place}" for action in ACTIONS if action != "kill" for place in points())
    for service, kinds in KINDS.items():
        yield from (f"{service}:{kind}" for kind in kinds)
    yield from (f"disk:{kind}@{place}" for kind in KINDS["disk"] for place in PLACES)


SOURCES["fault"] = _words
SOURCES["crash"] = _words
