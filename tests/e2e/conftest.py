import time
from collections.abc import Callable

import pytest

from agentlab.effects.receiver import ReceiverProcess
from agentlab.lab import Lab


@pytest.fixture
def lab(tmp_path):
    with Lab(tmp_path / "lab") as made:
        yield made


@pytest.fixture
def receiver(tmp_path):
    with ReceiverProcess(tmp_path / "receiver") as process:
        yield process


@pytest.fixture
def until():
    """Poll a condition until it holds, with a deadline."""

    def wait(condition: Callable[[], object], seconds: float = 60.0, what: str = "") -> object:
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds} s: {what or condition}")
            time.sleep(0.01)

    return wait
