"""The loop: look at the log, decide, perform, stage; until the session rests."""

from __future__ import annotations

from collections.abc import Callable

from agentlab.harness.perform import perform
from agentlab.harness.recorder import Redecide
from agentlab.harness.rig import Rig
from agentlab.session.commands import Command, Rest
from agentlab.session.decide import decide


def run(rig: Rig, before: Callable[[Command], None] | None = None) -> str:
    """Drive the session until it rests; returns why: ``ended``, ``paused`` or ``waiting``.

    ``before`` is told each command before it is done.

    Raises:
        Fenced: a newer incarnation owns the session; nothing more was written.
        StorageFailed: the log could not be written; what was acknowledged stands.
    """
    while True:
        command = turn(rig, before)
        if isinstance(command, Rest):
            return command.why


def turn(rig: Rig, before: Callable[[Command], None] | None = None) -> Command:
    """One command: decided, told, done, staged. ``Rest`` when there is nothing to do."""
    try:
        rig.recorder.poll()
        command = decide(rig.state, rig.run)
        if before is not None:
            before(command)
        if isinstance(command, Rest):
            rig.recorder.commit()
            rig.log.flush()
            rig.acknowledge()
            return command
        rig.recorder.stage(perform(command, rig))
        if rig.state.control.mode == "step":
            rig.recorder.commit()
    except Redecide:
        return turn(rig, before)
    return command
