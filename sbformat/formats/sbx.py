"""Archives of SBX (Stable Baselines Jax): the zip of SB3, with the weights in the pickled policy (SBX.md 22).

**Theory of operation.** In: the pickle of the policy, an object of ``sbx`` whose attributes are, among functions and
modules, states: objects of flax's ``TrainState`` or of its subclasses in SBX. A state has ``step``, ``params``,
``opt_state``, and of SBX ``target_params`` or ``batch_stats``; its functions ``apply_fn`` and ``tx`` are left out.
Out: for each state a tree of dicts with the arrays of ``params``, ``target_params`` and ``batch_stats``, and a tree
of what belongs to its optimizer. Only the wanted parts are decoded; the rest of the pickle, which contains functions
by value, is read and not looked at.

Worked example, PPO with ``net_arch=[16]`` for 3 observations and 2 actions::

    actor_state  NEWOBJ flax.training.train_state.TrainState
      params     {"params": {"Dense_0": {"bias": (16,), "kernel": (3, 16)}, "Dense_1": ..., "log_std": (2,)}}
      opt_state  (EmptyState(), InjectStatefulHyperparamsState(count, hyperparams, ...))

is the state dict ``policy`` with the tensors ``actor_state/params/params/Dense_0/bias``, ..., and ``policy.optimizer``
with ``actor_state/step``, ``actor_state/opt_state/1/hyperparams/learning_rate``, ...

**Networks.** A network is an object of a flax module: a dataclass whose fields are its attributes. Classes are referred
to by name. Activations are functions of jax, which pickle as objects around a function by value: they are identified by
the module and the name that jax gives them, and their code is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.archive import Archive
from sbformat.archive.hyperparameters import DDPG_EVIDENCE, Algorithm, class_reference, is_ddpg, sbx_algorithm
from sbformat.constants import DATA_ENTRY, POLICY_ENTRY, PTH_SUFFIX
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, quote
from sbformat.formats.pickled import Tensors, attributes_of, class_of, make_once, make_state_dict
from sbformat.immutable import Record
from sbformat.known.rows import describe_node
from sbformat.known.sb3 import TRAIN_STATE
from sbformat.known.types import Function, Instance
from sbformat.limits import Budget
from sbformat.pkl.decode import decode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global
from sbformat.pth.values import refuse, refuse_unsupported
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.edits import Content
    from sbformat.archive.entries import ReadOptions
    from sbformat.pkl.decode import Pickle
    from sbformat.pkl.tree import Pair
    from sbformat.pth import StateDict


_WEIGHTS: Final = ("params", "target_params", "batch_stats")  # attributes of a state that the network computes with
_OPTIMIZER: Final = ("step", "opt_state")  # attributes of a state that training continues with
_PLAIN: Final = (str, int, float, bool, type(None))


def is_train_state(node: object) -> bool:
    """Return whether a node is an object of flax's ``TrainState``, or of a subclass of it by its name."""
    made = class_of(node)
    return made is not None and made.name.endswith(TRAIN_STATE)


def read_states(pickle: Pickle, budget: Budget) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the weights and the optimizers of a policy, by the names of its attributes; those of a lone state alone.

    Both are trees of dicts, lists, tensors and numbers.
    """
    found = _find_states(pickle.value)
    if not found:
        refuse_unsupported(f"expected an object with the states of flax, got {describe_node(pickle.value)}")
    wanted = Dict()
    for name, state in found.items():
        parts = [(key, part) for key, part in attributes_of(state) if key in (*_WEIGHTS, *_OPTIMIZER)]
        wanted.append((name, Dict(parts)))
    value, _ = decode_tree(pickle._replace(value=wanted), budget)
    converter = _Converter(budget)
    weights: dict[str, Any] = {}
    optimizers: dict[str, Any] = {}
    for name, parts in value.items() if type(value) is dict else ():
        if type(parts) is not dict or "params" not in parts:
            refuse(f"expected params in the state {quote(name, 80)}")
        weights[name] = {key: converter.convert(parts[key], 1) for key in _WEIGHTS if key in parts}
        optimizers[name] = {key: converter.convert(parts[key], 1) for key in _OPTIMIZER if key in parts}
    return (weights[""], optimizers[""]) if is_train_state(pickle.value) else (weights, optimizers)


def _find_states(root: object) -> dict[str, Call]:
    """Return the states of an object by the names of its attributes; a lone state has an empty name."""
    if is_train_state(root) and isinstance(root, Call):
        return {"": root}
    found: dict[str, Call] = {}
    for name, part in attributes_of(root):
        if type(name) is str and isinstance(part, Call) and is_train_state(part):
            if name in found:
                refuse(f"expected one state {quote(name, 80)}, got two")
            found[name] = part
    return found


class _Converter:
    """Converts decoded values to the tree of a state dict; a part that is shared is converted once."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._tensors = Tensors(budget)
        self._made: dict[int, tuple[Any, Any]] = {}

    def convert(self, value: Any, depth: int) -> Any:
        """Convert a value."""
        self._budget.spend("value_depth", depth)
        if isinstance(value, ArrayInfo):
            return self._tensors.of(value)
        if isinstance(value, _PLAIN):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._convert_container(value, depth), value
        return self._made[id(value)][0]

    def _convert_container(self, value: Any, depth: int) -> Any:
        if type(value) is Instance:
            value = value.attributes
        if type(value) is dict and all(type(key) is str for key in value):
            return {key: self.convert(part, depth + 1) for key, part in value.items()}
        if type(value) in (list, tuple):
            return [self.convert(part, depth + 1) for part in value]
        shown = describe_node(value) if isinstance(value, (Call, Global)) else type(value).__name__
        return refuse_unsupported(f"expected arrays of jax in a state of SBX, got {shown}")


NETWORKS: Final = ("actor", "qf", "vf")
_JIT: Final = "fun"  # the attribute of a compiled function with the function itself
_JAX: Final = ("jax.", "jax._src.", "flax.")  # where the modules of published activations begin


class Module(Record):
    """A network of a policy."""

    pair: Pair
    """Module and name of its class."""
    settings: Mapping[str, Any]
    """Those of its fields that are numbers, texts, or lists of them."""
    activation: str | None
    """The name of the function of jax between its layers; None if it is another function. Empty before SBX 0.13, where
    the class determines it."""
    features_extractor: Pair | None
    """The class of its features extractor; None without one."""


def read_modules(pickle: Pickle, budget: Budget) -> dict[str, Module]:
    """Return the networks of a policy, by the names of its attributes: those of ``NETWORKS`` that it has."""
    found = {}
    for name, part in attributes_of(pickle.value):
        made = class_of(part)
        if name in NETWORKS and type(name) is str and made is not None:
            found[name] = _read_module(made.pair, attributes_of(part), pickle, budget)
    return found


def _read_module(pair: Pair, attributes: Dict, pickle: Pickle, budget: Budget) -> Module:
    settings: dict[str, Any] = {}
    activation: str | None = ""
    extractor = None
    for name, part in attributes:
        if name == "activation_fn":
            activation = _name_activation(part, pickle, budget)
        elif name == "features_extractor" and isinstance(part, Global):
            extractor = part.pair
        elif type(name) is str and _is_plain(part):
            settings[name] = part
    return Module(pair, settings, activation, extractor)


def _is_plain(part: object) -> bool:
    items = part if type(part) in (list, tuple) else [part]
    return all(type(item) in _PLAIN for item in items)  # type: ignore[attr-defined]


def _name_activation(node: object, pickle: Pickle, budget: Budget) -> str | None:
    """Return the name of a function of jax; None for a function of another author, and for a value that is not one.

    A compiled function has it in ``fun``, a function with a derivative of its own in its ``__name__``.
    """
    if isinstance(node, Global):
        return node.name if f"{node.module}.".startswith(_JAX) else None
    parts = dict(attributes_of(node)) if isinstance(node, Call) else {}
    name, module = parts.get("__name__"), parts.get("__module__")
    if isinstance(name, str) and isinstance(module, str):
        return name if module.startswith(_JAX) else None
    wrapped = parts.get(_JIT, node)
    if not isinstance(wrapped, Call):
        return _name_activation(wrapped, pickle, budget) if isinstance(wrapped, Global) else None
    value, _ = decode_tree(pickle._replace(value=wrapped), budget)
    if isinstance(value, Function) and (value.module or "").startswith(_JAX):
        return value.qualname
    return None


POLICY: Final = "policy"
"""The key of ``data`` with the pickled policy, and the state dict with its weights."""
OPTIMIZER_SUFFIX: Final = ".optimizer"
_STATE_TYPE: Final = f"{TRAIN_STATE}'>"  # what the ``:type:`` of a state in ``data`` ends with


class SbxArchive(Archive):
    """An archive of SBX: entries as in SB3, and a state dict for each pickle of ``data`` that has weights.

    ``policy`` has the weights of the policy, ``policy.optimizer`` its optimizers; SAC, TQC and CrossQ have
    ``ent_coef_state`` beside it. Entries can be edited and written as in an archive of SB3; weights cannot.

    >>> archive = sbformat.read("sbx_sac.zip")
    >>> archive.parameters["policy"].to_numpy()["actor_state"]["params"]["params"]["Dense_0"]["bias"].shape
    (256,)

    :param archive: the same entries, opened as an archive of SB3, with ``data`` that SBX wrote
    """

    __slots__ = ("_keys", "_states")

    def __init__(self, archive: Archive, budget: Budget, options: ReadOptions) -> None:
        super().__init__(archive.stored_entries, "sbx", budget, options)
        self._cache[DATA_ENTRY] = archive.data
        self._keys = {name: key for key in _list_keys(archive.data) for name in (key, key + OPTIMIZER_SUFFIX)}
        """By the name of a state dict, the key of ``data`` that it is made of."""
        self._states: dict[str, Any] = {}
        others = [name for name in self._contents if name != DATA_ENTRY]
        self._contents = (DATA_ENTRY, *self._keys, *others)
        self._state_dicts = (*self._keys, *self._state_dicts)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm of SBX that wrote it: the package of its policy class names it."""
        name = sbx_algorithm(self.data)
        policy_class = class_reference(self.data.get("policy_class"))
        evidence = f"policy_class is {policy_class}, of SBX (Stable Baselines Jax)"
        if name == "TD3" and is_ddpg(self.data):
            return Algorithm("DDPG", False, (evidence, DDPG_EVIDENCE))
        return Algorithm(name, True, (evidence,))

    @property
    def notes(self) -> tuple[str, ...]:
        """What SB3 cannot do with it."""
        return (*super().notes, "an archive of SBX (Stable Baselines Jax): SBX loads it, and SB3 does not")

    def raw(self, name: str) -> memoryview:
        """Return an entry's bytes; of a state dict that is made of ``data``, those of ``data``."""
        return super().raw(DATA_ENTRY if name in self._keys else name)

    def _require(self, name: str) -> None:
        super()._require(DATA_ENTRY if name in self._keys else name)

    def _decode_state_dict(self, name: str) -> StateDict:
        if name not in self._keys:
            return super()._decode_state_dict(name)
        key, budget = self._keys[name], self._budget
        weights, optimizers = make_once(
            self._states, key, lambda: read_states(decode_pickle(self.data[key].pickle, budget), budget)
        )
        tree = optimizers if name.endswith(OPTIMIZER_SUFFIX) else weights
        return make_state_dict(name, tree, self._budget, copy=self._options.copy)

    def read_modules(self) -> dict[str, Module]:
        """Return what the pickled policy says about its networks beside their weights."""
        policy = self.data.get(POLICY)
        if not isinstance(policy, Serialized):
            return {}
        budget = self._budget.fork()
        return read_modules(decode_pickle(policy.pickle, budget), budget)

    def with_entries(self, changes: dict[str, Content]) -> Archive:
        """Return an archive with entries replaced, as that of an archive of SB3."""
        weights = next((name for name in changes if name in self._keys or name.endswith(PTH_SUFFIX)), None)
        if weights is not None and changes[weights] is not None:
            message = "the weights of SBX are in the pickled policy of data, which sbformat does not write"
            raise UnsupportedError(message, entry=weights)
        edited = super().with_entries(changes)
        return open_sbx(edited, Budget(self.limits), self._options) or edited


def open_sbx(archive: Archive, budget: Budget, options: ReadOptions) -> SbxArchive | None:
    """Return an archive as one of SBX, or None if another library wrote it.

    SBX writes no ``policy.pth``. For ``data`` that cannot be decoded, the error is raised when it is accessed.
    """
    if DATA_ENTRY not in archive.entries or POLICY_ENTRY in archive.entries:
        return None
    try:
        data = archive.data
    except SbformatError:
        return None
    return None if sbx_algorithm(data) is None else SbxArchive(archive, budget, options)


def _list_keys(data: Mapping[str, Any]) -> list[str]:
    """Return the keys of ``data`` whose pickles have weights: the policy, and states beside it."""
    beside = [
        key
        for key, value in data.items()
        if key != POLICY and isinstance(value, Serialized) and (value.type or "").endswith(_STATE_TYPE)
    ]
    return [*([POLICY] if isinstance(data.get(POLICY), Serialized) else []), *beside]
