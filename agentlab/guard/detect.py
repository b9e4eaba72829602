"""The guard over a finished or imported session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agentlab.guard.action import Action, actions_from_events
from agentlab.guard.policy import GuardPolicy
from agentlab.guard.state import Finding, GuardState, observe


def findings(actions: Iterable[Action], policy: GuardPolicy | None = None) -> list[Finding]:
    """Every verdict that the guard would have given, in order. The cap of rounds is left out."""
    policy = policy or GuardPolicy()
    state, found = GuardState(), []
    for action in actions:
        state, finding = observe(state, action, policy)
        if finding:
            found.append(finding)
    return found


def findings_in(
    events: Iterable[Any], policy: GuardPolicy | None = None, tools: Mapping[str, Any] | None = None
) -> list[Finding]:
    """:func:`findings` over the events of a log."""
    return findings(actions_from_events(events, tools), policy)
