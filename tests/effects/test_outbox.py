"""A task that notifies and was given no receiver writes into its lab's outbox: once per key, through crashes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import agentlab as al
from agentlab.calling import during
from agentlab.effects import notify, outbox
from agentlab.effects.outside import OutsideError
from agentlab.effects.receiver import read_ledger


def test_the_demo_task_runs_to_its_end_without_a_receiver_and_through_a_lost_reply(tmp_path):
    session = al.Lab(tmp_path / "lab").run("sales_report", crash=["harness@effect.reply"], timeout_s=240)
    assert session.status().status == "completed", str(session.locate())
    sent = read_ledger(tmp_path / "lab" / outbox.NAME)
    assert [record["key"].split("#")[0] for record in sent] == [session.id]
    assert [e.payload["outcome"] for e in session.events() if e.type == "effect_verified"] == ["completed"]


def test_one_line_for_each_key_whoever_asks_how_often(tmp_path):
    url = (tmp_path / outbox.NAME).as_uri()
    keys = [f"s#{n}" for n in range(8)] * 3
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda key: (key, outbox.deliver(url, {"message": key}, key)["id"]), keys))
    assert len(set(answers)) == 8 and len(read_ledger(tmp_path / outbox.NAME)) == 8
    with pytest.raises(OutsideError, match="another body"):
        outbox.deliver(url, {"message": "other"}, "s#1")
    assert outbox.find(url, "s#1")["body"] == {"message": "s#1"} and outbox.find(url, "s#9") is None


def test_an_outbox_whose_folder_is_gone_is_unknown_when_asked_and_surely_not_sent(tmp_path):
    url = (tmp_path / "gone" / outbox.NAME).as_uri()
    with pytest.raises(OutsideError, match="no such folder") as caught:
        outbox.deliver(url, {"message": "m"}, "k")
    assert not caught.value.sent
    with during("k", {"receiver_url": url}):
        assert notify.verify_notification("k")["outcome"] == "unknown"
