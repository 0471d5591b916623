"""Judge a row of a pickle's log that sbformat does not understand, by the name that it imports or calls.

The second half of :mod:`sbformat.tools.scan.judge`. A name that runs, imports, opens or connects is ``dangerous-name``.
Any other name that is called is as dangerous, for want of knowledge. A name that is only imported is judged by what
becomes of it: passed to a constructor, or called by SB3 after loading, it is ``called-name``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import escape
from sbformat.immutable import Record
from sbformat.known.dangerous import explain_danger
from sbformat.known.table import find, find_called
from sbformat.pkl import Call, Extension, Global, Update
from sbformat.pkl.calls import render_arguments
from sbformat.pkl.tree import children, walk
from sbformat.tools.scan.location import SHOWN
from sbformat.tools.scan.name_uses import find_called_names, find_given_names

if TYPE_CHECKING:
    from sbformat.known.rows import Known
    from sbformat.pkl import Node
    from sbformat.pkl.lenient import Attempt
    from sbformat.pkl.tree import UpdateHow
    from sbformat.tools.scan.report import Reason, Rule, Verdict

DANGEROUS: Final[Verdict] = "dangerous"
_METHODS: Final[dict[UpdateHow, str]] = {
    "BUILD": "__setstate__",
    "APPENDS": "extend",
    "SETITEMS": "__setitem__",
    "ADDITEMS": "add",
}
"""The methods that opcodes call on an object."""
_PROGRAM: Final = "__torch__."
"""The package of the classes that a TorchScript archive defines; Python has no such module."""


class Remark(Record):
    """A finding without its location."""

    rule: Rule
    message: str
    names: tuple[str, ...] = ()
    verdict: Verdict | None = None
    """None: that of the rule."""
    reason: Reason | None = None
    """None: that of the rule."""
    call: Call | None = None
    """The call whose arguments the message lacks."""

    def describe(self) -> str:
        """Return the message, with the arguments of the call after its name."""
        if self.call is None:
            return self.message
        shown = escape(self.names[0], SHOWN)
        start, _, end = self.message.partition(shown)
        return f"{start}{shown}{render_arguments(self.call)}{end}"


class UnrecognizedJudge:
    """Judges single rows of the log of one pickle.

    :param attempt: the pickle
    :param key: of ``data``, whose value the pickle is; empty for others
    :param allow: dotted names to treat as known
    :param is_program: whether it is a record of a TorchScript archive
    """

    def __init__(self, attempt: Attempt, key: str, allow: frozenset[str], *, is_program: bool) -> None:
        self._attempt = attempt
        self._key = key
        self._allow = allow
        self._is_program = is_program
        self.is_cut = False
        """Decoding exceeded a limit, which has a finding of its own: calls of known names may be correct."""

    def judge_node(self, node: Node | Update) -> Remark | None:
        """Return the finding for a row; None when there is nothing to report."""
        if isinstance(node, Global):
            return self._judge_import(node)
        if isinstance(node, Call):
            return self._judge_call(node)
        if isinstance(node, Extension):
            message = "a name is taken from the copyreg registry by its number, so only the loading process knows it"
            return Remark("computed-name", message, (name_of(node),))
        if isinstance(node, Update) and isinstance(node.target, Global):
            name = name_of(node.target)
            message = f"the pickle changes {escape(name, SHOWN)} itself, for the whole process that loads it"
            return Remark("unchecked-arguments", message, (name,), DANGEROUS, "harmful")
        if isinstance(node, Update) and not isinstance(node.target, Call):
            return Remark("unchecked-arguments", "the pickle sets the state of a reference, which no pickler does")
        return None

    def judge_algorithm(self, node: Global) -> Remark:
        """Return the finding for an algorithm class where SB3 expects none."""
        is_called = id(node) in self._called_names or id(node) in self._given_names
        message = "an algorithm class is stored where SB3 expects none: called with a text, it creates that environment"
        return Remark("called-name" if is_called else "unknown-name", message, (name_of(node),))

    def _judge_import(self, node: Global) -> Remark | None:
        name, why = name_of(node), explain_danger(node.pair)
        row = find(node.pair)
        if row.is_known or self._is_of_program(name, row):
            return None
        if why and id(node) in self._plain_getters:
            return None  # its calls have findings
        if why:
            return Remark("dangerous-name", f"{escape(name, SHOWN)} is imported: it {why}", (name,))
        return None if name in self._allow else self._judge_unknown_import(node, name)

    def _judge_unknown_import(self, node: Global, name: str) -> Remark:
        shown = escape(name, SHOWN)
        advice = f"if you trust it, allow {shown} by name"
        if id(node) in self._called_names:
            key = self._called_names[id(node)]
            where = "under 'data'" if key.endswith("__") else f"in {escape(key, SHOWN)!r}"
            message = f"sbformat does not know {shown}, and Stable-Baselines calls the value {where}; {advice}"
            return Remark("called-name", message, (name,))
        if id(node) in self._given_names:
            callee = escape(name_of(self._given_names[id(node)]), SHOWN)
            message = f"sbformat does not know {shown}, which is passed to {callee} and may be called there; {advice}"
            return Remark("called-name", message, (name,))
        message = f"sbformat does not know {shown}: loading imports its module, and calls nothing in it"
        return Remark("unknown-name", message, (name,))

    def _judge_call(self, node: Call) -> Remark | None:
        func = node.func
        if node.how == "STACK_GLOBAL" or not isinstance(func, Global):
            message = "a call computes the name of what is imported or called, so only running the file can tell it"
            return Remark("computed-name", message)
        name, why = name_of(func), explain_danger(func.pair)
        row, called = find(func.pair), find_called(node)
        is_reaching = "reaches" in called.uses
        if id(func) in self._plain_getters:
            why = None
        shown = escape(name, SHOWN)
        if self._is_of_program(name, row):
            if not name.startswith(_PROGRAM):
                return None
            message = f"an object of {shown} is created, a class of a TorchScript program"
            return Remark("carried-program", message, (name,))
        if self.is_cut and not why and (called.role or row.is_known):
            return None
        if called.role and not (why and is_reaching):
            message = f"{shown} is called where no value of its type is expected"
            return Remark("unchecked-arguments", message, (name,), DANGEROUS if is_reaching else None, call=node)
        if why:
            return Remark("dangerous-name", f"{shown} is called: it {why}", (name,), call=node)
        if name in self._allow:
            return None
        is_object = node.how.startswith("NEWOBJ")
        rule: Rule = "unknown-object" if is_object else "unknown-call"
        advice = f"if you trust it, allow {shown} by name"
        if row.is_known:
            effect = f"loading runs {_methods_of(node)}" if is_object else "what the call does is not known"
            message = f"sbformat knows {shown}, but not this call by the opcode {node.how}: {effect}"
        elif is_object:
            message = f"an object of {shown} is created, and sbformat does not know the class: "
            message += f"loading runs its {_methods_of(node)}; {advice}"
        else:
            message = f"{shown} is called, and sbformat does not know it; {advice}"
        return Remark(rule, message, (name,), call=node)

    def _is_of_program(self, name: str, row: Known) -> bool:
        """Return whether a TorchScript archive defines the class of this name, or its loader replaces the function."""
        return self._is_program and (name.startswith(_PROGRAM) or "program" in row.uses)

    @cached_property
    def _called_names(self) -> dict[int, str]:
        """The names that Stable-Baselines calls."""
        attempt = self._attempt
        root = attempt.pickle.value if attempt.pickle is not None else attempt.log if self._key else None
        return find_called_names(root, self._key)

    @cached_property
    def _plain_getters(self) -> set[int]:
        """The ``attrgetter`` and ``methodcaller`` of which every call is given the name of a plain attribute."""
        plain: dict[int, bool] = {}
        for node in self._attempt.log:
            if isinstance(node, Call) and isinstance(node.func, Global) and "getter" in find(node.func.pair).uses:
                args = node.args if type(node.args) is tuple else ()
                names = args[:1] if node.func.name == "methodcaller" else args
                is_plain = bool(names) and all(
                    type(name) is str and explain_danger(("", f"object.{name}")) is None for name in names
                )
                plain[id(node.func)] = plain.get(id(node.func), True) and is_plain
        found = {node for node, is_plain in plain.items() if is_plain}
        root = [*self._attempt.log, self._attempt.pickle.value if self._attempt.pickle is not None else None]
        for value in walk(root) if found else ():
            parts: Any = value if type(value) in (tuple, list) else children(value)
            if value is root:
                parts = root[-1:]
            elif type(value) is Call:
                parts = parts[1:]
            found.difference_update(map(id, parts))  # what else calls it may give it any name
        return found

    @cached_property
    def _given_names(self) -> dict[int, Call]:
        """The names that are passed to known constructors."""
        return find_given_names(self._attempt.log)


def _methods_of(node: Call) -> str:
    """Return the methods of its class that creating an object runs, with those of its changes."""
    return ", ".join(dict.fromkeys(["__new__", *(_METHODS[change.how] for change in node.updates or ())]))


def name_of(node: object) -> str:
    """Return the dotted name that a node imports, calls or creates an object of."""
    if isinstance(node, Call):
        return name_of(node.func) if node.func is not None else "a computed name"
    if isinstance(node, Extension):
        return f"copyreg extension {node.code}"
    return str(node) if isinstance(node, Global) else "a computed name"
