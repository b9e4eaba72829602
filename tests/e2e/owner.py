"""A second owner of a lab: a process of its own that starts sessions, as another notebook would, and can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agentlab import process

SCRIPT = """
import sys
from agentlab.lab import Lab
lab = Lab(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    lab.session(line.strip()).wake(background=True)
    print("started", flush=True)
"""


class Owner:
    """Starts sessions that were created before; everything that it started ends with it."""

    def __init__(self, lab: Path) -> None:
        root = Path(__file__).parents[2]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(lab)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=lab.parent,
        )  # fmt: skip
        self._started: list[str] = []
        assert self._read() == "ready"

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, session_id: str) -> None:
        """Start a harness of the session under this owner."""
        assert self._process.stdin is not None
        self._process.stdin.write(session_id + "\n")
        self._process.stdin.flush()
        assert self._read() == "started"
        self._started.append(session_id)

    def kill(self, lab) -> None:
        """SIGKILL the owner, its keeper and the harnesses of its sessions: nobody can say goodbye."""
        tickets = [*lab.queue._state().running.values(), *lab.queue._state().waiting.values()]
        mine = [ticket for ticket in tickets if ticket.session_id in self._started]
        assert mine, "this owner has sessions in the queue"
        self._process.kill()
        self._process.wait(60)
        for record in [mine[0].keeper, *(ticket.process for ticket in mine)]:
            process.send_signal(record)
            assert process.await_death(record, 60.0)

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait(60)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
