"""reply, approve, deny, settle, checkpoint: what a person adds to a session's log."""

from __future__ import annotations

import argparse

from agentlab.errors import UserError
from agentlab.lab import Session
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.results import RunResult, next_commands
from agentlab.notebook.verbs.running import finish
from agentlab.notebook.views import Said


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--session", metavar="ID", help="a session's id; the one in hand without it")
    parser.add_argument("--wake", action="store_true", help="go on at once")


def _reply_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="*", help="the answer , or the body of the cell")
    _options(parser)


def _done(request: Request, session: Session, sentence: str) -> Said | RunResult:
    if request.options.wake:
        session.wake(background=True)
        return finish(session)
    return Said(session.id, sentence, next_commands(session), session)


@verb("reply", "answer the open question", "%agent reply --wake TEXT", _reply_arguments, takes_cell=True)
def reply(request: Request) -> Said | RunResult:
    """Answer in words."""
    session = request.place.session(request.options.session)
    text = (request.cell or " ".join(request.options.text)).strip()
    if not text:
        raise UserError("what is the answer? write %agent reply TEXT")
    session.reply(text)
    return _done(request, session, "answered")


def _note_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("note", nargs="*", help="a remark for readers of the log")
    _options(parser)


@verb("approve", "approve what the open question asks", arguments=_note_arguments)
def approve(request: Request) -> Said | RunResult:
    """Let it happen."""
    session = request.place.session(request.options.session)
    session.approve(" ".join(request.options.note))
    return _done(request, session, "approved")


@verb("deny", "deny what the open question asks", arguments=_note_arguments)
def deny(request: Request) -> Said | RunResult:
    """Do not let it happen; the model is told."""
    session = request.place.session(request.options.session)
    session.deny(" ".join(request.options.note))
    return _done(request, session, "denied")


def _settle_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", help="the key of the effect in doubt")
    parser.add_argument(
        "decision", choices=("done", "retry", "skip"), help="it happened; do it again; go on without it"
    )
    _options(parser)


@verb("settle", "decide on an effect in doubt", "%agent settle KEY done", _settle_arguments)
def settle(request: Request) -> Said | RunResult:
    """Say what became of an effect that nobody else can tell."""
    session = request.place.session(request.options.session)
    session.settle(request.options.key, request.options.decision)
    return _done(request, session, f"settled: {request.options.key} {request.options.decision}")


def _checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("label", nargs="?", default="", help="a name to find it by")
    parser.add_argument("--session", metavar="ID", help="a session's id; the one in hand without it")


@verb("checkpoint", "ask for a checkpoint by hand", "%agent checkpoint before-send", _checkpoint_arguments)
def checkpoint(request: Request) -> Said:
    """Ask for a checkpoint; the harness writes it before its next command."""
    session = request.place.session(request.options.session)
    if session.status().status in ("completed", "failed"):
        raise UserError(f"no checkpoint can be written any more: {session.status()}")
    session.checkpoint(request.options.label)
    return Said(session.id, "a checkpoint is written before the next command", next_commands(session), session)
