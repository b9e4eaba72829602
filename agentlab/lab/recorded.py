"""A session as it can be read: every answer is folded from the log when asked, and nothing is ever changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentlab.definition import Definition
from agentlab.errors import UnknownName, UserError, refusal
from agentlab.events import Event, Head, resolve
from agentlab.guard import GuardPolicy
from agentlab.harness.assembly import definition_of
from agentlab.harness.effectindex import settled_since
from agentlab.harness.recordings import exported, recording_of
from agentlab.harness.redact import Redactor
from agentlab.harness.wake import checkpoint_state
from agentlab.lab import timetravel
from agentlab.lab.checkpoints import Checkpoint, checkpoints_of, find, picture
from agentlab.lab.contextual import ContextReport, context_report
from agentlab.lab.costs import CrashCost, crash_costs, total_tax
from agentlab.lab.exporting import Exported, export
from agentlab.lab.guarding import GuardReport, guard_report
from agentlab.lab.locate import Located, locate
from agentlab.lab.reader import Reader
from agentlab.lab.registry import Effect, effects_of
from agentlab.lab.status import Status, as_woken, never_accepted, status_of
from agentlab.lab.timetravel import StateAt
from agentlab.lab.verifying import verify_session
from agentlab.ports import Log
from agentlab.sandbox.snapshot import Entry, decode
from agentlab.session.commands import Command
from agentlab.session.decide import Run, decide
from agentlab.session.state import Settled, State
from agentlab.session.superseding import ranges
from agentlab.session.tax import Tax

if TYPE_CHECKING:
    from agentlab.analysis import Diagnosis, Report
    from agentlab.lab.lab import Lab


class RecordedSession:
    """One session of a lab, to be read. Reading never changes it."""

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
        state, alive = self._reader.standing()
        return status_of(state, alive) if state.session_id == self.id else never_accepted(self.id)

    def plan(self) -> Command:
        """The next command of the harness, described and not done; of a resting session the first after its wake."""
        state, _ = self._reader.standing()
        return decide(as_woken(state, self.lab.clock.now_us()), Run.of(self.definition))

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
        """Where it is, what the step before did, what failed, each with evidence; all of one and the same moment."""
        state, alive = self._reader.standing()
        before = error = last = rest = None
        chain: list[Event] = []
        for event in self.log.replay(max(1, state.seq - 400), state.seq):
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
        queue = self.lab.queue.evidence(self.id) if state.control.queued else ()
        now = self.lab.clock.now_us()
        return locate(state, alive, self.definition, before, error, now, last, rest, queue, chain)

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
            UserError: another ending, the model has answered nothing yet, or the file can not be written.
        """
        found = Path(path)
        if found.suffix != ".jsonl":
            raise UserError(f"a recording is a file ending in .jsonl, not {found.name!r}")
        answers = recording_of(self.log, self.lab.store.blobs)
        if not answers:
            raise UserError(f"session {self.id!r} has no answer of a model yet: there is nothing to record")
        text = exported(answers, self.id, self.definition.task).decode()
        try:
            found.write_text(Redactor.from_environment(os.environ).text(text), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise UserError(f"{str(found)!r} can not be written: {refusal(error)}; name another path") from error
        return found

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

    def to_json(self) -> dict[str, Any]:
        """The session's status as plain data."""
        return self.status().to_json()

    def __repr__(self) -> str:
        return f"Session({json.dumps(self.id)})"
