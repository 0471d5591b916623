"""One pickle judged: what in its log was understood, and a finding for everything that was not (FORMAT.md 14.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from sbformat.errors import SbformatError, escape
from sbformat.globals.dangerous import reason
from sbformat.globals.recognized import CALLS, REACHING
from sbformat.globals.references import ALGORITHMS
from sbformat.pkl import Attempt, Call, Dict, Extension, Global, Node, Pickle, Update, trace
from sbformat.pkl.tree import walk
from sbformat.tools.scan.report import RULES, reason_of
from sbformat.tools.scan.uses import find_called_names, find_given_names, find_late_changes
from sbformat.values import decode_tree, is_known
from sbformat.values.context import find_role
from sbformat.values.hashing import find_key_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.limits import Budget
    from sbformat.pkl.tree import UpdateHow
    from sbformat.pth.context import Scope
    from sbformat.tools.scan.location import Place
    from sbformat.tools.scan.report import Finding, Reason, Rule, Verdict
    from sbformat.values import Decoder, Issue

MOST_FINDINGS: Final = 1000
"""Of one verdict that are listed, of a pickle and of a file; the others are counted."""
_DANGEROUS: Final[Verdict] = "dangerous"
_SHOWN: Final = 200
_CARRIED: Final = ("function", "class")
_METHODS: Final[dict[UpdateHow, str]] = {
    "BUILD": "__setstate__",
    "APPENDS": "extend",
    "SETITEMS": "__setitem__",
    "ADDITEMS": "add",
}
"""The methods that opcodes call on an object."""
_PROGRAM: Final = "__torch__."
"""Where TorchScript has the classes of the program in its archive: no module that Python could import."""
_MODEL_CLASS: Final = "model_class"
"""The key of HER's wrapped algorithm, the only one that names an algorithm."""


class Judged(NamedTuple):
    """What came of one pickle."""

    findings: list[Finding]
    imports: set[str]
    log: list[Node | Update]
    pickle: Pickle | None
    """None when it is broken."""
    value: object
    """What was recognised."""
    parts: list[object]
    """Every composite value and node that it makes, each once."""
    is_cut: bool
    """It asked for more than is allowed, so that not all of it was recognised."""
    omitted: int
    """Findings beyond a thousand of each verdict."""
    is_harmful: bool
    """Something in it is known to do harm, listed or not."""


def judge(
    found: Attempt,
    data: bytes,
    place: Place,
    budget: Budget,
    allow: frozenset[str],
    *,
    encoding: str = "ascii",
    is_program: bool = False,
) -> Judged:
    """Judge one pickle; what precedes a fault counts.

    :param found: how far it could be decoded
    :param data: the pickle, and whatever follows it
    :param place: where it is
    :param budget: the operation's
    :param allow: dotted names that are taken for known
    :param encoding: of Python 2's 8-bit strings
    :param is_program: it is a record of a TorchScript archive, which only ``torch.jit`` reads
    """
    judged = _Judgement(place, allow, found, len(data))
    judged.is_program = is_program
    judged.of_pickle(budget, None)
    if found.error is not None:
        judged.findings.append(place.broken(found.error))
    return judged.finished(data, budget, encoding)


def judge_pth(data: bytes, pickle: Pickle, scope: Scope, place: Place, budget: Budget, allow: frozenset[str]) -> Judged:
    """Judge the pickle of a ``.pth`` that was opened.

    :param data: its bytes
    :param pickle: decoded
    :param scope: finds its storages
    :param place: where it is
    :param budget: the operation's
    :param allow: dotted names that are taken for known
    """
    judged = _Judgement(place, allow, Attempt(pickle, pickle.log, None, pickle.size), pickle.size)
    judged.of_pickle(budget, scope)
    return judged.finished(data, budget, "utf-8")


class _Judgement:
    """The findings of one pickle while they are made."""

    def __init__(self, place: Place, allow: frozenset[str], found: Attempt, size: int) -> None:
        self.place = place
        self.allow = allow
        self.found = found
        self.pickle = found.pickle
        self.log = found.log
        self.size = size
        self.parts: list[object] = []
        self._given: dict[int, Call] | None = None
        self._called: dict[int, str] | None = None
        self.findings: list[Finding] = []
        self.value: object = None
        self.is_cut = False
        self.is_program = False
        self._nodes: list[tuple[Finding, int]] = []
        """Findings whose offset is not known yet, with the ``id()`` of their node."""
        self._said: set[tuple[str, tuple[str, ...], str]] = set()
        self._counts: dict[str, int] = {}
        self._omitted = 0
        self._is_full = False
        self._is_harmful = False

    def _wrapped(self, root: object) -> object:
        """The algorithm that HER wraps: the blob of that key, or its value in a pickle of Stable Baselines 2."""
        if self.place.key == _MODEL_CLASS:
            return root
        data = root[0] if type(root) is tuple and len(root) == 2 else None
        values = [value for key, value in data if key == _MODEL_CLASS] if type(data) is Dict else []
        return values[0] if len(values) == 1 else None

    # -- what the recognisers say ---------------------------------------------------------------------

    def of_pickle(self, budget: Budget, scope: Scope | None) -> None:
        """Judge by what the recognisers understood; of a broken pickle, too, the calls are recognised."""
        pickle = self.pickle
        whole = pickle or Pickle(None, self.log, 0, self.size, frozenset(), ())
        self._of_values(whole, budget)
        try:
            self.value, decoder = decode_tree(whole, budget, scope, checks_unread=True)
            discarded = self._discarded(decoder)
        except SbformatError as error:
            self.is_cut = True
            for node in self.log:
                self._of_node(node)
            self.findings.append(self.place.broken(error))
            return
        for flag in whole.flags:
            self.findings.append(self.place.finding("odd-pickle", f"{flag}: no pickler of plain data writes that"))
        carries = any(doubt.rule in _CARRIED for doubt in decoder.issues.values())
        for doubt in decoder.issues.values():
            if doubt.rule != "name" or not carries:
                self._of_doubt(doubt)
        wrapped = self._wrapped(whole.value)
        for node in self.log:
            if isinstance(node, Global) and node.pair in ALGORITHMS and node is not wrapped:
                message = "an algorithm where SB3 expects none: it makes the environment that a text names"
                is_called = id(node) in self._called_names() or id(node) in self._given_names()
                self._add("called-name" if is_called else "unknown-name", node, message, (_name(node),))
            if id(node) not in decoder.understood and id(node) not in decoder.issues:
                self._of_node(node)
                continue
            if isinstance(node, Call):
                self._of_understood(node, decoder, carries=carries)
            if id(node) in discarded and pickle is not None:
                name = _name(node)
                message = f"{escape(name, _SHOWN)} is called, and nothing uses what it gives"
                self._add("discarded-result", node, message, (name,))

    def _of_values(self, whole: Pickle, budget: Budget) -> None:
        """Judge what the machine noted: values that are changed, keys that cannot be hashed, frames that are wrong."""
        found, place = self.found, self.place
        for fault in found.faults:
            self.findings.append(place.finding("broken", f"pickle failure: {fault}"))
        self.parts = list(walk([*self.log, whole.value, *whole.discarded]))
        fault_of_key = find_key_fault(self.parts, budget.limits)
        if fault_of_key is not None:
            self.findings.append(place.finding("broken", f"pickle failure: {fault_of_key}"))
        if found.is_ambiguous:
            message = "frames end inside arguments, so that unpicklers read different bytes, and no pickler does that"
            self.findings.append(place.finding("ambiguous-frame", message))
        if found.is_uncertain:
            message = "a bytearray or list is changed in a way that cannot be followed, as no pickler does"
            self.findings.append(place.finding("changed-value", message))
        elif find_late_changes(self.log, found.changes):
            message = "a value is changed after a call was given it, so that the call saw another one"
            self.findings.append(place.finding("changed-value", message))

    def _of_understood(self, node: Call, decoder: Decoder, *, carries: bool) -> None:
        """A call that was accepted: names among its arguments that nothing asked for, and what depends on the rest."""
        for arg in node.args if type(node.args) is tuple else ():
            if isinstance(arg, Global) and not decoder.has_examined(arg):
                message = (
                    f"{escape(_name(arg), _SHOWN)} is given to {escape(_name(node), _SHOWN)}, which takes no name there"
                )
                self._add("unchecked-arguments", arg, message, (_name(arg),), _DANGEROUS)
        role = find_role(node)
        if role == "module" and not carries:
            message = "a module is imported, and no function or class that is carried along needs it"
            self._add("unchecked-arguments", node, message, (_name(node),), _DANGEROUS)
        elif role == "sparse":
            message = "a sparse tensor: torch takes its indices as they come, also those that lie outside"
            self._add("unchecked-arguments", node, message, (_name(node),))

    def _discarded(self, decoder: Decoder) -> set[int]:
        """Recognise calls that the value does not hold, as a POP leaves them; return those that nothing uses.

        From the last to the first: a call stands behind those that it is given.
        """
        discarded: set[int] = set()
        for node in reversed(self.log):
            if isinstance(node, Call) and decoder.is_pending(node):
                decoder.decode(node)
                discarded.add(id(node))
        return discarded

    def _of_doubt(self, doubt: Issue) -> None:
        node, message = doubt.node, doubt.message
        if doubt.rule == "function":
            self._add("carried-function", node, message, (_name(node),))
        elif doubt.rule == "class":
            self._add("carried-class", node, message, (_name(node),))
        elif doubt.rule == "called":
            self._add("carried-function", node, message, (_name(node),), _DANGEROUS)
        elif doubt.rule == "base":
            self._of_base(node, message)
        elif doubt.rule == "module":
            why = reason((message, ""))
            rule: Rule = "dangerous-name" if why else "unknown-name"
            text = f"the module {escape(message, _SHOWN)} is imported" + (f": it {why}" if why else "")
            self._add(rule, node, text, (message,))
        elif doubt.rule == "arguments":
            self._of_arguments(node, message)
        elif isinstance(node, Global) and node.pair in CALLS:
            self._of_callee(node)
        else:
            self._of_node(node)

    def _of_callee(self, node: Global) -> None:
        """A known constructor that stands as a value: whoever gets it may call it with anything."""
        name, why = _name(node), reason(node.pair)
        message = f"{escape(name, _SHOWN)} stands as a value, for others to call"
        if why or CALLS[node.pair] in REACHING:
            self._add("dangerous-name", node, f"{message}: it {why or 'reaches code'}", (name,))
        else:
            self._add("unchecked-arguments", node, message, (name,))

    def _of_base(self, node: Node | Update, message: str) -> None:
        """A name that a class carried by value inherits from or is made by, and that is not known."""
        name, why = _name(node), reason(node.pair) if isinstance(node, Global) else None
        if why or name not in self.allow:
            text = f"{escape(name, _SHOWN)} {message}" + (f"; it {why}" if why else "")
            self._add("dangerous-name" if why else "unknown-call", node, text, (name,))

    def _of_arguments(self, node: Node | Update, message: str) -> None:
        """A known constructor that is given what its library never writes, or a storage that is none."""
        if not isinstance(node, Call):
            self._add("unchecked-arguments", node, message)
            return
        name, func = _name(node), node.func
        reaches = find_role(node) in REACHING or not isinstance(func, Global)
        why = reason(func.pair) if reaches and isinstance(func, Global) else None
        text = f"{escape(name, _SHOWN)} is called as its library never does: {message}"
        if why:
            self._add("dangerous-name", node, f"{text}; it {why}", (name,))
        else:
            self._add("unchecked-arguments", node, text, (name,), _DANGEROUS if reaches else None)

    # -- names ----------------------------------------------------------------------------------------

    def _of_node(self, node: Node | Update) -> None:
        if self._is_full and self._counts.get("unknown", 0) >= MOST_FINDINGS:
            self._omitted += 1  # nothing that could be found is worse than what is listed
        elif isinstance(node, Global):
            self._of_global(node)
        elif isinstance(node, Call):
            self._of_call(node)
        elif isinstance(node, Extension):
            message = "a name is taken by its number from the copyreg registry: what it is, only the loader knows"
            self._add("computed-name", node, message, (_name(node),))
        elif isinstance(node, Update) and isinstance(node.target, Global):
            message = f"{escape(_name(node.target), _SHOWN)} itself is changed, for the whole process that loads it"
            self._add("unchecked-arguments", node, message, (_name(node.target),), _DANGEROUS, reason="harmful")
        elif isinstance(node, Update) and not isinstance(node.target, Call):
            self._add("unchecked-arguments", node, "a reference is given a state, which no pickler does")

    def _of_global(self, node: Global) -> None:
        name, why = _name(node), reason(node.pair)
        if is_known(node.pair):
            return
        if why:
            self._add("dangerous-name", node, f"{escape(name, _SHOWN)} is imported: it {why}", (name,))
        elif name not in self.allow and not self._is_of_program(name):
            self._of_unknown_name(node, name)

    def _is_of_program(self, name: str) -> bool:
        """Say whether a name is of a class that a TorchScript archive defines, which no unpickler imports."""
        return self.is_program and name.startswith(_PROGRAM)

    def _called_names(self) -> dict[int, str]:
        """Return the names that Stable-Baselines calls, found when they are first needed."""
        if self._called is None:
            root = self.pickle.value if self.pickle is not None else self.log if self.place.key else None
            self._called = find_called_names(root, self.place.key)
        return self._called

    def _given_names(self) -> dict[int, Call]:
        """Return the names that known constructors are given."""
        if self._given is None:
            self._given = find_given_names(self.log)
        return self._given

    def _of_unknown_name(self, node: Global, name: str) -> None:
        """Judge a name that is not known by what becomes of it: it is called, now or later, or only imported."""
        shown = escape(name, _SHOWN)
        remedy = f"if you trust it, allow {shown} by name"
        if id(node) in self._called_names():
            key = self._called_names()[id(node)]
            what = "under 'data'" if key.endswith("__") else f"as part of {escape(key, _SHOWN)!r}"
            message = f"{shown} is not known to sbformat, and Stable-Baselines calls what is given {what}; {remedy}"
            self._add("called-name", node, message, (name,))
        elif id(node) in self._given_names():
            taker = escape(_name(self._given_names()[id(node)]), _SHOWN)
            message = f"{shown} is not known to sbformat and is given to {taker}, which may call it; {remedy}"
            self._add("called-name", node, message, (name,))
        else:
            message = f"{shown} is not known to sbformat: loading imports its module, and calls nothing of it"
            self._add("unknown-name", node, message, (name,))

    def _of_call(self, node: Call) -> None:
        func, role = node.func, find_role(node)
        if node.how == "STACK_GLOBAL" or not isinstance(func, Global):
            message = "what is imported or called is itself computed by a call: no reader can tell what it is"
            self._add("computed-name", node, message)
            return
        name, why, shown = _name(func), reason(func.pair), escape(_name(func), _SHOWN)
        if self.is_cut and not why and (role is not None or is_known(func.pair)):
            return  # it was not looked at, which is told
        if role is not None and not (why and role in REACHING):
            message = f"{shown} is called where nothing of its kind belongs"
            self._add("unchecked-arguments", node, message, (name,), _DANGEROUS if role in REACHING else None)
        elif why:
            self._add("dangerous-name", node, f"{shown} is called: it {why}", (name,))
        elif name in self.allow:
            return
        elif self._is_of_program(name):
            self._add("carried-program", node, f"an object of {shown}, a class of a TorchScript program", (name,))
        elif is_known(func.pair):
            message = f"{shown} is called by {node.how}, as no pickler of its library does"
            self._add("unknown-object" if node.how.startswith("NEWOBJ") else "unknown-call", node, message, (name,))
        elif node.how.startswith("NEWOBJ"):
            methods = ", ".join(dict.fromkeys(_METHODS[change.how] for change in node.updates or ()))
            message = (
                f"an object of {shown} is made, a class that is not known to sbformat: loading runs its __new__"
                f"{' and ' if methods else ''}{methods}; if you trust it, allow {shown} by name"
            )
            self._add("unknown-object", node, message, (name,))
        else:
            message = f"{shown} is called, which is not known to sbformat; if you trust it, allow {shown} by name"
            self._add("unknown-call", node, message, (name,))

    # -- the findings ---------------------------------------------------------------------------------

    def _add(
        self,
        rule: Rule,
        node: Node | Update,
        message: str,
        names: tuple[str, ...] = (),
        verdict: Verdict | None = None,
        *,
        reason: Reason | None = None,
    ) -> None:
        if (rule, names, message) in self._said:
            return
        worth = verdict or RULES[rule][0]
        self._is_harmful = self._is_harmful or "harmful" in (reason, reason_of(rule, worth))
        count = self._counts[worth] = self._counts.get(worth, 0) + 1
        self._is_full = self._is_full or (worth == _DANGEROUS and count >= MOST_FINDINGS)
        if count > MOST_FINDINGS:
            self._omitted += 1
            return
        self._said.add((rule, names, message))
        found = self.place.finding(rule, message, names=names, verdict=verdict, reason=reason)
        self._nodes.append((found, id(node)))

    def finished(self, data: bytes, budget: Budget, encoding: str) -> Judged:
        """Return the findings, with the offsets of their opcodes where the bytes are at hand."""
        offsets: dict[int, int] = {}
        if self._nodes and data:
            traced = trace(data, self.found, budget, encoding=encoding)
            offsets = {id(node): offset for node, offset in zip(self.log, traced)}
        for finding, node in self._nodes:
            self.findings.append(replace(finding, offset=offsets.get(node)))
        return Judged(
            findings=self.findings,
            imports=set(_imports(self.log)),
            log=self.log,
            pickle=self.pickle,
            value=self.value,
            parts=self.parts,
            is_cut=self.is_cut,
            omitted=self._omitted,
            is_harmful=self._is_harmful,
        )


def _name(node: object) -> str:
    """Return the dotted name that a node imports, calls or makes an object of."""
    if isinstance(node, Call):
        return _name(node.func) if node.func is not None else "a computed name"
    if isinstance(node, Extension):
        return f"copyreg extension {node.code}"
    return str(node) if isinstance(node, Global) else "a computed name"


def _imports(log: list[Node | Update]) -> Iterator[str]:
    """Yield every dotted name that a log imports, and the modules that ``subimport`` is told to import."""
    for node in log:
        if isinstance(node, Global):
            yield escape(str(node), 1000)
        elif isinstance(node, Call) and find_role(node) == "module":
            args = node.args
            if isinstance(args, tuple) and len(args) == 1 and isinstance(args[0], str):
                yield escape(args[0], 1000)
