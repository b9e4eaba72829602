"""Runs one callable inside a sandbox: ``python -P -m agentlab.toolhost.inside``, the request on standard input.

The request is JSON: call_id, ref, arguments, key, params. What the callable prints passes through; the last line
printed is ``RESULT_PREFIX`` and the fields of a ToolOutcome as JSON. The exit code is 0 whenever that line was
printed, also for a callable that raised: the command did what it was for. Any other exit code means that the
process ended before it had a result. The session's dump is the file ``dump`` in ``AGENTLAB_SCRATCH``.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any

from agentlab.toolhost.invoking import Shape, failure, perform
from agentlab.toolhost.wire import RESULT_PREFIX, SCRATCH_DUMP, read_blob, to_line


def outcome_of(request: dict[str, Any]) -> dict[str, Any]:
    """Load and call what ``request`` asks for; the fields of a ToolOutcome."""
    ref = request["ref"]
    try:
        from agentlab import portable

        function = portable.load(ref, _dump)
        shape = Shape(function)
    except BaseException as error:
        return {**failure(error, f"{ref.get('name')} can not be loaded in the sandbox: "), "sent": False}
    return perform(function, shape, request)


def _dump(digest: str) -> bytes:
    return read_blob(os.path.join(os.environ["AGENTLAB_SCRATCH"], SCRATCH_DUMP), digest)


def main() -> None:
    """Read the request, run it, print the result last."""
    request = json.load(sys.stdin.buffer)
    # The callable must neither read what is left of our input nor close the way out for the result.
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.argv[1:] = []
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    pid = os.getpid()
    outcome = outcome_of(request)
    if os.getpid() != pid:  # the callable forked and let its child come back here
        os._exit(0)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the user's own stream, or a closed one
            pass
    view = memoryview(b"\n" + RESULT_PREFIX.encode("ascii") + to_line(outcome))
    while view:
        view = view[os.write(out, view) :]


if __name__ == "__main__":
    main()
