"""Secrets never reach the log: values of secret-looking environment variables are replaced before sealing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agentlab.events import Draft, canonical

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|AUTH|DSN", re.IGNORECASE)
_SHORTEST = 8


class Redactor:
    """Replaces known secret values in drafts by ``[redacted:NAME]``."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        # Longest first, so that a secret that contains another one is replaced whole. A tool may give JSON as text, in
        # which a secret stands escaped.
        forms = {(form, name) for name, v in secrets.items() if len(v) >= _SHORTEST for form in _forms(v)}
        self._secrets = sorted(forms, key=lambda p: (-len(p[0]), p))
        self.active = bool(self._secrets)
        """Whether there is any secret to look for."""
        self._forms = tuple({form for v, _ in self._secrets for form in (v, canonical(v)[1:-1])})

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], extra: Mapping[str, str] | None = None) -> Redactor:
        """Secrets are values of at least eight characters whose variable's name looks like a secret's."""
        found = {k: v for k, v in environment.items() if _SECRET_NAME.search(k) and not v.startswith(("/", "unix:"))}
        return cls({**found, **(extra or {})})

    def finds(self, text: str) -> bool:
        """Whether canonical JSON ``text`` holds a secret."""
        return any(form in text for form in self._forms)

    def clean(self, draft: Draft) -> Draft:
        """``draft`` without secrets."""
        return replace(draft, payload=self._scrub(draft.payload), error=self._scrub(draft.error))

    def names_in(self, data: bytes) -> list[str]:
        """Names of the variables whose secrets stand in ``data``."""
        return sorted({name for secret, name in self._secrets if secret.encode("utf-8", "surrogateescape") in data})

    def value(self, value: Any) -> Any:
        """Plain data without secrets."""
        return self._scrub(value)

    def text(self, value: str) -> str:
        """``value`` without secrets."""
        for secret, name in self._secrets:
            value = value.replace(secret, f"[redacted:{name}]")
        return value

    def _scrub(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(k): self._scrub(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._scrub(v) for v in value]
        return value


def _forms(secret: str) -> set[str]:
    return {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
