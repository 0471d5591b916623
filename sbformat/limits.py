"""Resource limits: ``Limits`` has the values, ``Budget`` counts what one operation has used (FORMAT.md 8).

Each field's comment gives the largest value seen in about 2,900 real archives. A budget belongs to one operation and
is passed down through inner zips and pickles, so that nesting cannot reset it. What is counted over an operation goes
through :meth:`Budget.spend`; a single number is compared by :meth:`Limits.check`.
"""

# Annotations are evaluated here: as text, each field's would be compiled, a quarter of a millisecond of start-up.
from typing import Final, Literal

from sbformat.errors import LimitError
from sbformat.immutable import Record

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_GIB: Final = 1024 * _MIB


LimitName = Literal[
    # begin names: generated from schema/tables/limits.json by schema/generate_tables.py
    "outer_entries", "inner_entries", "directory_bytes", "member_bytes", "total_bytes", "memory_bytes", "ratio",
    "version_bytes", "system_info_bytes", "settings_bytes", "json_bytes", "json_depth", "json_nodes", "json_digits",
    "blob_bytes", "blobs_bytes", "pickle_bytes", "pickle_opcodes", "pickle_nodes", "pickle_memo", "pickle_memo_index",
    "pickle_stack", "pickle_marks", "value_depth", "tensors", "leaves", "reported_values", "tensor_rank",
    "tensor_name_bytes", "other_keys", "expanded_items", "policy_items",
    # end names
]  # fmt: skip
"""The fields of :class:`Limits`, so that a type checker knows a misspelled one."""


class Limits(Record):
    """The largest sizes and counts that a reader accepts (FORMAT.md 8).

    ::

        sbformat.read("agent.zip", limits=sbformat.Limits(json_bytes=2**30))
    """

    # begin fields: generated from schema/tables/limits.json by schema/generate_tables.py
    outer_entries: int = 1024
    """Entries of an archive (largest real: 8)."""
    inner_entries: int = 65_536
    """Records of a torch zip; storages of a legacy stream; members of any zip before its kind is known (largest real:
    70)."""
    directory_bytes: int = 16 * _MIB
    """The central directory of one zip (largest real: 5 KB)."""
    member_bytes: int = 2 * _GIB
    """One inflation or copy; a stored member that is only viewed is not charged (largest real: 4.2 MB)."""
    total_bytes: int = 4 * _GIB
    """All inflations and copies of one operation."""
    memory_bytes: int = 40 * _MIB
    """What is inflated and kept, and the memory that JSON and pickles need, beyond twice the file's size (largest real:
    22 MB)."""
    ratio: int = 200
    """Uncompressed size / compressed size, rounded up, if the uncompressed size is above 1 MiB: of one deflated member,
    and of all members inflated so far together. The same applies to all bytes to which a reader inflates one member
    again (largest real: 16)."""
    version_bytes: int = 4 * _KIB
    """``_stable_baselines3_version``; torch's ``version`` and ``byteorder`` (largest real: 6 bytes)."""
    system_info_bytes: int = _MIB
    """``system_info.txt`` (largest real: 300 bytes)."""
    settings_bytes: int = 128 * _KIB
    """One file of settings beside an agent, or ``results.json`` (21)."""
    json_bytes: int = 64 * _MIB
    """``data``; a log beside an agent (21) (largest real: 3.5 MB)."""
    json_depth: int = 64
    """Nesting of ``data`` (3.1) and of settings (21) (largest real: 6)."""
    json_nodes: int = 2_000_000
    """Values in ``data``, of which a list or object counts as seven (3.1) (largest real: 1,265)."""
    json_digits: int = 4300
    """Digits of one number in ``data`` (3.1) (largest real: 19)."""
    blob_bytes: int = 32 * _MIB
    """One pickle of ``data``: 3/4 of the characters of its base64, rounded down (largest real: 1.3 MB)."""
    blobs_bytes: int = 64 * _MIB
    """All pickles of ``data``."""
    pickle_bytes: int = 64 * _MIB
    """One pickle (largest real: 11 KB in a ``.pth``)."""
    pickle_opcodes: int = 2_000_000
    """Opcodes of one pickle (8.1) (largest real: 422,911 (``.pth``: 2,387))."""
    pickle_nodes: int = 250_000
    """Tuples, lists, dicts, calls and other composites of one pickle (8.1) (largest real: 12,021)."""
    pickle_memo: int = 1_000_000
    """Memo entries of one pickle (largest real: 64,689)."""
    pickle_memo_index: int = 2**31 - 1
    """The highest memo index (largest real: 64,688)."""
    pickle_stack: int = 100_000
    """Values on the stack of one pickle, without marks (5.3) (largest real: 2,049)."""
    pickle_marks: int = 1000
    """Marks on the stack of one pickle (5.3) (largest real: 10)."""
    value_depth: int = 200
    """Open containers along a path (8.1) (largest real: 26)."""
    tensors: int = 65_536
    """Tensors of one ``.pth``, and parts of tensors (8.1) (largest real: 66)."""
    leaves: int = 100_000
    """Values of one ``.pth`` by path, when they are listed (8.1) (largest real: 92)."""
    reported_values: int = 200_000
    """Values of all ``.pth`` of one archive that a report lists."""
    tensor_rank: int = 32
    """Dimensions (largest real: 4)."""
    tensor_name_bytes: int = _KIB
    """One text key of a ``.pth``, in UTF-8."""
    other_keys: int = 1024
    """Keys of one dict, or members of one set, of a ``.pth`` that are neither texts nor 0 to n - 1 (6.6); parts of a
    Dict observation (8.1) (largest real: 66)."""
    expanded_items: int = 16_777_216
    """For each ``.pth``, items that no bytes of the file account for, and bytes that constructors copy (8.1); the sum
    for one archive."""
    policy_items: int = 67_108_864
    """For the network of a policy (19): the numbers that it computes from one observation, those of each node and
    input, and 1,024 for each node; the sum for one network; layers and components of an action (8.1) (largest real:
    80,000)."""
    # end fields

    def __repr__(self) -> str:
        """Return the fields that differ from the defaults: ``Limits(json_depth=3)``."""
        default = type(self)()
        changed = zip(self._fields, self, default)
        return f"Limits({', '.join(f'{name}={value!r}' for name, value, usual in changed if value != usual)})"

    def check(self, limit: LimitName, amount: int, *, offset: int | None = None) -> None:
        """Compare one number with one limit.

        :param limit: a field
        :param amount: bytes or items that a file needs
        :param offset: position in the entry, for the message
        :raises LimitError: when the amount is larger
        """
        allowed: int = getattr(self, limit)
        if amount > allowed:
            raise LimitError(limit, allowed=allowed, actual=amount, offset=offset)


DEFAULT_LIMITS: Final = Limits()

_MEMORY: Final = "memory_bytes"
_KEPT_PER_BYTE: Final = 2  # bytes of memory that may be kept for each byte of the file; ``memory_bytes`` is beyond that
_TIMES_DECODED: Final = 2  # how often values of the allowed size can be decoded and dropped again in one operation
_DECODED_PER_BYTE: Final = 4  # bytes of memory that may be decoded and dropped again, for each byte of the file
_RUNNING_TOTALS: Final = frozenset(
    {
        # begin sums: generated from schema/tables/limits.json by schema/generate_tables.py
        "total_bytes", "memory_bytes", "blobs_bytes", "reported_values", "expanded_items", "policy_items",
        # end sums
    }
)  # fmt: skip
"""These add up over one operation; each other limit is compared with one number at a time."""


def _check_limits(limits: Limits) -> None:
    for name, value in limits._asdict().items():
        if not isinstance(value, int):
            raise TypeError(f"expected limits to be int, got {name}={value!r}")
    for name, value in limits._asdict().items():
        if value < 0:
            raise ValueError(f"expected limits of 0 or more, got {name}={value}")


class Budget:
    """The amounts that one operation has used so far.

    :param limits: what it may use
    """

    __slots__ = ("_granted", "_spent", "_worked", "limits")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        if not isinstance(limits, Limits):
            raise TypeError(f"expected limits to be a Limits, got {type(limits).__name__}")
        if limits is not DEFAULT_LIMITS:
            _check_limits(limits)
        self.limits = limits
        self._spent: dict[LimitName, int] = {}
        self._granted = self._worked = 0

    def spend(self, limit: LimitName, amount: int, *, offset: int | None = None) -> None:
        """Charge an amount, before memory of that size is allocated.

        :param limit: a field of :class:`Limits`
        :param amount: bytes or items; running totals add up, other limits compare this amount. A negative one, which
            only a forged size can be, charges nothing: it does not take back what others were charged
        :param offset: position in the entry, for the message
        """
        is_total = limit in _RUNNING_TOTALS
        if is_total:
            amount = self._spent.get(limit, 0) + max(amount, 0)
        if amount > getattr(self.limits, limit):
            self.limits.check(limit, amount, offset=offset)
        if is_total:
            self._spent[limit] = amount

    def inflate(self, size: int) -> None:
        """Charge one decompression or copy of ``size`` bytes."""
        self.spend("member_bytes", size)
        self.spend("total_bytes", size)

    # -- memory ---------------------------------------------------------------------------------------

    def grant(self, file_bytes: int) -> None:
        """Allow for a file: twice its size may be kept, and ``memory_bytes`` beyond that."""
        self._granted += file_bytes
        self._spent[_MEMORY] = self._spent.get(_MEMORY, 0) - _KEPT_PER_BYTE * file_bytes

    def keep(self, size: int, *, meanwhile: int = 0) -> None:
        """Charge memory that is kept as long as the operation's result.

        :param size: bytes
        :param meanwhile: bytes that are also needed until the value is complete; these are not charged
        """
        left = self.memory_left() - size - meanwhile
        if left < 0:
            self.limits.check(_MEMORY, self.limits.memory_bytes - left)
        self._spent[_MEMORY] = self._spent.get(_MEMORY, 0) + size

    def work(self, size: int) -> None:
        """Count memory that decoded values took, kept or not: decoding and dropping values takes time as well."""
        self._worked += size

    @property
    def worked(self) -> int:
        """The sum of what :meth:`work` was called with."""
        return self._worked

    def repeat(self, cost: int, meanwhile: int) -> bool:
        """Charge a value again that was decoded before, if decoding it again would succeed; return whether it would.

        :param cost: the memory that it takes
        :param meanwhile: the memory that is needed before it is decoded
        """
        if self.memory_left() < max(cost, meanwhile):
            return False
        self.keep(cost)
        self.work(cost)
        return True

    def memory_allowed(self) -> int:
        """Return how many bytes may be kept in all."""
        return self.limits.memory_bytes + _KEPT_PER_BYTE * self._granted

    def memory_left(self) -> int:
        """Return how many bytes may still be kept."""
        kept = self._spent.get(_MEMORY, 0)
        allowed = self.limits.memory_bytes
        return min(allowed - kept, _TIMES_DECODED * (allowed + _DECODED_PER_BYTE * self._granted) - self._worked)

    def fork(self) -> "Budget":
        """Return a separate budget, with the same memory already kept, for another value decoded from the same file."""
        made = Budget(self.limits)
        made._granted = self._granted
        made._spent[_MEMORY] = self._spent.get(_MEMORY, 0)
        return made

    def temporary(self) -> "_Temporary":
        """At the end of this block, take back the charges for memory that was kept within it."""
        return _Temporary(self._spent)


class _Temporary:
    """A block at the end of which as much memory is kept as before it."""

    __slots__ = ("_before", "_spent")

    def __init__(self, spent: dict[LimitName, int]) -> None:
        self._spent = spent
        self._before = spent.get(_MEMORY, 0)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._spent[_MEMORY] = self._before
