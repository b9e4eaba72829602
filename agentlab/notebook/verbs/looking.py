"""status, log, locate, verify, sessions, tasks, help: reading, which never changes anything."""

from __future__ import annotations

import argparse

from agentlab import authoring
from agentlab.counting import counted
from agentlab.notebook.parsing import VerbParser, verb_named
from agentlab.notebook.place import tasks_in
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.verbs.stepping import session_argument
from agentlab.notebook.views import HelpView, LocatedView, LogView, Said, SessionsTable, StatusView, TableView


@verb("status", "where the session is, in a line", arguments=session_argument)
def status(request: Request) -> StatusView:
    """The status, derived now."""
    return StatusView.of(request.place.session(request.options.session))


def _log_arguments(parser: argparse.ArgumentParser) -> None:
    session_argument(parser)
    parser.add_argument("--from", dest="from_seq", type=int, metavar="SEQ", help="the first event to show")
    parser.add_argument("--to", dest="to_seq", type=int, metavar="SEQ", help="the last event to show")
    parser.add_argument("--all", action="store_true", help="quiet kinds too")


@verb("log", "the session's events", "%agent log --from 42", _log_arguments)
def log(request: Request) -> LogView:
    """The timeline: the newest lines, or those from a number on."""
    o = request.options
    session = request.place.session(o.session)
    events = session.replay(max(1, o.from_seq or 1), o.to_seq)
    return LogView(session, tuple(events), tail=o.from_seq is None and o.to_seq is None, quiet=not o.all)


@verb("locate", "where it is, what came before, what failed, with evidence", arguments=session_argument)
def locate(request: Request) -> LocatedView:
    """The finding."""
    session = request.place.session(request.options.session)
    return LocatedView(session, session.locate())


@verb("verify", "check every row's hash", arguments=session_argument)
def verify(request: Request) -> Said:
    """Check the hash chain; the head is in ``value``, to be kept elsewhere."""
    session = request.place.session(request.options.session)
    head = session.verify()
    return Said(session.id, f"{counted(head.seq, 'event')}, every hash matches", session=session, value=head)


@verb("sessions", "the sessions of the lab")
def sessions(request: Request) -> SessionsTable:
    """All sessions, one row each."""
    lab = request.place.lab
    return SessionsTable(lab, tuple(lab.statuses()))


@verb("tasks", "the tasks that can be run here")
def tasks(request: Request) -> TableView:
    """Tasks of cells, registered ones and built-in ones."""
    found = {name: authoring.task(name) for name in authoring.task_names()} | tasks_in(request.namespace)
    rows = tuple((name, len(task.steps), len(task.tools), task.goal) for name, task in sorted(found.items()))
    return TableView("tasks", ("task", "steps", "tools", "goal"), rows)


def _help_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("verb", nargs="?", help="a verb")


@verb("help", "all verbs, or one with its options", "%agent help run", _help_arguments)
def help_(request: Request) -> HelpView:
    """The help of a verb, or the list of all."""
    if request.options.verb is None:
        return HelpView.everything()
    chosen = verb_named(request.options.verb)
    return HelpView.of(chosen, VerbParser(chosen))
