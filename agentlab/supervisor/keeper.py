"""The keeper: parent of harness, sandbox and tool host processes, one per owner. Standard library only.

Started as ``python -I -S keeper.py …`` in a session of its own, so that an Interrupt of the notebook does not reach
it, and importing nothing of agentlab, so that nothing of agentlab can break it. A single thread waits for messages
and deaths; there is no polling between a harness's death and the start of the next.

From the owner, JSON lines, each answered by ``{"event": "reply", "id", "ok", …}``::

    start    session argv env cwd log_path restart max_no_progress arm     → record
    stop     session signal                 no restart any more, and the signal
    signal   session target signal          harness | sandbox | toolhost → record
    status                                  → sessions
    forget   session                        end everything of it
    shutdown                                as if the owner had gone

To the owner: ``started``, ``spawned``, ``progress``, ``exited``, ``crash_loop``. From a harness: ``spawn``,
``progress``, ``done``. The owner's end is noticed by end of file *and* by its pid: a forked worker of the owner may
keep the channel open for ever.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import socket
import sys
import time
from typing import Any

if __package__:
    from agentlab.supervisor import keeper_system as system
    from agentlab.supervisor.keeper_parts import Channel, Session, kill_if_same
    from agentlab.supervisor.keeper_sessions import Sessions
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import keeper_system as system  # type: ignore[import-not-found,no-redef]
    from keeper_parts import Channel, Session, kill_if_same  # type: ignore[import-not-found,no-redef]
    from keeper_sessions import Sessions  # type: ignore[import-not-found,no-redef]

SWEEP_S = 5.0  # how long killed processes may take to be gone before the keeper leaves them to init
EVERY_SIGNAL = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Keeper:
    """The event loop, the owner's requests, and the end of everything."""

    def __init__(self, control: socket.socket, lab: str, grace_s: float, owner: dict[str, Any]) -> None:
        self.grace_s, self.owner = grace_s, owner
        self.selector = selectors.DefaultSelector()
        self.exits = system.ExitWatch()
        self.selector.register(self.exits.fileno(), selectors.EVENT_READ, lambda _: None)
        self.wakeups = self._catch_signals()
        me = dict(owner, pid=os.getpid(), start_time=system.start_time(os.getpid()) or "")
        self.files = system.RunFiles(lab, me, owner)
        self.files.write("keeper", None, me)
        self.control = Channel(control, self.selector, self._on_control)
        self.sessions = Sessions(me, self.files, self.selector, self.exits, self.control.send)
        self.kill_at: float | None = None  # set when the owner is gone: when the grace ends
        self.give_up_at: float | None = None  # set once everything was killed
        self._watch_owner()

    def _catch_signals(self) -> socket.socket:
        """Signals become bytes in a socket. Handlers, not SIG_IGN: that would be inherited by every child."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        self._writer = writer  # kept open
        for number in EVERY_SIGNAL:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self.selector.register(reader, selectors.EVENT_READ, self._on_signal)
        return reader

    def _watch_owner(self) -> None:
        """Watch the owner's pid, unless it is gone already and its pid may be somebody else's."""
        self.exits.add(int(self.owner["pid"]))
        if system.start_time(int(self.owner["pid"])) != self.owner["start_time"]:
            self._owner_gone("it had ended before the keeper started")

    # --- the loop ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the owner is gone and everything has ended."""
        try:
            self._serve()
        except BaseException:
            self.sessions.kill_all()  # a keeper that fails must not leave a sandbox without a keeper
            raise
        finally:
            self.files.remove("keeper", os.getpid())

    def _serve(self) -> None:
        while not self._finished():
            for key, mask in self.selector.select(self._timeout()):
                key.data(mask)
            for pid in self.exits.take():
                if pid == int(self.owner["pid"]):
                    self._owner_gone("its process ended")
                else:
                    self.sessions.ended(pid)
            self._reap_adopted()

    def _timeout(self) -> float | None:
        if self.exits.overdue:
            return 0.0
        end = self.give_up_at or self.kill_at
        return None if end is None else max(0.0, end - time.monotonic())

    def _on_signal(self, _mask: int) -> None:
        try:
            numbers = self.wakeups.recv(4096)
        except BlockingIOError:
            return
        if signal.SIGTERM in numbers:
            self._owner_gone("the keeper was told to end")

    def _reap_adopted(self) -> None:
        """Reap orphans that came to us as subreaper (Linux). Our own children are reaped where they are known."""
        if sys.platform != "linux":
            return
        while True:
            try:
                dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if dead is None or self.sessions.knows(dead.si_pid):
                return  # a known one comes back by its own watch, and we by that
            os.waitpid(dead.si_pid, 0)

    # --- the end ----------------------------------------------------------------------------------------------------

    def _owner_gone(self, why: str) -> None:
        """Begin the grace: harnesses are asked at once to cut their model call, no harness is started any more."""
        if self.kill_at is None:
            system.complain(f"owner {self.owner['pid']} is gone ({why}): {self.grace_s:g} s of grace")
            self.kill_at = time.monotonic() + self.grace_s
            self.sessions.close()

    def _finished(self) -> bool:
        """After the owner has gone: kill when the grace is over or no harness is left, then wait for the deaths."""
        if self.kill_at is None:
            return False
        now = time.monotonic()
        if self.give_up_at is None:
            if self.sessions.harness_alive() and now < self.kill_at:
                return False
            self.give_up_at = now + SWEEP_S
            self.sessions.kill_all()
        if not self.sessions.empty():
            if now < self.give_up_at:
                return False
            system.complain("processes did not end after SIGKILL and are left to the system")
        self._kill_adopted()
        return True

    def _kill_adopted(self) -> None:
        """Kill orphans that left their group (Linux), and theirs, until no child is left."""
        while time.monotonic() < (self.give_up_at or 0.0):
            for pid in system.children_of(os.getpid()):
                for below, started in system.descendants(pid):
                    kill_if_same(below, started)
                kill_if_same(pid, system.start_time(pid) or "")
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    self.selector.select(0.05)  # SIGCHLD ends this at once
                    self._on_signal(0)
            except ChildProcessError:
                return

    # --- the owner's requests ---------------------------------------------------------------------------------------

    def _on_control(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self.control.flush()
        for message in self.control.receive():
            try:
                answer = self._answer(message)
            except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
                answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
            self.control.send({"event": "reply", "id": message.get("id"), **answer})
        if self.control.closed:
            self._owner_gone("its channel was closed")

    def _answer(self, message: dict[str, Any]) -> dict[str, Any]:
        op = message.get("op")
        if op == "start":
            if self.kill_at is not None:
                return {"ok": False, "error": "the keeper is ending"}
            return self.sessions.start(Session.of(message))
        if op == "status":
            return {"ok": True, "sessions": self.sessions.status()}
        if op == "shutdown":
            self._owner_gone("it asked for the end")
            return {"ok": True}
        if op == "stop":
            return self.sessions.stop(message["session"], int(message.get("signal", signal.SIGTERM)))
        if op == "signal":
            return self.sessions.signal(message["session"], message["target"], int(message["signal"]))
        if op == "forget":
            return self.sessions.forget(message["session"])
        return {"ok": False, "error": f"no request is called {op!r}"}


def main() -> None:
    """Read the arguments that :class:`agentlab.supervisor.client.Supervisor` gives, and serve."""
    parser = argparse.ArgumentParser(description="agentlab's keeper; started by agentlab, not by hand")
    parser.add_argument("--control", type=int, required=True, help="descriptor of the channel to the owner")
    parser.add_argument("--lab", required=True)
    parser.add_argument("--grace", type=float, default=5.0, help="seconds between the owner's end and SIGKILL")
    parser.add_argument("--owner", required=True, help="the owner's process record, JSON")
    given = parser.parse_args()
    os.set_inheritable(given.control, False)
    system.become_subreaper()
    Keeper(socket.socket(fileno=given.control), given.lab, given.grace, json.loads(given.owner)).run()


if __name__ == "__main__":
    main()
