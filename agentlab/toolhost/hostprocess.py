"""One tool host process as the harness sees it: starting it, one exchange with it, and its certain death."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import IO, Any, Literal

from agentlab.errors import ToolHostError
from agentlab.toolhost import warden
from agentlab.toolhost.capture import HeadTail, ending
from agentlab.toolhost.wire import MAX_REPLY_BYTES

START_S = 60.0
"""Seconds that a host may take until it is ready (a loaded machine, a slow disk)."""
_DEATH_S = 5.0  # the warden needs a few ms; after this the harness kills for itself
_LAST_WORDS_S = 2.0
_CHUNK = 1 << 18
End = Literal["reply", "timeout", "died", "too_large"]


class HostProcess:
    """A started host. One thread at a time, except for :meth:`doom`.

    Raises:
        ToolHostError: it can not be started, or is not ready within ``START_S`` seconds.
    """

    def __init__(self, blobs_root: str, cwd: str | None, env: Mapping[str, str]) -> None:
        self._calls, calls = socket.socketpair()
        self._life, life = socket.socketpair()
        argv = [sys.executable, "-P", "-m", "agentlab.toolhost.child"]
        argv += [str(calls.fileno()), str(life.fileno()), str(os.getpid()), blobs_root]
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=(calls.fileno(), life.fileno()),
                start_new_session=True,
            )
        except OSError as error:
            self._calls.close()
            self._life.close()
            raise ToolHostError(f"the tool host can not be started: {error}") from error
        finally:
            calls.close()
            life.close()
        self.pid = self._process.pid
        self.begun = False
        self._status: int | None = None
        self._reset()
        self._calls.setblocking(False)
        self._pipes: dict[int, IO[bytes]] = {}
        for pipe in (self._process.stdout, self._process.stderr):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._pipes[pipe.fileno()] = pipe
        self._out_fd, self._err_fd = self._pipes

    def await_ready(self) -> None:
        """Wait for its first line.

        Raises:
            ToolHostError: there is none; the host is dead then.
        """
        end, message = self._exchange(b"", START_S)
        if end != "reply" or message is None or "ready" not in message:
            self.kill()
            raise ToolHostError(f"the tool host does not start ({end}{self.how()}){ending(self.output()[1])}")

    def idle_alive(self) -> bool:
        """Whether it lives between two calls; output that belongs to no call is thrown away."""
        if select.select([self._life], [], [], 0)[0]:
            return False
        self._drain()
        return True

    def ask(self, line: bytes, timeout_s: float) -> tuple[End, dict[str, Any] | None]:
        """Send a request and wait for its reply. After any other end than ``reply`` the host is not usable."""
        self._reset()
        return self._exchange(line, timeout_s)

    def _reset(self) -> None:
        self.begun = False
        self._received, self._searched = bytearray(), 0
        self._out, self._err = HeadTail(), HeadTail()

    def _exchange(self, line: bytes, timeout_s: float) -> tuple[End, dict[str, Any] | None]:
        unsent = memoryview(line)
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        for fd in (self._life.fileno(), *self._pipes):
            poll.register(fd, select.POLLIN)
        poll.register(self._calls, select.POLLIN | (select.POLLOUT if unsent else 0))
        calls = self._calls.fileno()
        while True:
            # poll rounds down to milliseconds; without the extra one the last of them would be a busy wait
            left = deadline - time.monotonic()
            ready = poll.poll(min(left * 1000 + 1, 1e9)) if left > 0 else []
            if not ready and time.monotonic() >= deadline:
                return "timeout", None
            for fd, events in ready:
                if fd in self._pipes and not self._read_output(fd):
                    poll.unregister(fd)
                elif fd == self._life.fileno():
                    return self._ended()
                elif fd == calls:
                    if events & select.POLLOUT and unsent:
                        unsent = self._write(unsent)
                        if not unsent:
                            poll.modify(calls, select.POLLIN)
                    if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                        open_still, message = self._read_calls()
                        if message is not None:
                            self._drain()
                            return "reply", message
                        if len(self._received) > MAX_REPLY_BYTES + _CHUNK:
                            return "too_large", None
                        if not open_still:
                            return self._ended()

    def _write(self, unsent: memoryview) -> memoryview:
        try:
            return unsent[self._calls.send(unsent) :]
        except BlockingIOError:
            return unsent
        except OSError:
            return unsent[:0]  # it is gone, and its end tells

    def _read_calls(self) -> tuple[bool, dict[str, Any] | None]:
        """Read what is there: whether the socket is still open, and the reply when it is complete."""
        try:
            data = self._calls.recv(_CHUNK)
        except BlockingIOError:
            return True, None
        except OSError:
            return False, None
        self._received += data
        while (end := self._received.find(b"\n", self._searched)) >= 0:
            try:
                message = json.loads(bytes(self._received[:end]))
            except ValueError:  # user code wrote into our socket
                return False, None
            del self._received[: end + 1]
            self._searched = 0
            if "begun" not in message:
                return True, dict(message)
            self.begun = True
        self._searched = len(self._received)
        return bool(data), None

    def _ended(self) -> tuple[End, dict[str, Any] | None]:
        """It died or let go of its socket: make sure of that, then take what it still said."""
        # A dying process closes its socket before it can be reaped: give the warden time to say what it died of.
        select.select([self._life], [], [], _LAST_WORDS_S)
        self.kill()
        return self.last_words()

    def last_words(self) -> tuple[End, dict[str, Any] | None]:
        """After the death: a reply that was sent before it counts."""
        while select.select([self._calls], [], [], 0)[0]:
            open_still, message = self._read_calls()
            if message is not None:
                return "reply", message
            if not open_still:
                break
        return "died", None

    def _read_output(self, fd: int) -> bool:
        """Take what a pipe has, at most 4 MiB at once; False when it is at its end."""
        kept = self._out if fd == self._out_fd else self._err
        for _ in range(64):
            try:
                data = os.read(fd, 1 << 16)
            except BlockingIOError:
                return True
            if not data:
                return False
            kept.add(data)
        return True

    def _drain(self) -> None:
        for fd in self._pipes:
            self._read_output(fd)

    def output(self) -> tuple[str, str]:
        """Standard output and standard error of the newest call."""
        return self._out.text(), self._err.text()

    def how(self) -> str:
        """How the worker ended, as the warden told it: `` by SIGSEGV``, `` with exit code 3`` or nothing."""
        if self._status is None:
            return ""
        code = os.waitstatus_to_exitcode(self._status)
        if code >= 0:
            return f" with exit code {code}"
        try:
            return f" by {signal.Signals(-code).name}"
        except ValueError:
            return f" by signal {-code}"

    def doom(self) -> None:
        """Have everything killed, without waiting. From any thread."""
        try:
            self._life.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def kill(self) -> bool:
        """Kill the host with everything below it and await the deaths; False when that could not be confirmed."""
        if self._process.returncode is None:
            self.doom()
            if not (self._warden_did_it() or self._kill_from_here()):
                return False
        self._drain()
        return True

    def _warden_did_it(self) -> bool:
        """Read the life socket to its end, which comes with the warden's exit; True when that was a proper one."""
        self._life.settimeout(_DEATH_S)
        told = b""
        try:
            while data := self._life.recv(64):
                told += data
        except TimeoutError:
            return False
        except OSError:
            pass
        if told.strip().isdigit():
            self._status = int(told)
        if not warden.LINUX:
            return self._wait(_DEATH_S)
        # Not reaped before the group is known to be empty: until then its number can not be another's.
        gone = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        return gone is not None and gone.si_status == 0 and self._wait(_DEATH_S)

    def _kill_from_here(self) -> bool:
        """The warden does not do it (stopped, starved or killed): first all that is below it, then itself."""
        deadline = time.monotonic() + 30.0
        while found := warden.below(self.pid) + warden.of_group(self.pid):
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        return self._wait(30.0)

    def _wait(self, timeout_s: float) -> bool:
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """Close the descriptors of a dead host."""
        self._calls.close()
        self._life.close()
        for pipe in self._pipes.values():
            pipe.close()
