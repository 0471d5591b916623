"""``SbxArchive``: an archive of SBX, whose state dicts are made of what its pickles contain (SBX.md 22)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.algorithm import DDPG_EVIDENCE, Algorithm, class_reference, is_ddpg, sbx_algorithm
from sbformat.archive.archive import Archive
from sbformat.constants import DATA_ENTRY, POLICY_ENTRY, PTH_SUFFIX
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError
from sbformat.formats.sbx.modules import Module, read_modules
from sbformat.formats.sbx.states import States, read_states
from sbformat.known.sb3 import TRAIN_STATE
from sbformat.limits import Budget
from sbformat.pkl.decode import decode_pickle
from sbformat.pth import StateDict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.archive.edited_entries import Content
    from sbformat.archive.entries import ReadOptions

POLICY: Final = "policy"
"""The key of ``data`` with the pickled policy, and the state dict with its weights."""
OPTIMIZER_SUFFIX: Final = ".optimizer"
_STATE_TYPE: Final = f"{TRAIN_STATE}'>"
"""What the ``:type:`` of a state in ``data`` ends with."""


class SbxArchive(Archive):
    """An archive of SBX: entries as in SB3, and a state dict for each pickle of ``data`` that has weights.

    ``policy`` has the weights of the policy, ``policy.optimizer`` its optimizers; SAC, TQC and CrossQ have
    ``ent_coef_state`` beside it. Entries can be edited and written as in an archive of SB3; weights cannot.

    >>> archive = sbformat.read("sbx_sac.zip")
    >>> archive.parameters["policy"].to_numpy()["actor_state"]["params"]["params"]["Dense_0"]["bias"].shape
    (256,)

    :param archive: the same entries, opened as an archive of SB3, with ``data`` that SBX wrote
    :param budget: the budget of the operation
    :param options: how entries are decoded
    """

    __slots__ = ("_keys", "_states")

    def __init__(self, archive: Archive, budget: Budget, options: ReadOptions) -> None:
        super().__init__(archive.stored_entries, "sbx", budget, options)
        self._cache[DATA_ENTRY] = archive.data
        self._keys = {name: key for key in _list_keys(archive.data) for name in (key, key + OPTIMIZER_SUFFIX)}
        """By the name of a state dict, the key of ``data`` that it is made of."""
        self._states: dict[str, States | SbformatError] = {}
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
        return ("an archive of SBX (Stable Baselines Jax): SBX loads it, and SB3 does not",)

    def raw(self, name: str) -> memoryview:
        """Return an entry's bytes; of a state dict that is made of ``data``, those of ``data``."""
        return super().raw(DATA_ENTRY if name in self._keys else name)

    def _require(self, name: str) -> None:
        super()._require(DATA_ENTRY if name in self._keys else name)

    def _decode_state_dict(self, name: str) -> StateDict:
        if name not in self._keys:
            return super()._decode_state_dict(name)
        states = self._read_states(self._keys[name])
        tree = states.optimizers if name.endswith(OPTIMIZER_SUFFIX) else states.weights
        state_dict = StateDict(tree, self._budget, copy=self._options.copy)
        state_dict.entry = name
        self._budget.spend("tensors", len(state_dict.tensors()))
        for path, info in state_dict.tensors().items():
            self._budget.spend("tensor_name_bytes", len(path.encode("utf-8", "surrogatepass")))
            self._budget.spend("tensor_rank", len(info.shape))
        return state_dict

    def read_modules(self) -> dict[str, Module]:
        """Return what the pickled policy says about its networks beside their weights.

        :raises SbformatError: when the pickle cannot be decoded
        """
        policy = self.data.get(POLICY)
        if not isinstance(policy, Serialized):
            return {}
        budget = self._budget.fork()
        return read_modules(decode_pickle(policy.pickle, budget), budget)

    def _read_states(self, key: str) -> States:
        if key not in self._states:
            try:
                self._states[key] = read_states(decode_pickle(self.data[key].pickle, self._budget), self._budget)
            except SbformatError as error:
                self._states[key] = error.again()
        found = self._states[key]
        if isinstance(found, SbformatError):
            raise found.again()
        return found

    def with_entries(self, changes: dict[str, Content]) -> Archive:
        """Return an archive with entries replaced, as that of an archive of SB3.

        :raises UnsupportedError: for state dicts: they would be entries, which SBX does not read
        """
        weights = next((name for name in changes if name in self._keys or name.endswith(PTH_SUFFIX)), None)
        if weights is not None and changes[weights] is not None:
            message = "the weights of SBX are in the pickled policy of data, which sbformat does not write"
            raise UnsupportedError(message, entry=weights)
        edited = super().with_entries(changes)
        return open_sbx(edited, Budget(self.limits), self._options) or edited


def open_sbx(archive: Archive, budget: Budget, options: ReadOptions) -> SbxArchive | None:
    """Return an archive as one of SBX, or None if another library wrote it.

    SBX writes no ``policy.pth``. For ``data`` that cannot be decoded, the error is raised when it is accessed.

    :param archive: opened as an archive of SB3
    :param budget: the budget of the operation
    :param options: how entries are decoded
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
