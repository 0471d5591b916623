"""Files that are a single pickle, read as an archive (SB2.md 16.3): statistics of VecNormalize, replay buffers.

The pickle is decoded once, and nothing in it is run. Its arrays become the tensors of one state dict. Its numbers,
flags and strings become JSON values of ``data``, every other part a :class:`~sbformat.Serialized` with its pickle.
SB2 and SB3 do the same with the attributes of an algorithm when they write a zip.

The file of ``policy.save()`` is here too: a torch file of ``{"state_dict": ..., "data": ...}`` (FORMAT.md 1.4), the
weights by the names of ``policy.pth``, and the arguments of the policy's constructor, pickled with them.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sbformat.archive.archive import SingleFileArchive
from sbformat.constants import DATA_ENTRY, PICKLE_RECORD, POLICY_ENTRY
from sbformat.data import Serialized
from sbformat.errors import PickleError, SbformatError, escape, quote
from sbformat.immutable import freeze
from sbformat.known.numpy import unpack_items
from sbformat.known.rows import UnrecognizedError, describe_node
from sbformat.known.table import find
from sbformat.known.types import Function, Instance, Reference
from sbformat.limits import Budget
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global, Unread, walk
from sbformat.pth import StateDict, TensorInfo
from sbformat.pth.decode import build_values, is_torch_zip, open_legacy, open_records, open_zip
from sbformat.pth.file_storage import UnreadStorage
from sbformat.pth.modules import ModuleState, holds_tensors, name_class, read_attributes, read_pairs
from sbformat.pth.values import refuse, refuse_unsupported, tensor_info
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sbformat.archive.entries import Entries, ReadOptions
    from sbformat.archive.kinds import Kind
    from sbformat.io.source import Source
    from sbformat.limits import LimitName
    from sbformat.pkl.decode import Pickle
    from sbformat.pth.context import DecodeContext
    from sbformat.values import Decoder


T = TypeVar("T")

_CLASSES: Final[dict[str, Kind]] = {"VecNormalize": "vecnormalize", "RunningMeanStd": "running-mean-std"}
_SUBCLASSES: Final[tuple[tuple[frozenset[str], Kind], ...]] = (
    (frozenset({"obs_rms", "ret_rms", "clip_obs"}), "vecnormalize"),
    (frozenset({"observations", "actions", "rewards", "pos", "full"}), "replay-buffer"),
)
"""Attributes by which a user's subclass of an SB3 class is recognized."""


def classify_pickle(pickle: Pickle) -> Kind:
    """Detect the kind of a pickled file."""
    root = pickle.value
    if type(root) is tuple and len(root) == 2 and type(root[0]) is Dict:
        return "sb2-pickle"
    kind = _kind_of_object(root)
    if kind is not None:
        _check_names(root)
        return kind
    if holds_tensors(root):
        return "array-pickle"
    is_node = isinstance(root, (Call, Global))
    named = describe_node(root) if is_node else f"a {escape(type(root).__name__.lower())}"
    return refuse_unsupported(
        f"a pickle of {named}: neither statistics of VecNormalize, nor a replay buffer of Stable-Baselines3, "
        f"nor an agent of Stable Baselines 2"
    )


def _kind_of_object(root: object) -> Kind | None:
    made = class_of(root)
    if made is None:
        return None
    if find(made.pair).is_plain:
        kind: Kind | None = "replay-buffer" if made.name.endswith("ReplayBuffer") else _CLASSES.get(made.name)
        if kind is not None:
            return kind
    names = {key for key, _ in attributes_of(root) if type(key) is str}
    return next((alike for needed, alike in _SUBCLASSES if needed <= names), None)


def require_plain_pickle(pickle: Pickle) -> Pickle:
    """Return a pickle, or refuse it if unpicklers may disagree about its value."""
    if pickle.flags:
        raise PickleError(f"{'; '.join(pickle.flags)}: no pickler of plain data writes that")
    return pickle


def require_statistics(root: object) -> None:
    """Refuse what is no object of a class of statistics, and one with two attributes of one name."""
    if _kind_of_object(root) not in _CLASSES.values():
        refuse_unsupported("expected a pickle of a VecNormalize")
    _check_names(root)


def _has_names(root: object) -> bool:
    names = [key for key, _ in attributes_of(root)]
    return all(type(name) is str for name in names) and len({*names}) == len(names)


def _check_names(root: object) -> None:
    if not _has_names(root):
        raise PickleError("expected distinct texts as the names of its attributes")


def class_of(root: object) -> Global | None:
    """Return the class of an object that consists of its attributes only, set once; None for other values."""
    if not isinstance(root, Call) or type(root.func) is not Global or type(root.args) is not tuple:
        return None
    updates = root.updates or []
    if root.func.updates or len(updates) != 1 or updates[0].how != "BUILD" or type(updates[0].value) is not Dict:
        return None
    if root.how == "NEWOBJ" and root.args == ():
        return root.func
    if root.how != "REDUCE" or root.func.pair != ("copyreg", "_reconstructor") or len(root.args) != 3:
        return None
    made, base, state = root.args  # the class, its base, and the state of that
    is_plain = type(base) is Global and base.pair == ("builtins", "object") and not base.updates and state is None
    return made if type(made) is Global and not made.updates and is_plain else None


def attributes_of(root: object) -> Dict:
    """Return the attributes of an object: the state that BUILD sets."""
    updates = (root.updates if class_of(root) is not None else None) or ()  # type: ignore[attr-defined]
    return next((update.value for update in updates), Dict())


_SHARED: Final = 8
"""Largest ratio of the bytes of all arrays, shared ones counted each time, to their distinct bytes (FORMAT.md 8)."""


def holds_arrays(value: object) -> bool:
    """Return whether an attribute is an array, statistics, or a dict of either."""
    if isinstance(value, dict) and value:
        return all(type(key) is str and _is_array(part) for key, part in value.items())
    return _is_array(value)


def _is_array(value: object) -> bool:
    if isinstance(value, ArrayInfo):
        return not value.is_scalar
    return isinstance(value, TensorInfo) or (isinstance(value, Instance) and value.type.name == "RunningMeanStd")


class Tensors:
    """Converts the arrays of a pickle to tensors: an array that occurs several times gets one storage."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._made: dict[int, tuple[ArrayInfo, TensorInfo]] = {}
        """By the ``id()`` of each array; the array itself is kept so that its id is not reused."""
        self._items = 0
        self._distinct = 0

    def of(self, value: Any) -> Any:
        """Convert an attribute or a parameter to a part of a state dict."""
        if isinstance(value, dict):
            return {key: self.of(part) for key, part in value.items()}
        if isinstance(value, Instance):
            return self.statistics(value)
        return self._tensor(value) if isinstance(value, ArrayInfo) else value

    def statistics(self, value: Any) -> dict[str, Any]:
        """Convert a running mean: mean, variance and count, each to a tensor or a number."""
        made: dict[str, Any] = {}
        for name, part in (value.attributes if isinstance(value, Instance) else {}).items():
            if not isinstance(part, (ArrayInfo, int, float)):
                refuse(f"{quote(name, 40)} of a running mean is neither an array nor a number")
            made[name] = self.of(part)
        if not made:
            refuse("expected mean, var and count in a running mean, got none")
        return made

    def _tensor(self, array: ArrayInfo) -> TensorInfo:
        """Convert an array without copying it; bytes that were left in the file are not read."""
        known = self._made.get(id(array))
        if known is None:
            info = tensor_info(array.dtype, array.shape, array.order, lambda _: array.view(), axes=array.axes)
            if isinstance(array.buffer, Unread):
                info = info._replace(storage=UnreadStorage(array, info.dtype))
            known = self._made[id(array)] = array, info
            self._distinct += info.nbytes
        self._items += known[1].nbytes
        excess = self._items - _SHARED * self._distinct
        if excess > 0:
            self._budget.limits.check("expanded_items", excess)
        return known[1]


_BITS_A_DIGIT: Final = 3.3
_PART: Final = 128  # cost of encoding a part, in visited nodes, because it is decoded again later
_ENCODED: Final = 8  # cost of encoding a node, in visited nodes


class _NotJson(Exception):  # noqa: N818 -- caught in this module
    """JSON cannot represent a value."""


class DataBuilder:
    """Converts the parts of a pickle to values of ``data``."""

    def __init__(self, pickle: Pickle, decoder: Decoder, budget: Budget) -> None:
        self._pickle = pickle
        self._recognition = decoder
        self._budget = budget
        self._counted: dict[LimitName, int] = {"pickle_nodes": 0, "json_bytes": 0}

    def build(self, pairs: Iterable[tuple[object, object]]) -> dict[str, Any]:
        """Convert parts of the tree, by name."""
        made: dict[str, Any] = {}
        for key, part in pairs:
            if type(key) is not str or key in made:
                raise PickleError("expected distinct texts as the names of its attributes")
            try:
                made[key] = self._plain(self._recognition.value(part), 1)
            except _NotJson:
                made[key] = self._serialized(part)
        return made

    def _count(self, limit: LimitName, count: int) -> None:
        """Count visited nodes, or bytes of text and numbers: without shared parts, a pickle has no more than bytes."""
        self._counted[limit] += count
        excess = self._counted[limit] - self._pickle.size
        if excess > 0:
            self._budget.spend(limit, excess)

    def _plain(self, value: Any, depth: int) -> Any:
        self._count("pickle_nodes", 1)
        self._budget.spend("json_depth", depth)
        if type(value) is str:
            self._count("json_bytes", len(value))
            return value
        if value is None or type(value) in (bool, float):
            return value
        if type(value) is int:
            self._count("json_bytes", value.bit_length() >> 3)
            self._budget.spend("json_digits", int(value.bit_length() / _BITS_A_DIGIT))
            return value
        if type(value) in (list, tuple):
            return [self._plain(part, depth + 1) for part in value]
        if isinstance(value, dict) and all(type(key) is str for key in value):
            self._count("json_bytes", sum(map(len, value)))
            return {key: self._plain(part, depth + 1) for key, part in value.items()}
        if isinstance(value, ArrayInfo) and value.is_scalar:
            with suppress(UnrecognizedError):
                return unpack_items(value)[0]
        raise _NotJson

    def _serialized(self, part: object) -> Serialized:
        self._count("pickle_nodes", _PART)
        for _ in walk(part):
            self._count("pickle_nodes", _ENCODED)
        protocol: Any = max(4, self._pickle.protocol)
        raw = encode_pickle(part, protocol=protocol, reduce=self._bytes, setters=self._recognition.setters)
        self._budget.spend("blob_bytes", len(raw))
        self._budget.spend("blobs_bytes", len(raw))
        return Serialized(self._type_of(part), raw)

    def _bytes(self, value: object) -> bytes:
        """Read bytes that were left in the file."""
        if not isinstance(value, Unread):
            raise TypeError(f"an inert tree holds no {type(value).__name__}")
        self._budget.spend("blob_bytes", len(value))
        return value.read()

    def _type_of(self, part: object) -> str | None:
        """Return the text that SB3 would write as ``:type:``; None if the pickle does not contain the type."""
        value = self._recognition.value(part)
        if isinstance(value, Function):
            return "<class 'function'>"
        if isinstance(value, ArrayInfo):
            return "<class 'numpy.ndarray'>"
        if isinstance(part, Call) and part.how == "NEWOBJ" and type(part.func) is Global:
            return f"<class '{part.func}'>"
        return None


ARRAYS: Final[dict[Kind, str]] = {
    "sb2-pickle": "parameters",
    "vecnormalize": "statistics",
    "running-mean-std": "statistics",
    "replay-buffer": "replay_buffer",
    "policy-file": POLICY_ENTRY,
    "array-pickle": "arrays",
}
"""The name of the state dict with the arrays, by kind of file."""


def make_once(known: dict[str, Any], key: str, make: Callable[[], T]) -> T:
    """Return the value of a key, made at the first call; its error is raised again at every other."""
    if key not in known:
        try:
            known[key] = make()
        except SbformatError as error:
            known[key] = error.again()
    if isinstance(known[key], SbformatError):
        raise known[key].again()
    return known[key]  # type: ignore[no-any-return]


class PickledArchive(SingleFileArchive):
    """A file that is a single pickle, of a kind that :func:`classify_pickle` detects."""

    __slots__ = ("_known", "_pickle")

    def __init__(self, entries: Entries, kind: Kind, pickle: Pickle, budget: Budget, options: ReadOptions) -> None:
        contents = (DATA_ENTRY, ARRAYS[kind]) if kind != "array-pickle" else (ARRAYS[kind],)
        super().__init__(entries, kind, budget, options, contents)
        self._pickle = pickle
        self._known: dict[str, Any] = {}

    @property
    def value(self) -> Any:
        """What the pickle means (VALUES.md 13); an object of a class that is not known by its attributes, too."""
        value = self._understood()[0]
        return (self._object(value) or value) if isinstance(value, Call) else value

    def _object(self, node: object) -> Instance | None:
        """Return an object that consists of its attributes, of any class."""
        made = class_of(node)
        attributes = self._understood()[1].make_dict(attributes_of(node))
        if made is not None and type(attributes) is dict and all(type(key) is str for key in attributes):
            return Instance(Reference(*made.pair), attributes)
        return None

    def nested_objects(self, name: str, kind: Kind) -> Iterator[Instance]:
        """Yield the object that an attribute of the root is, the one that its attribute of that name is, and so on.

        It stops before a value that is not an object of the kind, of any class.
        """
        node: object = self._pickle.value
        while True:
            node = next((part for key, part in attributes_of(node) if key == name), None)
            found = self._object(node) if _kind_of_object(node) == kind and _has_names(node) else None
            if found is None:
                return
            yield found

    @property
    def data(self) -> Mapping[str, Any]:
        """Everything but the arrays, by name: JSON values, and :class:`~sbformat.Serialized` for every other part."""
        return self._decode_once(DATA_ENTRY, lambda _: freeze(self._data()))

    def decode_plain(self, name: str) -> object:  # noqa: ARG002
        """Decode ``data``."""
        return self.data

    def _understood(self) -> tuple[Any, Decoder]:
        return make_once(self._known, "", self._decode_tree)

    def _decode_tree(self) -> tuple[Any, Decoder]:
        return decode_tree(ModuleState(self._budget).replace(self._pickle), self._budget)

    def _data_of(self, pairs: Iterable[tuple[object, object]]) -> dict[str, Any]:
        """Return some parts of the pickle as ``data`` has them."""
        return DataBuilder(self._pickle, self._understood()[1], self._budget).build(pairs)

    def _data(self) -> dict[str, Any]:
        if self.format in ("running-mean-std", "array-pickle"):
            return {}
        decoder = self._understood()[1]
        pairs = attributes_of(self._pickle.value)
        return self._data_of((key, part) for key, part in pairs if not holds_arrays(decoder.value(part)))

    def _decode_state_dict(self, name: str) -> StateDict:
        value, tensors = self.value, Tensors(self._budget)
        if self.format == "running-mean-std":
            tree = tensors.statistics(value)
        elif self.format == "array-pickle":
            tree = tensors.of(value)
        else:
            attributes = value.attributes if isinstance(value, Instance) else {}
            tree = {key: tensors.of(part) for key, part in attributes.items() if holds_arrays(part)}
        return self._state_dict_of(name, tree)

    def _state_dict_of(self, name: str, tree: object) -> StateDict:
        return make_state_dict(name, tree, self._budget, copy=self._options.copy)


def make_state_dict(name: str, tree: object, budget: Budget, *, copy: bool) -> StateDict:
    """Return a state dict of tensors that were made of a pickle, within the limits of those of a ``.pth``."""
    state_dict = StateDict(tree, budget, copy=copy, entry=name)
    tensors = state_dict.tensors()
    budget.spend("tensors", len(tensors))
    for path, info in tensors.items():
        budget.spend("tensor_name_bytes", len(path.encode("utf-8", "surrogatepass")))
        budget.spend("tensor_rank", len(info.shape))
    return state_dict


_STATE_DICT: Final = "state_dict"
_DATA: Final = "data"
_NEEDED: Final = frozenset({"observation_space", "action_space"})
"""Arguments that every policy of SB3 has; other programs save dicts with the two names as well."""


class PolicyFile(PickledArchive):
    """A policy without its algorithm: ``data`` holds the arguments of its constructor, ``policy`` its weights."""

    __slots__ = ("_classes", "_scope")

    def __init__(
        self,
        entries: Entries,
        pickle: Pickle,
        scope: DecodeContext,
        budget: Budget,
        options: ReadOptions,
        classes: Mapping[str, str],
    ) -> None:
        super().__init__(entries, "policy-file", pickle, budget, options)
        self._scope = scope
        self._classes = classes

    def _part(self, name: str) -> Any:
        return next(part for key, part in self._pickle.value if key == name)  # type: ignore[attr-defined]

    def _decode_tree(self) -> tuple[Any, Decoder]:
        return decode_tree(self._pickle._replace(value=self._part(_DATA)), self._budget, self._scope)

    def _data(self) -> dict[str, Any]:
        return self._data_of(self._part(_DATA))

    def _decode_state_dict(self, name: str) -> StateDict:
        pickle = self._pickle._replace(value=self._part(_STATE_DICT))
        tree = build_values(pickle, self._scope, self._options.on_unknown)
        made = StateDict(tree, self._budget, copy=self._options.copy, entry=name)
        made.classes = self._classes
        return made


_POLICIES: Final = re.compile(r"(stable_baselines3|sb3_contrib)\.[\w.]+Policy", re.ASCII)
_ARGUMENTS: Final = frozenset({
    "observation_space", "action_space", "net_arch", "activation_fn", "normalize_images", "features_extractor_class",
    "features_extractor_kwargs", "optimizer_class", "optimizer_kwargs", "ortho_init", "use_sde", "log_std_init",
    "full_std", "use_expln", "clip_mean", "n_critics", "n_quantiles", "batch_norm", "batch_norm_momentum",
    "batch_norm_eps", "renorm_warmup_steps",
})  # fmt: skip
"""Arguments that ``policy.save()`` writes, and that a policy keeps under the same name, or in one of these dicts."""
_HELD: Final = ("dist_kwargs", "actor_kwargs", "critic_kwargs")
_OF_LSTM: Final = ("shared_lstm", "enable_critic_lstm", "lstm_kwargs")
_OF_ARS: Final = frozenset({"observation_space", "action_space", "net_arch", "activation_fn"})


class _WholePolicy(ModuleState):
    """Replaces a whole policy of SB3 by what ``policy.save()`` writes of it: its state dict, and its arguments."""

    def _replace(self, value: object) -> object:
        attributes = read_attributes(value)
        if attributes is None or not _POLICIES.fullmatch(name_class(value)) or not attributes.keys() >= _NEEDED:
            return super()._replace(value)
        held: dict[Any, Any] = {}
        for name in _HELD:
            held |= dict(read_pairs(attributes.get(name)) or ())
        found = {**held, **attributes}
        names = _OF_ARS if name_class(value).startswith("sb3_contrib.ars.") else _ARGUMENTS
        arguments = Dict((name, part) for name, part in found.items() if name in names)
        if "_squash_output" in attributes and ("ortho_init" in attributes or names is _OF_ARS):
            arguments.append(("squash_output", attributes["_squash_output"]))
        if names is not _OF_ARS:
            arguments.append(("lr_schedule", None))  # SB3 writes a placeholder
        if "lstm_output_dim" in attributes:
            layers = read_attributes(dict(read_pairs(attributes["_modules"]) or ()).get("lstm_actor")) or {}
            arguments.append(("lstm_hidden_size", attributes["lstm_output_dim"]))
            arguments.append(("n_lstm_layers", layers.get("num_layers")))
            arguments += [(name, attributes[name]) for name in _OF_LSTM if name in attributes]
        if "share_features_extractor" in held and "use_sde" not in held:  # TD3 alone has it as an argument
            arguments.append(("share_features_extractor", held["share_features_extractor"]))
        return Dict([(_STATE_DICT, super()._replace(value)), (_DATA, arguments)])


def open_policy_file(opened: Source, entries: Entries, budget: Budget, options: ReadOptions) -> PolicyFile | None:
    """Open a torch file as that of ``policy.save()``; None when it is another, or cannot be decoded."""
    trial = Budget(budget.limits)
    modules = _WholePolicy(trial)
    try:
        if is_torch_zip(opened):
            records = open_records(opened, trial, unchecked_crc=options.unchecked_crc)
            name = next((name for name in records if name.endswith(f"/{PICKLE_RECORD}")), None)
            if name is None or not _may_be(records.read(name, limit="pickle_bytes")):
                return None
            pickle, scope, _ = open_zip(records, trial)
        else:
            data = opened.view(0, opened.size)
            if not _may_be(data):
                return None
            pickle, scope = open_legacy(data, trial, modules)
        if not _is_policy(pickle):
            pickle = modules.replace(pickle)
    except SbformatError:
        return None
    if not _is_policy(pickle):
        return None
    return PolicyFile(entries, pickle, scope, trial, options, modules.classes)


def _may_be(data: memoryview) -> bool:
    return re.search(_STATE_DICT.encode(), data) is not None


def _is_policy(pickle: Pickle) -> bool:
    root = pickle.value
    if pickle.flags or type(root) is not Dict or [type(key) for key, _ in root] != [str, str]:
        return False
    parts = dict(root)
    data = parts.get(_DATA)
    if parts.keys() != {_STATE_DICT, _DATA} or type(data) is not Dict:
        return False
    return {key for key, _ in data if type(key) is str} >= _NEEDED
