"""What the two sides of a tool host agree on. Standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Any

MAX_REPLY_BYTES = 64 << 20
"""A reply of more bytes of JSON is refused as garbage."""
KEPT_OUTPUT_BYTES = 1 << 20
"""What is kept of each output stream of a call, beginning and end together."""
RESULT_PREFIX = "@@agentlab-result-7f3a9c51e2d84b60@@ "
"""Begins the line that carries the result out of a sandbox."""
SCRATCH_DUMP = "dump"
"""Name of the session's dump in an execution's scratch folder."""
_DIGEST = re.compile("[0-9a-f]{64}")


def to_line(message: Mapping[str, Any]) -> bytes:
    """One JSON line. ASCII, so that lone surrogates get through.

    Raises:
        TypeError, ValueError: not JSON.
    """
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def read_blob(path: str, digest: str) -> bytes:
    """The bytes at ``path``, verified.

    Raises:
        OSError: not there.
        ValueError: not the bytes that ``digest`` names.
    """
    with open(path, "rb") as file:
        data = file.read()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"the dump at {path} is not {digest}: restore the lab's blobs folder")
    return data


def blob_path(root: str, digest: str) -> str:
    """Where a blob is: ``<root>/<first two digits>/<sha256>``.

    Raises:
        ValueError: not a digest (it came from a log and would otherwise be a path of somebody's choice).
    """
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"not a blob digest: {digest[:80]!r}")
    return os.path.join(root, digest[:2], digest)
