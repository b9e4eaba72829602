"""An experiment as a session in the log: its plan is the accepted task, each run a fact, and it goes on where it was.

The process that drives it opens an incarnation as a harness does; a second one finds it busy, and one that was stopped
for long is fenced like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agentlab import process
from agentlab.comparing.conditions import Plan
from agentlab.comparing.running import Done
from agentlab.definition import Definition
from agentlab.errors import UserError
from agentlab.events import GENESIS, Draft, canonical, digest, plain, resolve
from agentlab.harness.assembly import open_incarnation
from agentlab.harness.recorder import Recorder
from agentlab.harness.redact import Redactor
from agentlab.harness.wake import Loaded, load, opening, wake_reason
from agentlab.lab.accepting import check_id
from agentlab.session.state import State
from agentlab.version import __version__

INLINE = 32 * 1024


class Recording:
    """The session of one experiment. ``done`` are the runs that it holds already, as (condition's name, seed)."""

    def __init__(self, lab: Any, plan: Plan, name: str | None = None) -> None:
        """Find the session of this plan, or begin one.

        Without ``name`` an unfinished session of an equal plan is gone on with, and else a new one is begun.

        Raises:
            BadSessionId: the name can be none of a session.
            UserError: it belongs to another experiment, or to something else.
            SessionBusy: another process drives it.
        """
        self.lab, self.plan = lab, plan
        if name is not None:
            check_id(name)
        self.session_id = name or _unfinished(lab, plan)
        self._log: Any
        if self.session_id in lab.store.sessions():
            self._log = lab.store.open(self.session_id)
            self._check()
        else:
            self._log = lab.store.create(self.session_id, "group")
            self._begin()
        self.ended = load(self._log, lab.store.blobs).state.control.status == "ended"
        self.done = {(d.condition.name, d.seed) for d in self.results()}
        self._recorder: Recorder | None = None

    def open(self) -> None:
        """Open an incarnation: from now on this process drives the experiment."""
        blobs, lab = self.lab.store.blobs, self.lab

        def recorder_of(state: State, incarnation: int) -> Recorder:
            return Recorder(self._log, blobs, state, incarnation, lab.clock, lab.ids, Redactor({}))

        def drafts_of(now: Loaded) -> Sequence[Draft]:
            return opening(
                now, process=process.identify(), baseline=_baseline(), reason=wake_reason(now.state, False), death=None,
                marks=(), death_id=lab.ids.new("d"),
            )  # fmt: skip

        self._recorder, _ = open_incarnation(self._log, blobs, load(self._log, blobs), recorder_of, drafts_of, False)

    def record(self, results: Sequence[Done]) -> None:
        """Write down runs that are over, in one commit.

        Raises:
            Fenced: another process took the experiment over.
        """
        assert self._recorder is not None
        drafts = []
        for result in results:
            payload: dict[str, Any] = {
                "condition": result.condition.name, "values": dict(result.condition.values), "row": plain(result.row),
                "seed": result.seed,
            }  # fmt: skip
            if result.error:
                payload["error"] = result.error
            drafts.append(Draft("run_recorded", payload))
            self.done.add((result.condition.name, result.seed))
        self._recorder.commit(drafts)

    def finish(self, failed: int) -> None:
        """The experiment is complete."""
        assert self._recorder is not None
        totals = {"runs": len(self.done), "failed": failed}
        self._recorder.commit(
            (Draft("session_ended", {"outcome": "completed", "result": totals, "totals": totals, "steps": []}),)
        )
        self._log.flush()
        self.ended = True

    def pause(self, reason: str) -> None:
        """The experiment rests unfinished; the same call goes on with it."""
        if self._recorder is not None:
            self._recorder.commit((Draft("session_paused", {"reason": reason}),))
            self._log.flush()
            self._recorder = None

    def results(self) -> Iterator[Done]:
        """The runs that the log holds, in the order in which they were over."""
        conditions = {condition.name: condition for condition in self.plan.conditions}
        for event in self._log.replay(1):
            if event.type == "run_recorded":
                p = resolve(dict(event.payload), self.lab.store.blobs.get)
                yield Done(conditions[p["condition"]], p.get("seed"), p["row"], p.get("error", ""))

    # --- beginning ---

    def _begin(self) -> None:
        blobs = self.lab.store.blobs
        goal = f"{len(self.plan)} runs of {self.plan.subject}: {len(self.plan.conditions)} conditions, {len(self.plan.seeds)} seeds"
        definition = Definition(task=self.plan.kind, goal=goal, model="none", durability="group")
        given: dict[str, Any] = {"goal": goal, "task": self.plan.kind, "plan_digest": self.plan.digest}
        given["plan"] = self._stored(self.plan.to_json())
        if self.plan.measured:
            given["measured"] = self._stored(plain(dict(self.plan.measured)))
        payload = {"definition": definition.to_json(), "baseline": _baseline(), "input": given}
        recorder = Recorder(self._log, blobs, State(hash=GENESIS), 0, self.lab.clock, self.lab.ids, Redactor({}))
        recorder.commit((Draft("session_started", payload),))

    def _stored(self, data: dict[str, Any]) -> dict[str, Any]:
        raw = canonical(data)
        if len(raw) <= INLINE:
            return data
        return {"$blob": self.lab.store.blobs.put(raw.encode()), "$bytes": len(raw.encode()), "$preview": raw[:1024]}

    def _check(self) -> None:
        first = next(iter(self._log.replay(1, 1)), None)
        if first is None:
            self._begin()
            return
        known = first.payload["input"].get("plan_digest")
        if known == self.plan.digest:
            return
        if known is None:
            raise UserError(f"session {self.session_id!r} is no experiment: give this one another name")
        before = resolve(dict(first.payload["input"]), self.lab.store.blobs.get)["plan"]
        now = self.plan.to_json()
        differing = [key for key in now if now[key] != before.get(key)]
        raise UserError(
            f"{self.session_id!r} is another experiment: {', '.join(differing)} differ from what was recorded; give this one"
            " another name, or none"
        )


def begun_with(lab: Any, plan: Plan, name: str | None = None) -> dict[str, Any] | None:
    """What the experiment that a :class:`Recording` would go on with had measured when it began; None where one begins."""
    session_id = name or _unfinished(lab, plan)
    if session_id not in lab.store.sessions():
        return None
    first = next(iter(lab.store.open(session_id).replay(1, 1)), None)
    if first is None or first.payload["input"].get("plan_digest") != plan.digest:
        return None
    found: dict[str, Any] = resolve(dict(first.payload["input"]), lab.store.blobs.get).get("measured", {})
    return found


def _unfinished(lab: Any, plan: Plan) -> str:
    """The id of the unfinished session of an equal plan, else a new one."""
    stem = f"{plan.kind}-{plan.subject}-{plan.digest.rpartition(':')[2][:8]}"
    number = 0
    taken = set(lab.store.sessions())
    while (name := f"{stem}-{number + 1}") in taken:
        number += 1
    if number:
        newest = f"{stem}-{number}"
        state = load(lab.store.open(newest), lab.store.blobs).state
        if state.control.status != "ended":
            return newest
    return name


def _baseline() -> dict[str, Any]:
    return {"agentlab": __version__}


def source_digest(function: Any) -> str:
    """Digest of a function's source, so that a changed one is another experiment; of its name where there is none."""
    import inspect

    try:
        return digest(inspect.getsource(function))
    except (OSError, TypeError):
        return digest(str(getattr(function, "__qualname__", function)))
