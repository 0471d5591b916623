"""``policy.pth`` for the target: tensors under the names of today, and what they require of the arguments.

In: the old state dict. Out: a ``Network``: each new tensor with the name that it had, so that ``optimizers`` can move
its state the same way (REBUILDING.md 15.3). Example, an actor-critic policy of SB3 1.6 with one shared layer::

    mlp_extractor.shared_net.0.weight    ->  mlp_extractor.policy_net.0.weight
                                             mlp_extractor.value_net.0.weight   (a copy: they are trained apart)
    mlp_extractor.policy_net.0.weight    ->  mlp_extractor.policy_net.2.weight  (1 is the activation)
    features_extractor.cnn.0.weight      ->  the same, and as pi_features_extractor..., vf_features_extractor...
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import POLICY_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.immutable import Record
from sbformat.known import changes
from sbformat.nets.reading import read_shapes
from sbformat.tools.rebuild.tensors import StorageCopies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.known.changes import Release
    from sbformat.pth import StateDict
    from sbformat.pth.values import TensorInfo
    from sbformat.tools.rebuild.her import HerObservation

_SHARED: Final = f"{changes.SHARED_LAYERS}."
_BRANCHES: Final = (("pi", "mlp_extractor.policy_net."), ("vf", "mlp_extractor.value_net."))
_EXTRACTOR: Final = "features_extractor."
_BRANCH_EXTRACTORS: Final = (f"{changes.ACTOR_EXTRACTOR}.", f"{changes.CRITIC_EXTRACTOR}.")
_ACTOR_AND_CRITIC_EXTRACTORS: Final = (f"actor.{_EXTRACTOR}", f"critic.{_EXTRACTOR}")
_LAYER: Final = re.compile(r"([0-9]{1,4})\.(.+)")
_BUFFERS: Final = frozenset({"running_mean", "running_var", "num_batches_tracked", "ra_mean", "ra_var", "steps"})
"""Last parts of the names of tensors that are not parameters: those of batch norm and of CrossQ's renorm."""
_OLD_CNN: Final = (changes.OLD_FILTERS[2], changes.OLD_FILTERS[1], 3, 3)
"""The third layer of the NatureCNN with fewer filters."""


class Tensor(Record):
    """A tensor of the new state dict, and the name that it had."""

    name: str
    origin: str
    info: TensorInfo


class Network(Record):
    """A policy's state dict for the target."""

    tensors: tuple[Tensor, ...]
    metadata: Any
    net_arch: dict[str, list[int]] | None
    """The new ``net_arch``, when shared layers were split."""
    old_default_net_arch: dict[str, list[int]] | None
    """The ``net_arch`` of actor and critics, when it was a default that changed."""
    shares_extractor: bool
    """Whether actor and critics share the weights of one features extractor."""
    notes: tuple[str, ...]
    """What was done, in sentences."""

    @property
    def tree(self) -> OrderedDict[str, TensorInfo]:
        """The state dict."""
        made = OrderedDict((tensor.name, tensor.info) for tensor in self.tensors)
        if self.metadata is not None:
            made._metadata = self.metadata  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
        return made


def rebuild_network(
    state_dict: StateDict, kind: str, target: Release, *, her: HerObservation | None, has_sb3_policy: bool
) -> Network:
    """Return the policy's tensors under the names of the target.

    :param state_dict: of the policy
    :param kind: of the algorithm's family
    :param target: the release of SB3
    :param her: the parts of an observation of HER before SB3 1.1
    :param has_sb3_policy: whether the policy class of the result is SB3's own
    :raises UnsupportedError: when the target does not have such a network
    """
    read_shapes(state_dict)
    tree: Any = state_dict.tree
    _refuse_removed_networks(tree, has_sb3_policy=has_sb3_policy)
    tensors = [Tensor(name, name, info) for name, info in tree.items()]
    renamed: list[tuple[str, tuple[str, ...]]] = []
    notes: list[str] = []
    net_arch = None
    is_sb3s = has_sb3_policy or kind == "critics"
    if is_sb3s and any(_rename(name, target) != name for name in tree):
        tensors = [tensor._replace(name=_rename(tensor.name, target)) for tensor in tensors]
        notes += _describe_renamed(tree, target)
    if kind == "ars" and any(name.startswith("action_net.") and name.count(".") == 1 for name in tree):
        tensors = [tensor._replace(name=tensor.name.replace("action_net.", "action_net.0.", 1)) for tensor in tensors]
        notes.append(f"action_net is action_net.0 since SB3 {changes.ARS_SEQUENCE}")
    if kind == "actor_critic":
        if any(name.startswith(_SHARED) for name in tree):
            tensors, net_arch = _split_shared_layers(tensors, tree)
            notes.append("shared layers are now in both the policy and the value network, with the same weights")
            renamed.append((_SHARED, tuple(prefix for _, prefix in _BRANCHES)))
        lacking = _find_lacking_extractors(tree)
        if lacking:
            tensors = list(_add_branch_extractors(tensors, lacking))
            since = changes.BRANCH_EXTRACTORS
            notes.append(f"the features extractor has three names since SB3 {since}, with the same weights")
            renamed.append((_EXTRACTOR, (_EXTRACTOR, *lacking)))
    if her is not None:
        tensors = [tensor._replace(info=her.widen(tensor.name, tensor.info)) for tensor in tensors]
        notes.append("columns of first layers are in the order of the Dict space; those of the achieved goal are zero")
    made = tuple(tensors)
    return Network(
        made,
        _rename_metadata(tree, target, renamed),
        net_arch,
        _find_old_default_net_arch(made) if kind == "critics" else None,
        kind == "critics" and _shares_extractor(tree),
        tuple(notes),
    )


def _refuse_removed_networks(tree: dict[str, TensorInfo], *, has_sb3_policy: bool) -> None:
    message = ""
    if any(part.startswith(f"{changes.NOISE_LAYERS}.") for name in tree for part in (name, name.partition(".")[2])):
        message = f"its exploration noise has its own layers ({changes.NOISE_ARGUMENT}), which SB3 2 does not support"
    elif has_sb3_policy and any(
        name.endswith(f"{_EXTRACTOR}cnn.4.weight") and info.shape == _OLD_CNN for name, info in tree.items()
    ):
        filters = f"{changes.OLD_FILTERS[2]} filters, but {changes.FILTERS[2]} since {changes.WIDE_CNN}"
        message = f"its NatureCNN is that of SB3 {changes.FIRST}: the third layer has {filters}"
    if message:
        raise UnsupportedError(message, entry=POLICY_ENTRY)


def _rename(name: str, target: Release) -> str:
    """Return the name of a tensor or module in the target."""
    return changes.rename(changes.rename(name, changes.own_names()), changes.stored_names(target))


def _describe_renamed(tree: dict[str, TensorInfo], target: Release) -> Iterator[str]:
    """Yield a sentence for each module that has another name in the target."""
    modules = {".".join(name.split(".")[:2]) for name in tree}
    for row in changes.RENAMED_MODULES:
        old = next((f"{parent}.{name}" for parent in row.within for name in (row.name, row.stored)
                    if f"{parent}.{name}" in modules), "")  # fmt: skip
        if old and (new := _rename(old, target)) != old:
            yield f"{old} is {new} since SB3 {row.since if row.is_in(target) else row.until}"


# -- shared layers ------------------------------------------------------------------------------------


def _split_shared_layers(
    tensors: list[Tensor], tree: dict[str, TensorInfo]
) -> tuple[list[Tensor], dict[str, list[int]]]:
    """Give both branches the shared layers first, then their own; return the tensors and the new ``net_arch``."""
    matches = (_LAYER.fullmatch(name.removeprefix(_SHARED)) for name in tree if name.startswith(_SHARED))
    last = max((int(match[1]) for match in matches if match), default=-1)
    offset = last + 2  # an activation follows the last shared layer
    shared = [tensor for tensor in tensors if tensor.name.startswith(_SHARED)]
    made: list[Tensor] = []
    net_arch: dict[str, list[int]] = {}
    copies = StorageCopies()
    for index, (branch, prefix) in enumerate(_BRANCHES):
        layers = [
            tensor._replace(
                name=prefix + tensor.name.removeprefix(_SHARED),
                info=copies.copy(tensor.info) if index else tensor.info,
            )
            for tensor in shared
        ]
        layers += _move_layers([tensor for tensor in tensors if tensor.name.startswith(prefix)], prefix, offset)
        weights = [layer.info for layer in layers if layer.name.endswith(".weight")]
        if any(len(info.shape) != 2 for info in weights):
            message = "a layer of its policy or value network is not a matrix"
            raise UnsupportedError(message, entry=POLICY_ENTRY)
        net_arch[branch] = [info.shape[0] for info in weights]
        made += layers
    prefixes = (_SHARED, *(prefix for _, prefix in _BRANCHES))
    at = next(index for index, tensor in enumerate(tensors) if tensor.name.startswith(prefixes))
    others = [tensor for tensor in tensors if not tensor.name.startswith(prefixes)]
    position = sum(not tensor.name.startswith(prefixes) for tensor in tensors[:at])
    return [*others[:position], *made, *others[position:]], net_arch


def _move_layers(tensors: list[Tensor], prefix: str, offset: int) -> Iterator[Tensor]:
    """Yield the layers of a branch with their numbers increased."""
    for tensor in tensors:
        match = _LAYER.fullmatch(tensor.name.removeprefix(prefix))
        if match is None:
            message = "its policy or value network does not consist of numbered layers"
            raise UnsupportedError(message, entry=POLICY_ENTRY)
        yield tensor._replace(name=f"{prefix}{int(match[1]) + offset}.{match[2]}")


# -- features extractors ------------------------------------------------------------------------------


def _find_old_default_net_arch(tensors: tuple[Tensor, ...]) -> dict[str, list[int]] | None:
    """Return ``net_arch`` when actor and critics have no hidden layers, once the default for images."""
    names = [tensor.name for tensor in tensors]
    is_bare = not any(name.startswith(("actor.latent_pi.", "actor.mu.2.", "critic.qf0.2.")) for name in names)
    has_extractor = any(name.startswith(_ACTOR_AND_CRITIC_EXTRACTORS) for name in names)
    return {"pi": [], "qf": []} if is_bare and has_extractor else None


def _shares_extractor(tree: dict[str, TensorInfo]) -> bool:
    actor, critic = (
        {name.removeprefix(prefix): info for name, info in tree.items() if name.startswith(prefix)}
        for prefix in _ACTOR_AND_CRITIC_EXTRACTORS
    )
    return any(
        other.storage is info.storage and other.offset == info.offset
        for name, info in actor.items()
        if (other := critic.get(name)) is not None and info.numel
    )


def _find_lacking_extractors(tree: dict[str, TensorInfo]) -> tuple[str, ...]:
    """Return the names under which the features extractor is missing: once, both.

    The policy network's is always the same module as ``features_extractor``. The value network's alone may be another
    one (``share_features_extractor=False``), and is not replaced.
    """
    if not any(name.startswith(_EXTRACTOR) for name in tree):
        return ()
    lacking = tuple(prefix for prefix in _BRANCH_EXTRACTORS if not any(name.startswith(prefix) for name in tree))
    return lacking if _BRANCH_EXTRACTORS[0] in lacking else ()


def _add_branch_extractors(tensors: list[Tensor], prefixes: tuple[str, ...]) -> Iterator[Tensor]:
    """Yield all tensors; after the extractor's, the same memory under its other names."""
    own = [tensor for tensor in tensors if tensor.name.startswith(_EXTRACTOR)]
    for tensor in tensors:
        yield tensor
        if tensor is own[-1]:
            for prefix in prefixes:
                for one in own:
                    yield one._replace(name=prefix + one.name.removeprefix(_EXTRACTOR))


def _rename_metadata(tree: Any, target: Release, renamed: list[tuple[str, tuple[str, ...]]]) -> Any:
    """Return the versions of the modules under their new names; torch assumes the oldest for a missing one.

    :param tree: the old state dict, with torch's ``_metadata``
    :param target: the release of SB3
    :param renamed: prefixes that have other names now
    """
    metadata = getattr(tree, "_metadata", None)
    if not isinstance(metadata, dict):
        return None
    parts = [name.split(".") for name in tree]
    modules = {".".join(part[:end]) for part in parts for end in range(len(part))}
    made: OrderedDict[Any, Any] = OrderedDict()
    for path, module in metadata.items():
        version = module.get("version") if isinstance(module, dict) else None
        if type(path) is not str or type(version) is not int or path not in modules:
            continue
        names = [_rename(f"{path}.", target)]
        for old, new in renamed:
            if names[0].startswith(old):
                names = [prefix + names[0].removeprefix(old) for prefix in new]
        for name in names:
            made[name.removesuffix(".")] = {"version": version}
    return made


# -- the order of an optimizer ------------------------------------------------------------------------


def list_parameters(tensors: tuple[Tensor, ...], prefix: str = "") -> list[Tensor]:
    """Return the tensors that are parameters, each once, in the order of torch's ``Module.parameters()``.

    :param prefix: the prefix of the module
    """
    seen = set()
    found = []
    for tensor in tensors:
        info = tensor.info
        if not tensor.name.startswith(prefix) or tensor.name.rpartition(".")[2] in _BUFFERS:
            continue
        memory = id(info.storage), info.offset, info.shape
        if memory not in seen or not info.numel:
            seen.add(memory)
            found.append(tensor)
    return found
