"""The pickle of Stable Baselines 2, ``(data, params)``, with the interface of its zip (SB2.md 16.3, 16.4).

Source: stable-baselines 2.0 to 2.10, ``common/base_class.py``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import SbformatError, TensorError, quote
from sbformat.formats.pickled import PickledArchive
from sbformat.formats.pickled.arrays import Tensors
from sbformat.formats.sb2.algorithms import infer_algorithm
from sbformat.immutable import Record
from sbformat.pkl.numpy import ArrayInfo

if TYPE_CHECKING:
    from sbformat.archive.entries import Entries, ReadOptions
    from sbformat.archive.hyperparameters import Algorithm
    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pth import StateDict

_OWN_NAMES: Final = "the file names them"


class Names(Record):
    """Names for the parameters of a file."""

    names: tuple[str, ...] | None
    """Names in the file's order, without duplicates; None when they are not certain."""
    source: str
    """A sentence for people: where the names come from, or why there are none."""


class Sb2Pickle(PickledArchive):
    """A pickle of Stable Baselines 2; its one state dict is ``parameters``.

    :param entries: the file alone
    :param pickle: decoded
    :param budget: the operation's
    :param options: how entries are decoded
    """

    __slots__ = ("_naming",)

    def __init__(self, entries: Entries, pickle: Pickle, budget: Budget, options: ReadOptions) -> None:
        super().__init__(entries, "sb2-pickle", pickle, budget, options)
        self._naming: Names | None = None

    @property
    def algorithm(self) -> Algorithm:
        """Which algorithm wrote it (SB2.md 16.5)."""
        return infer_algorithm(self.data)

    @property
    def naming(self) -> Names:
        """The names of the parameters, and where they come from: the file, or the order in SB2's source.

        :raises SbformatError: when the parameters cannot be read
        """
        if self._naming is None:
            self._naming = self._named(list(_arrays(self.value[1]).items()))
        return self._naming

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

    def _named(self, arrays: list[tuple[object, ArrayInfo]]) -> Names:
        keys = [key for key, _ in arrays]
        if all(type(key) is str for key in keys):
            return Names(tuple(map(str, keys)), _OWN_NAMES)
        try:
            algorithm = self.algorithm.name
        except SbformatError:
            algorithm = None
        from sbformat.nets.sb2_orders import name_parameters  # the names follow from the network

        data = self.value[0]
        found = name_parameters(algorithm, data if type(data) is dict else {}, [array.shape for _, array in arrays])
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
    """Return the parameters by name, or by position when they have none.

    :raises TensorError: when they are not arrays
    """
    by_name: dict[object, Any] = dict(enumerate(params)) if type(params) is list else {}
    if isinstance(params, dict) and all(type(key) is str for key in params):
        by_name = dict(params)
    elif type(params) is not list:
        message = "expected a list of parameters, or a dict with text keys"
        raise TensorError(message)
    odd = next((key for key, array in by_name.items() if not isinstance(array, ArrayInfo)), None)
    if odd is not None:
        message = f"expected an array as the parameter {quote(odd, 80)}"
        raise TensorError(message)
    return by_name
