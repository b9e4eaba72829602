"""Checkpoint pointers as small files: hints about where a checkpoint stands in the log."""

from __future__ import annotations

import contextlib
import json
import os

from agentlab.log.files import POINTER_POINTS, Disk, discard, refused, sync_folder, write_beside
from agentlab.ports import Pointer

NEWEST = 64
"""How many pointers are read back; older checkpoints are found through the log."""


class PointerFolder:
    """``checkpoints/<seq>``, replaced whole. A pointer is verified against the log before it is believed."""

    def __init__(self, folder: str, disk: Disk, durable: bool) -> None:
        self.folder = folder
        self._disk, self._durable = disk, durable

    def put(self, pointer: Pointer) -> None:
        """Store a pointer.

        Raises:
            StorageFailed: the disk refused.
            OutcomeUnknown: it is there but may not survive.
        """
        path = os.path.join(self.folder, f"{pointer.seq:012d}")
        body = {
            "seq": pointer.seq,
            "cursor": pointer.cursor,
            "cursor_hash": pointer.cursor_hash,
            "state_digest": pointer.state_digest,
        }
        data = json.dumps(body).encode()
        tmp = write_beside(self._disk, path, data, POINTER_POINTS, durable=self._durable, detail=str(pointer.seq))
        try:
            self._disk.replace(tmp, path)
        except OSError as error:
            discard(self._disk, tmp)
            raise refused(path, error) from error
        if self._durable:
            sync_folder(self._disk, self.folder)

    def newest(self) -> list[Pointer]:
        """The newest :data:`NEWEST` readable pointers, newest first."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        seqs = sorted((int(name) for name in names if name.isascii() and name.isdigit()), reverse=True)
        out: list[Pointer] = []
        for seq in seqs:
            if len(out) == NEWEST:
                break
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                with open(os.path.join(self.folder, f"{seq:012d}"), encoding="utf-8") as file:
                    body = json.load(file)
                pointer = Pointer(
                    int(body["seq"]), int(body["cursor"]), str(body["cursor_hash"]), str(body["state_digest"])
                )
                if pointer.seq == seq:
                    out.append(pointer)
        return out
