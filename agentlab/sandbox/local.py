"""Sandboxes on this machine: starting them, talking to them, and knowing at once when they are dead."""

from __future__ import annotations

import binascii
import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agentlab import process
from agentlab.clock import Clock
from agentlab.crashpoints import CrashPoint, reach
from agentlab.errors import SandboxError, SandboxGone
from agentlab.ports import Completed, Execution, ProcessRecord, Resources, Snapshot, Spawner
from agentlab.sandbox import sockets, trees
from agentlab.sandbox.killing import kill_sandbox, reap
from agentlab.sandbox.running import INHERITED

_SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "server.py")
_START_S = 60.0  # a loaded machine, a slow disk; one that is dead is noticed at once
_HEAVY_S = 1800.0  # packing or unpacking a workspace: the sandbox says nothing until it is done


class LocalSandbox:
    """A client of one sandbox process. One thread at a time."""

    def __init__(
        self, record: Mapping[str, Any], sock: socket.socket, resources: Resources, answer_within_s: float
    ) -> None:
        self._record = dict(record)
        self._socket: socket.socket | None = sock
        self._resources = resources
        self._answer_within_s = answer_within_s
        self._received = bytearray()

    @property
    def sandbox_id(self) -> str:
        return str(self._record["sandbox_id"])

    @property
    def record(self) -> Mapping[str, Any]:
        return dict(self._record)

    def confirm(self) -> None:
        """See :meth:`agentlab.ports.Sandbox.confirm`."""
        self._request("confirm")

    def execute(self, exec_id: str, execution: Execution) -> Completed:
        """See :meth:`agentlab.ports.Sandbox.execute`. Limits that the execution does not set are the sandbox's."""
        limits = self._resources
        reach(CrashPoint.SANDBOX_EXECUTE, "before", exec_id)
        self._request(
            "execute",
            exec_id=exec_id,
            argv=list(execution.argv),
            cwd=execution.cwd,
            stdin=execution.stdin,
            env=dict(execution.env),
            files=dict(execution.files),
            timeout_s=limits.timeout_s if execution.timeout_s is None else execution.timeout_s,
            memory_bytes=limits.memory_bytes,
            output_bytes=limits.output_bytes,
            cpu_s=limits.cpu_s,
        )
        reach(CrashPoint.SANDBOX_EXECUTE, "after", exec_id)
        reach(CrashPoint.SANDBOX_RESULT, "before", exec_id)
        completed = Completed(**self._request("result", exec_id=exec_id)["result"])
        reach(CrashPoint.SANDBOX_RESULT, "after", exec_id)
        return completed

    def finished(self) -> Sequence[str]:
        """See :meth:`agentlab.ports.Sandbox.finished`."""
        return [str(exec_id) for exec_id in self._request("finished")["exec_ids"]]

    def acknowledge(self, exec_ids: Sequence[str]) -> None:
        """See :meth:`agentlab.ports.Sandbox.acknowledge`."""
        reach(CrashPoint.SANDBOX_ACK, "before")
        self._request("acknowledge", exec_ids=list(exec_ids))
        reach(CrashPoint.SANDBOX_ACK, "after")

    def changed_bytes(self) -> int:
        """See :meth:`agentlab.ports.Sandbox.changed_bytes`."""
        return int(self._request("changed")["bytes"])

    def snapshot(self) -> Snapshot:
        """See :meth:`agentlab.ports.Sandbox.snapshot`."""
        reach(CrashPoint.SNAPSHOT, "before")
        answer = self._request("snapshot", patience_s=_HEAVY_S)
        names = ("digest", "files", "bytes", "new_bytes", "last_exec_id")
        snapshot = Snapshot(**{name: answer[name] for name in names})
        reach(CrashPoint.SNAPSHOT, "after", snapshot.digest)
        return snapshot

    def restore(self, digest: str) -> None:
        """See :meth:`agentlab.ports.Sandbox.restore`. What runs is killed; ids acknowledged before may run again."""
        reach(CrashPoint.SNAPSHOT_RESTORE, "before", digest)
        self._request("restore", patience_s=_HEAVY_S, digest=digest)
        reach(CrashPoint.SNAPSHOT_RESTORE, "after", digest)

    def put_files(self, files: Mapping[str, str]) -> None:
        """See :meth:`agentlab.ports.Sandbox.put_files`."""
        self._request("put_files", patience_s=_HEAVY_S, files=dict(files))

    def read_file(self, path: str) -> bytes:
        """See :meth:`agentlab.ports.Sandbox.read_file`; up to 32 MiB."""
        return binascii.a2b_base64(self._request("read_file", path=path)["data"])

    def destroy(self) -> None:
        """See :meth:`agentlab.ports.Sandbox.destroy`.

        Raises:
            SandboxError: a higher incarnation owns it, so it is not ours to destroy.
        """
        reach(CrashPoint.SANDBOX_DESTROY, "before", self.sandbox_id)
        if self._socket is not None:
            try:
                self._request("destroy")
                process.await_death(self._record, 5.0)
            except SandboxGone:
                pass
            self.close()
        kill_sandbox(self._record)
        reach(CrashPoint.SANDBOX_DESTROY, "after", self.sandbox_id)

    def close(self) -> None:
        """Let go of the connection; the sandbox lives on."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _request(self, op: str, patience_s: float | None = None, **fields: Any) -> dict[str, Any]:
        if self._socket is None:
            raise SandboxGone(f"sandbox {self.sandbox_id} is gone or was let go: provision and restore")
        line = json.dumps({"op": op, **fields}, separators=(",", ":")).encode("ascii") + b"\n"
        try:
            self._socket.settimeout(patience_s or self._answer_within_s)
            self._socket.sendall(line)
            answer: dict[str, Any] = json.loads(self._line())
        except TimeoutError as error:
            # Stopped or hung. Left alive it could go on working behind its successor's back.
            self.close()
            kill_sandbox(self._record)
            raise SandboxGone(f"sandbox {self.sandbox_id} did not answer and was killed: provision anew") from error
        except (OSError, ValueError) as error:
            self.close()
            raise SandboxGone(f"sandbox {self.sandbox_id} is dead ({error}): provision and restore") from error
        if answer.get("ok"):
            return answer
        if answer.get("kind") == "missing":
            raise FileNotFoundError(answer.get("message"))
        raise SandboxError(f"sandbox {self.sandbox_id} refused {op}: {answer.get('message')}")

    def _line(self) -> bytes:
        """The next line that is not a mere sign of life."""
        assert self._socket is not None
        searched = 0
        while True:
            end = self._received.find(b"\n", searched)
            if end < 0:
                searched = len(self._received)
                data = self._socket.recv(1 << 18)
                if not data:
                    raise ConnectionResetError("it closed the connection")
                self._received += data
                continue
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            searched = 0
            if line:
                return line


class LocalSandboxes:
    """A provider of sandbox processes under ``<lab>/sandboxes/``.

    ``spawner`` starts them; its process, or the one that ``owner`` records (pid, start_time), is whom they watch:
    ``grace_s`` seconds after its death they end. A sandbox that nobody confirms ends after ``confirm_within_s``
    seconds, one that says nothing for ``answer_within_s`` seconds is killed and counts as gone.
    """

    def __init__(
        self,
        lab_path: str | os.PathLike[str],
        blobs_path: str | os.PathLike[str],
        spawner: Spawner,
        clock: Clock,
        *,
        owner: Mapping[str, Any] | None = None,
        confirm_within_s: float = 30.0,
        grace_s: float = 5.0,
        answer_within_s: float = 30.0,
    ) -> None:
        self._lab, self._blobs = os.path.abspath(lab_path), os.path.abspath(blobs_path)
        self._spawner, self._clock, self._owner = spawner, clock, owner
        self._confirm_s, self._grace_s, self._answer_within_s = confirm_within_s, grace_s, answer_within_s
        self.started: Mapping[str, Any] = {}
        """The record of the newest sandbox started here, from its first moment on, before any log has it."""

    def provision(self, session_id: str, incarnation: int, resources: Resources) -> LocalSandbox:
        """See :meth:`agentlab.ports.Sandboxes.provision`. Folders of the lab's dead sandboxes are removed meanwhile."""
        if not resources.network:
            raise SandboxError("a local sandbox can not cut off the network: ask for network=True, or use a container")
        record = {**self._prepared(session_id), "kind": "local", "session_id": session_id}
        reach(CrashPoint.SANDBOX_SPAWN, "before", str(record["sandbox_id"]))
        spawned = self._spawn(record)
        record |= spawned.to_json()
        self.started = record
        reach(CrashPoint.SANDBOX_SPAWN, "after", str(record["sandbox_id"]))
        reap(self._lab)
        try:
            return self._connect(record, incarnation, resources, known=False)
        except SandboxError as error:
            said = self._log_tail(str(record["home"]))
            kill_sandbox(record)
            raise SandboxError(f"a sandbox was started and never got ready: {error}{said}") from error

    def attach(self, record: Mapping[str, Any], incarnation: int, resources: Resources) -> LocalSandbox:
        """See :meth:`agentlab.ports.Sandboxes.attach`."""
        state = process.liveness(record)
        if state != "alive":
            where = f"it is on host {record.get('host')!r}" if state == "unknown" else "its process is dead"
            raise SandboxGone(f"sandbox {record.get('sandbox_id')} can not be taken up: {where}; provision and restore")
        return self._connect(dict(record), incarnation, resources, known=True)

    def _prepared(self, session_id: str) -> dict[str, Any]:
        """Make the folders of a new sandbox, with a note of who is making it for the case that we die here."""
        sandbox_id = f"sb-{secrets.token_hex(8)}"
        home = os.path.join(self._lab, "sandboxes", sandbox_id)
        try:
            address = sockets.new_address()
            os.makedirs(home)
            note = {**process.identify(), "sandbox_id": sandbox_id, "session_id": session_id, "socket": address}
            with open(os.path.join(home, "provision.json"), "w", encoding="utf-8") as file:
                json.dump(note, file)
        except OSError as error:
            raise SandboxError(f"no folder for a sandbox: {error}") from error
        return {"sandbox_id": sandbox_id, "home": home, "address": address}

    def _spawn(self, record: Mapping[str, Any]) -> ProcessRecord:
        options = {
            "sandbox_id": record["sandbox_id"],
            "session_id": record["session_id"],
            "home": record["home"],
            "socket": record["address"],
            "blobs": self._blobs,
            "host": process.host(),
            "boot_id": process.boot_id(),
            "confirm_s": self._confirm_s,
            "grace_s": self._grace_s,
            "owner": None if self._owner is None else dict(self._owner),
        }
        # -I and -S: nothing of the user's Python set-up is read, and the start takes a third of the time.
        argv = [sys.executable, "-I", "-S", _SERVER, json.dumps(options)]
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env["AGENTLAB_SOCKET"] = str(record["address"])  # for the keeper, which removes it after a SIGKILL
        home = str(record["home"])
        try:
            return self._spawner.spawn("sandbox", argv, env, home, os.path.join(home, "server.log"))
        except Exception:
            trees.remove(home)
            sockets.remove(str(record["address"]))
            raise

    def _connect(
        self, record: Mapping[str, Any], incarnation: int, resources: Resources, *, known: bool
    ) -> LocalSandbox:
        reach(CrashPoint.SANDBOX_CONNECT, "before", str(record["sandbox_id"]))
        sock = self._dial(record)
        sandbox = LocalSandbox(record, sock, resources, self._answer_within_s)
        try:
            said = sandbox._request("attach", incarnation=incarnation, known=known)
            if said["sandbox_id"] != record["sandbox_id"] or said["pid"] != record["pid"]:
                raise SandboxGone(f"another process answers at {record['address']}: provision and restore")
        except SandboxError:
            sandbox.close()
            raise
        reach(CrashPoint.SANDBOX_CONNECT, "after", str(record["sandbox_id"]))
        return sandbox

    def _dial(self, record: Mapping[str, Any]) -> socket.socket:
        """Connect as soon as it listens; give up when its process is dead."""
        deadline = self._clock.monotonic() + _START_S
        pause = 0.001
        while True:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(self._answer_within_s)
                sock.connect(str(record["address"]))
                return sock
            except OSError as error:
                sock.close()
                if process.liveness(record) != "alive" or self._clock.monotonic() > deadline:
                    raise SandboxGone(f"sandbox {record['sandbox_id']} does not listen ({error})") from error
            self._clock.sleep(pause)
            pause = min(pause * 1.5, 0.02)

    @staticmethod
    def _log_tail(home: str) -> str:
        try:
            with open(os.path.join(home, "server.log"), "rb") as file:
                text = file.read()[-2000:].decode("utf-8", "replace").strip()
        except OSError:
            return ""
        return f"; it said:\n{text}" if text else ""
