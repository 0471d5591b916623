"""The file of ``policy.save()``: a torch file of ``{"state_dict": ..., "data": ...}`` (FORMAT.md 1.4).

Source: SB3 ``common/policies.py``, ``BaseModel.save``: the weights by the names of ``policy.pth``, and the arguments of
the policy's constructor, pickled with them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import PICKLE_RECORD
from sbformat.errors import SbformatError
from sbformat.formats.pickled.archive import PickledArchive
from sbformat.limits import Budget
from sbformat.pkl.tree import Dict
from sbformat.pth import StateDict
from sbformat.pth.build import build_values
from sbformat.pth.decode import is_torch_zip, open_legacy, open_records, open_zip
from sbformat.values import decode_tree

if TYPE_CHECKING:
    from sbformat.archive.entries import Entries, ReadOptions
    from sbformat.io.source import Source
    from sbformat.pkl.decode import Pickle
    from sbformat.pth.context import DecodeContext
    from sbformat.values import Decoder

_STATE_DICT: Final = "state_dict"
_DATA: Final = "data"
_NEEDED: Final = frozenset({"observation_space", "action_space"})
"""Arguments that every policy of SB3 has; other programs save dicts with the two names as well."""


class PolicyFile(PickledArchive):
    """A policy without its algorithm: ``data`` holds the arguments of its constructor, ``policy`` its weights.

    :param entries: the file alone
    :param pickle: decoded
    :param scope: finds its storages
    :param budget: the operation's
    :param options: how entries are decoded
    """

    __slots__ = ("_scope",)

    def __init__(
        self, entries: Entries, pickle: Pickle, scope: DecodeContext, budget: Budget, options: ReadOptions
    ) -> None:
        super().__init__(entries, "policy-file", pickle, budget, options)
        self._scope = scope

    def _part(self, name: str) -> Any:
        return next(part for key, part in self._pickle.value if key == name)  # type: ignore[attr-defined]

    def _decode_tree(self) -> tuple[Any, Decoder]:
        return decode_tree(self._pickle._replace(value=self._part(_DATA)), self._budget, self._scope)

    def _data(self) -> dict[str, Any]:
        return self._data_of(self._part(_DATA))

    def _decode_state_dict(self, name: str) -> StateDict:
        pickle = self._pickle._replace(value=self._part(_STATE_DICT))
        tree = build_values(pickle, self._scope, self._options.on_unknown)
        state_dict = StateDict(tree, self._budget, copy=self._options.copy)
        state_dict.entry = name
        return state_dict


def open_policy_file(opened: Source, entries: Entries, budget: Budget, options: ReadOptions) -> PolicyFile | None:
    """Open a torch file as that of ``policy.save()``; None when it is another, or cannot be decoded.

    :param opened: the torch file
    :param entries: the same, as the one entry
    :param budget: the operation's
    :param options: how entries are decoded
    """
    trial = Budget(budget.limits)
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
            pickle, scope = open_legacy(data, trial)
    except SbformatError:
        return None
    return PolicyFile(entries, pickle, scope, trial, options) if _is_policy(pickle) else None


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
