"""lab, where and queue: which folder, which session, who runs and who waits, and what to do now."""

from __future__ import annotations

import argparse

from agentlab.counting import counted
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.views import LabView, StatusView, TableView
from agentlab.pool.words import session_limit


def _lab_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", help="a folder; it need not exist yet")
    parser.add_argument(
        "--max-sessions",
        type=session_limit,
        metavar="N",
        help="how many of its sessions run at once, for every process that uses it; none for no limit",
    )


@verb("lab", "choose the folder where sessions live (./lab without it)", "%agent lab ./lab", _lab_arguments)
def lab(request: Request) -> LabView:
    """Take a lab in hand, or say which one is."""
    if request.options.path is not None:
        request.place.go(request.options.path)
    chosen = request.place.lab
    if request.options.max_sessions is not None:
        chosen.queue.limit(request.options.max_sessions or None)
    return LabView(chosen, len(chosen.store.sessions()))


@verb("queue", "which sessions run, which wait for a place, in order")
def queue(request: Request) -> TableView:
    """The lab's queue; empty while the lab sets no limit."""
    waiting = request.place.lab.queue
    rows = tuple((p.session_id, p.place or "runs", p.ticket) for p in waiting.places())
    limit = waiting.max_sessions
    title = "queue: no limit" if limit is None else f"queue: at most {counted(limit, 'session')} at once"
    return TableView(title, ("session", "place", "ticket"), rows)


@verb("where", "the lab and session in hand, and what can be done next", "%agent")
def where(request: Request) -> LabView:
    """Say where the notebook is. Changes nothing."""
    chosen = request.place.lab
    count = len(chosen.store.sessions())
    return LabView(chosen, count, StatusView.of(request.place.session()) if count else None)
