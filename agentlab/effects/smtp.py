"""Mail as an external effect. SMTP honours no keys: a mail sent twice arrives twice.

So the key becomes the Message-ID, and verify looks for that Message-ID where the server delivers: in a Maildir.
"""

from __future__ import annotations

import contextlib
import email
import email.policy
import email.utils
import hashlib
import smtplib
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from agentlab.effects.outside import Effect, OutsideError, completed, key_or_current, not_done, unknown

TIMEOUT_S = 30.0
_HEADERS_READ = 1 << 16


def message_id(key: str) -> str:
    """The Message-ID of ``key``: a digest, because a key may hold characters that an address may not."""
    return f"<{hashlib.sha256(key.encode()).hexdigest()[:40]}@agentlab.invalid>"


def send_mail(
    host: str, port: int, sender: str, to: str, subject: str, text: str, key: str, timeout_s: float = TIMEOUT_S
) -> dict[str, Any]:
    """Send one plain-text mail with the Message-ID of ``key``. ``timeout_s`` (seconds) bounds each wait.

    Returns ``{"accepted", "message_id"}``. Raises OutsideError when the server did not accept it for certain.
    """
    message = EmailMessage()
    try:
        message["From"], message["To"], message["Subject"] = sender, to, subject
    except ValueError as error:
        raise OutsideError(f"not a mail header: {error}", sent=False) from error
    message["Message-ID"] = message_id(key)
    message["Date"] = email.utils.localtime()
    message.set_content(text)
    try:
        server = smtplib.SMTP(host, port, timeout=timeout_s)
    except (OSError, smtplib.SMTPException) as error:
        raise OutsideError(f"no mail server at {host}:{port}: {error}", sent=False) from error
    try:
        server.send_message(message)
    except (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPHeloError) as error:
        raise OutsideError(f"{host}:{port} refused the mail: {error}", sent=False) from error
    except (OSError, smtplib.SMTPException) as error:
        # Lost after DATA: the server may have delivered it. Only the mailbox knows.
        raise OutsideError(f"{host}:{port} gave no good answer: {error}") from error
    finally:
        # The mail is accepted by now; a server that fails to say goodbye must not turn that into an error.
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()
        server.close()
    return _result(key)


def find_in_maildir(maildir: str | Path, key: str) -> list[Path]:
    """The delivered mails with the Message-ID of ``key``. Raises OutsideError when this is no Maildir or unreadable."""
    folder = Path(maildir)
    if not (folder / "new").is_dir() or not (folder / "cur").is_dir():
        raise OutsideError(f"{folder} is no Maildir")
    for _ in range(5):
        found, moved = _scan(folder, message_id(key))
        # A mail reader renames files while we look; a scan in which one vanished may have missed it.
        if found or not moved:
            return found
    raise OutsideError(f"{folder} changes all the time")


def verify_in_maildir(maildir: str | Path, key: str) -> dict[str, Any]:
    """Verify's answer from a Maildir: completed, not_done, or unknown when it can not be read."""
    try:
        found = find_in_maildir(maildir, key)
    except (OutsideError, OSError) as error:
        return unknown(str(error))
    if not found:
        return not_done(f"no mail in {maildir} has the Message-ID {message_id(key)}")
    return completed(
        _result(key), f"{len(found)} mail(s) with the Message-ID {message_id(key)}, one is {found[0].name}"
    )


def smtp_effect(host: str, port: int, sender: str, maildir: str | Path, timeout_s: float = TIMEOUT_S) -> Effect:
    """An effect that sends a mail; declare it ``honours_key=False`` with a ``settle_after_s`` if delivery lags.

    ``maildir`` is where the server delivers. ``timeout_s`` is in seconds.
    """
    place = str(maildir)

    def send(to: str, subject: str, text: str, idempotency_key: str = "") -> dict[str, Any]:
        """Send one mail in plain text."""
        return send_mail(host, port, sender, to, subject, text, key_or_current(idempotency_key), timeout_s)

    def verify(key: str) -> dict[str, Any]:
        """Whether the mailbox has the mail of ``key``."""
        return verify_in_maildir(place, key)

    return Effect(send, verify, False)


def _result(key: str) -> dict[str, Any]:
    return {"accepted": True, "message_id": message_id(key)}


def _scan(folder: Path, wanted: str) -> tuple[list[Path], bool]:
    found, moved = [], False
    # In this order: a mail goes from new to cur, so it can not slip past.
    for part in ("new", "cur"):
        for path in sorted((folder / part).iterdir()):
            try:
                with path.open("rb") as file:
                    head = file.read(_HEADERS_READ)
            except FileNotFoundError:
                moved = True
                continue
            if str(email.message_from_bytes(head, policy=email.policy.compat32)["Message-ID"]).strip() == wanted:
                found.append(path)
    return found, moved
