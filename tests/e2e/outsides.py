"""One importable task for each kind of outside, so that the harness's processes find its tools by name.

Every tool does its effect through an adapter of agentlab and then misbehaves as the parameter ``misdeeds`` says: one
word for each execution, counted in a file beside the outside, whoever executes it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import agentlab as al
from agentlab.effects.duckdb_write import duckdb_effect
from agentlab.effects.http import post_with_key, post_without_key
from agentlab.effects.outside import Effect, OutsideError
from agentlab.effects.smtp import smtp_effect
from agentlab.effects.sqlite import sqlite_effect
from agentlab.models.view import View


def _param(name: str) -> str:
    return str(al.task_params()[name])


def http_key() -> Effect:
    url = _param("url")
    return post_with_key(f"{url}/notify", f"{url}/effects/{{key}}", result_field="id")


def http_nokey() -> Effect:
    url = _param("url")
    return post_without_key(f"{url}/notify", f"{url}/ledger", listing_is_complete=True)


def smtp() -> Effect:
    return smtp_effect("127.0.0.1", int(_param("port")), "lab@example.org", _param("maildir"))


INSERT = "INSERT INTO orders(item) VALUES ({}item)"


def sqlite() -> Effect:
    return sqlite_effect(_param("database"), INSERT.format(":"))


def duckdb() -> Effect:
    return duckdb_effect(_param("database"), INSERT.format("$"))


def _misbehaving(effect: Effect, arguments: dict[str, Any], key: str) -> Any:
    """Do the effect, unless the next misdeed says that it fails before, or that its reply is lost."""
    folder = Path(_param("folder"))
    misdeeds = _param("misdeeds").split()
    number = len(list(folder.glob("execution-*")))
    (folder / f"execution-{number}-{os.getpid()}").touch()
    misdeed = misdeeds[number] if number < len(misdeeds) else ""
    if misdeed == "refuse":
        raise OutsideError("refused before anything happened")
    result = effect.run(**arguments, idempotency_key=key)
    if misdeed == "lose":
        raise TimeoutError("the reply was lost")
    return result


def send_http_key(idempotency_key: str = "") -> Any:
    """Post with a key."""
    return _misbehaving(http_key(), {"body": {"item": "book"}}, idempotency_key)


def sent_http_key(key: str) -> dict[str, Any]:
    return http_key().verify(key)


def send_http_nokey(idempotency_key: str = "") -> Any:
    """Post to an outside that honours no keys."""
    return _misbehaving(http_nokey(), {"body": {"item": "book"}}, idempotency_key)


def sent_http_nokey(key: str) -> dict[str, Any]:
    return http_nokey().verify(key)


def send_smtp(idempotency_key: str = "") -> Any:
    """Send a mail."""
    arguments = {"to": "you@example.org", "subject": "order", "text": "one book"}
    return _misbehaving(smtp(), arguments, idempotency_key)


def sent_smtp(key: str) -> dict[str, Any]:
    return smtp().verify(key)


def send_sqlite(idempotency_key: str = "") -> Any:
    """Write a row."""
    return _misbehaving(sqlite(), {"parameters": {"item": "book"}}, idempotency_key)


def sent_sqlite(key: str) -> dict[str, Any]:
    return sqlite().verify(key)


def send_duckdb(idempotency_key: str = "") -> Any:
    """Write a row."""
    return _misbehaving(duckdb(), {"parameters": {"item": "book"}}, idempotency_key)


def sent_duckdb(key: str) -> dict[str, Any]:
    return duckdb().verify(key)


ADAPTERS = {
    "http_key": (send_http_key, sent_http_key, True),
    "http_nokey": (send_http_nokey, sent_http_nokey, False),
    "smtp": (send_smtp, sent_smtp, False),
    "sqlite": (send_sqlite, sent_sqlite, True),
    "duckdb": (send_duckdb, sent_duckdb, True),
}


def orders(view: View) -> Any:
    """Orders once, and says so."""
    if view.status.get("step") is None:
        return al.say("ordered")
    (tool,) = (name for name in view.tools if name.startswith("send_"))
    return [al.say("ordering"), al.call(tool)]


def task(adapter: str, **params: Any) -> al.Task:
    """The task that has one effect, through ``adapter``. Three retries are allowed."""
    send, sent, honours_key = ADAPTERS[adapter]
    tool = al.tool(send, effect="external", verify=sent, honours_key=honours_key, retries=3, timeout_s=120.0)
    return al.Task(
        name=adapter, goal="Order one book, once.", tools=[tool], steps=[al.step("order", tool=send.__name__)],
        model=orders, params={"misdeeds": "", **params},
    )  # fmt: skip
