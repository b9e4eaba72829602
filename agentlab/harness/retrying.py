"""How long to wait before trying again: exponential, with jitter that the request's id decides."""

from __future__ import annotations

import hashlib

from agentlab.definition import Definition
from agentlab.errors import ModelError
from agentlab.session.state import State

BASE_S = 0.5
CAP_S = 60.0


def jitter(identity: str) -> float:
    """A number in [0.5, 1) that is the same for the same identity: spread without randomness."""
    return 0.5 + hashlib.sha256(identity.encode()).digest()[0] / 512


def model_delay(error: ModelError, failures: int, identity: str) -> float:
    """Seconds before the next try; never less than the server asked for."""
    backoff = min(CAP_S, BASE_S * 2.0**failures) * jitter(identity)
    return round(max(backoff, error.retry_after_s or 0.0), 3)


def tool_delay(tries: int, identity: str) -> float:
    """Seconds before a tool is tried again."""
    return round(min(CAP_S, 0.1 * 2.0**tries) * jitter(identity), 3)


def retries_spent(definition: Definition, state: State) -> str:
    """Why nothing is tried again in this session any more; empty while its limit is not reached."""
    limit = definition.limits.session_retries
    if limit is None or sum(stats.retries for stats in state.plan.stats.values()) < limit:
        return ""
    return f"the session's limit of {limit} retries is used up"
