"""The policy of the sales task, which waits in its third turn for a file: so that a run is interrupted in the middle."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from agentlab.models.view import View
from agentlab.tasks import sales

GATE = "AGENTLAB_TEST_GATE"
"""The variable that names the file; without it nothing is waited for."""


def policy(view: View) -> Any:
    gate = os.environ.get(GATE)
    while gate and len(view.rounds) >= 2 and not Path(gate).exists():
        time.sleep(0.01)
    return sales.policy(view)
