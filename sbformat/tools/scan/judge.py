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
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sbformat.constants import ENTROPY_OPTIMIZER, PTH_SUFFIX, PYTORCH_VARIABLES_ENTRY, TENSORS_ENTRY, TORCH_VARIABLES
from sbformat.errors import SbformatError, TensorError, escape
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
_LISTS: Final = frozenset({list, tuple})
_EXAMINED_VALUES: Final = frozenset({Instance, Device, SparseTensor})  # types of the values of calls
_CARRIED: Final = {"function": "carried-function", "class": "carried-class"}
"""Issues of functions and classes that are pickled by value, and their rules."""
_MODEL_CLASS: Final = "model_class"
"""The key of the algorithm that HER wraps: the only key of ``data`` that names an algorithm."""


_Key: TypeAlias = "tuple[Rule, str, tuple[str, ...]]"


DANGEROUS: Final[Verdict] = "dangerous"
_METHODS: Final[dict[UpdateHow, str]] = {
    "BUILD": "__setstate__", "APPENDS": "extend", "SETITEMS": "__setitem__", "ADDITEMS": "add",
}  # fmt: skip
"""The methods that opcodes call on an object."""
_PROGRAM: Final = "__torch__."
"""The package of the classes that a TorchScript archive defines; Python has no such module."""
_STORED_ALGORITHM: Final = (
    "an algorithm class is stored where SB3 expects none: called with a text, it creates that environment"
)


class Judged:
    """The findings in one pickle, and what the scanner looks at next; what precedes a fault counts.

    :param is_program: whether it is a record of a TorchScript archive, which only ``torch.jit`` reads
    """

    def __init__(self, location: Location, allow: frozenset[str], attempt: Attempt, *, is_program: bool) -> None:
        self.location = location
        self.allow = allow
        self.attempt = attempt
        self.log = attempt.log
        self.parts: list[object] = []
        """Every dict, set, node and bytes object of the pickle, once."""
        self.value: object = None
        self.is_cut = False
        """Decoding exceeded a limit, so that some nodes were judged by their names only."""
        self.findings: list[Finding] = []
        self.counter = FindingCounter()
        self._located: list[tuple[Finding, int, _Key]] = []
        """Findings whose offset is not known yet, with the ``id()`` of their node, and what is found once."""
        self._said: dict[_Key, int] = {}
        """What was found, and how many more calls of the same name there are: one finding has the arguments of one."""
        self._is_program = is_program

    def judge_pickle(self, budget: Budget, scope: DecodeContext | None, size: int) -> None:
        """Judge everything in the pickle; in a broken one, the calls before the fault are decoded too."""
        pickle = self.attempt.pickle or Pickle(None, self.log, 0, size, frozenset(), ())
        self._judge_machine(pickle, budget)
        try:
            self.value, decoder = decode_tree(pickle, budget, scope, checks_unread=True)
            discarded: set[int] = set()  # calls that the value does not contain, as POP leaves them
            for node in reversed(self.log):
                if isinstance(node, Call) and decoder.is_pending(node):
                    decoder.decode(node)
                    discarded.add(id(node))
        except SbformatError as error:
            self.is_cut = True
            for node in self.log:
                self._judge_unrecognized(node)
            self.findings.append(self.location.broken(error))
            return
        odd = [f"{flag}, which no pickler of plain data writes" for flag in pickle.flags]
        self.findings += [self.location.finding("odd-pickle", message) for message in odd]
        issues = decoder.issues
        carries_code = any(issue.rule in _CARRIED for issue in issues.values())
        for issue in issues.values():
            if issue.rule != "name" or not carries_code:
                self._judge_issue(issue)
        wrapped = self._find_wrapped_algorithm(pickle.value)
        for node in self.log:
            if isinstance(node, Global) and "algorithm" in find(node.pair).uses and node is not wrapped:
                is_called = id(node) in self._called_names or id(node) in self._given_names
                rule: Rule = "called-name" if is_called else "unknown-name"
                self._add(node, rule, _STORED_ALGORITHM, name_of(node))
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
        walked = walk([*self.log, pickle.value, *pickle.discarded], kinds=_EXAMINED)
        self.parts = [part for part in walked if type(part) not in _LISTS]
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

    def _judge_known_call(self, node: Call, decoder: Decoder, *, carries_code: bool) -> None:
        """Judge the arguments of a call that has a decoder: unexpected names among them, and modules."""
        for arg in node.args if type(node.args) is tuple and id(node) in decoder.understood else ():
            if type(arg) is Global and not decoder.has_examined(arg):
                callee = escape(name_of(node), SHOWN)
                message = f"is passed to {callee}, which expects no function or class there"
                self._report("unchecked-arguments", arg, message, DANGEROUS)
        if self.roles[id(node)] == "module" and not carries_code and id(node) not in decoder.claimed:
            message = "imports a module that no function or class in the pickle needs"
            self._report("unchecked-arguments", node, message, DANGEROUS)

    def _judge_value(self, node: Call, value: object, budget: Budget) -> None:
        """Judge the indices of a sparse tensor, by which torch accesses memory, a device, and a description."""
        if type(value) not in _EXAMINED_VALUES:
            return
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
        unused = {id(part) for part in self.parts if type(part) is Persistent and part is not root}
        unused.update(node for node, role in self.roles.items() if role == "load_from_bytes")
        for part in self.parts if unused else ():
            if type(part) is Call and self.roles[id(part)] and part.args:
                unused.discard(id(part.args[0]))  # type: ignore[index]
        if unused:
            message = "a storage of numbers without a tensor, which SB3 does not save and cannot use"
            self.findings.append(self.location.finding("odd-pickle", message))

    def _judge_issue(self, issue: Issue) -> None:
        """Judge a node that the decoder rejected, by the reason that it gives."""
        node, message, rule = issue.node, issue.message, issue.rule
        if rule in _CARRIED:
            if message.endswith(RUNS_WHEN_CALLED):
                message += _when_called(self.location.key)
            self._add(node, _CARRIED[rule], message, name_of(node))  # type: ignore[arg-type]
        elif rule == "called":
            self._add(node, "carried-function", message, name_of(node), verdict=DANGEROUS)
        elif rule == "base":
            # an unknown name that a class pickled by value inherits from, or is created by
            why = explain_danger(node.pair) if isinstance(node, Global) else None
            if why or name_of(node) not in self.allow:
                text = message + (f"; it {why}" if why else "")
                self._report("dangerous-name" if why else "unknown-call", node, text)
        elif rule == "module":
            why = explain_danger((message, ""))
            text = f"the module {escape(message, SHOWN)} is imported" + (f": it {why}" if why else "")
            self._add(node, "dangerous-name" if why else "unknown-name", text, message)
        elif rule == "arguments":
            self._judge_arguments(node, message)
        elif isinstance(node, Global) and find(node.pair).role:
            # a known constructor that is a value, so that other code may call it with any arguments
            message, why = "is stored as a value that other code may call", explain_danger(node.pair)
            if why:
                self._report("dangerous-name", node, f"{message}: it {why}")
            else:
                verdict = DANGEROUS if "reaches" in find(node.pair).uses else None
                self._report("unchecked-arguments", node, message, verdict)
        else:
            self._judge_unrecognized(node)

    def _judge_arguments(self, node: Node | Update, message: str) -> None:
        """Judge a known constructor with arguments that sbformat does not know, or an invalid storage."""
        if not isinstance(node, Call):
            self._add(node, "unchecked-arguments", message)
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

    def _judge_unrecognized(self, node: Node | Update) -> None:
        """Judge a row of the log by its name."""
        if self.counter.is_full(DANGEROUS) and self.counter.is_full("unknown"):
            self.counter.omitted += 1  # no finding can be worse than those that are listed
        elif isinstance(node, Global):
            self._judge_import(node)
        elif isinstance(node, Call):
            self._judge_call(node)
        elif isinstance(node, Extension):
            message = "a name is taken from the copyreg registry by its number, so only the loading process knows it"
            self._add(node, "computed-name", message, name_of(node))
        elif isinstance(node, Update) and isinstance(node.target, Global):
            name = name_of(node.target)
            message = f"the pickle changes {escape(name, SHOWN)} itself, for the whole process that loads it"
            self._add(node, "unchecked-arguments", message, name, verdict=DANGEROUS, reason="harmful")
        elif isinstance(node, Update) and not isinstance(node.target, Call):
            message = "the pickle sets the state of a reference, which no pickler does"
            self._add(node, "unchecked-arguments", message)

    def _judge_import(self, node: Global) -> None:
        name, why, row = name_of(node), explain_danger(node.pair), find(node.pair)
        if row.is_known or self._is_of_program(name, row):
            return
        shown = escape(name, SHOWN)
        advice = f"if you trust it, allow {shown} by name"
        if why:
            if id(node) not in self._plain_getters:  # whose calls have findings
                self._add(node, "dangerous-name", f"{shown} is imported: it {why}", name)
        elif name in self.allow:
            return
        elif id(node) in self._called_names:
            key = self._called_names[id(node)]
            where = "under 'data'" if key.endswith("__") else f"in {escape(key, SHOWN)!r}"
            message = f"sbformat does not know {shown}, and Stable-Baselines calls the value {where}; {advice}"
            self._add(node, "called-name", message, name)
        elif id(node) in self._given_names:
            callee = escape(name_of(self._given_names[id(node)]), SHOWN)
            message = f"sbformat does not know {shown}, which is passed to {callee} and may be called there; {advice}"
            self._add(node, "called-name", message, name)
        else:
            effect = "" if name in self._callees else ", and calls nothing in it"
            message = f"sbformat does not know {shown}: loading imports its module{effect}"
            self._add(node, "unknown-name", message, name)

    def _judge_call(self, node: Call) -> None:
        func = node.func
        if node.how == "STACK_GLOBAL" or not isinstance(func, Global):
            message = "a call computes the name of what is imported or called, so only running the file can tell it"
            self._add(node, "computed-name", message)
            return
        name, why = name_of(func), explain_danger(func.pair)
        row, called = find(func.pair), find_called(node)
        is_reaching = "reaches" in called.uses
        if id(func) in self._plain_getters:
            why = None
        shown = escape(name, SHOWN)
        if self._is_of_program(name, row):
            if name.startswith(_PROGRAM):
                message = f"an object of {shown} is created, a class of a TorchScript program"
                self._add(node, "carried-program", message, name)
            return
        if self.is_cut and not why and (called.role or row.is_known):
            return
        if called.role and not (why and is_reaching):
            message = f"{shown} is called where no value of its type is expected"
            verdict = DANGEROUS if is_reaching else None
            self._add(node, "unchecked-arguments", message, name, verdict=verdict, call=node)
            return
        if why:
            self._add(node, "dangerous-name", f"{shown} is called: it {why}", name, call=node)
            return
        if name in self.allow:
            return
        is_object = node.how.startswith("NEWOBJ")
        advice = f"if you trust it, allow {shown} by name"
        if row.is_known:
            effect = f"loading runs {_methods_of(node)}" if is_object else "what the call does is not known"
            message = f"sbformat knows {shown}, but not this call by the opcode {node.how}: {effect}"
        elif is_object:
            message = f"an object of {shown} is created, and sbformat does not know the class: "
            message += f"loading runs its {_methods_of(node)}; {advice}"
        else:
            message = f"{shown} is called, and sbformat does not know it; {advice}"
        self._add(node, "unknown-object" if is_object else "unknown-call", message, name, call=node)

    def _is_of_program(self, name: str, row: Known) -> bool:
        """Return whether a TorchScript archive defines the class of this name, or its loader replaces the function."""
        return self._is_program and (name.startswith(_PROGRAM) or "program" in row.uses)

    @cached_property
    def roles(self) -> dict[int, str | None]:
        """The role of each call in the pickle, by its ``id()``, after the pickle was decoded."""
        return {id(part): find_role(part) for part in self.parts if type(part) is Call}

    @property
    def imports(self) -> Iterator[str]:
        """Every dotted name that the pickle imports, and the modules that ``subimport`` imports."""
        for node in self.log:
            if type(node) is Global:
                yield escape(str(node), 1000)
            elif type(node) is Call and self.roles[id(node)] == "module":
                args = node.args
                if isinstance(args, tuple) and len(args) == 1 and isinstance(args[0], str):
                    yield escape(args[0], 1000)

    @cached_property
    def _called_names(self) -> dict[int, str]:
        """The keys of ``data`` under which Stable-Baselines calls a name, by the ``id()`` of the name.

        Agents of Stable Baselines 2 and files of ``policy.save`` contain keys themselves.
        """
        attempt, key = self.attempt, self.location.key
        value = attempt.pickle.value if attempt.pickle is not None else attempt.log if key else None
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
                for found in _iter_parts([part], set(), is_deep=True):
                    if isinstance(found, Global):
                        called.setdefault(id(found), name)
        return called

    @cached_property
    def _callees(self) -> set[str]:
        """The names that the pickle itself calls, whose calls have findings of their own."""
        return {name_of(node.func) for node in self.log if isinstance(node, Call) and isinstance(node.func, Global)}

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
        """The calls of known constructors that receive a name, by the ``id()`` of the name."""
        given: dict[int, Call] = {}
        seen: set[int] = set()
        for node in self.log:
            if not isinstance(node, Call) or type(node.func) is not Global or not find(node.func.pair).is_known:
                continue  # a call of an unknown name has a finding of its own
            row = find_called(node)
            if "carries" in row.uses:
                continue
            if "holds" in row.uses:  # items of a list are only stored, but a name instead of the list is iterated over
                args = node.args if type(node.args) is tuple else ()
                given.update((id(arg), node) for arg in args if isinstance(arg, Global))
                continue
            is_dict = row.role == "default_dict"  # whose items are only stored
            values = [node.args, node.kwargs]
            values += [update.value for update in node.updates or () if not (is_dict and update.how == "SETITEMS")]
            for part in _iter_parts(values, seen):
                if isinstance(part, Global):
                    given.setdefault(id(part), node)
        return given

    # -- findings -------------------------------------------------------------------------------------

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
        self._add(node, rule, f"{escape(name, SHOWN)} {predicate}", name, verdict=verdict, reason=reason, call=call)

    def _add(
        self,
        node: Node | Update,
        rule: Rule,
        message: str,
        *names: str,
        verdict: Verdict | None = None,
        reason: Reason | None = None,
        call: Call | None = None,
    ) -> None:
        """Add a finding, once.

        :param verdict: None for that of the rule, like the reason
        :param call: the call whose arguments the message lacks after the name
        """
        key = rule, message, names
        if key in self._said:
            self._said[key] += call is not None
            return
        verdict = verdict or RULES[rule]
        if self.counter.count(verdict, reason or default_reason(rule, verdict)):
            self._said[key] = 0
            if call is not None:
                start, shown, end = message.partition(escape(names[0], SHOWN))
                message = f"{start}{shown}{render_arguments(call)}{end}"
            found = self.location.finding(rule, message, names=names, verdict=verdict, reason=reason)
            self._located.append((found, id(node), key))

    def locate(self, data: bytes, budget: Budget, encoding: str) -> None:
        """Add the findings about nodes, with the offsets of their opcodes when the bytes are available."""
        offsets: dict[int, int] = {}
        if self._located and data:
            traced = trace(data, self.attempt, budget, encoding=encoding)
            offsets = {id(node): offset for node, offset in zip(self.log, traced)}
        for finding, node, key in self._located:
            more = f"; {count_noun(self._said[key], 'more call')} of it" if self._said[key] else ""
            self.findings.append(finding._replace(offset=offsets.get(node), message=f"{finding.message}{more}"))


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


_MOST_CALLS: Final = 4  # calls of calls that are followed to the class of an object


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


def _iter_parts(roots: Iterable[object], seen: set[int], *, is_deep: bool = False) -> Iterator[object]:
    """Yield the lists, tuples, bytearrays and nodes in values, each once, but nothing within nodes.

    :param seen: the ``id()`` of values that were visited before; updated
    :param is_deep: also yield what is within nodes, other than the name that a call calls
    """
    todo = list(roots)
    while todo:
        part = todo.pop()
        if id(part) in seen or not isinstance(part, (Node, list, tuple, bytearray)):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, Dict):
            todo.extend(value for pair in part for value in pair)
        elif isinstance(part, (list, tuple)):
            todo.extend(part)
        elif is_deep and isinstance(part, Node) and not isinstance(part, Global):
            if isinstance(part, Call):
                todo += [part.args, part.kwargs]
            todo.extend(update.value for update in part.updates or ())


def list_pairs(value: object) -> list[tuple[object, object]]:
    """Return the items of a dict of any type, as the tree contains them; empty for any other value."""
    if type(value) is Dict:
        return list(value)
    pairs: list[tuple[object, object]] = []
    items = value.args[0] if isinstance(value, Call) and type(value.args) is tuple and value.args else None
    if isinstance(items, (list, tuple)) and find_role(value) == "ordered_dict":  # type: ignore[arg-type]
        pairs += [(item[0], item[1]) for item in items if isinstance(item, (list, tuple)) and len(item) == 2]
    for update in (value.updates if isinstance(value, Node) else None) or ():
        if update.how == "SETITEMS":
            pairs += update.value  # type: ignore[arg-type]
    return pairs


def find_late_changes(log: Sequence[Node | Update], changes: Iterable[tuple[object, int]]) -> bool:
    """Return whether a value was changed after a call received it, so that the call received a different value.

    :param changes: the changed values, each with the length of the log at that moment
    """
    seen: set[int] = set()
    reached: set[int] = set()
    position = 0
    for target, moment in changes:
        # Rows of the log up to this moment were performed before the change: their calls have received the old value.
        while position < min(moment, len(log)):
            node = log[position]
            position += 1
            if isinstance(node, Call):
                parts = _iter_parts([node.args, node.kwargs], seen)
                reached.update(id(part) for part in parts if not isinstance(part, Node))
        if id(target) in reached:
            return True
    return False


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
_KEYED: Final = frozenset({Dict, Call, Global, Persistent, Extension})  # types of parts that may have keys
ENCODING_ROLES: Final = ("encode", "bytes")
"""Roles of calls that return bytes, as protocol 2 pickles them."""


def judge_data_value(key: str, value: object, location: Location) -> Iterator[Finding]:
    """Judge a value of ``data`` by what SB3 does with its key."""
    text = _find_text(value)
    is_callable = isinstance(value, (Function, Partial, Reference)) or (
        isinstance(value, Described) and value.kind not in _PLAIN
    )
    if key == "env" and value is not None:
        if text is None:
            yield location.finding("unknown-name", "SB3 never saves an environment, and uses this value as one")
        else:
            message = "SB3 creates the environment with this name, which may import a module"
            yield location.finding("dangerous-name", message, names=(text,))
    elif key == "tensorboard_log":
        yield from _judge_log_folder(str(value) if isinstance(value, os.PathLike) else text or "", location)
    elif (is_callable and key not in CALLABLE_KEYS) or (
        isinstance(value, _CALLABLE_OBJECTS) and key not in OBJECT_KEYS
    ):
        message = "a class, function or schedule is stored under a key where SB3 stores none, and may replace a method"
        if isinstance(value, (Reference, Instance)):
            name = ".".join((value if isinstance(value, Reference) else value.type).pair)
        else:
            name = value.qualname if isinstance(value, Function) else render_line(value)
        yield location.finding("unknown-name", message, names=(name,))


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


def _find_text(value: object) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, ArrayInfo) and value.dtype[1:2] == "U":
        decode = codecs.utf_32_be_decode if value.dtype[0] == ">" else codecs.utf_32_le_decode
        return decode(value.read(), "replace", True)[0].rstrip("\0")
    return None


def judge_attribute_path(path: str, location: Location) -> Iterator[Finding]:
    """Judge the name of a state dict or variable, which SB3 looks up on the agent attribute by attribute."""
    if path in _STATE_DICTS or path in TORCH_VARIABLES:
        return
    shown = escape(path, SHOWN)
    parts = path.split(".")
    if _PLAIN_NAME.fullmatch(path) and "ctypes" not in parts:
        message = f"no release of SB3 writes {shown}; SB3 looks up an attribute of this name on the agent"
        yield location.finding("unknown-entry", message)
    elif len(parts) > 2 or "ctypes" in parts or any(part.startswith("__") and part.endswith("__") for part in parts):
        message = f"SB3 looks up {shown} on the agent, attribute by attribute, which reaches objects other than tensors"
        yield location.finding("dangerous-name", message, names=(path,))
    else:
        message = f"SB3 looks up {shown} on the agent, which is not the name of an attribute"
        yield location.finding("unknown-entry", message)


def judge_state_dict(tree: object, parts: Iterable[object], location: Location) -> Iterator[Finding]:
    """Judge the values of a ``.pth``: names of variables, and values that a fused optimizer does not check.

    :param parts: every dict, set, node and bytes object of the pickle, also of values that it popped
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
        if type(part) not in _KEYED:
            continue
        for key, value in list_pairs(part):
            if isinstance(key, Node) and not (isinstance(key, Call) and find_role(key) in ENCODING_ROLES):
                yield location.finding("unchecked-arguments", "a key is neither text, a number nor bytes")
                return
            if type(key) is str and key == "fused" and not (value is None or (isinstance(value, int) and not value)):
                message = "a fused optimizer, which does not check the sizes of its state "
                message += "and may access memory past a tensor"
                yield location.finding("unchecked-arguments", message)
                return
