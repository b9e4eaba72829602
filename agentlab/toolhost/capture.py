"""A stream's beginning and end in bounded memory. Standard library only."""

from __future__ import annotations

from agentlab.toolhost.wire import KEPT_OUTPUT_BYTES


class HeadTail:
    """Keeps ``limit`` bytes of a stream: its first and its last half."""

    def __init__(self, limit: int = KEPT_OUTPUT_BYTES) -> None:
        self._half = limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self._seen = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        self._seen += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        if len(self._tail) > 4 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        """What was kept, with a mark where something is left out; bytes that are no UTF-8 appear as ``\\xff``."""
        tail = bytes(self._tail[-self._half :])
        left_out = self._seen - len(self._head) - len(tail)
        if not left_out:
            return (bytes(self._head) + tail).decode("utf-8", "backslashreplace")
        # A character that the cut went through is dropped rather than shown as garbage.
        head = bytes(self._head).decode("utf-8", "ignore")
        return f"{head}\n[... {left_out} bytes left out ...]\n{tail.decode('utf-8', 'ignore')}"


def ending(text: str, limit: int = 1000) -> str:
    """The end of a text for a message: ``: …`` or nothing."""
    text = text.strip()
    return f"; it said last:\n{text[-limit:]}" if text else ""
