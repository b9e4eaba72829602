"""Two harnesses awake on one session, because a fault asked for it: who may write is decided by the log alone.

The second is a real harness in a process of its own. It opens the session and works on; the first goes on as well, as
one does that does not know of the other. What the first still tries (an append, an effect, a charge) is refused. Once
it has noticed, it only waits, as the process above, until the second has brought the session to its rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.faults.spec import Fault
from agentlab.harness.wake import load
from agentlab.keeperlink import ParentWatch
from agentlab.log.store import ParquetStore

FIRST = "AGENTLAB_FIRST"
"""The process record of the harness that started this one beside itself."""
OPENS_S = 60.0
POLL_S = 0.01


class SecondHarness:
    """Starts another harness of the same session beside this one, on demand, and follows it to its end."""

    def __init__(self, lab: Path, session_id: str, trust: bool = False) -> None:
        self._lab, self._session_id, self._trust = lab, session_id, trust
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def started(self) -> bool:
        """Whether there is one."""
        return self._child is not None

    def start(self, faults: Sequence[Fault] = ()) -> None:
        """Start it, with ``faults`` armed, and return when it has opened the session (or could not)."""
        argv = [sys.executable, "-P", "-m", "agentlab.harness.child", "--lab", str(self._lab)]
        argv += [f"--session={self._session_id}", "--takeover", *(["--trust"] if self._trust else [])]
        env = {**os.environ, FIRST: json.dumps(process.identify())}
        if faults:
            env["AGENTLAB_ARM"] = json.dumps([fault.to_json() for fault in faults])
        self._child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + OPENS_S
        while not self._opened() and self._child.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _opened(self) -> bool:
        assert self._child is not None
        log = ParquetStore(self._lab).open(self._session_id)
        state = load(log, ParquetStore(self._lab).blobs).state
        return int((state.process or {}).get("pid", 0)) == self._child.pid

    def follow(self) -> str | None:
        """Wait for its end: how the session rests then, None when the second died before that."""
        assert self._child is not None
        if self._child.wait() != 0:
            return None
        store = ParquetStore(self._lab)
        return load(store.open(self._session_id), store.blobs).state.control.status


def watch_first(on_gone: Callable[[str], None]) -> ParentWatch | None:
    """End with the harness that started this one: it is the one that the keeper knows. None in any other harness."""
    text = os.environ.pop(FIRST, None)
    if text is None:
        return None
    record: Mapping[str, Any] = json.loads(text)
    return ParentWatch(record, None, on_gone)
