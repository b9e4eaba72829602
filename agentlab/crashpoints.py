"""Named crash points: every boundary of input and output in the product, in one enum.

Product code calls :func:`reach` before and after each boundary. It is a no-op unless something armed it
(:func:`arm`); what happens then (a real SIGKILL, a stop, a raised error, a simulated death) is the armed
callable's business, which lives above in ``agentlab.faults``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Literal

When = Literal["before", "after"]


class CrashPoint(StrEnum):
    """The places where a process can die. ``value`` is the name that users write."""

    # harness
    WAKE = "wake"  # a harness wakes: before its first read / after its opening commit
    CHECKPOINT_LOAD = "checkpoint.load"
    REPLAY = "log.replay"
    COMMIT = "log.commit"  # one append as the harness sees it; detail = the event types in it
    SEAL = "seal"  # merging the commits of a session that has ended, as a whole
    # log store
    LOG_WRITE = "log.write"  # bytes into the temporary file
    LOG_FSYNC = "log.fsync"
    LOG_LINK = "log.link"
    LOG_DIRSYNC = "log.dirsync"
    LOG_UNLINK = "log.unlink"
    SEGMENT_WRITE = "segment.write"
    SEGMENT_FSYNC = "segment.fsync"
    SEGMENT_LINK = "segment.link"
    SEGMENT_DIRSYNC = "segment.dirsync"
    SEGMENT_UNLINK = "segment.unlink"  # removal of the temporary file of a segment that is in place
    SEGMENT_CLEAN = "segment.clean"  # removal of commits that a segment covers
    BLOB_WRITE = "blob.write"
    BLOB_FSYNC = "blob.fsync"
    BLOB_LINK = "blob.link"
    BLOB_DIRSYNC = "blob.dirsync"
    POINTER_WRITE = "checkpoint.pointer"
    # model
    MODEL_SEND = "model.send"
    MODEL_REPLY = "model.reply"
    # tools
    TOOL_SEND = "tool.send"  # a call goes to the tool host
    TOOL_REPLY = "tool.reply"
    TOOLHOST_SPAWN = "toolhost.spawn"
    TOOLHOST_KILL = "toolhost.kill"
    # external effects
    EFFECT_CLAIM = "effect.claim"  # an effect that happens once per content is claimed for this session
    EFFECT_SEND = "effect.send"  # after effect_pending is durable, before the outside is touched
    EFFECT_REPLY = "effect.reply"  # the outside has answered, the record is not yet written
    EFFECT_VERIFY = "effect.verify"
    # sandbox
    SANDBOX_SPAWN = "sandbox.spawn"
    SANDBOX_CONNECT = "sandbox.connect"
    SANDBOX_EXECUTE = "sandbox.execute"  # before: not sent; after: running, result not taken
    SANDBOX_RESULT = "sandbox.result"
    SANDBOX_ACK = "sandbox.acknowledge"
    SANDBOX_DESTROY = "sandbox.destroy"
    SNAPSHOT = "snapshot.take"
    SNAPSHOT_RESTORE = "snapshot.restore"
    # supervisor
    HARNESS_SPAWN = "harness.spawn"
    HARNESS_KILL = "harness.kill"


class SimulatedDeath(BaseException):
    """A death that did not take the process along. After it every port of that incarnation is dead."""


Misdeed = tuple[str, float]
"""How a service is to misbehave at this very call: the kind (``lost_reply``), and its number (seconds, bytes)."""
Armed = Callable[[CrashPoint, When, str], None]
"""What strikes at a boundary. It may have a method ``misdeed(service, name, ref)`` as well, see :func:`misdeed`."""
_armed: Armed | None = None


def arm(trigger: Armed | None) -> None:
    """Install ``trigger(point, when, detail)``, or remove it with None. One per process."""
    global _armed
    _armed = trigger


def reach(point: CrashPoint, when: When, detail: str = "") -> None:
    """Say that a boundary is reached. Does nothing unless armed; may then not return."""
    if _armed is not None:
        _armed(point, when, detail)


def misdeed(service: str, name: str = "", ref: str = "") -> Misdeed | None:
    """Ask, right before a call, whether ``service`` (``model``, ``tool``) is to misbehave in it; None unless armed.

    ``name`` says which one (the tool's name, the purpose of a model call), ``ref`` is the id of the call.
    """
    ask = getattr(_armed, "misdeed", None)
    found: Misdeed | None = ask(service, name, ref) if ask is not None else None
    return found
