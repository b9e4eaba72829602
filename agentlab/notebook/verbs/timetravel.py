"""at, restore, fork, diff: the session as it was, going back, going another way, and where two ways part."""

from __future__ import annotations

import argparse

from agentlab.counting import counted
from agentlab.lab.differing import Difference, diff
from agentlab.lab.timetravel import StateAt
from agentlab.notebook.place import model_named
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


def _fork_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="a session's id; the one in hand without it")
    parser.add_argument("--at", type=int, metavar="SEQ", help="the last event to share; the newest without it")
    parser.add_argument("--model", metavar="NAME", help="another model: a name, or a policy defined in a cell")
    parser.add_argument("--policy", metavar="WHEN", help="another checkpoint policy: every=5, steps=1, never …")
    parser.add_argument("--label", default="", metavar="TEXT", help="a name for people")
    parser.add_argument("--id", metavar="ID", help="the id of the new session")
    parser.add_argument("--trust", action="store_true", help="run what another owner defined")
    parser.add_argument("--wake", action="store_true", help="run it at once")


@verb("fork", "a new session that shares the past up to an event", "%agent fork --at 42", _fork_arguments)
def fork(request: Request) -> Said | RunResult:
    """Begin a fork and take it in hand."""
    o = request.options
    parent = request.place.session(o.session)
    model = model_named(o.model, request.namespace)
    made = parent.fork(o.at, model=model, policy=o.policy, label=o.label, session_id=o.id, trust=o.trust)
    request.place.take(made)
    if o.wake:
        made.wake(background=True, trust=o.trust)
        return finish(made)
    told = len(made.effects_on_record())
    record = counted(told, "effect is", "effects are")
    sentence = f"shares events 1 to {made.log.base.seq} of {parent.id}; {record} on record and not repeated"
    return Said(made.id, sentence, next_commands(made), made)


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", help="a session's id")
    parser.add_argument("b", help="another session's id")


@verb("diff", "where two sessions part: event, calls, cost, outcome", "%agent diff A B", _diff_arguments)
def differ(request: Request) -> Difference:
    """Compare two sessions of the lab."""
    lab = request.place.lab
    return diff(lab.session(request.options.a), lab.session(request.options.b))
