"""Where two sessions part: the first event that differs, the calls that differ, what each cost, how each ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from agentlab.errors import UserError
from agentlab.events import Event, canonical, plain
from agentlab.lab.lines import event_line
from agentlab.lab.session import Session
from agentlab.lab.showing import Rich
from agentlab.models.recorded import differences
from agentlab.session.superseding import is_superseded

if TYPE_CHECKING:
    import pandas as pd

SPENT = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "cost_microusd", "steps")
COLUMNS = ("what", "step", "tool_name", "a_seq", "b_seq", "a_result", "b_result")
SHOWN = 60


@dataclass(frozen=True, slots=True)
class CallDifference:
    """A tool call that only one session made, or that both made with different results.

    ``what`` is *only in a*, *only in b* or *other result*; results are summaries, empty where there is none.
    """

    what: str
    step: str
    tool_name: str
    a_seq: int | None
    b_seq: int | None
    a_result: str
    b_result: str


@dataclass(frozen=True, repr=False)
class Difference(Rich):
    """How two sessions differ.

    ``shared`` is the last event that both logs hold in common (0 when they are no relatives); ``first`` the first event
    of each that differs in what was said, done or found, None where one ends before; ``where`` what differs in it;
    ``calls`` the calls that differ; ``cost`` amounts by name as (a, b); ``outcome`` likewise; ``files`` the paths of
    the workspaces whose contents differ.
    """

    a: str
    b: str
    shared: int
    first: tuple[Event | None, Event | None]
    where: tuple[str, ...]
    calls: tuple[CallDifference, ...]
    cost: dict[str, tuple[int, int]]
    outcome: dict[str, tuple[str, str]]
    files: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether nothing that was said, done or found differs."""
        return self.first == (None, None) and not self.calls and not self.files

    @property
    def data(self) -> pd.DataFrame:
        """The calls that differ as a data frame: what, step, tool_name, a_seq, b_seq, a_result, b_result."""
        import pandas as pd

        rows = [[getattr(call, name) for name in COLUMNS] for call in self.calls]
        kinds = {"a_seq": "Int64", "b_seq": "Int64"}
        return pd.DataFrame(rows, columns=list(COLUMNS)).astype({c: kinds.get(c, "string") for c in COLUMNS})

    def head(self) -> str:
        """Where they part."""
        common = f"share events 1 to {self.shared}" if self.shared else "share no event"
        if self.same:
            return f"{self.a} and {self.b} {common} and do the same"
        one, other = self.first
        if one is None and other is None:
            return f"{self.a} and {self.b} {common}; only results differ"
        places = [f"event {e.seq}" if e is not None else "its end" for e in (one, other)]
        return f"{self.a} and {self.b} {common} and part at {places[0]} and {places[1]}"

    def tables(self) -> Sequence[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
        """The first differing event, the calls, the cost, the outcome."""
        names = ("", self.a, self.b)
        lines = [_short(event_line(e)) if e is not None else "(ends)" for e in self.first]
        first = [("parts at", *lines)] if self.first != (None, None) else []
        rest: list[Sequence[Any]] = [(name, one, other) for name, (one, other) in self.outcome.items()]
        rest += [(name, one, other) for name, (one, other) in self.cost.items() if one or other]
        calls = [(c.what, c.step, c.tool_name, _short(c.a_result), _short(c.b_result)) for c in self.calls]
        return [
            (names, [*first, *rest]),
            ((), [("differs", line) for line in self.where]),
            (("calls", "step", "tool", self.a, self.b), calls),
            ((), [("file", path) for path in self.files]),
        ]

    def to_json(self) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "a": self.a,
            "b": self.b,
            "shared": self.shared,
            "first": [None if e is None else {"seq": e.seq, "type": e.type} for e in self.first],
            "where": list(self.where),
            "calls": [asdict(call) for call in self.calls],
            "cost": {name: list(pair) for name, pair in self.cost.items()},
            "outcome": {name: list(pair) for name, pair in self.outcome.items()},
            "files": list(self.files),
        }


def diff(a: Session, b: Session) -> Difference:
    """Compare two sessions, relatives or not, by what they said, did and found; not by clocks, ids or crashes.

    What returns to a checkpoint superseded is left out.

    Raises:
        UserError: one of them is no session.
    """
    for given in (a, b):
        if not isinstance(given, Session):
            raise UserError(f"diff compares two sessions, not {given!r}: lab.session(ID) gives one")
    events = [_in_force(session) for session in (a, b)]
    ours, theirs = ([(e, _said(e)) for e in found if e.type in _COMPARED] for found in events)
    first: tuple[Event | None, Event | None] = (None, None)
    where: tuple[str, ...] = ()
    for index in range(max(len(ours), len(theirs))):
        one = ours[index] if index < len(ours) else (None, None)
        other = theirs[index] if index < len(theirs) else (None, None)
        if one[1] != other[1]:
            first = (one[0], other[0])
            where = (
                tuple(differences(one[1], other[1], sides=("in a", "in b")))
                if one[1] is not None and other[1] is not None
                else ()
            )
            break
    return Difference(
        a=a.id,
        b=b.id,
        shared=_shared(a, b),
        first=first,
        where=where,
        calls=tuple(_calls(events[0], events[1])),
        cost={name: (a.state.budget.used.get(name, 0), b.state.budget.used.get(name, 0)) for name in SPENT},
        outcome=_outcome(a, b),
        files=_files(a, b),
    )


def _in_force(session: Session) -> list[Event]:
    gone = session.superseded()
    return [e for e in session.events() if not is_superseded(e.seq, gone)]


def _shared(a: Session, b: Session) -> int:
    found = 0
    for one, other in zip(a.log.replay(), b.log.replay(), strict=False):
        if one.hash != other.hash:
            break
        found = one.seq
    return found


# --- what an event says ----------------------------------------------------------------------------------------------------

_COMPARED = {
    "model_response": ("purpose", "content"),
    "tool_result": ("tool", "output"),
    "tool_error": ("tool", "message"),
    "plan_set": ("steps",),
    "step_completed": ("step_id",),
    "step_validated": ("step_id", "satisfied", "reasons"),
    "task_validated": ("satisfied", "reasons"),
    "attempt_started": ("attempt",),
    "guard_verdict": ("rule", "action"),
    "question_asked": ("question",),
    "user_reply": ("text",),
    "approval_given": (),
    "approval_denied": (),
    "effect_in_doubt": ("tool",),
    "session_ended": ("outcome",),
}
"""Kinds that are compared, and the fields that say what was said, done or found."""


def _said(event: Event) -> dict[str, Any]:
    said: dict[str, Any] = {"type": event.type}
    for name in _COMPARED[event.type]:
        value = plain(event.payload.get(name))
        said[name] = [_block(block) for block in value] if name == "content" else value
    if event.type in ("tool_result", "tool_error"):
        said["input"] = event.input_hash
    return said


def _block(block: Any) -> Any:
    """A content block without the id that the provider gave it."""
    return {k: v for k, v in block.items() if k != "id"} if isinstance(block, dict) else block


# --- calls, outcome, files -------------------------------------------------------------------------------------------------


def _calls(a: Sequence[Event], b: Sequence[Event]) -> list[CallDifference]:
    ours, theirs = _answered(a), _answered(b)
    keys = [[(e.tool_name, e.input_hash) for e in found] for found in (ours, theirs)]
    out: list[CallDifference] = []
    steps = _steps(a), _steps(b)
    for what, i1, i2, j1, j2 in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if what == "equal":
            pairs = zip(ours[i1:i2], theirs[j1:j2], strict=True)
            out += [_row("other result", one, other, steps[0]) for one, other in pairs if _said(one) != _said(other)]
            continue
        out += [_row("only in a", one, None, steps[0]) for one in ours[i1:i2]]
        out += [_row("only in b", None, other, steps[1]) for other in theirs[j1:j2]]
    return out


def _answered(events: Sequence[Event]) -> list[Event]:
    return [e for e in events if e.type in ("tool_result", "tool_error")]


def _steps(events: Sequence[Event]) -> dict[int, str]:
    return {e.step: e.payload["step_id"] for e in events if e.type == "step_started" and e.step is not None}


def _row(what: str, one: Event | None, other: Event | None, steps: dict[int, str]) -> CallDifference:
    event = one or other
    assert event is not None
    return CallDifference(
        what=what,
        step=steps.get(event.step or 0, ""),
        tool_name=event.tool_name or "",
        a_seq=one.seq if one else None,
        b_seq=other.seq if other else None,
        a_result=_result(one),
        b_result=_result(other),
    )


def _result(event: Event | None) -> str:
    if event is None:
        return ""
    if event.type == "tool_error":
        return f"error: {event.payload['message']}"[:300]
    said = event.payload.get("summary") or event.payload.get("output")
    return said if isinstance(said, str) else canonical(plain(said))[:300]


def _outcome(a: Session, b: Session) -> dict[str, tuple[str, str]]:
    ours, theirs = a.status(), b.status()
    return {
        "model": (_short(a.definition.model), _short(b.definition.model)),
        "status": (ours.status, theirs.status),
        "steps done": (f"{ours.steps_done} of {ours.steps}", f"{theirs.steps_done} of {theirs.steps}"),
        "answer": (_short(a.state.plan.answer), _short(b.state.plan.answer)),
        "effects": (str(a.state.effects.completed), str(b.state.effects.completed)),
        "crashes": (str(ours.crashes), str(theirs.crashes)),
    }


def _files(a: Session, b: Session) -> tuple[str, ...]:
    ours, theirs = a.file_digests(), b.file_digests()
    return tuple(sorted(path for path in {*ours, *theirs} if ours.get(path) != theirs.get(path)))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"
