"""The harness's half of its keeper: the link over which it starts children and says how far it is, and the watch
that ends it when the keeper is gone.

A keeper gives each harness a socket (its number in ``AGENTLAB_KEEPER_FD``), the keeper's own process record
(``AGENTLAB_KEEPER``), the number of harnesses before it (``AGENTLAB_STARTS``), the owner's fault schedule
(``AGENTLAB_ARM``), and, after a death, what is known of it (``AGENTLAB_DEATH``). The link never decides anything:
a keeper that does not listen costs a message, not the run.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

from agentlab import process
from agentlab.errors import AgentlabError, SandboxError, ToolHostError
from agentlab.ports import ProcessRecord

FD, KEEPER, DEATH = "AGENTLAB_KEEPER_FD", "AGENTLAB_KEEPER", "AGENTLAB_DEATH"


def death_told(environ: MutableMapping[str, str] | None = None) -> dict[str, Any] | None:
    """Take what the keeper told of the harness before this one out of ``environ`` (``os.environ`` by default).

    ``incarnation`` (None when it never said), ``pid``, ``signal`` or ``exit_code``, ``at_us`` (microseconds, UTC),
    ``record``, and ``earlier``: older deaths after which no harness did any work. Every tool host of these
    harnesses was reaped before this process was started. None when there was no death.
    """
    text = (os.environ if environ is None else environ).pop(DEATH, None)
    return None if text is None else dict(json.loads(text))


class KeeperLink:
    """The socket to the keeper. Thread-safe; requests are answered in order."""

    def __init__(self, sock: socket.socket, keeper: Mapping[str, Any], reply_timeout_s: float = 30.0) -> None:
        sock.setblocking(False)
        self.keeper = dict(keeper)
        self._sock, self._timeout_s, self._lock = sock, reply_timeout_s, threading.Lock()
        self._received, self._unsent = b"", b""
        self._work_owed = False  # work that a full socket kept from being told
        self._requests = 0

    @classmethod
    def from_env(cls, environ: MutableMapping[str, str] | None = None) -> KeeperLink | None:
        """The link that the keeper passed on, taken out of ``environ`` so that no child finds it; None without one."""
        env = os.environ if environ is None else environ
        number = env.pop(FD, None)
        if number is None:
            return None
        os.set_inheritable(int(number), False)
        return cls(socket.socket(fileno=int(number)), json.loads(env.pop(KEEPER, "{}")))

    def fileno(self) -> int:
        return self._sock.fileno()

    def progress(self, seq: int, state: str, work: bool = False, incarnation: int | None = None) -> None:
        """Say that the log has reached ``seq``. Never raises and never waits.

        ``work`` is True when this harness appended something else than its wake-up and recovery; only that keeps
        the keeper from counting its death towards a crash loop. News for a keeper that does not read are dropped.
        """
        with self._lock:
            work = work or self._work_owed
            message = {"op": "progress", "seq": seq, "state": state, "work": work, "incarnation": incarnation}
            try:
                self._flush()
                self._work_owed = work and bool(self._unsent)
                if not self._unsent:
                    self._unsent = _line(message)
                    self._flush()
            except OSError:
                pass  # the keeper is gone: the watch tells

    def done(self, state: str) -> None:
        """Say, before the exit, that this harness leaves on purpose (``paused``, ``ended``, ``waiting``).

        Never raises. Without it the exit counts as a death and is followed by a restart, whatever its code.
        """
        with self._lock:
            try:
                self._send({"op": "done", "state": state})
            except OSError:
                pass

    def request(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the keeper and wait for the answer to this very request.

        Raises:
            AgentlabError: the keeper is gone, or silent for longer than the reply timeout.
        """
        with self._lock:
            self._requests += 1
            number = self._requests
            try:
                self._send({**message, "id": number})
                while True:
                    answer = json.loads(self._receive())
                    if answer.get("id") == number:
                        return dict(answer)
            except OSError as error:
                keeper = f"the keeper (pid {self.keeper.get('pid')})"
                raise AgentlabError(f"{keeper} does not answer ({error}): no process can be started, end") from error

    def _send(self, message: Mapping[str, Any]) -> None:
        """Send all of it, after what is left of the line before; raises OSError after the timeout."""
        self._unsent += _line(message)
        while self._flush():
            self._await(select.POLLOUT)

    def _flush(self) -> bool:
        """Send what the socket takes now; True when something is left (half a line must not be dropped)."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        return bool(self._unsent)

    def _receive(self) -> bytes:
        while b"\n" not in self._received:
            self._await(select.POLLIN)
            data = self._sock.recv(1 << 16)
            if not data:
                raise ConnectionResetError("it is gone")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line

    def _await(self, events: int) -> None:
        poll = select.poll()
        poll.register(self._sock, events)
        if not poll.poll(self._timeout_s * 1000):
            raise TimeoutError(f"silent for {self._timeout_s:g} s")

    def watch(self, on_gone: Callable[[str], None]) -> ParentWatch:
        """Call ``on_gone`` once, from a thread, when the keeper is gone."""
        return ParentWatch(self.keeper, self.fileno(), on_gone)

    def close(self) -> None:
        """Close the socket. Not a ``done``: the keeper judges by that and by the exit."""
        self._sock.close()


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class KeeperSpawner:
    """:class:`agentlab.ports.Spawner` over the link: children belong to the keeper and outlive this harness."""

    def __init__(self, link: KeeperLink) -> None:
        self._link = link

    def spawn(
        self, kind: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, log_path: str | None
    ) -> ProcessRecord:
        """Start ``argv`` in a session of its own with exactly ``env``, and ``AGENTLAB_KEEPER`` and ``AGENTLAB_CHILD``.

        The first is the keeper's process record, for its own watch; by the second the keeper knows its orphans.

        Its standard input is a pipe that ends with the keeper; its output is appended to ``log_path``.

        Raises:
            SandboxError, ToolHostError: by ``kind``, when it can not be started.
            AgentlabError: the keeper does not answer.
        """
        message = {"op": "spawn", "kind": kind, "argv": list(argv), "env": dict(env), "cwd": cwd, "log_path": log_path}
        answer = self._link.request(message)
        if "record" not in answer:
            failed = SandboxError if kind == "sandbox" else ToolHostError
            raise failed(f"{argv[0]} could not be started as {kind} in {cwd}: {answer.get('error')}")
        return ProcessRecord(**answer["record"])


class ParentWatch:
    """Tells once, from a daemon thread, that the process above is gone: by its pid, and by end of file on ``fd``.

    Both, because each fails alone: a forked worker of that process may keep the pipe open, and a pid can be given
    to somebody else before the watch begins (hence the start time in ``record``). ``fd`` is copied, and only polled,
    never read. Linux uses pidfd, macOS kqueue.
    """

    def __init__(self, record: Mapping[str, Any], fd: int | None, on_gone: Callable[[str], None]) -> None:
        self._record, self._on_gone = dict(record), on_gone
        self._fd = None if fd is None else os.dup(fd)  # a number that is closed and given away must not be polled
        self.gone = threading.Event()
        self._stop_reader, self._stop_writer = os.pipe()
        self._thread = threading.Thread(target=self._run, name="agentlab-parent-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the watch without calling back. Idempotent; not to be called from ``on_gone``."""
        if self._stop_writer >= 0:
            os.close(self._stop_writer)
            self._stop_writer = -1
            self._thread.join()

    def _run(self) -> None:
        try:
            reason = self._wait()
        finally:
            os.close(self._stop_reader)
            if self._fd is not None:
                os.close(self._fd)
        if reason is not None:
            self.gone.set()
            self._on_gone(reason)

    if sys.platform == "linux":

        def _wait(self) -> str | None:
            """``pid`` or ``eof``, or None when the watch was closed."""
            try:
                pidfd = os.pidfd_open(int(self._record["pid"]))
            except ProcessLookupError:
                return "pid"
            try:
                if process.liveness(self._record) == "dead":
                    return "pid"
                poll = select.poll()
                poll.register(pidfd, select.POLLIN)
                poll.register(self._stop_reader, 0)  # a closed other end is always reported
                if self._fd is not None:
                    poll.register(self._fd, select.POLLRDHUP)
                ready = {number for number, _ in poll.poll()}
            finally:
                os.close(pidfd)
            if self._stop_reader in ready:
                return None
            return "pid" if pidfd in ready else "eof"

    else:

        def _wait(self) -> str | None:
            """``pid`` or ``eof``, or None when the watch was closed."""
            pid = int(self._record["pid"])
            queue = select.kqueue()
            try:
                reads = [self._stop_reader] + ([] if self._fd is None else [self._fd])
                # EV_CLEAR: data that wait for the link's own reader are told once and do not make this spin
                flags = select.KQ_EV_ADD | select.KQ_EV_CLEAR
                queue.control([select.kevent(fd, select.KQ_FILTER_READ, flags) for fd in reads], 0)
                queue.control([select.kevent(pid, select.KQ_FILTER_PROC, flags, select.KQ_NOTE_EXIT)], 0)
                if process.liveness(self._record) == "dead":
                    return "pid"
                while True:
                    for event in queue.control(None, 4):
                        if event.filter == select.KQ_FILTER_PROC:
                            return "pid"
                        if event.flags & select.KQ_EV_EOF:
                            return None if event.ident == self._stop_reader else "eof"
            except ProcessLookupError:
                return "pid"
            finally:
                queue.close()
