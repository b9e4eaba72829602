"""Faults of a session: arming a schedule, also while it runs, and what has struck."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agentlab.errors import BadDefinition, UserError
from agentlab.events import Draft, Event
from agentlab.faults import Fault, Faults
from agentlab.faults.spec import fault_from_json

if TYPE_CHECKING:
    from agentlab.lab.session import Session


@dataclass(frozen=True, slots=True)
class FaultRow:
    """One fault of a session. ``state`` is *armed* or *struck*; ``seq`` is the event that says so; ``ref`` the id of the
    call that it hit, ``hit`` what came of that call (a kind of event and its number); ``seed`` that of its schedule."""

    fault: str
    words: str
    state: str
    seq: int
    incarnation: int
    follows: str = ""
    ref: str = ""
    hit: str = ""
    seed: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The row as plain data."""
        return asdict(self)


_ENDS = frozenset({"model_response", "model_error", "tool_result", "tool_error", "retry_scheduled", "effect_verified"})
"""Events that tell what came of a call."""


def schedule_of(crash: Iterable[Any], faults: Iterable[Any] | Faults, seed: int | None) -> Faults:
    """One schedule of what was given as ``crash`` and as ``faults``; ``seed`` counts before that of a schedule.

    Raises:
        BadDefinition, UnknownName: something that is no fault.
    """
    if isinstance(crash, (str, Fault)):
        raise BadDefinition(f"crash is a list of faults, not {crash!r}: write [{str(crash)!r}]")
    given = faults if isinstance(faults, Faults) else None
    if seed is None and given is not None:
        seed = given.seed
    known = list(given) if given is not None else list(Faults(faults, seed))
    schedule = Faults(crash, seed, first=len(known) + 1 if known else 1)
    schedule.faults = (*schedule.faults, *known)
    if len({fault.id for fault in schedule}) < len(schedule):
        raise BadDefinition("two faults of the schedule have the same id")
    return schedule


def arm(session: Session, schedule: Faults) -> Faults:
    """Write a schedule into a session's log: in force for its next harness, and for a living one from its next command on."""
    if len(schedule):
        session.add_input(Draft("fault_armed", {"id": session.lab.ids.new("a"), **schedule.to_json()}))
    return schedule


def inject(session: Session, faults: Iterable[Any] | Faults, seed: int | None = None) -> Faults:
    """Arm more faults in a session, running or resting; what was armed.

    Raises:
        BadDefinition, UnknownName: something that is no fault.
        UserError: the session has ended.
    """
    if session.state.control.status == "ended":
        raise UserError(f"session {session.id!r} has ended: nothing can strike it any more")
    armed = sum(len(e.payload["schedule"]) for e in session.replay() if e.type == "fault_armed")
    if isinstance(faults, Faults):
        seed = faults.seed if seed is None else seed
        faults = faults.words()
    return arm(session, Faults(faults, seed, first=armed + 1))


def fault_rows(events: Iterable[Event]) -> list[FaultRow]:
    """Every fault of a session in the order of arming, then what was done by hand."""
    rows: dict[str, FaultRow] = {}
    came: dict[str, list[str]] = {}
    for event in events:
        if event.type in _ENDS:
            call = str(event.payload.get("request_id") or event.call_id)
            came.setdefault(call, []).append(f"{event.type} {event.seq}")
        if event.type == "fault_armed":
            for data in event.payload["schedule"]:
                fault = fault_from_json(data)
                rows[fault.id] = FaultRow(
                    fault.id, fault.spec(), "armed", event.seq, event.incarnation, fault.follows, seed=event.payload.get("seed")
                )  # fmt: skip
        elif event.type == "fault_injected":
            p = event.payload
            known = rows.get(p["fault"])
            key = known.fault if known else f"{p['fault']} {event.seq}"
            ends = came.get(str(p.get("ref")), [])
            rows[key] = FaultRow(
                p["fault"], str(p.get("point") or f"{p['action']} {p['target']}"), "struck", event.seq, event.incarnation,
                known.follows if known else "", str(p.get("ref", "")), seed=known.seed if known else None,
                hit=ends.pop(0) if ends else "",
            )  # fmt: skip
    return list(rows.values())


def armed_in(events: Iterable[Event]) -> Faults:
    """The whole schedule of a session, to be given to another one."""
    found = [e.payload for e in events if e.type == "fault_armed"]
    data = [fault for payload in found for fault in payload["schedule"]]
    return Faults.from_json({"schedule": data, "seed": found[0].get("seed") if found else None})
