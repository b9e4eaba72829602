"""The head of a column: which session, its status, its figures, what it does next."""

from __future__ import annotations

from html import escape

from agentlab.notebook.display import SIGNS
from agentlab.notebook.panel.alerts import alerts_html
from agentlab.notebook.panel.digest import Digest, time_text
from agentlab.notebook.panel.feed import Feed


def header_html(feed: Feed) -> str:
    """The head as HTML."""
    now, digest = feed.moment, feed.digest
    word = now.word
    status = now.status
    reason = status.reason if word in ("queued", "paused", "waiting", "unknown", "damaged", "empty") else ""
    words = f"{word} ({reason})" if reason and reason != word and len(reason) < 60 else word
    head = (
        f"<div class='al-head'><span class='al-id'>{escape(feed.session.id)}</span>"
        f"<span class='al-badge s-{escape(word)}'>{SIGNS.get(word, '·')} {escape(words)}</span>"
        f"<span class='al-task'>{escape(_at(feed))}</span></div>"
    )
    share = 100 * status.steps_done / status.steps if status.steps else 0
    bar = f"<div class='al-bar'><i style='width:{share:.0f}%'></i></div>"
    return head + bar + _figures(feed, digest) + alerts_html(digest.alerts) + _doing(feed, digest)


def _at(feed: Feed) -> str:
    step = feed.moment.state.step
    if step is None or feed.moment.word in ("completed", "failed"):
        return ""
    return f"step {step.id}" + (f" — {step.title}" if step.title else "")


def _figures(feed: Feed, digest: Digest) -> str:
    status = feed.moment.status
    figures = [
        (f"{status.steps_done}/{status.steps}" if status.steps else "—", "steps"),
        (f"{status.turns}", "turns"),
        (f"{digest.seq:,}", "events"),
        (f"{digest.checkpoints_written}", "checkpoints"),
        (f"{digest.watch.found}", "crashes"),
        (short(digest.input_tokens + digest.output_tokens), "tokens"),
        (money(digest.microusd), "spent"),
        (time_text(max(0, digest.ts - digest.started_ts) / 1e6), "first to last"),
    ]
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in figures)
    return f"<div class='al-figures'>{cells}</div>"


def _doing(feed: Feed, digest: Digest) -> str:
    planned = feed.next_command()
    if planned:
        return f"<div class='al-next'><span>next</span><code>{escape(planned)}</code></div>"
    if digest.decision:
        return f"<div class='al-next'><span>decided</span><code>{escape(' '.join(digest.decision.split())[:200])}</code></div>"
    return "<div class='al-next'></div>"


def short(count: int) -> str:
    """A count in few characters."""
    return f"{count:,}" if count < 10_000 else f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1e6:.2f}M"


def money(microusd: int) -> str:
    """Millionths of a dollar for a person."""
    return f"${microusd / 1e6:.4f}" if 0 < microusd < 10_000 else f"${microusd / 1e6:.2f}"
