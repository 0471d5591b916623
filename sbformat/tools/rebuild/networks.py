"""``policy.pth`` for the target: the names and layers of today (FORMAT.md 15.3)."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sbformat.constants import POLICY_ENTRY
from sbformat.errors import UnsupportedError
from sbformat.pth.values import TensorInfo
from sbformat.tools.rebuild.tensors import Copies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.tools.rebuild.context import Job

_SHARED: Final = "mlp_extractor.shared_net."
_BRANCHES: Final = (("pi", "mlp_extractor.policy_net."), ("vf", "mlp_extractor.value_net."))
_EXTRACTOR: Final = "features_extractor."
_OWN_EXTRACTORS: Final = ("pi_features_extractor.", "vf_features_extractor.")
_EXTRACTORS: Final = ("actor.features_extractor.", "critic.features_extractor.")
_OLD_CRITIC: Final = re.compile(r"^(critic|critic_target)\.q([12])_net\.")
_LAYER: Final = re.compile(r"([0-9]{1,4})\.(.+)")
_BUFFERS: Final = frozenset({"running_mean", "running_var", "num_batches_tracked", "ra_mean", "ra_var", "steps"})
"""What a state dict holds beside parameters, by the last part of the name: of batch norm and CrossQ's renorm."""
_OLD_CNN: Final = (32, 64, 3, 3)
"""The third layer of SB3 0.6's NatureCNN, which has 64 filters since 0.8."""


class Tensor(NamedTuple):
    """A tensor of the new state dict, and the name that it had."""

    name: str
    origin: str
    info: TensorInfo


class Network(NamedTuple):
    """A policy's state dict for the target."""

    tensors: tuple[Tensor, ...]
    metadata: Any
    net_arch: dict[str, list[int]] | None
    """What the layers are now, when shared ones were parted."""
    sizes: dict[str, list[int]] | None
    """What the layers of actor and critics are, where that is no default of today."""
    shares_extractor: bool
    """Whether actor and critics have the weights of one features extractor."""
    notes: tuple[str, ...]
    """What was done, in sentences."""

    @property
    def tree(self) -> OrderedDict[str, TensorInfo]:
        """The state dict."""
        made = OrderedDict((tensor.name, tensor.info) for tensor in self.tensors)
        if self.metadata is not None:
            made._metadata = self.metadata  # type: ignore[attr-defined]  # noqa: SLF001 -- torch's own name
        return made


def rebuilt_network(job: Job) -> Network:
    """Return the policy's tensors by the names of the target.

    :raises UnsupportedError: when it is a network that the target does not have
    """
    state_dict = job.archive.parameters["policy"]
    tree: Any = state_dict.tree
    if not isinstance(tree, dict) or any(
        type(name) is not str or not isinstance(info, TensorInfo) for name, info in tree.items()
    ):
        message = "it is no state dict of tensors"
        raise UnsupportedError(message, entry=POLICY_ENTRY)
    _refuse_other_networks(job, tree)
    tensors = [Tensor(name, name, info) for name, info in tree.items()]
    rename: list[tuple[str, tuple[str, ...]]] = []
    notes: list[str] = []
    net_arch = None
    if job.family.kind == "critics" and any(_OLD_CRITIC.match(name) for name in tree):
        tensors = [tensor._replace(name=_new_critic(tensor.name)) for tensor in tensors]
        notes.append("critics q1_net and q2_net are qf0 and qf1 since SB3 0.8")
    if job.family.kind == "ars" and any(name.startswith("action_net.") and name.count(".") == 1 for name in tree):
        tensors = [tensor._replace(name=tensor.name.replace("action_net.", "action_net.0.", 1)) for tensor in tensors]
        notes.append("action_net is action_net.0 since SB3 1.7")
    if job.family.kind == "actor_critic":
        shared = 1 + max((layer for layer, _ in _layers(tree, _SHARED)), default=-1)
        if any(name.startswith(_SHARED) for name in tree):
            tensors, net_arch = _parted(tensors, shared)
            notes.append("layers that policy and value network shared are in both now, with the same weights")
            rename.append((_SHARED, tuple(prefix for _, prefix in _BRANCHES)))
        if _lacks_extractors(tree):
            tensors = list(_with_extractors(tensors))
            notes.append("the features extractor is there by three names since SB3 1.7, over the same weights")
            rename.append((_EXTRACTOR, (_EXTRACTOR, *_OWN_EXTRACTORS)))
    if job.hindsight is not None:
        hindsight = job.hindsight
        tensors = [tensor._replace(info=hindsight.widened(tensor.name, tensor.info)) for tensor in tensors]
        notes.append("first layers take the goal's columns in the order of the Dict space; those not used are zero")
    shares = job.family.kind == "critics" and _shares_extractor(tree)
    made = tuple(tensors)
    sizes = _sizes(made) if job.family.kind == "critics" else None
    return Network(made, _metadata(tree, rename), net_arch, sizes, shares, tuple(notes))


def _refuse_other_networks(job: Job, tree: dict[str, TensorInfo]) -> None:
    message = ""
    if any(part.startswith("sde_features_extractor.") for name in tree for part in (name, name.partition(".")[2])):
        message = "its noise has layers of its own (sde_net_arch), which SB3 2 does not have"
    elif job.is_of_sb3 and any(
        name.endswith("features_extractor.cnn.4.weight") and info.shape == _OLD_CNN for name, info in tree.items()
    ):
        message = "its NatureCNN is that of SB3 0.6: the third layer has 32 filters, and 64 ever since"
    if message:
        raise UnsupportedError(message, entry=POLICY_ENTRY)


def _new_critic(name: str) -> str:
    return _OLD_CRITIC.sub(lambda match: f"{match[1]}.qf{int(match[2]) - 1}.", name)


# -- layers -------------------------------------------------------------------------------------------


def _layers(tree: dict[str, TensorInfo], prefix: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers of the layers below a name, with the names of their tensors."""
    for name in tree:
        match = _LAYER.fullmatch(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if match:
            yield int(match[1]), match[2]


def _parted(tensors: list[Tensor], shared: int) -> tuple[list[Tensor], dict[str, list[int]]]:
    """Give both branches the shared layers first, then their own; return the sizes of each branch's layers.

    :param shared: the number of the last shared layer that has weights, plus one; an activation follows it
    """
    offset = shared + 1
    before = [tensor for tensor in tensors if tensor.name.startswith(_SHARED)]
    made: list[Tensor] = []
    net_arch: dict[str, list[int]] = {}
    copies = Copies()
    for index, (branch, prefix) in enumerate(_BRANCHES):
        own = [tensor for tensor in tensors if tensor.name.startswith(prefix)]
        layers = [
            tensor._replace(
                name=prefix + tensor.name.removeprefix(_SHARED),
                info=copies.tensor(tensor.info) if index else tensor.info,
            )
            for tensor in before
        ]
        for tensor in own:
            match = _LAYER.fullmatch(tensor.name.removeprefix(prefix))
            if match is None:
                message = "its policy or value network is not made of numbered layers"
                raise UnsupportedError(message, entry=POLICY_ENTRY)
            layers.append(tensor._replace(name=f"{prefix}{int(match[1]) + offset}.{match[2]}"))
        weights = [layer.info for layer in layers if layer.name.endswith(".weight")]
        if any(len(info.shape) != 2 for info in weights):
            message = "a layer of its policy or value network is no matrix"
            raise UnsupportedError(message, entry=POLICY_ENTRY)
        net_arch[branch] = [info.shape[0] for info in weights]
        made += layers
    prefixes = (_SHARED, *(prefix for _, prefix in _BRANCHES))
    at = next(index for index, tensor in enumerate(tensors) if tensor.name.startswith(prefixes))
    others = [tensor for tensor in tensors if not tensor.name.startswith(prefixes)]
    position = sum(not tensor.name.startswith(prefixes) for tensor in tensors[:at])
    return [*others[:position], *made, *others[position:]], net_arch


def _sizes(tensors: tuple[Tensor, ...]) -> dict[str, list[int]] | None:
    """Return the hidden layers of actor and critics, when they are none: what image policies had before SB3 1.6."""
    names = [tensor.name for tensor in tensors]
    is_bare = not any(name.startswith(("actor.latent_pi.", "actor.mu.2.", "critic.qf0.2.")) for name in names)
    has_extractor = any(name.startswith(_EXTRACTORS) for name in names)
    return {"pi": [], "qf": []} if is_bare and has_extractor else None


def _shares_extractor(tree: dict[str, TensorInfo]) -> bool:
    actor, critic = (
        {name.removeprefix(prefix): info for name, info in tree.items() if name.startswith(prefix)}
        for prefix in _EXTRACTORS
    )
    return any(
        other.storage is info.storage and other.offset == info.offset
        for name, info in actor.items()
        if (other := critic.get(name)) is not None and info.numel
    )


def _lacks_extractors(tree: dict[str, TensorInfo]) -> bool:
    return any(name.startswith(_EXTRACTOR) for name in tree) and not any(
        name.startswith(_OWN_EXTRACTORS) for name in tree
    )


def _with_extractors(tensors: list[Tensor]) -> Iterator[Tensor]:
    """Repeat the extractor's tensors by their other names, right behind them: the same memory."""
    own = [tensor for tensor in tensors if tensor.name.startswith(_EXTRACTOR)]
    for tensor in tensors:
        yield tensor
        if tensor is own[-1]:
            for prefix in _OWN_EXTRACTORS:
                for one in own:
                    yield one._replace(name=prefix + one.name.removeprefix(_EXTRACTOR))


def _metadata(tree: Any, rename: list[tuple[str, tuple[str, ...]]]) -> Any:
    """The versions of the modules by their new names; torch takes a module without one for the oldest."""
    metadata = getattr(tree, "_metadata", None)
    if not isinstance(metadata, dict):
        return None
    parts = [name.split(".") for name in tree]
    modules = {".".join(part[:end]) for part in parts for end in range(len(part))}
    made: OrderedDict[Any, Any] = OrderedDict()
    for path, said in metadata.items():
        version = said.get("version") if isinstance(said, dict) else None
        if type(path) is not str or type(version) is not int or path not in modules:
            continue
        names = [_new_critic(f"{path}.")]
        for old, new in rename:
            if names[0].startswith(old):
                names = [prefix + names[0].removeprefix(old) for prefix in new]
        for name in names:
            made[name.removesuffix(".")] = {"version": version}
    return made


# -- the order of an optimizer ------------------------------------------------------------------------


def parameters(tensors: tuple[Tensor, ...], prefix: str = "") -> list[Tensor]:
    """Return those that are parameters, each once, in the order that ``Module.parameters`` gives them.

    :param prefix: of the module
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
