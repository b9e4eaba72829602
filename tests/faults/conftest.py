from __future__ import annotations

import pytest

from agentlab.explorer.outbox import FileOutbox
from agentlab.lab import Lab

from . import tasks


@pytest.fixture
def lab(tmp_path):
    with Lab(tmp_path / "lab") as made:
        yield made


class Ran:
    """A session of the task under a schedule, and what the outside has counted."""

    def __init__(self, lab, faults, task=tasks.ROUNDS, seed=None, **overrides):
        self.box = lab.path / f"outbox-{len(lab.store.sessions())}.jsonl"
        params = {**overrides.pop("params", {}), "outbox": str(self.box)}
        self.session = lab.create(task, faults=faults, seed=seed, params=params, **overrides)

    def go(self, timeout_s=240):
        self.session.start()
        self.session.wait(timeout_s)
        return self

    @property
    def events(self):
        return self.session.events()

    def kinds(self, kind):
        return [event for event in self.events if event.type == kind]

    def delivered(self):
        return [line["message"] for line in FileOutbox(self.box)._lines() if "message" in line]

    def struck(self):
        return [row.words for row in self.session.faults() if row.state == "struck"]


@pytest.fixture
def ran(lab):
    def run(faults, **options):
        return Ran(lab, faults, **options)

    return run
