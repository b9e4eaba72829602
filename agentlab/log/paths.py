"""Session ids as folder names, and the names of the files of a session.

An id may be any text but the empty one. The name keeps lower-case letters, digits, ``-`` and inner dots; every
other UTF-8 byte becomes ``_`` and two hexadecimal digits, so two ids that differ only in case do not meet on a
file system that ignores it, and nothing looks like ``key=value`` to a reader of Hive partitions. Where that gets
too long (text that is mostly not ASCII), base32 is used instead; the prefix tells which.
"""

from __future__ import annotations

import base64
import binascii
import re

from agentlab.errors import BadSessionId

MAX_BYTES = 200
"""Longest folder name of a session; file systems take 255, and temporary names need the rest."""
_READABLE, _DENSE = "s-", "b-"
_KEPT = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-.")
_ESCAPE = re.compile(r"_([0-9a-f]{2})")
SUFFIX = ".parquet"
DIGITS = 12
_FILE = re.compile(r"([0-9]{12,})\.parquet")


def folder_name(session_id: str) -> str:
    """The folder of a session.

    Raises:
        BadSessionId: empty, no text, or longer than a name can carry.
    """
    if not isinstance(session_id, str) or not session_id:
        raise BadSessionId(f"a session id is a text of at least one character, not {session_id!r}")
    raw = session_id.encode("utf-8", "surrogatepass")
    body = "".join(chr(b) if b in _KEPT else f"_{b:02x}" for b in raw)
    if body.endswith("."):  # some file systems drop a dot at the end
        body = body[:-1] + "_2e"
    if len(body) + 2 <= MAX_BYTES:
        return _READABLE + body
    dense = base64.b32encode(raw).decode().rstrip("=").lower()
    if len(dense) + 2 <= MAX_BYTES:
        return _DENSE + dense
    raise BadSessionId(
        f"session id {session_id[:40]!r}… has {len(raw)} bytes, too many for a folder name: use a shorter one (up to"
        f" {(MAX_BYTES - 2) * 5 // 8} bytes always fit)"
    )


def session_id_of(name: str) -> str | None:
    """The session whose folder is called ``name``; None when that is no session's folder."""
    prefix, body = name[:2], name[2:]
    try:
        if prefix == _READABLE:
            raw = _ESCAPE.sub(lambda m: chr(int(m.group(1), 16)), body).encode("latin-1")
        elif prefix == _DENSE:
            raw = base64.b32decode(body.upper() + "=" * (-len(body) % 8))
        else:
            return None
        session_id = raw.decode("utf-8", "surrogatepass")
        return session_id if folder_name(session_id) == name else None
    except (UnicodeError, binascii.Error, BadSessionId):
        return None


def file_name(start_seq: int) -> str:
    """The name of a commit or segment that begins at ``start_seq``; names sort like numbers up to 10**12."""
    return f"{start_seq:0{DIGITS}d}{SUFFIX}"


def start_of(name: str) -> int | None:
    """The seq at which the file ``name`` begins; None when it is no log file (a temporary one, say)."""
    match = _FILE.fullmatch(name)
    return int(match.group(1)) if match else None
