"""context, guard: what the model sees, and what repeats; with evidence."""

from __future__ import annotations

from dataclasses import dataclass

from agentlab.lab import Session
from agentlab.lab.contextual import ContextReport
from agentlab.lab.guarding import GuardReport
from agentlab.notebook.display import Shown
from agentlab.notebook.registry import Request, verb
from agentlab.notebook.verbs.stepping import session_argument


@dataclass(frozen=True, repr=False)
class ContextView(Shown):
    """The context of a session as of the moment of asking; ``report`` holds the numbers."""

    session: Session
    report: ContextReport

    def text(self) -> str:
        """The report as text tables."""
        return str(self.report)

    def html(self) -> str:
        """The report as HTML tables."""
        return self.report._repr_html_()


@dataclass(frozen=True, repr=False)
class GuardView(Shown):
    """What the guard finds in a session; ``report`` holds findings and evidence."""

    session: Session
    report: GuardReport

    def text(self) -> str:
        """The report as text tables."""
        return str(self.report)

    def html(self) -> str:
        """The report as HTML tables."""
        return self.report._repr_html_()


@verb(
    "context", "layers and sizes of what the model sees, what was dropped, what is pinned", arguments=session_argument
)
def context(request: Request) -> ContextView:
    """The context now."""
    session = request.place.session(request.options.session)
    return ContextView(session, session.context())


@verb("guard", "what repeats, with the calls that prove it", arguments=session_argument)
def guard(request: Request) -> GuardView:
    """The guard's findings over the whole log."""
    session = request.place.session(request.options.session)
    return GuardView(session, session.guard())
