"""The outbox in a file: what a real outside that honours keys does, also when two come at once."""

from __future__ import annotations

import json
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


def test_a_line_that_a_crash_tore_hides_nothing_and_lets_nothing_happen_twice(tmp_path):
    """The writer dies after each byte of its line; others deliver, and then its successor asks and delivers again."""
    whole = json.dumps({"message": 'say {"message": "x"}', "key": "torn", "id": 2}).encode() + b"\n"
    first = json.dumps({"message": "one", "key": "first", "id": 1}).encode() + b"\n"
    path = tmp_path / "outbox.jsonl"
    for cut in range(len(whole)):
        path.write_bytes(first + whole[:cut])
        box = FileOutbox(path)
        assert box.find("first") == {"id": 1} and box.find("torn") is None, "it was never acknowledged"
        assert box.deliver("two", "later") == {"id": 2, "replayed": False}
        assert box.find("later") == {"id": 2} and box.deliver("two", "later")["replayed"]
        assert box.deliver("again", "torn") == {"id": 3, "replayed": False} and box.deliver("again", "torn")["replayed"]
        box.save("note", {"message": "a note", "key": "torn"})
        assert box.load("note") == {"message": "a note", "key": "torn"}
        assert [json.loads(line).get("key") for line in path.read_bytes().splitlines()] == [
            "first",
            "later",
            "torn",
            None,
        ]


def test_what_was_delivered_behind_a_torn_line_still_counts(tmp_path):
    """Files that were written by those who did not cut the piece off."""
    torn = json.dumps({"note": "n", "value": {"message": "not a delivery", "key": "k"}}).encode()
    later = json.dumps({"message": "two", "key": "later", "id": 1}).encode() + b"\n"
    path = tmp_path / "outbox.jsonl"
    for cut in range(1, len(torn) + 1):
        path.write_bytes(torn[:cut] + later + b"\xff\n" + b"[1]\n")
        box = FileOutbox(path)
        assert box.find("later") == {"id": 1} and box.find("k") is None and box.deliver("two", "later")["replayed"]
        assert box.deliver("three", "")["id"] == 2
