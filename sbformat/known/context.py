"""What node decoders work with: values that are already decoded, and a record of what was understood (VALUES.md 13.1).

**Theory of operation.** A pickle is decoded in two steps. :mod:`sbformat.pkl` executes its opcodes symbolically and
gives an inert *tree*: each import is a ``Global`` node, each call a ``Call`` node with its arguments, and nothing was
imported or called. This package turns that tree into *values* that people know (:mod:`sbformat.known.types`).

For each kind of call there is a *node decoder*: a function ``decode_x(context, node)`` that checks arguments and state,
and either returns a value, which accepts the node, or raises :class:`UnrecognizedError`. The arguments of a node that
was found by its name are a tuple. A decoder also accepts the names and nodes that the value consists of. The table from
constructor to node decoder is :mod:`sbformat.known.table`; the walk that calls them, children first, is
:mod:`sbformat.values.decoder`.

Input: a decoded pickle, with the log of every import and call in it. Output: the value, and a record of that log:

* *understood*: accepted by a node decoder, with everything that changed it;
* *issues*: not understood, with the reason; the node itself is the value there;
* neither: nothing looked at it, because its constructor is not known.

Invariants: each node is decoded once, so values that a pickle shares stay shared; a node that is not accepted stays in
the value unchanged; nothing of the file is imported, called, hashed (text and few numbers excepted) or recursed into.

Example, the pickle of ``{"space": Discrete(4), "env": my_package.Env()}``::

    tree    Dict[("space", Call(NEWOBJ gymnasium.spaces.discrete.Discrete, state={"n": 4, ...})),
                 ("env",   Call(NEWOBJ my_package.Env))]
    walk    Discrete: its row -> Discrete.decode(context, node)
                n, start and shape are checked, the node is accepted
            Env:      no row: the node stays as it is
    value   {"space": Discrete(n=4, start=0, ...), "env": Call(NEWOBJ my_package.Env)}
    record  understood: the call and the name of Discrete; nothing about my_package.Env

``scan`` judges an archive by this record, so a decoder that accepts too much hides code from it: decoders accept
exactly what the library writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import TensorError
from sbformat.immutable import Record
from sbformat.known.rows import find, find_called, find_role, reject
from sbformat.known.types import Cycle, Reference
from sbformat.pkl.tree import COMPOSITES, LEAVES, Call, Dict, FrozenSet, Global, Node, Set, Update
from sbformat.pth.context import DecodeContext
from sbformat.pth.values import other_keys

if TYPE_CHECKING:
    from sbformat.limits import Budget
    from sbformat.pkl.decode import Pickle
    from sbformat.pkl.tree import Pair
    from sbformat.pth.values import Storage

RUNS_WHEN_CALLED: Final = "its code is in the file and runs when it is called"
"""The end of the message about a function that is pickled by value."""
_TEXT: Final = frozenset({str})
_MOST_ISSUES: Final = 50_000
_STATE_SETTERS: Final = frozenset({"function_state", "class_state"})
_SETTERS: Final = _STATE_SETTERS | {"filled_function", "filled_class"}
_OF_NUMPY: Final = frozenset({"numpy_array", "numpy_scalar", "random_state", "generator", "bit_generator"})


_FUNCTION_TYPES: Final = (("FunctionType",), ("LambdaType",))
_GLOBALS_ARGUMENT: Final = {"function": 1, "skeleton_function": 2}


def find_maker(node: Call) -> str | None:
    """Return the role of a call; that of a function for a call of the type that ``_builtin_type`` returns."""
    func = node.func
    is_made = isinstance(func, Call) and find_role(func) == "builtin_type" and func.args in _FUNCTION_TYPES
    return "function" if is_made else find_role(node)


def find_base_globals(node: Call) -> object:
    """Return the part of the tree that becomes the globals of a function pickled by value, before its state is set."""
    index = _GLOBALS_ARGUMENT.get(find_maker(node) or "")
    return node.args[index] if index and type(node.args) is tuple and len(node.args) > index else None


def find_globals(node: Call) -> object:
    """Return what tells the globals of a function pickled by value from others: a dict of the tree, or a module."""
    base = find_base_globals(node)
    return base if type(base) is str or base is None else id(base)


class Issue(Record):
    """Why a node is not understood."""

    node: Node | Update
    rule: str
    """``unknown``, ``arguments``, ``function``, ``called``, ``class``, ``base``, ``module``, or ``name``: known only in
    a pickle that contains a function or class pickled by value."""
    message: str


class Hook(Record):
    """A method or descriptor of a class that is pickled by value, and the class that defines it."""

    owner: str
    node: object
    """None for a method of a library, which overrides inherited ones too."""


class Lineage(Record):
    """The hooks that a class pickled by value has, or inherits from other such classes."""

    name: str
    hooks: dict[str, Hook]
    meta: dict[str, Hook]
    """The hooks of its metaclass, when that is pickled by value too."""
    is_enum: bool


class NodeContext:
    """One pickle while it is decoded: values of its nodes, and which nodes were understood.

    :param pickle: decoded to a tree
    :param budget: the operation's
    :param tensors: of a ``.pth``: finds the storages of persistent ids; None for any other pickle
    :param checks_unread: also check arrays that were left in the file, where their bytes can be invalid
    """

    def __init__(
        self, pickle: Pickle, budget: Budget, tensors: DecodeContext | None = None, *, checks_unread: bool = False
    ) -> None:
        self.pickle = pickle
        self.checks_unread = checks_unread
        self.budget = budget
        self.tensors = tensors or DecodeContext(budget, _refuse_storage, id_items=5)
        self.understood: set[int] = set()
        """The ``id()`` of every node of the log that a node decoder accepted."""
        self.issues: dict[int, Issue] = {}
        self.setters: dict[int, list[Call]] = {}
        """cloudpickle's state setters by the ``id()`` of what they change: calls whose result nothing uses."""
        self.fillers: dict[int, list[Call]] = {}
        """The same of cloudpickle < 1.6: calls that change a function or class and return it."""
        self.lineages: dict[int, Lineage] = {}
        """Complete classes that are pickled by value, by the ``id()`` of the call that makes them."""
        self.waiting: dict[int, list[Call]] = {}
        """Objects of such classes that are not complete yet, by the same."""
        self.storages: dict[int, Storage | None] = {}
        """Storages of torch files inside the pickle, by the ``id()`` of the file's bytes; None when it has none."""
        self.names_as_values: set[int] = set()
        """The ``id()`` of every name that is used as a value, and may be."""
        self.claimed: set[int] = set()
        """The ``id()`` of every node that may belong to one other node only, and does."""
        self.sharing: dict[object, list[Call]] = {}
        """Functions pickled by value, also those of which nothing remains, by the globals that they share."""
        self.shared_globals: dict[int, dict[str, object]] = {}
        """What these functions define in their globals, by the ``id()`` of their list."""
        self.may_be_changed: bool | None = None
        """Whether other parts of the pickle may change its functions; None until that is asked."""
        self.substitutes: dict[int, Node] = {}
        """Nodes that torch's constructors are given in place of others, by the ``id()`` of these."""
        self._converted = 0
        self._uses: dict[int, int] = {}
        self._values: dict[int, object] = {}
        self._has_code = False
        for node in pickle.log:
            if not isinstance(node, Call):
                continue
            if isinstance(node.func, Call):
                self._resolve_dill(node, node.func)
            row = find_called(node)
            if row.role in _SETTERS and node.args:
                kind = self.setters if row.role in _STATE_SETTERS else self.fillers
                kind.setdefault(id(node.args[0]), []).append(node)  # type: ignore[index]
            self._has_code = self._has_code or "by value" in row.uses
            if (row.role or find_maker(node)) in _GLOBALS_ARGUMENT:
                self.sharing.setdefault(find_globals(node), []).append(node)

    def _resolve_dill(self, node: Call, getter: Call) -> None:
        """Replace ``_get_attr(subimport(module), name)`` of dill, as numpy's functions are pickled, by the name."""
        args: Any = getter.args
        if find_role(getter) != "dill_attribute" or getter.updates or len(args) != 2:
            return
        module = args[0]
        if not isinstance(module, Call) or find_role(module) != "module" or module.updates or len(module.args) != 1:  # type: ignore[arg-type]
            return
        pair = (module.args[0], args[1])  # type: ignore[index]
        if all(type(part) is str for part in pair) and find(pair).role in _OF_NUMPY:
            node.func = Global(*pair)
            self.accept(getter, module)
            self.claimed.add(id(module))

    # -- values ---------------------------------------------------------------------------------------

    def value(self, part: object) -> Any:
        """Return the value of a part of the tree; of a node that is still being decoded, a :class:`Cycle`."""
        kind = type(part)
        if kind not in COMPOSITES:
            return self._decode_name(part) if kind is Global else part  # type: ignore[arg-type]
        return self._values[id(part)] if id(part) in self._values else Cycle()

    def arguments(self, node: Call) -> tuple[Any, ...]:
        """Return the values of the arguments of a call, which are a tuple."""
        args: Any = node.args
        return tuple(map(self.value, args))

    def _decode_name(self, node: Global) -> object:
        if node.updates:
            return node
        if node.pair in _SINGLETONS:
            self.names_as_values.add(id(node))
            return _SINGLETONS[node.pair]
        row = find(node.pair)
        if row.is_value:
            self.names_as_values.add(id(node))
            return Reference(*node.pair)
        if self._has_code and "beside code" in row.uses:
            self.accept_if_by_value(node)
            return Reference(*node.pair)
        if "interpolates" in row.uses:
            self._uses[id(node)] = self._uses.get(id(node), 0) + 1
        if len(self.issues) < _MOST_ISSUES:  # beyond that, not being understood is enough
            self.add_issue(node, "unknown", "")
        return node

    def make_dict(self, pairs: list[tuple[object, object]]) -> dict[Any, Any] | Dict:
        """Return pairs as a dict; as pairs again when a file could choose the hashes of their keys."""
        keys = [key if type(key) is str else self.value(key) for key, _ in pairs]
        if set(map(type, keys)) <= _TEXT or self._may_hash(keys):
            return dict(zip(keys, [part if type(part) in LEAVES else self.value(part) for _, part in pairs]))
        return Dict([(key, self.value(value)) for key, (_, value) in zip(keys, pairs)])

    def make_set(self, values: list[object], *, is_frozen: bool) -> object:
        """Return values as a set; as a list of its own kind when a file could choose their hashes."""
        if set(map(type, values)) <= _TEXT or self._may_hash(values):
            return frozenset(values) if is_frozen else set(values)
        return FrozenSet(values) if is_frozen else Set(values)

    def _may_hash(self, keys: list[object]) -> bool:
        """Text is hashed with a salt; of other keys few are allowed, and only plain ones (FORMAT.md 6.6)."""
        if any(key is not None and type(key) not in (str, int, bool, float, bytes) for key in keys):
            return False
        return len(other_keys(keys)) <= self.budget.limits.other_keys

    def read_attributes(self, node: Call) -> dict[str, Any]:
        """Return the one state that BUILD gives an object: a dict of attributes."""
        updates = node.updates or []
        is_own = len(updates) == 1 and updates[0].how == "BUILD" and id(updates[0].value) not in self.pickle.shared
        state = self.value(updates[0].value) if is_own else None
        if type(state) is not dict or set(map(type, state)) - _TEXT:
            reject("its state is not one dict of attributes of its own")
        return state

    def read_state(self, node: Call) -> Any:
        """Return the one state that BUILD gives an object."""
        updates = node.updates or []
        if len(updates) != 1 or updates[0].how != "BUILD":
            reject("it is not given exactly one state")
        return self.value(updates[0].value)

    def charge_items(self, count: int) -> None:
        """Charge the items of an array that a node decoder makes numbers of: several nodes may share an array."""
        self._converted += count
        self.budget.spend("pickle_nodes", self._converted - self.pickle.size)

    def state_setters(self, node: Call) -> list[Call]:
        """Return the calls of cloudpickle that set the state of a function or class."""
        return [*self.setters.get(id(node), ()), *self.fillers.get(id(node), ())]

    # -- the record -----------------------------------------------------------------------------------

    def accept(self, *nodes: object) -> None:
        """Record nodes as understood, with the names that they call and what changed them; no changed name."""
        for node in nodes:
            if isinstance(node, Node) and node.updates:
                if type(node) is Global:
                    continue
                self.understood.update(map(id, node.updates))
            self.understood.add(id(node))
            if type(node) is Call and type(node.func) is Global and not node.func.updates:
                self.understood.add(id(node.func))

    def accept_if_by_value(self, node: Node) -> None:
        """Record a node as understood where something is pickled by value, and as unknown in any other pickle."""
        self.accept(node)
        self.add_issue(node, "name", "")

    def accept_uses(self, *names: Global) -> None:
        """Record that a node decoder accepts one use of each of these names; any other use of it remains unknown."""
        for name in names:
            self._uses[id(name)] -= 1
            if not self._uses[id(name)]:
                self.accept(name)
                self.issues.pop(id(name), None)

    def add_issue(self, node: Node | Update, rule: str, message: str) -> None:
        """Record why a node is not understood; the first reason stays."""
        self.issues.setdefault(id(node), Issue(node, rule, message))

    def has_examined(self, name: Global) -> bool:
        """Return whether some node decoder looked at a name: it is understood, a value, or has an issue."""
        return id(name) in self.understood or id(name) in self.names_as_values or id(name) in self.issues


_SINGLETONS: Final[dict[Pair, Any]] = {("builtins", "Ellipsis"): ..., ("builtins", "NotImplemented"): NotImplemented}


def _refuse_storage(*_: object) -> Any:
    raise TensorError("a persistent id in a pickle that has no storages")
