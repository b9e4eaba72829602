"""The tool host of a harness: one child process, started when it is first needed, replaced when it was killed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import ToolHostError
from agentlab.ports import ToolInvocation, ToolOutcome
from agentlab.toolhost.capture import ending
from agentlab.toolhost.hostprocess import End, HostProcess
from agentlab.toolhost.outcome import import_root, request_of
from agentlab.toolhost.wire import MAX_REPLY_BYTES, to_line


class ProcessToolHost:
    """A :class:`~agentlab.ports.ToolHost` in a child process. Calls of several threads run one after the other.

    The child runs in ``cwd`` with the environment ``env`` (default: this process's, as it is when the child starts)
    and reads dumps from the blobs folder ``blobs_root``. Loaded callables stay loaded until a call is killed.
    """

    def __init__(
        self, blobs_root: str | os.PathLike[str], cwd: str | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self._blobs_root, self._cwd, self._env = os.path.abspath(blobs_root), cwd, env
        self._host: HostProcess | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The process that leads the host's group, None while there is none."""
        host = self._host
        return None if host is None else host.pid

    def call(self, invocation: ToolInvocation) -> ToolOutcome:
        """See :meth:`agentlab.ports.ToolHost.call`. Loading the callable counts towards the timeout.

        Raises:
            ToolHostError: the host can not be started at all; nothing was sent.
        """
        try:
            line = to_line(request_of(invocation))
        except (TypeError, ValueError) as error:
            return ToolOutcome(
                False,
                kind="garbage",
                error_type="TypeError",
                message=f"the arguments are not JSON: {error}",
                sent=False,
            )
        with self._lock:
            host = self._ready()
            started = time.perf_counter()
            try:
                end, reply = host.ask(line, invocation.timeout_s)
                if end != "reply":
                    end, reply, confirmed = self._end(host, end)
                else:
                    confirmed = True
            except BaseException:  # nobody waits for its answer any more, so it must not be taken for the next one's
                self._end(host, "died")
                raise
            duration_ms = round((time.perf_counter() - started) * 1000, 3)
            out, err = host.output()
            if reply is not None:
                return ToolOutcome(**reply, stdout=out, stderr=err, duration_ms=duration_ms)
            return _broken(host, invocation, end, confirmed, out, err, duration_ms)

    def close(self) -> None:
        """See :meth:`agentlab.ports.ToolHost.close`. A call that runs in another thread ends as ``died``."""
        host = self._host
        if host is not None:
            host.doom()
        with self._lock:
            if self._host is not None:
                self._end(self._host, "died")

    def _ready(self) -> HostProcess:
        if self._host is not None and self._host.idle_alive():
            return self._host
        if self._host is not None:
            self._end(self._host, "died")
        env = dict(os.environ if self._env is None else self._env)
        env["PYTHONPATH"] = os.pathsep.join(p for p in (import_root(), env.get("PYTHONPATH", "")) if p)
        reach(CrashPoint.TOOLHOST_SPAWN, "before")
        self._host = host = HostProcess(self._blobs_root, self._cwd, env)
        reach(CrashPoint.TOOLHOST_SPAWN, "after", str(host.pid))
        try:
            host.await_ready()
        except BaseException:
            self._end(host, "died")
            raise
        return host

    def _end(self, host: HostProcess, end: End) -> tuple[End, dict[str, Any] | None, bool]:
        """Kill a host, await its death, and see whether it replied at the very last; the next call gets a fresh one."""
        reach(CrashPoint.TOOLHOST_KILL, "before", str(host.pid))
        self._host = None
        confirmed = host.kill()
        reply = None
        if end == "timeout":
            late, reply = host.last_words()
            end = late if reply is not None else end
        host.close()
        reach(CrashPoint.TOOLHOST_KILL, "after", str(host.pid))
        return end, reply, confirmed


def _broken(
    host: HostProcess, invocation: ToolInvocation, end: End, confirmed: bool, out: str, err: str, duration_ms: float
) -> ToolOutcome:
    """The outcome of a call that nobody answered."""
    name = invocation.ref.get("name") or invocation.call_id
    kind, error_type = "died", "ToolHostDied"
    if end == "timeout":
        kind, error_type = "timeout", "TimeoutError"
        doing = "ran" if host.begun else "was still being loaded"
        message = (
            f"{name} {doing} after {invocation.timeout_s:g} s and was killed: make it quicker or raise its timeout"
        )
    elif end == "too_large":
        kind, error_type = "garbage", "ValueError"
        message = f"{name} gave more than {MAX_REPLY_BYTES} bytes: write the value to a file and return its path"
    else:
        message = f"the process that ran {name} ended{host.how()}{ending(err)}"
    if not confirmed:
        message += " (its death could not be confirmed)"
    return ToolOutcome(
        False,
        kind=kind,
        error_type=error_type,
        message=message,
        stdout=out,
        stderr=err,
        duration_ms=duration_ms,
        sent=host.begun,
    )


__all__ = ["ProcessToolHost", "ToolHostError"]
