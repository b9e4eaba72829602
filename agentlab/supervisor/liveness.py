"""Whether the harness that a log names last is alive, and taking a session over from it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.errors import SessionBusy
from agentlab.supervisor import ps


@dataclass(frozen=True, slots=True)
class Standing:
    """How the harness of a record stands. ``unknown`` is another host's: it is never called crashed.

    ``ending`` is True when it is alive but its keeper or owner is not: it goes within the grace, so waiting helps.
    ``message`` says what happened, where, and what to do next; empty for ``dead``.
    """

    state: process.Liveness
    ending: bool
    message: str


def standing(record: Mapping[str, Any], session_id: str, lab: Path | str | None = None) -> Standing:
    """Judge the process record (host, boot_id, pid, start_time) of the newest opening in a session's log."""
    state = process.liveness(record)
    where = f"pid {record.get('pid')} on host {record.get('host')!r}"
    if state == "dead":
        return Standing(state, False, "")
    if state == "unknown":
        seen = f"whether it is alive can not be seen from host {process.host()!r}"
        message = f"session {session_id!r} was last run by {where}, and {seen}: end it there, or wake the session there"
        return Standing(state, False, message)
    ending = any(
        one.kind == "harness"
        and one.pid == record["pid"]
        and one.start_time == record["start_time"]
        and "dead" in (process.liveness(one.keeper), process.liveness(one.owner))
        for one in _recorded(lab)
    )
    if ending:
        advice = "its owner is gone and it ends within seconds: wait a moment"
    else:
        advice = "wait for it, or take the session over, which kills that process"
    return Standing(state, ending, f"session {session_id!r} is run by a harness that is alive ({where}): {advice}")


def ensure_free(
    record: Mapping[str, Any], session_id: str, lab: Path | str | None = None, wait_s: float = 30.0
) -> None:
    """Return when no harness of this record is alive, after waiting up to ``wait_s`` seconds for one that is ending.

    Raises:
        SessionBusy: it is alive, or may be (another host).
    """
    judged = standing(record, session_id, lab)
    if judged.state == "dead" or (judged.ending and process.await_death(record, wait_s)):
        return
    raise SessionBusy(judged.message)


def takeover(
    record: Mapping[str, Any], session_id: str, lab: Path | str | None = None, timeout_s: float = 30.0
) -> bool:
    """SIGKILL the harness of ``record`` and await its death, and with ``lab`` that of its tool hosts too.

    A living keeper above it is told by a file in the lab's ``run`` folder not to restart it. Returns False when it
    was dead already. The start time is checked before anything is signalled.

    Raises:
        SessionBusy: it belongs to another host, is this very process, or has not died within ``timeout_s`` seconds.
    """
    judged = standing(record, session_id, lab)
    if judged.state == "unknown":
        raise SessionBusy(judged.message)
    pid = int(record["pid"])
    if judged.state == "alive" and pid == os.getpid():
        raise SessionBusy(f"session {session_id!r} is being run by this very process: stop it here first")
    marker = None if lab is None else Path(lab) / "run" / f"takeover-{pid}"
    if marker is not None and judged.state == "alive":
        marker.parent.mkdir(parents=True, exist_ok=True)
        aside = marker.with_name(f"{marker.name}.{os.getpid()}.tmp")
        aside.write_text(str(record["start_time"]), "utf-8")
        aside.replace(marker)
    try:
        killed = process.send_signal(record, signal.SIGKILL)
        deadline = time.monotonic() + timeout_s
        if not process.await_death(record, timeout_s) or not _tool_hosts_gone(session_id, record, lab, deadline):
            late = f"has not died {timeout_s:g} s after SIGKILL"
            raise SessionBusy(f"session {session_id!r}: pid {pid}, or a tool host of it, {late}: try again")
    finally:
        if marker is not None:
            marker.unlink(missing_ok=True)
    return killed


def _recorded(lab: Path | str | None) -> list[ps.Owned]:
    return [] if lab is None else ps.owned(lab)


def _tool_hosts_gone(session_id: str, record: Mapping[str, Any], lab: Path | str | None, deadline: float) -> bool:
    """Await the end of what the dead harness had running; False at the ``deadline`` (monotonic seconds).

    A living keeper kills the tool hosts itself and removes the harness's record only when they are reaped. Under a
    dead keeper they end by their own watch; they are killed here so that nobody has to wait.
    """
    while True:
        left = []
        for one in _recorded(lab):
            if one.session != session_id or one.kind not in ("harness", "toolhost"):
                continue
            # A keeper that is stopped reaps nothing: what it still has on record can be dead all the same.
            keeper_dead = process.liveness(one.keeper) == "dead" or process.stopped(int(one.keeper["pid"]))
            if one.kind == "harness":
                same = one.pid == record["pid"] and one.start_time == record["start_time"]
                if same and not keeper_dead:
                    left.append(one)
            elif keeper_dead and one.alive == "alive":
                process.send_signal(one.record, signal.SIGKILL, group=True)
                left.append(one)
        if not left:
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.002)
