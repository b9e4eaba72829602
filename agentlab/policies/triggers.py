"""The triggers: each a pure function of :class:`Facts` and its own arguments that gives a reason, or None.

Times are seconds. Every trigger needs at least one event since the newest checkpoint before it asks for another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from agentlab import interval
from agentlab.policies.facts import Facts

Trigger = Callable[[Facts, Mapping[str, Any]], str | None]

PRIOR_MTBF_S = 3600.0
"""Mean time between failures that is assumed before any was seen; it weighs as much as one crash."""
PRIOR_COST_S = 0.05
"""Cost of a checkpoint that is assumed before the first one was written."""
BUDGET_THRESHOLDS = (0.5, 0.8, 0.95)
DEADLINE_MARGIN = 0.01
"""Part of the time up to a deadline that is kept free before it, besides twice the cost of a checkpoint."""


def _never(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return None


def _every_events(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return f"every {args['n']} events" if facts.events >= args["n"] else None


def _every_steps(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return f"every {args['n']} steps" if facts.steps >= args["n"] else None


def _seconds(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return f"every {args['t']} s" if facts.seconds >= args["t"] and facts.events > 0 else None


def _milestones(facts: Facts, args: Mapping[str, Any]) -> str | None:
    if facts.milestone:
        return "milestone"
    return "large result" if facts.large_result else None


def _before_effect(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return "before effect" if facts.effect_next and facts.events > 0 else None


def _after_effect(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return "after effect" if facts.effects > 0 and facts.events > 0 else None


def _on_pause(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return "pause" if facts.pausing and facts.events > 0 else None


def _budget(facts: Facts, args: Mapping[str, Any]) -> str | None:
    passed = [t for t in args.get("thresholds", BUDGET_THRESHOLDS) if facts.budget_before < t <= facts.budget_used]
    if passed and facts.events > 0:
        return f"{100 * max(passed):g} % of the budget used"
    return "budget alert" if facts.budget_alert and facts.events > 0 else None


def _unsnapshotted(facts: Facts, args: Mapping[str, Any]) -> str | None:
    size = args.get("bytes")
    count = args.get("n") if size is not None else args["n"]
    if facts.events <= 0:  # the sandbox may be lost: a checkpoint just written took no snapshot
        return None
    if size is not None and facts.unsnapshotted_bytes >= size:
        return f"{facts.unsnapshotted_bytes} bytes not in a snapshot"
    if count is not None and facts.unsnapshotted >= count:
        return f"{facts.unsnapshotted} commands not in a snapshot"
    return None


def measured_mtbf(facts: Facts, args: Mapping[str, Any]) -> float:
    """Mean time between failures: ``mtbf_s`` if given, else running time and crashes, each with one prior crash added.

    The prior (one crash in ``prior_mtbf_s``) keeps a session that never crashed, or crashed at once, at a finite and
    positive number: the mean of a Gamma posterior over the failure rate, inverted.
    """
    given = args.get("mtbf_s")
    if given is not None:
        return float(given)
    prior = float(args.get("prior_mtbf_s", PRIOR_MTBF_S))
    return (prior + facts.running_s) / (1 + facts.crashes)


def measured_cost(facts: Facts, args: Mapping[str, Any]) -> float:
    """Cost of a checkpoint: ``cost_s`` if given, else the measured one, else a prior."""
    given = args.get("cost_s")
    if given is not None:
        return float(given)
    return facts.checkpoint_cost_s if facts.checkpoint_cost_s > 0 else PRIOR_COST_S


def _interval(method: interval.Method, facts: Facts, args: Mapping[str, Any]) -> str | None:
    if facts.events <= 0:
        return None
    cost, mtbf = measured_cost(facts, args), measured_mtbf(facts, args)
    found = interval.recommend(cost, mtbf, method=method, work=args.get("work_s"))
    if facts.seconds < found.tau:
        return None
    clamp = "; a checkpoint costs more than it saves" if found.clamped else ""
    return f"{method} interval {found.tau:.4g} s (cost {cost:.3g} s, failures every {mtbf:.4g} s{clamp})"


def _young(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return _interval("young", facts, args)


def _daly(facts: Facts, args: Mapping[str, Any]) -> str | None:
    return _interval("daly", facts, args)


def deadline_margin(facts: Facts, args: Mapping[str, Any]) -> float:
    """Seconds before the deadline at which a checkpoint is due: ``margin_s``, or twice its cost and 1 % of the time."""
    given = args.get("margin_s")
    if given is not None:
        return float(given)
    return 2 * facts.checkpoint_cost_s + DEADLINE_MARGIN * float(args.get("period_s") or args["at_s"])


def _deadline(facts: Facts, args: Mapping[str, Any]) -> str | None:
    """Due once per deadline: when its margin has begun and the newest checkpoint is older than that."""
    if facts.events <= 0:
        return None
    now = facts.awake_s if args.get("since") == "wake" else facts.running_s
    margin = deadline_margin(facts, args)
    period = args.get("period_s")
    deadline = float(args["at_s"]) if period is None else period * max(1, math.floor((now + margin) / period))
    begins = deadline - margin
    return f"deadline at {deadline:g} s" if now - facts.seconds < begins <= now else None


TRIGGERS: dict[str, Trigger] = {
    "never": _never,
    "every_events": _every_events,
    "every_steps": _every_steps,
    "seconds": _seconds,
    "milestones": _milestones,
    "before_effect": _before_effect,
    "after_effect": _after_effect,
    "on_pause": _on_pause,
    "budget": _budget,
    "unsnapshotted": _unsnapshotted,
    "young": _young,
    "daly": _daly,
    "deadline": _deadline,
}
