"""The keeper's parts: a channel of JSON lines, a child process, and what is known of a session. Standard library only.

A child that has not been reaped keeps its pid, and a pid that is still a group's name is not given away either.
So the keeper signals its own children and their groups *before* it reaps them, and can not hit a stranger.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

if __package__:
    from agentlab.supervisor import keeper_system as system
else:  # started as a script: the folder of this file is on the path
    import keeper_system as system  # type: ignore[import-not-found,no-redef]

MAX_LINE = 16 << 20  # bytes; an environment is a few KiB, so more than this is not ours
BACKLOG = 256 << 10  # bytes waiting for a stopped reader, after which news that grow old are dropped


class Channel:
    """JSON lines over a socket that never blocks the keeper."""

    def __init__(self, sock: socket.socket, selector: selectors.BaseSelector, on_ready: Any) -> None:
        sock.setblocking(False)
        self._sock, self._selector, self._on_ready = sock, selector, on_ready
        self._in, self._out = b"", b""
        self.closed = False
        selector.register(sock, selectors.EVENT_READ, on_ready)

    def receive(self) -> list[dict[str, Any]]:
        """Every whole line that is here; sets ``closed`` when the other end is gone."""
        while not self.closed:
            try:
                data = self._sock.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.close()
                break
            self._in += data
        *lines, self._in = self._in.split(b"\n")
        if len(self._in) > MAX_LINE:
            self.close()
        return [message for message in map(_parse, lines) if message is not None]

    def send(self, message: Mapping[str, Any], droppable: bool = False) -> None:
        """Queue ``message``; a droppable one is left out while the reader is far behind."""
        if self.closed or (droppable and len(self._out) > BACKLOG):
            return
        self._out += json.dumps(message, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write what the socket takes now, and ask to be called for the rest."""
        try:
            while self._out:
                self._out = self._out[self._sock.send(self._out) :]
        except BlockingIOError:
            pass
        except OSError:
            self._out = b""  # the reader is gone; its end of file is seen when reading
        if not self.closed:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
            if self._selector.get_key(self._sock).events != wanted:
                self._selector.modify(self._sock, wanted, self._on_ready)

    def close(self) -> None:
        """Stop listening and close. Idempotent."""
        if not self.closed:
            self.closed = True
            self._selector.unregister(self._sock)
            self._sock.close()


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if isinstance(message, dict):
        return message
    system.complain(f"a line that is no JSON object was passed over ({len(line)} bytes)")
    return None


@dataclass(eq=False)
class Child:
    """A child of the keeper that has not been reaped; ``stdin`` is the keeper's end of its standard input."""

    kind: str
    session: str
    record: dict[str, Any]
    process: subprocess.Popen[bytes]
    stdin: int
    mark: str  # in its environment and in that of its descendants
    address: str = ""  # the socket that it listens on, in a folder of its own
    born: float = field(default_factory=time.monotonic)

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal_group(self, number: int) -> bool:
        """Signal the whole group. Safe for a zombie too, as long as it is not reaped; False when nobody was there."""
        try:
            os.killpg(self.pid, number)
        except OSError as error:
            # macOS says EPERM when only the zombie itself is left in the group
            if error.errno not in (errno.ESRCH, errno.EPERM):
                raise
            return False
        return True

    def kill_tree(self) -> None:
        """SIGKILL the group, and on Linux also descendants and orphans that left it for a session of their own.

        A process with SIGKILL pending can not fork, so only what was forked between a look and its kill is new to
        the next look. One that died during a look hid its children from it: hence two looks that find nothing new.
        """
        seen: set[tuple[int, str]] = set()
        calm = 0
        while calm < 2:
            escaped = {*system.descendants(self.pid), *system.orphans_marked(self.mark)} - seen
            self.signal_group(signal.SIGKILL)
            for pid, started in escaped:
                kill_if_same(pid, started)
            seen |= escaped
            calm = 0 if escaped else calm + 1

    def reap(self) -> int:
        """Collect the exit of a child that has ended: minus the signal, or the exit code. Its leftovers are killed."""
        self.kill_tree()
        _, status = os.waitpid(self.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)  # so that Popen never waits for this pid itself
        os.close(self.stdin)
        self._remove_socket()
        return int(self.process.returncode)

    def _remove_socket(self) -> None:
        """A sandbox that ends in order removes its socket; one that was killed can not."""
        folder, name = os.path.split(self.address)
        if name != "s" or not os.path.basename(folder).startswith("agentlab-"):
            return
        for remove, path in ((os.unlink, self.address), (os.unlink, f"{folder}/sandbox.json"), (os.rmdir, folder)):
            try:
                remove(path)
            except OSError:
                pass


def kill_if_same(pid: int, started: str) -> None:
    """SIGKILL ``pid`` only if it still is the process that started then."""
    if system.start_time(pid) == started:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass


def spawn(
    kind: str,
    session: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    log_path: str | None,
    identity: Mapping[str, Any],
    pass_fd: int | None = None,
) -> Child:
    """Start ``argv`` in a session of its own, with its output appended to ``log_path``.

    Standard input is a pipe whose other end only the keeper holds: it ends when the keeper does. Nothing else is
    inherited but ``pass_fd``. ``identity`` is the keeper's host and boot id. ``AGENTLAB_CHILD`` is added to ``env``,
    by which orphans of this child are known.

    Raises:
        OSError: the program or the folder does not exist, or the system has no room for a process.
        ValueError: an argument holds a NUL.
    """
    mark = os.urandom(8).hex()
    out = _open_log(log_path)
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=reader,
            stdout=out,
            stderr=out,
            env={**env, "AGENTLAB_CHILD": mark},
            cwd=cwd,
            start_new_session=True,
            pass_fds=() if pass_fd is None else (pass_fd,),
        )
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)
        if out >= 0:
            os.close(out)
    address = env.get("AGENTLAB_SOCKET", "") if kind == "sandbox" else ""
    record = {
        "host": identity["host"],
        "boot_id": identity["boot_id"],
        "pid": process.pid,
        "start_time": system.start_time(process.pid, zombie=True) or "",
    }
    return Child(kind, session, record, process, writer, f"AGENTLAB_CHILD={mark}", address)


def _open_log(path: str | None) -> int:
    """A descriptor that appends to ``path``, or DEVNULL: a full disk must not keep a harness from its recovery."""
    if path is None:
        return subprocess.DEVNULL
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError as error:
        system.complain(f"output goes nowhere, {path} can not be opened: {error}")
        return subprocess.DEVNULL


@dataclass(eq=False)
class Session:
    """What the owner asked for, and how it stands."""

    id: str
    argv: list[str]
    env: dict[str, str]
    cwd: str | None
    log_path: str | None
    restart: bool = True
    max_no_progress: int = 3
    arm: Any = None
    harness: Child | None = None
    link: Channel | None = None
    children: dict[int, Child] = field(default_factory=dict)  # sandboxes and tool hosts
    starts: int = 0
    no_progress: int = 0  # deaths in a row of harnesses that did no work
    worked: bool = False  # this harness appended more than its own wake-up
    seq: int = 0
    state: str = ""
    incarnation: int | None = None
    done: str | None = None  # what the harness said before it left on purpose
    deaths: list[dict[str, Any]] = field(default_factory=list)  # not yet followed by work
    restarting: bool = False  # waits for the tool hosts' end
    fallen: Child | None = None  # the harness before, whose tool hosts are not all reaped
    parting: list[dict[str, Any]] = field(default_factory=list)  # told when these are reaped too
    forgotten: bool = False  # goes from the table when its last process is reaped

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Session:
        """From a ``start`` request.

        Raises:
            KeyError, TypeError, ValueError: the request is not complete.
        """
        limit = int(message.get("max_no_progress", 3))
        if limit < 1:
            raise ValueError("max_no_progress must be at least 1")
        env = {str(key): str(value) for key, value in message["env"].items() if not key.startswith("AGENTLAB_DEATH")}
        return cls(
            id=message["session"],
            argv=[str(part) for part in message["argv"]],
            env=env,
            cwd=message.get("cwd"),
            log_path=message.get("log_path"),
            restart=bool(message.get("restart", True)),
            max_no_progress=limit,
            arm=message.get("arm"),
        )

    def tool_hosts(self) -> list[Child]:
        return [child for child in self.children.values() if child.kind == "toolhost"]

    def status(self) -> dict[str, Any]:
        """What the owner is told when it asks."""
        return {
            "harness": self.harness.record if self.harness else None,
            "children": [{"kind": child.kind, "record": child.record} for child in self.children.values()],
            "restarting": self.restarting,
            "starts": self.starts,
            "no_progress": self.no_progress,
            "seq": self.seq,
            "state": self.state,
            "done": self.done,
        }

    def no_restart(self, fallen: Child) -> dict[str, Any]:
        """The event that takes back the announced restart after the death of ``fallen``."""
        death = self.deaths[-1]
        exited = {"event": "exited", "session": self.id, "kind": "harness", "pid": fallen.pid, "lasted_s": None}
        why = {"signal": death["signal"], "code": death["exit_code"], "done": None}
        return {**exited, **why, "restarting": False, "crash_loop": False, "taken_over": False}
