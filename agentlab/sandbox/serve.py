"""The sandbox process: one thread, one loop, one command at a time. Standard library only.

Protocol, over a unix socket in a folder that only the owner may enter: one JSON object a line each way. A request is
``{"op": …}``, an answer ``{"ok": true, …}`` or ``{"ok": false, "kind": …, "message": …}``. While a ``result`` is
waited for, an empty line comes every second: silence means that the sandbox is stopped.

==============  ==================================================================================================
attach          ``incarnation``, ``known``; first on every connection. Lower incarnations are cut off from then on.
confirm         the log has this sandbox; without it (or ``known``, or an execute) it ends itself soon
execute         ``exec_id``, ``argv``, ``cwd``, ``stdin``, ``env``, ``files``, limits; answers ``state`` at once:
                ``running`` (newly or already) or ``done``
result          ``exec_id``; answers when it is done and its result durable
finished        ids of results that are kept
acknowledge     ``exec_ids``; their results are forgotten, the ids are not: they never run again before a restore
changed         answers ``bytes``: of files that are not as the newest snapshot holds them
snapshot        packs the workspace; refused while a command runs
restore         ``digest``; what runs is killed first
put_files       ``files``: relative path to digest
read_file       ``path``; answers ``data`` in base64
destroy         kills what runs and ends
==============  ==================================================================================================
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable

from agentlab.sandbox import processes, sockets
from agentlab.sandbox.listening import BEAT_S, Connection, Listener
from agentlab.sandbox.results import Results
from agentlab.sandbox.running import Running, environment, failed_to_start
from agentlab.sandbox.workplace import Refused, Workplace

Json = dict[str, object]


class Server:
    """Everything that a sandbox process knows; lost with it, but for the workspace and the results."""

    def __init__(self, options: Json) -> None:
        home = str(options["home"])
        self._id = str(options["sandbox_id"])
        self._place = Workplace(home, str(options["blobs"]))
        self._results = Results(os.path.join(home, "results"))
        self._running: Running | None = None
        self._last: str | None = None
        self._highest = 0
        self._confirm_s, self._grace_s = float(str(options["confirm_s"])), float(str(options["grace_s"]))
        self._confirm_by: float | None = time.monotonic() + self._confirm_s
        self._end_at: float | None = None
        self._ending = self._adopts = False
        self._selector = selectors.DefaultSelector()
        self._listener = Listener(str(options["socket"]), self._selector, self._request)
        self._owner = self._find_owner(options)
        for fd in self._owner.fds:
            self._selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._owner_speaks(fd))
        self._wake = self._on_signals()

    @staticmethod
    def _find_owner(options: Json) -> processes.OwnerWatch:
        """Whom to watch: the one that the asker named, the keeper that started us, or simply the parent."""
        known = options.get("owner") or json.loads(os.environ.get("AGENTLAB_KEEPER", "{}"))
        assert isinstance(known, dict)
        return processes.OwnerWatch(int(known.get("pid") or os.getppid()), known.get("start_time") or None)

    def _on_signals(self) -> int:
        out, into = os.pipe()
        for fd in (out, into):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_ending", True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._selector.register(out, selectors.EVENT_READ, lambda: os.read(out, 4096))
        return out

    # --- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until destroyed, unconfirmed, orphaned or told to terminate."""
        try:
            while not self._ending:
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self._reap()
                self._tick()
        finally:
            self._stop_running()
            self._listener.close()

    def _patience(self) -> float:
        times = [BEAT_S]
        now = time.monotonic()
        for moment in (self._confirm_by, self._end_at, self._running.deadline if self._running else None):
            if moment is not None:
                times.append(moment - now)
        return max(0.0, min(times))

    def _tick(self) -> None:
        now = time.monotonic()
        if self._running is not None and not self._running.timed_out and now >= self._running.deadline:
            self._running.timed_out = True
            self._running.kill()
        if self._end_at is None and self._owner.poll():
            self._owner_gone()
        if any(moment is not None and now >= moment for moment in (self._confirm_by, self._end_at)):
            self._ending = True
        self._listener.beat(now)

    def _owner_speaks(self, fd: int) -> None:
        if self._owner.readable(fd):
            self._owner_gone()

    def _owner_gone(self) -> None:
        for fd in self._owner.fds:
            self._selector.unregister(fd)
        self._owner.fds.clear()
        self._end_at = time.monotonic() + self._grace_s

    # --- processes -----------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._running is not None and pid == self._running.process.pid:
                self._clear_leftovers(pid)
                self._close(self._running, self._running.finish(status, usage))

    def _clear_leftovers(self, group: int) -> None:
        """Kill and reap what an execution left running; on Linux every orphan of it is our child by now."""
        deadline = time.monotonic() + 20.0  # less than anybody waits for an answer
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        while time.monotonic() < deadline:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    processes.kill_below(os.getpid())
                    time.sleep(0.001)
            except ChildProcessError:
                return

    def _close(self, running: Running, result: Json) -> None:
        for fd in running.streams:
            if fd in self._selector.get_map():
                self._selector.unregister(fd)
        self._running = None
        self._keep(running.exec_id, result)

    def _keep(self, exec_id: str, result: Json) -> None:
        self._results.store(exec_id, result)
        self._last = exec_id
        self._place.drop_scratch(exec_id)
        self._listener.answer_waiting(exec_id, lambda: self._stored(exec_id))

    def _stop_running(self) -> None:
        if self._running is None:
            return
        running, running.stopped = self._running, True
        running.kill()
        _, status, usage = os.wait4(running.process.pid, 0)
        self._clear_leftovers(running.process.pid)
        self._close(running, running.finish(status, usage))

    # --- requests ------------------------------------------------------------------------------------------------

    def _request(self, connection: Connection, request: Json) -> Json | None:
        """The answer to one request; None when it comes later."""
        if self._confirm_by is not None:
            self._confirm_by = time.monotonic() + self._confirm_s
        op = str(request.get("op"))
        handler: Callable[[Connection, Json], Json | None] | None = getattr(self, f"_op_{op}", None)
        if handler is None:
            raise Refused("protocol", f"unknown operation {op!r}")
        if op != "attach" and (connection.incarnation == 0 or connection.incarnation < self._highest):
            raise Refused("fenced", f"incarnation {connection.incarnation} is not {self._highest}, the newest attached")
        return handler(connection, request)

    def _op_attach(self, connection: Connection, request: Json) -> Json:
        incarnation = int(str(request["incarnation"]))
        if incarnation < max(1, self._highest):
            raise Refused("fenced", f"incarnation {incarnation} comes too late: {self._highest} has attached")
        connection.incarnation = self._highest = incarnation
        self._listener.cut_off_below(incarnation)
        if request.get("known"):
            self._confirm_by = None
        return {"sandbox_id": self._id, "pid": os.getpid()}

    def _op_confirm(self, connection: Connection, request: Json) -> Json:
        self._confirm_by = None
        return {}

    def _op_execute(self, connection: Connection, request: Json) -> Json:
        self._confirm_by = None
        exec_id = str(request["exec_id"])
        if exec_id in self._results:
            return {"state": "done"}
        if exec_id in self._results.acknowledged:
            raise Refused("acknowledged", f"{exec_id!r} ran, and the log has its result")
        if self._running is not None:
            if self._running.exec_id == exec_id:
                return {"state": "running"}
            raise Refused("busy", f"{self._running.exec_id!r} is running: take its result first")
        return {"state": "running" if self._start(exec_id, request) else "done"}

    def _start(self, exec_id: str, request: Json) -> bool:
        if not self._adopts:  # here and not at the start: loading ctypes takes longer than all the rest
            processes.become_subreaper()
            self._adopts = True
        cwd, files, given = self._place.cwd(str(request["cwd"])), request["files"], request["env"]
        assert isinstance(files, dict) and isinstance(given, dict)
        scratch = self._place.scratch(exec_id)
        stdin: int | None = None
        try:
            self._place.put_files(files, scratch)
            stdin = self._place.stdin(scratch, str(request["stdin"]))
            env = environment(self._id, self._place.root, scratch, given)
            self._running = Running(exec_id, request, cwd, env, stdin)
        except Refused:
            self._place.drop_scratch(exec_id)
            raise
        except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
            self._keep(exec_id, failed_to_start(exec_id, error))
            return False
        finally:
            if stdin is not None:
                os.close(stdin)
        for fd in self._running.streams:
            self._selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._pump(fd))
        return True

    def _pump(self, fd: int) -> None:
        # One pipe can have been closed by what another event of the same round did.
        if self._running is not None and fd in self._running.streams and not self._running.read(fd):
            self._selector.unregister(fd)

    def _op_result(self, connection: Connection, request: Json) -> Json | None:
        exec_id = str(request["exec_id"])
        if exec_id in self._results:
            return self._stored(exec_id)
        if self._running is None or self._running.exec_id != exec_id:
            raise Refused("unknown", f"no execution {exec_id!r}")
        connection.waiting_for = exec_id
        return None

    def _stored(self, exec_id: str) -> Json:
        try:
            return {"result": json.loads(self._results.load(exec_id))}
        except OSError as error:
            raise Refused("storage", f"the result of {exec_id!r} is not kept: {error.strerror}; ask again") from error

    def _op_finished(self, connection: Connection, request: Json) -> Json:
        return {"exec_ids": self._results.kept()}

    def _op_acknowledge(self, connection: Connection, request: Json) -> Json:
        ids = request["exec_ids"]
        assert isinstance(ids, list)
        for exec_id in ids:
            self._results.acknowledge(str(exec_id))
        return {}

    def _op_changed(self, connection: Connection, request: Json) -> Json:
        return {"bytes": self._place.changed_bytes()}

    def _op_snapshot(self, connection: Connection, request: Json) -> Json:
        if self._running is not None:
            raise Refused("busy", f"{self._running.exec_id!r} is running: a snapshot would be of no moment")
        return {**self._place.snapshot()._asdict(), "last_exec_id": self._last}

    def _op_restore(self, connection: Connection, request: Json) -> Json:
        self._stop_running()
        self._place.restore(str(request["digest"]))
        # What ran since is undone; the same commands may run again under their ids.
        self._results.acknowledged.clear()
        self._last = None
        return {}

    def _op_put_files(self, connection: Connection, request: Json) -> Json:
        files = request["files"]
        assert isinstance(files, dict)
        self._place.put_files(files)
        return {}

    def _op_read_file(self, connection: Connection, request: Json) -> Json:
        return {"data": self._place.read_file(str(request["path"]))}

    def _op_destroy(self, connection: Connection, request: Json) -> Json:
        self._stop_running()
        self._ending = True
        return {}


def main(text: str) -> int:
    """Run a sandbox as its options say; 3 when its folder is not there (the asker gave up on it)."""
    options: Json = json.loads(text)
    home = str(options["home"])
    if not os.path.isdir(home):
        return 3
    identity = {name: options[name] for name in ("sandbox_id", "session_id", "host", "boot_id", "socket")}
    identity |= {"pid": os.getpid(), "start_time": processes.start_time(os.getpid())}
    tmp = os.path.join(home, "sandbox.json.tmp")
    with open(tmp, "w", encoding="utf-8") as file:
        json.dump(identity, file)
    os.rename(tmp, os.path.join(home, "sandbox.json"))
    sockets.note(str(options["socket"]), identity)
    for name in ("workspace", "results", "scratch"):
        # Fails when it exists: a sandbox never takes over what another one left.
        os.mkdir(os.path.join(home, name))
    Server(options).run()
    return 0
