"""Budget: what a session used, has reserved and has at risk, per dimension, as a fold over its events.

Amounts are integers: tokens, calls, millionths of a dollar, milliseconds. A reservation is made before the
spending and settled after it; one that was cut off by a crash stays counted as *at risk* until it is known.
Everything here is pure; pools that sessions share are in :mod:`agentlab.pool`.
"""

from agentlab.budget.alerts import due_alert
from agentlab.budget.dimensions import COUNTS, DIMENSIONS, Amounts, is_count
from agentlab.budget.estimating import estimated, expected_ms, learn, learn_time
from agentlab.budget.pricing import cost_microusd, price_of
from agentlab.budget.quotas import not_before, sent
from agentlab.budget.reserving import cut, extend, known, merged, release, reserve, settle, settled
from agentlab.budget.starting import exhausted, forbids, share
from agentlab.budget.state import BudgetState, amount, from_limits

__all__ = [
    "COUNTS", "DIMENSIONS", "Amounts", "BudgetState", "amount", "cost_microusd", "cut", "due_alert", "estimated",
    "exhausted", "expected_ms", "extend", "forbids", "from_limits", "is_count", "known", "learn", "learn_time", "merged",
    "not_before", "price_of", "release", "reserve", "sent", "settle", "settled", "share",
]  # fmt: skip
