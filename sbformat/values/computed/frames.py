"""The stack and the variables of one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.values.computed.errors import refuse

if TYPE_CHECKING:
    from sbformat.values.computed.instructions import Instruction
    from sbformat.values.computed.objects import Cell, Closure

MOST_STACK: Final = 256
RUNNING: Final = object()
"""The result of a call that has not returned."""


class Frame:
    """One call of a function."""

    def __init__(self, closure: Closure, local: dict[str, Any], instructions: list[Instruction]) -> None:
        self.closure = closure
        self.locals = local
        self.cells: dict[str, Cell] = {}
        self.instructions = instructions
        self.position = 0
        self.stack: list[Any] = []
        self.loops: list[tuple[int, int]] = []
        """Of SETUP_LOOP and other blocks: where BREAK_LOOP continues, and the height of the stack."""
        self.result: Any = RUNNING

    def pop(self) -> Any:
        if not self.stack:
            refuse("its bytecode takes more from the stack than there is")
        return self.stack.pop()

    def pop_many(self, count: int) -> list[Any]:
        """Return the topmost items, in their order on the stack."""
        if count > len(self.stack):
            refuse("its bytecode takes more from the stack than there is")
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items

    def peek(self, depth: int) -> Any:
        """Return an item of the stack, of which 1 is the topmost."""
        if not 1 <= depth <= len(self.stack):
            refuse("its bytecode takes more from the stack than there is")
        return self.stack[-depth]

    def push(self, value: Any) -> None:
        if len(self.stack) >= MOST_STACK:
            refuse("its stack is too large")
        self.stack.append(value)
