"""Taking a place among the sessions that run, waiting in the queue for one, giving it back."""

from __future__ import annotations

from agentlab.errors import AgentlabError
from agentlab.events import Draft
from agentlab.harness.recorder import Redecide
from agentlab.harness.rig import Rig
from agentlab.observe import log
from agentlab.pool.folder import NAME
from agentlab.session.commands import AwaitPlace

POLL_S = 0.1


def enter(rig: Rig) -> None:
    """Before the first command: take a place, or put into the log that the session waits for one.

    The incarnation is on record already, so whoever sets a limit at this moment sees it alive.
    """
    control = rig.state.control
    if rig.queue is None or control.status != "running" or control.pause_id:
        return
    place = rig.queue.ask()
    if place == control.queued:
        return
    try:
        rig.recorder.commit([_found(rig, place)])
    except Redecide:  # an input landed first
        enter(rig)


def perform_await_place(command: AwaitPlace, rig: Rig) -> list[Draft]:
    """Wait until a place is free or the place in the queue is another; a pause is heard meanwhile."""
    rig.recorder.commit()
    while True:
        place = rig.queue.ask() if rig.queue is not None else 0
        if place != command.place:
            return [_found(rig, place)]
        rig.clock.sleep(POLL_S)
        rig.recorder.poll()
        control = rig.state.control
        if control.pause_id or control.status != "running":
            return []


def leave(rig: Rig) -> None:
    """The session rests: its place is free for another."""
    if rig.queue is None:
        return
    try:
        rig.queue.rest()
    except AgentlabError:
        # This process is about to leave, and a place whose owner is gone is freed by the next that wants it.
        log.warning("the place of %s could not be given back now", rig.log.session_id, exc_info=True)


def _found(rig: Rig, place: int) -> Draft:
    if place:
        return Draft("session_queued", {"pool": NAME, "place": place})
    return Draft("session_admitted", {"pool": NAME, "place": rig.state.control.queued})
