"""Extensions as people type them: ``extend tokens=20k cost=2.50``."""

from __future__ import annotations

from collections.abc import Sequence

from agentlab.errors import BadDefinition


def extension(words: Sequence[str]) -> dict[str, str]:
    """Dimension to amount, of the words after ``budget``.

    Raises:
        BadDefinition: they do not begin with ``extend``, or one is not ``DIMENSION=AMOUNT``.
    """
    if words[0] != "extend" or len(words) < 2:
        raise BadDefinition(
            f"budget {' '.join(words)!r}: write budget extend DIMENSION=AMOUNT, as in extend tokens=20k"
        )
    return amounts(words[1:])


def amounts(words: Sequence[str]) -> dict[str, str]:
    """Dimension to amount, of words like ``tokens=20k``.

    Raises:
        BadDefinition: one is not ``DIMENSION=AMOUNT``.
    """
    out = {}
    for word in words:
        name, equals, amount = word.partition("=")
        if not equals or not name or not amount:
            raise BadDefinition(f"{word!r}: write DIMENSION=AMOUNT, as in tokens=20k")
        out[name] = amount
    return out
