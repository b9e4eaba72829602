"""One command of a sandbox while it runs: limits, capped output, and what it ended as. Standard library only.

An execution ends when its first process ends; whatever it left running is killed then, so that nothing writes to the
workspace between executions and a snapshot is a snapshot.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import time

from agentlab.sandbox import processes

INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")
"""All that a command gets of the sandbox's own environment."""
_NO_MEMORY = (b"MemoryError", b"Cannot allocate memory", b"bad_alloc", b"out of memory", b"memory exhausted")
_MARK_ROOM = 80


class Capped:
    """A stream of which the beginning and the end are kept, ``limit`` bytes together, in bounded memory."""

    def __init__(self, limit: int) -> None:
        # Below a few hundred bytes an end would be mutilated: keep the beginning only.
        self._tail_room = 0 if limit < 4 * _MARK_ROOM else (limit - _MARK_ROOM) // 2
        self._limit = limit
        self._head, self._tail = bytearray(), bytearray()
        self._seen = 0

    @property
    def truncated(self) -> bool:
        """Whether anything was left out."""
        return self._seen > self._limit

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._seen += len(data)
        room = self._limit - len(self._head)
        if room > 0:
            self._head += data[:room]
        # The tail repeats the end of a stream that turns out to fit; only one of the two is shown then.
        self._tail += data[-self._tail_room :] if self._tail_room else b""
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: len(self._tail) - self._tail_room]

    def text(self) -> str:
        """What was kept; bytes that are no UTF-8 appear as ``\\xff``."""
        if not self.truncated:
            return self._head.decode("utf-8", "backslashreplace")
        if not self._tail_room:
            return _whole_start(bytes(self._head)).decode("utf-8", "backslashreplace")
        head, tail = _whole_start(bytes(self._head[: self._tail_room])), bytes(self._tail[-self._tail_room :])
        while tail and tail[0] & 0xC0 == 0x80 and len(tail) > self._tail_room - 4:
            tail = tail[1:]
        mark = f"\n[... {self._seen - len(head) - len(tail)} bytes left out ...]\n".encode()
        return (head + mark + tail).decode("utf-8", "backslashreplace")

    def ending(self) -> bytes:
        """The last bytes, to look for what killed it."""
        return bytes(self._tail[-4096:] or self._head[-4096:])


def _whole_start(data: bytes) -> bytes:
    """``data`` without a character that was cut at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data if needed <= back else data[:-back]
    return data


def environment(sandbox_id: str, workspace: str, scratch: str, given: dict[str, str]) -> dict[str, str]:
    """The environment of a command: an allow-list, so that no key of the owner gets in by being forgotten."""
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    env.setdefault("PATH", os.defpath)
    env.update(HOME=workspace, PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1", AGENTLAB_SCRATCH=scratch)
    env.update(given)
    env[processes.MARKER] = sandbox_id
    return env


class Running:
    """A started command. The server's loop feeds it readable pipes and the status of its process.

    ``request`` holds argv, stdin, env, timeout_s (seconds of wall time), cpu_s (seconds of each process),
    memory_bytes (address space of each process, by RLIMIT_AS: Linux; macOS does not enforce it) and output_bytes
    (of each stream).

    Raises:
        OSError: the command can not be started.
    """

    def __init__(self, exec_id: str, request: dict[str, object], cwd: str, env: dict[str, str], stdin: int) -> None:
        self.exec_id = exec_id
        self._memory, self._cpu = _number(request.get("memory_bytes")), _number(request.get("cpu_s"))
        limit = int(_number(request.get("output_bytes")) or 1 << 20)
        self._began = time.monotonic()
        self.deadline = self._began + (_number(request.get("timeout_s")) or 120.0)
        self.timed_out = self.stopped = False
        argv = request["argv"]
        assert isinstance(argv, list)
        parent = os.getpid()
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
            # The server has one thread, so code between fork and exec is safe.
            preexec_fn=lambda: self._limit(parent),
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        self.streams: dict[int, Capped] = {}
        for pipe in (self.process.stdout, self.process.stderr):
            os.set_blocking(pipe.fileno(), False)
            self.streams[pipe.fileno()] = Capped(limit)
        self._out, self._err = self.streams.values()

    def _limit(self, parent: int) -> None:
        processes.die_with_parent(parent)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if self._memory:
            _lower(resource.RLIMIT_AS, int(self._memory), 0)
        if self._cpu:
            _lower(resource.RLIMIT_CPU, max(1, math.ceil(self._cpu)), 1)

    def read(self, fd: int) -> bool:
        """Take what a pipe has, at most 1 MiB at once; False when it is at its end."""
        for _ in range(16):
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                return True
            if not data:
                return False
            self.streams[fd].add(data)
        return True

    def kill(self) -> None:
        """SIGKILL its group and everything below the server; the loop learns of the death as of any other."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        processes.kill_below(os.getpid())

    def finish(self, status: int, usage: resource.struct_rusage) -> dict[str, object]:
        """Drain and close the pipes once all is dead; the result as JSON."""
        # What is left is what pipes hold; a process that escaped (macOS) may hold them open, so no waiting for the end.
        for fd in self.streams:
            self.read(fd)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        code = os.waitstatus_to_exitcode(status)
        self.process.returncode = code  # reaped by the server, not by Popen
        return {
            "exec_id": self.exec_id,
            "status": self._status(code, usage),
            "exit_code": code,
            "stdout": self._out.text(),
            "stderr": self._err.text(),
            "duration_ms": round((time.monotonic() - self._began) * 1000, 3),
            "truncated": self._out.truncated or self._err.truncated,
        }

    def _status(self, code: int, usage: resource.struct_rusage) -> str:
        if self.timed_out:
            return "timeout"
        if self.stopped:
            return "killed"
        if self._cpu and (code == -signal.SIGXCPU or (code < 0 and usage.ru_utime + usage.ru_stime >= self._cpu)):
            return "timeout"
        # Nobody tells who ran into RLIMIT_AS: allocations just fail. What a program says then is all there is.
        if self._memory and code != 0:
            if any(word in self._err.ending() for word in _NO_MEMORY) or code in (-signal.SIGSEGV, -signal.SIGABRT):
                return "memory"
        return "killed" if code < 0 else "exited"


def failed_to_start(exec_id: str, error: Exception) -> dict[str, object]:
    """The result of a command that never ran."""
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        text = str(error)
    result: dict[str, object] = {"exec_id": exec_id, "status": "failed_to_start", "exit_code": None, "stdout": ""}
    return {**result, "stderr": text + "\n", "duration_ms": 0.0, "truncated": False}


def to_bytes(result: dict[str, object]) -> bytes:
    """A result as one line of JSON."""
    return json.dumps(result, separators=(",", ":")).encode("ascii")


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _lower(which: int, value: int, slack: int) -> None:
    """Set a limit, never above the hard one that is there; what the system can not limit stays as it is."""
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        top = value + slack if hard == resource.RLIM_INFINITY else min(value + slack, hard)
        resource.setrlimit(which, (value, top))
    except (ValueError, OSError):
        if sys.platform != "darwin":
            raise
