"""Which session has an effect whose key is its content alone: numbered claims, of which the newest counts.

An index derived from the logs: what has become of an effect stands in the log of the session that claimed it. When
the index is gone it is built again from there. Taking a claim creates the file with the next number if nobody has:
the same rule that decides between two appends.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence

from agentlab.log.files import DISK, POINTER_POINTS, Disk, discard, make_folders, refused, sync_folder, write_beside
from agentlab.ports import Claim


class FileClaims:
    """Claims as small files ``<lab>/effects/<digest of the key>/<number>``, for all sessions of a lab."""

    def __init__(self, lab: str | os.PathLike[str], disk: Disk = DISK) -> None:
        self.folder = os.path.join(os.path.abspath(os.fspath(lab)), "effects")
        self._disk = disk

    def built(self) -> bool:
        """Whether the index exists."""
        return os.path.isdir(self.folder)

    def build(self, claims: Mapping[str, Sequence[Claim]]) -> None:
        """Make the index from what the logs say.

        Raises:
            StorageFailed: the disk refused.
        """
        try:
            make_folders(self._disk, self.folder)
        except OSError as error:
            raise refused(self.folder, error) from error
        for key, of_key in claims.items():
            for claim in of_key:
                self.take(key, claim)

    def held(self, key: str) -> tuple[Claim, ...]:
        """All claims on an effect, the oldest first; what can not be read does not count."""
        folder = self._of(key)
        found = []
        try:
            numbers = sorted(int(name) for name in os.listdir(folder) if name.isdigit())
        except OSError:
            return ()
        for number in numbers:
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                with open(os.path.join(folder, f"{number:06d}"), encoding="utf-8") as file:
                    body = json.load(file)
                found.append(Claim(str(body["session_id"]), int(body["seq"]), number))
        return tuple(found)

    def take(self, key: str, claim: Claim) -> bool:
        """Put a claim in place; False when somebody has one of that number already.

        Raises:
            StorageFailed: the disk refused.
        """
        path = os.path.join(self._of(key), f"{claim.number:06d}")
        body = {"key": key, "session_id": claim.session_id, "seq": claim.seq}
        try:
            make_folders(self._disk, os.path.dirname(path))
        except OSError as error:
            raise refused(path, error) from error
        tmp = write_beside(self._disk, path, json.dumps(body).encode(), POINTER_POINTS, durable=True, detail=key)
        try:
            self._disk.link(tmp, path)
        except FileExistsError:
            return False
        except OSError as error:
            raise refused(path, error) from error
        finally:
            discard(self._disk, tmp)
        sync_folder(self._disk, os.path.dirname(path))
        return True

    def _of(self, key: str) -> str:
        return os.path.join(self.folder, hashlib.sha256(key.encode()).hexdigest())


class MemoryClaims:
    """Claims of a simulated world."""

    def __init__(self) -> None:
        self._claims: dict[str, tuple[Claim, ...]] = {}
        self._built = False

    def built(self) -> bool:
        """Whether the index exists."""
        return self._built

    def build(self, claims: Mapping[str, Sequence[Claim]]) -> None:
        """Make the index from what the logs say."""
        self._built = True
        self._claims.update({key: tuple(of_key) for key, of_key in claims.items()})

    def held(self, key: str) -> tuple[Claim, ...]:
        """All claims on an effect, the oldest first."""
        return self._claims.get(key, ())

    def take(self, key: str, claim: Claim) -> bool:
        """Put a claim in place; False when somebody has one of that number already."""
        known = self.held(key)
        if known and known[-1].number >= claim.number:
            return False
        self._claims[key] = (*known, claim)
        return True

    def copy(self) -> MemoryClaims:
        """An independent index with the same claims."""
        other = MemoryClaims()
        other._claims, other._built = dict(self._claims), self._built
        return other
