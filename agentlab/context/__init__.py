"""Context in three layers: what the model sees, chosen as references and rendered as text. Pure.

*fixed* (role, tools, global constraints) is byte-stable; *task* (goal, the user's words, parameters, anchors) is in
every request verbatim; *scratch* (answers, results) is the only layer that is made smaller, by named strategies and by
whole rounds, so that tool_use and tool_result never part.
"""

from agentlab.context.anchors import MAX_ANCHORS
from agentlab.context.messages import build_messages, fixed_text, task_block, task_text, told_notes
from agentlab.context.showing import Outcome, conclusions, result_text
from agentlab.context.sizes import RESULT_LIMIT, estimate_tokens, response_tokens, result_tokens
from agentlab.context.spec import STRATEGY_NAMES, ContextSpec
from agentlab.context.state import WHOLE, Block, ContextState, add, compacted, drop_before, purified
from agentlab.context.strategies import STRATEGIES, Cut, cut_payload, due, plan_cut, ranges

__all__ = [
    "MAX_ANCHORS",
    "RESULT_LIMIT",
    "STRATEGIES",
    "STRATEGY_NAMES",
    "WHOLE",
    "Block",
    "ContextSpec",
    "ContextState",
    "Cut",
    "Outcome",
    "add",
    "build_messages",
    "compacted",
    "conclusions",
    "cut_payload",
    "drop_before",
    "due",
    "estimate_tokens",
    "fixed_text",
    "plan_cut",
    "purified",
    "ranges",
    "response_tokens",
    "result_text",
    "result_tokens",
    "task_block",
    "task_text",
    "told_notes",
]
