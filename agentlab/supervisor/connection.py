"""One keeper process and the channel to it: requests with their answers, and a stream of events."""

from __future__ import annotations

import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.errors import AgentlabError
from agentlab.observe import log

KEEPER = Path(__file__).with_name("keeper.py")
REPLY_S = 60.0  # a loaded machine may take seconds to start a process, one that stalls many
SLACK_S = 20.0  # after the grace: the keeper's sweep of 5 s and its own exit

Event = Mapping[str, Any]
Answers = queue.SimpleQueue[Event | None]


def keeper_log(lab: Path) -> str:
    """Where the keepers of a lab complain; nowhere when the lab can not take a file."""
    path = lab / "run" / "keeper.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return str(path)
    except OSError:
        return os.devnull


class Connection:
    """A keeper that this process has started. Thread-safe.

    ``on_event`` is called in a reader thread for every event, and ``on_end`` once after the last, when the keeper
    has ended and is reaped; both have to be quick.

    Raises:
        OSError: the keeper can not be started.
    """

    def __init__(
        self, lab: Path, grace_s: float, on_event: Callable[[Event], None], on_end: Callable[[Connection], None]
    ) -> None:
        self._lab, self._grace_s = lab, grace_s
        self._on_event, self._on_end = on_event, on_end
        self._sending = threading.Lock()  # lines of two threads must not mix
        self._ids = itertools.count(1)
        self._waiting: dict[int, Answers] = {}
        self.lost = False
        self.closing = False
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = self._start(theirs.fileno())
        self.record = process.identify(self._process.pid)
        self._reader = threading.Thread(target=self._read, name="agentlab-keeper-reader", daemon=True)
        self._reader.start()

    def _start(self, control: int) -> subprocess.Popen[bytes]:
        # -I and -S: no variable, start-up file or package of the user's gets into the keeper
        argv = [sys.executable, "-I", "-S", str(KEEPER), "--control", str(control), "--lab", str(self._lab)]
        argv += ["--grace", str(self._grace_s), "--owner", json.dumps(process.identify())]
        with open(keeper_log(self._lab), "ab") as out:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                pass_fds=(control,),
                start_new_session=True,  # Jupyter interrupts the kernel's whole process group
                cwd="/",
            )

    def request(self, message: Mapping[str, Any]) -> Event | None:
        """Ask and wait; None when the keeper died before it answered.

        Raises:
            AgentlabError: it is alive and has not answered for ``REPLY_S`` seconds.
        """
        number, answers = next(self._ids), Answers()
        self._waiting[number] = answers
        try:
            if self.lost:
                return None
            with self._sending:
                self._socket.sendall(json.dumps({**message, "id": number}).encode() + b"\n")
            return answers.get(timeout=REPLY_S)
        except OSError:
            return None
        except queue.Empty:
            pid, where = self._process.pid, keeper_log(self._lab)
            raise AgentlabError(f"the keeper (pid {pid}) has not answered for {REPLY_S:g} s: see {where}") from None
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Have the keeper end everything and await it: the grace and a little more at most."""
        self.closing = True
        try:
            with self._sending:
                self._socket.sendall(b'{"op":"shutdown"}\n')
        except OSError:
            pass
        self.reap(self._grace_s + SLACK_S)

    def reap(self, timeout_s: float = SLACK_S) -> None:
        """Await the keeper's end, by SIGKILL when it does not come within ``timeout_s`` seconds."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def settle(self) -> None:
        """Await what follows the keeper's end: the last event and ``on_end``. Nothing of it is told afterwards."""
        self.reap()
        self._reader.join(SLACK_S)
        self.lost = True

    def abandon(self) -> None:
        """In a forked child: close its copy of the channel. Whose child the keeper is, that one reaps it."""
        self.lost = True
        self._process.returncode = 0
        try:
            os.close(self._socket.detach())  # close() would wait for the reader, whose thread is not here
        except OSError:
            pass

    def _read(self) -> None:
        try:
            with self._socket, self._socket.makefile("rb") as lines:
                for line in lines:
                    message = json.loads(line)
                    if message["event"] != "reply":
                        self._on_event(message)
                    elif (waiting := self._waiting.get(message["id"])) is not None:
                        waiting.put(message)
        except (OSError, ValueError, KeyError):
            log.exception("the channel to the keeper broke")
        self.lost = True
        for waiting in list(self._waiting.values()):
            waiting.put(None)
        self.reap()
        self._on_end(self)
