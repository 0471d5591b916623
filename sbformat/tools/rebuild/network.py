"""``policy.pth`` for the target: tensors under the names of today, and what they require of the arguments.

In: the old state dict. Out: a ``Network``, whose tensors have their old names, too, so that ``optimizers`` can move
states the same way (REBUILDING.md 15.3); and whether SB3 can load it. Example, SB3 1.6, one shared layer::

    mlp_extractor.shared_net.0.weight    ->  mlp_extractor.policy_net.0.weight
                                             mlp_extractor.value_net.0.weight   (a copy: they are trained apart)
    mlp_extractor.policy_net.0.weight    ->  mlp_extractor.policy_net.2.weight  (1 is the activation)
    features_extractor.cnn.0.weight      ->  the same, and as pi_features_extractor..., vf_features_extractor...

HER before SB3 1.1 was an algorithm that wrapped another one, and concatenated ``observation + desired_goal``; now it is
a replay buffer, and the Dict of observations has ``achieved_goal, desired_goal, observation`` (REBUILDING.md 15.4). So
the columns of each first layer are reordered, and those of the achieved goal, which it never received, are zero.
Example, a row of SAC's critic for 3 numbers of observation (o), 2 of goal (g), one action (a)::

    before  o0 o1 o2 g0 g1 a0
    after   0  0  g0 g1 o0 o1 o2 a0
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.immutable import Record
from sbformat.known import changes
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Box, DictSpace, Discrete, MultiBinary, MultiDiscrete, Space
from sbformat.known.types import Reference
from sbformat.nets.arguments import Agent, NetworkError, is_true
from sbformat.nets.reading import compare_network, read_shapes
from sbformat.nets.wrappers import unwrap_policy
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.values import DTYPES, Storage, TensorInfo
from sbformat.tools.rebuild.rebuild_report import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.known.changes import Release
    from sbformat.nets.reading import NetworkMatch
    from sbformat.pth import StateDict
    from sbformat.tools.rebuild.rebuild_context import RebuildContext

# -- tensors, without numpy ---------------------------------------------------------------------------

_CPU: Final = "cpu"


def make_storage(data: bytes, dtype: str) -> Storage:
    """Return a storage of little-endian bytes in memory."""
    numel = len(data) // DTYPES[dtype].itemsize
    return Storage("0", dtype, numel, _CPU, "little", lambda _: memoryview(data), "")


def make_scalar(value: float) -> TensorInfo:
    """Return a float32 tensor without dimensions; torch >= 1.12 counts an optimizer's steps in one."""
    return TensorInfo("float32", (), (), 0, make_storage(struct.pack("<f", value), "float32"))


class Copies:
    """Copies in new storages on the CPU, read when they are written; what shares memory still does."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}
        """The copy by the ``id()`` of the original, and the original, so that no other gets its ``id()``."""

    def copy_tensor(self, info: TensorInfo) -> TensorInfo:
        """Return a copy of a tensor."""
        old = info.storage
        if id(old) not in self._made:
            new = Storage(old.key, old.dtype, old.numel, _CPU, old.byte_order, lambda _: old.bytes(), "")
            self._made[id(old)] = new, old
        return info._replace(storage=self._made[id(old)][0])

    def move(self, value: Any) -> Any:
        """Return a tree with every tensor on the CPU, and numpy's scalars as Python numbers.

        What no optimizer of torch stores, such as sparse tensors, is unchanged: ``Optimizer`` leaves it out.
        """
        if id(value) not in self._made:
            made = self._move(value)
            if made is value:
                return value
            self._made[id(value)] = made, value
        return self._made[id(value)][0]

    def _move(self, value: Any) -> Any:
        if type(value) in (dict, OrderedDict):
            made = type(value)((key, self.move(part)) for key, part in value.items())
            if hasattr(value, "_metadata"):
                made._metadata = value._metadata  # noqa: SLF001 -- torch's own name
            return made
        if type(value) in (list, tuple):
            return type(value)([self.move(part) for part in value])
        if isinstance(value, TensorInfo):
            moved = value if value.storage.location == _CPU else self.copy_tensor(value)
            return moved._replace(state=None)
        return value.to_numpy().item() if isinstance(value, ArrayInfo) and value.is_scalar else value


def select_columns(info: TensorInfo, columns: Sequence[int | None]) -> TensorInfo:
    """Return a matrix with the given old columns; None is one of zeros."""
    rows, width = info.shape
    size = DTYPES[info.dtype].itemsize
    is_whole = 0 < rows * width <= info.storage.numel and info.storage.dtype == info.dtype
    if not is_whole or info.strides != (width, 1) or info.storage.byte_order != "little" or info.conj or info.neg:
        form = f"got a layer of the dtype {quote(info.dtype)} in another form"
        refuse(f"expected a contiguous little-endian matrix, {form}")
    data = info.storage.bytes()[info.offset * size :]
    made = bytearray()
    for start in range(0, rows * width, width):
        for column in columns:
            at = 0 if column is None else (start + column) * size
            made += bytes(size) if column is None else data[at : at + size]
    storage = make_storage(bytes(made), info.dtype)
    return info._replace(shape=(rows, len(columns)), strides=(len(columns), 1), offset=0, storage=storage)


# -- HER before SB3 1.1 -------------------------------------------------------------------------------

_FIRST_LAYER: Final = re.compile(
    r"(actor|actor_target)\.(latent_pi|mu)\.0\.weight|(critic|critic_target)\.qf\d+\.0\.weight"
    r"|q_net(_target)?\.q_net\.0\.weight"
)
_FIRST_LAYERS_OF_BARE_ACTOR: Final = frozenset({"actor.mu.weight", "actor.log_std.weight"})
"""First layers of SAC's actor when it has no hidden ones."""
_MAX_CHOICES: Final = 1_000_000
_KEYS: Final = ("achieved_goal", "desired_goal", "observation")  # the keys of the Dict space, in gymnasium's order


class HerObservation(Record):
    """The parts of a concatenated observation: the observation, then the goal."""

    space: DictSpace
    """The observation space of the environment itself."""
    observation_size: int
    goal_size: int
    is_bare: bool
    """Whether the actor of SAC or TQC has no hidden layers."""
    widened: dict[tuple[int, int, tuple[int, ...]], tuple[TensorInfo, TensorInfo]]
    """The new layers by the memory of the old ones, and the old ones: layers that share memory still do."""

    def widen(self, name: str, info: TensorInfo) -> TensorInfo:
        """Return a first layer, or its optimizer state, with the columns of the Dict; any other tensor unchanged."""
        if not _FIRST_LAYER.fullmatch(name) and not (self.is_bare and name in _FIRST_LAYERS_OF_BARE_ACTOR):
            return info
        known = self.observation_size + self.goal_size
        if len(info.shape) != 2 or info.shape[1] < known or not 0 < info.numel <= info.storage.numel:
            refuse(f"{name} does not receive an observation of {known} numbers", POLICY_ENTRY)
        memory = id(info.storage), info.offset, info.shape
        if memory not in self.widened:
            goal, observation = range(self.observation_size, known), range(self.observation_size)
            columns = [*[None] * self.goal_size, *goal, *observation, *range(known, info.shape[1])]
            self.widened[memory] = select_columns(info, columns), info
        return self.widened[memory][0]


def read_her(archive: Archive, space: Space | None = None) -> tuple[str, HerObservation | None, str]:
    """Return the algorithm that HER wrapped, and the parts of its observations, or None and why they are not known.

    :param space: the observation space, where the archive's own is of a class that is not known
    """
    model = archive.decode("model_class")
    if not isinstance(model, Reference):
        refuse("model_class, the algorithm that HER wrapped, is not known", DATA_ENTRY)
    return model.name, *_find_observation(archive, space)


def _find_observation(archive: Archive, known_space: Space | None) -> tuple[HerObservation | None, str]:
    try:
        space: Any = known_space or archive.decode("observation_space")
        last: Any = archive.decode("_last_obs")
    except SbformatError as error:
        return None, error.message
    if not isinstance(last, dict) or not set(_KEYS) <= set(last):
        return None, "it was never trained, and only the last observation distinguishes the goal from the rest"
    parts = [last[key] for key in _KEYS]
    if any(not isinstance(part, ArrayInfo) or len(part.shape) != 2 or part.dtype[1] not in "biuf" for part in parts):
        return None, "its last observation does not consist of vectors"
    goal_size, desired_size, observation_size = (part.shape[1] for part in parts)
    found = _split_space(space, observation_size, desired_size, parts)
    if found is None or goal_size != desired_size:
        return None, "its last observation does not fit its space"
    spaces, columns = found
    names = unwrap_policy(archive).state_dict.tensors()
    is_bare = "actor.mu.weight" in names and "actor.latent_pi.0.weight" not in names
    if is_bare and "actor.log_std" in names:
        return None, "its exploration noise depends on the observation itself"
    made: dict[str, Space] = dict(zip(_KEYS, spaces))
    return HerObservation(DictSpace("gymnasium", made, None), *columns, is_bare, {}), ""


def _split_space(
    space: object, observation: int, goal: int, last: list[ArrayInfo]
) -> tuple[tuple[Space, ...], tuple[int, int]] | None:
    """Return the spaces in the order of the keys, and the columns of the observation and of a goal."""
    end = observation + goal
    if isinstance(space, Box) and space.shape == (end,):
        cuts = (observation, end), (observation, end), (0, observation)
        return tuple(_slice_box(space, *cut, part) for cut, part in zip(cuts, last)), (observation, goal)
    if isinstance(space, MultiBinary) and space.shape == (end,):
        bits = (MultiBinary("gymnasium", (size,), space.dtype, None) for size in (goal, goal, observation))
        return tuple(bits), (observation, goal)
    if isinstance(space, MultiDiscrete) and space.nvec.shape == (2,):
        sizes = [size for size in unpack_items(space.nvec) if isinstance(size, int) and 0 < size < _MAX_CHOICES]
        if len(sizes) == 2:
            choices = (Discrete("gymnasium", size, 0, "<i8", None) for size in (sizes[1], sizes[1], sizes[0]))
            return tuple(choices), (sizes[0], sizes[1])
    return None


def _slice_box(space: Box, start: int, stop: int, last: ArrayInfo) -> Box:
    """Return a part of a Box, in the dtype of the environment's own part if that can hold the bounds."""
    low, high = (_slice_array(bound, start, stop, bound.dtype) for bound in (space.low, space.high))
    items = [*unpack_items(low), *unpack_items(high)]
    dtype = space.dtype
    # any integer dtype can hold bounds from 0 to 127
    if last.dtype in ("<f4", "<f8") or (last.dtype[1] in "iu" and all(item in range(128) for item in items)):
        dtype = last.dtype
        low, high = (_slice_array(bound, 0, stop - start, dtype) for bound in (low, high))
    below, above = (
        None if flags is None else _slice_array(flags, start, stop, flags.dtype)
        for flags in (space.bounded_below, space.bounded_above)
    )
    return Box("gymnasium", low.shape, dtype, low, high, None, below, above)


def _slice_array(info: ArrayInfo, start: int, stop: int, dtype: str) -> ArrayInfo:
    whole: Any = info.to_numpy()
    part = whole[start:stop].astype(dtype)
    return ArrayInfo(dtype, part.shape, "C", part.tobytes(), is_scalar=False)


# -- the network --------------------------------------------------------------------------------------

_SHARED: Final = f"{changes.SHARED_LAYERS}."
_BRANCHES: Final = {"pi": "mlp_extractor.policy_net.", "vf": "mlp_extractor.value_net."}
_EXTRACTOR: Final = "features_extractor."
_BRANCH_EXTRACTORS: Final = (f"{changes.ACTOR_EXTRACTOR}.", f"{changes.CRITIC_EXTRACTOR}.")
_ACTOR_AND_CRITIC_EXTRACTORS: Final = (f"actor.{_EXTRACTOR}", f"critic.{_EXTRACTOR}")
_LAYER: Final = re.compile(r"([0-9]{1,4})\.(.+)")
_BUFFERS: Final = frozenset({"running_mean", "running_var", "num_batches_tracked", "ra_mean", "ra_var", "steps"})
"""Last parts of the names of tensors that are not parameters: those of batch norm and of CrossQ's renorm."""


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
    state_dict: StateDict,
    kind: str,
    target: Release,
    *,
    her: HerObservation | None,
    has_sb3_policy: bool,
    is_single_layer: bool = False,
) -> Network:
    """Return the policy's tensors under the names of the target.

    :param is_single_layer: whether the policy is one layer of ARS, which was in no Sequential once
    """
    read_shapes(state_dict)
    tree: Any = state_dict.tree
    _refuse_removed_networks(tree, has_sb3_policy=has_sb3_policy)
    tensors = [Tensor(name, name, info) for name, info in tree.items()]
    renamed: list[tuple[str, tuple[str, ...]]] = []
    notes: list[str] = []
    net_arch = None
    is_critics = kind == "critics"
    if (has_sb3_policy or is_critics) and any(_rename(name, target) != name for name in tree):
        tensors = [tensor._replace(name=_rename(tensor.name, target)) for tensor in tensors]
        notes += _describe_renamed(tree, target)
    is_bare_now = any(name.startswith("action_net.") and name.count(".") == 1 for name in tree)
    if kind == "ars" and is_bare_now != (is_single_layer and target < changes.ARS_SEQUENCE):
        old, new = ("action_net.", "action_net.0.") if is_bare_now else ("action_net.0.", "action_net.")
        tensors = [tensor._replace(name=tensor.name.replace(old, new, 1)) for tensor in tensors]
        notes.append(f"action_net is action_net.0 since SB3 {changes.ARS_SEQUENCE}")
    if kind == "actor_critic":
        if target >= changes.NO_SHARED_LAYERS and any(name.startswith(_SHARED) for name in tree):
            tensors, net_arch = _split_shared_layers(tensors, tree)
            notes.append("shared layers are now in both the policy and the value network, with the same weights")
            renamed.append((_SHARED, tuple(_BRANCHES.values())))
        if target < changes.BRANCH_EXTRACTORS:
            tensors, note = _merge_extractors(tensors)
            notes += note
        elif lacking := _find_lacking_extractors(tree):
            own = [tensor for tensor in tensors if tensor.name.startswith(_EXTRACTOR)]
            others = [
                one._replace(name=prefix + one.name.removeprefix(_EXTRACTOR)) for prefix in lacking for one in own
            ]
            end = tensors.index(own[-1]) + 1
            tensors[end:end] = others
            since = changes.BRANCH_EXTRACTORS
            notes.append(f"the features extractor has three names since SB3 {since}, with the same weights")
            renamed.append((_EXTRACTOR, (_EXTRACTOR, *lacking)))
    if her is not None:
        tensors = [tensor._replace(info=her.widen(tensor.name, tensor.info)) for tensor in tensors]
        notes.append("columns of first layers are in the order of the Dict space; those of the achieved goal are zero")
    names = [tensor.name for tensor in tensors]
    is_bare = not any(name.startswith(("actor.latent_pi.", "actor.mu.2.", "critic.qf0.2.")) for name in names)
    has_extractor = any(name.startswith(_ACTOR_AND_CRITIC_EXTRACTORS) for name in names)
    return Network(
        tuple(tensors),
        _rename_metadata(tree, target, renamed),
        net_arch,
        {"pi": [], "qf": []} if is_critics and is_bare and has_extractor else None,
        is_critics and _shares_extractor(tree),
        tuple(notes),
    )


def _refuse_removed_networks(tree: dict[str, TensorInfo], *, has_sb3_policy: bool) -> None:
    _, second, third = changes.OLD_FILTERS
    old_cnn = (third, second, 3, 3)  # the third layer of the NatureCNN with fewer filters
    if any(part.startswith(f"{changes.NOISE_LAYERS}.") for name in tree for part in (name, name.partition(".")[2])):
        own = f"its exploration noise has its own layers ({changes.NOISE_ARGUMENT})"
        refuse(f"{own}, which SB3 since {changes.NO_NOISE_LAYERS} does not support", POLICY_ENTRY)
    thirds = [info for name, info in tree.items() if name.endswith(f"{_EXTRACTOR}cnn.4.weight")]
    if has_sb3_policy and any(info.shape == old_cnn for info in thirds):
        filters = f"{third} filters, but {changes.FILTERS[2]} since {changes.WIDE_CNN}"
        refuse(f"its NatureCNN is that of SB3 {changes.FIRST}: the third layer has {filters}", POLICY_ENTRY)


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


def _split_shared_layers(
    tensors: list[Tensor], tree: dict[str, TensorInfo]
) -> tuple[list[Tensor], dict[str, list[int]]]:
    """Give both branches the shared layers first, then their own; return the tensors and the new ``net_arch``."""
    matches = (_LAYER.fullmatch(name.removeprefix(_SHARED)) for name in tree if name.startswith(_SHARED))
    last = max((int(match[1]) for match in matches if match), default=-1)
    made: list[Tensor] = []
    net_arch: dict[str, list[int]] = {}
    copies = Copies()
    for branch, prefix in _BRANCHES.items():
        layers = []
        for name, origin, info in tensors:
            if name.startswith(_SHARED):  # the second branch has copies
                layer = copies.copy_tensor(info) if net_arch else info
                layers.append(Tensor(prefix + name.removeprefix(_SHARED), origin, layer))
        for name, origin, info in tensors:
            if name.startswith(prefix):
                match = _LAYER.fullmatch(name.removeprefix(prefix))
                if match is None:
                    refuse("its policy or value network does not consist of numbered layers", POLICY_ENTRY)
                number = int(match[1]) + last + 2  # an activation follows the last shared layer
                layers.append(Tensor(f"{prefix}{number}.{match[2]}", origin, info))
        weights = [layer.info for layer in layers if layer.name.endswith(".weight")]
        if any(len(info.shape) != 2 for info in weights):
            refuse("a layer of its policy or value network is not a matrix", POLICY_ENTRY)
        net_arch[branch] = [info.shape[0] for info in weights]
        made += layers
    prefixes = (_SHARED, *_BRANCHES.values())
    at = next(index for index, tensor in enumerate(tensors) if tensor.name.startswith(prefixes))
    rest = [tensor for tensor in tensors[at:] if not tensor.name.startswith(prefixes)]
    return [*tensors[:at], *made, *rest], net_arch


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


def _merge_extractors(tensors: list[Tensor]) -> tuple[list[Tensor], list[str]]:
    """Give the features extractor its one name of old releases; return the tensors, and what was done."""
    own = {tensor.name.removeprefix(_EXTRACTOR): tensor for tensor in tensors if tensor.name.startswith(_EXTRACTOR)}
    kept = [tensor for tensor in tensors if not tensor.name.startswith(_BRANCH_EXTRACTORS)]
    for name, _, info in tensors:
        prefix = next((prefix for prefix in _BRANCH_EXTRACTORS if name.startswith(prefix)), None)
        same = None if prefix is None else own.get(name.removeprefix(prefix))
        if prefix is not None and (same is None or _memory(same.info) != _memory(info)):
            own_one = "its policy and value network have features extractors of their own"
            refuse(f"{own_one}, which SB3 before {changes.BRANCH_EXTRACTORS} does not support", POLICY_ENTRY)
    since = changes.BRANCH_EXTRACTORS
    note = f"the features extractor has one name before SB3 {since}, instead of three for the same weights"
    return kept, [note] if len(kept) < len(tensors) else []


def convert_net_arch(given: Any, network: Network, target: Release) -> Any:
    """Return ``net_arch`` of an actor-critic in the form that the target needs.

    A target that can share layers takes a list of sizes for shared ones, and SB3 1.6 a dict in a list alone.
    """
    has_shared = any(tensor.name.startswith(_SHARED) for tensor in network.tensors)
    if target >= changes.NO_SHARED_LAYERS or has_shared or not given or not isinstance(given, (list, tuple, dict)):
        return given
    own: Any = given if isinstance(given, dict) else given[0]
    if isinstance(own, dict):
        own = {"pi": own.get("pi", []), "vf": own.get("vf", [])}
    else:
        own = {"pi": list(given), "vf": list(given)}
    return own if target >= changes.PI_AND_VF else [own]


def _memory(info: TensorInfo) -> tuple[object, ...]:
    return id(info.storage), info.offset, info.shape, info.strides


def _find_lacking_extractors(tree: dict[str, TensorInfo]) -> tuple[str, ...]:
    """Return the names under which the features extractor is missing: once, both.

    The policy network's is always the same module as ``features_extractor``. The value network's alone may be another
    one (``share_features_extractor=False``), and is not replaced.
    """
    if not any(name.startswith(_EXTRACTOR) for name in tree):
        return ()
    lacking = tuple(prefix for prefix in _BRANCH_EXTRACTORS if not any(name.startswith(prefix) for name in tree))
    return lacking if _BRANCH_EXTRACTORS[0] in lacking else ()


def _rename_metadata(tree: Any, target: Release, renamed: list[tuple[str, tuple[str, ...]]]) -> Any:
    """Return the versions of the modules under their new names; torch assumes the oldest for a missing one."""
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


def list_parameters(tensors: Iterable[Tensor], prefix: str = "") -> list[Tensor]:
    """Return the tensors of a module that are parameters, each once, in the order of torch's ``parameters()``."""
    found: dict[object, Tensor] = {}
    for tensor in tensors:
        info = tensor.info
        if tensor.name.startswith(prefix) and tensor.name.rpartition(".")[2] not in _BUFFERS:
            # empty tensors are told apart by their names: they share no memory
            found.setdefault((id(info.storage), info.offset, info.shape) if info.numel else tensor.name, tensor)
    return list(found.values())


# -- whether SB3 can load it --------------------------------------------------------------------------

_MAX_MISMATCHES: Final = 3
_DECIDE_ON_NETWORK: Final = ("policy_class", "policy_kwargs", "observation_space", "action_space")
"""Keys that decide on the network: one that is supplied at load is not known here."""


def check_weights(
    context: RebuildContext, network: Network, data: Mapping[str, Any], refused: Iterable[str] = ()
) -> NetworkMatch | None:
    """Return the network that SB3 makes from the new ``data``, or None when it is not known."""
    policy = context.sb3_policy
    if policy is None or context.policy_arguments is None:
        return None
    if context.options.supplied_at_load.intersection(_DECIDE_ON_NETWORK):
        return None
    try:
        actual = {tensor.name: tuple(tensor.info.shape) for tensor in network.tensors}
        match = compare_network(_make_agent(context, policy, data), actual)
    except NetworkError as error:
        raise _make_refusal(context, f"SB3 cannot make its network: {error.message}") from None
    except SbformatError as error:
        if context.why_policy_replaced:
            raise _make_refusal(context, error.message) from None
        return None
    if mismatches := match.mismatches:
        shown = "; ".join([*refused, *(mismatch.message for mismatch in mismatches)][:_MAX_MISMATCHES])
        more = f"; and {len(mismatches) - _MAX_MISMATCHES} more" if len(mismatches) > _MAX_MISMATCHES else ""
        raise _make_refusal(context, f"its weights do not fit {policy.name}: {shown}{more}", POLICY_ENTRY)
    return match


def _make_agent(context: RebuildContext, policy: Reference, data: Mapping[str, Any]) -> Agent:
    """Return what decides on the network of the result."""
    her, arguments = context.her_observation, context.policy_arguments or {}
    space = context.decode("observation_space") if her is None else her.space
    use_sde = data.get("use_sde")
    if isinstance(use_sde, Serialized):  # copied unchanged
        use_sde = context.decode("use_sde")
    actions = context.decode("action_space")
    if not isinstance(space, Space) or not isinstance(actions, Space):
        refuse("one of its spaces is not known")
    limits, is_sde = context.archive.limits, is_true(use_sde, "use_sde")
    return Agent(policy.pair, space, actions, arguments, is_sde, context.target, limits=limits)


def _make_refusal(context: RebuildContext, problem: str, entry: str | None = None) -> UnsupportedError:
    """Return the error for a problem: what was dropped from the policy before it, and the options that help after."""
    dropped = [
        f"{row.key}: {row.message}"
        for row in context.rows
        if row.action == "dropped" and row.is_finding and row.key and row.key.startswith("policy_")
    ]
    if why := context.why_policy_replaced:
        dropped = [f"policy_class: {why}", *(line for line in dropped if not line.startswith("policy_class:"))]
    message = "; ".join([*dropped, f"SB3 could not load the result: {problem}"])
    return UnsupportedError(message, entry=entry, hint=context.options.advice.other_network)
