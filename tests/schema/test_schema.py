"""validate and iter_problems: the schema of data, and the rules between entries."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import sbformat
from sbformat.data import Serialized
from sbformat.schema import load_schema
from sbformat.schema.schemas import _validator_class, make_rules
from tests.helpers.bundled import PPO, SAC, changed, entries, with_data, zipped
from tests.helpers.many_cases import check_each

DEFINITIONS = load_schema("data")["$defs"]
ALGORITHMS = (
    "PPO", "A2C", "DQN", "SAC", "TD3", "DDPG", "HER", "TQC", "QRDQN", "TRPO", "MaskablePPO", "RecurrentPPO", "ARS",
    "CrossQ",
)  # fmt: skip
WRONG: tuple[Any, ...] = (12345.5, "wrong", [], [[{"a": 1}]], {"wrong": 1}, None, True)


def keys_of(name: str) -> set[str]:
    """The keys that a definition and those it builds on describe."""
    found = set(DEFINITIONS[name].get("properties", ()))
    for parent in DEFINITIONS[name].get("allOf", ()):
        found |= keys_of(parent["$ref"].rpartition("/")[2])
    return found


@pytest.mark.parametrize("name", ["data", "report", "baseline"])
def test_the_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(load_schema(name))


@pytest.mark.parametrize("path", [PPO, SAC])
def test_real_archives_have_no_problems(path: Any) -> None:
    assert list(sbformat.iter_problems(path)) == []
    assert sbformat.validate(path) == ()
    assert sbformat.validate(sbformat.read(path)) == ()
    assert sbformat.validate(sbformat.read(path).data) == ()


@check_each("algorithm", ALGORITHMS)
def test_every_documented_key_refuses_wrong_types(algorithm: str) -> None:
    schema = {"$ref": f"#/$defs/{algorithm}", "$defs": DEFINITIONS}
    validator = Draft202012Validator(schema)
    keys = keys_of(algorithm)
    assert len(keys) > 20
    refused = Counter(
        key
        for value in WRONG
        for key in {error.path[0] for error in validator.iter_errors(dict.fromkeys(keys, value)) if error.path}
    )
    assert [key for key in keys if refused[key] < 2] == []


@check_each("key", sorted(keys_of("PPO") & set(json.loads(entries()["data"]))))
def test_a_wrong_type_in_an_archive_is_found_at_its_key(key: str) -> None:
    source = with_data(lambda data: data.update({key: [[{"a": 1}]]}))
    problems = [problem for problem in sbformat.iter_problems(source) if problem.level == "error"]
    assert [(problem.entry, problem.loc.split("/")[1]) for problem in problems] == [("data", key)] * len(problems)
    assert problems
    with pytest.raises(sbformat.ValidationError) as caught:
        sbformat.validate(source)
    assert [problem for problem in caught.value.problems if problem.level == "error"] == problems
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("name", ["data", "sb2-data", "pickled"])
def test_the_faster_schema_of_a_key_is_equivalent(name: str) -> None:
    """Alternatives for different types are merged; a serialized value is looked up."""
    numbers = (-1, 0, 1, 2, 2**70, -0.5, 0.0, 1.0, 1.5, float("nan"), float("inf"))
    others = ("auto", "auto_0.1", "x", [1, "step"], (1, "step"), [1.0, "step"], [0, "x"], {":serialized:": 1})
    pair = Serialized("<class 'dict'>", b"N.", {"hint": 1})
    values: tuple[Any, ...] = (*numbers, *others, *WRONG, pair.to_json(), {":type:": 1, ":serialized:": ""})
    for definition in load_schema(name)["$defs"]:
        for rule in make_rules(name, definition)[0]:
            full = _validator_class()(rule.schema)
            assert [rule.validator.is_valid(value) for value in values] == [full.is_valid(value) for value in values]
            assert (not list(rule.iter_errors(pair))) == full.is_valid(pair.to_json()), rule.key


@pytest.mark.parametrize("name", ["data", "sb2-data", "pickled"])
def test_definitions_of_keys_restrict_nothing_else(name: str) -> None:
    """So that each key can have a validator of its own."""
    definitions = load_schema(name)["$defs"]
    for definition in set(definitions) - {"Serialized"}:
        schema = definitions[definition]
        if "properties" in schema:
            assert schema["type"] == "object"
            assert schema.keys() <= {"title", "description", "type", "allOf", "properties"}


@check_each("key", sorted(keys_of("BaseAlgorithm")))
def test_every_key_is_described(key: str) -> None:
    described = [
        definition["properties"][key]
        for name, definition in DEFINITIONS.items()
        if name != "Usual" and key in definition.get("properties", ())
    ]
    described = [item for item in described if item.keys() != {"default"}]  # of one algorithm
    assert all(len(item["description"]) > 10 for item in described)


def test_ranges_are_checked() -> None:
    (problem,) = sbformat.iter_problems(with_data(lambda data: data.update(seed=-1)))
    assert (problem.loc, problem.level) == ("/seed", "error")
    assert "-1" in problem.message


def test_values_that_sb3_does_not_check_are_warnings() -> None:
    """Each was loaded and trained with by SB3 2.9."""
    unusual: dict[str, Any] = {
        "gamma": 9.995, "gae_lambda": -5, "vf_coef": -0.5, "max_grad_norm": -5, "clip_range": -0.5, "target_kl": -1,
        "sde_sample_freq": 2.5, "num_timesteps": -0.5, "_n_updates": 0.5,
    }  # fmt: skip
    for key, value in unusual.items():
        (problem,) = sbformat.validate(with_data(lambda data, pair={key: value}: data.update(pair)))
        assert (problem.loc, problem.level, problem.kind) == (f"/{key}", "warning", "value"), key
        assert problem.message.endswith("; it is unusual, but accepted"), key


def test_values_that_sb3_refuses_are_errors() -> None:
    refused = {
        "learning_rate": -1e-3, "clip_range_vf": 0, "n_steps": 0, "n_epochs": 0, "batch_size": -1, "n_envs": 0,
        "_stats_window_size": -1,
    }  # fmt: skip
    for key, value in refused.items():
        (problem,) = sbformat.iter_problems(with_data(lambda data, pair={key: value}: data.update(pair)))
        assert (problem.loc, problem.level) == (f"/{key}", "error"), key


def test_unknown_keys_are_information() -> None:
    source = with_data(lambda data: data.update(my_own=1))
    (problem,) = sbformat.validate(source)
    assert (problem.kind, problem.level, problem.loc) == ("unknown-key", "info", "/my_own")


def test_pointers_escape() -> None:
    (problem,) = sbformat.validate(with_data(lambda data: data.update({"a/b~c\x1b": 1})))
    assert problem.loc == "/a~1b~0c\\x1b"


@pytest.mark.parametrize("key", ["policy_class", "observation_space", "action_space"])
def test_keys_that_load_needs(key: str) -> None:
    source = with_data(lambda data: data.pop(key))
    assert ("missing-key", "error") in {(row.kind, row.level) for row in sbformat.iter_problems(source)}


def test_base64_that_no_encoder_writes_is_flagged() -> None:
    def change(data: dict[str, Any]) -> None:
        text = data["policy_class"][":serialized:"]
        data["policy_class"][":serialized:"] = text[:8] + "\n*" + text[8:]

    source = with_data(change)
    assert sbformat.reads(source).data["policy_class"].pickle == sbformat.read(PPO).data["policy_class"].pickle
    (problem,) = sbformat.iter_problems(source)
    assert (problem.kind, problem.level, problem.loc) == ("base64", "error", "/policy_class")


@check_each(
    ("source", "kind", "entry"),
    [
        (changed(without=("policy.pth",)), "missing-entry", "policy.pth"),
        (changed(without=("policy.optimizer.pth",)), "missing-entry", "policy.optimizer.pth"),
        (changed(SAC, without=("ent_coef_optimizer.pth",)), "missing-entry", "ent_coef_optimizer.pth"),
        (changed(without=("data",)), "missing-entry", "data"),
        (changed(**{"__MACOSX/._policy.pth": b"\x00"}), "unexpected-entry", "__MACOSX/._policy.pth"),
        (changed(policy_pth=b"broken"), "unreadable", "policy.pth"),
        (changed(data=b"{"), "unreadable", "data"),
        (changed(_stable_baselines3_version=b"\xff"), "unreadable", "_stable_baselines3_version"),
    ],
)
def test_entries_are_checked_against_each_other(source: bytes, kind: str, entry: str) -> None:
    found = {(problem.kind, problem.entry) for problem in sbformat.iter_problems(source) if problem.level == "error"}
    assert (kind, entry) in found


def test_an_optimizer_of_another_algorithm_is_information() -> None:
    source = changed(**{"actor.optimizer.pth": entries()["policy.optimizer.pth"]})
    (problem,) = sbformat.validate(source)
    assert (problem.kind, problem.entry) == ("unexpected-entry", "actor.optimizer.pth")


def test_every_byte_of_every_tensor_is_checked() -> None:
    policy = bytearray(entries()["policy.pth"])
    policy[len(policy) // 2] ^= 1
    assert [row.kind for row in sbformat.iter_problems(changed(policy_pth=bytes(policy)))] == ["unreadable"]


def test_no_message_prints_a_blob_or_a_control_character() -> None:
    def change(data: dict[str, Any]) -> None:
        blob = data["observation_space"]
        data.update(use_sde=blob, gamma="\x1b[31m" + "x" * 5000, verbose=blob[":serialized:"], seed="\x1b[31m")

    problems = list(sbformat.iter_problems(with_data(change)))
    assert len([problem for problem in problems if problem.level == "error"]) == 3
    for problem in problems:
        assert problem.message.isprintable()
        assert len(problem.message) < 400
        assert "gAWV" not in problem.message


def test_what_is_no_archive_raises_its_own_error() -> None:
    with pytest.raises(sbformat.ContainerError):
        list(sbformat.iter_problems(b"text"))


def test_a_lone_pth_and_a_bare_data_are_checked_for_what_they_are() -> None:
    assert list(sbformat.iter_problems(entries()["policy.pth"])) == []
    assert list(sbformat.iter_problems(entries()["data"])) == []
    bare = b'{"verbose": "x", "observation_space": {":serialized:": "gAROLg=="}}'
    assert [row.kind for row in sbformat.iter_problems(bare) if row.kind != "missing-key"] == ["type"]


def test_an_archive_of_no_known_algorithm_is_checked_by_the_common_keys() -> None:
    data = {key: value for key, value in json.loads(entries()["data"]).items() if key in keys_of("BaseAlgorithm")}
    del data["policy_class"]
    archive = zipped({**entries(), "data": json.dumps({**data, "verbose": "x"}).encode()})
    assert sbformat.reads(archive).algorithm.name is None
    assert ("type", "/verbose") in {(row.kind, row.loc) for row in sbformat.iter_problems(archive)}


def test_what_has_to_be_serialized_is_called_so() -> None:
    with pytest.raises(sbformat.ValidationError, match="lr_schedule: expected a serialized value, got 5"):
        sbformat.validate(with_data(lambda data: data.update(lr_schedule=5)))


@pytest.mark.parametrize("name", ["data", "sb2-data", "pickled"])
def test_nothing_beside_a_reference_restricts_a_value(name: str) -> None:
    beside: set[str] = set()

    def collect(part: dict[str, Any]) -> dict[str, Any]:
        beside.update(part if "$ref" in part else ())
        return part

    schema = json.dumps(load_schema(name)["$defs"])
    json.loads(schema, object_hook=collect)
    assert beside <= {"$ref", "title", "description", "default", "examples"}
