"""The process that runs users' callables: ``python -m agentlab.toolhost.child CALLS LIFE PARENT BLOBS``.

``CALLS`` and ``LIFE`` are inherited sockets, ``PARENT`` the harness's pid, ``BLOBS`` the lab's blobs folder. Over
CALLS go JSON lines: ``{"ready": …}`` once; for each request (call_id, ref, arguments, key, params) one
``{"begun": true}`` when only the call itself is left to do, and one reply with the fields of a ToolOutcome. Output
goes to the inherited descriptors 1 and 2, which the harness reads: what was printed before a crash is not lost.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import sys
from collections.abc import Callable
from typing import IO, Any

from agentlab.toolhost import warden


class Worker:
    """Serves requests one after the other until the harness closes its end."""

    def __init__(self, calls: int, blobs: str) -> None:
        # Late, so that the warden, which was forked off before, stays small.
        from agentlab.toolhost import invoking, wire

        self._invoking, self._wire = invoking, wire
        self._calls, self._blobs = calls, blobs
        self._pid = os.getpid()
        self._loaded: dict[str, tuple[Callable[..., Any], Any]] = {}

    def serve(self, requests: IO[bytes]) -> None:
        """Answer each line of ``requests``."""
        self._send(self._wire.to_line({"ready": self._pid}))
        for line in requests:
            reply = self._answer(json.loads(line))
            # A tool that forked and let its child come back here: the child has nothing to say.
            if os.getpid() != self._pid:
                os._exit(0)
            flush_output()
            self._send(self._line(reply))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        ref = request["ref"]
        try:
            function, shape = self._load(ref)
        except BaseException as error:
            before = f"{ref.get('name')} can not be loaded in the tool host: "
            return {**self._invoking.failure(error, before), "sent": False}
        return self._invoking.perform(function, shape, request, lambda: self._send(b'{"begun":true}\n'))

    def _load(self, ref: dict[str, Any]) -> tuple[Callable[..., Any], Any]:
        key = json.dumps(ref, sort_keys=True)
        if key not in self._loaded:
            from agentlab import portable

            function = portable.load(ref, self._blob)
            self._loaded[key] = function, self._invoking.Shape(function)
        return self._loaded[key]

    def _blob(self, digest: str) -> bytes:
        return self._wire.read_blob(self._wire.blob_path(self._blobs, digest), digest)

    def _line(self, reply: dict[str, Any]) -> bytes:
        line = self._wire.to_line(reply)
        if len(line) <= self._wire.MAX_REPLY_BYTES:
            return line
        message = (
            f"the value has {len(line)} bytes as JSON, more than {self._wire.MAX_REPLY_BYTES}:"
            " write it to a file and return its path"
        )
        return self._wire.to_line({"ok": False, "kind": "garbage", "error_type": "ValueError", "message": message})

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._calls, view) :]


def open_output() -> None:
    """Make print() robust: whole lines at once, and text that UTF-8 can not carry escaped."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)


def flush_output() -> None:
    """Push out what is buffered by Python and by C. What the user closed stays closed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the user's own stream, or a closed one
            pass
    ctypes.CDLL(None).fflush(None)


def main() -> None:
    """Become warden and worker; the worker serves until its socket is at its end."""
    calls, life, parent, blobs = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    for fd in (calls, life):
        os.set_inheritable(fd, False)
    warden.split(life, calls, parent)
    sys.argv[1:] = []
    open_output()
    try:
        Worker(calls, blobs).serve(open(calls, "rb", closefd=False))
    except (BrokenPipeError, ConnectionResetError):
        pass  # the harness is gone, and soon the warden kills us
    os._exit(0)


if __name__ == "__main__":
    main()
