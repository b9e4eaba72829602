"""Policies that tests name by dotted name."""

from __future__ import annotations

from typing import Any

from agentlab.models.scripted import call, say
from agentlab.models.view import View


def greet(view: View) -> Any:
    return say("hello")


def fetch_twice(view: View) -> Any:
    return call("fetch", n=len(view.calls("fetch"))) if len(view.calls("fetch")) < 2 else say("done")


NOT_CALLABLE = 3
