"""What can be done to an optimizer's state dict without knowing the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sbformat.errors import UnsupportedError

if TYPE_CHECKING:
    from sbformat.pth.state_dict import StateDict


def emptied(state_dict: StateDict) -> StateDict:
    """Return an optimizer's state dict without its state: moments and step counts, two thirds of an archive.

    The parameter groups stay, so that ``load_state_dict``, and so SB3's ``load``, accepts it; training goes on from
    fresh moments.

    :raises UnsupportedError: when it is no optimizer's: no ``state`` and ``param_groups`` in it
    """
    tree: Any = state_dict.tree
    if not isinstance(tree, dict) or not isinstance(tree.get("state"), dict) or "param_groups" not in tree:
        message = "not an optimizer's state dict: it has no 'state' and 'param_groups'"
        raise UnsupportedError(message, entry=state_dict.entry)
    return state_dict.with_tree(type(tree)((key, {} if key == "state" else part) for key, part in tree.items()))
