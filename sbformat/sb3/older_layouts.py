"""The older layouts of state dicts that SB3's own ``load`` accepts with a warning (REBUILDING.md 15.3, 15.5).

They are recognized by their tensors; :func:`sbformat.rebuild` converts both, and nothing is lost. A warning is due only
if a later release saved the archive: the layout is not that release's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import POLICY_ENTRY, PTH_SUFFIX
from sbformat.errors import SbformatError
from sbformat.known.changes import ACTOR_EXTRACTOR, BRANCH_EXTRACTORS, ONE_NETWORK_OPTIMIZER
from sbformat.tools.rebuild.rebuild_context import find_source_release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.archive.archive import Archive

_OPTIMIZER_ENTRY: Final = f"policy.optimizer{PTH_SUFFIX}"
_SAVE_AGAIN: Final = "save it again to get rid of this warning"


def iter_older_layouts(original: Archive, rebuilt: Archive) -> Iterator[str]:
    """Yield a sentence for each older layout in an archive of a release that has a newer one.

    :param original: the archive that was read
    :param rebuilt: the same for the installed release
    """
    release = find_source_release(original)
    old, new = (_read_tree(archive, POLICY_ENTRY) for archive in (original, rebuilt))
    has_one = _has(old, "features_extractor") and not _has(old, ACTOR_EXTRACTOR)
    if release >= BRANCH_EXTRACTORS and has_one and _has(new, ACTOR_EXTRACTOR):
        yield (
            f"the policy has the layout of SB3 < {BRANCH_EXTRACTORS}, with fewer names for its features extractor, and "
            f"SB3 {release} saved it: {_SAVE_AGAIN}"
        )
    old_size, new_size = (_count_parameters(_read_tree(archive, _OPTIMIZER_ENTRY)) for archive in (original, rebuilt))
    if release >= ONE_NETWORK_OPTIMIZER and new_size and old_size == 2 * new_size:
        yield (
            f"the optimizer has the layout of SB3 < {ONE_NETWORK_OPTIMIZER}, with the target network's parameters, and "
            f"SB3 {release} saved it: {_SAVE_AGAIN}"
        )


def _read_tree(archive: Archive, name: str) -> Any:
    """Return a state dict's tree; empty when it is missing or cannot be decoded."""
    try:
        return archive.state_dict(name).tree if name in archive.contents else {}
    except SbformatError:
        return {}


def _has(tree: Any, module: str) -> bool:
    return isinstance(tree, dict) and any(isinstance(name, str) and name.startswith(f"{module}.") for name in tree)


def _count_parameters(tree: Any) -> int:
    """Return the number of parameters of an optimizer with one group; 0 for anything else."""
    groups = tree.get("param_groups") if isinstance(tree, dict) else None
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], dict):
        return 0
    parameters = groups[0].get("params")
    return len(parameters) if isinstance(parameters, list) else 0
