"""What tokens cost. A price that nobody gave is unknown, never zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.ports import Usage

Price = Mapping[str, float]
"""US dollars per million tokens: ``input``, ``output``, ``cache_read``, ``cache_write``."""


PRICES = ("input", "output", "cache_read", "cache_write")
"""What has a price."""


def price_of(prices: Any, *models: str) -> Price | None:
    """The price of the first of ``models`` that the table names, else None: unknown."""
    if not isinstance(prices, Mapping):
        return None
    for model in models:
        price = prices.get(model)
        if isinstance(price, Mapping):
            return price
    return None


def cost_microusd(usage: Usage, price: Price) -> int | None:
    """Millionths of a dollar for ``usage`` under ``price``; None when tokens were used whose price is not in it."""
    counts = {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cache_read": usage.cache_read_tokens,
        "cache_write": usage.cache_write_tokens,
    }
    if any(count and name not in price for name, count in counts.items()):
        return None
    return round(sum(count * price.get(name, 0.0) for name, count in counts.items()))
