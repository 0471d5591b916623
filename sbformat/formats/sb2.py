"""Files of Stable Baselines 2, the predecessor on TensorFlow (SB2.md 16): its zip, its pickle, and their algorithm.

The zip has ``data``, ``parameter_list`` and ``parameters``, an npz (16.1, 16.2); the pickle is ``(data, params)``,
with the interface of the zip (16.3, 16.4). No entry names the algorithm: each writes keys of ``data`` that no other
has, except GAIL, a TRPO with a flag, and HER, which adds its keys to those of the model that it wraps (16.5).

Sources: stable-baselines 2.0 to 2.10: ``common/base_class.py``, ``common/save_util.py``, ``save`` of each algorithm.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from sbformat import data as data_entry
from sbformat.archive.archive import ReadOnlyArchive
from sbformat.archive.hyperparameters import Algorithm, class_of_blob, class_reference
from sbformat.arrayfiles.headers import HEAD_BYTES, read_header
from sbformat.constants import DATA_ENTRY, SB2_PARAMETER_LIST_ENTRY, SB2_PARAMETERS_ENTRY
from sbformat.container.layout import STORED
from sbformat.container.reader import Container
from sbformat.errors import ContainerError, DataError, SbformatError, quote
from sbformat.formats.pickled import PickledArchive, Tensors, make_once
from sbformat.immutable import Record
from sbformat.io.source import BytesSource
from sbformat.pkl.numpy import ITEM_SIZES, ArrayInfo, checked_numel
from sbformat.pth import StateDict
from sbformat.pth.values import refuse, refuse_unsupported, tensor_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.entries import Entries, ReadOptions
    from sbformat.limits import Budget
    from sbformat.pth import TensorInfo


SIGNATURES: Final = (
    ("HER", ("model_class", "n_sampled_goal")),
    ("ACKTR", ("kfac_clip", "vf_fisher_coef")),
    ("ACER", ("q_coef", "replay_ratio")),
    ("PPO2", ("noptepochs", "nminibatches")),
    ("PPO1", ("timesteps_per_actorbatch", "clip_param")),
    ("TRPO", ("timesteps_per_batch", "max_kl")),
    ("DDPG", ("nb_rollout_steps", "actor_lr")),
    ("TD3", ("policy_delay", "target_policy_noise")),
    ("SAC", ("ent_coef", "target_entropy")),
    ("DQN", ("prioritized_replay", "exploration_fraction")),
    ("A2C", ("alpha", "epsilon", "lr_schedule")),
)
"""Keys of ``data`` that an algorithm writes in every release; HER first, because it has those of its model too."""

_GAIL_FLAG: Final = "using_gail"
OWN_POLICIES: Final = {
    "DQN": "stable_baselines.deepq.policies",
    "DDPG": "stable_baselines.ddpg.policies",
    "SAC": "stable_baselines.sac.policies",
    "TD3": "stable_baselines.td3.policies",
}
"""The module of policies that only one algorithm uses; HER uses those of its model."""
SHARED_POLICIES: Final = "stable_baselines.common.policies"
"""The module of the policies of all others."""


def infer_algorithm(data: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm that ``data`` is from, with the evidence."""
    policy = class_of_blob(data.get("policy"))
    evidence = [] if policy is None else [f"policy is {policy}"]
    for name, keys in SIGNATURES:
        if all(key in data for key in keys):
            evidence.append(f"data has {', '.join(keys)}")
            return _refine(name, data, evidence)
    # The module of the policy identifies only off-policy algorithms.
    module = "" if policy is None else policy.module
    if module == SHARED_POLICIES:
        evidence.append("A2C, ACER, ACKTR, GAIL, PPO1, PPO2 and TRPO share its policies")
    by_policy = next((name for name, own in OWN_POLICIES.items() if own == module), None)
    if by_policy is not None:
        evidence.append(f"only {by_policy}, and HER over it, has policies of {module}")
    return Algorithm(by_policy, False, tuple(evidence))


def _refine(name: str, data: Mapping[str, Any], evidence: list[str]) -> Algorithm:
    """Distinguish GAIL from TRPO, and add the model that HER wraps to the evidence."""
    if name == "HER":
        model = class_reference(data["model_class"])
        evidence += [f"model_class is {model}"] if model else []
    if name != "TRPO":
        return Algorithm(name, True, tuple(evidence))
    flag = data.get(_GAIL_FLAG)
    if not isinstance(flag, bool):
        return Algorithm("TRPO", False, (*evidence, f"{_GAIL_FLAG} is missing: GAIL writes the same keys"))
    return Algorithm("GAIL" if flag else "TRPO", True, (*evidence, f"{_GAIL_FLAG} is {str(flag).lower()}"))


_NPY_SUFFIX: Final = ".npy"


class Sb2Zip(ReadOnlyArchive):
    """A zip of Stable Baselines 2, whose one state dict is ``parameters``."""

    __slots__ = ()

    plain_entries: ClassVar[frozenset[str]] = frozenset({DATA_ENTRY, SB2_PARAMETER_LIST_ENTRY})

    def __init__(self, entries: Entries, budget: Budget, options: ReadOptions) -> None:
        super().__init__(entries, "sb2-zip", budget, options)
        self._contents = tuple(name for name in self.contents if name != SB2_PARAMETER_LIST_ENTRY)
        self._state_dicts = (SB2_PARAMETERS_ENTRY,)

    @property
    def parameter_list(self) -> list[str]:
        """The names of the parameters, in the order of the TensorFlow graph."""
        return self._decode_once(SB2_PARAMETER_LIST_ENTRY, self._names)

    @property
    def algorithm(self) -> Algorithm:
        """Which algorithm wrote it (SB2.md 16.5)."""
        return infer_algorithm(self.data if DATA_ENTRY in self.entries else {})

    def decode_plain(self, name: str) -> object:
        """Decode ``data`` or ``parameter_list``."""
        return self.data if name == DATA_ENTRY else self.parameter_list

    def _names(self, name: str) -> list[str]:
        names = data_entry.parse(self._entries.read(name), self._budget)
        if type(names) is not list or any(type(item) is not str for item in names):
            raise DataError("expected a list of names")
        twice = len(names) - len(set(names))
        if twice:
            raise DataError(f"expected unique names, got {twice} twice")
        return names

    def _decode_state_dict(self, name: str) -> StateDict:
        names = self.parameter_list
        if self._entries.entry(name).method != STORED:
            source = self._entries.source(name)
        else:
            source = BytesSource(self._entries.read(name) if self._options.check_crc else self._entries.view(name))
        if not source.size:
            raise ContainerError("expected an npz with a member for each parameter, got an empty entry")
        container = Container(source, budget=self._budget, names="record")
        _check_members(names, container)
        self._budget.spend("tensors", len(names))
        tree = OrderedDict((key, npy_tensor(container, key, self._budget)) for key in names)
        return StateDict(tree, self._budget, copy=self._options.copy, entry=name)


def _check_members(names: list[str], container: Container) -> None:
    """Check that every parameter that is listed has one member, and every member is listed."""
    members = {member.removesuffix(_NPY_SUFFIX) for member in container if member.endswith(_NPY_SUFFIX)}
    if len(members) != len(container):
        odd = next(member for member in container if not member.endswith(_NPY_SUFFIX))
        refuse_unsupported(f"expected members with the suffix .npy, got {quote(odd)}")
    listed = set(names)
    missing = next((name for name in names if name not in members), None)
    if missing is not None:
        refuse(f"the member {quote(missing)} is missing, which {SB2_PARAMETER_LIST_ENTRY} names")
    extra = next((name for name in container if name.removesuffix(_NPY_SUFFIX) not in listed), None)
    if extra is not None:
        refuse(f"{SB2_PARAMETER_LIST_ENTRY} does not name its member {quote(extra)}")


def npy_tensor(container: Container, name: str, budget: Budget) -> TensorInfo:
    """Describe a parameter; its bytes are read, and their CRC is checked, when they are requested."""
    member = name + _NPY_SUFFIX
    try:
        budget.spend("tensor_name_bytes", len(name.encode("utf-8")))
        source = container.source(member)
        code, shape, is_fortran, start = read_header(source.view(0, min(source.size, HEAD_BYTES)))
        budget.spend("tensor_rank", len(shape))
        itemsize = ITEM_SIZES.get(code.lstrip("<>|="), 0)
        size = checked_numel(shape, itemsize) * itemsize
        if itemsize and size != source.size - start:
            refuse(f"expected {size} bytes for its shape, got {source.size - start}")
        order: Literal["C", "F"] = "F" if is_fortran else "C"
        return tensor_info(code, shape, order, lambda member: container.read(member)[start:], key=member)
    except SbformatError as error:
        raise error if error.entry == member else error.within(member) from None


_OWN_NAMES: Final = "the file names them"


class Names(Record):
    """Names for the parameters of a file."""

    names: tuple[str, ...] | None
    """Names in the file's order, without duplicates; None when they are not certain."""
    source: str
    """A sentence for people: where the names come from, or why there are none."""


class Sb2Pickle(PickledArchive):
    """A pickle of Stable Baselines 2; its one state dict is ``parameters``."""

    __slots__ = ()

    @property
    def algorithm(self) -> Algorithm:
        """Which algorithm wrote it (SB2.md 16.5)."""
        return infer_algorithm(self.data)

    @property
    def naming(self) -> Names:
        """The names of the parameters, and where they come from: the file, or the order in SB2's source."""
        return make_once(self._known, "names", lambda: self._named(_arrays(self.value[1])))

    @property
    def notes(self) -> tuple[str, ...]:
        """Where the names of the parameters come from, when the file has none."""
        try:
            source = self.naming.source
        except SbformatError:
            return ()
        return () if source == _OWN_NAMES else (f"names of parameters: {source}",)

    def _data(self) -> dict[str, Any]:
        return self._data_of(self._pickle.value[0])  # type: ignore[index]

    def _named(self, arrays: dict[object, ArrayInfo]) -> Names:
        if all(type(key) is str for key in arrays):
            return Names(tuple(map(str, arrays)), _OWN_NAMES)
        try:
            algorithm = self.algorithm.name
        except SbformatError:
            algorithm = None
        from sbformat.nets.sb2_orders import name_parameters  # the names follow from the network

        data = self.value[0]
        self._budget.spend("tensors", len(arrays))
        found = name_parameters(
            algorithm, data if type(data) is dict else {}, [array.shape for array in arrays.values()]
        )
        if found.names is not None and len(set(found.names)) != len(arrays):
            return Names(None, "the names are not unique")
        return found

    def _decode_state_dict(self, name: str) -> StateDict:
        arrays = _arrays(self.value[1])
        self._budget.spend("tensors", len(arrays))
        names = self.naming.names or tuple(map(str, arrays))
        tensors = Tensors(self._budget)
        tree = OrderedDict((key, tensors.of(array)) for key, array in zip(names, arrays.values()))
        return self._state_dict_of(name, tree)


def _arrays(params: object) -> dict[object, ArrayInfo]:
    """Return the parameters by name, or by position when they have none."""
    by_name: dict[object, Any] = dict(enumerate(params)) if type(params) is list else {}
    if isinstance(params, dict) and all(type(key) is str for key in params):
        by_name = dict(params)
    elif type(params) is not list:
        refuse("expected a list of parameters, or a dict with text keys")
    odd = next((key for key, array in by_name.items() if not isinstance(array, ArrayInfo)), None)
    if odd is not None:
        refuse(f"expected an array as the parameter {quote(odd, 80)}")
    return by_name
