"""at, restore: look at the session as it was, and go back to a checkpoint."""

from __future__ import annotations

import argparse

from agentlab.lab.timetravel import StateAt
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.results import RunResult, next_commands
from agentlab.notebook.verbs.running import finish
from agentlab.notebook.views import Said


def _at_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("seq", type=int, help="an event's number")
    parser.add_argument("--session", metavar="ID", help="a session's id; the one in hand without it")


@verb("at", "the session as it was right after an event", "%agent at 42", _at_arguments)
def at(request: Request) -> StateAt:
    """Fold the log up to an event and show the state; nothing is written."""
    o = request.options
    return request.place.session(o.session).at(o.seq)


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", help="the number of its event, its id, its label, or newest")
    parser.add_argument("--session", metavar="ID", help="a session's id; the one in hand without it")
    parser.add_argument("--wake", action="store_true", help="go on from there at once")


@verb("restore", "go back to a checkpoint by appending; nothing is erased", "%agent restore newest", _restore_arguments)
def restore(request: Request) -> Said | RunResult:
    """Ask for it; the harness does it at its next safe point, or at wake."""
    o = request.options
    session = request.place.session(o.session)
    there = session.restore(o.checkpoint)
    if o.wake:
        session.wake(background=True)
        return finish(session)
    when = "at its next safe point" if session.status().status == "running" else "with the next wake"
    sentence = f"goes back to the checkpoint at event {there.seq} {when}; nothing is erased"
    return Said(session.id, sentence, next_commands(session), session, there)
