"""A server in its own process that ends with its owner, can be killed, and comes back on the same port."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from agentlab.errors import AgentlabError

START_S = 60.0
"""Seconds that it may take to serve (a loaded machine, a slow disk)."""
_WATCH_S = 0.5
Self = TypeVar("Self", bound="OwnedProcess")


def end_with_owner() -> None:
    """Watch stdin and the parent in a thread; end this process at once when either is gone."""
    parent = os.getppid()

    def watch() -> None:
        while True:
            # EOF alone is not enough: a worker that the owner forked keeps the pipe open. Hence the parent as well.
            ready, _, _ = select.select([0], [], [], _WATCH_S)
            if (ready and not os.read(0, 4096)) or os.getppid() != parent:
                os._exit(0)

    threading.Thread(target=watch, name="end-with-owner", daemon=True).start()


class OwnedProcess:
    """Runs ``python -m module arguments --port N --owned`` in its own session; it prints one JSON line when it serves."""

    def __init__(self, module: str, arguments: Sequence[str], folder: Path) -> None:
        self._command = [sys.executable, "-P", "-m", module, *arguments, "--owned"]
        self._folder = folder
        self._name = module.rpartition(".")[2]
        self._process: subprocess.Popen[bytes] | None = None
        self.said: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def pid(self) -> int:
        """The process id of the newest start; 0 before the first."""
        return self._process.pid if self._process else 0

    @property
    def port(self) -> int:
        """The port it listens on; 0 before the first start."""
        return int(self.said.get("port", 0))

    def start(self) -> None:
        """Start it, on the port of the time before if there was one. Raises AgentlabError when it does not serve in time."""
        if self._process is not None and self._process.poll() is None:
            return
        package = str(Path(__file__).resolve().parents[2])
        paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
        errors = self._folder / f"{self._name}.stderr"
        with errors.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*self._command, "--port", str(self.port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        try:
            self.said = json.loads(self._first_line(self._process))
        except ValueError:
            self.kill()
            tail = errors.read_text("utf-8", "replace")[-600:].strip()
            raise AgentlabError(f"the {self._name} did not start within {START_S:g} s; it said: {tail}") from None

    def _first_line(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + START_S
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return b""
            piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                return b""
            line += piece
        return line

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. Idempotent."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def restart(self) -> None:
        """Kill it if it lives, and start it again on the same port. Raises AgentlabError as ``start`` does."""
        self.kill()
        self.start()

    def __enter__(self: Self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
