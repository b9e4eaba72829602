"""Events as lines for a person: a mark one can tell apart without colour, the number, what happened."""

from __future__ import annotations

from agentlab.events import Event, canonical, plain, readable

MARKS = {
    "session_started": "▶", "harness_woken": "☼", "baseline_changed": "≠", "harness_died": "✗", "fault_injected": "⚡",
    "fault_armed": "◌", "plan_set": "≡", "step_started": "┌", "step_completed": "└", "step_validated": "?",
    "task_validated": "?", "attempt_started": "↻", "model_request": "→", "model_response": "←", "model_error": "!",
    "decision": "◇", "tool_requested": "·", "tool_started": "·", "tool_result": "✓", "tool_error": "!",
    "retry_scheduled": "↻", "effect_pending": "◔", "effect_completed": "●", "effect_failed": "○", "effect_verified": "◉",
    "effect_in_doubt": "◍", "sandbox_ready": "□", "sandbox_attached": "□", "sandbox_lost": "✗", "sandbox_restored": "■",
    "execution_rerun": "↻", "snapshot_taken": "▣", "checkpoint_written": "◆", "recovery_started": "♻", "recovery_step": "♻",
    "statement_checked": "♻", "recovery_completed": "♻", "session_paused": "‖", "session_ended": "■", "question_asked": "?",
    "budget_alert": "!", "budget_extended": "+", "budget_refused": "!", "session_queued": "…", "session_admitted": "▸",
    "guard_verdict": "∞", "anchor_set": "⚓", "anchors_full": "⚓", "context_compacted": "⇲", "drift_measured": "↯",
    "restored_to": "⟲", "restore_requested": "⟲", "restore_refused": "⟲",
}  # fmt: skip
"""One mark for each kind that a person looks for; other kinds get a dot."""

SUPERSEDED = "╳"
"""The mark of an event that a later ``restored_to`` set aside, whatever its kind."""

QUIET = frozenset({"model_request", "decision", "tool_requested", "attempt_started", "step_validated", "fault_armed"})
"""Kinds left out of a short timeline."""


def event_line(event: Event, superseded: bool = False) -> str:
    """One line: mark, seq, kind, what. Nothing in it changes from run to run but what the run itself did.

    ``superseded`` marks an event that a return to a checkpoint set aside.
    """
    what = _what(event)
    mark = SUPERSEDED if superseded else MARKS.get(event.type, "·")
    return readable(f"{mark} {event.seq:>4}  {event.type:<18} {what}").rstrip()


def _what(event: Event) -> str:
    p = event.payload
    kind = event.type
    if kind in ("tool_result", "tool_error"):
        return f"{event.tool_name}: {_short(p.get('summary') or p.get('message'))}" + (
            " (reused)" if p.get("reused") else ""
        )
    if kind in ("tool_requested", "tool_started", "retry_scheduled"):
        return f"{event.tool_name or p.get('what', '')}"
    if kind.startswith("effect_"):
        return f"{event.tool_name or ''} {p.get('key', '')} {p.get('outcome', '') or p.get('reason', '')}".strip()
    if kind in ("step_started", "step_completed", "step_validated"):
        return str(p.get("step_id")) + (f": {_short(p['summary'])}" if p.get("summary") else "")
    if kind == "model_response":
        return _short(p.get("text") or ", ".join(p.get("tool_calls") or ()))
    if kind == "decision":
        return f"{p['action']}: {_short(p['why'])}"
    return _other(event)


def _other(event: Event) -> str:
    p = event.payload
    fields = {
        "harness_woken": ("reason",), "harness_died": ("signal", "exit_code"), "fault_injected": ("point",),
        "checkpoint_written": ("reason", "label"), "sandbox_lost": ("unsaved",), "recovery_started": ("cause",),
        "recovery_step": ("step", "outcome"), "statement_checked": ("passed",), "recovery_completed": ("lost_steps",),
        "session_paused": ("reason", "detail"), "session_ended": ("outcome",), "question_asked": ("question",),
        "task_validated": ("satisfied",), "model_error": ("kind", "will_retry"), "baseline_changed": ("fields",),
        "snapshot_taken": ("files",), "session_started": (), "plan_set": ("source",),
        "budget_alert": ("dimension", "used", "limit"), "budget_extended": ("dimension", "limit"),
        "budget_refused": ("dimension", "needed"), "budget_allotted": ("reason",),
        "session_queued": ("place",), "session_admitted": ("place",),
        "restored_to": ("checkpoint_seq", "label", "superseded_to"),
        "restore_requested": ("checkpoint_seq",), "restore_refused": ("reason",),
        "guard_verdict": ("rule", "action"), "anchors_full": ("name",), "drift_measured": ("distance", "threshold"),
        "context_compacted": ("strategy", "tokens_before", "tokens_after"),
    }  # fmt: skip
    if event.type == "session_started":
        return str(p["input"].get("task", ""))
    if event.type == "fault_injected" and not p.get("point"):
        return f"{p['action']} {p['target']} {p['fault']}"
    if event.type == "anchor_set":
        return f"{p['name']} = {_short(p['value'])}" if p["value"] else f"{p['name']} is free"
    if event.type == "sandbox_restored":
        return f"{len(p['rerun'])} commands run again, {len(p['differs'])} differ"
    return ", ".join(
        f"{name} {_short(p[name])}" for name in fields.get(event.type, ()) if p.get(name) not in (None, "")
    )


def _short(value: object) -> str:
    text = value if isinstance(value, str) else canonical(plain(value))
    line = " ".join(text.split())
    return line if len(line) <= 90 else line[:89] + "…"
