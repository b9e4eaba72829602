"""What the tests of effects share: polling with a deadline, and children that are killed on purpose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


def until(condition: Callable[[], object], what: str) -> None:
    """Poll ``condition`` until it holds; fails after DEADLINE_S seconds."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S:g} s: {what}"
        time.sleep(0.01)


class Background:
    """Calls ``work`` in a thread and keeps what it raised."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self.error = error

    def ended(self) -> Exception | None:
        """Wait for the end, at most DEADLINE_S seconds; what was raised."""
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        return self.error


def killed_child(script: str, *arguments: str) -> None:
    """Run ``script`` in a child that must end by SIGKILL."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
