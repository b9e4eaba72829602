"""Sessions as the harness would write them, told event by event, for tests of queries, frames and plots."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from agentlab.events import Draft, Event, Head, seal
from agentlab.events.event import GENESIS
from agentlab.log import ParquetStore

START_US = 1_700_000_000_000_000
LIMITS = {"input_tokens": 60_000, "cost_microusd": 400_000, "tool_calls": 80, "tool_calls_by_tool": {"send": 2}}


class Story:
    """Writes one session. Every call of a method is one commit; ``events`` are all rows so far."""

    def __init__(
        self,
        store: ParquetStore,
        session_id: str,
        *,
        task: str = "report",
        limits: Mapping[str, Any] = LIMITS,
        seed: int = 1,
        batch: bool = False,
        sandbox: bool = False,
        start_us: int = START_US,
    ) -> None:
        self.log = store.create(session_id, "process")
        self.session_id, self.rng = session_id, random.Random(seed)
        self.head, self.now_us, self.incarnation = Head(0, GENESIS), start_us, 0
        self.events: list[Event] = []
        self.step, self.turns, self.scratch = 0, 0, 300
        self._batch: list[Event] | None = [] if batch else None
        definition = {"task": task, "model": "scripted:story"}
        self.add(
            Draft(
                "session_started",
                {
                    "definition": definition,
                    "baseline": {},
                    "input": {"task": task, "goal": "g"},
                    "limits": dict(limits),
                },
            )
        )
        self.wake("start")
        self.add(Draft("attempt_started", {"attempt": 1}, attempt=1))
        ready = {"sandbox_id": "sb", "record": {}, "resources": {}, "generation": 1}
        if sandbox:
            self.add(Draft("sandbox_ready", ready, duration_ms=40.0), after_ms=40.0)

    def add(self, *drafts: Draft, after_ms: float = 2.0) -> tuple[Event, ...]:
        """Append drafts as one commit, ``after_ms`` after the one before."""
        self.now_us += round(after_ms * 1000)
        events = seal(
            drafts,
            self.head,
            session_id=self.session_id,
            incarnation=self.incarnation,
            commit_id=f"k{self.head.seq}",
            now_us=self.now_us,
        )
        self.head = Head(events[-1].seq, events[-1].hash)
        self.events += events
        if self._batch is None:
            self.log.append(events, events[0].seq)
        else:
            self._batch += events
        return events

    def flush(self) -> None:
        """With ``batch``: write all held events as one segment."""
        from pathlib import Path

        from agentlab.events.codec import encode
        from agentlab.log.paths import file_name

        assert self._batch is not None
        Path(self.log.folder, "segments", file_name(1)).write_bytes(encode(self._batch, sealed=True))

    def wake(self, reason: str, cursor: int = 0, checkpoint_seq: int | None = None, after_ms: float = 150.0) -> None:
        self.incarnation += 1
        payload: dict[str, Any] = {"process": {}, "baseline": {}, "reason": reason, "cursor": cursor}
        if checkpoint_seq:
            payload["checkpoint_seq"] = checkpoint_seq
        self.add(Draft("harness_woken", payload), after_ms=after_ms)

    def begin_step(self) -> None:
        self.step += 1
        self.add(Draft("step_started", {"step_id": f"s{self.step}", "kind": "work"}, step=self.step, attempt=1))

    def end_step(self) -> None:
        done = {"step_id": f"s{self.step}", "summary": "done"}
        self.add(Draft("step_completed", done, step=self.step, attempt=1))

    @property
    def _where(self) -> dict[str, Any]:
        return {"step": self.step or None, "attempt": 1}

    def ask(self, purpose: str = "act", answered: bool = True, tokens: int | None = None) -> int:
        """A model call; the seq of its request."""
        estimate = 500 + self.scratch
        request = f"r{self.head.seq}"
        scratch = {"blocks": self.turns, "tokens": self.scratch, "dropped": 0}
        layers = {"fixed": {"system": "x", "tools": 3}, "task": {"digest": "y", "anchors": 1}, "scratch": scratch}
        reserved = {"input_tokens": estimate, "output_tokens": 500}
        asked = {
            "request_id": request,
            "purpose": purpose,
            "layers": layers,
            "tokens_estimate": estimate,
            "digest": "z",
            "reserved": reserved,
        }
        (event,) = self.add(Draft("model_request", asked, model="story", **self._where))
        if answered:
            took = self.rng.lognormvariate(6.5, 0.4)
            used = tokens if tokens is not None else round(estimate * self.rng.uniform(0.8, 1.1))
            said = {"request_id": request, "purpose": purpose, "content": [], "stop_reason": "tool_use"}
            self.add(
                Draft(
                    "model_response",
                    {**said, "tool_calls": [f"c{event.seq}.1"] if purpose == "act" else []},
                    duration_ms=took,
                    model="story",
                    input_tokens=used,
                    output_tokens=60,
                    cache_read_tokens=100,
                    cost_microusd=used * 3 + 900,
                    parent_seq=event.seq,
                    **self._where,
                ),
                after_ms=took,
            )
            if purpose == "act":
                self.turns += 1
                self.scratch += 60
        return event.seq

    def request(self, tool: str, value: Any = 0, effect: str = "pure") -> tuple[str, dict[str, Any], int]:
        """Ask the model and register the call it wants; call id, common columns, seq."""
        call_id = f"c{self.ask()}.1"
        place = {"tool_name": tool, "call_id": call_id, "input_hash": f"sha256:{tool}{value}", **self._where}
        decided = Draft("decision", {"action": tool, "why": "it is next", "last_result": "ok"}, **self._where)
        asked = {"call_id": call_id, "tool": tool, "input": {"value": value}, "effect": effect}
        *_, event = self.add(decided, Draft("tool_requested", asked, **place))
        return call_id, place, event.seq

    def call(self, tool: str, value: Any = 0, error: str | None = None, ms: float | None = None, **extra: Any) -> str:
        """A whole turn with one call."""
        call_id, place, _ = self.request(tool, value)
        took = self.rng.lognormvariate(5.0 + len(tool) / 6, 0.7) if ms is None else ms
        if error is None:
            result = {"call_id": call_id, "tool": tool, "output": "fine", **extra}
            self.add(Draft("tool_result", result, duration_ms=took, **place), after_ms=took)
        else:
            failed = {"call_id": call_id, "tool": tool, "message": f"{error}: no", "kind": "raised", **extra}
            said = {"type": error, "message": "no"}
            self.add(
                Draft("tool_error", failed, error=said, error_type=error, duration_ms=took, **place), after_ms=took
            )
        return call_id

    def effect(self, tool: str = "send", value: Any = 0, outcome: str = "completed") -> str:
        """An external effect; ``outcome`` completed, pending, in_doubt, failed; its key."""
        call_id, place, seq = self.request(tool, value, "external")
        key = f"{self.session_id}#{seq}"
        common = {"key": key, "call_id": call_id, "tool": tool}
        place["effect_key"] = key
        self.add(Draft("effect_pending", {**common, "input_hash": place["input_hash"], "try": 1}, **place))
        if outcome == "completed":
            self.complete(common, place)
        elif outcome == "failed":
            self.add(Draft("effect_failed", {**common, "reason": "refused"}, **place))
        elif outcome == "in_doubt":
            self.add(Draft("effect_in_doubt", {**common, "reason": "nobody knows"}, **place))
        self.pending = (common, place)
        return key

    def complete(self, common: Mapping[str, Any], place: dict[str, Any], ms: float = 80.0) -> None:
        result = {"call_id": common["call_id"], "tool": common["tool"], "output": {"id": 1}}
        self.add(
            Draft("effect_completed", dict(common), **place),
            Draft("tool_result", result, duration_ms=ms, **place),
            after_ms=ms,
        )

    def verify(self, outcome: str = "completed") -> None:
        """The pending effect is looked at after a crash."""
        common, place = self.pending
        following = "record" if outcome == "completed" else "retry"
        self.add(Draft("effect_verified", {**common, "outcome": outcome, "evidence": "e", "next": following}, **place))
        if outcome == "completed":
            self.complete(common, place)

    def checkpoint(self, reason: str = "milestone", ms: float = 4.0) -> int:
        snapshot = Draft(
            "snapshot_taken",
            {"digest": "d", "files": 2, "bytes": 5000, "new_bytes": 700, "last_exec_id": "x"},
            duration_ms=1.5,
        )
        seq = self.head.seq + 1
        written = {
            "checkpoint_id": f"{self.session_id}@{seq}",
            "schema_version": 1,
            "cursor": seq,
            "cursor_hash": "h",
            "state": "b",
            "reason": reason,
            "size_bytes": 6000,
            "scheme": "hybrid",
            "snapshot": "d",
        }
        self.add(snapshot, Draft("checkpoint_written", written, duration_ms=ms, step=self.step or None), after_ms=ms)
        self.newest = (seq + 1, seq)
        return seq + 1

    def crash(
        self, point: str = "harness@tool_result", lost_steps: int = 0, verify: str = "", cut: bool = False
    ) -> None:
        """A harness dies; the next one recovers (or, with ``cut``, dies as well before it is through)."""
        died_us = self.now_us
        self.incarnation += 1  # the notice is written by the next incarnation
        self.add(Draft("harness_died", {"id": f"d{self.head.seq}", "incarnation": 1, "pid": 1}), after_ms=180.0)
        self.incarnation -= 1
        checkpoint, cursor = getattr(self, "newest", (None, 0))
        self.wake("crash", cursor, checkpoint, after_ms=0.0)
        mark = {"id": f"f{self.head.seq}", "fault": "f1", "target": "harness", "action": "kill", "point": point}
        self.add(Draft("fault_injected", mark), after_ms=0.0)
        self.add(
            Draft("recovery_started", {"cause": "crash", "plan": []}),
            Draft("recovery_step", {"step": "load", "outcome": "done"}),
            after_ms=12.0,
        )
        if cut:
            return
        self.add(Draft("sandbox_attached", {"sandbox_id": "sb", "finished": []}), after_ms=20.0)
        self.add(Draft("recovery_step", {"step": "rebuild", "outcome": "done"}), after_ms=5.0)
        if verify:
            self.verify(verify)
        self.add(Draft("recovery_step", {"step": "verify", "outcome": "done"}), after_ms=30.0)
        self.ask("statement")
        self.add(
            Draft("statement_checked", {"passed": True, "corrections": []}),
            Draft("recovery_step", {"step": "statement", "outcome": "done"}),
            Draft("recovery_completed", {"lost_steps": lost_steps, "redone": []}),
        )
        assert self.now_us > died_us

    def lose_sandbox(self, again: int = 2) -> None:
        mark = {
            "id": f"f{self.head.seq}",
            "fault": "f2",
            "target": "sandbox",
            "action": "kill",
            "point": "sandbox@step=2",
        }
        self.add(Draft("fault_injected", mark))
        gone = {"type": "SandboxGone", "message": "gone"}
        self.add(
            Draft(
                "sandbox_lost",
                {"sandbox_id": "sb", "reason": "gone", "unsaved": again},
                error=gone,
                error_type="SandboxGone",
            )
        )
        self.add(
            Draft(
                "sandbox_ready", {"sandbox_id": "sb", "record": {}, "resources": {}, "generation": 2}, duration_ms=40.0
            ),
            after_ms=40.0,
        )
        reruns = [
            Draft("execution_rerun", {"call_id": f"c{i}", "exec_id": "x", "same": True}, duration_ms=30.0)
            for i in range(again)
        ]
        restored = {"sandbox_id": "sb", "snapshot": "d", "rerun": [], "differs": [], "not_rerun": []}
        self.add(*reruns, Draft("sandbox_restored", restored, duration_ms=70.0), after_ms=70.0)

    def end(self, outcome: str = "completed") -> None:
        said = {"outcome": outcome, "result": {"answer": "done", "reason": ""}, "totals": {}, "steps": {}}
        self.add(Draft("session_ended", said, attempt=1))
