"""What a value of the result may contain, and how it is encoded again (VALUES.md 13.7, REBUILDING.md 15.1, 15.2).

In: decoded values, and the names that the caller allows. Out: plain JSON where SB3 accepts it, else a new blob; an
:class:`~sbformat.errors.UnsupportedError` for what SB3 would call without being known in that role. A class that is
known in another role is not known here: ``torch.optim.Adam`` as an activation is as unknown as a custom class.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.archive.edits import dump_data
from sbformat.archive.kinds import SB3_ARCHIVES
from sbformat.constants import DATA_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, escape, quote
from sbformat.immutable import thaw
from sbformat.known.algorithms import ALGORITHMS
from sbformat.known.dangerous import explain_danger
from sbformat.known.rows import UnrecognizedError
from sbformat.known.spaces import SPACE_TYPES, Space
from sbformat.known.table import TABLE, current_name, find, list_place
from sbformat.known.types import (
    CarriedClass,
    CarriedObject,
    ConstantSchedule,
    DType,
    EnumMember,
    FloatSchedule,
    Function,
    Instance,
    InterpolatedSchedule,
    LinearSchedule,
    Module,
    Partial,
    Reference,
    Schedule,
    TrainFreq,
    Value,
)
from sbformat.limits import Budget
from sbformat.nets.layers import ACTIVATIONS
from sbformat.pkl.decode import decode_pickle
from sbformat.pkl.encode import encode_pickle
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call, Dict, Global, Node
from sbformat.tools.rebuild.optimizers import OPTIMIZERS, fits_option
from sbformat.tools.rebuild.rebuild_report import Required, refuse, show, show_name
from sbformat.values import decode_tree, encode
from sbformat.values.render import render_line

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import TypeGuard

    from sbformat.archive.archive import Archive
    from sbformat.known.changes import Release
    from sbformat.known.rows import Known
    from sbformat.limits import Limits
    from sbformat.pkl.decode import Pickle
    from sbformat.pkl.tree import Pair
    from sbformat.tools.rebuild.rebuild_context import Advice
    from sbformat.values import Decoder


# -- encoding -----------------------------------------------------------------------------------------

_MAX_JSON_DEPTH: Final = 20
_MAX_JSON_NODES: Final = 100_000
_MAX_JSON_TEXT: Final = 1 << 20
_EXACT_INTEGERS: Final = 2**63
_MOST_LISTED: Final = 10


def encode_value(value: object, target: Release, *, foreign: frozenset[Pair] = frozenset()) -> Any:
    """Return what ``data`` contains for a value: plain JSON if that decodes to the same value, else a blob."""
    if isinstance(value, ArrayInfo) and value.is_scalar:
        return encode_value(value.to_numpy().item(), target)
    if _is_json(value):
        return value
    kind, hints = _describe(value, target)
    return Serialized(f"<class '{kind}'>", encode(value, target, foreign=foreign), hints)


def _is_json(value: object) -> bool:
    """Return whether JSON decodes to the same value; a value with shared parts stays a blob."""
    todo = [(value, 0)]
    size = 0
    seen: set[int] = set()
    for _ in range(_MAX_JSON_NODES):
        if not todo:
            return size <= _MAX_JSON_TEXT
        part, depth = todo.pop()
        if isinstance(part, (dict, list)):
            if id(part) in seen:  # JSON would repeat it
                return False
            seen.add(id(part))
        size += len(part) if type(part) is str else 0
        if part is None or type(part) in (bool, float, str) or (type(part) is int and abs(part) < _EXACT_INTEGERS):
            continue
        if depth > _MAX_JSON_DEPTH:
            return False
        if type(part) is dict and all(type(key) is str and not key.startswith(":") for key in part):
            todo.extend((inner, depth + 1) for inner in part.values())
        elif type(part) is list:
            todo.extend((inner, depth + 1) for inner in part)
        else:
            return False
    return False


def _describe(value: object, target: Release) -> tuple[str, dict[str, Any]]:
    """Return the class that SB3 writes as ``:type:``, and the hints beside the blob, which people read and SB3 not."""
    if isinstance(value, Reference):
        return "abc.ABCMeta", {"__module__": current_name(value.pair)[0]}
    if isinstance(value, Space):
        return str(find(value.pair).for_target(target)), value.make_hints()
    name = type(value).__name__
    if isinstance(value, ArrayInfo):
        name = "numpy.ndarray"
    elif isinstance(value, (ConstantSchedule, FloatSchedule, LinearSchedule)):
        name = f"stable_baselines3.common.utils.{name}"
    elif isinstance(value, InterpolatedSchedule):
        name = "functools.partial"
    elif isinstance(value, TrainFreq):
        name = f"stable_baselines3.common.type_aliases.{name}"
    elif isinstance(value, Instance):
        name = str(value.type)
    elif isinstance(value, (OrderedDict, deque)):
        name = f"collections.{name}"
    return name, {}


# -- private texts ------------------------------------------------------------------------------------

PRIVATE: Final = "it contains a path or an address of the author"
_PATH: Final = re.compile(
    r"""
    (?<![\w.])/[^\s/]                                     # an absolute path, however short
    | /(?:home|users|root|mnt|media|tmp|var|opt|usr|etc|srv|data|scratch|private|workspace|content)\b
    | ~[\w/\\] | (?<![A-Za-z])[A-Za-z]:[/\\\w] | \\[\w.-]+\\ | \\\\[\w.-] | \$\{?[A-Z_]{2,} | %[A-Za-z_]{3,}%
    | [\w.+-]@[\w-] | \w:// | \bfile: | \bssh: | \w:\d{2,5}\b      # addresses
    """,
    re.VERBOSE | re.IGNORECASE,
)


def is_private(value: object) -> bool:
    """Return whether a text in a value has an absolute path, or an address with a user or host."""
    return any(_PATH.search(text) is not None for text in iter_texts(value))


def iter_texts(value: object) -> Iterator[str]:
    """Yield every text in a value, each once: keys included, and bytes as latin-1."""
    for part in iter_parts(value, (ArrayInfo, Reference), with_keys=True):  # these contain numbers and known names
        if isinstance(part, str):
            yield part
        elif isinstance(part, (bytes, bytearray)):
            yield part.decode("latin-1")


def iter_parts(value: object, closed: tuple[type, ...], *, with_keys: bool = False) -> Iterator[object]:
    """Yield a value and everything in it, each part once; not the parts of closed types, keys only on request."""
    todo = [value]
    seen: set[int] = set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            todo.extend(part.keys() if with_keys else ())
            todo.extend(part.values())
        elif isinstance(part, (list, tuple, deque, set, frozenset, Value)) and not isinstance(part, closed):
            todo.extend(part)


# -- names that the caller replaces -------------------------------------------------------------------


def treat_names(archive: Archive, names: Mapping[str, str]) -> Archive:
    """Return an archive whose blobs have known names in place of unknown ones, as the caller treats these."""
    pairs = {name: _find_known(name, known) for name, known in names.items()}

    def treat(key: str, pickle: Pickle) -> bytes | None:
        found = [step for step in pickle.log if isinstance(step, Global) and not step.updates and str(step) in pairs]
        if not found:
            return None
        if pickle.discarded or pickle.changed:
            refuse(f"{key}: {quote(found[0])} cannot be treated as another name beside code or values that change")
        for step in found:
            step.pair = pairs[str(step)]
        return encode_pickle(pickle.value, protocol=5)

    return _replace_blobs(archive, "names are treated as others (--as, treat_as)", treat) if pairs else archive


def _replace_blobs(archive: Archive, what: str, replace: Callable[[str, Pickle], bytes | None]) -> Archive:
    """Return an archive with other blobs in ``data``; not those that cannot be decoded, or for which there is None."""
    if archive.format not in SB3_ARCHIVES:
        refuse(f"{what} only in an archive of Stable-Baselines3, got the format {archive.format}")
    made = {}
    for key, value in archive.data.items():
        if not isinstance(value, Serialized):
            continue
        try:
            pickle = decode_pickle(value.pickle, Budget(archive.limits))
        except SbformatError:  # the handler of the key reports it
            continue
        blob = replace(escape(key), pickle)
        if blob is not None:
            made[key] = Serialized(value.type, blob, value.hints)
    if not made:
        return archive
    return archive.with_entries({DATA_ENTRY: dump_data({**thaw(archive.data), **made})})


def map_classes(archive: Archive, names: Mapping[str, str]) -> tuple[Archive, dict[str, list[str]]]:
    """Return an archive that refers to classes of the caller's modules instead of those that it carries by value.

    :param names: dotted names of classes carried by value, and the names to refer to
    :return: the archive, and the names of the classes that were replaced by keys of ``data``
    """
    targets = {name: Global(*_require_own(name, target)) for name, target in names.items()}
    carried: set[str] = set()
    imported: set[str] = set()
    mapped: dict[str, list[str]] = {}

    def refer(key: str, pickle: Pickle) -> bytes | None:
        try:
            _, decoder = decode_tree(pickle, Budget(archive.limits))
        except SbformatError:  # the handler of the key reports it
            return None
        imported.update(str(step) for step in pickle.log if isinstance(step, Global))
        classes: dict[str, CarriedClass] = {}
        replaced: dict[int, object] = {}
        for step in pickle.log:
            made = decoder.value(step) if isinstance(step, Call) else None
            if not isinstance(made, CarriedClass):
                continue
            name = name_class(made)
            carried.add(name)
            if name in targets:
                if classes.setdefault(name, made) is not made:
                    refuse(f"{key}: two classes {quote(name)} are carried by value: they cannot both be {names[name]}")
                replaced[id(step)] = targets[name]
        if not replaced:
            return None
        setters = {id(setter) for found in decoder.setters.values() for setter in found}
        if pickle.changed or any(id(value) not in setters for value in pickle.discarded):
            refuse(f"{key}: {quote(next(iter(classes)))} cannot be mapped beside discarded values or ones that change")
        mapped[key] = list(classes)
        return encode_pickle(pickle.value, protocol=5, setters=decoder.setters, replaced=replaced)

    made = _replace_blobs(archive, "classes are mapped (--map, map_names)", refer) if targets else archive
    for name in targets:
        if not any(name in found for found in mapped.values()):
            _refuse_unused(name, carried, imported)
    return made, mapped


def name_class(carried: CarriedClass) -> str:
    """Return the dotted name of a class that is carried by value, whose module may not be stored."""
    return f"{carried.module or '__main__'}.{carried.name}"


def _require_own(name: str, target: str) -> Pair:
    """Return the pair of a name of the caller's own module that a class is mapped to."""
    module, _, last = target.rpartition(".")
    parts = target.split(".")
    if not module or parts[0] == "builtins" or not all(part.isidentifier() and part[:2] != "__" for part in parts):
        refuse(f"{quote(name)} cannot be mapped to {quote(target)}: expected the dotted name of a class: MODULE.CLASS")
    why = describe_harm((module, last)) or ("is a known name" if _list_known(target) else None)
    if why:
        refuse(f"{quote(name)} cannot be mapped to {quote(target)}, which {why}: expected a class of your own module")
    return module, last


class NotCarriedError(UnsupportedError):
    """A class to map is not in the archive.

    :param name: the dotted name of the class
    """

    def __init__(self, message: str, name: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.name = name


def _refuse_unused(name: str, carried: set[str], imported: set[str]) -> NoReturn:
    """Refuse a class that is not carried by value."""
    if name in imported:
        other = "--as NAME=KNOWN (treat_as={...}) reads it as a known class, --allow NAME (allow=[...]) keeps it"
        refuse(f"{quote(name)} is not carried by value, but imported by its name: {other}", hint=other)
    listed = ", ".join(quote(found) for found in sorted(carried)[:_MOST_LISTED]) or "none"
    message = f"{quote(name)} cannot be mapped: no class of this name is carried by value"
    raise NotCarriedError(message, name, hint=f"carried by value: {listed}")


def _find_known(name: str, known: str) -> Pair:
    """Return the pair of a known name, in place of which the caller has one that is not known."""
    own, _, of = name.rpartition(".")
    if not own or _list_known(name) or find((own, of)).is_known or describe_harm((own, of)):
        refuse(f"{quote(name)} cannot be treated as another name: expected the dotted name of one that is not known")
    found = [row for row in _list_known(known) if row.is_value and "algorithm" not in row.uses]
    exact = [row for row in found if str(row) == known]
    if len({current_name(row.pair) for row in exact or found}) != 1:
        candidates = f", but several: {', '.join(map(str, found))}" if found else ""
        refuse(f"{quote(known)} is not a name that is known{candidates}: {quote(name)} cannot be treated as it")
    return (exact or found)[0].pair


def _list_known(name: str) -> list[Known]:
    """Return the rows of a name; a package above the module may stand for it, as in ``gymnasium.spaces.Box``."""
    above, _, last = name.rpartition(".")
    return [row for row in TABLE.values() if row.name == last and f"{row.module}.".startswith(f"{above}.")]


# -- names that the caller allows ---------------------------------------------------------------------


class Allowed:
    """The exact dotted names outside the tables that may be kept, none of them harmful, and those that were kept."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._objects: dict[int, tuple[Call, Instance]] = {}
        """Objects of allowed classes by the ``id()`` of the call that makes them, and that call."""
        self._spaces: dict[int, tuple[Space, Pair]] = {}
        """The allowed class of a space that was read as one of gymnasium's, by ``id()``, and that space."""
        for name in sorted(self._names):
            module, _, last = name.rpartition(".")
            _refuse_harmful((module, last))
        self.required: list[Required] = []
        """The names that were kept, with their places."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, (Global, Reference)) and str(name) in self._names

    @property
    def pairs(self) -> frozenset[Pair]:
        """Module and name of those that were kept."""
        return frozenset(required.pair for required in self.required)

    def decode(self, data: bytes, limits: Limits) -> object:
        """Return the meaning of a blob, and note its objects of allowed classes."""
        budget = Budget(limits)
        pickle = decode_pickle(data, budget)
        space = self._read_space(pickle, limits)
        if space is not None:
            return space
        value, decoder = decode_tree(pickle, budget)
        for step in pickle.log:
            if self._is_object(step) and _has_no_other_call(pickle, decoder, step):
                with suppress(UnrecognizedError, UnsupportedError):
                    attributes = decoder.read_attributes(step) if step.updates else {}
                    if attributes or not step.updates:
                        _check_attributes(attributes)
                        self._objects[id(step)] = step, Instance(Reference(*step.func.pair), attributes)  # type: ignore[attr-defined]
        return value

    def _is_object(self, step: object) -> TypeGuard[Call]:
        return isinstance(step, Call) and (step.how, step.args) == ("NEWOBJ", ()) and step.func in self

    def _read_space(self, pickle: Pickle, limits: Limits) -> Space | None:
        """Return a space of an allowed class: its attributes tell which space of gymnasium it extends."""
        call: Any = pickle.value
        if not self._is_object(call) or not call.updates:
            return None
        allowed: Any = call.func
        for kind in SPACE_TYPES.values():
            call.func = Global(f"gymnasium.spaces.{kind.module}", kind.class_name)
            space, decoder = decode_tree(pickle, Budget(limits))
            call.func = allowed
            if isinstance(space, Space) and _has_no_other_call(pickle, decoder, call):
                self._spaces[id(space)] = space, allowed.pair
                return space
        return None

    def find_space_class(self, space: object) -> str | None:
        """Return the allowed class of a space; None for any other value."""
        return ".".join(self._spaces[id(space)][1]) if id(space) in self._spaces else None

    def encode_space(self, place: str, space: Space, encoded: Serialized, limits: Limits) -> Serialized | None:
        """Return the blob of a space with its allowed class instead of gymnasium's; None for any other space."""
        if id(space) not in self._spaces:
            return None
        kept = self.require(place, self._spaces[id(space)][1])
        tree: Any = decode_pickle(encoded.pickle, Budget(limits)).value
        tree.func = Global(*kept.pair)
        return Serialized(f"<class '{kept}'>", encode_pickle(tree), encoded.hints)

    def keep_schedule(self, place: str, value: object) -> Instance | FloatSchedule | None:
        """Return an object of an allowed class, maybe within schedules of SB3, and note its class; None for others."""
        if isinstance(value, FloatSchedule):
            inner = self.keep_schedule(place, value.schedule)
            return None if inner is None else FloatSchedule(inner)
        if id(value) not in self._objects:
            return None
        made = self._objects[id(value)][1]
        self.require(place, made.type.pair)
        return made

    def require(self, place: str, pair: Pair) -> Reference:
        """Note that a name is kept, so that the loader imports it; the place is a path of keys with slashes."""
        _refuse_harmful(pair)
        required = Required(place, ".".join(pair), pair)
        if required not in self.required:
            self.required.append(required)
        return Reference(*pair)

    def replace_names(self, place: str, value: Any) -> Any:
        """Return a value whose allowed names are references, each of them noted; shared parts stay shared."""
        made: dict[int, tuple[Any, Any]] = {}  # by id(), and the old part, so that no other gets its id()

        def replace(part: Any) -> Any:
            if id(part) not in made:
                made[id(part)] = replace_new(part), part
            return made[id(part)][0]

        def replace_new(part: Any) -> Any:
            if isinstance(part, (Global, Reference)):
                is_kept = not getattr(part, "updates", None) and part in self
                return self.require(place, part.pair) if is_kept else part
            if type(part) in (list, tuple):
                return type(part)(map(replace, part))
            if type(part) in (dict, OrderedDict):
                return type(part)((key, replace(inner)) for key, inner in part.items())
            if isinstance(part, FloatSchedule):
                return FloatSchedule(replace(part.schedule))
            call = part if isinstance(part, Partial) else _read_partial(part)
            if call is None or (call is not part and call.function not in self):
                return part
            return Partial(*map(replace, (call.function, call.args, call.keywords)))

        return replace(value) if self._names else value


def _has_no_other_call(pickle: Pickle, decoder: Decoder, made: Call) -> bool:
    """Return whether every other call of a pickle is understood: one that is not may change the object."""
    return all(step is made or not isinstance(step, Call) or id(step) in decoder.understood for step in pickle.log)


_PLAIN: Final = (type(None), bool, int, float, str, bytes, list, tuple, dict, OrderedDict, deque, set, frozenset)


def _check_attributes(attributes: dict[str, Any]) -> None:
    """Check that attributes are plain and without paths, and that a pickle of today gives exactly the same ones."""
    for part in iter_parts(attributes, CLOSED, with_keys=True):
        is_array = isinstance(part, ArrayInfo) and not part.is_scalar  # a scalar would become a number of Python
        if not is_array and type(part) not in _PLAIN:
            refuse(f"{show(part)} is not plain data")
    if is_private(attributes):
        refuse(PRIVATE)
    encode(attributes)


def _read_partial(call: object) -> Partial | None:
    """Return a partial that the decoder left as a call, since its function is not known; None for anything else."""
    if not isinstance(call, Call) or not isinstance(call.func, Global) or call.func.pair != ("functools", "partial"):
        return None
    updates = call.updates or []
    state = updates[0].value if len(updates) == 1 else None
    if type(state) is not tuple or len(state) != 4 or not isinstance(state[0], Global) or type(state[1]) is not tuple:
        return None  # function, arguments, keywords, attributes
    has_keywords = isinstance(state[2], Dict) and all(type(key) is str for key, _ in state[2])
    keywords = dict(state[2]) if has_keywords else {}
    if state[2] and (not has_keywords or len(keywords) != len(state[2])):
        return None

    def recognize(part: object) -> object:
        is_known = isinstance(part, Global) and not part.updates and find(part.pair).is_reference
        return Reference(*part.pair) if is_known else part  # type: ignore[attr-defined]

    args = tuple(map(recognize, state[1]))
    return Partial(state[0], args, {str(key): recognize(part) for key, part in keywords.items()})


def describe_harm(pair: Pair) -> str | None:
    """Return why a name cannot be allowed, as a clause after the name; None when it can."""
    if "algorithm" in find(pair).uses:
        return "is an algorithm, which makes the environment that it is given by name"
    return explain_danger(pair)


def _refuse_harmful(pair: Pair) -> None:
    why = describe_harm(pair)
    if why:
        refuse(f"{quote('.'.join(pair))} {why}: it cannot be allowed")


def replace_carried(value: object, advice: Advice) -> str:
    """Return which option replaces a function, a class or an object of a class that is carried by value."""
    cls = value.cls if isinstance(value, CarriedObject) else value
    return advice.map_class(name_class(cls)) if isinstance(cls, CarriedClass) else advice.pass_own


def describe_unknown(value: object, role: str, advice: Advice) -> str:
    """Return why a class or function is not kept, and which option keeps it."""
    if isinstance(value, (CarriedClass, CarriedObject, Function)):
        return f"{show(value)}: custom code carried by value, without a name to allow; {replace_carried(value, advice)}"
    name: Any = value.function if isinstance(value, Partial) else value
    if isinstance(value, Call) and value.how == "NEWOBJ":  # an object of a class that is not known
        name = value.func
    elif isinstance(value, Call) and value.updates:  # of a partial that was not decoded: its function is not known
        state = value.updates[0].value
        name = state[0] if isinstance(state, tuple) and state else None
    if not isinstance(name, (Global, Reference)) or getattr(name, "updates", None):
        return f"{show(value)} is not known as {role}"
    harm = describe_harm(name.pair)
    if harm:
        return f"{show_name(name)} {harm}"
    return f"{show_name(name)} is not known as {role}: SB3 would import and call it; {advice.allow(str(name))}"


# -- roles --------------------------------------------------------------------------------------------

EXTRACTORS: Final = {pair: row.arguments for pair, row in list_place("features_extractor_class").items()}
"""Features extractors, with their arguments other than the space, and the defaults; None for a flag."""
REPLAY_BUFFERS: Final = {pair: frozenset(row.arguments) for pair, row in list_place("replay_buffer_class").items()}
"""Replay buffers, with their arguments other than those that the algorithm passes."""
_ROLES: Final[Mapping[str, frozenset[Pair]]] = {
    "features_extractor_class": frozenset(EXTRACTORS),
    "optimizer_class": frozenset(OPTIMIZERS),
    "activation_fn": frozenset(ACTIVATIONS),
}
CLASS_ARGUMENTS: Final = frozenset(_ROLES)
"""Arguments of policies that are classes."""
CALLABLES: Final = (Reference, Function, Partial, CarriedClass, Instance, Schedule, Node)
"""Types of values that can be called."""


def find_class(value: object) -> Pair | None:
    """Return a known class, or the one that a partial calls, by its name of today; None for anything else."""
    function = value.function if isinstance(value, Partial) else value
    return current_name(function.pair) if isinstance(function, Reference) else None


def list_buffers(role: str, algorithm: str, *, is_dict: bool) -> frozenset[Pair]:
    """Return the buffer classes that an algorithm can use."""
    if role != "rollout_buffer_class":
        names = ("DictReplayBuffer", "HerReplayBuffer")
        return frozenset(pair for pair in REPLAY_BUFFERS if (pair[1] in names) == is_dict)
    row = ALGORITHMS[algorithm]
    return frozenset({row.rollout_buffer(is_dict=is_dict)} if row.kind == "actor_critic" else ())


def check_role(role: str, value: object, allowed: frozenset[Pair]) -> None:
    """Check that an argument of a policy is a class that SB3 may call in its role, or a partial of one."""
    function = value.function if isinstance(value, Partial) else value
    if not isinstance(function, Reference):
        refuse(f"expected a class, got {show(value)}")
    if function.pair in allowed:
        return
    pair = current_name(function.pair)
    if pair not in _ROLES[role]:
        refuse(f"{show(function)} is not one of the classes known for {role}")
    if isinstance(value, Partial) and not _has_known_arguments(role, pair, value):
        refuse(f"a partial of {function} with arguments that the class does not have")


def _has_known_arguments(role: str, pair: Pair, partial: Partial) -> bool:
    """Return whether the arguments of a partial are ones that the class has, other than those that SB3 passes."""
    if role == "activation_fn":
        names = ACTIVATIONS[pair]
        given = {*names[: len(partial.args)], *partial.keywords}
        is_fit = len(given) == len(partial.args) + len(partial.keywords) and given <= set(names)
        values = (*partial.args, *partial.keywords.values())
        return is_fit and all(type(value) in (bool, int, float) or value in ("none", "tanh") for value in values)
    if role != "optimizer_class":  # SB3 calls issubclass() with an extractor
        return False
    known = OPTIMIZERS[pair].arguments
    return not partial.args and all(
        name in known and fits_option(name, value, known[name]) for name, value in partial.keywords.items()
    )


def check_plain(value: object, allowed: frozenset[Pair], *, is_foreign: bool) -> None:
    """Check that an argument contains nothing that can be called, except what is trusted."""
    for part in iter_parts(value, (), with_keys=True):
        if not isinstance(part, (*CALLABLES, Module)):
            continue
        if isinstance(part, Partial) and isinstance(part.function, Reference):
            continue  # its function and arguments are parts of their own
        if isinstance(part, Reference) and part.pair in allowed:
            continue
        if (
            isinstance(part, Reference) and is_foreign
        ):  # a name that makes a layer, an optimizer or a number is harmless
            is_number = not find(part.pair).uses.isdisjoint({"dtype", "number"})
            if is_number or any(part.pair in classes for classes in _ROLES.values()):
                continue
        refuse(f"{show(part)} can be called, and is not known in this role")


# -- code, action noise -------------------------------------------------------------------------------

CLOSED: Final = (ArrayInfo, Reference, EnumMember, DType)
"""Types of values whose parts are numbers and known names."""
_NOISE_PARTS: Final = ("_noises", "noises", "_base_noise", "base_noise")
"""Attributes of noise that are noise themselves."""
_MAX_NOISE_DEPTH: Final = 4


def contains_code(value: object) -> bool:
    """Return whether a value contains what is not known, or carries code by value."""
    return any(
        isinstance(part, (Node, CarriedClass, CarriedObject)) or (isinstance(part, Function) and part.schedule is None)
        for part in iter_parts(value, CLOSED)
    )


def check_noise(value: object, depth: int = _MAX_NOISE_DEPTH) -> None:
    """Check that noise consists of numbers, or of noise that is nested up to a depth."""
    if not isinstance(value, Instance) or find(value.type.pair).kind != "noise" or not depth:
        refuse(f"{show(value)} is not known as action noise")
    for name, part in value.attributes.items():
        if name in _NOISE_PARTS:
            for noise in part if isinstance(part, list) else [part]:
                check_noise(noise, depth - 1)
        elif not _is_noise_number(name, part):
            of, shown = (escape(render_line(shown), 100) for shown in (value, part))
            refuse(f"{escape(str(name), 80)} of {of}: expected a number, got {shown}")


def _is_noise_number(name: object, part: object) -> bool:
    if name in ("_dtype", "dtype"):
        is_name = isinstance(part, Reference) and part.name.startswith(("float", "int"))
        return is_name and "number" in find(part.pair).uses  # type: ignore[attr-defined]
    return part is None or type(part) in (bool, int, float) or (isinstance(part, ArrayInfo) and part.dtype[1] in "biuf")
