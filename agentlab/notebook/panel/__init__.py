"""The panel: drive, kill and watch sessions with widgets. ``al.panel(session)`` or ``%agent panel``.

The panel holds no truth. A thread reads the log and sets traits, at most four times a second; a click hands one
command over and returns. Made anew, after a kernel restart or in a second tab, it shows the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentlab.errors import UserError

if TYPE_CHECKING:
    from agentlab.lab import Session
    from agentlab.notebook.panel.board import Panel

__all__ = ["panel"]


def panel(sessions: Session | str | Iterable[Session | str]) -> Panel:
    """A panel over one session or several side by side; ids are looked up in the notebook's lab.

    It never blocks. Shown live it is a set of widgets with a static record (picture and table) below, which stays in
    the saved notebook; in plain mode (``AGENTLAB_DISPLAY=plain``, chosen in CI) it is the record alone.

    Raises:
        UserError: no session is given, or one that does not exist.
    """
    from agentlab.notebook.panel.board import Panel, opened
    from agentlab.notebook.place import current

    given = [sessions] if isinstance(sessions, str) or not isinstance(sessions, Iterable) else list(sessions)
    if not given:
        raise UserError("which session? pass one, as in al.panel(lab.session('sales_report-1'))")
    found = [current().lab.session(one) if isinstance(one, str) else one for one in given]
    return opened(Panel(list({session.id: session for session in found}.values())))
