"""Upcasters for a user's own state: what a task pins, and the parameters of its steps, may change like any schema.

A task says which version of its own state it works with (``al.Task(state_version=2)``), and how a session of an older
one becomes the next, step by step::

    @al.upcaster("invoices", 1)
    def customer_has_a_longer_name(own):
        own["facts"]["customer_id"] = own["facts"].pop("cust")
        return own

``own`` is plain JSON: ``facts`` (name to text: what the model or a tool pinned) and ``steps`` (those to come, each with
id, title, parameters and expected). The steps run where the session is woken, before a harness starts; what they give
is an event of the log, ``own_state_lifted``, so that nobody needs them again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from agentlab.errors import BadDefinition, CheckpointError, CheckpointTooNew, PayloadError
from agentlab.events import Draft, canonical
from agentlab.session.ownstate import own_state

if TYPE_CHECKING:
    from agentlab.lab.session import Session

Own = dict[str, Any]
Upcaster = Callable[[Own], Own]

_known: dict[str, dict[int, Upcaster]] = {}


def upcaster(task: str, version: int) -> Callable[[Upcaster], Upcaster]:
    """Register a function that lifts the own state of ``task`` from ``version`` to the next; one registered again replaces it.

    Raises:
        BadDefinition: the version is no number from 1 on.
    """
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise BadDefinition(
            f"upcaster of {task!r}: the version it leads away from is a number from 1 on, not {version!r}"
        )

    def add(function: Upcaster) -> Upcaster:
        _known.setdefault(task, {})[version] = function
        return function

    return add


def upcasters(task: str) -> Mapping[int, Upcaster]:
    """The registered steps of a task, by the version they lead away from."""
    return dict(_known.get(task, {}))


def lift(session: Session) -> Draft | None:
    """The event that brings a session's own state to the newest version known here, None when it is there already.

    Raises:
        CheckpointTooNew: the session's is newer than what the registered steps lead to.
        CheckpointError: a step is missing, failed, or gave something that is no own state; which one is named.
    """
    state, definition = session.state, session.definition
    steps = upcasters(definition.task)
    version = state.control.own_version or definition.state_version
    if not steps:
        return None
    newest = max(steps) + 1
    if version > newest:
        raise CheckpointTooNew(
            f"session {session.id!r} has its own state in version {version}; the upcasters here lead to {newest}: import"
            " the newer ones of its task"
        )
    if version == newest:
        return None
    own, names = own_state(state), []
    for number in range(version, newest):
        own = _step(session, steps.get(number), number, own)
        names.append(steps[number].__name__)
    payload = {
        "id": session.lab.ids.new("i"),
        "from_version": version,
        "to_version": newest,
        **own,
        "by": ", ".join(names),
    }
    return Draft("own_state_lifted", payload)


def _step(session: Session, step: Upcaster | None, number: int, own: Own) -> Own:
    where = f"session {session.id!r}: own state of version {number}"
    if step is None:
        raise CheckpointError(f"{where}, from which no upcaster leads on: register one with al.upcaster")
    try:
        given = step(copy.deepcopy(own))
    except Exception as error:
        raise CheckpointError(f"{where}: {step.__name__} failed with {type(error).__name__}: {error}") from error
    wrong = _wrong(given, own)
    if wrong:
        raise CheckpointError(f"{where}: {step.__name__} gave {wrong}")
    return given


def _wrong(given: Any, before: Own) -> str:
    """What is wrong with a lifted own state, or nothing."""
    if not isinstance(given, dict) or set(given) != {"facts", "steps"}:
        return "no object with facts and steps (return what you changed)"
    facts, steps = given["facts"], given["steps"]
    if not isinstance(facts, dict) or not all(isinstance(t, str) for pair in facts.items() for t in pair):
        return "facts that are no texts by name"
    if not isinstance(steps, list) or [_id(s) for s in steps] != [_id(s) for s in before["steps"]]:
        return "other steps than it got: their ids and order stay"
    if any(set(s) != {"id", "title", "parameters", "expected"} or not isinstance(s["parameters"], dict) for s in steps):
        return "a step with other fields than id, title, parameters and expected"
    try:
        canonical(given)
    except PayloadError as error:
        return f"something that JSON can not carry: {error}"
    return ""


def _id(step: Any) -> Any:
    return step.get("id") if isinstance(step, dict) else None
