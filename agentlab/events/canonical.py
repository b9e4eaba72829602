"""Canonical JSON: one text for one value, so that equal inputs have equal hashes.

Sorted keys, no insignificant space, no NaN, integers exact. Text is UTF-8 as it stands; only what UTF-8 can
not carry (lone surrogates) and control characters are escaped, so every ``str`` comes back as it went in,
except that a high and a low surrogate standing side by side become the one character they encode.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentlab.errors import PayloadError

Json = Any
"""A JSON value: None, bool, int, float, str, list of Json, dict of str to Json."""

MAX_DEPTH = 100
_MAX_INT_BITS = 14_000  # Python refuses to read back integers of more than 4,300 digits
_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_encoder = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False, check_circular=False
)


def _encode_slowly(value: Json) -> str:
    return _encoder.encode(value)


def _fast_encoder() -> Callable[[Json], str]:
    # JSONEncoder makes its C encoder anew for each value, which costs more than encoding a small one.
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _encode_slowly
    encode = make(None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    return lambda value: "".join(encode(value, 0))


_encode = _fast_encoder()


def canonical(value: Json) -> str:
    """The canonical JSON text of ``value``.

    Raises:
        PayloadError: a value that JSON can not carry (NaN, bytes, a cycle, a foreign object); pass it
            through :func:`plain` first.
    """
    try:
        text = _encode(value)
    except RecursionError:
        raise PayloadError("the value is nested too deeply for JSON; flatten it or pass it through plain()") from None
    except (TypeError, ValueError) as error:
        raise PayloadError(f"not a JSON value: {error}; pass it through plain() first") from None
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            text = _PAIR.sub(_joined, text)
            text = _SURROGATE.sub(lambda m: f"\\u{ord(m.group()):04x}", text)
    return text


class Fixed(dict[str, Any]):
    """A JSON object that nobody changes any more: its canonical text and digest are computed once."""

    __slots__ = ("_digest", "_text")

    @property
    def text(self) -> str:
        """The canonical JSON."""
        try:
            return self._text
        except AttributeError:
            self._text: str = canonical(self)
            return self._text

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON, 64 hexadecimal digits."""
        try:
            return self._digest
        except AttributeError:
            self._digest: str = hashlib.sha256(self.text.encode()).hexdigest()
            return self._digest


class FixedList(list[Fixed]):
    """A list of fixed objects that nobody changes any more: the digests of its members are gathered once."""

    __slots__ = ("_digests", "_memo")

    @property
    def memo(self) -> dict[Any, Any]:
        """A place for what is computed of the members once."""
        try:
            return self._memo
        except AttributeError:
            self._memo: dict[Any, Any] = {}
            return self._memo

    @property
    def digests(self) -> list[str]:
        """The digest of each member."""
        try:
            return self._digests
        except AttributeError:
            self._digests: list[str] = [block.digest for block in self]
            return self._digests


def parse(text: str) -> Json:
    """The value of a JSON text written by :func:`canonical`.

    Raises:
        PayloadError: the text is not JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"not JSON: {error}") from None


def readable(text: str) -> str:
    """``text`` with lone surrogates as backslash escapes (``\\udcff``): as queries, frames and displays have it."""
    return text.encode("utf-8", "backslashreplace").decode()


def digest(text: str) -> str:
    """``sha256:`` and the hexadecimal SHA-256 of ``text``, half a surrogate pair included."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def input_hash(tool_name: str, value: Json) -> str:
    """The hash that identifies a call: tool name and canonical input, independent of key order."""
    return digest(canonical([tool_name, value]))


def plain(value: Any, _depth: int = 0) -> Json:
    """Any Python value as JSON that :func:`canonical` accepts; what JSON lacks becomes a marked dict.

    Bytes become ``{"$bytes": base64}``, NaN and infinities ``{"$float": "nan"}``, sets sorted lists, dates ISO
    text, foreign objects ``{"$repr": …}``; keys that begin with ``$`` are doubled so that they can not be
    mistaken for a marker.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_INT_BITS else {"$int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if _depth >= MAX_DEPTH:
        return {"$repr": f"nested deeper than {MAX_DEPTH} levels"}
    if isinstance(value, Mapping):
        return {_key(k): plain(v, _depth + 1) for k, v in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain(v, _depth + 1) for v in value), key=canonical)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Sequence):
        return [plain(v, _depth + 1) for v in value]
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    return _foreign(value, _depth)


def _foreign(value: Any, depth: int) -> Json:
    for name in ("tolist", "item"):  # NumPy arrays and scalars, without importing NumPy
        convert = getattr(value, name, None)
        if callable(convert) and type(value).__module__.partition(".")[0] == "numpy":
            return plain(convert(), depth + 1)
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__}: repr failed: {type(error).__name__}>"
    return {"$repr": text[:2000]}


def _key(key: Any) -> str:
    text = key if isinstance(key, str) else str(key)
    return "$" + text if text.startswith("$") else text


def _joined(match: re.Match[str]) -> str:
    return match.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
