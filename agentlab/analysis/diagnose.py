"""Diagnosis: the known symptoms of long runs, looked for in the log, each with evidence, cause and cure."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from agentlab.analysis.advice import ADVICE
from agentlab.analysis.sources import Source, analysed

Verdict = Literal["found", "told", "clear", "unknown"]
_SIGNS = {"found": "!!", "told": "--", "clear": "ok", "unknown": "??"}
_WORDS = {"found": "found", "told": "for information", "clear": "not found", "unknown": "can not be told from the log"}
_COLOURS = {"found": "#D55E00", "told": "#0072B2", "clear": "#009E73", "unknown": "#666666"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a finding rests on: events of one session and what they show."""

    session_id: str
    seqs: tuple[int, ...]
    what: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "seqs", tuple(map(int, self.seqs)))  # numbers of a data frame are no JSON

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.seqs[:8])) + (" …" if len(self.seqs) > 8 else "")
        where = f"event{'s' if len(self.seqs) > 1 else ''} {numbers}" if self.seqs else "session"
        return f"{self.session_id}, {where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Symptom:
    """One symptom: *found*, *told* (no fault, but worth knowing), *clear* (looked for and not there) or *unknown*.

    ``missing`` says of an unknown one what is not recorded. ``cause``, ``look_at`` and ``cure`` are the likely cause, where
    to look, and what to do.
    """

    name: str
    title: str
    verdict: Verdict
    evidence: tuple[Evidence, ...] = ()
    cause: str = ""
    look_at: str = ""
    cure: str = ""
    missing: str = ""

    def lines(self) -> list[str]:
        """The symptom for a person, the first line by itself."""
        out = [f"[{_SIGNS[self.verdict]}] {self.title}: {_WORDS[self.verdict]}"]
        if self.verdict == "unknown":
            return [*out, f"     {self.missing}"]
        if self.verdict in ("found", "told"):
            out += [f"     because {e}" for e in self.evidence[:6]]
            more = len(self.evidence) - 6
            out += [f"     and {more} more"] if more > 0 else []
            if self.verdict == "found":
                out += [f"     likely cause: {self.cause}", f"     look at: {self.look_at}", f"     do: {self.cure}"]
        return out


def symptom(name: str, evidence: Sequence[Evidence]) -> Symptom:
    """Found when there is evidence, else clear."""
    title, cause, look_at, cure = ADVICE[name]
    if not evidence:
        return Symptom(name, title, "clear")
    return Symptom(name, title, "found", tuple(evidence), cause, look_at, cure)


def told(name: str, evidence: Sequence[Evidence]) -> Symptom:
    """Nothing wrong, but worth knowing."""
    title, cause, look_at, cure = ADVICE[name]
    return Symptom(name, title, "told", tuple(evidence), cause, look_at, cure)


def unknown(name: str, missing: str) -> Symptom:
    """The log does not say."""
    return Symptom(name, ADVICE[name].title, "unknown", missing=missing)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All symptoms that were looked for, found ones first. Shows itself as text and as HTML."""

    subject: str
    symptoms: tuple[Symptom, ...]

    @property
    def found(self) -> tuple[Symptom, ...]:
        """The symptoms that are there."""
        return tuple(s for s in self.symptoms if s.verdict == "found")

    def __getitem__(self, name: str) -> Symptom:
        """The symptom of that name (see :data:`agentlab.analysis.advice.ADVICE`); ``KeyError`` without it."""
        for symptom in self.symptoms:
            if symptom.name == name:
                return symptom
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as plain data."""
        return {"subject": self.subject, "symptoms": [asdict(s) for s in self.symptoms]}

    def __str__(self) -> str:
        head = f"{self.subject}: {len(self.found)} of {len(self.symptoms)} symptoms found"
        return "\n".join([head, *(line for symptom in self.symptoms for line in symptom.lines())])

    __repr__ = __str__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return diagnosis_html(self)


def diagnose(x: Source, *, lab: Any = None) -> Diagnosis:
    """Look for every known symptom in the log of ``x`` (see :data:`agentlab.analysis.sources.Source`).

    Payloads are not shown: only numbers, names of tools and event numbers. What the log does not record is reported
    as unknown, never as fine.
    """
    from agentlab.analysis.symptoms import CHECKS

    found = analysed(x, lab)
    sessions = found.frame("sessions")
    order = {"found": 0, "told": 1, "unknown": 2, "clear": 3}
    if sessions.empty:
        return Diagnosis("no session", ())
    symptoms = sorted((check(found) for check in CHECKS), key=lambda s: order[s.verdict])
    subject = str(sessions.session_id[0]) if len(sessions) == 1 else f"{len(sessions)} sessions"
    if found.query.damaged:
        subject += f" (damaged and left out: {', '.join(found.query.damaged)})"
    return Diagnosis(subject, tuple(symptoms))


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """The diagnosis as a table with inline styles; every text is escaped."""
    rows = []
    for symptom in diagnosis.symptoms:
        color = _COLOURS[symptom.verdict]
        head = f'<b style="color:{color}">{_SIGNS[symptom.verdict]} {_WORDS[symptom.verdict]}</b>'
        rows.append(
            f'<tr style="vertical-align:top"><td style="text-align:left;padding:4px 10px 4px 0">{_e(symptom.title)}</td>'
            f'<td style="text-align:left;padding:4px 10px 4px 0;white-space:nowrap">{head}</td>'
            f'<td style="text-align:left;padding:4px 0">{_detail(symptom)}</td></tr>'
        )
    title = f"<b>{_e(diagnosis.subject)}</b>: {len(diagnosis.found)} of {len(diagnosis.symptoms)} symptoms found"
    return f'<div>{title}<table style="border-collapse:collapse;margin-top:6px">{"".join(rows)}</table></div>'


def _detail(symptom: Symptom) -> str:
    if symptom.verdict == "unknown":
        return _e(symptom.missing)
    if symptom.verdict == "clear":
        return ""
    shown = _items(symptom.evidence[:4])
    rest = symptom.evidence[4:20]
    more = f"<details><summary>{len(symptom.evidence) - 4} more</summary>{_items(rest)}</details>" if rest else ""
    if symptom.verdict == "told":
        return f"{shown}{more}"
    advice = f"<i>Cause:</i> {_e(symptom.cause)}. <i>Look at:</i> {_e(symptom.look_at)}. <i>Do:</i> {_e(symptom.cure)}."
    return f"{shown}{more}<div>{advice}</div>"


def _items(evidence: Sequence[Evidence]) -> str:
    return (
        '<ul style="margin:0 0 4px 0;padding-left:18px">'
        + "".join(f"<li>{_e(str(e))}</li>" for e in evidence)
        + "</ul>"
    )


def _e(text: str) -> str:
    return html.escape(text, quote=True)
