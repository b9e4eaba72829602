"""Forking: a new session that shares another one's past up to an event and goes its own way from there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentlab.definition import Definition, PolicySpec, from_json
from agentlab.errors import BadDefinition, UserError
from agentlab.events import Draft, Event, canonical
from agentlab.harness.assembly import definition_of
from agentlab.harness.baseline import baseline, budget_field
from agentlab.harness.effectindex import settled_since
from agentlab.harness.recorder import Recorder
from agentlab.harness.redact import Redactor
from agentlab.harness.trust import require_trust, signed_text
from agentlab.lab.accepting import as_stored, check_id, check_policy, with_checked_model
from agentlab.lab.timetravel import state_at
from agentlab.log.store import ParquetStore
from agentlab.ownership import sign
from agentlab.policies import parse_policy
from agentlab.ports import Log, Parent
from agentlab.session.fold import fold_all
from agentlab.session.state import Settled, State, operation
from agentlab.session.superseding import OPEN_OUTSIDE
from agentlab.validating import validate

if TYPE_CHECKING:
    from agentlab.lab.session import Session

TOLD = 20
"""Effects that a fork's model is told of by name."""


def fork(
    session: Session,
    at: int | None = None,
    *,
    model: Any = None,
    policy: str | PolicySpec | None = None,
    limits: Mapping[str, Any] | None = None,
    label: str = "",
    session_id: str | None = None,
    trust: bool = False,
) -> Log:
    """The log of a new session that begins after event ``at`` of ``session``. See :meth:`agentlab.lab.Session.fork`."""
    lab, blobs = session.lab, session.lab.store.blobs
    seq = session.log.head().seq if at is None else at
    state = fold_all(state_at(session.log, blobs, seq), _committed_with(session.log, seq))
    if state.session_id == "":
        raise UserError(f"session {session.id!r} was never accepted: there is nothing to fork")
    definition, given = definition_of(session.log, blobs, state)
    dump = require_trust(given, blobs, trust)
    redactor = Redactor.from_environment(os.environ)
    definition = _changed(definition, lab.store, model, policy, limits, redactor)
    source = {k: v for k, v in given["input"].items() if k != "signature"}
    source["signature"] = sign(signed_text(definition.to_json(), dump))
    elsewhere, note = _elsewhere(session, state, definition)
    data = definition.to_json()
    payload: dict[str, Any] = {
        "definition": as_stored(data, lab.store.put_blob),
        "baseline": baseline(definition),
        "input": source,
        "limits": data["limits"],
        **budget_field(definition),
        "guard": data["guard"],
        "context": data["context"],
        "parent": {"session": session.id, "seq": state.seq, "hash": state.hash},
        "effects": elsewhere,
    }
    payload.update({k: v for k, v in (("labels", [label] if label else None), ("note", note)) if v})
    log = _new_log(session, definition, session_id, Parent(session.id, state.seq, state.hash))
    recorder = Recorder(log, blobs, state, 0, lab.clock, lab.ids, redactor)
    recorder.commit((Draft("session_started", payload),))
    log.flush()
    return log


def _committed_with(log: Log, seq: int) -> list[Event]:
    """The events after ``seq`` that landed together with it: a fork never begins in the middle of a command's answer.

    Else an answer of the model would be there without the calls it asks for, or an effect without its result.
    """
    found: list[Event] = []
    commit_id = ""
    for event in log.replay(seq):
        commit_id = commit_id or event.commit_id
        if event.commit_id != commit_id:
            break
        found.append(event)
    return found[1:]


def _changed(
    definition: Definition,
    store: ParquetStore,
    model: Any,
    policy: str | PolicySpec | None,
    limits: Mapping[str, Any] | None,
    redactor: Redactor,
) -> Definition:
    if model is not None:
        from agentlab.defining import with_another_model

        definition = with_another_model(definition, model, store.put_blob)
    if policy is not None:
        definition = replace(definition, policy=parse_policy(policy) if isinstance(policy, str) else policy)
    if limits is not None:
        try:
            definition = replace(definition, limits=replace(definition.limits, **limits))
        except TypeError as error:
            raise BadDefinition(f"limits: {error}; see agentlab.Limits for their names") from None
    check_policy(definition.policy)
    validate(definition)
    definition = with_checked_model(definition, store)
    if redactor.finds(canonical(definition.to_json())):
        definition = from_json(redactor.value(definition.to_json()))
    return definition


def _new_log(session: Session, definition: Definition, session_id: str | None, parent: Parent) -> Log:
    store = session.lab.store
    if session_id is not None:
        check_id(session_id)
        return store.create(session_id, definition.durability, parent)
    taken, number = set(store.sessions()), 1
    while True:
        candidate = f"{session.id}-fork-{number}"
        if candidate not in taken:
            try:
                return store.create(candidate, definition.durability, parent)
            except UserError:
                if candidate not in store.sessions():
                    raise
        number += 1


# --- what has happened outside ---------------------------------------------------------------------------------------------


def _branches(session: Session, seq: int) -> Iterator[tuple[Session, int]]:
    """The session and its ancestors, each with the last event of it that the fork shares."""
    while True:
        log = session.log
        yield session, seq
        first = next(iter(log.replay(log.base.seq + 1, log.base.seq + 1)), None)
        parent = first.payload.get("parent") if first is not None else None
        if not parent:
            return
        session, seq = session.lab.session(parent["session"]), min(seq, log.base.seq)


def _elsewhere(session: Session, state: State, definition: Definition) -> tuple[dict[str, Any], str]:
    """Effects that happened after the shared past, and those that are open: as the fork's first event carries them."""
    blobs = session.lab.store.blobs
    repeating = {tool.name for tool in definition.tools if tool.repeat}
    rows: list[Settled] = []
    still_open: dict[str, str] = {}
    for branch, seq in _branches(session, state.seq):
        now = branch.state
        for row in settled_since(now.effects, blobs, seq):
            rows.append(replace(row, first_seq=state.seq, result_seq=state.seq, output=_output(branch, row)))
        for name, first in now.effects.first_calls.items():
            if name.partition(" ")[0] not in repeating:
                key = now.effects.inherited.get(name) or f"{_owner(branch, first)}#{first}"
                still_open.setdefault(name, key)
        for call in now.calls:
            if call.status in OPEN_OUTSIDE and call.key and call.tool not in repeating:
                still_open[operation(call.tool, call.input_hash)] = call.key
    done = {operation(row.tool, row.input_hash) for row in rows}
    elsewhere: dict[str, Any] = {"open": {k: v for k, v in still_open.items() if k not in done}}
    keys = {row.key for row in rows}
    elsewhere["settled"] = sorted(call.key for call in state.calls if call.key in keys)
    if rows:
        from agentlab.harness.effectindex import stored_chunk

        elsewhere["chunk"] = list(stored_chunk(rows, blobs))
    return elsewhere, _note(session, state, [*settled_since(state.effects, blobs, 0), *rows])


def _owner(session: Session, seq: int) -> str:
    """The session in whose own rows event ``seq`` of a lineage stands."""
    event = next(iter(session.log.replay(seq, seq)), None)
    return session.id if event is None else event.session_id


def _output(session: Session, row: Settled) -> str:
    if row.output:
        return row.output
    event = next(iter(session.log.replay(row.result_seq, row.result_seq)))
    return session.lab.store.blobs.put(canonical(session.content(event).get("output")).encode())


def _note(session: Session, state: State, done: list[Settled]) -> str:
    """What the fork's model is told: which effects it must not repeat; nothing when there are none."""
    if not done:
        return ""
    lines = [
        f"You go on from event {state.seq} of session {session.id}. What has happened outside must not be repeated:"
    ]
    lines += [
        f"- {row.tool} has happened (key {row.key}); the same call gives its recorded result" for row in done[-TOLD:]
    ]
    if len(done) > TOLD:
        lines.append(f"- and {len(done) - TOLD} more before these; recall the log to see them")
    return "\n".join(lines)
