"""The outbox in a file: what a real outside that honours keys does, also when two come at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from agentlab.explorer.outbox import FileOutbox

AT_ONCE = 8


def test_of_those_who_come_with_one_key_at_once_one_is_the_first(tmp_path):
    path, ready = tmp_path / "outbox.jsonl", Barrier(AT_ONCE)

    def send(number):
        ready.wait(60)
        return [FileOutbox(path).deliver("hello", f"key-{turn}")["replayed"] for turn in range(20)]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(send, range(AT_ONCE)))
    for turn in range(20):
        assert [answer[turn] for answer in answers].count(False) == 1
    lines = FileOutbox(path)._lines()
    assert [line["id"] for line in lines] == list(range(1, 21))
    assert FileOutbox(path).deliver("hello", "") == {"id": 21, "replayed": False}, "without a key each is one"
