"""Schedule functions of users, compiled by the running Python and pickled by value as cloudpickle does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.helpers.build_blobs import code_parts, function, new
from tests.helpers.old_archives import blob

if TYPE_CHECKING:
    from sbformat.data import Serialized

UTILS: Final = "stable_baselines3.common.utils"


def build_function(source: str, cells: dict[str, object] | None = None) -> Any:
    """Return the tree of a function of one argument.

    :param source: the expression that it returns, in which ``p`` is the remaining progress, or the lines of its body
    :param cells: its free variables
    """
    body = source if "\n" in source else f"return {source}"
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    names = ", ".join(cells or {})
    text = f"def make({names}):\n  def schedule(p):\n{lines}\n  return schedule\n"
    scope: dict[str, Any] = {}
    exec(compile(text, "/home/me/train.py", "exec"), scope)  # noqa: S102 -- the text of a test
    made = scope["make"](*(cells or {}).values())
    contents = tuple((cells or {})[name] for name in made.__code__.co_freevars)
    return function(
        code_parts(made.__code__), contents, "make.<locals>.schedule", base={"__name__": "__main__"},
        spelling="fill", __module__="__main__", __doc__=None,
    )[0]  # type: ignore[index]  # fmt: skip


def build_schedule(source: str, cells: dict[str, object] | None = None, *, in_floats: bool = False) -> Serialized:
    """Return a value of ``data``: the function of :func:`build_function`, within a ``FloatSchedule`` on request."""
    made = build_function(source, cells)
    return blob(new(UTILS, "FloatSchedule", {"value_schedule": made}) if in_floats else made)
