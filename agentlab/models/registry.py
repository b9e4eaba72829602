"""Models by name: ``scripted:package.module:function``, ``anthropic:MODEL``, ``claude-…``, or a registered kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agentlab.clock import Clock
from agentlab.errors import BadDefinition, UnknownName
from agentlab.ports import Model


class Factory(Protocol):
    """Makes a model from what follows the colon in its name.

    Raises:
        UserError: the name or a parameter makes no sense; the message says which.
    """

    def __call__(
        self,
        rest: str,
        *,
        api_key: str | None,
        base_url: str | None,
        params: Mapping[str, Any],
        clock: Clock | None,
    ) -> Model: ...


_factories: dict[str, Factory] = {}


def register(prefix: str, factory: Factory) -> None:
    """Let ``factory`` make the models whose name begins with ``prefix`` and a colon; the newest registration counts.

    Raises:
        ValueError: a prefix that is empty or holds a colon.
    """
    if not prefix or ":" in prefix:
        raise ValueError(f"a model prefix is a word without a colon, not {prefix!r}")
    _factories[prefix] = factory


def resolve(
    name: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    params: Mapping[str, Any] | None = None,
    clock: Clock | None = None,
) -> Model:
    """The model called ``name``. Nothing is sent, no client library is loaded, and a missing key is not noticed yet.

    Raises:
        UnknownName: no such kind of model, or no such policy (near matches in the message).
        BadDefinition: a parameter that this kind of model does not have.
    """
    prefix, colon, rest = name.partition(":")
    if not colon and name.startswith("claude-"):
        prefix, rest = "anthropic", name
    factory = _factories.get(prefix)
    if factory is None or not rest:
        raise UnknownName("model", name, _examples(prefix, rest or name))
    return factory(rest, api_key=api_key, base_url=base_url, params=params or {}, clock=clock)


def _examples(prefix: str, rest: str) -> list[str]:
    tail = rest if rest != prefix else "MODEL"
    tails = {"scripted": tail if ":" in tail else "package.module:function"}
    return [f"{known}:{tails.get(known, tail)}" for known in _factories]


def _scripted(
    rest: str, *, api_key: str | None, base_url: str | None, params: Mapping[str, Any], clock: Clock | None
) -> Model:
    from agentlab.models.scripted import ScriptedModel

    # Parameters of real models mean nothing here, but a task must run on either without being rewritten.
    of_others = {"max_tokens", "temperature", "thinking", "timeout_s", "top_p", "top_k"}
    unknown = sorted(params.keys() - {"latency_s"} - of_others)
    if unknown:
        raise BadDefinition(f"a scripted model has no parameter {unknown[0]!r}; it takes latency_s (seconds)")
    return ScriptedModel(rest, latency_s=float(params.get("latency_s", 0.0)), clock=clock)


def _anthropic(
    rest: str, *, api_key: str | None, base_url: str | None, params: Mapping[str, Any], clock: Clock | None
) -> Model:
    from agentlab.models.anthropic import AnthropicModel

    options = dict(params)
    named = {key: options.pop(key) for key in ("max_tokens", "temperature", "thinking", "timeout_s") if key in options}
    return AnthropicModel(rest, api_key=api_key, base_url=base_url, options=options, clock=clock, **named)


def _recorded(
    rest: str, *, api_key: str | None, base_url: str | None, params: Mapping[str, Any], clock: Clock | None
) -> Model:
    raise BadDefinition(f"recorded:{rest} is found through the lab that holds it: give it to a task, a fork or a wake")


register("scripted", _scripted)
register("recorded", _recorded)
register("anthropic", _anthropic)
