"""run, start, wake, attach: a session gets a harness, or comes into hand."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import Any

from agentlab.authoring import Task, task_names
from agentlab.errors import UserError
from agentlab.lab import Session
from agentlab.lab.parameters import assigned, parameters
from agentlab.notebook.live import counted_interrupts, follow
from agentlab.notebook.place import model_named, task_named, tasks_in, tools_named
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.results import RunResult, next_commands
from agentlab.notebook.views import Said, StatusView

_BEGINS_S = 30.0
"""How long a start in the background is watched, so that what follows in the cell finds it running."""


def _start_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("task", nargs="?", help="a task's name, or a variable that holds one")
    add(
        "--crash",
        action="append",
        default=[],
        metavar="FAULT",
        help="kill for real: harness@tool_result, sandbox@step=4 …",
    )
    add(
        "--fault",
        action="append",
        default=[],
        metavar="FAULT",
        help="misbehave for real: model:529*3, tool(notify):lost_reply, disk:full … (%%agent faults --kinds)",
    )
    add("--session", metavar="ID", help="the id of the new session")
    add("--model", metavar="NAME", help="another model: a name, or a policy defined in a cell")
    add(
        "--policy",
        metavar="WHEN",
        help="when to write checkpoints: every=5, steps=1, seconds=30, milestones, daly=60, never; a+b: any, a&b: all",
    )
    add("--param", action="append", default=[], metavar="NAME=VALUE", help="a parameter of the task")
    add(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="a limit: max_turns=20, tokens=20k, cost=2.50 …",
    )
    add("--tool", action="append", default=[], metavar="NAME", help="one more tool, defined in a cell")
    add("--tools", default="", metavar="A,B", help="several more tools, defined in cells")
    add("--scheme", choices=("hybrid", "events", "snapshot"), help="what a recovery rests on")
    add("--strategy", choices=("statement", "synthetic_error", "nothing"), help="what the model is told after a crash")
    add("--durability", choices=("disk", "group", "process"), help="what an acknowledged event survives")
    add("--seed", type=int, help="the seed of random faults, recorded with them")
    add("--timeout", type=seconds, metavar="SECONDS", help="give the cell back after so long; the session goes on")


def _run_arguments(parser: argparse.ArgumentParser) -> None:
    _start_arguments(parser)
    parser.add_argument("--background", action="store_true", help="return at once")


@verb(
    "run", "run a task until it pauses or ends; a cell's body is its goal", "%agent run sales_report --crash harness@tool_result",
    _run_arguments, takes_cell=True,
)  # fmt: skip
def run(request: Request) -> RunResult | Said:
    """Begin a session and wait for it, unless it is to run in the background."""
    session = _created(request)
    if request.options.background:
        session.start()
        return _in_background(session)
    with counted_interrupts():  # from here on an Interrupt pauses: it is not raised between the start and the wait
        session.start()
        return finish(session, request.options.timeout)


@verb("start", "run a task in the background", "%agent start sales_report", _start_arguments, takes_cell=True)
def start(request: Request) -> Said:
    """Begin a session and return at once."""
    session = _created(request)
    session.start()
    return _in_background(session)


def _created(request: Request) -> Session:
    o = request.options
    overrides: dict[str, Any] = {
        name: getattr(o, name)
        for name in ("policy", "scheme", "strategy", "durability")
        if getattr(o, name) is not None
    }
    task = _task(request)
    if o.param:
        overrides["params"] = parameters(task, o.param)
    if o.limit:
        overrides["limits"] = assigned(o.limit, "--limit")
    session = request.place.lab.create(
        task,
        session_id=o.session,
        model=model_named(o.model, request.namespace),
        crash=o.crash,
        faults=o.fault,
        seed=o.seed,
        **overrides,
    )
    return request.place.take(session)


def _task(request: Request) -> Task:
    o = request.options
    goal = (request.cell or "").strip()
    names = [*o.tool, *(name.strip() for name in o.tools.split(",") if name.strip())]
    tools = tools_named(names, request.namespace)
    if o.task is None:
        if not goal:
            known = ", ".join(sorted({*tasks_in(request.namespace), *task_names()}))
            raise UserError(f"which task? known: {known}; or write a goal into the body of %%agent run --model NAME")
        if o.model is None:
            raise UserError(
                "a goal alone needs a model: %%agent run --model NAME, with --tools A,B if it is to have some"
            )
        return Task(name="goal", goal=goal, tools=tuple(tools))
    task = task_named(o.task, request.namespace)
    return replace(task, goal=goal or task.goal, tools=(*task.tools, *tools))


def seconds(text: str) -> float:
    """A duration of an option: a number of seconds from 0 on."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"a number of seconds from 0 on, not {text!r}")
    return found


def finish(session: Session, timeout_s: float | None = None) -> RunResult:
    """Wait until the session rests; the run as it then stands."""
    follow(session, timeout_s)
    return RunResult.of(session)


def _in_background(session: Session) -> Said:
    deadline = time.monotonic() + _BEGINS_S
    while time.monotonic() < deadline and session.status().status not in ("running", "queued"):
        if not session.lab.supervisor.alive(session.id):
            session.wait(0)  # it rests already, or never began: then this says why
            break
        time.sleep(0.02)
    return Said(session.id, "runs in the background, as long as this kernel does", next_commands(session), session)


def _wake_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", nargs="?", help="a session's id; the one in hand without it")
    parser.add_argument("--model", metavar="NAME", help="go on under another model")
    parser.add_argument("--tools", choices=("current",), help="run tools whose source has changed as they are now")
    parser.add_argument("--takeover", action="store_true", help="kill another harness of this session first")
    parser.add_argument("--trust", action="store_true", help="run pickled tools that another owner made")
    parser.add_argument("--confirm", action="store_true", help="ask a person before a recovery is over")
    parser.add_argument("--background", action="store_true", help="return at once")
    parser.add_argument("--timeout", type=seconds, metavar="SECONDS", help="give the cell back after so long")


@verb("wake", "a new harness takes the session up after its cursor", arguments=_wake_arguments)
def wake(request: Request) -> RunResult | Said:
    """Go on with a session that rests or crashed."""
    o = request.options
    session = request.place.session(o.session)
    how = {"model": o.model, "tools": o.tools, "takeover": o.takeover, "trust": o.trust, "confirm": o.confirm}
    if o.background:
        session.wake(**how, background=True)
        return _in_background(session)
    with counted_interrupts():
        session.wake(**how, background=True)
        return finish(session, o.timeout)


def _one_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", help="a session's id")


@verb("attach", "take a session in hand, after a kernel restart as well", "%agent attach sales_report-1", _one_session)
def attach(request: Request) -> StatusView:
    """Make a session the one that verbs mean."""
    return StatusView.of(request.place.session(request.options.session))
