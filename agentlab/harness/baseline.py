"""The baseline: what a run was made with, so that two incarnations can be told apart."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agentlab.definition import Definition
from agentlab.events import EVENT_SCHEMA_VERSION, canonical, digest, plain
from agentlab.session.state import STATE_SCHEMA_VERSION
from agentlab.version import __version__


def baseline(
    definition: Definition, model_params: Mapping[str, Any] | None = None, sources_changed: Sequence[str] = ()
) -> dict[str, Any]:
    """Versions, model and parameters, and digests of system prompt, tools, policies, limits and prices.

    ``sources_changed`` names tools and validators whose source is another one than when the task was accepted.
    """
    return {
        "agentlab": __version__,
        "event_schema": EVENT_SCHEMA_VERSION,
        "checkpoint_schema": STATE_SCHEMA_VERSION,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "model": definition.model,
        "model_params": plain(dict(model_params if model_params is not None else definition.model_params)),
        "base_url": definition.base_url,
        "sources_changed": list(sources_changed),
        "prices": digest(canonical(plain(dict(definition.budget.get("prices") or {})))),
        **definition.digests(),
    }


def budget_field(definition: Definition) -> dict[str, Any]:
    """What ``session_started`` says of the budget beside the limits; nothing where the task says nothing."""
    spec = {k: plain(v) for k, v in definition.budget.items() if k != "prices"}
    return {"budget": spec} if spec else {}


def changed_sources(definition: Definition) -> list[str]:
    """Names of importable callables of a definition whose source has changed since. Reads files, imports nothing."""
    from agentlab.sources import source_changed

    return sorted({str(ref["name"]) for ref in definition.refs() if source_changed(ref)})
