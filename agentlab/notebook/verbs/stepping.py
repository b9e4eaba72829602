"""step, plan, kill: one command at a time, and deaths by hand."""

from __future__ import annotations

import argparse

from agentlab.errors import UserError
from agentlab.lab.parameters import parameters
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.results import PlanView, StepResult, next_commands
from agentlab.notebook.verbs.running import finish, seconds
from agentlab.notebook.views import Said


def session_argument(parser: argparse.ArgumentParser) -> None:
    """A session that need not be named."""
    parser.add_argument("session", nargs="?", help="a session's id; the one in hand without it")


def _step_arguments(parser: argparse.ArgumentParser) -> None:
    session_argument(parser)
    parser.add_argument("--task", metavar="NAME", help="begin a session of this task first")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=VALUE", help="with --task: a parameter")
    parser.add_argument(
        "--timeout", type=seconds, default=120.0, metavar="SECONDS", help="how long the command may take"
    )


@verb("step", "exactly one command of the harness, shown before and after", arguments=_step_arguments)
def step(request: Request) -> StepResult:
    """Do one command."""
    o = request.options
    if o.task is not None:
        _create(request)
    session = request.place.session(o.session)
    before = session.plan()
    events = session.step(o.timeout)
    return StepResult(session, before, tuple(events), session.plan(), session.status())


def _create(request: Request) -> None:
    from agentlab.notebook.place import task_named

    o = request.options
    task = task_named(o.task, request.namespace)
    made = request.place.lab.create(task, session_id=o.session, params=parameters(task, o.param))
    request.place.take(made)


@verb("plan", "the next command, described and not done", arguments=session_argument)
def plan(request: Request) -> PlanView:
    """Say what the harness would do next."""
    session = request.place.session(request.options.session)
    return PlanView(session, session.plan(), session.status())


def _kill_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", choices=("harness", "sandbox", "sandbox-process"), help="what gets SIGKILL")
    session_argument(parser)
    parser.add_argument("--restart", action="store_true", help="let the next harness follow at once")


@verb("kill", "kill harness or sandbox by hand, for real (SIGKILL)", "%agent kill harness", _kill_arguments)
def kill(request: Request) -> Said:
    """Kill a process of the session, after checking that it is the one on record."""
    o = request.options
    session = request.place.session(o.session)
    killed = session.kill(o.target, restart=o.restart)
    return Said(session.id, f"killed: {killed}", next_commands(session), session)


def _pause_arguments(parser: argparse.ArgumentParser) -> None:
    session_argument(parser)
    parser.add_argument("--now", action="store_true", help="cut the command in progress")


@verb("pause", "rest at the next safe point; --now cuts the command in progress", arguments=_pause_arguments)
def pause(request: Request) -> object:
    """Pause a running session and wait until it rests."""
    session = request.place.session(request.options.session)
    status = session.status()
    if status.status not in ("running", "queued"):
        raise UserError(f"nothing to pause: {status}")
    session.pause("by hand", now=request.options.now)
    return finish(session)
