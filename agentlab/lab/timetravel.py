"""Time travel: the folded state at any event, and going back to a checkpoint. Reading never writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentlab.counting import counted
from agentlab.definition import Definition
from agentlab.errors import AgentlabError, UserError
from agentlab.events import GENESIS, Draft, Event
from agentlab.evolve import evolve
from agentlab.harness.restoring import checkpoint_at, superseded_by
from agentlab.harness.wake import read_checkpoint
from agentlab.lab.checkpoints import find
from agentlab.lab.lines import event_line
from agentlab.lab.showing import Rich
from agentlab.ports import Blobs, Log
from agentlab.session.commands import Command
from agentlab.session.decide import Run, decide
from agentlab.session.fold import fold_all
from agentlab.session.recovery import done_steps, next_step
from agentlab.session.state import State
from agentlab.session.statecodec import to_json

if TYPE_CHECKING:
    from agentlab.lab.recorded import RecordedSession
    from agentlab.lab.session import Session

SPENT = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "cost_microusd")


def state_at(log: Log, blobs: Blobs, seq: int) -> State:
    """The folded state as of event ``seq``: from the newest checkpoint before it that verifies, else from the first event.

    Raises:
        UserError: there is no such event.
        LogCorrupt: the log does not verify.
    """
    head = log.head().seq
    if not isinstance(seq, int) or isinstance(seq, bool) or not 1 <= seq <= head:
        raise UserError(f"session {log.session_id!r} has events 1 to {head}: there is no event {seq!r}")
    state = State(hash=GENESIS)
    for pointer in log.pointers():
        if pointer.cursor <= seq:
            try:
                state = read_checkpoint(log, blobs, pointer)
                break
            except AgentlabError:
                continue  # one that does not verify is passed over here as at a wake
    return fold_all(state, log.replay(state.seq + 1, seq))


@dataclass(frozen=True, repr=False)
class StateAt(Rich):
    """A session as it was right after event ``seq``: ``state`` is the whole folded state, ``event`` the event itself."""

    session_id: str
    seq: int
    head_seq: int
    event: Event
    state: State
    definition: Definition
    superseded: bool = False

    @property
    def next(self) -> Command:
        """What the harness would have done next; single steps are not counted."""
        control = evolve(self.state.control, mode="run")
        return decide(evolve(self.state, control=control), Run.of(self.definition))

    def head(self) -> str:
        """Which event, of how many."""
        gone = ", superseded since" if self.superseded else ""
        return f"{self.session_id} at event {self.seq} of {self.head_seq}{gone}"

    def tables(self) -> Sequence[tuple[Sequence[str], Sequence[Sequence[Any]]]]:
        """The parts of the state, a line each."""
        s = self.state
        blocks = counted(len(s.context.blocks), "block")
        rows = [
            ("event", event_line(self.event)),
            ("status", s.control.status + (f" ({s.control.reason})" if s.control.reason else "")),
            ("steps done", ", ".join(done_steps(s)) or "none"),
            ("step", _step(s)),
            ("open calls", ", ".join(f"{c.tool} ({c.status})" for c in s.calls) or "none"),
            ("effects", f"{s.effects.completed} completed"),
            ("workspace", _workspace(s)),
            ("context", f"{blocks} in {counted(s.context.round, 'round')}, {len(s.context.anchors)} pinned"),
            ("spent", ", ".join(f"{name} {s.budget.used[name]}" for name in SPENT if s.budget.used.get(name)) or "-"),
            ("checkpoint", f"event {s.checkpoint.seq}" if s.checkpoint.seq else "none yet"),
            ("crashes", s.recovery.crashes),
            ("next", self.next.describe()),
        ]
        return [((), rows)]

    def to_json(self) -> dict[str, Any]:
        """The whole folded state as plain data."""
        return {"session_id": self.session_id, "seq": self.seq, "state": to_json(self.state)}


def _step(state: State) -> str:
    step = next_step(state)
    if step is None:
        return "all done" if state.plan.steps else "no plan"
    return f"{step}, {'in progress' if state.plan.started else 'to begin'}, round {state.plan.rounds}"


def _workspace(state: State) -> str:
    if not state.sandbox.snapshot:
        return f"no snapshot, {len(state.sandbox.since_snapshot)} commands so far"
    return f"a snapshot, {len(state.sandbox.since_snapshot)} commands since"


def at(session: RecordedSession, seq: int) -> StateAt:
    """See :meth:`agentlab.lab.Session.at`."""
    log, blobs = session.log, session.lab.store.blobs
    state = state_at(log, blobs, seq)
    event = next(iter(log.replay(seq, seq)))
    gone = superseded_by(log, seq) is not None
    return StateAt(session.id, seq, log.head().seq, event, state, session.definition, gone)


def request_restore(session: Session, checkpoint: int | str) -> int:
    """Ask for a return to a checkpoint; the seq of its event. See :meth:`agentlab.lab.Session.restore`."""
    control = session.state.control
    if control.status == "ended":
        raise UserError(
            f"session {session.id!r} has ended ({control.outcome}): it does not go back; fork it at that checkpoint instead"
        )
    seq = find(session.checkpoints(), checkpoint).seq
    checkpoint_at(session.log, session.lab.store.blobs, seq)  # what the harness would refuse is refused here
    session.add_input(Draft("restore_requested", {"id": session.lab.ids.new("i"), "checkpoint_seq": seq}))
    return seq
