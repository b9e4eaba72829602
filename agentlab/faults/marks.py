"""Marks: which faults of a session have struck, durable before they strike."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from agentlab.faults.spec import Fault


class Marks:
    """The marks of a session, one file each in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, fault_id: str) -> bool:
        """Whether a fault has struck."""
        return self._path(fault_id).exists()

    def all(self) -> list[dict[str, Any]]:
        """What struck so far, as payloads of ``fault_injected``."""
        out = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            try:
                out.append(json.loads(path.read_text()))
            except (OSError, ValueError):
                continue  # a torn mark: the strike it announces did not follow
        return out

    def write(self, fault: Fault, ref: str = "") -> dict[str, Any]:
        """Leave the mark of a fault that is about to strike; returns it."""
        mark = {
            "id": f"{fault.id}!",
            "fault": fault.id,
            "target": fault.target,
            "action": fault.action,
            "point": fault.spec(),
            **({"ref": ref} if ref else {}),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._path(fault.id), "w", encoding="utf-8") as file:
            file.write(json.dumps(mark))
            file.flush()
            os.fsync(file.fileno())
        return mark

    def _path(self, fault_id: str) -> Path:
        return self._folder / f"{fault_id}.json"
