"""How much a file may ask for: ``Limits`` is the policy, ``Budget`` counts against it.

Each field's comment gives the largest value seen in about 2,900 real archives (FORMAT.md 8). A budget
belongs to one operation and is passed down through inner zips and pickles, so nesting cannot reset
it. ``Budget.spend`` is the only comparer.
"""

# Annotations are evaluated here: as text, each field's would be compiled, a quarter of a millisecond of start-up.

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from sbformat.errors import LimitError

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_GIB: Final = 1024 * _MIB


class Limits(NamedTuple):
    """What a reader accepts; change one with ``Limits(json_bytes=...)``. FORMAT.md 8."""

    outer_entries: int = 1024
    """Entries of an archive (largest real: 8)."""
    inner_entries: int = 65_536
    """Records of one torch zip (largest real: 70)."""
    directory_bytes: int = 16 * _MIB
    """The central directory of one zip (largest seen: 5 KB)."""
    member_bytes: int = 2 * _GIB
    """One member, inflated or copied (largest real: 4.2 MB; larger ones exist). A stored member that is
    only viewed is not charged."""
    total_bytes: int = 4 * _GIB
    """All members of one archive, inflated or copied."""
    memory_bytes: int = 40 * _MIB
    """What is inflated, decoded and kept of a file, beyond twice its size (largest real: 22 MB). What
    is deflated may be zeros, and a byte of JSON or of a pickle may become an object of a hundred: with the file itself,
    this bounds the memory that reading it takes. Counted before it is made, in steps that are rather too large."""
    ratio: int = 200
    """Inflated to compressed size, above 1 MiB, of a member and of all together (largest real: 16)."""
    version_bytes: int = 4 * _KIB
    """``_stable_baselines3_version`` (largest real: 6 bytes)."""
    system_info_bytes: int = _MIB
    """``system_info.txt`` (largest real: 300 bytes)."""
    json_bytes: int = 64 * _MIB
    """``data`` (largest real: 3.5 MB)."""
    json_depth: int = 64
    """Nesting of ``data`` (largest real: 6)."""
    json_nodes: int = 2_000_000
    """Values in ``data``, where a list or object counts as seven, as much as it costs (largest seen: 1,265)."""
    json_digits: int = 4300
    """Digits of one number in ``data`` (largest real: 19)."""
    blob_bytes: int = 32 * _MIB
    """One ``:serialized:`` pickle (largest real: 1.3 MB)."""
    blobs_bytes: int = 64 * _MIB
    """All of them in one ``data``."""
    pickle_bytes: int = 64 * _MIB
    """The pickle of one ``.pth`` entry, its tensors' bytes not counted (largest seen: 11 KB)."""
    pickle_opcodes: int = 2_000_000
    """Opcodes of one pickle (largest real: 422,911; in a ``.pth``: 2,387)."""
    pickle_nodes: int = 250_000
    """Tuples, lists, dicts, calls and other composite values of one pickle (largest seen: 12,021)."""
    pickle_memo: int = 1_000_000
    """Memo entries of one pickle (largest real: 64,689)."""
    pickle_memo_index: int = 2**31 - 1
    """The highest memo index (largest real: 64,688)."""
    pickle_stack: int = 100_000
    """Values on the stack at once (largest real: 2,049)."""
    pickle_marks: int = 1000
    """Marks on the stack at once (largest real: 10)."""
    value_depth: int = 200
    """Nesting of a decoded value (largest real: 26)."""
    tensors: int = 65_536
    """Tensors of one ``.pth`` entry (largest real: 66)."""
    leaves: int = 100_000
    """Values of one ``.pth`` entry by path: a shared one counts once a path (largest seen: 92)."""
    reported_values: int = 200_000
    """Values of all ``.pth`` entries of one archive that a report lists."""
    tensor_rank: int = 32
    """Dimensions of one tensor (largest real: 4)."""
    tensor_name_bytes: int = 1024
    """A tensor's name in UTF-8."""
    other_keys: int = 1024
    """Keys of one dict of a ``.pth`` that are neither text nor 0..n-1 (largest real: 66)."""
    expanded_items: int = 16 * 1024 * 1024
    """Items of tensors that are larger than four times their storage (expanded views), and what all tensors of
    an entry have beyond eight times the bytes of all its storages; bytes that constructors copy beyond those of the
    pickle; of one archive in all."""


DEFAULT_LIMITS: Final = Limits()

_MEMORY: Final = "memory_bytes"
_TIMES_KEPT: Final = 2
"""What may be kept of a file besides its bytes, in times its size; ``memory_bytes`` is beyond that."""
_TIMES_MADE: Final = 2
"""How often all that may be kept can be made and dropped again in one operation."""
_TIMES_WORKED: Final = 4
"""Of the file's size, for that."""
_RUNNING_TOTALS: Final = frozenset({"total_bytes", _MEMORY, "blobs_bytes", "expanded_items", "reported_values"})
"""These add up over one operation; every other limit is about a single thing."""


class Budget:
    """What one operation has used so far.

    :param limits: the policy
    """

    __slots__ = ("_granted", "_spent", "_worked", "limits")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        if not isinstance(limits, Limits):
            message = f"limits must be a Limits, not {type(limits).__name__}"
            raise TypeError(message)
        self.limits = limits
        self._spent: dict[str, int] = {}
        self._granted = self._worked = 0

    def spend(self, limit: str, amount: int, *, offset: int | None = None) -> None:
        """Charge an amount, before anything of that size is made.

        :param limit: a field of :class:`Limits`
        :param amount: bytes or items; running totals add up, other limits compare this amount
        :param offset: where in the entry, for the message
        :raises LimitError: when the limit would be passed; nothing is charged then
        """
        allowed: int = getattr(self.limits, limit)
        if limit in _RUNNING_TOTALS:
            total = self._spent.get(limit, 0) + amount
            if total <= allowed:
                self._spent[limit] = total
                return
            amount = total
        elif amount <= allowed:
            return
        raise LimitError(limit, allowed=allowed, actual=amount, offset=offset)

    def inflate(self, size: int) -> None:
        """Charge one decompression or copy of ``size`` bytes."""
        self.spend("member_bytes", size)
        self.spend("total_bytes", size)

    # -- memory ---------------------------------------------------------------------------------------

    def grant(self, file_bytes: int) -> None:
        """Allow for a file: what is kept of it may take twice its size, and ``memory_bytes`` beyond that."""
        self._granted += file_bytes
        self._spent[_MEMORY] = self._spent.get(_MEMORY, 0) - _TIMES_KEPT * file_bytes

    def keep(self, size: int, *, meanwhile: int = 0) -> None:
        """Charge memory that is kept as long as the operation's result.

        :param size: bytes
        :param meanwhile: bytes that are needed besides until that is made, and not charged
        :raises LimitError: when both together would pass ``memory_bytes``
        """
        left = self.memory_left() - size - meanwhile
        if left < 0:
            raise LimitError(_MEMORY, allowed=self.limits.memory_bytes, actual=self.limits.memory_bytes - left)
        self._spent[_MEMORY] = self._spent.get(_MEMORY, 0) + size

    def work(self, size: int) -> None:
        """Note what decoded values took, whether they are kept or not: what is made and dropped again takes time."""
        self._worked += size

    def memory_left(self) -> int:
        """Return how many bytes may still be kept."""
        kept = self._spent.get(_MEMORY, 0)
        allowed = self.limits.memory_bytes
        return min(allowed - kept, _TIMES_MADE * (allowed + _TIMES_WORKED * self._granted) - self._worked)

    def fork(self) -> "Budget":
        """Return a budget of its own for something else that is made of the same file, beside what is kept already."""
        made = Budget(self.limits)
        made._granted = self._granted
        made._spent[_MEMORY] = self._spent.get(_MEMORY, 0)
        return made

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Charge no longer for what is kept within this block, once it ends."""
        before = self._spent.get(_MEMORY, 0)
        try:
            yield
        finally:
            self._spent[_MEMORY] = before
