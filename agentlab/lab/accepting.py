"""Accepting a task: define it, find it a session id, and put it into the log before any work on it begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.budget.words import limits_of
from agentlab.definition import Definition, Limits, PolicySpec, from_json
from agentlab.effects.outbox import with_outbox
from agentlab.errors import BadDefinition, BadLab, BadSessionId, UserError
from agentlab.events import GENESIS, Draft, canonical
from agentlab.harness.baseline import baseline, budget_field
from agentlab.harness.recorder import Recorder
from agentlab.harness.recordings import is_recording, pinned
from agentlab.harness.redact import Redactor
from agentlab.harness.trust import signed_text
from agentlab.models.registry import resolve as resolve_model
from agentlab.ownership import sign
from agentlab.policies import parse_policy
from agentlab.policies import validate as validate_policy
from agentlab.ports import Log, LogStore
from agentlab.session.state import State
from agentlab.validating import validate

if TYPE_CHECKING:
    from agentlab.authoring import Task
    from agentlab.lab.lab import Lab

INLINE_LIMIT = 32 * 1024
_experiment: ContextVar[str] = ContextVar("agentlab_experiment", default="")


@contextmanager
def accepting_for(experiment: str) -> Iterator[None]:
    """Tasks that are accepted meanwhile are on record as begun by an experiment of that kind, not by a person."""
    token = _experiment.set(experiment)
    try:
        yield
    finally:
        _experiment.reset(token)


def begun_by_experiment(log: Log) -> bool:
    """Whether a session is an experiment's own, or was begun within a run of one. A fork is always a person's."""
    if log.base.seq:
        return False
    first = next(iter(log.replay(1, 1)), None)
    given = first.payload["input"] if first is not None else {}
    return "plan_digest" in given or "experiment" in given


def accept(
    lab: Lab, task: str | Task, session_id: str | None, model: Any, overrides: dict[str, Any]
) -> tuple[Log, Definition]:
    """A new log whose first event is the accepted task.

    Raises:
        UserError: whatever makes the task, the model, the policy or the id unusable; nothing was written.
    """
    from agentlab import authoring

    named = authoring.task(task) if isinstance(task, str) else task
    _require_writable(lab.path)
    overrides = dict(overrides)
    if isinstance(overrides.get("policy"), str):
        overrides["policy"] = parse_policy(overrides["policy"])
    if isinstance(overrides.get("limits"), Mapping):
        overrides["limits"] = _limits(named, overrides["limits"])
    params = with_outbox(named, overrides.get("params"), lab.path)
    if params is not None:
        overrides["params"] = params
    definition, dump, _ = named.define(lab.store.put_blob, model=model, **overrides)
    check_policy(definition.policy)
    validate(definition)
    definition = with_checked_model(definition, lab.store)
    redactor = Redactor.from_environment(os.environ)
    if redactor.finds(canonical(definition.to_json())):  # before it is signed, and before a large one becomes a blob
        definition = from_json(redactor.value(definition.to_json()))
    held = redactor.names_in(dump) if dump is not None else []
    if held:
        raise BadDefinition(
            f"the code of task {definition.task!r} holds the value of {', '.join(held)}, and it would be written into the"
            " lab: read it from os.environ inside the function instead"
        )
    given: dict[str, Any] = {"goal": definition.goal, "task": definition.task}
    if dump is not None:
        given["dump"] = lab.store.put_blob(dump)
    if _experiment.get():
        given["experiment"] = _experiment.get()
    given["signature"] = sign(signed_text(definition.to_json(), given.get("dump")))
    log = _new_log(lab, definition, session_id)
    _begin(lab, log, definition, given, redactor)
    return log, definition


def _require_writable(path: Path) -> None:
    """Before any process is started to look at the task. What no permission shows (a full disk) is seen when writing.

    Raises:
        BadLab: nothing can be written to the lab, or to where it would be made.
    """
    there = next(folder for folder in (path, *path.parents) if os.path.exists(folder))
    if there.is_dir() and not os.access(there, os.W_OK | os.X_OK):
        frozen = os.statvfs(there).f_flag & os.ST_RDONLY
        reason = "the file system is read-only" if frozen else "no permission to write there"
        raise BadLab(f"{path} can not take a session: {reason}")


def with_checked_model(definition: Definition, store: LogStore) -> Definition:
    """The definition with a model that there is; a recording in a file is kept in the lab.

    Raises:
        UnknownName, BadDefinition: no such model or recording, or a parameter that it does not have.
    """
    if definition.model_ref is not None:
        return definition
    if is_recording(definition.model):
        return replace(definition, model=pinned(definition.model, store))
    resolve_model(definition.model, base_url=definition.base_url, params=definition.model_params)
    return definition


def check_policy(policy: PolicySpec) -> None:
    """Refuse a policy that does not exist or misses a number.

    Raises:
        UnknownName, BadDefinition: which one, and what it needs.
    """
    validate_policy(policy)


def _limits(task: Any, changes: Mapping[str, Any]) -> Limits:
    base = task.limits if isinstance(task.limits, Limits) else Limits(**limits_of(task.limits or {}))
    changed = limits_of(changes)
    if any(name.startswith("tool:") for name in changes):  # one tool's limit is changed, the others' stay
        changed["tool_calls_by_tool"] = {**base.tool_calls_by_tool, **changed["tool_calls_by_tool"]}
    return replace(base, **changed)


def _new_log(lab: Lab, definition: Definition, session_id: str | None) -> Log:
    if session_id is not None:
        check_id(session_id)
        return lab.store.create(session_id, definition.durability)
    taken = set(lab.store.sessions())
    number = 1
    while True:  # somebody else may take the same number at the same time: creating is exclusive
        candidate = f"{definition.task}-{number}"
        if candidate not in taken:
            try:
                return lab.store.create(candidate, definition.durability)
            except UserError:
                if candidate not in lab.store.sessions():
                    raise
        number += 1


def check_id(session_id: Any) -> None:
    """Refuse what can not name a session.

    Raises:
        BadSessionId: it is no text, or none that a process can be given.
    """
    if not isinstance(session_id, str):
        raise BadSessionId(f"a session id is a text, not {session_id!r}")
    if "\0" in session_id or not _encodable(session_id):
        raise BadSessionId(f"session id {session_id[:40]!r} can not be given to a process: leave out what is no text")
    if "/" in session_id or "\\" in session_id or session_id.strip(". ") == "" != session_id:
        # The log would keep it safely; but whoever reads it somewhere takes it for a path.
        raise BadSessionId(
            f"session id {session_id[:40]!r} reads as a path: use words, digits, dots and dashes instead"
        )


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_stored(data: Mapping[str, Any], put_blob: Callable[[bytes], str]) -> Any:
    """A definition as the first event carries it: whole, or as a stub of a blob where it is large."""
    text = canonical(data)
    if len(text) <= INLINE_LIMIT:
        return data
    raw = text.encode()
    return {"$blob": put_blob(raw), "$bytes": len(raw), "$preview": text[:1024]}


def _begin(lab: Lab, log: Log, definition: Definition, given: Mapping[str, Any], redactor: Redactor) -> None:
    data = definition.to_json()
    payload = {
        "definition": as_stored(data, lab.store.put_blob),
        "baseline": baseline(definition),
        "input": dict(given),
        "steps": data["steps"],
        "limits": data["limits"],
        "guard": data["guard"],
        "context": data["context"],
        **budget_field(definition),
    }
    recorder = Recorder(log, lab.store.blobs, State(hash=GENESIS), 0, lab.clock, lab.ids, redactor)
    recorder.commit((Draft("session_started", payload),))
    log.flush()  # whoever is told that a task was accepted may rely on it, also where appends share a sync
