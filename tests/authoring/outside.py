"""A module that other processes import: tools by dotted name."""

from __future__ import annotations

from typing import Any

import agentlab as al


def plain(n: int) -> int:
    """Add one.

    Args:
        n: a number.
    """
    return n + 1


@al.tool(effect="pure", name="marked")
def decorated(n: int) -> int:
    """Add two."""
    return n + 2


class Group:
    @staticmethod
    def inside(n: int) -> int:
        return n + 3

    def bound(self, n: int) -> int:
        return n + 4


def policy(view: Any) -> Any:
    return al.say("from outside")


def make(more: int) -> Any:
    def inner(n: int) -> int:
        return n + more

    return inner


bound = Group().bound
