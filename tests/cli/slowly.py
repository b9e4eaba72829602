"""The policy of the sales task, with time to think: so that a run can be interrupted in the middle."""

from __future__ import annotations

import time
from typing import Any

from agentlab.models.view import View
from agentlab.tasks import sales


def policy(view: View) -> Any:
    time.sleep(0.3)
    return sales.policy(view)
