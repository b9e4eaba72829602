"""Every ``%agent`` line of a cell shows what it returned; IPython alone would show the last expression and drop the rest."""

from __future__ import annotations

import ast
from typing import Any

_SHOWN_ALREADY = ("last", "last_expr", "last_expr_or_assign", "all")
_CALL = "__import__('agentlab.notebook.everyline', fromlist=['show']).show"


def show(value: Any) -> None:
    """Display what a line returned, as the last expression of a cell would be."""
    from IPython import display

    put: Any = display.display
    if value is not None:
        put(value)


class EveryLine(ast.NodeTransformer):
    """Wraps the lines that IPython would not show: all but a cell's last, in loops and conditions as well."""

    def __init__(self, shell: Any, magic: str) -> None:
        self._shell, self._magic = shell, magic

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """The whole cell."""
        how = self._shell.ast_node_interactivity
        if how == "none":
            return node
        for number, statement in enumerate(node.body):
            last = number == len(node.body) - 1
            if not (isinstance(statement, ast.Expr) and (how == "all" or last) and how in _SHOWN_ALREADY):
                self.visit(statement)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        """A statement that is an expression: one of ours is shown."""
        if self._is_line(node.value):
            wrapper = ast.parse(_CALL, mode="eval").body
            node.value = ast.copy_location(ast.Call(wrapper, [node.value], []), node.value)
            ast.fix_missing_locations(node)
        return node

    def _is_line(self, value: ast.expr) -> bool:
        return (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr == "run_line_magic"
            and bool(value.args)
            and isinstance(value.args[0], ast.Constant)
            and value.args[0].value == self._magic
        )
