"""ps and reap: the processes that agentlab owns for a lab, and ending the stray ones."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from agentlab.notebook.display import mode
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.views import Said, TableView
from agentlab.supervisor.ps import Owned

_HEADS = ("process", "session", "pid", "started", "state", "owner")


@verb("ps", "the processes that agentlab owns for this lab")
def ps(request: Request) -> TableView:
    """Keepers, harnesses, sandboxes and tool hosts on record, oldest first, with whether they live."""
    found = request.place.lab.processes()
    return TableView("processes of this lab", _HEADS, rows(found))


def rows(found: Sequence[Owned]) -> tuple[tuple[str, ...], ...]:
    """One row each; in plain mode without pids and clocks, which change from run to run."""
    plain = mode() == "plain"
    return tuple(
        (
            one.kind,
            one.session or "—",
            "…" if plain else str(one.pid),
            "…" if plain else time.strftime("%H:%M:%S", time.localtime(one.started_at_us / 1e6)),
            one.alive,
            "this kernel" if _mine(one) else "another",
        )
        for one in found
    )


def _mine(one: Owned) -> bool:
    import os

    return int(one.owner.get("pid", 0)) == os.getpid()


def _reap_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--orphans", action="store_true", help="only those whose keeper is dead")


@verb("reap", "end processes whose owner is gone (SIGKILL, start time checked)", "%agent reap", _reap_arguments)
def reap(request: Request) -> Said:
    """End what nobody owns any more. Sessions stay and can be woken."""
    killed = request.place.lab.reap(orphans_only=request.options.orphans)
    if not killed:
        return Said("reap", "nothing to end: every process of this lab has a living owner")
    words = ", ".join(f"{one.kind} of {one.session or 'the lab'} (pid {one.pid})" for one in killed)
    return Said("reap", f"ended {words}", {"%agent sessions": "what can be woken"}, value=killed)
