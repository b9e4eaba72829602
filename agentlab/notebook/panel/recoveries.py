"""The recovery view: for each crash the four steps as they happen, and what it cost."""

from __future__ import annotations

from html import escape

from agentlab.counting import counted
from agentlab.notebook.panel.crashes import STEPS, Crash
from agentlab.notebook.panel.digest import Digest, time_text
from agentlab.notebook.panel.header import money, short

SHOWN = 5


def recoveries_html(digest: Digest, word: str) -> str:
    """The newest crashes, newest first."""
    waiting = ""
    if word == "crashed":
        waiting = "<div class='al-crash'><b>✗ its harness is gone</b> — nothing is lost; wake it and the four steps begin</div>"
    crashes = list(digest.crashes)[::-1]
    if not crashes:
        return (
            waiting or "<span class='al-quiet'>no crash yet. Kill the harness or the sandbox and watch it here.</span>"
        )
    older = digest.watch.found - min(SHOWN, len(crashes))
    more = f"<div class='al-quiet'>and {older} earlier</div>" if older > 0 else ""
    return waiting + "".join(map(_crash, crashes[:SHOWN])) + more


def _crash(crash: Crash) -> str:
    state = (
        f"went on after <b class='al-num'>{time_text(crash.seconds or 0)}</b>" if crash.over else "<b>recovering …</b>"
    )
    head = f"<div><b>{'✓' if crash.over else '✗'} {crash.target}</b> at event {crash.seq}, {escape(crash.cause)} — {state}</div>"
    steps = _steps(crash) if crash.target == "harness" else _restoring(crash)
    return f"<div class='al-crash{' over' if crash.over else ''}'>{head}{steps}{_cost(crash)}</div>"


def _steps(crash: Crash) -> str:
    out = []
    waiting = not crash.over
    for number, name in enumerate(STEPS, 1):
        found = crash.steps.get(name)
        if found is not None:
            kind = "done" if found[0] in ("done", "corrected", "skipped") else "doubt"
            sign = "✓" if found[0] == "done" else "≈" if found[0] == "corrected" else "?"
            words = "" if found[0] == "done" else f" {escape(found[0])}"
            out.append(
                f"<span class='{kind}'>{number} {sign} {name}{words} <b class='al-num'>{time_text(found[1] / 1000)}</b></span>"
            )
        elif waiting:
            out.append(f"<span class='now'>{number} … {name}</span>")
            waiting = False
        else:
            out.append(f"<span class='al-quiet'>{number} · {name}{' not needed' if crash.over else ''}</span>")
    return f"<div class='al-steps'>{''.join(out)}</div>"


def _restoring(crash: Crash) -> str:
    kind, words = ("done", "✓ restored") if crash.over else ("now", "… provisioning and restoring")
    return f"<div class='al-steps'><span class='done'>✓ noticed</span><span class='{kind}'>{words}</span></div>"


def _cost(crash: Crash) -> str:
    lost = [counted(crash.lost_steps, "step")] if crash.lost_steps else []
    lost += [counted(crash.superseded, "event") + " superseded"] if crash.superseded else []
    risk = f", {short(crash.at_risk)} tokens at risk" if crash.at_risk else ""
    cells = [
        ("lost", escape(crash.lost) or (", ".join(lost) or "nothing that was recorded" if crash.over else "…")),
        ("redone", counted(crash.redone, "call")),
        ("effects verified", escape("; ".join(crash.verified)) or "none pending"),
        (
            "paid",
            f"{short(crash.spent_tokens)} tokens, {money(crash.spent_microusd)}, {counted(crash.model_calls, 'model call')}{risk}",
        ),
    ]
    return "<div>" + " &nbsp; ".join(f"<span class='al-quiet'>{n}</span> {v}" for n, v in cells) + "</div>"
