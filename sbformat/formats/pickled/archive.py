"""``PickledArchive``: a file with a single pickled object, read as an archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.archive import SingleFileArchive
from sbformat.constants import DATA_ENTRY, POLICY_ENTRY
from sbformat.errors import MissingEntryError, SbformatError
from sbformat.formats.pickled.arrays import Tensors, holds_arrays
from sbformat.formats.pickled.data import DataBuilder
from sbformat.formats.pickled.kinds import attributes_of, class_of
from sbformat.immutable import freeze
from sbformat.known.types import Instance, Reference
from sbformat.pkl.tree import Call
from sbformat.pth import StateDict
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.archive.entries import Entries, ReadOptions
    from sbformat.archive.kinds import Kind
    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.values import Decoder

ARRAYS: Final[dict[Kind, str]] = {
    "sb2-pickle": "parameters",
    "vecnormalize": "statistics",
    "running-mean-std": "statistics",
    "replay-buffer": "replay_buffer",
    "policy-file": POLICY_ENTRY,
}
"""The name of the state dict with the arrays, by kind of file."""


class PickledArchive(SingleFileArchive):
    """A file that is a single pickle.

    :param entries: the file as the only entry
    :param kind: the result of :func:`sbformat.formats.pickled.classify_pickle`
    :param pickle: the decoded pickle
    :param budget: the budget of the operation
    :param options: how entries are decoded
    """

    __slots__ = ("_known", "_pickle")

    def __init__(self, entries: Entries, kind: Kind, pickle: Pickle, budget: Budget, options: ReadOptions) -> None:
        super().__init__(entries, kind, budget, options)
        self._contents = (DATA_ENTRY, ARRAYS[kind])
        self._state_dicts = (ARRAYS[kind],)
        self._pickle = pickle
        self._known: tuple[Any, Decoder] | SbformatError | None = None

    @property
    def value(self) -> Any:
        """What the pickle means (VALUES.md 13); an object of a class that is not known by its attributes, too.

        :raises SbformatError: when it asks for more than allowed
        """
        value, decoder = self._understood()
        if isinstance(value, Call):
            made = class_of(value)
            attributes = decoder.make_dict(attributes_of(value))
            if made is not None and type(attributes) is dict and all(type(key) is str for key in attributes):
                return Instance(Reference(*made.pair), attributes)
        return value

    @property
    def data(self) -> Mapping[str, Any]:
        """Everything but the arrays, by name: JSON values, and :class:`~sbformat.Serialized` for every other part.

        :raises PickleError: if a name is not a string
        """
        return self._decode_once(DATA_ENTRY, lambda _: freeze(self._data()))

    def decode_plain(self, name: str) -> object:  # noqa: ARG002
        """Decode ``data``."""
        return self.data

    def _require(self, name: str) -> None:
        if name not in self.contents:
            raise MissingEntryError(name, present=self.contents)

    def _understood(self) -> tuple[Any, Decoder]:
        if self._known is None:
            try:
                self._known = self._decode_tree()
            except SbformatError as error:
                self._known = error.again()
        if isinstance(self._known, SbformatError):
            raise self._known.again()
        return self._known

    def _decode_tree(self) -> tuple[Any, Decoder]:
        return decode_tree(self._pickle, self._budget)

    def _data_of(self, pairs: Iterable[tuple[object, object]]) -> dict[str, Any]:
        """Return some parts of the pickle as ``data`` has them."""
        return DataBuilder(self._pickle, self._understood()[1], self._budget).build(pairs)

    def _data(self) -> dict[str, Any]:
        if self.format == "running-mean-std":
            return {}
        decoder = self._understood()[1]
        pairs = attributes_of(self._pickle.value)
        return self._data_of((key, part) for key, part in pairs if not holds_arrays(decoder.value(part)))

    def _decode_state_dict(self, name: str) -> StateDict:
        value, tensors = self.value, Tensors(self._budget)
        if self.format == "running-mean-std":
            return self._state_dict_of(name, tensors.statistics(value))
        attributes = value.attributes if isinstance(value, Instance) else {}
        tree = {key: tensors.of(part) for key, part in attributes.items() if holds_arrays(part)}
        return self._state_dict_of(name, tree)

    def _state_dict_of(self, name: str, tree: object) -> StateDict:
        state_dict = StateDict(tree, self._budget, copy=self._options.copy)
        state_dict.entry = name
        tensors = state_dict.tensors()
        self._budget.spend("tensors", len(tensors))
        for path, info in tensors.items():
            self._budget.spend("tensor_name_bytes", len(path.encode("utf-8", "surrogatepass")))
            self._budget.spend("tensor_rank", len(info.shape))
        return state_dict
