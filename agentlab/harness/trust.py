"""A lab is data: pickled code of another owner runs only when somebody says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentlab.errors import NotTrusted
from agentlab.ports import Blobs


def require_trust(given: Mapping[str, Any], blobs: Blobs, trust: bool) -> str | None:
    """The digest of the session's pickled code, None when it has none.

    Raises:
        NotTrusted: the code was not pickled by this user and ``trust`` is False.
    """
    dump = given.get("dump")
    if dump is None:
        return None
    if not trust:
        from agentlab.portable import trusted

        if not trusted(blobs.get(dump), str(given.get("signature", ""))):
            raise NotTrusted(
                "this session's tools are pickled code that another owner made, and waking it would run that code; read it"
                " first, then wake it with trust (%agent wake --trust, agentlab wake --trust, session.wake(trust=True))"
            )
    return str(dump)
