"""The owner's side of the keeper: start, signal and await harnesses from a notebook's kernel or a command line."""

from __future__ import annotations

import atexit
import os
import queue
import signal
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import AgentlabError, SessionBusy, UnknownName
from agentlab.observe import Subscribers
from agentlab.ports import ProcessRecord
from agentlab.supervisor import ps
from agentlab.supervisor.connection import SLACK_S, Connection, Event, keeper_log


@dataclass(frozen=True, slots=True)
class Exit:
    """How the last harness of a session left, with no other to follow.

    ``done`` is what it said before it left on purpose (``paused``, ``ended``, ``waiting``), None for a death;
    ``taken_over``: another owner killed it; ``keeper_lost``: the keeper died, and the harness ends by its own watch;
    ``error``: why the next harness could not be started.
    """

    pid: int
    signal: int | None
    code: int | None
    done: str | None
    crash_loop: bool = False
    taken_over: bool = False
    error: str | None = None
    keeper_lost: bool = False


REAPED_S = 60.0
"""How long a harness that is dead may take until its keeper has noticed, and has ended its tool hosts (a machine that stalls)."""


def _leaving(record: Mapping[str, Any] | None) -> bool:
    """Whether the harness that is in the way is dead, and only not yet reaped; None: one of which nothing runs any more."""
    return record is None or process.liveness(record) == "dead"


def _exit(event: Event) -> Exit:
    told = {name: event[name] for name in ("pid", "signal", "code", "done", "crash_loop", "taken_over")}
    return Exit(**told, error=event.get("error"))


class Supervisor:
    """The harnesses of one lab, as this process owns them. Thread-safe.

    The keeper is started at the first request and again after it died. When this process ends, however it ends,
    everything that was started here ends within ``grace_s`` seconds. A fork shares nothing: in the child the
    object is empty and would start a keeper of the child's own. :func:`supervisor` gives the one per lab.
    """

    def __init__(self, lab: Path | str, *, grace_s: float = 5.0) -> None:
        self.lab, self.grace_s = Path(lab).absolute(), grace_s
        self._subscribers: Subscribers[Event] = Subscribers()
        self._reset()
        _every.add(self)

    def _reset(self) -> None:
        """Hold nothing: at the beginning, and in a forked child, where locks may be held by threads that are not."""
        self._pid = os.getpid()
        self._lock = threading.Lock()  # who connects
        self._changed = threading.Condition()  # the tables below
        self._connection: Connection | None = None
        self._running: dict[str, ProcessRecord | None] = {}  # None: dead, the next one is on its way
        self._exits: dict[str, Exit] = {}

    def after_fork(self) -> None:
        """Let go of the parent's keeper in a forked child, so that this copy does not keep the channel open."""
        connection = self._connection
        self._reset()
        if connection is not None:
            connection.abandon()

    # --- requests -----------------------------------------------------------------------------------------------------

    def start(
        self,
        session_id: str,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: Path | str | None = None,
        log_path: Path | str | None = None,
        restart: bool = True,
        max_no_progress: int = 3,
        arm: Any = None,
    ) -> ProcessRecord:
        """Start a harness for ``session_id`` and return its record.

        ``env`` is added to this process's environment. With ``restart`` a harness that dies is followed by the next
        at once, until ``max_no_progress`` deaths in a row came without work. ``arm`` (JSON) reaches every harness
        in ``AGENTLAB_ARM``, with the number of starts before it in ``AGENTLAB_STARTS``.

        Raises:
            SessionBusy: a harness of this session runs under this keeper.
            AgentlabError: the keeper or the harness can not be started.
        """
        reach(CrashPoint.HARNESS_SPAWN, "before", session_id)
        message = {
            "op": "start",
            "session": session_id,
            "argv": [str(part) for part in argv],
            "env": {**os.environ, **(env or {})},
            "cwd": None if cwd is None else str(cwd),
            "log_path": None if log_path is None else str(log_path),
            "restart": restart,
            "max_no_progress": max_no_progress,
            "arm": arm,
        }
        reply = self._request(message)
        deadline = time.monotonic() + REAPED_S
        while reply.get("busy") and _leaving(reply.get("record")) and time.monotonic() < deadline:
            time.sleep(0.01)
            reply = self._request(message)
        if reply.get("busy"):
            pid = (reply.get("record") or {}).get("pid", "about to start")
            raise SessionBusy(f"session {session_id!r} runs here already (pid {pid}): wait for it, pause or kill it")
        if not reply["ok"]:
            raise AgentlabError(f"the harness of session {session_id!r} could not be started: {reply['error']}")
        reach(CrashPoint.HARNESS_SPAWN, "after", session_id)
        return ProcessRecord(**reply["record"])

    def kill(self, session_id: str, target: str = "harness", sig: int = signal.SIGKILL) -> ProcessRecord:
        """Signal the newest living ``harness``, ``sandbox`` or ``toolhost`` with its group; restarts stay on.

        Raises:
            UnknownName: there is no such process.
        """
        if target == "harness":
            reach(CrashPoint.HARNESS_KILL, "before", session_id)
        reply = self._request({"op": "signal", "session": session_id, "target": target, "signal": int(sig)})
        if not reply["ok"]:
            raise UnknownName(f"{target} of a running session", session_id, self.running())
        if target == "harness":
            reach(CrashPoint.HARNESS_KILL, "after", session_id)
        return ProcessRecord(**reply["record"])

    def stop(self, session_id: str, sig: int = signal.SIGTERM) -> None:
        """Signal the harness and let no other follow it. Does nothing when there is none."""
        self._request({"op": "stop", "session": session_id, "signal": int(sig)})

    def forget(self, session_id: str) -> None:
        """SIGKILL everything of a session, harness, tool hosts and sandbox, and await the harness's end."""
        self._request({"op": "forget", "session": session_id})
        if self.alive(session_id):
            self.wait_exit(session_id, SLACK_S)

    def status(self) -> dict[str, Any]:
        """What the keeper says of its sessions; empty when no keeper runs."""
        if self._living() is None:
            return {}
        return dict(self._request({"op": "status"})["sessions"])

    def running(self) -> list[str]:
        """Ids of the sessions whose harness runs here, or is about to be restarted."""
        self._check_fork()
        with self._changed:
            return sorted(self._running)

    def alive(self, session_id: str) -> bool:
        """Whether a harness of this session runs here, or is about to be restarted."""
        return session_id in self.running()

    def wait_exit(self, session_id: str, timeout: float | None = None) -> Exit | None:
        """Wait until the session's harness has left and none follows; None after ``timeout`` seconds.

        Raises:
            UnknownName: this process has not started that session.
        """
        self._check_fork()
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            if session_id not in self._running and session_id not in self._exits:
                raise UnknownName("session started by this process", session_id, [*self._running, *self._exits])
            while session_id in self._running:
                left = 3600.0 if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            return self._exits[session_id]

    def on_event(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call back for every event of the keeper, on one daemon thread, in order; the result unsubscribes."""
        return self._subscribers.add(callback)

    def close(self) -> None:
        """End everything that was started here and await it, ``grace_s`` seconds and a little at most. Idempotent."""
        if self._pid != os.getpid():
            return
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- the connection -----------------------------------------------------------------------------------------------

    def _check_fork(self) -> None:
        if self._pid != os.getpid():
            self.after_fork()

    def _living(self) -> Connection | None:
        self._check_fork()
        connection = self._connection
        return None if connection is None or connection.lost else connection

    def _connect(self) -> Connection:
        """The living connection, or a new one: then what a dead keeper left behind is killed first."""
        with self._lock:
            connection = self._living()
            if connection is None:
                if self._connection is not None:
                    self._connection.settle()  # else the end of the last keeper would be taken for this one's
                ps.reap(self.lab, orphans_only=True)
                events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()

                def on_event(event: Event) -> None:
                    self._note(event)
                    events.put(event)

                def on_end(ended: Connection) -> None:
                    if not ended.closing:
                        events.put({"event": "keeper_lost", "record": ended.record})
                    self._keeper_ended()
                    events.put(None)

                try:
                    connection = Connection(self.lab, self.grace_s, on_event, on_end)
                except OSError as error:
                    raise AgentlabError(f"the keeper of {self.lab} can not be started: {error}") from error
                self._connection = connection
                threading.Thread(target=self._dispatch, args=(events,), name="agentlab-events", daemon=True).start()
            return connection

    def _request(self, message: Mapping[str, Any]) -> Event:
        """Ask the keeper; one that died is started anew and asked once more (what it had begun died with it).

        Raises:
            AgentlabError: no keeper answers.
        """
        for _ in range(2):
            connection = self._connect()
            answer = connection.request(message)
            if answer is not None:
                return answer
            connection.settle()
        raise AgentlabError(f"the keeper ends as soon as it is started: see {keeper_log(self.lab)}")

    def _keeper_ended(self) -> None:
        """No harness is supervised any more; those that still run end by their own watch."""
        with self._changed:
            for session_id, record in self._running.items():
                self._exits[session_id] = Exit(record.pid if record else 0, None, None, None, keeper_lost=True)
            self._running.clear()
            self._changed.notify_all()

    def _note(self, event: Event) -> None:
        """Keep the tables that :meth:`alive` and :meth:`wait_exit` look at."""
        if event["event"] == "started":
            with self._changed:
                self._running[event["session"]] = ProcessRecord(**event["record"])
        elif event["event"] == "exited" and event["kind"] == "harness":
            with self._changed:
                if event["restarting"]:
                    self._running[event["session"]] = None
                else:
                    self._running.pop(event["session"], None)
                    self._exits[event["session"]] = _exit(event)
                self._changed.notify_all()

    def _dispatch(self, events: queue.SimpleQueue[Event | None]) -> None:
        """The thread of the callbacks: they may use the supervisor, which the reader thread then serves."""
        while (event := events.get()) is not None:
            self._subscribers.tell(event)


_every: weakref.WeakSet[Supervisor] = weakref.WeakSet()
_of_lab: dict[Path, Supervisor] = {}
_of_lab_lock = threading.Lock()


def supervisor(lab: Path | str, *, grace_s: float = 5.0) -> Supervisor:
    """This process's one supervisor of ``lab`` (``grace_s`` counts only for the first to ask)."""
    with _of_lab_lock:
        return _of_lab.setdefault(Path(lab).resolve(), Supervisor(Path(lab).resolve(), grace_s=grace_s))


def _after_fork() -> None:
    global _of_lab_lock
    _of_lab_lock = threading.Lock()
    for each in list(_every):
        each.after_fork()


def _close_all() -> None:
    for each in list(_every):
        each.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
