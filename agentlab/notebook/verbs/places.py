"""lab and where: which folder, which session, and what to do now."""

from __future__ import annotations

import argparse

from agentlab.notebook.registry import Request, verb
from agentlab.notebook.views import LabView, StatusView


def _lab_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", help="a folder; it need not exist yet")


@verb("lab", "choose the folder where sessions live (./lab without it)", "%agent lab ./lab", _lab_arguments)
def lab(request: Request) -> LabView:
    """Take a lab in hand, or say which one is."""
    if request.options.path is not None:
        request.place.go(request.options.path)
    chosen = request.place.lab
    return LabView(chosen, len(chosen.store.sessions()))


@verb("where", "the lab and session in hand, and what can be done next", "%agent")
def where(request: Request) -> LabView:
    """Say where the notebook is. Changes nothing."""
    chosen = request.place.lab
    count = len(chosen.store.sessions())
    return LabView(chosen, count, StatusView.of(request.place.session()) if count else None)
