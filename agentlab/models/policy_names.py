"""Policies by dotted name: ``package.module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from agentlab.errors import BadDefinition, UnknownName


def load_policy(name: str) -> Callable[..., Any]:
    """The callable that ``package.module:function`` names; the module is imported.

    Raises:
        UnknownName: no such module, or no such function in it (near matches in the message).
        BadDefinition: the name has no colon, the module fails to import, or what is found can not be called.
    """
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path or module_name.startswith("."):
        raise BadDefinition(f"a policy is named package.module:function, not {name!r}")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise UnknownName("policy module", module_name) from None
        raise BadDefinition(f"the policy module {module_name} can not be imported: {error}") from error
    except Exception as error:
        raise BadDefinition(f"the policy module {module_name} can not be imported: {error}") from error
    for part in path.split("."):
        known = [n for n in dir(found) if not n.startswith("_") and callable(getattr(found, n, None))]
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UnknownName(f"policy in {module_name}", path, known) from None
    if not callable(found):
        raise BadDefinition(f"the policy {name} is a {type(found).__name__}; it must be callable with a view")
    result: Callable[..., Any] = found
    return result


def policy_name(policy: Callable[..., Any]) -> str:
    """The dotted name of a callable, or of its class when it has none of its own."""
    owner: Any = policy if hasattr(policy, "__qualname__") else type(policy)
    return f"{owner.__module__}:{owner.__qualname__}"
