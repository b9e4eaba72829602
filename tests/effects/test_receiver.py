"""The receiver against crashes, lost replies and retries; its ledger file is the oracle of every test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab.calling import during
from agentlab.effects import http, notify
from agentlab.effects.outside import OutsideError
from agentlab.effects.receiver import Ledger, ReceiverProcess, read_ledger
from agentlab.errors import AgentlabError
from tests.effects.helpers import ROOT, Background, until

KEY = "sitzung-ä 1#12"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[ReceiverProcess]:
    with ReceiverProcess(tmp_path) as process:
        yield process


@pytest.fixture
def called(receiver: ReceiverProcess) -> Iterator[None]:
    """The test's calls are made as in a session whose task names the receiver."""
    with during(None, {"receiver_url": receiver.url}):
        yield


def send(receiver: ReceiverProcess, key: str = KEY, **body: Any) -> dict[str, Any]:
    return notify.post(f"{receiver.url}/notify", body or {"message": "ready"}, key)


def test_three_tries_with_one_key_are_one_effect(receiver: ReceiverProcess) -> None:
    replies = [send(receiver) for _ in range(3)]
    assert [reply["replayed"] for reply in replies] == [False, True, True]
    assert len({json.dumps(reply["body"]) for reply in replies}) == 1
    assert [record["key"] for record in receiver.ledger()] == [KEY]


def test_simultaneous_tries_with_one_key_are_one_effect(receiver: ReceiverProcess) -> None:
    tries = [Background(lambda: send(receiver)) for _ in range(8)]
    assert [one.ended() for one in tries] == [None] * 8
    assert len(receiver.ledger()) == 1


def test_two_keys_are_two_effects(receiver: ReceiverProcess) -> None:
    assert send(receiver, "s#1")["body"] != send(receiver, "s#2")["body"]
    assert [record["key"] for record in receiver.ledger()] == ["s#1", "s#2"]


def test_killed_between_executing_and_replying_keeps_exactly_one(receiver: ReceiverProcess) -> None:
    receiver.misbehave({"slow": 60})
    attempt = Background(lambda: send(receiver))
    until(receiver.ledger, "the effect is executed")
    receiver.kill()
    error = attempt.ended()
    assert isinstance(error, OutsideError) and error.sent
    port = receiver.port
    receiver.restart()
    assert receiver.port == port
    assert send(receiver)["replayed"]
    assert len(receiver.ledger()) == 1


def test_killed_before_executing_is_executed_by_the_retry(receiver: ReceiverProcess, called: None) -> None:
    receiver.misbehave({"late": 60})
    attempt = Background(lambda: send(receiver))
    asked = f"{receiver.url}/misbehave"
    until(lambda: notify.exchange("GET", asked, None, {}, 60.0)[2] == {"queued": 0}, "the request arrived")
    receiver.kill()
    assert isinstance(attempt.ended(), OutsideError)
    receiver.restart()
    assert notify.verify_notification(KEY)["outcome"] == "not_done"
    assert not send(receiver)["replayed"]
    assert [record["key"] for record in receiver.ledger()] == [KEY]


def test_lost_reply_is_verified_as_completed(receiver: ReceiverProcess, called: None) -> None:
    receiver.misbehave("lose_reply")
    with pytest.raises(OutsideError) as caught:
        notify.notify_region_report("ready", idempotency_key=KEY)
    assert caught.value.sent
    answer = notify.verify_notification(KEY)
    assert answer["outcome"] == "completed" and KEY in answer["evidence"]
    assert answer["result"] == notify.notify_region_report("ready", idempotency_key=KEY)
    assert len(receiver.ledger()) == 1


@pytest.mark.parametrize(
    ("misdeed", "outcome", "lines"), [("error_before", "not_done", 0), ("error_after", "completed", 1)]
)
def test_errors_are_verified_as_what_happened(
    receiver: ReceiverProcess, called: None, misdeed: str, outcome: str, lines: int
) -> None:
    receiver.misbehave(misdeed)
    with pytest.raises(OutsideError, match="500"):
        notify.notify_region_report("ready", idempotency_key=KEY)
    assert notify.verify_notification(KEY)["outcome"] == outcome
    assert len(receiver.ledger()) == lines
    notify.notify_region_report("ready", idempotency_key=KEY)
    assert len(receiver.ledger()) == 1


def test_slow_reply_runs_into_the_timeout_and_is_completed(receiver: ReceiverProcess, called: None) -> None:
    receiver.misbehave({"slow": 60})
    with pytest.raises(OutsideError):
        notify.post(f"{receiver.url}/notify", {"message": "ready"}, KEY, timeout_s=0.3)
    until(receiver.ledger, "the effect is executed")  # a slow machine may take longer for it than the caller waits
    assert notify.verify_notification(KEY)["outcome"] == "completed"


def test_unreachable_receiver_is_unknown_and_nothing_was_sent(receiver: ReceiverProcess, called: None) -> None:
    receiver.kill()
    with pytest.raises(OutsideError) as caught:
        notify.notify_region_report("ready", idempotency_key=KEY)
    assert not caught.value.sent
    assert notify.verify_notification(KEY)["outcome"] == "unknown"


def test_a_404_of_somebody_else_is_no_proof(receiver: ReceiverProcess) -> None:
    with pytest.raises(OutsideError, match="404"):
        notify.look_up(f"{receiver.url}/elsewhere", KEY)


def test_missing_receiver_url_says_how_to_start_one() -> None:
    with pytest.raises(OutsideError, match="agentlab.effects.receiver --ledger") as caught:
        notify.notify_region_report("ready", idempotency_key=KEY)
    assert not caught.value.sent


def test_without_a_key_nothing_is_sent(receiver: ReceiverProcess, called: None) -> None:
    with pytest.raises(OutsideError, match="idempotency_key"):
        notify.notify_region_report("ready")
    with pytest.raises(OutsideError, match="400"):
        send(receiver, "")
    assert receiver.ledger() == []


def test_the_key_of_the_call_serves_when_none_is_passed(receiver: ReceiverProcess) -> None:
    with during(KEY, {"receiver_url": receiver.url}):
        notify.notify_region_report("ready")
    assert [record["key"] for record in receiver.ledger()] == [KEY]


def test_one_key_with_another_body_is_refused(receiver: ReceiverProcess) -> None:
    send(receiver, message="one")
    with pytest.raises(OutsideError, match="another body"):
        send(receiver, message="two")
    assert len(receiver.ledger()) == 1


def test_unknown_misdeed_is_refused(receiver: ReceiverProcess) -> None:
    with pytest.raises(OutsideError, match="known: ok, lose_reply"):
        receiver.misbehave("explode")


def test_an_outside_that_ignores_keys_executes_twice(tmp_path: Path) -> None:
    with ReceiverProcess(tmp_path, ignore_keys=True) as receiver:
        receiver.misbehave("lose_reply")
        with pytest.raises(OutsideError):
            send(receiver)
        with pytest.raises(OutsideError, match="knows no keys"):
            notify.look_up(receiver.url, KEY)
        assert not send(receiver)["replayed"]
        assert [record["key"] for record in receiver.ledger()] == [KEY, KEY]


def test_http_with_key(receiver: ReceiverProcess) -> None:
    effect = http.post_with_key(f"{receiver.url}/notify", f"{receiver.url}/effects/{{key}}", result_field="response")
    assert effect.honours_key and effect.verify(KEY)["outcome"] == "not_done"
    receiver.misbehave("lose_reply")
    with pytest.raises(OutsideError):
        effect.run({"a": 1}, idempotency_key=KEY)
    assert effect.verify(KEY)["result"] == effect.run({"a": 1}, idempotency_key=KEY)
    assert len(receiver.ledger()) == 1
    receiver.kill()
    assert effect.verify(KEY)["outcome"] == "unknown"


def test_http_without_key_is_verified_by_its_listing(tmp_path: Path) -> None:
    with ReceiverProcess(tmp_path, ignore_keys=True) as receiver:
        address, listing = f"{receiver.url}/notify", f"{receiver.url}/ledger"
        complete = http.post_without_key(address, listing, listing_is_complete=True)
        partial = http.post_without_key(address, listing)
        blind = http.post_without_key(address)
        assert complete.verify(KEY)["outcome"] == "not_done"
        assert partial.verify(KEY)["outcome"] == "unknown"
        receiver.misbehave("lose_reply")
        with pytest.raises(OutsideError):
            complete.run({"a": 1}, idempotency_key=KEY)
        assert complete.verify(KEY)["outcome"] == partial.verify(KEY)["outcome"] == "completed"
        assert blind.verify(KEY)["outcome"] == "unknown"
        assert receiver.ledger()[0]["body"] == {"a": 1, "reference": KEY}


@pytest.mark.parametrize("torn", [b'{"n": 2, "key": "s#2", "bo', b'{"n": 2, "key": "s#2"}', b"\xff"])
def test_torn_last_line_is_cut_at_the_start(tmp_path: Path, torn: bytes) -> None:
    with ReceiverProcess(tmp_path) as receiver:
        send(receiver, "s#1")
        receiver.kill()
        with receiver.path.open("ab") as file:
            file.write(torn)
        assert [record["key"] for record in receiver.ledger()] == ["s#1"]
        receiver.restart()
        assert send(receiver, "s#1")["replayed"]
        assert not send(receiver, "s#2")["replayed"]
        assert [record["n"] for record in receiver.ledger()] == [1, 2]


def test_damaged_ledger_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_bytes(b'{"n": 1, "key": "s#1"}\nnonsense\n')
    with pytest.raises(AgentlabError, match="line 2"), ReceiverProcess(tmp_path):
        pass
    with pytest.raises(AgentlabError, match="line 2"):
        read_ledger(tmp_path / "ledger.jsonl")


def test_a_ledger_has_one_holder(receiver: ReceiverProcess) -> None:
    with pytest.raises(AgentlabError, match="another receiver"):
        Ledger(receiver.path)


OWNER = """
import os, signal, sys
from agentlab.effects.receiver import ReceiverProcess
receiver = ReceiverProcess(sys.argv[1])
receiver.start()
worker = os.fork()
if worker == 0:
    signal.pause()
print(receiver.pid, worker, flush=True)
signal.pause()
"""


def test_ends_with_its_owner_though_a_worker_keeps_the_pipe(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert owner.stdout is not None
    pid, worker = map(int, owner.stdout.readline().split())
    try:
        owner.kill()
        owner.wait()
        path = tmp_path / "ledger.jsonl"

        def free() -> bool:
            try:
                os.close(Ledger(path)._fd)
            except AgentlabError:
                return False
            return True

        until(free, f"receiver {pid} is gone")
    finally:
        os.kill(worker, signal.SIGKILL)
        owner.stdout.close()
