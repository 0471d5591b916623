r"""Judge one pickle: a finding for everything in it that sbformat does not understand (SCANNING.md 14.1).

Theory of operation.

In comes an :class:`~sbformat.pkl.Attempt` of the pickle machine, which has executed nothing. It contains the *log*
(every import, call and change of an object, in the order in which an unpickler performs them, up to STOP or to the
first fault) and the tree of the value, if STOP was reached. POP removes values from the stack, never rows from the log.
Out comes :class:`Judged`: the findings, the imported names, and the values in which the scanner looks for more pickles.

1. The remarks of the machine come first: faults, keys that cannot be hashed, ambiguous frames, and values that are
   changed after a call received them (``broken``, ``ambiguous-frame``, ``changed-value``).
2. :func:`sbformat.values.decode_tree` matches the tree against the constructors that sbformat knows, and checks their
   arguments. After that, a node of the log is *understood*, or has an *issue* that says why it is not, or neither.
   Calls that the value does not contain are decoded too, the last first, because a call comes after its arguments.
3. Each row of the log is judged: one with an issue by that issue; one that is understood by what its library does not
   check (``_judge_call``); any other by its name (:mod:`sbformat.tools.scan.judge`).

Invariants: each row of the log is understood or gives a finding. A name that is not known and is called, now or after
loading, is ``dangerous``; one that is only referred to is ``unknown``. The list of names that are known to do harm is
never complete, so it only makes a verdict worse, and the reason of a dangerous finding ``harmful`` instead of
``not-known``. Verdicts from best to worst: clean, unknown, code, broken, dangerous. The worst finding counts.

Worked example: the pickle ``cos\nsystem\n(S'id'\ntR.``

    opcode                 log                                finding
    GLOBAL 'os system'     Global('os', 'system')             dangerous-name: "os.system is imported: it runs commands"
    MARK, STRING, TUPLE
    REDUCE                 Call(Global os.system, ('id',))    dangerous-name: "os.system('id') is called: it ..."
    STOP

Both have the reason ``harmful``. With ``mine.Policy`` for ``os.system``, the import is an ``unknown-name`` (unknown),
the call an ``unknown-call`` (dangerous, ``not-known``). Without the REDUCE only the import remains, unless SB3 calls
the value after loading: ``called-name``, dangerous. ``collections.OrderedDict()`` is understood, and gives no finding.
"""

from __future__ import annotations

import codecs
import re
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.constants import ENTROPY_OPTIMIZER, PTH_SUFFIX, PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY, TORCH_VARIABLES
from sbformat.errors import SbformatError, TensorError, escape
from sbformat.immutable import Record
from sbformat.known.context import RUNS_WHEN_CALLED
from sbformat.known.dangerous import ADDRESS, explain_danger
from sbformat.known.sb3 import CALLABLE_KEYS, EXAMINED_KEYS, OBJECT_KEYS, is_sb3_attribute
from sbformat.known.table import find, find_called, find_role
from sbformat.known.types import (
    ConstantSchedule,
    Described,
    FloatSchedule,
    Function,
    Instance,
    InterpolatedSchedule,
    LinearSchedule,
    Partial,
    Reference,
)
from sbformat.pkl import Pickle
from sbformat.pkl.decode import Attempt, trace
from sbformat.pkl.disassembly import render_arguments
from sbformat.pkl.numpy import ArrayInfo, reaches_memory
from sbformat.pkl.tree import (
    BYTES,
    DEVICE_TYPES,
    WALKED,
    Call,
    Dict,
    Extension,
    Global,
    Node,
    Persistent,
    Update,
    children,
    walk,
)
from sbformat.pth.values import Device, SparseTensor
from sbformat.rendering import count_noun
from sbformat.tools.scan.findings import RULES, SHOWN, UNKNOWN_KEY, FindingCounter, default_reason
from sbformat.values import decode_tree
from sbformat.values.hashing import find_key_fault
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sbformat.known.rows import Known
    from sbformat.limits import Budget
    from sbformat.pkl.tree import UpdateHow
    from sbformat.pth.context import DecodeContext
    from sbformat.tools.scan.findings import Finding, Location, Reason, Rule, Verdict
    from sbformat.values import Decoder, Issue


_EXAMINED: Final = WALKED | BYTES
_CARRIED: Final = {"function": "carried-function", "class": "carried-class"}
"""Issues of functions and classes that are pickled by value, and their rules."""
_MODEL_CLASS: Final = "model_class"
"""The key of the algorithm that HER wraps: the only key of ``data`` that names an algorithm."""


_Key: TypeAlias = "tuple[Rule, str, tuple[str, ...]]"


class Judged(Record):
    """The result for one pickle."""

    findings: list[Finding]
    imports: set[str]
    pickle: Pickle | None
    """None when the pickle is broken."""
    value: object
    """The decoded value."""
    parts: list[object]
    """Every composite value, node and bytes object of the pickle, once."""
    is_cut: bool
    """Decoding exceeded a limit, so that some nodes were judged by their names only."""
    omitted: int
    """Number of findings beyond a thousand of each verdict."""
    is_harmful: bool
    """Whether any finding, listed or omitted, is ``harmful``."""


def judge(
    attempt: Attempt,
    data: bytes,
    location: Location,
    budget: Budget,
    allow: frozenset[str],
    *,
    encoding: str = "ascii",
    is_program: bool = False,
    scope: DecodeContext | None = None,
) -> Judged:
    """Judge one pickle; what precedes a fault counts.

    :param attempt: the pickle, decoded as far as possible
    :param data: the pickle and any bytes that follow it
    :param location: of the pickle
    :param budget: of the scan
    :param allow: dotted names to treat as known
    :param encoding: of Python 2's 8-bit strings
    :param is_program: whether it is a record of a TorchScript archive, which only ``torch.jit`` reads
    :param scope: finds the storages of a ``.pth``
    """
    state = _PickleJudge(location, allow, attempt, is_program=is_program)
    state.judge_pickle(budget, scope, len(data))
    if attempt.error is not None:
        state.findings.append(location.broken(attempt.error))
    return state.finish(data, budget, encoding)


def judge_decoded(
    pickle: Pickle,
    data: bytes,
    location: Location,
    budget: Budget,
    allow: frozenset[str],
    scope: DecodeContext | None = None,
) -> Judged:
    """Judge a pickle that is decoded already, such as that of a ``.pth``.

    :param data: its bytes; empty when offsets are not needed
    :param scope: finds the storages of a ``.pth``
    """
    attempt = Attempt(pickle, pickle.log, None, pickle.size)
    return judge(attempt, data, location, budget, allow, encoding="utf-8", scope=scope)


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


class _PickleJudge:
    """Collects the findings of one pickle."""

    def __init__(self, location: Location, allow: frozenset[str], attempt: Attempt, *, is_program: bool) -> None:
        self.location = location
        self.allow = allow
        self.attempt = attempt
        self.log = attempt.log
        self.parts: list[object] = []
        self.value: object = None
        self.is_cut = False
        self.findings: list[Finding] = []
        self._located: list[tuple[Finding, int, _Key]] = []
        """Findings whose offset is not known yet, with the ``id()`` of their node, and what is found once."""
        self._said: dict[_Key, int] = {}
        """What was found, and how many more calls of the same name there are: one finding has the arguments of one."""
        self._counter = FindingCounter()
        self._is_program = is_program

    def judge_pickle(self, budget: Budget, scope: DecodeContext | None, size: int) -> None:
        """Judge everything in the pickle; in a broken one, the calls before the fault are decoded too."""
        pickle = self.attempt.pickle or Pickle(None, self.log, 0, size, frozenset(), ())
        self._judge_machine(pickle, budget)
        try:
            self.value, decoder = decode_tree(pickle, budget, scope, checks_unread=True)
            discarded = self._decode_discarded(decoder)
        except SbformatError as error:
            self.is_cut = True
            for node in self.log:
                self._judge_unrecognized(node)
            self.findings.append(self.location.broken(error))
            return
        for flag in pickle.flags:
            self.findings.append(self.location.finding("odd-pickle", f"{flag}, which no pickler of plain data writes"))
        issues = decoder.issues
        carries_code = any(issue.rule in _CARRIED for issue in issues.values())
        for issue in issues.values():
            if issue.rule != "name" or not carries_code:
                self._judge_issue(issue)
        wrapped = self._find_wrapped_algorithm(pickle.value)
        for node in self.log:
            if isinstance(node, Global) and "algorithm" in find(node.pair).uses and node is not wrapped:
                self._add(node, self._describe_algorithm(node))
            if id(node) not in decoder.understood and id(node) not in issues:
                self._judge_unrecognized(node)
                continue
            if isinstance(node, Call):
                self._judge_known_call(node, decoder, carries_code=carries_code)
                if id(node) in decoder.understood:
                    self._judge_value(node, decoder.value(node), budget)
            if id(node) in discarded and self.attempt.pickle is not None:
                self._report("discarded-result", node, "is called, and its result is discarded")
        self._judge_storages(pickle.value)

    def _find_wrapped_algorithm(self, root: object) -> object:
        """Return the algorithm that HER wraps: the value of that key, also in a pickle of Stable Baselines 2."""
        if self.location.key == _MODEL_CLASS:
            return root
        data = root[0] if type(root) is tuple and len(root) == 2 else None
        values = [value for key, value in data if key == _MODEL_CLASS] if type(data) is Dict else []
        return values[0] if len(values) == 1 else None

    def _judge_machine(self, pickle: Pickle, budget: Budget) -> None:
        """Judge what the machine noted: faults, unhashable keys, wrong frames, and values that are changed late."""
        attempt, location = self.attempt, self.location
        for fault in attempt.faults:
            self.findings.append(location.finding("broken", f"pickle failure: {fault}"))
        self.parts = list(walk([*self.log, pickle.value, *pickle.discarded], kinds=_EXAMINED))
        key_fault = find_key_fault(self.parts, budget.limits)
        if key_fault is not None:
            self.findings.append(location.finding("broken", f"pickle failure: {key_fault}"))
        if attempt.is_ambiguous:
            message = "frames end inside arguments, so unpicklers read different bytes; no pickler writes such frames"
            self.findings.append(location.finding("ambiguous-frame", message))
        if attempt.is_uncertain:
            message = "a bytearray or list is changed in a way that sbformat cannot follow and that no pickler uses"
            self.findings.append(location.finding("changed-value", message))
        elif find_late_changes(self.log, attempt.changes):
            message = "a value is changed after it was passed to a call, so the call received a different value"
            self.findings.append(location.finding("changed-value", message))

    def _decode_discarded(self, decoder: Decoder) -> set[int]:
        """Decode calls that the value does not contain, as POP leaves them; return the ``id()`` of the unused ones."""
        discarded: set[int] = set()
        for node in reversed(self.log):
            if isinstance(node, Call) and decoder.is_pending(node):
                decoder.decode(node)
                discarded.add(id(node))
        return discarded

    def _judge_known_call(self, node: Call, decoder: Decoder, *, carries_code: bool) -> None:
        """Judge the arguments of a call that has a decoder: unexpected names among them, and modules."""
        for arg in node.args if type(node.args) is tuple and id(node) in decoder.understood else ():
            if isinstance(arg, Global) and not decoder.has_examined(arg):
                callee = escape(name_of(node), SHOWN)
                message = f"is passed to {callee}, which expects no function or class there"
                self._report("unchecked-arguments", arg, message, DANGEROUS)
        role = find_role(node)
        if role == "module" and not carries_code and id(node) not in decoder.claimed:
            message = "imports a module that no function or class in the pickle needs"
            self._report("unchecked-arguments", node, message, DANGEROUS)

    def _judge_value(self, node: Call, value: object, budget: Budget) -> None:
        """Judge the indices of a sparse tensor, by which torch accesses memory, a device, and a description."""
        if type(value) is Instance and find(value.type.pair).kind == "environment_spec":
            message = "describes an environment; loading it imports nothing else, and making the environment does"
            self._report("unknown-name", node, message)
        if type(value) is Device and value.type.partition(":")[0] not in DEVICE_TYPES:
            message = "names a device that torch does not have: without an extension of torch, loading it fails"
            self._report("unchecked-arguments", node, message)
        if type(value) is not SparseTensor:
            return
        from sbformat.pth.arrays import index_arrays

        try:
            index_arrays(value, budget)
        except TensorError as error:
            self._report("unchecked-arguments", node, f"makes a sparse tensor: {error.message}", DANGEROUS, "harmful")
        except SbformatError as error:
            self.findings.append(self.location.broken(error))

    def _judge_storages(self, root: object) -> None:
        """Judge storages that no tensor uses: SB3 saves none, and cannot load one in place of a tensor.

        :param root: a storage here is that of a tensor in ``data``, which refers to a torch file of its own
        """
        calls = [part for part in self.parts if isinstance(part, Call)]
        used = {id(call.args[0]) for call in calls if type(call.args) is tuple and call.args and find_role(call)}
        for part in self.parts:
            is_storage = isinstance(part, Persistent) or (
                isinstance(part, Call) and find_role(part) == "load_from_bytes"
            )
            if is_storage and id(part) not in used and not (part is root and isinstance(part, Persistent)):
                message = "a storage of numbers without a tensor, which SB3 does not save and cannot use"
                self.findings.append(self.location.finding("odd-pickle", message))
                return

    def _judge_issue(self, issue: Issue) -> None:
        """Judge a node that the decoder rejected, by the reason that it gives."""
        node, message, rule = issue.node, issue.message, issue.rule
        if rule in _CARRIED:
            if message.endswith(RUNS_WHEN_CALLED):
                message += _when_called(self.location.key)
            self._add(node, Remark(_CARRIED[rule], message, (name_of(node),)))  # type: ignore[arg-type]
        elif rule == "called":
            self._add(node, Remark("carried-function", message, (name_of(node),), DANGEROUS))
        elif rule == "base":
            self._judge_base(node, message)
        elif rule == "module":
            why = explain_danger((message, ""))
            text = f"the module {escape(message, SHOWN)} is imported" + (f": it {why}" if why else "")
            self._add(node, Remark("dangerous-name" if why else "unknown-name", text, (message,)))
        elif rule == "arguments":
            self._judge_arguments(node, message)
        elif isinstance(node, Global) and find(node.pair).role:
            self._judge_callee(node)
        else:
            self._judge_unrecognized(node)

    def _judge_callee(self, node: Global) -> None:
        """Judge a known constructor that is a value, so that other code may call it with any arguments."""
        message, why = "is stored as a value that other code may call", explain_danger(node.pair)
        if why:
            self._report("dangerous-name", node, f"{message}: it {why}")
        else:
            verdict = DANGEROUS if "reaches" in find(node.pair).uses else None
            self._report("unchecked-arguments", node, message, verdict)

    def _judge_base(self, node: Node | Update, message: str) -> None:
        """Judge an unknown name that a class pickled by value inherits from, or is created by."""
        why = explain_danger(node.pair) if isinstance(node, Global) else None
        if why or name_of(node) not in self.allow:
            text = message + (f"; it {why}" if why else "")
            self._report("dangerous-name" if why else "unknown-call", node, text)

    def _judge_arguments(self, node: Node | Update, message: str) -> None:
        """Judge a known constructor with arguments that sbformat does not know, or an invalid storage."""
        if not isinstance(node, Call):
            self._add(node, Remark("unchecked-arguments", message))
            return
        func = node.func
        is_reaching = "reaches" in find_called(node).uses or not isinstance(func, Global)
        is_harmful = is_reaching and not _is_as_harmful_as_arguments(node)
        why = explain_danger(func.pair) if is_harmful and isinstance(func, Global) else None
        text = f"is called with arguments that sbformat does not know: {message}"
        if why:
            self._report("dangerous-name", node, f"{text}; it {why}")
        elif find_role(node) == "sparse" or reaches_memory(node):
            text += "; its library does not check them, and may access memory outside the value"
            self._report("unchecked-arguments", node, text, DANGEROUS)
        else:
            self._report("unchecked-arguments", node, text, DANGEROUS if is_reaching else None)

    # -- what is not understood -----------------------------------------------------------------------

    def _describe_unrecognized(self, node: Node | Update) -> Remark | None:
        """Return the finding for a row; None when there is nothing to report."""
        if isinstance(node, Global):
            return self._describe_import(node)
        if isinstance(node, Call):
            return self._describe_call(node)
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

    def _describe_algorithm(self, node: Global) -> Remark:
        """Return the finding for an algorithm class where SB3 expects none."""
        is_called = id(node) in self._called_names or id(node) in self._given_names
        message = "an algorithm class is stored where SB3 expects none: called with a text, it creates that environment"
        return Remark("called-name" if is_called else "unknown-name", message, (name_of(node),))

    def _describe_import(self, node: Global) -> Remark | None:
        name, why = name_of(node), explain_danger(node.pair)
        row = find(node.pair)
        if row.is_known or self._is_of_program(name, row):
            return None
        if why and id(node) in self._plain_getters:
            return None  # its calls have findings
        if why:
            return Remark("dangerous-name", f"{escape(name, SHOWN)} is imported: it {why}", (name,))
        return None if name in self.allow else self._describe_unknown_import(node, name)

    def _describe_unknown_import(self, node: Global, name: str) -> Remark:
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

    def _describe_call(self, node: Call) -> Remark | None:
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
        if name in self.allow:
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
        attempt = self.attempt
        root = attempt.pickle.value if attempt.pickle is not None else attempt.log if self.location.key else None
        return find_called_names(root, self.location.key)

    @cached_property
    def _plain_getters(self) -> set[int]:
        """The ``attrgetter`` and ``methodcaller`` of which every call is given the name of a plain attribute."""
        plain: dict[int, bool] = {}
        for node in self.attempt.log:
            if isinstance(node, Call) and isinstance(node.func, Global) and "getter" in find(node.func.pair).uses:
                args = node.args if type(node.args) is tuple else ()
                names = args[:1] if node.func.name == "methodcaller" else args
                is_plain = bool(names) and all(
                    type(name) is str and explain_danger(("", f"object.{name}")) is None for name in names
                )
                plain[id(node.func)] = plain.get(id(node.func), True) and is_plain
        found = {node for node, is_plain in plain.items() if is_plain}
        root = [*self.attempt.log, self.attempt.pickle.value if self.attempt.pickle is not None else None]
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
        return find_given_names(self.attempt.log)

    # -- findings -------------------------------------------------------------------------------------

    def _judge_unrecognized(self, node: Node | Update) -> None:
        if self._counter.is_full(DANGEROUS) and self._counter.is_full("unknown"):
            self._counter.omitted += 1  # no finding can be worse than those that are listed
        else:
            self._add(node, self._describe_unrecognized(node))

    def _report(
        self,
        rule: Rule,
        node: Node | Update,
        predicate: str,
        verdict: Verdict | None = None,
        reason: Reason | None = None,
    ) -> None:
        """Add a finding whose message is a sentence about the name of a node."""
        name = name_of(node)
        call = node if isinstance(node, Call) and isinstance(node.func, Global) else None
        self._add(node, Remark(rule, f"{escape(name, SHOWN)} {predicate}", (name,), verdict, reason, call))

    def _add(self, node: Node | Update, remark: Remark | None) -> None:
        if remark is None:
            return
        rule, message, names, verdict, why, call = remark
        if (rule, message, names) in self._said:
            self._said[rule, message, names] += call is not None
            return
        verdict = verdict or RULES[rule][0]
        if self._counter.count(verdict, why or default_reason(rule, verdict)):
            self._said[rule, message, names] = 0
            found = self.location.finding(rule, remark.describe(), names=names, verdict=verdict, reason=why)
            self._located.append((found, id(node), (rule, message, names)))

    def finish(self, data: bytes, budget: Budget, encoding: str) -> Judged:
        """Return the findings, with the offsets of their opcodes when the bytes are available."""
        offsets: dict[int, int] = {}
        if self._located and data:
            traced = trace(data, self.attempt, budget, encoding=encoding)
            offsets = {id(node): offset for node, offset in zip(self.log, traced)}
        for finding, node, key in self._located:
            more = f"; {count_noun(self._said[key], 'more call')} of it" if self._said[key] else ""
            self.findings.append(finding._replace(offset=offsets.get(node), message=f"{finding.message}{more}"))
        return Judged(
            findings=self.findings,
            imports=set(_iter_imports(self.log)),
            pickle=self.attempt.pickle,
            value=self.value,
            parts=self.parts,
            is_cut=self.is_cut,
            omitted=self._counter.omitted,
            is_harmful=self._counter.is_harmful,
        )


def _when_called(key: str) -> str:
    """Return when SB3 calls a function under a key of ``data``, as the rest of a sentence; empty if not known."""
    if key in ("learning_rate", "lr_schedule"):
        return ": SB3 calls a learning rate when it loads the agent"
    if key.endswith(("_class", "_kwargs")):
        return ": SB3 instantiates classes under this key when it loads the agent"
    return ": SB3 calls this schedule when the agent trains" if key in EXAMINED_KEYS else ""


def _is_as_harmful_as_arguments(node: Call) -> bool:
    """Return whether a call can do no more than its arguments, each of which has its own findings."""
    role, args = find_role(node), node.args
    if type(args) is not tuple:
        return False
    if role == "reconstructor":  # base.__new__(class, state), and base.__init__
        base = args[1] if len(args) == 3 else None
        return isinstance(base, Global) and "plain base" in find(base.pair).uses
    if role in ("attribute", "dill_attribute"):
        path = _find_path(args)
        return path is not None and explain_danger(path) is None
    return role == "partial"


_MOST_CALLS: Final = 4
"""Calls of calls that are followed to the class of an object."""


def _find_path(args: tuple[object, ...]) -> tuple[str, str] | None:
    """Return the module and the dotted name that getattr looks up: of a class, an object, a module or a plain value."""
    if len(args) != 2 or type(args[1]) is not str:
        return None
    owner, name = args
    for _ in range(_MOST_CALLS):
        if not isinstance(owner, Call):
            break
        inner: tuple[object, ...] = owner.args if type(owner.args) is tuple else ()
        role = find_role(owner)
        if role == "module" and len(inner) == 1 and isinstance(inner[0], str):
            return inner[0], str(name)
        owner = inner[0] if role == "reconstructor" and inner else owner.func
    if isinstance(owner, Global):
        return owner.module, f"{owner.name}.{name}"
    return None if isinstance(owner, Node) or owner is None else ("builtins", f"{type(owner).__name__}.{name}")


def _iter_imports(log: list[Node | Update]) -> Iterator[str]:
    """Yield every dotted name that a log imports, and the modules that ``subimport`` imports."""
    for node in log:
        if isinstance(node, Global):
            yield escape(str(node), 1000)
        elif isinstance(node, Call) and find_role(node) == "module":
            args = node.args
            if isinstance(args, tuple) and len(args) == 1 and isinstance(args[0], str):
                yield escape(args[0], 1000)


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


_MODEL_DATA: Final = frozenset({"state_dict", "data"})
"""The keys of a file of ``policy.save``: parameters, and the arguments of the policy's constructor."""


def find_given_names(log: Iterable[Node | Update]) -> dict[int, Call]:
    """Return the calls of known constructors that receive a name, by the ``id()`` of the name."""
    given: dict[int, Call] = {}
    seen: set[int] = set()
    for node in log:
        if not isinstance(node, Call):
            continue
        if type(node.func) is not Global or not find(node.func.pair).is_known:
            continue  # a call of an unknown name has a finding of its own
        row = find_called(node)
        if "carries" in row.uses:
            continue
        if "holds" in row.uses:  # items of a list are only stored, but a name instead of the list is iterated over
            args = node.args if type(node.args) is tuple else ()
            given.update((id(arg), node) for arg in args if isinstance(arg, Global))
            continue
        holds_items = row.role == "default_dict"
        values = [node.args, node.kwargs]
        values += [update.value for update in node.updates or () if not (holds_items and update.how == "SETITEMS")]
        for name in _find_names(values, seen):
            given.setdefault(id(name), node)
    return given


def _find_names(roots: Iterable[object], seen: set[int], *, is_deep: bool = False) -> list[Global]:
    """Return the names in values, but not those within nodes.

    :param seen: the ``id()`` of values that were visited before
    :param is_deep: also return names within nodes, other than the name that a call calls
    """
    found, todo = [], list(roots)
    while todo:
        part = todo.pop()
        if id(part) in seen or not isinstance(part, (Node, list, tuple)):
            continue
        seen.add(id(part))
        if isinstance(part, Global):
            found.append(part)
        elif isinstance(part, Dict):
            todo.extend(value for pair in part for value in pair)
        elif isinstance(part, (list, tuple)):
            todo.extend(part)
        elif is_deep:
            if isinstance(part, Call):
                todo += [part.args, part.kwargs]
            todo.extend(update.value for update in part.updates or ())
    return found


def find_called_names(value: object, key: str) -> dict[int, str]:
    """Return the keys under which Stable-Baselines calls a name, by the ``id()`` of the name.

    :param value: the tree of a pickle
    :param key: the key of ``data`` that contains the pickle, or :data:`~sbformat.tools.scan.findings.UNKNOWN_KEY`;
        empty for any other pickle. Agents of Stable Baselines 2 and files of ``policy.save`` contain keys themselves
    """
    pairs: Sequence[tuple[object, object]] = [(key, value)]
    if not key:
        is_agent = type(value) in (tuple, list) and len(value) == 2  # type: ignore[arg-type]
        pairs = list_pairs(value[0] if is_agent else value)  # type: ignore[index]
        if not is_agent:
            is_model = {name for name, _ in pairs if type(name) is str} >= _MODEL_DATA
            pairs = [("data__", part) for name, part in pairs if name == "data" and is_model]
    called: dict[int, str] = {}
    for name, part in pairs:
        if isinstance(name, str) and (is_sb3_attribute(name) or name == UNKNOWN_KEY):
            for found in _find_names([part], set(), is_deep=True):
                called.setdefault(id(found), name)
    return called


def list_pairs(value: object) -> list[tuple[object, object]]:
    """Return the items of a dict of any type, as the tree contains them; empty for any other value."""
    if type(value) is Dict:
        return list(value)
    pairs: list[tuple[object, object]] = []
    if isinstance(value, Call) and find_role(value) == "ordered_dict":
        items = value.args[0] if value.args else ()  # type: ignore[index]
        if isinstance(items, (list, tuple)):
            pairs += [(item[0], item[1]) for item in items if isinstance(item, (list, tuple)) and len(item) == 2]
    for update in (value.updates if isinstance(value, Node) else None) or ():
        if update.how == "SETITEMS":
            pairs += update.value  # type: ignore[arg-type]
    return pairs


def find_late_changes(log: Sequence[Node | Update], changes: Iterable[tuple[object, int]]) -> bool:
    """Return whether a value was changed after a call received it, so that the call received a different value.

    :param log: of a pickle
    :param changes: the changed values, each with the length of the log at that moment
    """
    reached: set[int] = set()
    position = 0
    for target, moment in changes:
        while position < min(moment, len(log)):
            node = log[position]
            position += 1
            if isinstance(node, Call):
                _add_received([node.args, node.kwargs], reached)
        if id(target) in reached:
            return True
    return False


def _add_received(roots: Iterable[object], reached: set[int]) -> None:
    """Add the ``id()`` of every value that a call receives, but not those within nodes."""
    todo = list(roots)
    while todo:
        part = todo.pop()
        if id(part) in reached:
            continue
        if isinstance(part, bytearray):
            reached.add(id(part))
        elif isinstance(part, (list, tuple)):
            reached.add(id(part))
            todo.extend(value for pair in part for value in pair) if isinstance(part, Dict) else todo.extend(part)


_STATE_DICTS: Final = frozenset(
    {
        "policy", "policy.optimizer", "actor.optimizer", "critic.optimizer", ENTROPY_OPTIMIZER,
        *(name.removesuffix(PTH_SUFFIX) for name in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY)),
    }
)  # fmt: skip
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z][A-Za-z0-9_]*)?")
_LOCAL: Final = re.compile(r"file://(?:(?:localhost)?/(?![\\/])|[a-z]:)", re.IGNORECASE)
_SCHEME: Final = re.compile(r"://|^[\\/]{2}")
"""In a path that TensorBoard does not take as a local one; a chain (``a::b``) begins with a scheme."""
_SERVER: Final = re.compile(
    r"^[\\/]{2}|::|(?<![a-z0-9])(?:https?|ftps?|sftp|ssh|scp|smb|cifs|nfs|webhdfs|wss?|file|git|github)://",
    re.IGNORECASE,
)
"""Addresses in which a file names the server. Others, such as ``s3://``, name a store of objects, to which TensorBoard
and TensorFlow write with the credentials of the machine."""
_CALLABLE_OBJECTS: Final = (ConstantSchedule, LinearSchedule, FloatSchedule, InterpolatedSchedule, Instance)
_PLAIN: Final = (
    "builtins.property", "builtins.range", "builtins.slice", "types.MappingProxyType", "types.SimpleNamespace",
    "types.UnionType", "typing.Optional", "typing.Union",
)  # fmt: skip
"""Small values that cannot be called; others are methods, and generic types such as ``list[int]``."""
_BYTES: Final = ("encode", "bytes")


def judge_data_value(key: str, value: object, location: Location) -> Iterator[Finding]:
    """Judge a value of ``data`` by what SB3 does with its key.

    :param key: of ``data``
    :param value: a JSON value, or a decoded one
    :param location: of the value
    """
    text = _find_text(value)
    if key == "env" and value is not None:
        if text is None:
            yield location.finding("unknown-name", "SB3 never saves an environment, and uses this value as one")
        else:
            message = "SB3 creates the environment with this name, which may import a module"
            yield location.finding("dangerous-name", message, names=(text,))
    elif key == "tensorboard_log":
        yield from _judge_log_folder(str(value) if isinstance(value, PurePath) else text or "", location)
    elif (
        (
            isinstance(value, (Function, Partial, Reference))
            or (isinstance(value, Described) and value.kind not in _PLAIN)
        )
        and key not in CALLABLE_KEYS
    ) or (isinstance(value, _CALLABLE_OBJECTS) and key not in OBJECT_KEYS):
        message = "a class, function or schedule is stored under a key where SB3 stores none, and may replace a method"
        yield location.finding("unknown-name", message, names=(_name_of(value),))


def _judge_log_folder(path: str, location: Location) -> Iterator[Finding]:
    """Judge the folder to which training writes: an address of a local folder, of a store of objects, or any other."""
    if not _SCHEME.search(path):
        return
    local = _LOCAL.match(path)
    if local and not ADDRESS.search(path, local.end()):
        yield location.finding("unknown-name", "the log folder is given as an address of a local folder", names=(path,))
        return
    message = "the log folder is a network address, to which training connects"
    reason: Reason = "harmful" if _SERVER.search(path) else "not-known"
    yield location.finding("dangerous-name", message, names=(path,), reason=reason)


def _name_of(value: object) -> str:
    """Return the name of a class, function or schedule as people write it."""
    if isinstance(value, (Reference, Instance)):
        return ".".join((value if isinstance(value, Reference) else value.type).pair)
    return value.qualname if isinstance(value, Function) else render_line(value)


def _find_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, ArrayInfo) and value.dtype[1:2] == "U":
        decode = codecs.utf_32_be_decode if value.dtype[0] == ">" else codecs.utf_32_le_decode
        return decode(value.read(), "replace", True)[0].rstrip("\0")
    return None


def judge_attribute_path(path: str, location: Location) -> Iterator[Finding]:
    """Judge the name of a state dict or variable, which SB3 looks up on the agent attribute by attribute.

    :param path: the name without its suffix
    :param location: of the entry
    """
    if path in _STATE_DICTS or path in TORCH_VARIABLES:
        return
    shown = escape(path, SHOWN)
    parts = path.split(".")
    if _PLAIN_NAME.fullmatch(path) and "ctypes" not in parts:
        yield location.finding(
            "unknown-entry", f"no release of SB3 writes {shown}; SB3 looks up an attribute of this name on the agent"
        )
        return
    if len(parts) > 2 or "ctypes" in parts or any(part.startswith("__") and part.endswith("__") for part in parts):
        message = f"SB3 looks up {shown} on the agent, attribute by attribute, which reaches objects other than tensors"
        yield location.finding("dangerous-name", message, names=(path,))
        return
    yield location.finding("unknown-entry", f"SB3 looks up {shown} on the agent, which is not the name of an attribute")


def judge_state_dict(tree: object, parts: Iterable[object], location: Location) -> Iterator[Finding]:
    """Judge the values of a ``.pth``: names of variables, and values that a fused optimizer does not check.

    :param tree: the tree of its pickle
    :param parts: every composite value and node of the pickle, also of values that it popped
    :param location: of the entry
    """
    if location.entry in (PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY):
        keys = [key for key, _ in list_pairs(tree)]
        for name in dict.fromkeys(key for key in keys if isinstance(key, str)):
            yield from judge_attribute_path(name, location)
        for key in keys:
            if isinstance(key, Node):
                message = "SB3 looks up on the agent what a key contains, and this key is not text"
                yield location.finding("dangerous-name", message)
    if next(_judge_keys(parts, location), None) is not None:  # perhaps in a popped value, which torch does not use
        yield from _judge_keys(walk(tree), location)


def _judge_keys(parts: Iterable[object], location: Location) -> Iterator[Finding]:
    """Yield a finding for the first key that is a node, or that makes an optimizer a fused one."""
    for part in parts:
        if type(part) is not Dict and not isinstance(part, Node):  # without keys
            continue
        for key, value in list_pairs(part):
            if isinstance(key, Node) and not (isinstance(key, Call) and find_role(key) in _BYTES):
                yield location.finding("unchecked-arguments", "a key is neither text, a number nor bytes")
                return
            if type(key) is str and key == "fused" and not (value is None or (isinstance(value, int) and not value)):
                message = (
                    "a fused optimizer, which does not check the sizes of its state and may access memory past a tensor"
                )
                yield location.finding("unchecked-arguments", message)
                return
