"""Starting processes straight from this one: for tests, and for use without a keeper."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence

from agentlab import process
from agentlab.errors import SandboxError
from agentlab.ports import ProcessRecord
from agentlab.sandbox import processes


class DirectSpawner:
    """A :class:`~agentlab.ports.Spawner` whose children are children of this process.

    Each child has a session of its own and a pipe as standard input that stays open as long as this process lives:
    its end tells the child that the owner is gone. A waiting thread for each child leaves no zombies.
    """

    def __init__(self) -> None:
        self._children: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []

    def spawn(
        self, kind: str, argv: Sequence[str], env: Mapping[str, str], cwd: str, log_path: str | None
    ) -> ProcessRecord:
        """Start ``argv`` with exactly ``env``; its output goes to ``log_path`` (appended) or nowhere.

        Raises:
            SandboxError: it can not be started, or was dead at once.
        """
        try:
            log = os.open(log_path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                child = subprocess.Popen(
                    list(argv),
                    env=dict(env),
                    cwd=cwd,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    close_fds=True,
                )
            finally:
                os.close(log)
        except OSError as error:
            raise SandboxError(f"no {kind} could be started: {error}") from error
        # Asked before anybody waits for it: until then its pid can not be another's.
        started = process.start_time(child.pid)
        waiting = threading.Thread(target=child.wait, name=f"wait-{kind}-{child.pid}", daemon=True)
        waiting.start()
        self._children.append((child, waiting))
        self._children = [pair for pair in self._children if pair[0].returncode is None]
        if started is None:
            raise SandboxError(f"the {kind} died at once; see {log_path or 'no log'}")
        return ProcessRecord(process.host(), process.boot_id(), child.pid, started)

    def close(self) -> None:
        """Kill every child and what is below it, and await their deaths. Idempotent."""
        for child, waiting in self._children:
            if child.returncode is None:
                processes.kill_below(child.pid)
                child.kill()
            waiting.join()
            if child.stdin is not None:
                child.stdin.close()
        self._children.clear()
