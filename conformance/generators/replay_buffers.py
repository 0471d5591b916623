"""Replay buffers: their required attributes and their trajectories (REPLAY-BUFFERS.md 18)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from conformance.generators.build_objects import (
    BUFFER,
    SampleArray,
    box,
    expected_arrays,
    given_pairs,
    instance,
    objects,
    pack_items,
    running_mean,
    sample_array,
    scalar,
)
from conformance.generators.build_pth import Apply, Change, Name, dumps
from conformance.generators.build_zips import sb3_archive
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conformance.generators.vectors import Vector

ASKED: Final = "--replay-buffer"
TENSOR: Final = "tensor failure"
UNSUPPORTED: Final = "unsupported"
PASSED: Final = "limit exceeded"
ABSENT: Final = ...
"""Marks an attribute that is absent."""
TERMINATED, TIMEOUT, UNFINISHED = "terminated", "timeout", "unfinished"

DICT_BUFFER: Final = Name(BUFFER.module, "DictReplayBuffer")
N_STEPS: Final = Name(BUFFER.module, "NStepReplayBuffer")
HER: Final = Name("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer")
STRATEGY: Final = Name("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy")
OWN: Final = Name("agent", "Buffer")

ROWS: Final = 4
ENVS: Final = 2


def steps(*values: float, code: str = "f4", envs: int = ENVS, axes: tuple[int, ...] = ()) -> SampleArray:
    """An array with one row per step: these items, or zeros."""
    count = ROWS * envs
    for size in axes:
        count *= size
    return sample_array(code, *(values or [0] * count), shape=(ROWS, envs, *axes))


def counting_steps(first: int, envs: int = ENVS, axes: tuple[int, ...] = (1,)) -> SampleArray:
    """An array with one row per step, with increasing items."""
    count = ROWS * envs
    return steps(*range(first, first + count), envs=envs, axes=axes)


def attributes(envs: int = ENVS) -> dict[str, Any]:
    """The required attributes: three of four rows are filled, and no episode has ended."""
    return {
        "buffer_size": ROWS, "n_envs": envs, "pos": 3, "full": False, "observations": counting_steps(0, envs),
        "next_observations": counting_steps(100, envs), "actions": counting_steps(200, envs), "rewards": counting_steps(300, envs, ()),
        "dones": steps(envs=envs),
    }  # fmt: skip


UNENDED: Final = [[0, 0, 3, UNFINISHED], [1, 0, 3, UNFINISHED]]
"""Its episodes, of two environments."""
BOLD: Final = tuple(attributes())


def tree(value: Any) -> Any:
    """The pickled form of an attribute."""
    if isinstance(value, SampleArray):
        return value.tree()
    return {key: tree(part) for key, part in value.items()} if isinstance(value, dict) else value


def pickled(cls: Name, parts: dict[str, Any]) -> bytes:
    """A buffer of these attributes."""
    return dumps(instance(cls, {name: tree(value) for name, value in parts.items() if value is not ABSENT}))


def arrays(parts: dict[str, Any]) -> dict[str, SampleArray]:
    """The arrays among attributes, by path."""
    found: dict[str, SampleArray] = {}
    for name, value in parts.items():
        if isinstance(value, SampleArray):
            found[name] = value
        if isinstance(value, dict):
            found |= {f"{name}/{key}": part for key, part in value.items() if isinstance(part, SampleArray)}
    return found


def accepts(
    rule: Rule, name: str, parts: dict[str, Any], episodes: list[list[Any]], *arguments: str, cls: Name = BUFFER,
    **told: Any,
) -> Vector:  # fmt: skip
    """A buffer of these attributes, and its episodes; ``told`` is what is printed otherwise than it stands there."""
    facts = {
        "class": f"{cls.module}.{cls.name}",
        **{key: parts[key] for key in ("buffer_size", "n_envs", "pos", "full")},
        "size": parts["buffer_size"] if parts["full"] else parts["pos"],
        "optimize_memory_usage": parts.get("optimize_memory_usage", False),
        "handle_timeout_termination": parts.get("handle_timeout_termination", False),
        "episodes": episodes,
        "arrays": expected_arrays(arrays(parts)),
        **told,
    }
    return rule.accepts(f"buffer-{name}", pickled(cls, parts), {"replay_buffer": facts}, ASKED, *arguments)


def refuses(rule: Rule, name: str, parts: dict[str, Any], outcome: str = TENSOR, cls: Name = BUFFER) -> Vector:
    """A buffer that a reader must refuse."""
    return rule.refuses(f"buffer-{name}", pickled(cls, parts), outcome, ASKED)


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from roots()
    yield from classes()
    yield from bold()
    yield from numbers()
    yield from axes()
    yield from hindsight()
    yield from other_forms()
    yield from orders()
    yield from ends()
    yield from shared_observations()
    yield from given()
    yield from hindsight_episodes()
    yield from limits()


def roots() -> Iterator[Vector]:
    rule = Rule("18.2", "The object is NEWOBJ of its class without arguments, and BUILD with a dict.")
    whole = attributes()
    yield accepts(rule, "whole", whole, UNENDED)
    state = {name: tree(value) for name, value in whole.items()}
    for name, root in {
        "from-arguments": Apply(BUFFER, (4,), Change("BUILD", state), how="NEWOBJ"), "called": Apply(BUFFER, (), Change("BUILD", state)),
        "without-a-state": Apply(BUFFER, (), how="NEWOBJ"), "built-twice": Apply(BUFFER, (), Change("BUILD", state), Change("BUILD", {"pos": 1}), how="NEWOBJ"),
        "of-statistics": running_mean(0.5, 2.0), "of-an-agent": ({}, []), "of-a-list": [whole["pos"]],
    }.items():  # fmt: skip
        yield rule.refuses(f"buffer-{name}", dumps(root), UNSUPPORTED, ASKED)
    dotted = Name("stable_baselines3.her", "her_replay_buffer.HerReplayBuffer")
    yield refuses(rule, "of-a-dotted-name", episodic(), UNSUPPORTED, cls=dotted)
    rule = Rule("18", "It is read as one pickle by 16.3: nothing in it is imported, called or built.")
    data = pickled(BUFFER, whole)
    yield rule.refuses("buffer-behind", data + b"x", "pickle failure", ASKED)
    yield rule.refuses("buffer-cut", data[:-1], "pickle failure", ASKED)
    called = {**whole, "device": Apply(Name("os", "system"), ("true",))}
    yield accepts(rule, "with-a-call", called, UNENDED)
    for name, raw, outcome in (
        ("data", b'{"gamma": 0.5}', UNSUPPORTED), ("nothing", b"", "container failure"), ("archive", sb3_archive(), UNSUPPORTED),
    ):  # fmt: skip
        yield rule.refuses(f"buffer-of-{name}", raw, outcome, ASKED)
    rule = Rule(
        "18.2",
        "and the class may be a user's own (16.3): its other attributes are kept, and `scan` reports it as unknown.",
    )
    mine = {**whole, "mine": sample_array("i8", 1, 2), "note": "x"}
    yield accepts(rule, "of-ones-own", mine, UNENDED, cls=OWN)
    yield accepts(rule, "attribute-of-ones-own", mine, UNENDED)
    yield refuses(rule, "of-ones-own-without-dones", {**mine, "dones": ABSENT}, cls=OWN)
    yield refuses(rule, "of-ones-own-without-pos", {**mine, "pos": ABSENT}, UNSUPPORTED, cls=OWN)
    yield rule.accepts("scan-buffer", data, {"verdict": "clean", "reason": None, "rules": []}, "--scan")
    found = {"verdict": "dangerous", "reason": "not-known", "rules": ["unknown-name", "unknown-object"]}
    yield rule.accepts("scan-buffer-of-ones-own", pickled(OWN, mine), found, "--scan")


def classes() -> Iterator[Vector]:
    rule = Rule("18.2", "Any attribute may be missing except those in bold")
    flags = {"optimize_memory_usage": False, "handle_timeout_termination": True, "timeouts": steps()}
    spaces = {
        "observation_space": box((-1,), (1,)),
        "action_space": box((-1,), (1,)),
        "obs_shape": (1,),
        "action_dim": 1,
        "device": "cpu",
    }
    yield accepts(rule, "of-today", {**attributes(), **spaces, **flags}, UNENDED)
    parts = {"b": counting_steps(0), "a": steps(*range(8), code="u1", axes=(1,))}
    rule = Rule("18.2", "the same; `observations` and `next_observations` are dicts of arrays with text keys.")
    by_key = {**attributes(), "observations": parts, "next_observations": parts}
    yield accepts(rule, "by-key", {**by_key, **flags}, UNENDED, cls=DICT_BUFFER)
    yield refuses(rule, "by-key-of-text", {**by_key, "observations": {"a": "x"}}, cls=DICT_BUFFER)
    yield refuses(rule, "by-number", {**by_key, "observations": {1: counting_steps(0)}}, cls=DICT_BUFFER)
    rule = Rule("18.2", "Before 1.4 `actions` has no axis of environments")
    one = attributes(1) | {"actions": sample_array("f4", *range(8), shape=(ROWS, 2))}
    alone = [[0, 0, 3, UNFINISHED]]
    yield accepts(rule, "actions-without-an-axis", one, alone, cls=DICT_BUFFER)
    rule = Rule("18.2", "and `n_steps`, `gamma`; rewards are those of single steps")
    yield accepts(rule, "n-steps", {**attributes(), **flags, "n_steps": 3, "gamma": 0.99}, UNENDED, cls=N_STEPS)
    rule = Rule(
        "18.2",
        "of a DictReplayBuffer, and `goal_selection_strategy`, `her_ratio`, `n_sampled_goal`, `copy_info_dict`, `infos` (objects), `ep_start`, `ep_length`, `_current_ep_start`",
    )
    her = {
        **by_key, **flags, "goal_selection_strategy": Apply(STRATEGY, (0,)), "her_ratio": 0.8, "n_sampled_goal": 4, "copy_info_dict": False,
        "infos": objects((ROWS, ENVS), *({} for _ in range(ROWS * ENVS))), "ep_start": steps(code="i8"), "ep_length": steps(code="i8"),
        "_current_ep_start": sample_array("i8", 0, 0),
    }  # fmt: skip
    yield accepts(rule, "hindsight", her, UNENDED, cls=HER)
    for name in ("ep_start", "ep_length"):
        odd = {**her, name: sample_array("i8", 0, 0, 0, 0, shape=(ROWS, 1))}
        yield refuses(rule, f"hindsight-{name.replace('_', '-')}", odd, cls=HER)
    odd = {**her, "infos": objects((ROWS, 1), *({} for _ in range(ROWS)))}
    yield refuses(rule, "hindsight-infos", odd, cls=HER)


def bold() -> Iterator[Vector]:
    rule = Rule("18.2", "Any attribute may be missing except those in bold")
    for name in BOLD:
        if name != "next_observations":
            yield refuses(rule, f"without-{name.replace('_', '-')}", {**attributes(), name: ABSENT})
    for name in ("observations", "actions", "rewards", "dones"):
        for label, value in {"none": None, "text": "x", "number": 1.0}.items():
            yield refuses(rule, f"{name}-of-{label}", {**attributes(), name: value})
    yield refuses(rule, "dones-of-objects", {**attributes(), "dones": objects((ROWS, ENVS), *[0] * 8)})
    rule = Rule("18.2", "if it is true `next_observations` is absent or None, otherwise **required**")
    for label, value in {"absent": ABSENT, "none": None}.items():
        parts = {**attributes(), "next_observations": value}
        yield refuses(rule, f"next-{label}", parts)
        yield refuses(rule, f"next-{label}-and-not-shared", {**parts, "optimize_memory_usage": False})
        yield accepts(rule, f"next-{label}-and-shared", {**parts, "optimize_memory_usage": True}, UNENDED)
    for label, odd in {"two": 2, "text": "yes", "none": None}.items():
        yield refuses(rule, f"shared-{label}", {**attributes(), "optimize_memory_usage": odd})


def numbers() -> Iterator[Vector]:
    rule = Rule(
        "18.2",
        "`buffer_size` and `n_envs` are integers of at least 1, `pos` is below `buffer_size`, `full` is true or false; numpy's scalars are accepted as numbers.",
    )
    whole = attributes()
    of_numpy = {"buffer_size": 4, "n_envs": 2, "pos": 3}
    made = {
        **whole,
        **{name: scalar(pack_items("i8", value), "i8") for name, value in of_numpy.items()},
        "full": scalar(b"\0", "b1"),
    }
    yield accepts(rule, "numbers-of-numpy", made, UNENDED, **of_numpy, full=False, size=3)
    yield accepts(rule, "pos-first", {**whole, "pos": 0}, [])
    for name in ("buffer_size", "n_envs"):
        for label, value in {
            "zero": 0,
            "negative": -1,
            "float": 4.0,
            "bool": True,
            "text": "4",
            "none": None,
            "huge": 2**63,
        }.items():
            yield refuses(rule, f"{name.replace('_', '-')}-{label}", {**whole, name: value})
    for label, value in {
        "at-the-end": 4, "beyond": 5, "negative": -1, "float": 3.0, "bool": True, "text": "3", "none": None, "huge": 2**70,
    }.items():  # fmt: skip
        yield refuses(rule, f"pos-{label}", {**whole, "pos": value})
    for label, odd in {"two": 2, "half": 0.5, "text": "yes", "none": None}.items():
        yield refuses(rule, f"full-{label}", {**whole, "full": odd})
    rule = Rule(
        "18.2",
        "The integers 1 and 0 are accepted as true and false, and an array of shape () as its number. Integers are below 2^63.",
    )
    yield accepts(rule, "full-one", {**whole, "full": 1}, [[0, 3, 4, UNFINISHED], [1, 3, 4, UNFINISHED]], full=True)
    yield refuses(rule, "full-one-float", {**whole, "full": 1.0})
    one = {name: sample_array("i8", value, shape=()) for name, value in of_numpy.items()}
    yield accepts(
        rule,
        "numbers-without-axes",
        {**whole, **one},
        UNENDED,
        **of_numpy,
        size=3,
        arrays=expected_arrays(arrays(whole) | one),
    )
    for name, (least, below) in {"n_steps": (1, 0), "n_sampled_goal": (0, -1), "current_idx": (0, -1)}.items():
        label = name.replace("_", "-")
        yield accepts(rule, f"{label}-least", {**whole, name: least}, UNENDED)
        yield refuses(rule, f"{label}-below", {**whole, name: below})
        yield accepts(rule, f"{label}-most", {**whole, name: 2**63 - 1}, UNENDED)
        yield refuses(rule, f"{label}-above", {**whole, name: 2**63})
    rule = Rule("18.2", "`gamma` and `her_ratio` are numbers.")
    for name in ("gamma", "her_ratio"):
        label = name.replace("_", "-")
        yield accepts(rule, f"{label}-numpy", {**whole, name: scalar(pack_items("f4", 0.5), "f4")}, UNENDED)
        yield refuses(rule, f"{label}-none", {**whole, name: None})
    rule = Rule("18.2", "`copy_info_dict` and `online_sampling` are true or false.")
    for name in ("handle_timeout_termination", "copy_info_dict", "online_sampling"):
        label = name.replace("_", "-")
        yield accepts(rule, f"{label}-false", {**whole, name: False}, UNENDED)
        yield refuses(rule, f"{label}-none", {**whole, name: None})
    rule = Rule("13.1", "The limit `value_depth` applies to the whole pickle, whether its parts are recognized or not.")
    for label, levels in {"at": 200 - 2, "above": 200 - 1}.items():  # below the object and its attributes
        deep: Any = []
        for _ in range(levels - 1):
            deep = [deep]
        named = f"depth-{label}"
        if label == "at":
            yield accepts(rule, named, {**whole, "mine": deep}, UNENDED)
        else:
            yield refuses(rule, named, {**whole, "mine": deep}, PASSED)


def axes() -> Iterator[Vector]:
    rule = Rule("18.2", "are (`buffer_size`, `n_envs`)")
    whole = {**attributes(), "timeouts": steps()}
    yield accepts(rule, "axes", whole, UNENDED)
    image = {
        **whole,
        "observations": steps(code="u1", axes=(2, 2, 1)),
        "next_observations": steps(code="u1", axes=(2, 2, 1)),
    }
    yield accepts(rule, "axes-more", image, UNENDED)
    for name in ("observations", "next_observations", "actions"):
        label = name.replace("_", "-")
        yield refuses(rule, f"{label}-rows", {**whole, name: sample_array("f4", *range(6), shape=(3, 2, 1))})
        yield refuses(rule, f"{label}-environments", {**whole, name: sample_array("f4", *range(4), shape=(4, 1, 1))})
        yield refuses(rule, f"{label}-turned", {**whole, name: sample_array("f4", *range(8), shape=(2, 4, 1))})
    yield refuses(
        rule,
        "observations-of-a-part",
        {**whole, "observations": {"a": counting_steps(0), "b": sample_array("f4", *range(6), shape=(3, 2, 1))}},
    )
    yield refuses(
        rule, "observations-without-environments", {**attributes(1), "observations": sample_array("f4", *range(4))}
    )
    rule = Rule(
        "18.2", "Each of them that is present and not None is an array of numbers (13.2), `infos` one of objects."
    )
    for name in ("timeouts", "ep_start", "ep_length", "infos"):
        label = name.replace("_", "-")
        yield accepts(rule, f"{label}-none", {**whole, name: None}, UNENDED)
        yield refuses(rule, f"{label}-text", {**whole, name: "x"})
        if name != "infos":
            yield refuses(rule, f"{label}-objects", {**whole, name: objects((ROWS, ENVS), *[0] * 8)})
    whole_pickle = pickled(BUFFER, whole)
    state = b"J\xff\xff\xff\xffJ\xff\xff\xff\xffK\0"  # the end of that of a dtype, before TUPLE
    yield rule.refuses(
        "buffer-dtype-of-a-frozenset", whole_pickle.replace(state + b"t", state + b"\x91", 1), TENSOR, ASKED
    )
    yield refuses(rule, "infos-numbers", {**whole, "infos": steps()})
    yield refuses(rule, "timeouts-two", {**whole, "timeouts": SampleArray("b1", (ROWS, ENVS), bytes([2] * 8))})
    rule = Rule("18.2", "All but `infos`, `dones` and `timeouts` may also be a dict of such arrays with text keys.")
    for name in ("rewards", "ep_start"):
        yield accepts(rule, f"{name.replace('_', '-')}-by-key", {**whole, name: {"a": steps()}}, UNENDED)
    for name in ("dones", "timeouts"):
        yield refuses(rule, f"{name}-by-key", {**whole, name: {"a": steps()}})
    yield refuses(rule, "observations-in-part", {**whole, "observations": {"a": counting_steps(0), "b": None}})
    yield accepts(rule, "own-in-part", {**whole, "mine": {"b": None}}, UNENDED)
    rule = Rule("18.2", "`rewards`, `dones` and `timeouts` have no other axes.")
    for name in ("rewards", "dones", "timeouts"):
        yield refuses(rule, f"{name}-rows", {**whole, name: sample_array("f4", *[0] * 6, shape=(3, 2))})
        yield refuses(rule, f"{name}-more-axes", {**whole, name: steps(axes=(1,))})
        yield refuses(rule, f"{name}-fewer-axes", {**whole, name: sample_array("f4", 0, 0, 0, 0)})
    bools = {**whole, "dones": steps(code="b1"), "timeouts": steps(code="u1")}
    yield accepts(rule, "dones-of-bools", bools, UNENDED)
    rule = Rule("18.2", "With one environment, `actions` may also have two axes in total, (`buffer_size`, action).")
    one = attributes(1)
    flat = {**one, "actions": sample_array("f4", *range(12), shape=(4, 3))}
    yield accepts(rule, "actions-of-two-axes", flat, [[0, 0, 3, UNFINISHED]])
    yield refuses(rule, "actions-of-two-axes-rows", {**one, "actions": sample_array("f4", *range(9), shape=(3, 3))})
    several = {**whole, "actions": sample_array("f4", *range(12), shape=(4, 3))}
    yield refuses(rule, "actions-of-two-axes-of-several", several)


def episodic(name: str = "_buffer", *done: float, **changed: Any) -> dict[str, Any]:
    """A hindsight buffer before 1.8: three episodes of at most two steps, the second is in progress."""
    of_steps = {
        key: sample_array("f4", *range(6), shape=(3, 2, 1)) for key in ("action", "reward")
    } | {
        key: sample_array("f4", *range(6), shape=(3, 2, 1, 1))
        for key in ("observation", "achieved_goal", "desired_goal", "next_obs", "next_achieved_goal", "next_desired_goal")
    }  # fmt: skip
    parts = {**of_steps, "done": sample_array("f4", *(done or [0] * 6), shape=(3, 2, 1))}
    return {
        "buffer_size": 6, "n_envs": 1, "pos": 1, "full": False, name: parts, "episode_lengths": sample_array("i8", 2, 0, 0),
        "max_episode_length": 2, "max_episode_stored": 3, "current_idx": 1, "her_ratio": 0.8, **changed,
    }  # fmt: skip


def hindsight() -> Iterator[Vector]:
    rule = Rule(
        "18.2",
        "the parts of `_buffer` begin with the axes (`max_episode_stored`, `max_episode_length`)",
    )
    found = [[0, 0, 2, TIMEOUT], [0, 2, 1, UNFINISHED]]
    for name in ("_buffer", "buffer"):
        yield accepts(
            rule,
            f"episodes-in-{name.strip('_')}{'-of-1.1' if name[0] == '_' else ''}",
            episodic(name),
            found,
            cls=HER,
            size=2,
        )
    whole = episodic()
    more = {
        **whole,
        "online_sampling": True,
        "episode_steps": 1,
        "goal_shape": (1,),
        "n_sampled_goal": 4,
        "info_buffer": [],
        "replay_buffer": None,
    }
    yield accepts(rule, "episodes-of-1.7", more, found, cls=HER, size=2)
    for label, shape in {"rows": (2, 2, 1), "steps": (3, 1, 1), "turned": (2, 3, 1)}.items():
        count = shape[0] * shape[1]
        parts = {**whole["_buffer"], "reward": sample_array("f4", *range(count), shape=shape)}
        yield refuses(rule, f"episodes-{label}", {**whole, "_buffer": parts}, cls=HER)
    rule = Rule("18.2", "the parts that SB3 writes have more axes")
    two = sample_array("f4", *range(6), shape=(3, 2))
    mine = {**whole, "_buffer": {**whole["_buffer"], "mine": two}}
    yield accepts(rule, "episodes-of-ones-own", mine, found, cls=HER, size=2)
    yield refuses(rule, "episodes-of-two-axes", {**whole, "_buffer": {**whole["_buffer"], "reward": two}}, cls=HER)
    rule = Rule("18.2", "`done` has one more of size 1")
    for label, done in {
        "flat": sample_array("f4", *[0] * 6, shape=(3, 2)), "two": sample_array("f4", *[0] * 12, shape=(3, 2, 2)), "none": ABSENT,
    }.items():  # fmt: skip
        parts = {**whole["_buffer"], "done": done}
        parts = {key: part for key, part in parts.items() if part is not ABSENT}
        yield refuses(rule, f"episodes-done-{label}", {**whole, "_buffer": parts}, cls=HER)
    rule = Rule("18.2", "`episode_lengths` contains an integer from 0 to `max_episode_length` for each episode")
    for label, lengths in {
        "long": sample_array("i8", 3, 0, 0), "negative": sample_array("i8", 2, -1, 0), "fewer": sample_array("i8", 2, 0), "more": sample_array("i8", 2, 0, 0, 0),
        "floats": sample_array("f8", 2, 0, 0), "list": [2, 0, 0], "absent": ABSENT,
    }.items():  # fmt: skip
        yield refuses(rule, f"episode-lengths-{label}", {**whole, "episode_lengths": lengths}, cls=HER)
    rule = Rule("18.2", "`pos` is below `max_episode_stored`, and `current_idx` is at most `max_episode_length`")
    last = {**whole, "pos": 2, "current_idx": 2, "episode_lengths": sample_array("i8", 2, 1, 0)}
    yield accepts(
        rule, "episode-last", last, [[0, 0, 2, TIMEOUT], [0, 2, 1, TIMEOUT], [0, 4, 2, UNFINISHED]], cls=HER, size=3
    )
    for label, changes in {
        "pos-at-the-end": {"pos": 3}, "pos-negative": {"pos": -1}, "current-above": {"current_idx": 3}, "current-negative": {"current_idx": -1},
        "current-absent": {"current_idx": ABSENT}, "stored-zero": {"max_episode_stored": 0}, "stored-absent": {"max_episode_stored": ABSENT},
        "length-zero": {"max_episode_length": 0}, "length-absent": {"max_episode_length": ABSENT}, "length-float": {"max_episode_length": 2.0},
    }.items():  # fmt: skip
        yield refuses(rule, f"episode-{label}", {**whole, **changes}, cls=HER)
    rule = Rule("18.2", "Its other arrays are inherited from the base class, have no meaning, and may be missing.")
    left = {**whole, "observations": sample_array("f4", 1), "rewards": sample_array("f4", 2, 3)}
    yield accepts(rule, "episodes-beside-others", left, found, cls=HER, size=2)


def other_forms() -> Iterator[Vector]:
    rule = Rule("18.2", "Every buffer whose `_buffer` or `buffer` is a dict has this form, whatever its class.")
    found = [[0, 0, 2, TIMEOUT], [0, 2, 1, UNFINISHED]]
    yield accepts(rule, "episodes-of-another-class", episodic(), found, cls=DICT_BUFFER, size=2)
    yield refuses(rule, "episodes-of-an-empty-dict", {**episodic(), "_buffer": {}}, cls=HER)
    yield refuses(rule, "episodes-twice", {**episodic(), "buffer": {}}, cls=HER)
    yield accepts(rule, "rows-beside-a-list", {**attributes(), "_buffer": []}, UNENDED)
    rule = Rule("18.2", "If its `online_sampling` is false, its `replay_buffer` is an object by this section too.")
    offline = {**episodic(), "online_sampling": False}
    inner = {name: tree(value) for name, value in attributes(1).items()}
    own = instance(OWN, inner)
    yield accepts(rule, "offline-of-ones-own", {**offline, "replay_buffer": own}, found, cls=HER, size=2)
    for label, value in {
        "absent": ABSENT, "none": None, "statistics": running_mean(0.5, 2.0),
        "own-without-pos": instance(OWN, {name: value for name, value in inner.items() if name != "pos"}),
    }.items():  # fmt: skip
        yield refuses(rule, f"offline-{label}", {**offline, "replay_buffer": value}, cls=HER)
    by_episode = {name: tree(value) for name, value in offline.items()}
    for label, innermost in {"whole": inner, "broken": {**inner, "pos": 4}, "absent": None}.items():
        filled = {} if innermost is None else {"replay_buffer": instance(OWN, innermost)}
        parts = {**offline, "replay_buffer": instance(HER, {**by_episode, **filled})}
        if label == "whole":
            yield accepts(rule, f"offline-twice-{label}", parts, found, cls=HER, size=2)
        else:
            yield refuses(rule, f"offline-twice-{label}", parts, cls=HER)
    levels = by_episode | {"online_sampling": True}
    for _ in range(8):
        levels = {**by_episode, "replay_buffer": instance(HER, levels)}
    yield accepts(
        rule, "offline-nine-times", {**offline, "replay_buffer": instance(HER, levels)}, found, cls=HER, size=2
    )
    yield accepts(
        rule, "online-none", {**episodic(), "online_sampling": True, "replay_buffer": None}, found, cls=HER, size=2
    )


def written_buffer(pos: int, *, full: bool, envs: int = ENVS, **changed: Any) -> dict[str, Any]:
    """A buffer with this ``pos`` and other changes."""
    return {**attributes(envs), "pos": pos, "full": full, **changed}


def orders() -> Iterator[Vector]:
    rule = Rule(
        "18.3", "Once `full` is true, the rows from `pos` on, wrapping around to `pos` - 1, are in the order of time."
    )
    yield accepts(
        rule, "full-from-the-first", written_buffer(0, full=True), [[0, 0, 4, UNFINISHED], [1, 0, 4, UNFINISHED]]
    )
    yield accepts(rule, "full-and-round", written_buffer(2, full=True), [[0, 2, 4, UNFINISHED], [1, 2, 4, UNFINISHED]])
    dones = steps(0, 0, 1, 0, 0, 1, 0, 0)
    found = [[0, 2, 4, TERMINATED], [1, 2, 1, TERMINATED], [1, 3, 3, UNFINISHED]]
    yield accepts(rule, "full-and-round-with-ends", written_buffer(2, full=True, dones=dones), found)
    yield accepts(
        rule, "not-full", written_buffer(2, full=False, dones=dones), [[0, 0, 2, TERMINATED], [1, 0, 2, UNFINISHED]]
    )
    yield accepts(rule, "empty", written_buffer(0, full=False, dones=steps(*[1] * 8)), [])


def ends() -> Iterator[Vector]:
    rule = Rule(
        "18.3",
        "An episode of an environment ends with a row in which `dones` is not 0: by a timeout if `timeouts` is not 0 there, otherwise it is terminated.",
    )
    dones = steps(1, 0, 0, 0, 1, 1, 1, 1)
    timeouts = steps(0, 1, 1, 0, 1, 0, 0, 1)
    told: dict[str, Any] = {"dones": dones, "timeouts": timeouts, "handle_timeout_termination": True}
    first = [[0, 0, 1, TERMINATED], [0, 1, 2, TIMEOUT]]
    second = [[1, 0, 3, TERMINATED]]
    yield accepts(rule, "ends", written_buffer(3, full=False, **told), [*first, *second])
    yield accepts(
        rule,
        "ends-of-a-full",
        written_buffer(0, full=True, **told),
        [*first, [0, 3, 1, TERMINATED], *second, [1, 3, 1, TIMEOUT]],
    )
    halves = {"dones": steps(0.5, 0, 0, 0, 0, -1, 0, 0), "timeouts": steps(0.25, 0, 0, 0, 0, 0, 0, 0)}
    odd = [[0, 0, 1, TIMEOUT], [0, 1, 2, UNFINISHED], [1, 0, 3, TERMINATED]]
    yield accepts(rule, "ends-that-are-not-one", written_buffer(3, full=False, **halves), odd)
    rule = Rule("18.3", "The last rows of each environment, if they do not end with such a row, are unfinished.")
    yield accepts(
        rule,
        "unfinished",
        written_buffer(2, full=False, **told),
        [[0, 0, 1, TERMINATED], [0, 1, 1, UNFINISHED], [1, 0, 2, UNFINISHED]],
    )
    rule = Rule(
        "18.3",
        "Without `timeouts`, timeouts count as terminated. They also do with `handle_timeout_termination` false",
    )
    untold = [[0, 0, 1, TERMINATED], [0, 1, 2, TERMINATED], *second]
    yield accepts(rule, "timeouts-absent", written_buffer(3, full=False, dones=dones), untold)
    unhandled = {"dones": dones, "timeouts": steps(), "handle_timeout_termination": False}
    yield accepts(rule, "timeouts-not-handled", written_buffer(3, full=False, **unhandled), untold)
    rule = Rule("18.3", "(values that are set are used anyway, as SB3 does when it samples)")
    yield accepts(
        rule,
        "timeouts-set-but-not-handled",
        written_buffer(3, full=False, **{**unhandled, "timeouts": timeouts}),
        [*first, *second],
    )


def given() -> Iterator[Vector]:
    """What calls are given, with shared parts each time that they occur."""
    rule = Rule("13.1", "This number minus the bytes of the pickle is at most `pickle_nodes`")
    for name, levels in {"few": 10, "many": 30}.items():
        parts = {**attributes(), "observation_space": given_pairs(levels)}
        if name == "few":
            yield accepts(rule, f"given-{name}", parts, UNENDED)
        else:
            yield refuses(rule, f"given-{name}", parts, PASSED)
    rule = Rule("8.1", "pickle_nodes: the larger of 5 x calls and items - bytes of the pickle")
    parts = {**attributes(), "observation_space": [Apply(Name("collections", "OrderedDict"), ()) for _ in range(89)]}
    limit = 5 * (89 + 1 + 4 * 5)  # those, the buffer, and of five arrays the array, its dtype, and bytes as text twice
    yield accepts(rule, "calls-at", parts, UNENDED, "--limit", f"pickle_nodes={limit}")
    data = pickled(BUFFER, parts)
    yield rule.refuses("buffer-calls-above", data, PASSED, ASKED, "--limit", f"pickle_nodes={limit - 1}")
    rule = Rule("8.1", "blob_bytes: bytes of texts, bytes objects and integers - bytes of the pickle")
    texts: object = "x" * 1000  # eight times in the arguments, and twice in the pickle, which has 3,856 bytes
    for _ in range(3):
        texts = (texts, texts)
    parts = {**attributes(), "observation_space": Apply(Name("numpy", "dtype"), ("f8", texts))}
    yield accepts(rule, "given-bytes-within", parts, UNENDED, "--limit", "blob_bytes=7000")
    data = pickled(BUFFER, parts)
    yield rule.refuses("buffer-given-bytes-above", data, PASSED, ASKED, "--limit", "blob_bytes=4000")


def shared_observations() -> Iterator[Vector]:
    rule = Rule("18.3", "In a full buffer, the row `pos` contains the newest next observation and is no longer a step.")
    told = {"optimize_memory_usage": True, "next_observations": ABSENT}
    yield accepts(
        rule, "shared-full", written_buffer(1, full=True, **told), [[0, 2, 3, UNFINISHED], [1, 2, 3, UNFINISHED]]
    )
    yield accepts(
        rule, "shared-full-at-the-last", written_buffer(3, full=True, envs=1, **told), [[0, 0, 3, UNFINISHED]]
    )
    dones = steps(0, 0, 1, 0, 0, 0, 0, 0)
    yield accepts(
        rule,
        "shared-full-with-an-end-there",
        written_buffer(1, full=True, dones=dones, **told),
        [[0, 2, 3, UNFINISHED], [1, 2, 3, UNFINISHED]],
    )
    yield accepts(
        rule, "shared-not-full", written_buffer(2, full=False, **told), [[0, 0, 2, UNFINISHED], [1, 0, 2, UNFINISHED]]
    )
    rule = Rule("18.3", "`size` is SB3's: `buffer_size` or `pos` rows")
    yield accepts(
        rule, "size-of-a-shared-full", written_buffer(0, full=True, envs=1, **told), [[0, 1, 3, UNFINISHED]], size=4
    )


def hindsight_episodes() -> Iterator[Vector]:
    rule = Rule("18.3", "rows below `pos`, or all rows from `pos` on, wrapping around, if `full`.")
    three = sample_array("i8", 2, 1, 2)
    below = episodic(pos=2, current_idx=0, episode_lengths=sample_array("i8", 2, 1, 0))
    yield accepts(rule, "hindsight-below-pos", below, [[0, 0, 2, TIMEOUT], [0, 2, 1, TIMEOUT]], cls=HER, size=3)
    around = episodic(pos=1, full=True, current_idx=0, episode_lengths=three)
    yield accepts(
        rule, "hindsight-full", around, [[0, 2, 1, TIMEOUT], [0, 4, 2, TIMEOUT], [0, 0, 2, TIMEOUT]], cls=HER, size=5
    )
    none = episodic(pos=2, current_idx=0, episode_lengths=sample_array("i8", 0, 1, 0))
    yield accepts(rule, "hindsight-of-no-steps", none, [[0, 2, 1, TIMEOUT]], cls=HER, size=1)
    rule = Rule(
        "18.3",
        "If `current_idx` is not 0, the first `current_idx` steps of row `pos` are an episode in progress, and the earlier content of that row is incomplete.",
    )
    under_way = episodic(pos=1, full=True, current_idx=1, episode_lengths=sample_array("i8", 2, 2, 2))
    yield accepts(
        rule,
        "hindsight-under-way",
        under_way,
        [[0, 4, 2, TIMEOUT], [0, 0, 2, TIMEOUT], [0, 2, 1, UNFINISHED]],
        cls=HER,
        size=6,
    )
    rule = Rule(
        "18.3", "An episode is terminated if `done` of its last step is not 0, otherwise it ended by a timeout."
    )
    done = episodic("_buffer", 0, 1, 0, 1, 1, 0, pos=2, current_idx=0, episode_lengths=sample_array("i8", 2, 1, 0))
    yield accepts(rule, "hindsight-ends", done, [[0, 0, 2, TERMINATED], [0, 2, 1, TIMEOUT]], cls=HER, size=3)
    rule = Rule(
        "18.3",
        "If the buffer sampled offline (`online_sampling` false), `replay_buffer` is the buffer that it filled, with its own goals among the episodes.",
    )
    inner = attributes(1)
    offline = {**episodic(), "online_sampling": False}
    found = [[0, 0, 2, TIMEOUT], [0, 2, 1, UNFINISHED]]
    whole = instance(DICT_BUFFER, tree(inner))
    yield accepts(rule, "hindsight-offline", {**offline, "replay_buffer": whole}, found, cls=HER, size=2)
    broken = instance(DICT_BUFFER, tree({**inner, "pos": 4}))
    yield refuses(rule, "hindsight-offline-broken", {**offline, "replay_buffer": broken}, cls=HER)
    rule = Rule("18.3", "before 1.8, of a hindsight buffer, the sum of `episode_lengths`.")
    sums = episodic(pos=0, current_idx=0, episode_lengths=three)
    yield accepts(rule, "hindsight-size", sums, [], cls=HER, size=5)


def limits() -> Iterator[Vector]:
    rule = Rule(
        "18.3",
        "is at most `expanded_items`, and of those that a reader lists one by one at most `reported_values`.",
    )
    many = written_buffer(0, full=True, envs=1, dones=steps(1, 1, 1, 1, envs=1))
    found = [[0, row, 1, TERMINATED] for row in range(4)]
    for limit in ("expanded_items", "reported_values"):
        label = f"episodes-{limit.replace('_', '-')}"
        yield accepts(rule, f"{label}-at", many, found, "--limit", f"{limit}=4")
        yield rule.refuses(f"buffer-{label}-above", pickled(BUFFER, many), PASSED, ASKED, "--limit", f"{limit}=3")
    rule = Rule(
        "18.3",
        "The number of episodes (before 1.8, of a hindsight buffer, of the rows of `_buffer`) is at most `expanded_items`",
    )
    whole = episodic()
    found = [[0, 0, 2, TIMEOUT], [0, 2, 1, UNFINISHED]]
    yield accepts(rule, "hindsight-rows-at", whole, found, "--limit", "expanded_items=3", cls=HER, size=2)
    yield rule.refuses("buffer-hindsight-rows-above", pickled(HER, whole), PASSED, ASKED, "--limit", "expanded_items=2")
