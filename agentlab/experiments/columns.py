"""The frame of a comparison: one row per run, the same columns whatever the mode, in this order.

Times are seconds on the clock of the run (the machine's, or the simulated one), money US dollars. Every second of a run
is counted once: ``total_s = work_s + overhead_s + lost_s + redone_s + recovery_s``.
"""

from __future__ import annotations

from collections.abc import Mapping

RUN_COLUMNS: Mapping[str, tuple[str, str]] = {
    "condition": ("string", "name of the condition: the policy, with the scheme where several are compared"),
    "policy": ("string", "checkpoint policy in its short form, as in every=5"),
    "scheme": ("string", "what a recovery rests on: hybrid, events or snapshot"),
    "mode": ("string", "real, simulated or what-if"),
    "seed": ("Int64", "seed of the crashes; equal seeds mean equal crash times for every condition"),
    "completed": ("boolean", "the run ended with the outcome completed"),
    "outcome": ("string", "completed, failed, crash_loop, paused, waiting, timeout, gave_up or error"),
    "total_s": ("float64", "from the task's acceptance to its end; of an unfinished run as far as it went"),
    "work_s": ("float64", "useful work: what the run would have taken without checkpoints and crashes"),
    "overhead_s": ("float64", "spent on writing checkpoints, workspace snapshots included"),
    "lost_s": ("float64", "work and checkpoints in progress when a crash struck, or superseded by going back"),
    "redone_s": ("float64", "spent on doing again what had been done: commands run again, calls asked again"),
    "recovery_s": ("float64", "from each crash to the end of its recovery, without what was lost or redone"),
    "faults": ("Int64", "crashes that struck"),
    "checkpoints": ("Int64", "checkpoints written"),
    "checkpoint_s": ("float64", "mean cost of one checkpoint; missing when none was written"),
    "restart_s": ("float64", "mean recovery time of a crash; missing when none struck"),
    "interval_s": ("float64", "mean useful work between two checkpoints; the whole work when none was written"),
    "mtbf_s": ("float64", "mean time between failures of the process; missing where it has none"),
    "model_calls": ("Int64", "questions answered by the model, recoveries included"),
    "model_calls_repeated": ("Int64", "model calls that a crash cost: asked again, cut, or asked by a recovery"),
    "cost_usd": ("float64", "money spent; missing where the price of an answer is unknown"),
    "cost_repeated_usd": ("float64", "money of the repeated model calls; missing likewise"),
    "commands_repeated": ("Int64", "sandbox commands run again after a loss, or begun again"),
    "bytes_written": ("Int64", "bytes that checkpoints wrote: states and new contents of snapshots"),
    "lost_steps": ("Int64", "plan steps that had to be done again"),
    "session_id": ("string", "the session of the run; empty where none was kept"),
    "error": ("string", "why there is no session to measure; empty otherwise"),
}
"""Name to pandas type and meaning."""

METRICS: Mapping[str, str] = {
    "completed": "runs completed",
    "total_s": "total time",
    "overhead_s": "checkpoint overhead",
    "lost_s": "lost work",
    "redone_s": "redone work",
    "recovery_s": "recovery time",
    "model_calls_repeated": "model calls repeated",
    "cost_repeated_usd": "money repeated",
    "bytes_written": "bytes written",
}
"""What the summary compares, with its name for a person; less is better in all but the first."""
