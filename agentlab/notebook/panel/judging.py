"""Whether a press can act: by the newest look, and where that says no by a fresh one, off the thread that receives clicks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentlab.notebook.panel.allowed import Moment
from agentlab.notebook.panel.deeds import Deeds
from agentlab.notebook.panel.feed import Feed

Say = Callable[[str, bool], None]


class Judge:
    """Judges the presses of one session.

    What the panel knows is up to a beat old. A press that it forbids is told so at once, and the quick line of work looks
    afresh: what has become possible since is done, what is forbidden for another reason by now is told that reason.
    """

    def __init__(self, feed: Feed, quick: Deeds, say: Say, soon: Callable[[], None]) -> None:
        self._feed, self._quick, self._say, self._soon = feed, quick, say, soon

    def press(self, words: str, why_not: Callable[[Moment], str], act: Callable[[], None]) -> None:
        """Have ``act`` called, here or on the quick line's thread, unless ``why_not`` forbids it; then say why.

        ``words`` name what was pressed. ``why_not`` gives an empty string for what can be done.
        """
        before = why_not(self._feed.moment)
        if not before:
            act()
            return
        self._say(f"{words}: {before}", True)

        def looked(now: Any, complaint: str) -> None:
            why = complaint or why_not(now)
            if why and why != before:
                self._say(f"{words}: {why}", True)
            elif not why:
                act()
            if why != before:
                self._soon()

        self._quick.do(lambda session: self._feed.afresh(), looked)
