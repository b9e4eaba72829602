"""Recordings of a model's answers: of a session in the same lab, or a file that travels with a repository.

``recorded:SESSION`` answers as the model of that session did, ``recorded:FILE.jsonl`` as an exported recording says;
``?live=MODEL`` after either lets another model answer what was not recorded. Questions are put together again from the
log, so that one that differs can be shown beside the one that was expected.

A recording file is JSON lines: a head (what it is, of which session and model, how many answers), then one line for
each answer with its question. A question names only what differs from the one before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentlab.clock import Clock
from agentlab.definition import Definition
from agentlab.errors import BadDefinition, PayloadError, UnknownName, refusal
from agentlab.events import GENESIS, Event, canonical, parse, plain
from agentlab.harness.asking import build_request
from agentlab.harness.rig import Rig
from agentlab.models.digest import request_digest, request_parts
from agentlab.models.recorded import Recorded, RecordedModel, recorded_replies
from agentlab.ports import Blobs, Log, LogStore, Model, ModelReply, ModelRequest, Usage
from agentlab.session.decide import Run
from agentlab.session.fold import fold
from agentlab.session.state import State

PREFIX = "recorded:"
FORMAT = 1
_PARTS = ("system", "tools", "max_tokens", "params")


@dataclass(frozen=True, slots=True)
class RecordingName:
    """A model's name taken apart: the session or file, the digest of a pinned file, the model to fall through to."""

    source: str
    pinned: str = ""
    live: str = ""

    @classmethod
    def of(cls, name: str) -> RecordingName:
        """Take ``recorded:SOURCE[@DIGEST][?live=MODEL]`` apart.

        Raises:
            BadDefinition: another option than ``live``, or no source.
        """
        rest, mark, option = name.removeprefix(PREFIX).partition("?")
        key, _, live = option.partition("=")
        if mark and (key != "live" or not live):
            raise BadDefinition(
                f"model {name!r}: after the question mark stands live=MODEL, as in recorded:ID?live=claude-…"
            )
        source, at, digest = rest.rpartition("@")
        if not at or len(digest) != 64:
            source, digest = rest, ""
        if not source:
            raise BadDefinition(f"model {name!r}: name a session of this lab or a .jsonl file after recorded:")
        return cls(source, digest, live)

    @property
    def is_file(self) -> bool:
        """Whether it names a file rather than a session."""
        return self.source.endswith(".jsonl")

    def __str__(self) -> str:
        return (
            PREFIX
            + self.source
            + (f"@{self.pinned}" if self.pinned else "")
            + (f"?live={self.live}" if self.live else "")
        )


def is_recording(name: str) -> bool:
    """Whether a model's name is that of a recording."""
    return name.startswith(PREFIX)


def pinned(name: str, store: LogStore) -> str:
    """The name under which a session keeps a recording: a file's content goes into the lab, so that a wake finds it.

    Raises:
        UnknownName: no such session in the lab.
        BadDefinition: no such file, it is no recording, or the live model's name makes no sense.
    """
    from agentlab.models.registry import resolve

    wanted = RecordingName.of(name)
    if wanted.live:
        resolve(wanted.live)
    if wanted.pinned:
        return name
    if not wanted.is_file:
        if wanted.source not in store.sessions():
            raise UnknownName("session", wanted.source, store.sessions())
        return name
    try:
        with open(os.path.expanduser(wanted.source), "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        raise BadDefinition(f"the recording {wanted.source!r} can not be read: {refusal(error)}") from None
    imported(data, wanted.source)
    return str(replace(wanted, source=os.path.basename(wanted.source), pinned=store.blobs.put(data)))


def recorded_model(definition: Definition, store: LogStore, clock: Clock) -> Model:
    """The model that a definition's ``recorded:…`` names.

    Raises:
        UnknownName, BadDefinition: the recording is not there, or is none.
        LogCorrupt: a blob of it is missing.
    """
    from agentlab.models.registry import resolve

    wanted = RecordingName.of(definition.model)
    if wanted.pinned:
        found = imported(store.blobs.get(wanted.pinned), wanted.source)
    else:
        found = recording_of(store.open(wanted.source), store.blobs)
    live = None
    if wanted.live:
        live = resolve(wanted.live, base_url=definition.base_url, params=definition.model_params, clock=clock)
    choice: Any = "live" if live is not None else "error"
    return RecordedModel(found, choice, live, PREFIX + wanted.source)


# --- questions, put together again -----------------------------------------------------------------------------------------


class _Still:
    """Stands for a recorder where nothing is written: the state as of an event."""

    def __init__(self) -> None:
        self.state = State(hash=GENESIS)

    def staged_event(self, seq: int) -> Event | None:
        return None


def recording_of(log: Log, blobs: Blobs) -> list[Recorded]:
    """Questions and answers of a session, the questions put together again from its log.

    A question that this version would ask otherwise (its digest differs) is left out; its answer is found by the digest.
    """
    asked = _questions(log, blobs)
    found = []
    for entry in recorded_replies(log.replay(), blobs.get):
        request = asked.get(entry.digest)
        found.append(entry if request is None else replace(entry, request=request))
    return found


def _questions(log: Log, blobs: Blobs) -> dict[str, ModelRequest]:
    from agentlab.harness.assembly import definition_of

    still: Any = _Still()
    none: Any = None
    rig: Rig | None = None
    found: dict[str, ModelRequest] = {}
    model = None
    for event in log.replay():
        state = still.state
        if event.type == "model_request" and state.session_id:
            if rig is None or model != (state.session_id, state.control.resume_model):
                model = (state.session_id, state.control.resume_model)
                definition, _ = definition_of(_own_log(log, state.session_id), blobs, state)
                rig = Rig(Run.of(definition), log, blobs, still, none, none, none, none, none, none)
            request = build_request(rig, event.payload["purpose"])
            digest = request_digest(request)
            if digest == str(event.payload["digest"]).removeprefix("sha256:"):
                found[digest] = _plain(request)
        still.state = fold(state, event)
    return found


def _own_log(log: Log, session_id: str) -> Log:
    """The log whose own rows are those of a session of the lineage."""
    for part in getattr(log, "shared", ()):
        if part.log.session_id == session_id:
            found: Log = part.log
            return found
    return log


def _plain(request: ModelRequest) -> ModelRequest:
    parts = plain_parts(request)
    return _request({**parts, "purpose": request.purpose})


def plain_parts(request: ModelRequest) -> dict[str, Any]:
    """A question as plain JSON that nothing else holds on to."""
    found: dict[str, Any] = parse(canonical(plain(request_parts(request))))
    return found


def _request(parts: Mapping[str, Any]) -> ModelRequest:
    return ModelRequest(
        system=parts["system"],
        tools=parts["tools"],
        messages=parts["messages"],
        max_tokens=parts["max_tokens"],
        purpose=parts["purpose"],
        params=parts["params"],
    )


# --- files -----------------------------------------------------------------------------------------------------------------


def exported(found: Iterable[Recorded], session_id: str, task: str) -> bytes:
    """A recording as a file's bytes, the same for the same answers."""
    entries = list(found)
    models = sorted({entry.reply.model for entry in entries})
    head = {
        "agentlab_recording": FORMAT,
        "session": session_id,
        "task": task,
        "models": models,
        "answers": len(entries),
    }
    lines = [canonical(head)]
    before: dict[str, Any] = {}
    for entry in entries:
        line: dict[str, Any] = {"digest": entry.digest, "purpose": entry.purpose, "reply": _reply_json(entry.reply)}
        if entry.request is not None:
            parts = plain_parts(entry.request)
            line["request"] = _changes(before, parts)
            before = parts
        lines.append(canonical(line))
    return ("\n".join(lines) + "\n").encode()


def imported(data: bytes, name: str) -> list[Recorded]:
    """The answers of a recording file; ``name`` is for messages.

    Raises:
        BadDefinition: it is none, or one of a newer version; the message names the line.
    """
    number = 1
    found: list[Recorded] = []
    before: dict[str, Any] = {}
    try:
        lines = data.decode().splitlines()
        head: Any = parse(lines[0]) if lines else {}
        version = head.get("agentlab_recording") if isinstance(head, dict) else None
        if version != FORMAT:
            raise BadDefinition(
                f"{name} is no recording of a model's answers that this agentlab reads (version {version!r})"
            )
        for text in lines[1:]:
            number += 1
            line: Any = parse(text)
            request = None
            if "request" in line:
                before = _applied(before, line["request"])
                request = _request({**before, "purpose": line["purpose"]})
            found.append(Recorded(str(line["digest"]), _reply_of(line["reply"]), line["purpose"], request))
        if len(found) != head["answers"]:
            raise BadDefinition(
                f"{name} says that it holds {head['answers']} answers, and there are {len(found)}: it is cut short"
            )
    except (UnicodeDecodeError, PayloadError, KeyError, TypeError, AttributeError) as error:
        raise BadDefinition(f"{name}, line {number}, can not be read: {type(error).__name__}: {error}") from None
    return found


def _reply_json(reply: ModelReply) -> dict[str, Any]:
    usage = reply.usage
    tokens = [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
    content = [plain(dict(block)) for block in reply.content]
    return {"content": content, "stop_reason": reply.stop_reason, "usage": tokens, "model": reply.model}


def _reply_of(data: Mapping[str, Any]) -> ModelReply:
    return ModelReply(data["content"], data["stop_reason"], Usage(*data["usage"]), data["model"])


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``now`` is not as ``before``; messages from the first that differs on."""
    old, new = before.get("messages", []), now["messages"]
    same = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    changed = {name: now[name] for name in _PARTS if before.get(name) != now[name]}
    return {**changed, "same": same, "messages": new[same:]}


def _applied(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    messages = [*before.get("messages", [])[: changes["same"]], *changes["messages"]]
    parts = {name: changes[name] if name in changes else before[name] for name in _PARTS}
    return {**parts, "messages": messages}
