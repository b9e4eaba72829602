"""The pure middle: state, fold, decide and the recovery plan."""

from agentlab.session.decide import Run, decide
from agentlab.session.fold import fold, fold_all
from agentlab.session.state import STATE_SCHEMA_VERSION, State

__all__ = ["STATE_SCHEMA_VERSION", "Run", "State", "decide", "fold", "fold_all"]
