"""Drawing on the budget that the sessions of a lab share: joining it, drawing chunks, giving back at rest."""

from __future__ import annotations

from collections import Counter

from agentlab import process
from agentlab.clock import Clock
from agentlab.errors import AgentlabError, Fenced
from agentlab.events import Draft
from agentlab.harness.rig import Rig
from agentlab.harness.wake import load
from agentlab.observe import log
from agentlab.pool.budget import Judge, Unused
from agentlab.pool.folder import NAME
from agentlab.ports import LogStore
from agentlab.session.commands import DrawBudget


def enter(rig: Rig) -> None:
    """Before the first command: what the pool has set aside for this session goes into its log, where they differ.

    A harness that died between the two logs left the reservation in the pool's; it is taken up here.
    """
    state = rig.state
    if rig.pool is None or state.control.status != "running" or state.control.pause_id:
        return
    allotted = rig.pool.join(rig.recorder.incarnation, state.budget.committed) or {}
    if allotted != state.budget.allotted:
        rig.recorder.commit((_allotted(rig, allotted, "taken up"),))


def perform_draw(command: DrawBudget, rig: Rig) -> list[Draft]:
    """Draw from the pool, first in its log, then in the session's."""
    # The fence check comes first: who is fenced must not draw.
    rig.recorder.commit()
    have = rig.state.budget.allotted
    least = {name: have.get(name, 0) + amount for name, amount in command.needs.items()}
    wished = {name: have.get(name, 0) + amount for name, amount in command.wishes.items()}
    if rig.pool is None:
        return [_allotted(rig, {**have, **wished}, "there is no pool")]
    reservation = reservation_id(rig)
    drawn = rig.pool.draw(reservation, rig.recorder.incarnation, least, wished)
    if drawn.refused:
        payload = {"pool": NAME, "dimension": drawn.refused, "needed": command.needs[drawn.refused]}
        return [Draft("budget_refused", payload, step=rig.state.plan.current or None)]
    return [_allotted(rig, drawn.allotted, "drawn", reservation)]


def pace(rig: Rig, name: str) -> bool:
    """Right before a send: wait until it is within the lab's quotas and count it; False when a pause was asked for."""
    if rig.pool is None:
        return True
    service = rig.state.budget.services.get(name)
    names = (name,) if service is None else (name, service)
    while (later := rig.pool.pace(names)) > 0:
        if not rig.wait_until(later):
            return False
    return True


def returning(rig: Rig) -> tuple[Draft, ...]:
    """Before a rest: the session keeps only what it has committed; to be committed together with the rest itself."""
    budget = rig.state.budget
    if rig.pool is None or not budget.allotted:
        return ()
    # What a provider counted beyond the estimate is told too: the pool then has less left than it thought.
    kept = {name: budget.committed(name) for name in budget.allotted}
    return () if kept == budget.allotted else (_allotted(rig, kept, "returned"),)


def give_back(rig: Rig) -> None:
    """After it: the pool may set it aside for others."""
    state = rig.state
    if rig.pool is None or not state.budget.allotted:
        return
    ended = state.control.status == "ended"
    try:
        rig.pool.give_back(reservation_id(rig), rig.recorder.incarnation, state.budget.allotted, closed=ended)
    except Fenced:
        raise
    except AgentlabError:
        # The session's own log says what it keeps: whoever needs the rest of it finds it there.
        log.warning("%s could not give back to the pool now", rig.log.session_id, exc_info=True)


def reservation_id(rig: Rig) -> str:
    """The pool's name for a reservation: the session and the event after which it is made."""
    return f"{rig.log.session_id}#{rig.state.seq}"


def unused(store: LogStore, clock: Clock) -> Judge:
    """Asks the logs of other sessions what became of them.

    A harness spends, records it and leaves at once. So the log of one that is found dead is read again after that: what
    it committed is only what the log still says then.
    """

    def judge(session_id: str) -> Unused | None:
        read = -1
        while True:
            try:
                state = load(store.open(session_id), store.blobs, clock).state
            except AgentlabError:
                return None
            ended = state.control.status == "ended"
            if not ended and (not state.process or process.liveness(state.process) != "dead"):
                return None
            if ended or state.seq == read:
                break
            read = state.seq
        # A call without a result may have been sent: until it is known it counts.
        open_calls = Counter(name for call in state.calls for name in ("tool_calls", f"tool:{call.tool}"))
        return Unused(state.budget.committed, {} if ended else open_calls, ended)

    return judge


def _allotted(rig: Rig, allotted: object, reason: str, reservation: str = "") -> Draft:
    payload = {"pool": NAME, "allotted": allotted, "reason": reason}
    if reservation:
        payload["reservation"] = reservation
    return Draft("budget_allotted", payload, step=rig.state.plan.current or None)
