"""What is noise and what is substance."""

from __future__ import annotations

import pytest

from agentlab.guard.action import Action
from agentlab.guard.fingerprint import fingerprint, program
from agentlab.guard.normalise import VOLATILE, call_key, counts_up, error_class, plain_result
from agentlab.guard.vocabulary import pending

NOISE = [
    ("2024-05-01T10:00:00.123Z up", "2024-05-01T10:03:59.9Z up"),
    ("at 9:15:01 PM", "at 10:15:44 PM"),
    ("took 1.53s", "took 12 ms"),
    ("real 0m1.204s", "real 12m3.1s"),
    ("pid=123", "pid=9"),
    ("process 88 exited", "process 12345 exited"),
    ("sshd[123]: bye", "sshd[4567]: bye"),
    ("at 0x7f0012ab", "at 0xdeadbeef"),
    ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-12d3-a456-426614174fff"),
    ("see /tmp/tmpab12x/out.txt", "see /tmp/tmpzz9kq/out.txt"),
    ("/tmp/pytest-of-me/pytest-12/a", "/tmp/pytest-of-me/pytest-7/a"),
    ("localhost:43211 refused", "localhost:5 refused"),
    ("a.py:12: bad", "a.py:345: bad"),
    ("bad at line 12", "bad at line 9000"),
    ('{"pid": 1, "elapsed": 3.2, "ok": true}', '{"pid": 77, "elapsed": 0.1, "ok": true}'),
    ('{"timestamp": "yesterday", "n": 1}', '{"timestamp": "today", "n": 1}'),
    ("Jan  5 10:00:00 host", "Jan 15 11:00:00 host"),
    ("commit 3f2a9c1d", "commit 99bb01ee"),
]
SUBSTANCE = [
    ("37%", "41%"),
    ("page 3 of 9", "page 4 of 9"),
    ("12 passed", "13 passed"),
    ("lines 1-50", "lines 51-100"),
    ("line 1: a\nline 2: a\nline 3: a", "line 4: a\nline 5: a\nline 6: a"),
    ("1\ta\n2\ta\n3\ta", "4\ta\n5\ta\n6\ta"),
    ("loss 0.83", "loss 0.81"),
    ("issue 7", "issue 8"),
    ("version 1.2.3", "version 1.2.4"),
    ('{"left": 40}', '{"left": 39}'),
]


@pytest.mark.parametrize(("a", "b"), NOISE)
def test_noise_is_left_out(a: str, b: str) -> None:
    assert plain_result(a) == plain_result(b)


@pytest.mark.parametrize(("a", "b"), SUBSTANCE)
def test_substance_stays(a: str, b: str) -> None:
    assert plain_result(a) != plain_result(b)


def test_a_long_text_is_looked_at_everywhere() -> None:
    long = "x" * 5000
    assert plain_result(long + "needle" + long) != plain_result(long + "noodle" + long)


def test_volatile_arguments_are_left_out_unless_nothing_else_is_there() -> None:
    assert call_key("t", {"a": 1, "reason": "x"}) == call_key("t", {"a": 1, "Reason": "y"})
    assert call_key("think", {"thought": "x"}) != call_key("think", {"thought": "y"})


def test_error_class_keeps_the_kind_and_drops_the_arguments() -> None:
    def of(message: str, kind: str | None = None, echoes: tuple[str, ...] = ()) -> str:
        return error_class(kind, message, echoes)

    trace = 'Traceback (most recent call last):\n  File "a.py", line {}\n{}'
    assert of(trace.format(3, "KeyError: 'a'")) == of(trace.format(9, "KeyError: 'b'"))
    assert of(trace.format(3, "KeyError: 'a'")) != of(trace.format(3, "ValueError: 'a'"))
    assert of("no table alpha here", None, ("alpha",)) == of("no table beta here", None, ("beta",))
    assert of("exit code 1\nboom") == of("Exit code 2\nboom") != of("exit code 1\nbang")
    assert of("exit code 1") == of("", "exit_code") == ""


def test_counters_count_up_and_noise_does_not() -> None:
    assert counts_up([(1, True), (9, True), (40, True)]) and counts_up([(1, False), (2, False), (3, False)])
    assert not counts_up([(1, False), (9, False), (40, False)]) and not counts_up([(5, True), (3, True), (9, True)])
    assert not counts_up([(-1, False)] * 4)


@pytest.mark.parametrize(
    "text", ["running", '{"state":"PENDING","error":null}', "not ready", "2 of 5 done, still working"]
)
def test_pending(text: str) -> None:
    assert pending(text)


@pytest.mark.parametrize("text", ["done", "build failed", "exited with 1", "", "running tests: 3 failed"])
def test_not_pending(text: str) -> None:
    assert not pending(text)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("cd /x && grep -n a b", "grep"),
        ("PYTHONPATH=. python -m pytest -q", "python pytest"),
        ("git -P status", "git status"),
        ("python -c 'print(1)'", "python"),
        ("# look\nls", "ls"),
        ("", ""),
    ],
)
def test_program(command: str, name: str) -> None:
    assert program(command) == name


def test_a_remark_above_a_command_is_no_part_of_it() -> None:
    first, second = (Action("bash", {"command": f"# {word}\nls"}) for word in ("now", "again"))
    assert fingerprint(first, VOLATILE) == fingerprint(second, VOLATILE)
