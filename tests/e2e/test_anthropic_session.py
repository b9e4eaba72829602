"""Sessions on a claude-… model, against a local server that speaks the Messages API and misbehaves on demand."""

from __future__ import annotations

import pytest

from agentlab.models.pairing import check_messages
from agentlab.models.scripted import ScriptedModel
from agentlab.testing import messages_faults as faults
from agentlab.testing.messages_server import MessagesServer

from . import tasks
from .looking import files_with

KEY = "sk-ant-session-0123456789abcdef"
STEPS = ("measure",)


@pytest.fixture
def server(monkeypatch, tmp_path):
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_PROFILE", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path / "no-profiles"))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with MessagesServer(ScriptedModel(tasks.by_step), key=KEY) as running:
        yield running


def claude(server, *steps, **changes):
    return tasks.task(*steps, model="claude-test", base_url=server.url, **changes)


def of_type(session, *types):
    return [e for e in session.events() if e.type in types]


def judge(session, server, lab):
    """What holds for every session: complete, intact, only well-formed requests, and no key in any file."""
    assert session.status().status == "completed", session.locate()
    session.verify()
    asked = [r for r in server.requests if r.path == "/v1/messages"]
    assert asked and all(r.right_key for r in asked)
    assert all(r.status != 400 for r in asked), "the server refused nothing as malformed"
    for request in asked:
        check_messages(request.body["messages"], ask=True)
    answered = [e.call_id for e in of_type(session, "tool_result", "tool_error")]
    assert len(answered) == len(set(answered))
    assert files_with(lab.path, KEY) == []
    return asked


def test_a_session_completes_and_its_usage_is_recorded(lab, receiver, server):
    prices = {"claude-test": {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75}}
    task = claude(server, "measure", "write", "send", budget={"prices": prices})
    session = lab.run(task, params={"receiver_url": receiver.url}, timeout_s=120)
    asked = judge(session, server, lab)
    assert len(receiver.ledger()) == 1
    answers = of_type(session, "model_response")
    assert len(answers) == len(asked) and {e.model for e in answers} == {"claude-test"}
    assert all(e.input_tokens is not None and e.output_tokens > 0 and e.cost_microusd >= 0 for e in answers)
    assert answers[0].cache_write_tokens > 0 and answers[0].cache_read_tokens == 0
    assert all(e.cache_read_tokens > 0 for e in answers[1:]), "the fixed layer is read from the cache"
    totals = session.result["totals"]
    assert totals["model_calls"] == len(answers)
    assert totals["output_tokens"] == sum(e.output_tokens for e in answers)
    assert totals["cache_tokens"] == sum(e.cache_read_tokens + e.cache_write_tokens for e in answers)
    assert totals["cost_microusd"] == sum(e.cost_microusd for e in answers) > 0
    first, *later = [r.body for r in asked]
    assert all(b["system"] == first["system"] and b["tools"] == first["tools"] for b in later), "a stable prefix"
    ours = {e.call_id for e in of_type(session, "tool_requested")}
    sent = {b["id"] for r in asked for m in r.body["messages"] for b in m["content"] if b.get("type") == "tool_use"}
    assert sent <= ours


def test_retry_after_is_respected(lab, server):
    server.add(faults.rate_limited(1.5))
    session = lab.run(claude(server, *STEPS), timeout_s=120)
    judge(session, server, lab)
    (error,) = of_type(session, "model_error")
    assert error.payload["kind"] == "rate_limited" and error.payload["status"] == 429
    assert error.payload["retry_after_s"] == 1.5 and error.payload["will_retry"] and not error.payload["at_risk"]
    again = next(e for e in of_type(session, "model_request") if e.seq > error.seq)
    assert (again.ts - error.ts) / 1e6 >= 1.4


ROUNDS = (
    (("server", faults.http_error(500)), ("overloaded", faults.overloaded()), ("connection", faults.cut_after(300))),
    (("malformed", faults.malformed_tool_json()), ("empty", faults.empty()), ("empty", faults.empty())),
    (("refused", faults.refusal("not this")),),
    (("rate_limited", faults.rate_limited(3600)),),
)
"""What goes wrong before each rest: retried twice (a refusal, and a wait beyond the limit, not at all), then paused."""


def test_failures_are_retried_within_limits_then_the_session_rests_and_a_wake_goes_on(lab, server):
    session = lab.create(claude(server, *STEPS, limits={"model_retries": 2}))
    for number, wrong in enumerate(ROUNDS):
        server.add(*(fault for _, fault in wrong))
        before, sent = session.state.seq, len(server.requests)
        session.wake(timeout_s=120)
        errors = [e for e in session.replay(before + 1) if e.type == "model_error"]
        kinds = [kind for kind, _ in wrong]
        assert [e.payload["kind"] for e in errors] == kinds
        assert [e.payload["will_retry"] for e in errors] == [True] * (len(wrong) - 1) + [False]
        assert len(server.requests) - sent == len(wrong), "no try more, none less"
        assert all(e.error["type"] == e.payload["kind"] and e.error["message"] for e in errors)
        status = session.status()
        assert (status.status, status.reason, status.resumable) == ("paused", "model", True), number
        found = session.locate()
        assert kinds[-1] in " ".join(found.evidence) and found.error, "why it rests"
    session.wake(timeout_s=120)
    judge(session, server, lab)
    assert session.status().crashes == 0
    at_risk = {e.payload["request_id"] for e in of_type(session, "model_error") if e.payload["at_risk"]}
    assert set(session.state.budget.at_risk) == at_risk, "what may have been spent stays counted"
    assert session.state.budget.reserved == {}


def test_a_call_of_a_tool_that_was_never_offered_becomes_an_error_that_the_model_reads(lab, server):
    server.add(faults.unknown_tool("measur"))
    session = lab.run(claude(server, *STEPS), timeout_s=120)
    judge(session, server, lab)
    (told,) = of_type(session, "tool_error")
    assert "did you mean measure?" in told.payload["message"]


def test_a_crash_in_the_middle_of_a_model_call(lab, server):
    session = lab.run(claude(server, *STEPS), crash=["harness@model.send"], timeout_s=120)
    judge(session, server, lab)
    assert session.status().crashes == 1
    cut, *later = [e for e in of_type(session, "model_request") if e.payload["purpose"] == "act"]
    answered = {e.payload["request_id"] for e in of_type(session, "model_response")}
    assert cut.payload["request_id"] not in answered and later[0].payload["request_id"] in answered
    at_risk = session.state.budget.at_risk
    assert set(at_risk) == {cut.payload["request_id"]}
    assert dict(at_risk[cut.payload["request_id"]]) == dict(cut.payload["reserved"])
    assert session.state.budget.committed("output_tokens") > session.result["totals"]["output_tokens"]


def test_a_crash_while_the_answer_is_on_its_way(lab, server, until):
    server.add(faults.hang(3))
    session = lab.run(claude(server, *STEPS), background=True)
    until(lambda: server.requests, what="the request is at the server")
    session.kill("harness", restart=True)
    session.wait(120)
    judge(session, server, lab)
    assert len(session.state.budget.at_risk) == 1 and session.status().crashes == 1


def test_a_crash_between_tool_call_and_result_leaves_a_conversation_that_the_api_accepts(lab, receiver, server):
    crash = ["harness@tool_result", "harness@effect.reply"]
    task = claude(server, "write", "send")
    session = lab.run(task, params={"receiver_url": receiver.url}, crash=crash, timeout_s=120)
    judge(session, server, lab)
    assert len(receiver.ledger()) == 1 and session.status().crashes == 2
    assert [e.payload["passed"] for e in of_type(session, "statement_checked")] == [True, True]
    told = [r.body["messages"][-1]["content"][-1].get("text", "") for r in server.requests]
    assert any("confirmed by the log" in text for text in told), "the statement was asked of the real wire"


def test_a_wrong_key_rests_with_advice_and_never_shows_the_key(lab, server, monkeypatch):
    wrong = "sk-ant-wrong-0123456789abcdef"
    monkeypatch.setenv("ANTHROPIC_API_KEY", wrong)
    session = lab.run(claude(server, *STEPS), timeout_s=120)
    (error,) = of_type(session, "model_error")
    assert error.payload["kind"] == "auth" and "check the key" in error.payload["message"]
    assert session.status().status == "paused"
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    session.wake(timeout_s=120)
    assert session.status().status == "completed"
    assert files_with(lab.path, wrong) == [] and files_with(lab.path, KEY) == []
