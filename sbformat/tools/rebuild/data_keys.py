"""``data`` for the target: each key is rebuilt by the handler for it, which adds its row (REBUILDING.md 15.1, 15.2).

In: the context. Out: the new ``data``. A handler gets the context, the key, and the value as the archive has it; it
returns what the new ``data`` contains, or ``DROPPED``: without removed arguments, and without what SB3 would call. In
the end the JSON Schema decides on every value, and what SB3's ``load`` needs is added or refused.

Some defaults changed between releases, so an archive that used a default then needs an explicit argument of the policy
now: ``context.required_arguments`` collects those, from the layers and from the optimizer's options.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.data import Serialized
from sbformat.errors import SbformatError, UnsupportedError, ValidationError, escape
from sbformat.immutable import thaw
from sbformat.known import changes
from sbformat.known.algorithms import ENTROPY_LEARNERS
from sbformat.known.dangerous import ADDRESS
from sbformat.known.numpy import unpack_items
from sbformat.known.sb3 import HER_BUFFER, NSTEP_BUFFER, SCHEDULE_KEYS
from sbformat.known.spaces import DictSpace, Space
from sbformat.known.table import current_name
from sbformat.known.types import (
    CarriedObject,
    ConstantSchedule,
    EnumMember,
    FloatSchedule,
    Function,
    InterpolatedSchedule,
    LinearSchedule,
    Partial,
    Reference,
    TrainFreq,
    Value,
)
from sbformat.nets.arguments import Agent, NetworkError, find_unknown_class
from sbformat.nets.entropy import fixed_coefficient, initial_coefficient
from sbformat.nets.sb3 import POLICIES, require_gsde
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pkl.tree import Call
from sbformat.schema import iter_problems, known_keys
from sbformat.schema.assigned import WRAPPED
from sbformat.tools.rebuild import trusted
from sbformat.tools.rebuild.network import convert_net_arch
from sbformat.tools.rebuild.optimizers import ADAM, OPTIMIZERS, fits_option, is_number
from sbformat.tools.rebuild.rebuild_context import DROPPED, find_source_release
from sbformat.tools.rebuild.rebuild_report import (
    EXCLUDED,
    RECREATED,
    describe_default,
    find_default,
    refuse,
    show,
    show_name,
)
from sbformat.values.computed import ComputedSchedule
from sbformat.values.render import FROM_BYTECODE
from sbformat.values.schedule_meaning import describe_samples, find_meaning, find_nearest, unwrap

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from sbformat.pkl.tree import Pair
    from sbformat.tools.rebuild.network import Network
    from sbformat.tools.rebuild.rebuild_context import RebuildContext
    from sbformat.values.schedule_meaning import ScheduleMeaning

_KWARGS: Final = "policy_kwargs"
FREQUENCY_UNIT: Final = Reference("stable_baselines3.common.type_aliases", "TrainFrequencyUnit")
METHODS: Final = frozenset(
    """
    _abc_impl _compute_actor_grad _convert_train_freq _create_aliases _do_one_update _dump_logs _excluded_save_params
    _get_policy_from_name _get_torch_save_params _init_callback _maybe_recommend_cpu _mimic_monitor_wrapper _on_step
    _sample_action _setup_learn _setup_lr_schedule _setup_model _store_transition _trigger_callback
    _update_current_progress_remaining _update_info_buffer _update_learning_rate _wrap_env collect_rollouts dump_logs
    evaluate_candidates get_env get_parameters get_vec_normalize_env hessian_vector_product learn load
    load_replay_buffer logger policy_aliases predict save save_replay_buffer set_env set_logger set_parameters
    set_random_seed train
    """.split()  # noqa: SIM905 -- a name a line is no better
)
"""Methods and properties of the algorithms: a key with such a name would replace it on the agent."""
_TARGET_ENTROPY: Final = "target_entropy"
_TEXT_KEYS: Final = frozenset({"ent_coef", _TARGET_ENTROPY})  # keys whose value can be a text in SB3
_MAY_BE_NULL: Final = ("tensorboard_log", "replay_buffer_class", "rollout_buffer_class", "action_noise")


def rebuild_data(context: RebuildContext) -> dict[str, Any]:
    """Return ``data`` for the target; every key of the archive gets a row."""
    options = context.options
    made: dict[str, Any] = {}
    for key, value in thaw(context.archive.data).items():
        if key in options.supplied_at_load:
            context.translate(key, "null: the value is supplied when SB3 loads it")
            result = None
        elif key in context.assigned:
            result = _assign(context, key, "another value was assigned")
        else:
            result = _rebuild_key(context, key, value)
        if result is not DROPPED:
            made[changes.RENAMED.get(key, key)] = result
    for key in context.assigned:
        if key not in made:
            made[key] = _assign(context, key, "was assigned")
    made.update(dict.fromkeys(options.supplied_at_load - made.keys()))
    if context.policy_class is not None and "policy_class" not in made:
        made["policy_class"] = _rebuild_policy_class(context, "policy_class", None)
    _check_data(context, made)
    if context.has_defaults:  # other keys than SB3's own identify no algorithm
        for key, value in context.family.defaults.items():
            if key in context.archive.data:
                made.setdefault(key, value)
    _add_missing(context, made)
    return made


def _assign(context: RebuildContext, key: str, message: str) -> Any:
    """Return the value that the caller assigned; arguments of the policy are checked and noted."""
    if why := _explain_later_key(context, key):
        refuse(f"{key}: {why}", DATA_ENTRY)
    context.translate(key, message)
    value = context.assigned[key]
    if key == _KWARGS:
        context.policy_arguments = value if type(value) is dict else None
    if key == _KWARGS and type(value) is dict:
        rows, refused = list(context.rows), list(context.refused)
        _rebuild_arguments(context, key, value)
        wrong = [row for row in context.rows[len(rows) :] if row.action != "translated"]
        context.rows, context.refused = rows, refused
        if wrong:
            refuse(f"{wrong[0].key}: {wrong[0].message}", DATA_ENTRY)
    return value


def _rebuild_key(context: RebuildContext, key: str, value: object) -> Any:
    """Return what the new ``data`` has for a key of the archive, by its handler or by what its name says."""
    if value is None and key in _MAY_BE_NULL:
        context.keep(key)
        return None
    if why := _explain_later_key(context, key):
        return _drop_later_key(context, key, value, why)
    if key in _HANDLERS:
        return _HANDLERS[key](context, key, value)
    why, instead, is_finding = "", None, None
    if changes.RENAMED.get(key) in context.archive.data:
        why = f"there is also {changes.RENAMED[key]}, its new name, which SB3 reads"
    elif key == "model_class" and context.why_no_her_observation:
        why = f"HER's goals cannot be separated from the observation: {context.why_no_her_observation}"
        instead, is_finding = "a plain replay buffer", True
    elif key in changes.REMOVED:
        why = changes.REMOVED[key]
    elif key in changes.A2C_OF_0_6 and context.algorithm == "A2C" and changes.MARK_OF_0_6 in context.archive.data:
        why, is_finding = f"a key of PPO, which A2C also saved in SB3 {changes.FIRST}", False
    elif key in EXCLUDED and value is None:  # DQN before 2.0 saved null for its actor
        why = "null would replace an object of the agent"
    elif key in EXCLUDED:
        why = "SB3 does not save it: it would replace an object of the agent"
    elif key in METHODS:
        why = "the name of a method of the algorithm, which it would replace"
    if not why:
        return (_rebuild_schedule if key in SCHEDULE_KEYS else _rebuild_plain)(context, key, value)
    _note_fault(context, key, value)
    if key in _list_moved_keys(context):
        context.translate(key, "part of replay_buffer_kwargs" if key in changes.HER_MOVED else why)
        return DROPPED
    return context.drop(key, why, instead, is_finding=is_finding)


def _list_moved_keys(context: RebuildContext) -> tuple[str, ...]:
    """Return the keys of HER, the algorithm, whose values the result has elsewhere."""
    if context.her_observation is None:
        return ()
    return (*changes.HER_KEPT, *(changes.HER_MOVED if context.target < changes.HER_ONLINE else ()))


def _explain_later_key(context: RebuildContext, key: str) -> str:
    """Return why a target does not read a key, or an empty text if it does."""
    since = changes.ADDED.get(key, changes.UNKNOWN)
    is_read = key == "n_steps" and context.family.kind == "actor_critic"
    return "" if is_read or context.target >= since else f"not a key of SB3 {context.target}: it exists since {since}"


def _drop_later_key(context: RebuildContext, key: str, value: object, why: str) -> Any:
    """Leave out a value that the target does not read; it is a finding unless it is what every agent has there."""
    usual = context.family.defaults.get(key, {})
    if key == "rollout_buffer_class":
        is_dict = isinstance(context.decode_or_none("observation_space"), DictSpace)
        standard = trusted.list_buffers(key, context.algorithm, is_dict=is_dict)
        usual = next((Reference(*pair) for pair in standard), None)
    _note_fault(context, key, value)
    is_usual = context.decode_or_none(key) == usual
    return context.drop(key, why, None if is_usual else show(usual), is_finding=False if is_usual else None)


# -- any value ----------------------------------------------------------------------------------------


def _rebuild_plain(context: RebuildContext, key: str, value: Any) -> Any:
    """Return a value without code, which SB3 sets on the agent."""
    is_known = key in known_keys(context.algorithm) or key in changes.RENAMED
    try:
        meaning = context.decode(key)
        result = context.encode(meaning) if isinstance(value, Serialized) else value
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message)
    found = list(trusted.iter_parts(meaning, trusted.CLOSED))
    if any(isinstance(part, trusted.CALLABLES) for part in found):
        return context.handle_unknown(key, value, "something that can be called, where SB3 has a plain value")
    if trusted.is_private((key, meaning)):
        return context.drop(key, trusted.PRIVATE)
    if key not in _TEXT_KEYS and any(isinstance(part, (str, bytes, bytearray)) for part in found):
        instead = describe_default(context.algorithm, key) if is_known else None
        return context.drop(key, "it contains a text of the author, where SB3 has none", instead)
    if not is_known and any(  # both could encode a text
        isinstance(part, Value) or (isinstance(part, ArrayInfo) and part.dtype in ("|u1", "|i1")) for part in found
    ):
        return context.drop(key, "an object, or an array of bytes, under a key that SB3 does not have")
    name = changes.RENAMED.get(key)
    if name is not None:
        context.translate(key, f"is {name} now")
    elif isinstance(value, Serialized):
        context.translate(key, show(meaning))
    else:
        context.keep(key, "" if is_known else "not a key of SB3: it becomes an attribute of the agent")
    return result


def _find_fault(context: RebuildContext, key: str, shown_as: str | None = None) -> str:
    """Return what is unknown or code in the blob of a key, or an empty text; schedules of SB3's classes are neither."""
    try:
        meaning = context.decode(key)
    except UnsupportedError as error:
        return error.message
    is_schedule = isinstance(find_meaning(meaning).schedule, (ConstantSchedule, LinearSchedule))
    return show(meaning, shown_as) if not is_schedule and trusted.contains_code(meaning) else ""


def _note_fault(context: RebuildContext, key: str, value: object) -> None:
    """Note what is unknown or code under a key that is dropped anyway, for ``on_unknown="error"``."""
    is_checked = context.options.on_unknown == "error" and isinstance(value, Serialized)
    if is_checked and (why := _find_fault(context, key)):
        context.refuse_later(key, why)


def _drop_recreated(context: RebuildContext, key: str, value: object) -> Any:
    """Leave out a blob that SB3's ``load`` creates again, whatever the archive has."""
    if not isinstance(value, Serialized):
        return _rebuild_plain(context, key, value)
    _note_fault(context, key, value)
    if why := _find_fault(context, key, key):
        return context.drop(key, why, f"what SB3 creates from {RECREATED[key]}")
    shown = show(context.decode(key), key)
    context.translate(key, f"left out: SB3 creates it from {RECREATED[key]}; was {shown}")
    return DROPPED


def _rebuild_tensorboard_log(context: RebuildContext, key: str, value: object) -> Any:
    _note_fault(context, key, value)
    if context.options.keep_system_info and isinstance(value, str) and not ADDRESS.search(value):
        context.keep(key)
        return value
    context.drop(key, "a path of the author's logs", "null: no logs")
    return None


# -- spaces, numbers ----------------------------------------------------------------------------------


def _rebuild_space(context: RebuildContext, key: str, value: object) -> Any:
    """Return a space of gymnasium; SB3 loads no agent without one."""
    try:
        meaning = context.decode(key)
        if not isinstance(meaning, Space):
            if isinstance(meaning, Call) and meaning.func in context.allowed:
                name = show_name(meaning.func)
                refuse(f"an object of {name} is kept if its attributes are those of a space of gymnasium")
            unknown = find_unknown_class(meaning)
            advice = "" if unknown is None else f"; {context.options.advice.take_space(key, unknown)}"
            refuse(f"{show(meaning)} is not a known space{advice}")
        result = context.encode(meaning)
    except UnsupportedError as error:
        if context.keeps_unknown:
            return context.handle_unknown(key, value, error.message)
        raise UnsupportedError(f"{key}: SB3 loads no agent without it: {error.message}", entry=DATA_ENTRY) from None
    if key == "observation_space" and context.her_observation is not None:
        since = changes.DICT_SPACES
        context.translate(key, f"the Dict space of observation and goals, which HER concatenated before SB3 {since}")
        return context.encode(context.her_observation.space)
    kept = context.allowed.encode_space(key, meaning, result, context.archive.limits)
    if kept is not None:
        context.keep(key, f"{show(meaning)}: its class is allowed: the loader imports it")
        return kept
    library = changes.name_space_library(context.target)
    form = f"a space of {library} instead of {meaning.library}" if meaning.library != library else "encoded again"
    random = "" if meaning.random is None else "; with a new random generator"
    context.translate(key, f"{show(meaning)}: {form}{random}")
    return result


def _rebuild_train_freq(context: RebuildContext, key: str, value: object) -> Any:
    """Return ``train_freq``, which includes ``n_episodes_rollout``."""
    episodes = context.archive.data.get("n_episodes_rollout")
    if type(value) is list and len(value) == 2 and type(value[0]) is int and value[1] in ("step", "episode"):
        context.translate(key, f"every {value[0]} {value[1]}")  # SB3 accepts a tuple, JSON has lists
        return context.encode(TrainFreq(value[0], EnumMember(FREQUENCY_UNIT, value[1])))
    if value is None:
        return context.handle_unknown(key, value, "expected a number of steps or episodes", "every step")
    if type(value) is not int or type(episodes) is not int:
        return _rebuild_plain(context, key, value)
    unit, frequency = ("episode", episodes) if episodes > 0 else ("step", value)
    meaning = TrainFreq(frequency, EnumMember(FREQUENCY_UNIT, unit))
    context.translate(key, f"{show(meaning)}, from train_freq {value} and n_episodes_rollout {episodes}")
    return context.encode(meaning)


def _rebuild_target_update_interval(context: RebuildContext, key: str, value: object) -> Any:
    """Return the steps between updates of the target network; some releases saved them divided by ``n_envs``."""
    count = context.archive.data.get("n_envs")
    since, until = changes.DIVIDED_INTERVAL.get(context.algorithm, (changes.UNKNOWN, changes.UNKNOWN))
    source = find_source_release(context.archive)
    if since <= source < until and type(value) is int and type(count) is int and count > 1:
        context.translate(key, f"{value * count}: SB3 {source} saved it divided by its {count} environments")
        return value * count
    return _rebuild_plain(context, key, value)


def _rebuild_entropy_coefficient(context: RebuildContext, key: str, value: Any) -> Any:
    """Return ``ent_coef``: a number, or ``auto`` with an initial value where the algorithm learns it."""
    meaning = context.decode_or_none(key)
    is_learner = context.algorithm in ENTROPY_LEARNERS
    fixed = fixed_coefficient(meaning) if is_learner else None
    if fixed is not None and isinstance(meaning, str):
        context.translate(key, f"{fixed}, the number of the text")
        return fixed
    is_fit = fixed is not None or (is_learner and initial_coefficient(meaning) is not None)
    if is_fit or (not is_learner and isinstance(meaning, (int, float, ArrayInfo))):
        return _rebuild_plain(context, key, value)
    message = "expected a number of at least 0 or auto" if is_learner else "expected a number"
    default = describe_default(context.algorithm, key)
    if isinstance(value, Serialized) or not is_learner:
        return context.handle_unknown(key, value, message, default, was=meaning)
    context.refuse_later(key, message)  # wrong, not unknown: the default's optimizer and tensor are for auto
    return context.drop(key, message, default, was=meaning)


def _rebuild_target_entropy(context: RebuildContext, key: str, value: Any) -> Any:
    """Return a number; SB3 computes that of ``auto`` in the constructor, and not when it loads."""
    meaning = context.decode_or_none(key)
    if isinstance(meaning, (int, float, ArrayInfo)):
        return _rebuild_plain(context, key, value)
    space = context.decode_or_none("action_space")
    number = -float(math.prod(space.shape)) if isinstance(space, Space) and space.distribution == "gaussian" else 0.0
    if meaning == "auto":
        context.translate(key, f"{number}, the value of auto")
    else:
        context.drop(key, "expected a number or auto", str(number), was=meaning)
    return number


def _rebuild_env_count(context: RebuildContext, key: str, value: object) -> Any:
    """Return ``n_envs``, which SB3's ``load`` needs."""
    if type(value) is int and value > 0:
        return _rebuild_plain(context, key, value)
    context.drop(key, "expected a number of environments", "1", was=context.decode_or_none(key))
    return 1


# -- schedules ----------------------------------------------------------------------------------------


def _rebuild_schedule(context: RebuildContext, key: str, value: object) -> Any:
    """Return a number if a schedule is constant, else SB3's own schedule, or one that is allowed."""
    number = find_default(context.algorithm, key)
    default = "no clipping" if number is None else str(number)
    if key == "learning_rate":
        default = f"{default}, the default of {context.algorithm}"
    try:
        meaning = context.decode(key)
        if key == "clip_range_vf" and type(meaning) in (int, float) and meaning == 0:
            meaning = ConstantSchedule(0.0)
        if (meaning is None and key == "clip_range_vf") or type(meaning) in (int, float):
            if key != "clip_range":  # SB3 takes any number there
                _check_rate(meaning)
            context.keep(key)
            return meaning
        kept = context.allowed.keep_schedule(key, meaning)
        if kept is not None:
            return context.keep_allowed(key, kept)
        meaning = context.allowed.replace_names(key, meaning)
        inner = unwrap(meaning)
        function = inner.function if isinstance(inner, Partial) else inner
        if isinstance(function, Reference) and function.pair in context.allowed.pairs:
            return context.keep_allowed(key, meaning)
        found = find_meaning(meaning)
        if isinstance(found.schedule, ComputedSchedule):
            nearest, samples = find_nearest(found.schedule), describe_samples(found.schedule)
            message = f"neither constant nor linear, as SB3's schedules are: {samples} during training"
            if nearest is not None:
                message += f"; the nearest is {context.options.advice.set_schedule(key, nearest)}"
            if isinstance(inner, CarriedObject):
                message += f"; {trusted.replace_carried(inner, context.options.advice)}"
            return context.handle_unknown(key, value, message, default)
        return _encode_schedule(context, key, found, meaning)
    except UnsupportedError as error:
        rate = context.last_learning_rate
        last = f"; its last value was {rate}" if key == "learning_rate" and rate is not None else ""
        message = f"{error.message}{last}; {context.options.advice.set_value(key)}"
        return context.handle_unknown(key, value, message, default)


def _encode_schedule(context: RebuildContext, key: str, found: ScheduleMeaning, meaning: object) -> Any:
    """Return a schedule that SB3 has a class for, if it accepts the numbers."""
    written: Any = found.schedule
    if written is None:
        unknown = unwrap(meaning)
        if isinstance(unknown, Call) and unknown.func in context.allowed:
            name = show_name(unknown.func)
            only = "numbers, arrays, texts without paths, and containers of them"
            refuse(f"an object of {name} is kept if its attributes are {only}, and nothing else changes it")
        reason = f" ({escape(found.reason, 100)})" if found.reason else ""
        refuse(f"{trusted.describe_unknown(unknown, 'a schedule', context.options.advice)}{reason}")
    if isinstance(written, ConstantSchedule):
        _check_rate(written.value)
    elif isinstance(written, InterpolatedSchedule):
        _check_rate(written.sample(1.0))
    else:
        _check_rate(written.start)  # torch checks the first one only
        if not math.isfinite(written.end) or not 0 < written.end_fraction < math.inf:
            refuse(f"expected finite numbers in a linear schedule, got {escape(repr(written))}")
    how = FROM_BYTECODE if found.is_from_bytecode else ""
    # ARS calls the schedule without a check, and PPO refuses the number 0 but not a schedule of it
    may_be_number = key != "delta_std_schedule" and not (key == "clip_range_vf" and getattr(written, "value", 1) == 0)
    if isinstance(written, ConstantSchedule) and may_be_number:
        form = "a function" if isinstance(meaning, Function) or how else "an object"
        context.translate(key, f"a number instead of {form}{how and ', '}{how}")
        return written.value
    published = meaning.schedule if isinstance(meaning, Function) else None
    if isinstance(published or meaning, FloatSchedule) or (how and key in WRAPPED):
        written = FloatSchedule(written)
    result = context.encode(written)
    context.translate(key, f"{show(found.schedule)}{how and f' ({how})'}")
    return result


def _check_rate(value: float | None) -> None:
    """Check that torch accepts a number as a learning rate."""
    if value is not None and not 0 <= value < math.inf:
        refuse(f"expected a number of at least 0, got {value}")


# -- the policy's class -------------------------------------------------------------------------------


def _rebuild_policy_class(context: RebuildContext, key: str, value: object) -> Any:
    """Return the policy class: SB3's own by its name of today, or a custom one that is allowed."""
    chosen = context.policy_class
    if chosen is not None:
        context.translate(key, f"{chosen}, as requested")
        is_sb3s = chosen.pair in context.family.policies.values()
        return context.encode_allowed(chosen if is_sb3s else context.allowed.require(key, chosen.pair))
    known = context.original_sb3_policy
    if known is None:
        return _rebuild_unknown_class(context, key, value)
    before = context.decode(key)
    if context.her_observation is not None:
        known = Reference(*context.family.policies["MultiInputPolicy"])
        context.translate(key, f"{known}, for the Dict space of observation and goals")
    elif context.preset is not None:
        context.translate(key, f"{known}, to which {show(before)} passes arguments, and nothing else")
    else:
        context.translate(key, str(known) if known == before else f"{escape(str(before), 200)} is {known} now")
    return context.encode(known)


def _rebuild_unknown_class(context: RebuildContext, key: str, value: object) -> Any:
    meaning, advice = context.decode_or_none(key), context.options.advice
    if meaning in context.allowed:
        return context.keep_allowed(key, meaning)
    why = trusted.describe_unknown(meaning, "a policy", advice)
    if context.keeps_unknown:
        return context.handle_unknown(key, value, why)
    standard = context.sb3_policy
    if standard is None:
        unsuited = f"{context.algorithm} has no policy for its observations"
        refuse(f"{key}: {why}, and {unsuited}", DATA_ENTRY, hint=advice.standard_policy)
    context.why_policy_replaced = why
    fit = "names and shapes of all weights fit SB3's own, but it may compute something else"
    why = f"{why}; {fit}; {advice.standard_policy}"
    context.refuse_later(key, why)
    context.drop(key, why, str(standard), was=meaning, is_finding=True)
    return context.encode(standard)


# -- arguments of the policy that are required --------------------------------------------------------


def find_kept_modules(context: RebuildContext) -> tuple[str, ...]:
    """Return the modules of a class that is not SB3's and is kept: it makes the wrappers of its own tensors.

    :return: as :func:`~sbformat.nets.wrappers.unwrap` takes them
    """
    if not context.has_sb3_policy:
        return ("",)
    made = context.policy_argument("features_extractor_class")
    extractor = made.function if isinstance(made, Partial) else made
    is_known = isinstance(extractor, Reference) and trusted.find_class(extractor) in trusted.EXTRACTORS
    if extractor is None:
        is_known = _KWARGS not in context.archive.data or context.decode_or_none(_KWARGS) is not None
    is_kept = context.keeps_unknown or str(extractor) in context.options.allow
    if _KWARGS in context.options.supplied_at_load or (is_kept and not is_known):
        return ("features_extractor", changes.ACTOR_EXTRACTOR, changes.CRITIC_EXTRACTOR)
    return ()


def require_network_arguments(context: RebuildContext, network: Network) -> None:
    """Note the arguments that the layers of a network require, where the defaults of today are others."""
    required = context.required_arguments
    if context.preset is not None:
        for name, value in context.preset[1].items():
            required[name] = value, "the policy class of the archive passes it"
    if network.net_arch is not None:
        required["net_arch"] = network.net_arch, "the layers of both networks, none of them shared"
    elif (form := _find_net_arch(context, network)) is not None:
        required["net_arch"] = form, f"layers of both networks, none of them shared, as SB3 {context.target} reads them"
    elif network.old_default_net_arch is not None and context.policy_argument("net_arch") is None:
        required["net_arch"] = network.old_default_net_arch, "the stored layers, which were the default once"
    if network.shares_extractor and context.policy_argument("share_features_extractor") is None:
        required["share_features_extractor"] = True, f"the default before SB3 {changes.UNSHARED_EXTRACTORS}"


def _find_net_arch(context: RebuildContext, network: Network) -> Any:
    """Return ``net_arch`` in the form that the target needs, or None if it needs no other."""
    given = context.required_arguments.get("net_arch", (context.policy_argument("net_arch"), ""))[0]
    is_actor_critic = context.family.kind == "actor_critic"
    form = convert_net_arch(given, network, context.target) if is_actor_critic else given
    return None if form == given else form


def require_optimizer_class(context: RebuildContext, pair: Pair | None) -> None:
    """Note the class of the policy's optimizer, where the archive does not name it."""
    if pair is not None and context.policy_argument("optimizer_class") is None:
        context.required_arguments["optimizer_class"] = Reference(*pair), "identified by the optimizer's options"


def _add_required_arguments(context: RebuildContext, kept: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with those that are required, each with a row."""
    if not context.has_sb3_policy:
        return kept
    for name, (value, why) in context.required_arguments.items():
        context.translate(f"{_KWARGS}/{name}", f"{show(value)}: {why}")
    return {**kept, **{name: value for name, (value, _) in context.required_arguments.items()}}


# -- arguments of the policy in the archive -----------------------------------------------------------

_NUMBERS: Final = frozenset(
    {"log_std_init", "clip_mean", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps"}
)
"""Arguments that are numbers and do not decide on a shape."""
_DECIDED_BY_WEIGHTS: Final = frozenset({"use_sde", "share_features_extractor"})
"""Arguments that a target may lack, whose network then has other weights if they matter."""
_CLASS_OF: Final = {"features_extractor_kwargs": "features_extractor_class", "optimizer_kwargs": "optimizer_class"}
"""Arguments that SB3 passes to a class, and the argument that is this class."""


def _decode_arguments(context: RebuildContext, key: str) -> dict[Any, Any]:
    """Return the arguments that a key of ``data`` has; those of policies have to have names."""
    meaning = context.decode(key)
    if type(meaning) is not dict or (key == _KWARGS and any(type(name) is not str for name in meaning)):
        refuse(f"expected a dict of arguments, got {show(meaning)}")
    return meaning


def _rebuild_policy_kwargs(context: RebuildContext, key: str, value: object) -> Any:
    """Return the policy's arguments, as ``data`` contains them."""
    try:
        meaning = _decode_arguments(context, key)
    except UnsupportedError as error:
        result = context.handle_unknown(key, value, error.message, "the policy's defaults")
        context.policy_arguments = None if result is not DROPPED else _add_required_arguments(context, {})
        return result if context.policy_arguments is None else context.encode(context.policy_arguments)
    meaning = context.allowed.replace_names(key, meaning)
    if context.keeps_unknown and (why := _find_unknown(context, meaning)):
        context.policy_arguments = None
        return context.handle_unknown(key, value, why)
    count = len(context.rows)
    kept = _add_required_arguments(context, _rebuild_arguments(context, key, meaning))
    context.policy_arguments = kept
    result = context.encode_allowed(kept)
    if len(context.rows) == count and not isinstance(value, Serialized):
        context.keep(key)
    else:
        context.translate(key, show(kept))
    return result


def _find_unknown(context: RebuildContext, arguments: dict[str, Any]) -> str:
    """Return why the first of the arguments cannot be rebuilt, or an empty text."""
    for name, part in arguments.items():
        try:
            if name != "device":
                _check_argument(context, name, part)
        except UnsupportedError as error:
            return f"{escape(name, 80)}: {error.message}"
    return ""


def _rebuild_arguments(context: RebuildContext, key: str, meaning: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are kept; the arguments of a class that is dropped are dropped, too."""
    kept = {}
    for name, part in meaning.items():
        result = _rebuild_argument(context, f"{key}/{escape(name, 80)}", name, part)
        if result is not DROPPED:
            kept[name] = result
    for name, owner in _CLASS_OF.items():
        place = f"{key}/{name}"
        if owner in meaning and owner not in kept and kept.pop(name, None) is not None:
            context.drop(place, f"the {owner} that they are for is dropped", was=meaning[name])
        elif name in kept:
            kept[name] = _rebuild_class_arguments(context, place, name, kept)
    return {name: part for name, part in kept.items() if part is not DROPPED}


def _rebuild_argument(context: RebuildContext, place: str, name: str, value: object) -> Any:
    """Return one argument, or :data:`DROPPED`."""
    if name == "device":
        return context.drop(place, "SB3 sets the device when it loads", is_finding=False)
    policies = (POLICIES[pair] for pair in context.family.policies.values())
    if context.has_sb3_policy and name == changes.NOISE_ARGUMENT and value is not None:
        own = f"its own layers, which SB3 since {changes.NO_NOISE_LAYERS} does not support"
        refuse(f"{_KWARGS}: {name} gives the exploration noise {own}", DATA_ENTRY)
    if context.has_sb3_policy and not any(name in policy.argument_names(context.target) for policy in policies):
        message = f"not an argument of {context.algorithm}'s policies in SB3 {context.target}"
        is_finding = not (value is None or name in _DECIDED_BY_WEIGHTS)
        return context.drop(place, message, was=value, is_finding=is_finding)
    _refuse_forced_squashing(context, name, value)
    if name == "squash_output" and value is not True and _always_squashes(context):
        since = changes.ARS_SQUASHES_IF_ASKED
        context.translate(place, f"True: MlpPolicy of ARS ignored it before SB3 {since}, and squashed")
        return True
    try:
        _check_argument(context, name, value)
    except UnsupportedError as error:
        return context.handle_unknown(place, DROPPED, error.message, "the policy's default", was=value)
    return context.drop(place, trusted.PRIVATE) if trusted.is_private((name, value)) else value


def _always_squashes(context: RebuildContext) -> bool:
    """Return whether the policy squashed its output regardless of its argument, as ARS's MLP once did.

    The target also scales then, so it has to be a policy whose actions are between -1 and 1 anyway.
    """
    since = changes.ARS_SQUASHES_IF_ASKED
    if context.target < since or find_source_release(context.archive) >= since or not _is_mlp_of_ars(context):
        return False
    space = context.decode("action_space")
    bounds = space.bounds if isinstance(space, Space) else None
    if bounds is not None and [set(unpack_items(bound)) for bound in bounds] != [{-1}, {1}]:
        message = f"{_KWARGS}: squash_output is False, but ARS squashed anyway and did not scale before {since}"
        refuse(message, DATA_ENTRY)
    return True


def _refuse_forced_squashing(context: RebuildContext, name: str, value: object) -> None:
    """Refuse an agent whose output the target would squash regardless of the argument."""
    since = changes.ARS_SQUASHES_IF_ASKED
    if name != "squash_output" or value is not False or not _is_mlp_of_ars(context):
        return
    is_box = getattr(context.decode("action_space"), "distribution", "") == "gaussian"
    if is_box and context.target < since <= find_source_release(context.archive):
        refuse(f"{_KWARGS}: squash_output is False, and ARS of SB3 before {since} always squashes", DATA_ENTRY)


def _is_mlp_of_ars(context: RebuildContext) -> bool:
    """Return whether the archive has the MlpPolicy of ARS."""
    return context.original_sb3_policy == Reference("sb3_contrib.ars.policies", "ARSPolicy")


def _check_argument(context: RebuildContext, name: str, value: object) -> None:
    """Check that an argument is known in its role, and can be encoded."""
    allowed = context.allowed.pairs
    if name in trusted.CLASS_ARGUMENTS:
        try:
            trusted.check_role(name, value, allowed)
        except UnsupportedError:
            if isinstance(value, (str, int, float, type(None), Partial)):
                raise
            raise UnsupportedError(trusted.describe_unknown(value, name, context.options.advice)) from None
    else:
        trusted.check_plain(value, allowed, is_foreign=not context.has_sb3_policy or name in _CLASS_OF)
        if name in _NUMBERS and context.has_sb3_policy and not is_number(value):
            refuse(f"expected a number, got {show(value)}")
    context.encode_allowed(value)


def _rebuild_class_arguments(context: RebuildContext, place: str, name: str, arguments: dict[str, Any]) -> Any:
    """Return the arguments of a features extractor or optimizer without those that it does not accept."""
    given, owner, policy = arguments[name], arguments.get(_CLASS_OF[name]), context.sb3_policy
    pair = trusted.find_class(owner)
    if given is None or policy is None or (owner is not None and pair is None):
        return given
    if name == "optimizer_kwargs":
        row = OPTIMIZERS.get(pair or ADAM)
        accepted = None if row is None else row.arguments
    else:
        accepted = trusted.EXTRACTORS.get(pair or POLICIES[policy.pair].extractor)
    if accepted is None:
        return given
    if type(given) is not dict:
        return context.drop(place, "expected a dict of arguments", "none", was=given)
    kept = {}
    for key, value in given.items():
        inner = f"{place}/{escape(str(key), 80)}"
        if key == changes.NORMALIZED_ARGUMENT and context.target < changes.NORMALIZED_IMAGES:
            message = f"the class has no such argument before SB3 {changes.NORMALIZED_IMAGES}"
            context.drop(inner, message, was=value, is_finding=False)  # if the network depends on it, it is refused
        elif key not in accepted:
            context.drop(inner, "the class has no such argument", was=value)
        elif not fits_option(key, value, accepted[key]):
            context.drop(inner, f"expected a value like {accepted[key]}", was=value)
        else:
            kept[key] = value
    return kept


# -- buffers ------------------------------------------------------------------------------------------


GOAL_STRATEGIES: Final = ("future", "final", "episode")
"""The names of ``GoalSelectionStrategy``, by value."""


def _rebuild_buffer_class(context: RebuildContext, key: str, value: object) -> Any:
    """Return a class that SB3 has for the algorithm, or one that is allowed; else SB3 chooses one."""
    try:
        meaning = context.decode(key)
        if meaning in context.allowed:
            return context.keep_allowed(key, meaning)
        pair = current_name(meaning.pair) if isinstance(meaning, Reference) else None
        has_keys = isinstance(context.decode_or_none("observation_space"), DictSpace)
        if pair not in trusted.list_buffers(
            key, context.algorithm, is_dict=context.her_observation is not None or has_keys
        ):
            refuse(trusted.describe_unknown(meaning, "a buffer of such observations", context.options.advice))
        is_chosen = pair == NSTEP_BUFFER and context.target >= changes.NSTEP_RETURNS
        if is_chosen:  # SB3 warns of one that it did not choose itself
            context.translate(key, "null: SB3 chooses it for n_steps > 1")
            return None
        result = context.encode(meaning)
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message, "the buffer that SB3 chooses")
    is_limited = pair == HER_BUFFER and context.target < changes.HER_ONLINE
    limit = f"; before SB3 {changes.HER_ONLINE} it trains in one environment, not in several" if is_limited else ""
    context.translate(key, f"{show(meaning)}{limit}")
    return result


def _rebuild_buffer_kwargs(context: RebuildContext, key: str, value: object) -> Any:
    """Return the arguments of a buffer without those that it does not accept."""
    try:
        meaning = _decode_arguments(context, key)
    except UnsupportedError as error:
        result = context.handle_unknown(key, value, error.message, "none")
        return {} if result is DROPPED else result
    accepted = _list_buffer_arguments(context, key)
    kept: dict[Any, Any] = {}
    for name, part in context.allowed.replace_names(key, meaning).items():
        place = f"{key}/{escape(str(name), 80)}"
        if name in changes.HER_REMOVED and name not in (accepted or ()):
            message = f"HerReplayBuffer does not accept it since SB3 {changes.HER_ONLINE}"
            context.drop(place, message, is_finding=False)
        elif accepted is not None and name not in accepted:
            is_finding = False if name in changes.HER_ADDED and part is False else None
            context.drop(place, "the buffer has no such argument", was=part, is_finding=is_finding)
        elif name == "goal_selection_strategy" and accepted is not None:
            kept[name] = _rebuild_goal_strategy(context, place, part)
        elif trusted.is_private((name, part)):
            context.drop(place, trusted.PRIVATE)
        else:
            try:
                trusted.check_plain(part, context.allowed.pairs, is_foreign=accepted is None)
                context.encode_allowed(part)
                kept[name] = part
            except UnsupportedError as error:
                context.drop(place, error.message, was=part)
    if kept == meaning:
        context.keep(key)
    else:
        context.translate(key, "the arguments of today")
    return context.encode_allowed(kept)


def _list_buffer_arguments(context: RebuildContext, key: str) -> Collection[str] | None:
    """Return the arguments that the buffer accepts; None for an allowed class, whose arguments are not known."""
    owner = key.replace("_kwargs", "_class")
    meaning = context.decode_or_none(owner)
    if meaning in context.allowed or owner in context.options.supplied_at_load or context.keeps_unknown:
        return None
    if owner == "rollout_buffer_class":
        return ()
    steps = context.archive.data.get("n_steps")
    has_nstep = context.target >= changes.NSTEP_RETURNS
    chosen = NSTEP_BUFFER if type(steps) is int and steps > 1 and has_nstep else None
    pair = trusted.find_class(meaning) if isinstance(meaning, Reference) else chosen
    if context.her_observation is not None:
        pair = HER_BUFFER
    elif pair != HER_BUFFER:
        is_nstep = has_nstep and NSTEP_BUFFER in (pair, chosen)
        pair = NSTEP_BUFFER if is_nstep else next(iter(trusted.REPLAY_BUFFERS))
    accepted = trusted.REPLAY_BUFFERS[pair]
    if pair == HER_BUFFER and context.target < changes.HER_ONLINE:
        return accepted.difference(changes.HER_ADDED).union(changes.HER_MOVED)
    return accepted


def _rebuild_goal_strategy(context: RebuildContext, place: str, value: object) -> str:
    """Return HER's goal selection strategy as one of the three texts that SB3 accepts."""
    if isinstance(value, EnumMember) and isinstance(value.value, int) and value.value in range(3):
        return GOAL_STRATEGIES[value.value]
    if isinstance(value, str) and value.lower() in GOAL_STRATEGIES:
        return value.lower()
    context.drop(place, f"expected one of {', '.join(GOAL_STRATEGIES)}", "future", was=value)
    return "future"


# -- action noise -------------------------------------------------------------------------------------


def _rebuild_action_noise(context: RebuildContext, key: str, value: object) -> Any:
    """Return noise of SB3 that consists of numbers."""
    try:
        meaning = context.decode(key)
        trusted.check_noise(meaning)
        result = context.encode(meaning)
    except UnsupportedError as error:
        return context.handle_unknown(key, value, error.message, "no noise")
    context.translate(key, show(meaning))
    return result


# -- what SB3's load needs ----------------------------------------------------------------------------

_REQUIRED: Final = ("policy_class", "observation_space", "action_space")
"""Keys that SB3's ``load`` reads, without a default."""
_NOT_ONLY_NUMBERS: Final = frozenset({"ent_coef", "train_freq"})
"""Keys whose default is a number, but whose value may be an object."""


def _check_data(context: RebuildContext, made: dict[str, Any]) -> None:
    """Drop the values of the new ``data`` that the schema refuses, and add or refuse what is missing, with findings."""
    for key, message in list(_find_wrong_values(context, made)):
        if key in made:
            _drop_value(context, made, key, message)
    _check_gsde(context, made)
    for key in _REQUIRED:
        if key not in made:
            refuse(f"{key}: it is missing, and SB3 loads no agent without it", DATA_ENTRY)
    if context.algorithm in ENTROPY_LEARNERS and not context.has_defaults and _TARGET_ENTROPY not in made:
        made[_TARGET_ENTROPY] = _rebuild_target_entropy(context, _TARGET_ENTROPY, None)
    for key in ("verbose", "n_envs"):  # load reads them, and the constructor has defaults
        if key not in made:
            made[key] = context.family.defaults[key]
            if not any(row.key == key and row.entry == DATA_ENTRY for row in context.rows):
                message = "it is missing, and SB3's load needs it"
                context.drop(key, message, describe_default(context.algorithm, key), is_finding=True)


def _find_wrong_values(context: RebuildContext, made: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the keys whose values SB3 cannot use, each with the reason; not those that are supplied at load."""
    problems = [problem for problem in iter_problems(made) if problem.level == "error"]
    assigned = [problem for problem in problems if problem.key in context.assigned]
    if assigned:
        raise ValidationError(f"{assigned[0].loc}: {assigned[0].message}", problems=tuple(assigned))

    def is_kept(key: str) -> bool:
        return context.keeps_unknown and isinstance(made[key], Serialized)

    for problem in problems:
        key = problem.key
        if key in made and key not in context.options.supplied_at_load and not is_kept(key):
            yield key, problem.message
    for key, default in context.family.defaults.items():
        is_number = type(default) in (bool, int, float) and key not in _NOT_ONLY_NUMBERS
        if is_number and isinstance(made.get(key), Serialized) and not is_kept(key) and key not in context.assigned:
            yield key, "expected a single number, got an object"


def _drop_value(context: RebuildContext, made: dict[str, Any], key: str, message: str) -> None:
    """Remove a value from the result; its row replaces the earlier ones."""
    if key in _REQUIRED:
        refuse(f"{key}: {message}; SB3 loads no agent without it", DATA_ENTRY)
    del made[key]
    names = {key, *(old for old, new in changes.RENAMED.items() if new == key and old in context.archive.data)}
    replaced = [row for row in context.rows if row.entry == DATA_ENTRY and row.key in names]
    context.rows = [row for row in context.rows if row not in replaced]
    shown = next((row.key for row in replaced if row.key), key)
    context.refuse_later(shown, message)
    default = describe_default(context.algorithm, key)
    context.drop(shown, message, default, was=context.decode_or_none(shown), is_finding=True)


def _check_gsde(context: RebuildContext, made: dict[str, Any]) -> None:
    """Drop ``use_sde`` where the policy has no such noise: SB3's ``load`` samples it, and fails."""
    policy, arguments = context.sb3_policy, context.policy_arguments
    decisive = {"use_sde", _KWARGS, "policy_class", "action_space"} & context.options.supplied_at_load
    if made.get("use_sde") is not True or policy is None or arguments is None or decisive:
        return
    actions: Any = context.decode_or_none("action_space")
    try:
        require_gsde(Agent(policy.pair, actions, actions, arguments, use_sde=True, release=context.target))
    except NetworkError as error:
        message = f"{error.message}, and SB3's load fails to sample its noise"
    except SbformatError:  # not known whether it has noise
        return
    else:
        return
    if "use_sde" in context.assigned:
        refuse(f"use_sde: {message}", DATA_ENTRY)
    _drop_value(context, made, "use_sde", message)


def _add_missing(context: RebuildContext, made: dict[str, Any]) -> None:
    """Add the keys and arguments that later releases need so that they do the same."""
    if context.required_arguments and _KWARGS not in made:
        context.policy_arguments = _add_required_arguments(context, {})
        made[_KWARGS] = context.encode(context.policy_arguments)
    if context.her_observation is not None:
        moved = _list_moved_keys(context)
        given = {name: context.archive.decode(name) for name in moved if name in context.archive.data}
        arguments: Any = {}
        for name in ("n_sampled_goal", *changes.HER_MOVED):
            if type(given.get(name)) in (bool, int):
                arguments[name] = given[name]
        strategy = "goal_selection_strategy"
        if strategy in given:
            arguments[strategy] = _rebuild_goal_strategy(context, strategy, given[strategy])
        made["replay_buffer_class"] = context.encode(Reference(*HER_BUFFER))
        made["replay_buffer_kwargs"] = arguments
        context.translate("replay_buffer_class", f"HerReplayBuffer, which HER is since SB3 {changes.DICT_SPACES}")
        context.translate("replay_buffer_kwargs", escape(str(arguments)))
    if made.get("optimize_memory_usage") is True:
        arguments = {} if made.get("replay_buffer_kwargs") is None else made["replay_buffer_kwargs"]
        if type(arguments) is dict and "handle_timeout_termination" not in arguments:
            made["replay_buffer_kwargs"] = {**arguments, "handle_timeout_termination": False}
            since = f"since SB3 {changes.DICT_SPACES}, and the only behavior before"
            message = f"False: required with optimize_memory_usage {since}"
            context.translate("replay_buffer_kwargs/handle_timeout_termination", message)


_HANDLERS: Final[dict[str, Callable[[RebuildContext, str, Any], Any]]] = {
    "observation_space": _rebuild_space,
    "action_space": _rebuild_space,
    **dict.fromkeys(RECREATED, _drop_recreated),
    "policy_class": _rebuild_policy_class,
    _KWARGS: _rebuild_policy_kwargs,
    "tensorboard_log": _rebuild_tensorboard_log,
    "train_freq": _rebuild_train_freq,
    "ent_coef": _rebuild_entropy_coefficient,
    _TARGET_ENTROPY: _rebuild_target_entropy,
    "n_envs": _rebuild_env_count,
    "target_update_interval": _rebuild_target_update_interval,
    "replay_buffer_class": _rebuild_buffer_class,
    "rollout_buffer_class": _rebuild_buffer_class,
    "replay_buffer_kwargs": _rebuild_buffer_kwargs,
    "rollout_buffer_kwargs": _rebuild_buffer_kwargs,
    "action_noise": _rebuild_action_noise,
}
