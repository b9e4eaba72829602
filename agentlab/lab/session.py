"""A session: a log with verbs. It holds no truth of its own; every answer is folded from the log when asked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab import process
from agentlab.definition import Definition, PolicySpec, with_model
from agentlab.errors import BadDefinition, UnknownName, UserError
from agentlab.events import Draft, Event, Head, resolve
from agentlab.faults import Fault, Faults
from agentlab.guard import GuardPolicy
from agentlab.harness.assembly import definition_of
from agentlab.harness.baseline import changed_sources
from agentlab.harness.effectindex import settled_since
from agentlab.harness.recordings import exported, recording_of
from agentlab.harness.redact import Redactor
from agentlab.harness.trust import require_trust
from agentlab.harness.wake import checkpoint_state
from agentlab.lab import forking, timetravel
from agentlab.lab.accepting import with_checked_model
from agentlab.lab.awaiting import Waiting, awaited
from agentlab.lab.budgeting import SessionBudget
from agentlab.lab.checkpoints import Checkpoint, checkpoints_of, find, picture
from agentlab.lab.contextual import ContextReport, context_report
from agentlab.lab.costs import CrashCost, crash_costs, total_tax
from agentlab.lab.exporting import Exported, export
from agentlab.lab.faulting import FaultRow, fault_rows, inject
from agentlab.lab.guarding import GuardReport, guard_report
from agentlab.lab.inputs import append_input
from agentlab.lab.locate import Located, locate
from agentlab.lab.reader import Reader
from agentlab.lab.registry import Effect, effects_of
from agentlab.lab.status import Status, as_woken, never_accepted, status_of
from agentlab.lab.timetravel import StateAt
from agentlab.lab.upcasting import lift
from agentlab.lab.verifying import verify_session
from agentlab.log.paths import folder_name
from agentlab.ports import Log
from agentlab.sandbox.killing import kill_sandbox
from agentlab.sandbox.snapshot import Entry, decode
from agentlab.session.commands import Command
from agentlab.session.decide import Run, decide
from agentlab.session.state import Settled, State
from agentlab.session.superseding import ranges
from agentlab.session.tax import Tax
from agentlab.supervisor.liveness import ensure_free
from agentlab.supervisor.liveness import takeover as take_over
from agentlab.toolhost.outcome import import_root

if TYPE_CHECKING:
    from agentlab.analysis import Diagnosis, Report
    from agentlab.lab.lab import Lab

RESTING = ("paused", "waiting", "ended")
POLL_S = 0.02


class Session:
    """One session of a lab. Its verbs append inputs or start a harness; reading it never changes it."""

    def __init__(self, lab: Lab, log: Log) -> None:
        self.lab = lab
        self.log = log
        self._reader = Reader(log, lab.store.blobs)
        self._definition: Definition | None = None
        self._crash_loop = False

    @property
    def id(self) -> str:
        """The session's id."""
        return self.log.session_id

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The folded state as of now."""
        return self._reader.state

    @property
    def definition(self) -> Definition:
        """What the session runs."""
        if self._definition is None:
            self._definition, _ = definition_of(self.log, self.lab.store.blobs, self.state)
        return self._definition

    def events(self) -> list[Event]:
        """All events, in order."""
        return list(self.log.replay(1))

    def replay(self, from_seq: int = 1, to_seq: int | None = None) -> Iterator[Event]:
        """Events from ``from_seq`` on, in order."""
        return self.log.replay(from_seq, to_seq)

    def status(self) -> Status:
        """Where the session is, in one row; a vanished harness reads as crashed, never as running."""
        state = self.state
        return status_of(state) if state.session_id == self.id else never_accepted(self.id)

    def plan(self) -> Command:
        """The next command of the harness, described and not done; of a resting session the first after its wake."""
        return decide(as_woken(self.state, self.lab.clock.now_us()), Run.of(self.definition))

    def at(self, seq: int) -> StateAt:
        """The session as it was right after event ``seq``: folded anew, nothing is written.

        Raises:
            UserError: there is no such event.
        """
        return timetravel.at(self, seq)

    def effects_on_record(self) -> list[Settled]:
        """Effects that have completed, of the sessions it was forked from as well; none of them is repeated."""
        return settled_since(self.state.effects, self.lab.store.blobs, 0)

    def superseded(self) -> tuple[tuple[int, int], ...]:
        """First and last seq of everything that returns to a checkpoint set aside, in order of the log."""
        return ranges(self.log.replay(1))

    def locate(self) -> Located:
        """Where it is, what the step before did, what failed, each with evidence."""
        before = error = last = rest = None
        chain: list[Event] = []
        for event in self.log.replay(max(1, self.state.seq - 400)):
            last = event
            if event.type in ("decision", "tool_result"):
                before = event
            if event.error is not None:
                error = event
            if event.type == "session_paused":
                rest = event
            if event.type == "step_completed":
                chain.clear()
            elif event.error is not None or event.type == "harness_died":
                chain.append(event)
        now = self.lab.clock.now_us()
        return locate(self.state, self.definition, before, error, now, last, rest, self._queue(), chain)

    def _queue(self) -> tuple[str, ...]:
        return self.lab.queue.evidence(self.id) if self.state.control.queued else ()

    def context(self) -> ContextReport:
        """What the model sees next, by layers; what was dropped, what is pinned, how far it drifted."""
        return context_report(self)

    def guard(self, policy: GuardPolicy | Mapping[str, Any] | None = None) -> GuardReport:
        """What repeats in this session, with evidence, under its own policy or another one.

        Raises:
            BadDefinition: a policy with a setting that does not exist.
        """
        return guard_report(self, policy)

    def verify(self) -> Head:
        """Check every row's hash from the first on, and every blob that a row names; the verified head.

        Raises:
            LogCorrupt: which event does not match, or which blob is missing or changed. A removed newest commit can not
                be seen without a head that was kept elsewhere; the return value is one to keep.
        """
        return verify_session(self.log, self.lab.store.blobs)

    def effects(self) -> list[Effect]:
        """Every registered external effect with its state, in the order of registration."""
        return effects_of(self.log.replay(1))

    def crash_costs(self) -> list[CrashCost]:
        """What each crash cost: time to recover, work done again, steps lost, and its recovery tax, in order."""
        return crash_costs(self.events())

    def recovery_tax(self) -> Tax:
        """What all crashes together cost beyond the work itself: seconds, tokens, money, bytes."""
        return total_tax(self.crash_costs())

    def checkpoints(self) -> list[Checkpoint]:
        """Every checkpoint of the session, oldest first."""
        return checkpoints_of(self.log.replay(1))

    def checkpoint_json(self, name: str | int = "newest") -> dict[str, Any]:
        """All that a checkpoint stands for, as JSON: :func:`agentlab.lab.checkpoints.picture`.

        ``name`` is the number of its event, its id or its label.

        Raises:
            UnknownName: there is no such checkpoint.
            CheckpointError: it does not verify.
        """
        events = self.events()
        found = find(checkpoints_of(events), name)
        state = checkpoint_state(events[found.seq - 1], self.lab.store.blobs)
        return picture(found, state, self.definition, events, lambda v: resolve(v, self.lab.store.blobs.get))

    def diagnose(self) -> Diagnosis:
        """The known symptoms of long runs, looked for in this log: evidence (event numbers), likely cause, what to do."""
        from agentlab.analysis import diagnose

        return diagnose(self)

    def report(self, path: str | os.PathLike[str] | None = None) -> Report:
        """Write one self-contained HTML page (pictures, tables, diagnosis); ``report-<id>.html`` without a path.

        Raises:
            UserError: it can not be written there.
        """
        from agentlab.analysis import report

        return report(self, path)

    @property
    def result(self) -> dict[str, Any] | None:
        """What ``session_ended`` says (outcome, result, totals, steps), None before the end."""
        for event in self.log.replay(max(1, self.state.seq - 50)):
            if event.type == "session_ended":
                return dict(event.payload)
        return None

    def files(self) -> dict[str, int]:
        """Paths and sizes in bytes of the workspace as the newest snapshot holds it."""
        return {entry.path: entry.size for entry in self._manifest() if entry.kind == "file"}

    def read_file(self, path: str) -> bytes:
        """A file of the workspace as the newest snapshot holds it.

        Raises:
            UnknownName: no such file in it.
        """
        found = {entry.path: entry for entry in self._manifest() if entry.kind == "file"}
        if path not in found:
            raise UnknownName("file", path, found)
        return self.lab.store.blobs.get(found[path].ref)

    def file_digests(self) -> dict[str, str]:
        """Paths and content digests of the workspace as the newest snapshot holds it."""
        return {entry.path: entry.ref for entry in self._manifest() if entry.kind == "file"}

    def _manifest(self) -> list[Entry]:
        digest = self.state.sandbox.snapshot
        return list(decode(self.lab.store.blobs.get(digest))) if digest else []

    def content(self, event: Event) -> Any:
        """An event's payload with spilled values fetched."""
        return resolve(dict(event.payload), self.lab.store.blobs.get)

    def export_recording(self, path: str | os.PathLike[str]) -> Path:
        """Write the model's answers to a file that ``model="recorded:FILE.jsonl"`` replays, anywhere, without a model.

        The file holds the questions too (so that one that differs can be shown) and no secret of this process's
        environment. Name it with the ending ``.jsonl``.

        Raises:
            UserError: another ending, or the model has answered nothing yet.
        """
        found = Path(path)
        if found.suffix != ".jsonl":
            raise UserError(f"a recording is a file ending in .jsonl, not {found.name!r}")
        answers = recording_of(self.log, self.lab.store.blobs)
        if not answers:
            raise UserError(f"session {self.id!r} has no answer of a model yet: there is nothing to record")
        text = exported(answers, self.id, self.definition.task).decode()
        found.write_text(Redactor.from_environment(os.environ).text(text), encoding="utf-8")
        return found

    # --- driving ---------------------------------------------------------------------------------------------------

    def add_input(self, *drafts: Draft) -> tuple[Event, ...]:
        """Append inputs, without the secrets of this process's environment."""
        redactor = Redactor.from_environment(os.environ)
        return append_input(self.log, tuple(map(redactor.clean, drafts)), self.lab.clock, self.lab.ids)

    def start(
        self, *, takeover: bool = False, trust: bool = False, restart: bool = True, arm: Sequence[Fault] = ()
    ) -> None:
        """Start a harness and return at once. ``arm`` are faults in force from its first instruction on.

        Raises:
            SessionBusy: a harness is alive and ``takeover`` is False.
            NotTrusted: it would run pickled code of another owner.
        """
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

    @property
    def _output(self) -> Path:
        """Where the harness's own words go (its standard output and error)."""
        return self.lab.path / "run" / f"{folder_name(self.id)}.log"

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
        else:
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
            self.start(takeover=takeover, trust=trust)
        if not background:
            self.wait(timeout_s)
        return self

    def _changed_tools(self, tools: str) -> list[str]:
        if tools != "current":
            raise BadDefinition(f"tools={tools!r}: only 'current' makes sense, to run changed tools as they are now")
        return changed_sources(self.definition)

    def _lingers(self) -> bool:
        """Whether the harness is alive and waits for its next single step."""
        return self.lab.supervisor.alive(self.id) and process.liveness(self.state.process) == "alive"

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

    def pause(self, reason: str = "by hand", *, now: bool = False) -> None:
        """Ask for a pause at the next safe point; ``now`` also cuts the command in progress."""
        mode = "now" if now else "safe"
        self.add_input(Draft("pause_requested", {"id": self.lab.ids.new("i"), "reason": reason, "mode": mode}))
        if now:
            with contextlib.suppress(UserError):
                self.lab.supervisor.stop(self.id, signal.SIGTERM)

    def checkpoint(self, label: str = "") -> None:
        """Ask for a checkpoint by hand."""
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
                self.lab.supervisor.wait_exit(self.id, timeout=5.0)  # a wake right after this must not find it busy
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

    def reply(self, text: str) -> None:
        """Answer the open question."""
        self._answer("user_reply", {"text": text})

    def approve(self, note: str = "") -> None:
        """Approve what the open question asks."""
        self._answer("approval_given", {"note": note})

    def deny(self, note: str = "") -> None:
        """Deny what the open question asks."""
        self._answer("approval_denied", {"note": note})

    def _answer(self, kind: str, payload: dict[str, Any]) -> None:
        control = self.state.control
        if control.status != "waiting":
            raise UserError(f"session {self.id!r} asks nothing now: {self.status()}")
        self.add_input(Draft(kind, {"id": self.lab.ids.new("i"), "question_seq": control.question_seq, **payload}))

    def settle(self, key: str, decision: str) -> None:
        """Decide on an effect in doubt: ``done``, ``retry`` or ``skip``.

        Raises:
            UnknownName, BadDefinition: no such effect in doubt, or no such decision.
        """
        doubtful = [call.key for call in self.state.calls if call.status == "in_doubt"]
        if key not in doubtful:
            raise UnknownName("effect in doubt", key, doubtful)
        if decision not in ("done", "retry", "skip"):
            raise BadDefinition(f"settle with done, retry or skip, not {decision!r}")
        self.add_input(Draft("effect_settled", {"id": self.lab.ids.new("i"), "key": key, "decision": decision}))

    @property
    def budget(self) -> SessionBudget:
        """The budget: ``session.budget()`` reports it, ``session.budget.extend(tokens="20k")`` gives it more."""
        return SessionBudget(self)

    def extend(self, dimension: str, limit: int) -> None:
        """Set an absolute new budget limit for a dimension."""
        version = self.state.budget.versions.get(dimension, 0)
        payload = {"id": self.lab.ids.new("i"), "dimension": dimension, "limit": limit, "expected_version": version}
        self.add_input(Draft("budget_extended", payload))

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None = None, on_events: Callable[[Sequence[Event]], None] | None = None) -> Any:
        """Wait until the session rests and its harness has left; its :class:`Status`.

        A plain call blocks, in short waits, so that an interrupt works. Directly under ``await``, as in
        ``await session.wait()``, the kernel stays free meanwhile: widgets act, where the kernel serves them during an
        awaiting cell (ipykernel 7.4 and later; in JupyterLab from 7.0.2 on).

        Raises:
            TimeoutError: it does not rest within ``timeout_s`` seconds; it goes on in the background.
        """
        if awaited(sys._getframe(1)):
            return Waiting(self, timeout_s, on_events)
        self._await(self._rests, timeout_s, on_events)
        return self.status()

    def export(
        self, path: str | os.PathLike[str] | None = None, *, from_seq: int = 1, to_seq: int | None = None
    ) -> Exported:
        """Write events to a file, ``NAME.jsonl`` (one event a line, blobs fetched) or ``NAME.parquet``.

        Without ``path`` it is ``<id>.jsonl`` in the working folder. The file is there whole, or not at all.

        Raises:
            BadDefinition: a name that says no known format.
            UserError: there are no such events, or the file can not be written.
        """
        return export(self, path, from_seq, to_seq)

    def _rests(self, state: State) -> bool:
        if state.control.status in RESTING:
            lingering = state.control.status == "paused" and state.control.reason == "step"
            return lingering or not self.lab.supervisor.alive(self.id)
        return False

    def _await(
        self,
        done: Callable[[State], bool],
        timeout_s: float | None,
        on_events: Callable[[Sequence[Event]], None] | None = None,
    ) -> None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            state, fresh = self._reader.look()
            if fresh and on_events is not None:
                on_events(fresh)
            if done(state):
                return
            if not self.lab.supervisor.alive(self.id):
                state, fresh = self._reader.look()
                if fresh and on_events is not None:
                    on_events(fresh)
                if done(state):
                    return
                self._gone()
                return
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(
                    f"session {self.id!r} does not rest within {timeout_s} s; it goes on in the background"
                )
            time.sleep(POLL_S)

    def _gone(self) -> None:
        """The keeper gave up on this session: say so in the log, as an input, so that the next wake begins clean."""
        state = self.state
        if state.control.status in RESTING or state.control.pause_id:
            return
        exit_ = self.lab.supervisor.wait_exit(self.id, timeout=1.0)
        if exit_ is not None and exit_.crash_loop:
            why = self._said()
            payload = {"id": self.lab.ids.new("i"), "reason": "crash_loop", "mode": "now", "detail": why[:500]}
            self.add_input(Draft("pause_requested", payload))
        elif exit_ is not None and exit_.code not in (0, None):
            raise UserError(f"the harness of {self.id!r} did not start: {self._said()}")

    def _said(self) -> str:
        try:
            lines = self._output.read_text(errors="replace").strip().splitlines()
        except OSError:
            return "it left no word"
        return lines[-1].removeprefix("agentlab: ") if lines else "it left no word"

    def to_json(self) -> dict[str, Any]:
        """The session's status as plain data."""
        return self.status().to_json()

    def __repr__(self) -> str:
        return f"Session({json.dumps(self.id)})"


def _working_folder(lab: Path) -> Path:
    """Where tools of a notebook run: the owner's own folder, as the cells do; the lab where that is gone.

    Never the keeper's, which is the root of the file system: a tool that tidies up its folder would tidy up there.
    """
    try:
        return Path.cwd()
    except OSError:
        return lab
