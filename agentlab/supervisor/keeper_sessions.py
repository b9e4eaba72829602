"""The keeper's sessions: start, restart, count deaths, and what dies with what. Standard library only.

What dies with what: a harness's tool hosts die with it, *before* the next harness starts, so that it finds every
effect settled; its sandbox lives on for the next harness. Deaths in a row of harnesses that did no work end in a
crash loop instead of a restart.
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

if __package__:
    from agentlab.supervisor import keeper_system as system
    from agentlab.supervisor.keeper_parts import Channel, Child, Session, spawn
else:
    import keeper_system as system  # type: ignore[import-not-found,no-redef]
    from keeper_parts import Channel, Child, Session, spawn  # type: ignore[import-not-found,no-redef]

KINDS = ("sandbox", "toolhost")
DEATHS_TOLD = 8  # a harness that dies before it wrote anything down leaves its news to the next one


class Sessions:
    """All sessions of this keeper. ``tell`` sends an event to the owner."""

    def __init__(
        self,
        keeper: Mapping[str, Any],
        files: system.RunFiles,
        selector: selectors.BaseSelector,
        exits: system.ExitWatch,
        tell: Callable[..., None],
    ) -> None:
        self._keeper, self._files, self._selector, self._exits, self._tell = keeper, files, selector, exits, tell
        self._by_id: dict[str, Session] = {}
        self._by_pid: dict[int, tuple[Session, Child]] = {}
        self._closing = False

    def knows(self, pid: int) -> bool:
        """Whether ``pid`` is a child that was started here and is not reaped."""
        return pid in self._by_pid

    def empty(self) -> bool:
        """Whether every child is reaped."""
        return not self._by_pid

    def harness_alive(self) -> bool:
        return any(session.harness for session in self._by_id.values())

    # --- requests of the owner ----------------------------------------------------------------------------------------

    def start(self, session: Session) -> dict[str, Any]:
        """Start the first harness of a session here, or a new one after the last has left."""
        before = self._by_id.get(session.id)
        if before is not None:
            if before.harness is not None or before.restarting or before.fallen is not None:
                record = before.harness.record if before.harness else None
                return {"ok": False, "busy": True, "record": record, "error": "a harness of this session is running"}
            session.deaths = before.deaths  # those that no harness could write down
            session.children = before.children  # its sandbox waits for the next harness
            for pid, child in session.children.items():
                self._by_pid[pid] = (session, child)
        self._by_id[session.id] = session
        return {"ok": True, "record": self._start_harness(session).record}

    def stop(self, session_id: str, number: int) -> dict[str, Any]:
        """Signal the harness and do not restart it."""
        session = self._by_id.get(session_id)
        if session is None:
            return {"ok": False, "error": "no such session here"}
        session.restart = False
        if session.restarting:
            self._cancel_restart(session)
        if session.harness is None:
            return {"ok": True, "record": None}
        session.harness.signal_group(number)
        return {"ok": True, "record": session.harness.record}

    def signal(self, session_id: str, target: str, number: int) -> dict[str, Any]:
        """Signal the newest living process of a kind, with its group; restarts stay as they are."""
        session = self._by_id.get(session_id)
        of_kind = [session.harness] if session and session.harness and target == "harness" else []
        of_kind += [child for child in (session.children.values() if session else ()) if child.kind == target]
        child = of_kind[-1] if of_kind else None
        if child is None or system.start_time(child.pid) != child.record["start_time"]:
            return {"ok": False, "error": f"no living {target} of this session here"}
        if number == signal.SIGKILL and target != "harness":
            child.kill_tree()  # a container would take its commands along, in whatever group they are
        else:
            child.signal_group(number)
        return {"ok": True, "record": child.record}

    def forget(self, session_id: str) -> dict[str, Any]:
        """End everything of a session."""
        session = self._by_id.get(session_id)
        if session is not None:
            session.restart, session.forgotten = False, True
            if session.restarting:
                self._cancel_restart(session)
            self._drop_if_empty(session)
            for child in [*filter(None, [session.harness]), *session.children.values()]:
                child.kill_tree()
        return {"ok": True}

    def status(self) -> dict[str, Any]:
        """Per session: the harness's record, its children, and the counters."""
        return {session.id: session.status() for session in self._by_id.values()}

    def close(self) -> None:
        """The owner is gone: ask every harness to end, and start none. One whose session has ended leaves by itself."""
        self._closing = True
        for session in self._by_id.values():
            if session.restarting:
                self._cancel_restart(session)
            if session.harness is not None and session.state != "ended":
                session.harness.signal_group(signal.SIGTERM)

    def kill_all(self) -> None:
        """SIGKILL every child with its group and what left it."""
        for _, child in list(self._by_pid.values()):
            child.kill_tree()

    # --- harnesses ----------------------------------------------------------------------------------------------------

    def _start_harness(self, session: Session) -> Child:
        """Start a harness, tell it of the death before, and listen to it.

        Raises:
            OSError, ValueError: it can not be started.
        """
        ours, theirs = socket.socketpair()
        env = dict(session.env, AGENTLAB_KEEPER_FD=str(theirs.fileno()), AGENTLAB_KEEPER=json.dumps(self._keeper))
        env["AGENTLAB_STARTS"] = str(session.starts)
        if session.arm is not None:
            env["AGENTLAB_ARM"] = json.dumps(session.arm)
        if session.deaths:
            env["AGENTLAB_DEATH"] = json.dumps({**session.deaths[-1], "earlier": session.deaths[:-1]})
        try:
            child = spawn(
                "harness", session.id, session.argv, env, session.cwd, session.log_path, self._keeper, theirs.fileno()
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        try:
            self._adopt(session, child)
        except OSError:
            ours.close()
            raise
        session.harness, session.worked, session.done, session.incarnation = child, False, None, None
        session.starts += 1
        session.link = Channel(ours, self._selector, lambda mask: self._on_link(session, mask))
        self._tell({"event": "started", "session": session.id, "record": child.record, "starts": session.starts})
        return child

    def _adopt(self, session: Session, child: Child) -> None:
        """Watch a child and record it.

        Raises:
            OSError: it can not be watched (no descriptor is left); it is killed again.
        """
        try:
            self._exits.add(child.pid)
        except OSError:
            child.kill_tree()
            child.reap()
            raise
        self._by_pid[child.pid] = (session, child)
        self._files.write(child.kind, session.id, child.record)

    def _on_link(self, session: Session, mask: int) -> None:
        """What the harness says. It may be dead already: then nothing is spawned for it any more."""
        link = session.link
        if link is None:
            return
        if mask & selectors.EVENT_WRITE:
            link.flush()
        for message in link.receive():
            op = message.get("op")
            if op == "progress":
                self._progress(session, message)
            elif op == "done":
                session.done = str(message.get("state", "ended"))
            elif op == "spawn":
                link.send({"id": message.get("id"), **self._spawn(session, message)})

    def _progress(self, session: Session, message: Mapping[str, Any]) -> None:
        seq = message.get("seq")
        session.seq = seq if isinstance(seq, int) else session.seq
        session.state = str(message.get("state", session.state))
        session.incarnation = message.get("incarnation", session.incarnation)
        if message.get("work"):
            session.worked, session.no_progress, session.deaths = True, 0, []
        event = {"event": "progress", "session": session.id, "seq": session.seq, "state": session.state}
        self._tell(event, droppable=True)

    def _spawn(self, session: Session, message: Mapping[str, Any]) -> dict[str, Any]:
        kind = message.get("kind")
        try:
            if kind not in KINDS or self._closing:
                raise ValueError("the keeper is ending" if self._closing else f"no kind of child is called {kind!r}")
            env = dict(message["env"], AGENTLAB_KEEPER=json.dumps(self._keeper))
            child = spawn(
                kind, session.id, message["argv"], env, message.get("cwd"), message.get("log_path"), self._keeper
            )
            self._adopt(session, child)
        except (KeyError, TypeError, ValueError, OSError) as error:
            return {"error": f"{type(error).__name__}: {error}"}
        session.children[child.pid] = child
        self._tell({"event": "spawned", "session": session.id, "kind": kind, "record": child.record})
        return {"record": child.record}

    # --- deaths -------------------------------------------------------------------------------------------------------

    def ended(self, pid: int) -> None:
        """A watched child has ended: reap it and draw the consequences."""
        session, child = self._by_pid.pop(pid)
        if child is session.harness and session.link is not None:
            self._last_words(session)
        code = child.reap()
        news = {
            "event": "exited",
            "session": session.id,
            "kind": child.kind,
            "pid": pid,
            "signal": -code if code < 0 else None,
            "code": code if code >= 0 else None,
            "lasted_s": round(time.monotonic() - child.born, 6),
        }
        if child is session.harness:
            self._harness_ended(session, child, news)
        else:
            del session.children[pid]
            self._files.remove(child.kind, pid)
            self._tell({**news, "restarting": False})
        self._settle(session)

    def _last_words(self, session: Session) -> None:
        """Read what the harness had sent before it died, but do nothing for it any more."""
        link = session.link
        assert link is not None
        for message in link.receive():
            if message.get("op") == "progress":
                self._progress(session, message)
            elif message.get("op") == "done":
                session.done = str(message.get("state", "ended"))
        link.close()
        session.link = None

    def _harness_ended(self, session: Session, child: Child, news: dict[str, Any]) -> None:
        session.harness, session.fallen = None, child
        for host in session.tool_hosts():
            host.kill_tree()
        crashed = session.done is None
        if not crashed:
            session.deaths = []
        else:
            session.no_progress += 0 if session.worked else 1
            death = {
                "incarnation": session.incarnation,
                "pid": child.pid,
                "signal": news["signal"],
                "exit_code": news["code"],
                "at_us": time.time_ns() // 1000,
                "record": child.record,
            }
            session.deaths = [*session.deaths, death][-DEATHS_TOLD:]
        taken_over = crashed and self._files.taken_over(child.record)
        wanted = crashed and session.restart and not self._closing and not taken_over
        looping = wanted and session.no_progress >= session.max_no_progress
        session.restarting = wanted and not looping
        outcome = {"restarting": session.restarting, "done": session.done, "crash_loop": looping}
        exited = {**news, **outcome, "taken_over": taken_over}
        if session.restarting:
            self._tell(exited)
            return
        session.parting = [exited]  # who hears it may start the session again, so the tool hosts have to be gone
        if looping:
            count = {"deaths": session.no_progress, "seq": session.seq}
            session.parting.append({"event": "crash_loop", "session": session.id, **count})

    def _drop_if_empty(self, session: Session) -> None:
        gone = session.forgotten and session.harness is None and not session.children
        if gone and self._by_id.get(session.id) is session:
            del self._by_id[session.id]

    def _settle(self, session: Session) -> None:
        """Once the tool hosts of a dead harness are reaped too, forget it and start the next."""
        self._drop_if_empty(session)
        if session.fallen is None or session.tool_hosts():
            return
        fallen, session.fallen = session.fallen, None
        self._files.remove("harness", fallen.pid)
        if session.restarting:
            session.restarting = False
            try:
                self._start_harness(session)
            except (OSError, ValueError) as error:
                session.parting = [{**session.no_restart(fallen), "error": f"{type(error).__name__}: {error}"}]
        for event in session.parting:
            self._tell(event)
        session.parting = []

    def _cancel_restart(self, session: Session) -> None:
        session.restarting = False
        if session.fallen is not None:
            session.parting = [session.no_restart(session.fallen)]
