"""Where a session is, derived when asked: from its folded state and from whether its harness lives."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agentlab import process
from agentlab.counting import counted
from agentlab.events import Draft, Head, seal
from agentlab.harness.wake import wake_reason
from agentlab.session.fold import fold_all
from agentlab.session.recovery import done_steps, next_step
from agentlab.session.state import State


@dataclass(frozen=True, slots=True)
class Status:
    """A session's status in one row.

    ``status``: *new*, *running*, *queued* (waits for a place to run in), *paused*, *waiting* (for a person),
    *completed*, *failed*, *crashed* (its harness is gone; it can be woken) or *unknown* (driven on another host).
    ``step`` is the id of the step in progress.
    """

    session_id: str
    status: str
    reason: str
    step: str | None
    steps_done: int
    steps: int
    events: int
    turns: int
    crashes: int
    resumable: bool

    def to_json(self) -> dict[str, Any]:
        """The status as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        where = f", step {self.step}" if self.step and self.status not in ("completed", "failed") else ""
        why = f" ({self.reason})" if self.reason and self.reason != self.status else ""
        done = f"{self.steps_done} of {self.steps} steps done, {counted(self.events, 'event')}"
        return f"{self.session_id}: {self.status}{why}{where}, {done}"


def status_of(state: State, alive: process.Liveness) -> Status:
    """The status that a state and the standing of its harness imply, both as :meth:`Reader.standing` gives them."""
    control = state.control
    word, reason = control.status, control.reason
    if word == "ended":
        word, reason = control.outcome, ""
    elif word == "new" and control.pause_id:
        word, reason = "paused", control.pause_reason
    elif word == "running" and not state.incarnation:  # asked to begin, and nobody has
        word = "new"
    elif word in ("running", "new") and state.incarnation:
        if alive == "unknown" and not control.rested:
            word, reason = "unknown", f"last driven on host {state.process.get('host')}"
        elif alive == "dead" and control.pause_id:
            word, reason = "paused", control.pause_reason
        elif alive == "dead" and not control.rested:
            word, reason = "crashed", "its harness is gone; wake it"
        elif alive != "alive":  # rested, and since then answered: nothing drives it
            word, reason = "paused", "ready to go on; wake it"
        elif control.queued:
            word, reason = "queued", f"place {control.queued}"
    elif word == "waiting":
        reason = str(control.question.get("question", ""))
    return Status(
        session_id=state.session_id,
        status=word,
        reason=reason,
        step=next_step(state),
        steps_done=len(done_steps(state)),
        steps=len(state.plan.steps),
        events=state.seq,
        turns=state.turns,
        crashes=state.recovery.crashes,
        resumable=word in ("paused", "crashed", "new", "waiting"),
    )


def as_woken(state: State, now_us: int) -> State:
    """The state as it would be if the session were woken now: folded from events that are never appended.

    A state that is being driven, that waits for a person or that has ended stays as it is.
    """
    control = state.control
    if control.status in ("waiting", "ended"):
        return state
    drafts = []
    if control.status == "paused" or control.pause_id:
        drafts.append(Draft("resume_requested", {"id": "as-if"}))
    incarnation = state.incarnation
    if not state.process or process.liveness(state.process) == "dead":
        incarnation += 1
        woken = {"process": dict(state.process), "baseline": dict(state.baseline), "cursor": state.checkpoint.cursor}
        if state.checkpoint.seq:
            woken["checkpoint_seq"] = state.checkpoint.seq
        drafts.append(Draft("harness_woken", {**woken, "reason": wake_reason(state, takeover=False)}))
    head = Head(state.seq, state.hash)
    return fold_all(
        state,
        seal(drafts, head, session_id=state.session_id, incarnation=incarnation, commit_id="as-if", now_us=now_us),
    )


def damaged(session_id: str, why: str) -> Status:
    """The status of a session that can not be read."""
    return Status(session_id, "damaged", " ".join(why.split()), None, 0, 0, 0, 0, 0, False)


def never_accepted(session_id: str) -> Status:
    """The status of a session whose first event was never written: who accepted the task died before."""
    why = "its task was never written down; give another session id, or remove the session's folder"
    return Status(session_id, "empty", why, None, 0, 0, 0, 0, 0, False)
