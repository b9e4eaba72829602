"""Mail against lost replies and a server killed after delivery; the Maildir is the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentlab.effects import smtp
from agentlab.effects.outside import Effect, OutsideError
from agentlab.errors import AgentlabError
from agentlab.testing.smtp_server import SmtpServerProcess
from tests.effects.helpers import Background, until

KEY = "sitzung-ä 1#12"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SmtpServerProcess]:
    with SmtpServerProcess(tmp_path) as process:
        yield process


@pytest.fixture
def effect(server: SmtpServerProcess) -> Effect:
    return smtp.smtp_effect(server.host, server.port, "lab@agentlab.invalid", server.maildir)


def send(effect: Effect, key: str = KEY, subject: str = "ready", text: str = "The report is ready.\n") -> Any:
    return effect.run(to="team@agentlab.invalid", subject=subject, text=text, idempotency_key=key)


def test_delivered_mail_is_found_by_its_message_id(server: SmtpServerProcess, effect: Effect) -> None:
    assert effect.verify(KEY)["outcome"] == "not_done"
    result = send(effect, text=".a line with a dot\n..\n.\nend\n")
    answer = effect.verify(KEY)
    assert answer["outcome"] == "completed" and answer["result"] == result
    assert effect.verify("another key")["outcome"] == "not_done"
    (mail,) = server.mails()
    assert b"\r\n\r\n.a line with a dot\r\n..\r\n.\r\nend\r\n" in mail


def test_killed_between_delivery_and_reply(server: SmtpServerProcess, effect: Effect) -> None:
    server.misbehave({"slow": 60})
    attempt = Background(lambda: send(effect))
    until(server.mails, "the mail is delivered")
    server.kill()
    error = attempt.ended()
    assert isinstance(error, OutsideError) and error.sent
    assert effect.verify(KEY)["outcome"] == "completed"
    server.restart()
    send(effect, "another key")
    assert len(server.mails()) == 2


@pytest.mark.parametrize(
    ("misdeed", "outcome", "mails"),
    [("lose_reply", "completed", 1), ("error_after", "completed", 1), ("error_before", "not_done", 0)],
)
def test_no_good_reply_is_verified(
    server: SmtpServerProcess, effect: Effect, misdeed: str, outcome: str, mails: int
) -> None:
    server.misbehave(misdeed)
    with pytest.raises(OutsideError):
        send(effect)
    assert effect.verify(KEY)["outcome"] == outcome
    assert len(server.mails()) == mails


def test_mail_honours_no_key_so_an_unverified_retry_arrives_twice(server: SmtpServerProcess, effect: Effect) -> None:
    assert not effect.honours_key
    server.misbehave("lose_reply")
    with pytest.raises(OutsideError):
        send(effect)
    send(effect)
    assert len(server.mails()) == 2
    assert effect.verify(KEY)["evidence"].startswith("2 mail(s)")


def test_read_mail_is_still_found(server: SmtpServerProcess, effect: Effect) -> None:
    send(effect)
    (path,) = (server.maildir / "new").iterdir()
    path.rename(server.maildir / "cur" / f"{path.name}:2,S")
    assert effect.verify(KEY)["outcome"] == "completed"


def test_what_can_not_be_asked_is_unknown(server: SmtpServerProcess, effect: Effect, tmp_path: Path) -> None:
    assert smtp.verify_in_maildir(tmp_path / "nowhere", KEY)["outcome"] == "unknown"
    with pytest.raises(OutsideError, match="not a mail header") as caught:
        send(effect, subject="two\nlines")
    assert not caught.value.sent
    server.kill()
    with pytest.raises(OutsideError, match="no mail server") as caught:
        send(effect)
    assert not caught.value.sent


def test_unknown_misdeed_is_refused(server: SmtpServerProcess) -> None:
    with pytest.raises(AgentlabError, match="501"):
        server.misbehave("explode")
