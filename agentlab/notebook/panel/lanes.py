"""The lanes of the timeline: which lane an event belongs to, and the sign of each lane that is told without colour."""

from __future__ import annotations

from dataclasses import dataclass

from agentlab.events import Event
from agentlab.lab.lines import MARKS


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline. ``sign`` stands before its name; ``colour`` is Okabe and Ito's, for the record's picture."""

    name: str
    sign: str
    colour: str
    marker: str
    """The shape in the record's picture, as matplotlib names it."""


LANES = (
    Lane("plan", "┌", "#777777", "|"),
    Lane("model", "●", "#0072B2", "o"),
    Lane("tool", "■", "#009E73", "s"),
    Lane("effect", "◆", "#CC79A7", "D"),
    Lane("saved", "▣", "#B07D00", "P"),
    Lane("fault", "✗", "#D55E00", "X"),
    Lane("recovery", "♻", "#2E9CCF", "^"),
)
"""From top to bottom."""

_PLACES = {lane.name: number for number, lane in enumerate(LANES)}
_OF = {
    "model_request": "model", "model_response": "model", "model_error": "model", "decision": "model",
    "tool_requested": "tool", "tool_started": "tool", "tool_result": "tool", "tool_error": "tool", "retry_scheduled": "tool",
    "checkpoint_written": "saved", "checkpoint_skipped": "saved", "snapshot_taken": "saved", "checkpoint_requested": "saved",
    "fault_armed": "fault", "fault_injected": "fault", "harness_died": "fault", "sandbox_lost": "fault",
    "harness_woken": "recovery", "sandbox_ready": "recovery", "sandbox_attached": "recovery", "sandbox_restored": "recovery",
    "execution_rerun": "recovery", "recovery_started": "recovery", "recovery_step": "recovery", "restored_to": "recovery",
    "statement_checked": "recovery", "recovery_completed": "recovery", "restore_requested": "recovery",
}  # fmt: skip
_SIGNS = {
    "model_request": "○", "model_response": "●", "model_error": "!", "decision": "◇", "tool_requested": "□", "tool_result": "■",
    "tool_error": "!", "sandbox_ready": "□", "restored_to": "↶", "fault_armed": "◌", "checkpoint_written": "▣",
    "snapshot_taken": "▫", "recovery_step": "·", "recovery_completed": "✓", "budget_alert": "!", "guard_verdict": "!",
    "recovery_started": "♻", "pause_requested": "‖", "resume_requested": "▸", "user_reply": "»", "budget_extended": "+",
}  # fmt: skip


def lane_of(kind: str) -> int:
    """The number of the lane of a kind of event; what is nobody's is the plan's."""
    if kind.startswith("effect_"):
        return _PLACES["effect"]
    return _PLACES[_OF.get(kind, "plan")]


def sign_of(event: Event) -> str:
    """The sign of an event in the timeline: its shape says what it is."""
    return _SIGNS.get(event.type) or MARKS.get(event.type, "·")
