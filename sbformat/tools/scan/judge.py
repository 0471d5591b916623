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
   check (``_judge_call``); any other by its name (:mod:`sbformat.tools.scan.unrecognized`).

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

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from sbformat.errors import SbformatError, TensorError, escape
from sbformat.immutable import Record
from sbformat.known.dangerous import explain_danger
from sbformat.known.load_hooks import RUNS_WHEN_CALLED
from sbformat.known.sb3_attributes import EXAMINED_KEYS
from sbformat.known.table import find, find_called, find_role
from sbformat.known.types import Instance
from sbformat.pkl import Call, Dict, Global, Node, Pickle, Update
from sbformat.pkl.lenient import Attempt, trace
from sbformat.pkl.names import DEVICE_TYPES
from sbformat.pkl.numpy import reaches_memory
from sbformat.pkl.tree import BYTES, WALKED, Persistent, walk
from sbformat.pth.values import Device, SparseTensor
from sbformat.rendering import count_noun
from sbformat.tools.scan.location import SHOWN
from sbformat.tools.scan.name_uses import find_late_changes
from sbformat.tools.scan.report import RULES, FindingCounter, default_reason
from sbformat.tools.scan.unrecognized import DANGEROUS, Remark, UnrecognizedJudge, name_of
from sbformat.values import decode_tree
from sbformat.values.hashing import find_key_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.limits import Budget
    from sbformat.pth.context import DecodeContext
    from sbformat.tools.scan.location import Location
    from sbformat.tools.scan.report import Finding, Reason, Rule, Verdict
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
) -> Judged:
    """Judge one pickle; what precedes a fault counts.

    :param attempt: the pickle, decoded as far as possible
    :param data: the pickle and any bytes that follow it
    :param location: of the pickle
    :param budget: of the scan
    :param allow: dotted names to treat as known
    :param encoding: of Python 2's 8-bit strings
    :param is_program: whether it is a record of a TorchScript archive, which only ``torch.jit`` reads
    """
    state = _PickleJudge(location, allow, attempt, is_program=is_program)
    state.judge_pickle(budget, None, len(data))
    if attempt.error is not None:
        state.findings.append(location.broken(attempt.error))
    return state.finish(data, budget, encoding)


def judge_pth(
    data: bytes, pickle: Pickle, scope: DecodeContext, location: Location, budget: Budget, allow: frozenset[str]
) -> Judged:
    """Judge the decoded pickle of a ``.pth``.

    :param data: the pickle
    :param pickle: the same, decoded
    :param scope: finds its storages
    :param location: of the pickle
    :param budget: of the scan
    :param allow: dotted names to treat as known
    """
    state = _PickleJudge(location, allow, Attempt(pickle, pickle.log, None, pickle.size), is_program=False)
    state.judge_pickle(budget, scope, pickle.size)
    return state.finish(data, budget, "utf-8")


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
        self._unrecognized = UnrecognizedJudge(attempt, location.key, allow, is_program=is_program)

    def judge_pickle(self, budget: Budget, scope: DecodeContext | None, size: int) -> None:
        """Judge everything in the pickle; in a broken one, the calls before the fault are decoded too."""
        pickle = self.attempt.pickle or Pickle(None, self.log, 0, size, frozenset(), ())
        self._judge_machine(pickle, budget)
        try:
            self.value, decoder = decode_tree(pickle, budget, scope, checks_unread=True)
            discarded = self._decode_discarded(decoder)
        except SbformatError as error:
            self.is_cut = self._unrecognized.is_cut = True
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
                self._add(node, self._unrecognized.judge_algorithm(node))
            if id(node) not in decoder.understood and id(node) not in issues:
                self._judge_unrecognized(node)
                continue
            if isinstance(node, Call):
                self._judge_call(node, decoder, carries_code=carries_code)
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

    def _judge_call(self, node: Call, decoder: Decoder, *, carries_code: bool) -> None:
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

    # -- findings -------------------------------------------------------------------------------------

    def _judge_unrecognized(self, node: Node | Update) -> None:
        if self._counter.is_full(DANGEROUS) and self._counter.is_full("unknown"):
            self._counter.omitted += 1  # no finding can be worse than those that are listed
        else:
            self._add(node, self._unrecognized.judge_node(node))

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
            self.findings.append(replace(finding, offset=offsets.get(node), message=f"{finding.message}{more}"))
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
