"""A session: a log with verbs. It holds no truth of its own; every answer is folded from the log when asked."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentlab import process
from agentlab.budget.dimensions import dimension_named
from agentlab.definition import PolicySpec, with_model
from agentlab.errors import BadDefinition, SessionBusy, UnknownName, UserError
from agentlab.events import Draft, Event
from agentlab.faults import Fault, Faults
from agentlab.harness.assembly import definition_of
from agentlab.harness.baseline import changed_sources
from agentlab.harness.trust import require_trust
from agentlab.lab import forking, timetravel
from agentlab.lab.accepting import with_checked_model
from agentlab.lab.answering import AnsweredSession
from agentlab.lab.awaited import POLL_S, RESTING
from agentlab.lab.budgeting import SessionBudget
from agentlab.lab.faulting import FaultRow, fault_rows, inject
from agentlab.lab.timetravel import StateAt
from agentlab.lab.upcasting import lift
from agentlab.sandbox.killing import kill_sandbox
from agentlab.supervisor.liveness import ensure_free
from agentlab.supervisor.liveness import takeover as take_over
from agentlab.toolhost.outcome import import_root

LEAVES_S = 30.0
"""How long a harness that has come to rest may take to leave."""
MAX_LABEL = 200


class Session(AnsweredSession):
    """One session of a lab. Its verbs append inputs or start a harness; reading it never changes it."""

    def start(
        self, *, takeover: bool = False, trust: bool = False, restart: bool = True, arm: Sequence[Fault] = ()
    ) -> None:
        """Start a harness and return at once. ``arm`` are faults in force from its first instruction on.

        A harness of this lab that waits for its next single step goes on instead, as with :meth:`wake`.

        Raises:
            SessionBusy: a harness is alive and ``takeover`` is False.
            NotTrusted: it would run pickled code of another owner.
        """
        if not takeover and self._between_steps() and self._lingers():
            if arm:
                self.inject(arm)
            self.wake(trust=trust, background=True)
            return
        self._permit(takeover, trust)
        argv = [
            sys.executable,
            "-P",
            "-m",
            "agentlab.harness.child",
            "--lab",
            str(self.lab.path),
            f"--session={self.id}",
        ]
        argv += ["--trust"] if trust else []
        argv += ["--takeover"] if takeover else []
        self._crash_loop = False
        (self.lab.path / "run").mkdir(exist_ok=True)
        # The child finds the agentlab that this process runs, installed or not.
        path = os.pathsep.join(filter(None, [import_root(), os.environ.get("PYTHONPATH")]))
        schedule = [fault.to_json() for fault in arm] or None
        self.lab.supervisor.start(
            self.id,
            argv,
            {"PYTHONPATH": path},
            cwd=_working_folder(self.lab.path),
            log_path=self._output,
            restart=restart,
            arm=schedule,
        )

    def _permit(self, takeover: bool, trust: bool) -> None:
        """Refuse a start that trust or another harness forbids; nothing has been written then."""
        _, started = definition_of(self.log, self.lab.store.blobs, self.state)
        if "plan_digest" in started["input"]:
            raise UserError(
                f"session {self.id!r} is an experiment: the call that began it (compare, sweep) goes on with it"
            )
        require_trust(started, self.lab.store.blobs, trust)
        state = self.state
        if not state.incarnation or not state.process or state.control.status == "ended":
            return
        if takeover:
            take_over(dict(state.process), self.id, self.lab.path)
            return
        if state.control.rested and not self._between_steps() and not self.lab.supervisor.alive(self.id):
            process.await_death(state.process, LEAVES_S)  # another owner's harness, which came to rest and is leaving
        ensure_free(dict(state.process), self.id, self.lab.path)

    def wake(
        self,
        *,
        model: str | None = None,
        tools: str | None = None,
        takeover: bool = False,
        trust: bool = False,
        confirm: bool = False,
        background: bool = False,
        timeout_s: float | None = None,
    ) -> Session:
        """A harness takes the session up after its cursor; waits until it rests unless ``background``.

        A session that nobody has started yet begins. With ``confirm`` a person is asked before a recovery is over
        (answered with :meth:`approve` or :meth:`deny`), besides the rule that checks the model's statement.

        ``tools="current"`` allows the importable tools and validators whose source has changed since the task was
        accepted to run as they are now; without it such a session pauses with reason ``tools``.

        Raises:
            UserError: the session has ended; a question is open; or as :meth:`start`.
        """
        state = self.state
        if state.control.status == "ended":
            if state.sandbox.record and process.liveness(state.sandbox.record) == "alive":
                kill_sandbox(dict(state.sandbox.record))  # its last harness died before it gave it back
            raise UserError(
                f"session {self.id!r} has ended ({state.control.outcome}): there is nothing to wake; fork it to go on"
            )
        if state.control.status == "waiting":
            raise UserError(
                f"session {self.id!r} waits for a person: {state.control.question.get('question')}; answer with reply, approve,"
                " deny or settle, then wake it"
            )
        lingers = not takeover and self._lingers()
        state = self.state  # it may have come to rest meanwhile
        if model:
            model = with_checked_model(with_model(self.definition, model), self.lab.store).model
        if not lingers:
            self._permit(takeover, trust)
            lifted = lift(self)
            if lifted is not None:
                self.add_input(lifted)
        resume: dict[str, Any] = {"id": self.lab.ids.new("i"), "mode": "run", **({"model": model} if model else {})}
        if tools is not None:
            resume["tools"] = self._changed_tools(tools)
        if confirm:
            resume["confirm"] = True
        if state.control.status == "paused" or state.control.pause_id or model or tools or confirm:
            self.add_input(Draft("resume_requested", resume))
            self._definition = None
        if not lingers:
            try:
                self.start(takeover=takeover, trust=trust)
            except SessionBusy:
                if not self.lab.supervisor.alive(self.id):  # else its keeper has woken it meanwhile
                    raise
        if not background:
            self.wait(timeout_s)
        return self

    def _changed_tools(self, tools: str) -> list[str]:
        if tools != "current":
            raise BadDefinition(f"tools={tools!r}: only 'current' makes sense, to run changed tools as they are now")
        return changed_sources(self.definition)

    def _lingers(self) -> bool:
        """Whether a harness of this lab is alive and will see what is asked of it next.

        One that has come to rest is about to leave and looks no more, except between single steps: its end is awaited.
        """
        deadline = time.monotonic() + LEAVES_S
        while self.lab.supervisor.alive(self.id) and process.liveness(self.state.process) == "alive":
            control = self.state.control
            if not control.rested or self._between_steps():
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return False

    def _between_steps(self) -> bool:
        control = self.state.control
        return control.status == "paused" and control.reason == "step"

    def step(self, timeout_s: float | None = 120.0) -> list[Event]:
        """Exactly one command of the harness; the events it gave.

        Raises:
            UserError: the session has ended, or waits for a person.
        """
        state = self.state
        if state.control.status in ("ended", "waiting"):
            return self.wake()._new_events(state.seq)
        lingers = self._lingers()
        if not lingers:
            self._permit(False, False)
        self.add_input(Draft("resume_requested", {"id": self.lab.ids.new("i"), "mode": "step"}))
        if not lingers:
            self.start()
        self._await(lambda s: s.control.status in RESTING and s.seq > state.seq + 1, timeout_s)
        return self._new_events(state.seq)

    def _new_events(self, after: int) -> list[Event]:
        return list(self.log.replay(after + 1))

    def checkpoint(self, label: str = "") -> None:
        """Ask for a checkpoint by hand; ``label`` is a name to find it by.

        Raises:
            BadDefinition: the label can not be told from an event number or ``newest``, or is no short line of text.
            UserError: the session has ended.
        """
        if not isinstance(label, str) or len(label) > MAX_LABEL or not label.isprintable():
            raise BadDefinition(f"a label is one line of at most {MAX_LABEL} characters, not {label!r:.60}")
        if label == "newest" or label.isdecimal():
            raise BadDefinition(f"the label {label!r} means another checkpoint already: choose another one")
        if self.state.control.status == "ended":
            raise UserError(f"session {self.id!r} has ended: no checkpoint can be written any more")
        self.add_input(Draft("checkpoint_requested", {"id": self.lab.ids.new("i"), "label": label}))

    def restore(self, checkpoint: int | str = "newest") -> StateAt:
        """Ask to go back to a checkpoint (its event number, id, label, or ``newest``); where the session will be again.

        A living harness does it at its next safe point, a resting session at its next wake. The log keeps what came
        after, marked as superseded; what happened outside and what was spent stays.

        Raises:
            UnknownName: no such checkpoint.
            CheckpointError: it does not verify, or a return to an earlier one superseded it.
            UserError: the session has ended.
        """
        return self.at(timetravel.request_restore(self, checkpoint))

    def fork(
        self,
        at: int | None = None,
        *,
        model: Any = None,
        policy: str | PolicySpec | None = None,
        limits: Mapping[str, Any] | None = None,
        label: str = "",
        session_id: str | None = None,
        trust: bool = False,
    ) -> Session:
        """A new session that shares this one's events up to ``at`` (the newest by default) without copying them.

        It rests until it is woken. Its workspace is filled from the newest snapshot of the shared past, its budget goes
        on from what was spent until then, and no effect that has happened by now is repeated: the same call gets the
        recorded result, and the model is told so. What is open here is verified there before it is sent.

        Args:
            at: the last event shared; any event will do, and what was committed together with it is shared too.
            model: another model: a name, or what a task takes for one.
            policy: another checkpoint policy, as in ``every=5``.
            limits: fields of :class:`agentlab.Limits` to change.
            label: a name for people, kept in its first event.
            session_id: its id; ``<this>-fork-1`` and so on without one.

        Raises:
            UserError: there is no such event, or whatever makes the model, the policy or the id unusable.
            NotTrusted: another owner accepted the task and ``trust`` is False.
        """
        log = forking.fork(
            self, at, model=model, policy=policy, limits=limits, label=label, session_id=session_id, trust=trust
        )
        return self.lab.session(log.session_id)

    def kill(self, target: str = "harness", *, restart: bool = False) -> str:
        """Kill harness or sandbox for real (SIGKILL, start time checked); says what was killed.

        A harness killed by hand stays dead until :meth:`wake`, unless ``restart`` lets the keeper start the next at
        once. ``sandbox`` also deletes the working folder and results not yet taken; ``sandbox-process`` keeps the folder.

        Raises:
            UnknownName: no such target.
            UserError: it is not alive.
        """
        if target not in ("harness", "sandbox", "sandbox-process"):
            raise UnknownName("target", target, ("harness", "sandbox", "sandbox-process"))
        state = self.state
        record = dict(state.process if target == "harness" else state.sandbox.record)
        if not record or process.liveness(record) != "alive":
            raise UserError(f"session {self.id!r} has no living {target}: {self.status()}")
        if target == "harness":
            if not restart and self.lab.supervisor.alive(self.id):
                self.lab.supervisor.stop(self.id, signal.SIGKILL)
            process.send_signal(record, signal.SIGKILL)
            process.await_death(record)
            if not restart and self.lab.supervisor.alive(self.id):
                # A wake right after this must not find it busy.
                self.lab.supervisor.wait_exit(self.id, timeout=LEAVES_S)
            if not restart:
                self.lab.queue.rest(self.id)
        else:
            kill_sandbox(record, keep_folder=target == "sandbox-process")
        mark = {"id": self.lab.ids.new("i"), "fault": "by hand", "target": target, "action": "kill"}
        self.add_input(Draft("fault_injected", mark))
        return f"{target} of {self.id} (pid {record['pid']})"

    def inject(self, faults: Sequence[Any] | Faults, *, seed: int | None = None) -> Faults:
        """Arm faults, in words or as a schedule; a living harness takes them up before its next command.

        Raises:
            BadDefinition, UnknownName: something that is no fault.
            UserError: the session has ended.
        """
        return inject(self, faults, seed)

    def faults(self) -> list[FaultRow]:
        """What is armed and what has struck, in the order of arming."""
        return fault_rows(self.replay())

    @property
    def budget(self) -> SessionBudget:
        """The budget: ``session.budget()`` reports it, ``session.budget.extend(tokens="20k")`` gives it more."""
        return SessionBudget(self)

    def extend(self, dimension: str, limit: int) -> None:
        """Set an absolute new budget limit for a dimension, in its own units (millionths of a dollar, milliseconds).

        ``session.budget.extend(tokens="20k")`` adds to the limit instead.

        Raises:
            UnknownName, BadDefinition: no such dimension, or no whole number from 1 on.
        """
        dimension = dimension_named(dimension)
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise BadDefinition(f"a limit of {dimension} is a whole number from 1 on, not {limit!r}")
        version = self.state.budget.versions.get(dimension, 0)
        payload = {"id": self.lab.ids.new("i"), "dimension": dimension, "limit": limit, "expected_version": version}
        self.add_input(Draft("budget_extended", payload))


def _working_folder(lab: Path) -> Path:
    """Where tools of a notebook run: the owner's own folder, as the cells do; the lab where that is gone.

    Never the keeper's, which is the root of the file system: a tool that tidies up its folder would tidy up there.
    """
    try:
        return Path.cwd()
    except OSError:
        return lab
