"""Whose code is it: dumps are signed with a key of this user, ``owner.key`` in the user's state folder.

A lab is data and travels; unpickling runs code. What another owner pickled is refused until somebody says trust.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from agentlab.errors import UserError

_KEY_BYTES = 32


def state_folder() -> Path:
    """Where this user's key lives: ``AGENTLAB_STATE_DIR``, else ``~/.local/state/agentlab``."""
    given = os.environ.get("AGENTLAB_STATE_DIR")
    return Path(given) if given else Path.home() / ".local" / "state" / "agentlab"


def _owner_key() -> bytes | None:
    """This user's key, None before the first dump."""
    try:
        key = (state_folder() / "owner.key").read_bytes()
    except FileNotFoundError:
        return None
    return key if len(key) >= _KEY_BYTES else None


def _make_owner_key() -> bytes:
    import secrets

    folder = state_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path, fresh = folder / "owner.key", folder / f"owner.{secrets.token_hex(8)}.tmp"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)  # whoever is first decides
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    key = _owner_key()
    if key is None:
        raise UserError(f"{path} is damaged: remove it; sessions with pickled tools then need trust to be woken")
    return key


def sign(data: bytes) -> str:
    """This user's signature of ``data``; the key is made when there is none.

    Raises:
        UserError: the key can not be read or made.
    """
    try:
        return _signature(_owner_key() or _make_owner_key(), data)
    except OSError as error:
        raise UserError(f"no key to sign tools with ({error}): set AGENTLAB_STATE_DIR to a folder of yours") from None


def trusted(data: bytes, signature: str) -> bool:
    """Whether this user signed ``data``. Writes nothing; a key that can not be read trusts nobody."""
    import hmac

    try:
        key = _owner_key()
    except OSError:
        return False
    return key is not None and hmac.compare_digest(_signature(key, data).encode(), signature.encode("utf-8", "replace"))


def _signature(key: bytes, data: bytes) -> str:
    import hmac

    return hmac.new(key, data, hashlib.sha256).hexdigest()
