"""A lab is data: what another owner defined (names of functions, pickled code, servers) runs only when somebody says so.

Whoever accepts a task signs its definition with a key of that user. A definition names functions to import, code to
unpickle and servers to send a key to, so all of it is covered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.errors import NotTrusted
from agentlab.events import canonical, resolve
from agentlab.ports import Blobs


def signed_text(definition: Mapping[str, Any], dump: str | None) -> bytes:
    """What a signature covers: the whole definition, and the digest of the dump it goes with."""
    return b"agentlab definition 1\n" + canonical(dict(definition)).encode() + b"\n" + (dump or "").encode()


def require_trust(started: Mapping[str, Any], blobs: Blobs, trust: bool) -> str | None:
    """The digest of the session's pickled code, None when it has none. ``started`` is ``session_started``'s payload.

    Raises:
        NotTrusted: another owner accepted the task and ``trust`` is False.
    """
    given = started["input"]
    dump = given.get("dump")
    if not trust:
        from agentlab.ownership import trusted

        definition = resolve(dict(started["definition"]), blobs.get)
        if not trusted(signed_text(definition, dump), str(given.get("signature", ""))):
            raise NotTrusted(
                "another owner accepted this session's task, and waking it would run the code that its tools name or hold;"
                " read its definition first, then wake it with trust (%agent wake --trust, agentlab wake --trust,"
                " session.wake(trust=True))"
            )
    return None if dump is None else str(dump)
