"""Whether a page was opened or reloaded after a panel was made: what is saved in its notebook is then renewed no more.

The static record is renewed by updates of a display. A page knows the displays of the cells that it ran itself; what it
read from the file it can not update, and a kernel has no other way to a cell's output (JupyterLab 4.6, Notebook 7). So
the panel says so; opened again, it makes a new record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakMethod

_TARGET = "jupyter.widget.control"
"""The comm that a page opens to learn of the widgets that there are already."""
NOTE = (
    "A page was opened or reloaded since this panel was made. It acts and follows as before; the record below it, which"
    " is saved in the notebook, stays as it was. For a new one open the panel again."
)
_watching: list[WeakMethod[Callable[[], None]]] = []
_lock = threading.Lock()
_installed = False


def when_a_page_opens(heard: Callable[[], None]) -> None:
    """Have a method called whenever a page asks for the widgets; it is forgotten with its object."""
    global _installed
    with _lock:
        _watching.append(WeakMethod(heard))
        if not _installed:
            _installed = True
            _install()


def _install() -> None:
    from comm import get_comm_manager
    from ipywidgets import Widget

    def opened(comm: object, message: object) -> None:
        Widget.handle_control_comm_opened(comm, message)
        with _lock:
            _watching[:] = [one for one in _watching if one() is not None]
            watching = [one() for one in _watching]
        for heard in watching:
            if heard is not None:
                heard()

    get_comm_manager().register_target(_TARGET, opened)
