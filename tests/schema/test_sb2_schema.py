"""The schema of SB2's ``data`` and that of objects that are a file of their own; what ``validate`` finds in them."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import sbformat
from sbformat import pkl
from sbformat.data import Serialized
from sbformat.known.table import TABLE, find
from sbformat.schema import iter_problems, load_schema
from tests.helpers.build_blobs import array, discrete, new, tree
from tests.helpers.bundled import zipped
from tests.helpers.many_cases import check_each
from tests.helpers.sb2_keys import (
    ALGORITHMS,
    COMMON,
    HER_KEYS,
    as_json,
    data_of,
    every_data,
    last_data,
    releases,
    written,
)
from tests.helpers.shared_files import CORPUS, SHARED, generated_files, summarize_counts

COUNTED: Final[Counter[str]] = Counter()
_summary = summarize_counts(COUNTED, "test_sb2_schema.py validated")

SB2: Final = load_schema("sb2-data")["$defs"]
PICKLED: Final = load_schema("pickled")["$defs"]
DEFINITIONS: Final = {"sb2-data": SB2, "pickled": PICKLED}
OBJECTS: Final = ("RunningMeanStd", "VecNormalize", "ReplayBuffer")
NAMED: Final = [("sb2-data", name) for name in ALGORITHMS] + [("pickled", name) for name in OBJECTS]
WRONG: Final[tuple[Any, ...]] = (12345.5, "wrong", [], [[{"a": 1}]], {"wrong": 1}, None, True)
WRONG_FOR_ALL: Final = [[{"a": 1}]]
DEVELOPMENT: Final = {"ACKTR": {"lam"}}
"""Keys that no release writes, but real files have."""


def keys_of(definitions: dict[str, Any], name: str) -> set[str]:
    """The keys that a definition and those it builds on describe."""
    found = set(definitions[name].get("properties", ()))
    for parent in definitions[name].get("allOf", ()):
        found |= keys_of(definitions, parent["$ref"].rpartition("/")[2])
    return found


def is_valid(schema: str, name: str, value: Any) -> bool:
    definitions = DEFINITIONS[schema]
    return bool(Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions}).is_valid(value))


def errors(source: Any) -> list[sbformat.schema.Problem]:
    return [problem for problem in iter_problems(source) if problem.level == "error"]


# -- the schemas --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sb2-data", "pickled"])
def test_the_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(load_schema(name))


@check_each("algorithm", ALGORITHMS)
def test_the_keys_are_those_that_the_releases_write(algorithm: str) -> None:
    assert keys_of(SB2, algorithm) == written(algorithm) | DEVELOPMENT.get(algorithm, set())


def test_the_keys_of_all_are_those_of_the_base() -> None:
    shared = set.intersection(*(set(list(releases(name))[-1][1]) for name in ALGORITHMS if name != "HER"))
    assert keys_of(SB2, "BaseRLModel") == shared
    assert shared > set(COMMON.split())


@check_each(("schema", "name"), NAMED)
def test_every_key_refuses_wrong_types(schema: str, name: str) -> None:
    validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFINITIONS[schema]})
    keys = keys_of(DEFINITIONS[schema], name)
    refused = Counter(
        key
        for value in WRONG
        for key in {error.path[0] for error in validator.iter_errors(dict.fromkeys(keys, value)) if error.path}
    )
    assert [key for key in keys if refused[key] < 2] == []


@check_each(("schema", "name"), NAMED)
def test_every_key_is_described(schema: str, name: str) -> None:
    definition = DEFINITIONS[schema][name]
    assert definition["title"] == name
    assert len(definition["description"]) > 10
    assert all(len(row["description"]) > 10 for row in definition["properties"].values())


@pytest.mark.parametrize("schema", ["sb2-data", "pickled"])
def test_every_definition_is_used_and_there(schema: str) -> None:
    definitions = DEFINITIONS[schema]
    text = json.dumps(load_schema(schema))
    named = {part.partition('"')[0] for part in text.split("#/$defs/")[1:]}
    assert named <= set(definitions)
    assert set(definitions) - named <= {name for _, name in NAMED} | {"PolicyFile", "Usual"}


def test_shapes_that_the_schemas_share_are_the_same_but_for_their_words() -> None:
    sb3 = load_schema("data")["$defs"]
    for definitions in (SB2, PICKLED):
        own = {*ALGORITHMS, "Usual", "ScheduleOrNumber", "NonNegativeInteger", "PositiveInteger"}  # SB2 checks less
        for name in set(definitions) & set(sb3) - own:
            assert without_words(definitions[name]) == without_words(sb3[name]), name


def without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_words(part) for key, part in value.items() if key not in ("description", "title")}
    return [without_words(part) for part in value] if isinstance(value, list) else value


@check_each(("module", "name"), sorted(pair for pair, row in TABLE.items() if row.is_plain))
def test_every_attribute_that_is_known_is_described(module: str, name: str) -> None:
    definition = "ReplayBuffer" if name.endswith("ReplayBuffer") else name
    if definition in OBJECTS:
        assert set(find((module, name)).attributes or ()) <= keys_of(PICKLED, definition)


# -- data ---------------------------------------------------------------------------------------------


@check_each("data", [data for _, _, data in every_data()])
def test_what_a_release_writes_has_no_problems(data: dict[str, Any]) -> None:
    assert list(iter_problems(data)) == []
    assert list(iter_problems(as_json(data))) == []


@check_each("algorithm", ALGORITHMS)
def test_a_wrong_type_is_found_at_its_key(algorithm: str) -> None:
    data = last_data(algorithm)
    kept = {"model_class"} if algorithm == "HER" else {"using_gail"}  # they tell the algorithm
    for key in data.keys() - kept:
        found = errors({**data, key: WRONG_FOR_ALL})
        assert {row.loc.split("/")[1] for row in found} == {key}
        assert len(found) == len(set(found))
        assert all(
            row.message.startswith("expected ") and ", got " in row.message and row.kind in ("type", "value")
            for row in found
        )


@check_each(
    ("algorithm", "key", "value", "message"),
    [
        ("A2C", "n_steps", 0, "or a serialized value, got 0"),
        ("A2C", "lr_schedule", "quadratic", 'expected "linear", "constant", "double_linear_con"'),
        ("DDPG", "observation_range", [1.0], "an array of 1 items"),
        ("DDPG", "param_noise", 0.2, "got 0.2"),
        ("PPO1", "schedule", "middle_drop", 'expected "linear" or "constant", got \'middle_drop\''),
        ("SAC", "ent_coef", "auto_0.1", "expected a number, \"auto\" or a serialized value, got 'auto_0.1'"),
        ("TRPO", "using_gail", 0, "got 0"),
        ("HER", "policy_delay", "2", "got '2'"),
        ("HER", "goal_selection_strategy", "past", "got 'past'"),
    ],
)
def test_ranges_are_checked(algorithm: str, key: str, value: Any, message: str) -> None:
    (problem,) = errors({**last_data(algorithm), key: value})
    assert problem.loc.startswith(f"/{key}")
    assert message in problem.message


@check_each(
    ("algorithm", "key", "value", "message"),
    [
        ("A2C", "gamma", 1.5, "expected a number in [0, 1] or a serialized value, got 1.5"),
        ("ACKTR", "lam", -2, "expected null, a number in [-1, 1] or a serialized value, got -2"),
        ("DQN", "exploration_final_eps", 2, "got 2"),
        ("PPO2", "cliprange", -0.2, "got -0.2"),
    ],
)
def test_values_that_sb2_does_not_check_are_warnings(algorithm: str, key: str, value: Any, message: str) -> None:
    (problem,) = (row for row in iter_problems({**last_data(algorithm), key: value}) if row.level == "warning")
    assert problem.loc == f"/{key}"
    assert message in problem.message


@check_each(
    ("algorithm", "key", "value"),
    [
        ("ACKTR", "lam", -1),
        ("DDPG", "observation_range", (-5.0, 5.0)),
        ("DQN", "buffer_size", 1e6),
        ("PPO2", "cliprange_vf", None),
        ("PPO2", "learning_rate", Serialized("<class 'function'>", pkl.dumps(0))),
        ("SAC", "ent_coef", "auto"),
        ("SAC", "policy_kwargs", {"layers": (64, 64)}),
        ("SAC", "verbose", True),
        ("HER", "goal_selection_strategy", "future"),
    ],
)
def test_what_sb2_takes_is_allowed(algorithm: str, key: str, value: Any) -> None:
    assert errors({**last_data(algorithm), key: value}) == []


def test_unknown_keys_are_information() -> None:
    (problem,) = sbformat.validate({**last_data("TD3"), "mine": 1})
    assert (problem.kind, problem.level, problem.loc) == ("unknown-key", "info", "/mine")
    assert problem.message == "TD3 of Stable Baselines 2 writes no key 'mine'"


@check_each("key", ["observation_space", "action_space"])
@check_each("algorithm", ALGORITHMS)
def test_keys_that_load_needs(algorithm: str, key: str) -> None:
    data = last_data(algorithm)
    del data[key]
    (problem,) = errors(data)
    assert (problem.kind, problem.message) == (
        "missing-key",
        f"the key {key} is missing; the load of Stable Baselines 2 needs it",
    )


@pytest.mark.parametrize("key", sorted(set(HER_KEYS) - {"model_class", "n_sampled_goal"}))
def test_keys_that_the_load_of_her_needs(key: str) -> None:
    data = data_of("HER", (*next(iter(releases("SAC")))[1], *HER_KEYS))
    del data[key]
    assert [row.kind for row in errors(data)] == ["missing-key"]


def test_data_alone_is_told_from_that_of_sb3_by_its_policy() -> None:
    data = last_data("PPO2")
    assert {row.kind for row in iter_problems({**data, "policy_class": data["policy"]})} == {"unknown-key"}
    del data["observation_space"]
    (problem,) = iter_problems(as_json(data))
    assert "Stable Baselines 2" in problem.message


# -- zips and pickles ---------------------------------------------------------------------------------


def zipped_sb2(data: dict[str, Any] | None = None, /, *, without: tuple[str, ...] = (), **entries: bytes) -> bytes:
    """A zip of SB2: with ``data`` of PPO2, but for some keys, and two parameters."""
    held = {key: value for key, value in (data or last_data("PPO2")).items() if key not in without}
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {"model/w:0": np.ones((2, 3), "f4"), "model/b:0": np.zeros(3, "f4")}
    np.savez(buffer, **arrays)
    contents = {
        "data": as_json(held),
        "parameters": buffer.getvalue(),
        "parameter_list": json.dumps(list(arrays)).encode(),
        **entries,
    }
    return zipped({name: content for name, content in contents.items() if name not in without})


def test_a_zip_has_no_problems() -> None:
    assert sbformat.read(zipped_sb2()).format == "sb2-zip"
    assert list(iter_problems(zipped_sb2())) == []
    assert sbformat.validate(zipped_sb2(notes=b"mine")) == ()


@check_each(
    ("source", "kind", "entry"),
    [
        (zipped_sb2(without=("data",)), "missing-entry", "data"),
        (zipped_sb2(without=("policy",)), "missing-key", "data"),
        (zipped_sb2({**last_data("A2C"), "alpha": "x"}), "type", "data"),
        (zipped_sb2(data=b"{"), "unreadable", "data"),
        (zipped_sb2(parameters=b"broken"), "unreadable", "parameters"),
        (zipped_sb2(parameter_list=b'["model/w:0"]'), "unreadable", "parameters"),
        (zipped_sb2(parameter_list=b'["model/w:0", "model/b:0", "more"]'), "unreadable", "parameters"),
        (zipped_sb2(parameter_list=b"{}"), "unreadable", "parameter_list"),
    ],
)
def test_entries_of_a_zip_are_checked(source: bytes, kind: str, entry: str) -> None:
    assert (kind, entry) in {(problem.kind, problem.entry) for problem in errors(source)}
    with pytest.raises(sbformat.ValidationError):
        sbformat.validate(source)


def test_every_byte_of_every_parameter_is_checked() -> None:
    source = bytearray(zipped_sb2())
    source[source.index(np.ones(6, "f4").tobytes())] ^= 1
    assert {row.kind for row in errors(bytes(source))} == {"unreadable"}


def pickled_sb2(**changes: Any) -> bytes:
    """A pickle of SB2: DQN, with two parameters."""
    policy = pkl.Global("stable_baselines.deepq.policies", "MlpPolicy")
    keys = next(iter(releases("DQN")))[1]
    plain = {key: value for key, value in data_of("DQN", keys).items() if not isinstance(value, Serialized)}
    space = discrete(2, "gym")
    data = {**plain, "policy": policy, "observation_space": space, "action_space": space, **changes}
    return pkl.dumps(tree((data, [array((1,), b"\0\0\0\0")])))


def test_a_pickle_is_checked_by_the_same_schema() -> None:
    assert sbformat.read(pickled_sb2()).format == "sb2-pickle"
    assert list(iter_problems(pickled_sb2())) == []
    assert [(row.entry, row.loc) for row in errors(pickled_sb2(train_freq="x"))] == [("data", "/train_freq")]
    assert [row.loc for row in iter_problems(pickled_sb2(mine=(1, 2)))] == ["/mine"]


# -- objects that are a file of their own -------------------------------------------------------------

_SB3: Final = "stable_baselines3.common"


def statistics(shape: tuple[int, ...] = (2,), *, without: tuple[str, ...] = (), **more: Any) -> Any:
    """A ``RunningMeanStd``."""
    size = 8 * int(np.prod(shape))
    state = {"mean": array(shape, bytes(size), "f8"), "var": array(shape, bytes(size), "f8"), "count": 1e-4, **more}
    kept = {key: value for key, value in state.items() if key not in without}
    return new(f"{_SB3}.running_mean_std", "RunningMeanStd", kept)


def normalize(without: str | None = None, **more: Any) -> bytes:
    """A ``VecNormalize``."""
    state = {
        **dict.fromkeys(("training", "norm_obs", "norm_reward"), True),
        **dict.fromkeys(("clip_obs", "clip_reward"), 10.0),
        "num_envs": 1,
        "gamma": 0.99,
        "epsilon": 1e-8,
        "observation_space": discrete(),
        "action_space": discrete(),
        "obs_rms": statistics(),
        "ret_rms": statistics(()),
        "old_obs": array((1, 2), bytes(8)),
        "obs_keys": {"a", "b"},
        **more,
    }
    kept = {key: value for key, value in state.items() if key != without}
    return pkl.dumps(tree(new(f"{_SB3}.vec_env.vec_normalize", "VecNormalize", kept)))


def buffer(without: str | None = None, **more: Any) -> bytes:
    """A ``ReplayBuffer``."""
    state = {
        **dict.fromkeys(("buffer_size", "n_envs", "action_dim"), 1),
        **dict.fromkeys(("observation_space", "action_space"), discrete()),
        **dict.fromkeys(("observations", "actions", "rewards", "dones", "next_observations"), array((1, 1), bytes(4))),
        **dict.fromkeys(("full", "optimize_memory_usage"), False),
        "pos": 0,
        "obs_shape": (1,),
        **more,
    }
    kept = {key: value for key, value in state.items() if key != without}
    return pkl.dumps(tree(new(f"{_SB3}.buffers", "ReplayBuffer", kept)))


@check_each(
    ("source", "kind"),
    [
        (pkl.dumps(tree(statistics())), "running-mean-std"),
        (normalize(), "vecnormalize"),
        (normalize(obs_rms={"a/b": statistics(), "mean": statistics(())}), "vecnormalize"),
        (normalize(obs_rms=None), "vecnormalize"),
        (buffer(), "replay-buffer"),
        (buffer(next_observations=None, optimize_memory_usage=True), "replay-buffer"),
    ],
)
def test_objects_have_no_problems(source: bytes, kind: str) -> None:
    assert sbformat.read(source).format == kind
    assert list(iter_problems(source)) == []


@check_each(
    ("source", "kind", "place", "message"),
    [
        (normalize(gamma="2"), "type", ("data", "/gamma"), "expected a number or a serialized value, got '2'"),
        (
            normalize(training="yes"),
            "type",
            ("data", "/training"),
            "expected true, false or a serialized value, got 'yes'",
        ),
        (
            normalize(without="epsilon"),
            "missing-key",
            ("data", ""),
            "the key epsilon is missing; every release writes it",
        ),
        (buffer(pos=-1), "type", ("data", "/pos"), "expected an integer >= 0 or a serialized value, got -1"),
        (buffer(without="full"), "missing-key", ("data", ""), "the key full is missing; every release writes it"),
        (
            pkl.dumps(tree(statistics(without=("var",)))),
            "missing-key",
            ("statistics", ""),
            "the var of a running mean is missing",
        ),
        (
            normalize(ret_rms=statistics((), without=("count",))),
            "missing-key",
            ("statistics", ""),
            "the count of 'ret_rms' is missing",
        ),
        (
            normalize(obs_rms={"a": statistics(var=array((3,), bytes(24), "f8"))}),
            "value",
            ("statistics", ""),
            "expected a variance of the same shape as the mean of 'obs_rms/a', (2,), got (3,)",
        ),
        (normalize(obs_rms=statistics(mean="x")), "unreadable", ("statistics", ""), "tensor failure"),
    ],
)
def test_what_is_wrong_with_an_object_is_found(source: bytes, kind: str, place: tuple[str, str], message: str) -> None:
    (problem,) = errors(source)
    assert (problem.kind, problem.entry, problem.loc) == (kind, *place)
    assert problem.message.startswith(message)


def test_unknown_attributes_are_information() -> None:
    (problem,) = sbformat.validate(normalize(mine=1))
    assert (problem.kind, problem.level, problem.loc) == ("unknown-key", "info", "/mine")


# -- real files, when they lie beside the project -----------------------------------------------------


def files() -> list[Path]:
    """SB2's files, statistics and replay buffers: of the corpus, and generated ones."""
    path = CORPUS / "manifest.json"
    rows = json.loads(path.read_text("utf-8")) if path.exists() else []
    kinds = ("sb2zip", "sb2pkl", "sb2rms", "vecnormalize")
    generated = [*generated_files("*.pkl", "[0-9]*", "sb2"), *generated_files("*.zip", "sb2")]
    return [CORPUS / row["file"] for row in rows if row["kind"] in kinds] + sorted(generated)


@pytest.mark.skipif(not SHARED.is_dir(), reason="there is no ../shared beside the project")
def test_real_files_have_no_problems() -> None:
    for path in files():
        archive = sbformat.read(path)
        assert list(iter_problems(archive)) == [], path.name
        COUNTED[f"{archive.format} files"] += 1


@pytest.mark.skipif(not SHARED.is_dir(), reason="there is no ../shared beside the project")
def test_a_wrong_type_is_found_at_every_key_of_real_files() -> None:
    seen: set[tuple[str, str]] = set()
    for path in files():
        archive = sbformat.read(path)
        if archive.format not in ("sb2-zip", "sb2-pickle"):
            continue
        for key in archive.data.keys() - {"policy", "model_class", "using_gail"}:
            if (str(archive.algorithm.name), key) not in seen:
                seen.add((str(archive.algorithm.name), key))
                found = errors({**archive.data, key: WRONG_FOR_ALL})
                assert {row.loc.split("/")[1] for row in found} == {key}
    COUNTED["keys with a wrong type"] += len(seen)
