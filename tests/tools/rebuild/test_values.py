"""``rebuild``: values of ``data`` that SB3 cannot load, and keys that it cannot do without (REBUILDING.md 15.2)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sbformat import ConstantSchedule, Serialized, UnsupportedError, ValidationError, pkl, validate
from sbformat.nets.reading import match_network
from sbformat.pkl import Call, Global
from sbformat.pkl.encode import encode_pickle
from sbformat.pth import StateDict
from sbformat.tools.rebuild import rebuild
from tests.helpers.build_blobs import array, call, decode_outcome, new, tree
from tests.helpers.many_cases import check_each
from tests.helpers.old_archives import BASES, blob, rebuilt, with_keys
from tests.helpers.sb2_files import change_agent

BOOL = Call("REDUCE", Global("numpy", "dtype"), ("b1", False, True))
NUMPY_FALSE = Call("REDUCE", Global("numpy.core.multiarray", "scalar"), (BOOL, b"\0"))
SYSTEM = call("os", "system", "true")


# -- the shapes ---------------------------------------------------------------------------------------


def test_a_numpy_bool_does_not_turn_the_check_of_shapes_off() -> None:
    made, _, report = rebuilt(with_keys(use_sde=blob(NUMPY_FALSE)))
    assert made.data["use_sde"] is False
    assert report.findings == ()
    with pytest.raises(UnsupportedError, match="its weights do not fit"):
        rebuild(with_keys(use_sde=blob(NUMPY_FALSE), policy_kwargs={"net_arch": [9]}))


# -- keys that SB3 needs ------------------------------------------------------------------------------


@check_each("key", ["policy_class", "observation_space", "action_space"])
@check_each("on_unknown", ["drop", "keep", "error"])
def test_an_archive_without_a_key_that_nothing_supplies_is_refused(key: str, on_unknown: Any) -> None:
    with pytest.raises(UnsupportedError, match=f"{key}: it is missing"):
        rebuild(with_keys(**{key: ...}), on_unknown=on_unknown)
    assert rebuild(with_keys(**{key: ...}), supplied_at_load=[key]).archive.data[key] is None


def test_a_policy_that_is_missing_can_be_given() -> None:
    made, _, _ = rebuilt(with_keys(policy_class=...), policy_class="MlpPolicy")
    assert made.data["policy_class"] == rebuild(BASES["ppo"]).archive.data["policy_class"]


@pytest.mark.parametrize(("key", "value"), [("verbose", 0), ("n_envs", 1)])
def test_what_load_reads_is_supplied(key: str, value: int) -> None:
    made, rows, report = rebuilt(with_keys(**{key: ...}))
    assert made.data[key] == value
    assert rows[key].instead == f"{value}, the default of PPO"
    assert report.findings == (rows[key],)


# -- values against the schema ------------------------------------------------------------------------


@check_each(
    ("key", "value", "instead"),
    [
        ("seed", -1, "None"),
        ("batch_size", 0, "64"),
        ("_stats_window_size", -1, "100"),
        ("n_steps", [1], "2048"),
        ("gamma", None, "0.99"),
        ("use_sde", 3, "False"),
    ],
)
def test_a_value_that_the_schema_refuses_is_dropped(key: str, value: object, instead: str) -> None:
    made, rows, report = rebuilt(with_keys(**{key: value}))
    assert made.data.get(key, instead) in (instead, 0)
    assert rows[key].instead == f"{instead}, the default of PPO"
    assert report.findings == (rows[key],)
    assert [row.key for row in report.rows].count(key) == 1
    with pytest.raises(UnsupportedError, match=key):
        rebuild(with_keys(**{key: value}), on_unknown="error")
    with pytest.raises(ValidationError, match=key):
        rebuild(BASES["ppo"], assign={key: value})


def test_numbers_that_sb3_takes_are_kept() -> None:
    """SB3 checks none of them; ``validate`` warns."""
    given = {"gamma": 9.995, "gae_lambda": -1, "vf_coef": -0.5, "max_grad_norm": -1.0, "verbose": -2, "clip_range": -1}
    made, _, report = rebuilt(with_keys(**given))
    assert {key: made.data[key] for key in given} == given
    assert report.findings == ()
    problems = validate(made)
    assert {problem.loc for problem in problems} == {f"/{key}" for key in given if key != "verbose"}
    assert {problem.level for problem in problems} == {"warning"}


def test_a_clipping_of_0_is_a_schedule() -> None:
    """PPO refuses the number, and takes a function of the same value."""
    made, _, _ = rebuilt(with_keys(clip_range_vf=0))
    assert made.decode("clip_range_vf") == ConstantSchedule(0.0)


def test_a_text_is_dropped_where_sb3_has_a_number() -> None:
    _, rows, report = rebuilt(with_keys(n_steps="many"))
    assert rows["n_steps"].instead == "2048, the default of PPO"
    assert report.findings == (rows["n_steps"],)


def test_an_object_is_dropped_where_sb3_has_a_number() -> None:
    made, rows, _ = rebuilt(with_keys(gamma=blob((1.0, 2.0))))
    assert "gamma" not in made.data
    assert rows["gamma"].is_finding


# -- state-dependent noise ----------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["ppo", "sac"])
def test_use_sde_is_dropped_where_the_policy_has_no_such_noise(base: str) -> None:
    made, rows, report = rebuilt(with_keys(base, use_sde=True))
    assert made.data.get("use_sde", False) is False
    assert report.findings == (rows["use_sde"],)
    with pytest.raises(UnsupportedError, match="use_sde: gSDE needs .*load fails"):
        rebuild(BASES[base], assign={"use_sde": True})


# -- the entropy coefficient --------------------------------------------------------------------------


def entropy_of(archive: Any, **options: Any) -> tuple[dict[str, Any], Any]:
    made, _, report = rebuilt(archive, **options)
    variables = made.pytorch_variables
    assert variables is not None
    return variables.to_numpy(), report


def with_variables(ent_coef: object, **variables: Any) -> Any:
    archive = with_keys("sac", ent_coef=ent_coef)
    return archive.replace(pytorch_variables=StateDict.from_arrays({}).with_tree(variables))


def tensor(values: Any, dtype: str = "float32") -> Any:
    return StateDict.from_arrays({"x": np.array(values, dtype)}).tree["x"]


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        (0.9, "ent_coef_tensor", 0.9),
        ("0.9", "ent_coef_tensor", 0.9),
        (0, "ent_coef_tensor", 0.0),
        ("auto_0.5", "log_ent_coef", [np.log(0.5)]),
        ("auto", "log_ent_coef", [0.0]),
    ],
)
def test_a_coefficient_that_is_given_decides_on_the_tensor(value: object, name: str, expected: Any) -> None:
    arrays, report = entropy_of(with_variables(0.2, ent_coef_tensor=tensor(0.2)), assign={"ent_coef": value})
    assert list(arrays) == [name]
    assert arrays[name].dtype == np.float32
    np.testing.assert_array_equal(arrays[name], np.array(expected, np.float32))
    assert report.findings == ()


def test_a_coefficient_that_sb3_cannot_learn_from_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="ent_coef: expected a number"):
        rebuild(BASES["sac"], assign={"ent_coef": "auto_-1"})


@check_each(
    ("ent_coef", "name", "found"),
    [
        (0.2, "ent_coef_tensor", tensor(5.0)),
        (0.2, "ent_coef_tensor", tensor([0.2])),
        (0.2, "ent_coef_tensor", tensor(0.2, "float64")),
        (0.2, "ent_coef_tensor", 0.2),
        (0.2, "ent_coef_tensor", ...),
        ("auto_0.5", "log_ent_coef", tensor([0.0, 0.0])),
        ("auto_0.5", "log_ent_coef", tensor(0.0)),
        ("auto_0.5", "log_ent_coef", tensor([0], "int64")),
        ("auto_0.5", "log_ent_coef", 0.5),
        ("auto_0.5", "log_ent_coef", ...),
    ],
)
def test_a_tensor_that_does_not_fit_the_coefficient_is_made_anew(ent_coef: object, name: str, found: object) -> None:
    variables = {} if found is ... else {name: found}
    arrays, report = entropy_of(with_variables(ent_coef, **variables))
    fixed, learned = np.array(0.2, np.float32), np.array([np.log(0.5)], np.float32)
    np.testing.assert_array_equal(arrays[name], fixed if name == "ent_coef_tensor" else learned)
    assert [(row.entry, row.key) for row in report.findings] == [("pytorch_variables.pth", name)]


@pytest.mark.parametrize(
    ("ent_coef", "name", "found"), [(0.2, "ent_coef_tensor", tensor(0.2)), ("auto", "log_ent_coef", tensor([-3.0]))]
)
def test_a_tensor_that_fits_is_kept(ent_coef: object, name: str, found: Any) -> None:
    arrays, report = entropy_of(with_variables(ent_coef, **{name: found}))
    assert arrays[name].item() == pytest.approx(0.2 if name == "ent_coef_tensor" else -3.0)
    assert report.findings == ()


# -- names that are allowed ---------------------------------------------------------------------------


def float_schedule(depth: int) -> Any:
    """A function of the author's own, inside of that many schedules of SB3."""
    inner = float_schedule(depth - 1) if depth else Global("mine.schedules", "slow")
    return new("stable_baselines3.common.utils", "FloatSchedule", {"value_schedule": inner}) if depth else inner


@pytest.mark.each_value
@pytest.mark.parametrize("key", ["clip_range", "learning_rate"])
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("target", ["2.0", "2.9"])
def test_a_schedule_of_the_authors_is_allowed_inside_of_sb3s(key: str, depth: int, target: str) -> None:
    archive = with_keys(**{key: blob(float_schedule(depth))})
    made, rows, report = rebuilt(archive, allow=["mine.schedules.slow"], target=target)
    assert [(required.key, required.name) for required in report.requires] == [(key, "mine.schedules.slow")]
    assert rows[key].action == "kept"
    assert b"mine.schedules" in made.data[key].pickle
    assert report.findings == ()
    _, _, report = rebuilt(archive, target=target)
    assert [row.key for row in report.findings] == [key]


@check_each("depth", [0, 1])
@check_each("key", ["clip_range", "learning_rate"])
def test_an_object_of_an_allowed_class_is_kept_with_its_attributes(depth: int, key: str) -> None:
    made: Any = new("mine.schedules", "Cosine", {"start": 1e-3, "end": [0, "x"]})
    if depth:
        made = new("stable_baselines3.common.utils", "FloatSchedule", {"value_schedule": made})
    archive = with_keys(**{key: blob(made)})
    _, rows, report = rebuilt(archive)
    assert [row.key for row in report.findings] == [key]
    assert "--allow mine.schedules.Cosine" in rows[key].message
    assert "not known: mine.schedules.Cosine() with {'start': 0.001, 'end': [0, 'x']}" in str(rows[key].was)
    result, rows, report = rebuilt(archive, allow=["mine.schedules.Cosine"])
    assert rows[key].action == "kept"
    assert [(required.key, required.name) for required in report.requires] == [(key, "mine.schedules.Cosine")]
    kept: Any = result.decode(key)
    kept = kept.schedule if depth else kept
    assert str(kept.func) == "mine.schedules.Cosine"
    assert dict(kept.updates[0].value) == {"start": 1e-3, "end": [0, "x"]}


@check_each(
    "inside",
    [
        SYSTEM,
        Global("builtins", "eval"),
        new("mine", "Other", {"x": 1}),
        "/home/me/x",
        b"/home/me/x",
        Global("torch.optim.adam", "Adam"),
        Global("numpy", "float32"),
        NUMPY_FALSE,  # it would become one of Python
    ],
)
def test_an_object_of_an_allowed_class_with_other_parts_is_dropped(inside: object) -> None:
    archive = with_keys(learning_rate=blob(new("mine.schedules", "Cosine", {"start": 1e-3, "end": [inside]})))
    made, rows, report = rebuilt(archive, allow=["mine.schedules.Cosine", "mine.Other"])
    assert [row.key for row in report.findings] == ["learning_rate"]
    assert "learning_rate" not in made.data
    assert "an object of mine.schedules.Cosine is kept if" in rows["learning_rate"].message
    assert report.requires == ()


@check_each("inside", [array((2,), b"\0" * 8), array((), b"\0" * 4), b"x", (1, None), [{"a": True}]])
def test_an_object_of_an_allowed_class_keeps_arrays_and_containers(inside: object) -> None:
    archive = with_keys(learning_rate=blob(new("mine.schedules", "Cosine", {"start": inside})))
    result, rows, _ = rebuilt(archive, allow=["mine.schedules.Cosine"])
    assert rows["learning_rate"].action == "kept"
    before, after = (decode_outcome(one.data["learning_rate"].pickle) for one in (archive, result))
    assert before.decoder.read_attributes(before.value) == after.decoder.read_attributes(after.value)


def test_an_object_without_attributes_is_kept_without_a_state() -> None:
    archive = with_keys(learning_rate=blob(Call("NEWOBJ", Global("mine.schedules", "Slow"), ())))
    result, rows, _ = rebuilt(archive, allow=["mine.schedules.Slow"])
    assert rows["learning_rate"].action == "kept"
    kept: Any = pkl.loads(result.data["learning_rate"].pickle)
    assert (str(kept.func), kept.args, kept.updates) == ("mine.schedules.Slow", (), None)
    archive = with_keys(learning_rate=blob(new("mine.schedules", "Slow", {})))
    assert "learning_rate" not in rebuild(archive, allow=["mine.schedules.Slow"]).archive.data


def with_call_aside(made: Any) -> Serialized:
    """A blob that changes an object by a call whose result is dropped."""
    return Serialized("x", encode_pickle(tree(made), setters={id(made): [call("mine", "change", made)]}))


def test_an_object_that_a_call_may_change_is_not_kept() -> None:
    schedule = Call("NEWOBJ", Global("mine.schedules", "Slow"), ())
    _, rows, report = rebuilt(with_keys(learning_rate=with_call_aside(schedule)), allow=["mine.schedules.Slow"])
    assert "and nothing else changes it" in rows["learning_rate"].message
    assert report.requires == ()
    space: Any = pkl.loads(of_my_class("action_space").pickle)
    with pytest.raises(UnsupportedError, match="an object of mine.spaces.MyBox is kept if"):
        rebuild(with_keys(action_space=with_call_aside(space)), allow=["mine.spaces.MyBox"])


def test_the_class_of_an_object_that_is_dropped_is_not_required() -> None:
    made = new("mine.schedules", "Cosine", {"start": 1e-3})
    archive = with_keys(policy_kwargs=blob({"net_arch": [8, 8], "ortho_init": made}))
    _, rows, report = rebuilt(archive, allow=["mine.schedules.Cosine"])
    assert rows["policy_kwargs/ortho_init"].action == "dropped"
    assert report.requires == ()


def of_my_class(key: str, **attributes: object) -> Serialized:
    """The blob of a bundled archive's space, of a class that extends it."""
    space: Any = pkl.loads(BASES["ppo"].data[key].pickle)
    space.func = Global("mine.spaces", "MyBox")
    space.updates[0].value.extend(attributes.items())
    return Serialized("<class 'mine.spaces.MyBox'>", pkl.dumps(space, protocol=5))


@check_each("key", ["observation_space", "action_space"])
def test_a_space_of_the_users_class_is_taken_as_the_one_that_it_extends(key: str) -> None:
    archive = with_keys(**{key: of_my_class(key)})
    original = BASES["ppo"].decode(key)
    with pytest.raises(UnsupportedError, match=r"--as mine.spaces.MyBox=gymnasium.*--allow mine.spaces.MyBox"):
        rebuild(archive)
    made, rows, report = rebuilt(archive, treat_as={"mine.spaces.MyBox": f"gymnasium.spaces.{original.class_name}"})
    assert made.decode(key) == rebuild(BASES["ppo"]).archive.decode(key)
    assert report.findings == report.requires == ()
    kept, rows, report = rebuilt(archive, allow=["mine.spaces.MyBox"])
    assert rows[key].action == "kept"
    assert [(required.key, required.name) for required in report.requires] == [(key, "mine.spaces.MyBox")]
    node = kept.decode(key)
    assert str(node.func) == "mine.spaces.MyBox"
    assert kept.data[key].type == "<class 'mine.spaces.MyBox'>"
    assert rebuild(kept, treat_as={"mine.spaces.MyBox": str(Global(*original.pair))}).archive == made


def test_a_space_with_attributes_of_its_own_is_refused() -> None:
    key = "observation_space"
    archive = with_keys(**{key: of_my_class(key, mine=1)})
    with pytest.raises(UnsupportedError, match="an object of mine.spaces.MyBox is kept if its attributes are"):
        rebuild(archive, allow=["mine.spaces.MyBox"])
    with pytest.raises(UnsupportedError, match="is not a known space"):
        rebuild(archive, treat_as={"mine.spaces.MyBox": "gymnasium.spaces.Box"})


@check_each(
    ("name", "known"),
    [
        ("mine.MyBox", "mine.Other"),
        ("mine.MyBox", "Box"),
        ("MyBox", "gymnasium.spaces.Box"),
        ("os.system", "gymnasium.spaces.Box"),
        ("gymnasium.spaces.box.Box", "gymnasium.spaces.Discrete"),
        ("mine.MyBox", "os.system"),
        ("gymnasium.spaces.Box", "gymnasium.spaces.Discrete"),
        ("mine.Policy", "stable_baselines3.CnnPolicy"),
        ("mine.PPO", "stable_baselines3.ppo.ppo.PPO"),
        ("mine.tensor", "torch._utils._rebuild_tensor_v2"),
    ],
)
def test_what_cannot_be_treated_as_another_name(name: str, known: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot be treated as"):
        rebuild(BASES["ppo"], treat_as={name: known})


def test_a_name_beside_code_is_not_treated_as_another() -> None:
    space: Any = pkl.loads(of_my_class("action_space").pickle)
    archive = with_keys(action_space=with_call_aside(space))
    with pytest.raises(UnsupportedError, match=r"action_space: .*MyBox.* cannot be treated as another name beside"):
        rebuild(archive, treat_as={"mine.spaces.MyBox": "gymnasium.spaces.Discrete"})


def test_names_are_treated_as_others_in_archives_of_sb3_only() -> None:
    with pytest.raises(UnsupportedError, match="treat_as.* only in an archive of Stable-Baselines3, got .* sb2"):
        rebuild(change_agent("a2c-no-layers"), treat_as={"mine.spaces.MyBox": "gymnasium.spaces.Box"})


@check_each("name", [("os", "system"), ("gymnasium.spaces.box", "Box"), ("subprocess", "Popen")])
def test_no_option_is_advised_for_a_space_of_a_known_or_dangerous_class(name: tuple[str, str]) -> None:
    archive = with_keys(action_space=blob(Call("REDUCE", Global(*name), ("x",))))
    with pytest.raises(UnsupportedError, match="action_space: SB3 loads no agent without it") as caught:
        rebuild(archive)
    assert "--as" not in str(caught.value)
    with pytest.raises(UnsupportedError, match="action_space is .*, and the network for it is not known$"):
        match_network(archive)


def test_a_name_that_is_not_in_a_collection_is_an_error() -> None:
    with pytest.raises(TypeError, match="allow: expected a collection of names"):
        rebuild(BASES["ppo"], allow="mine.Policy")


# -- refusals -----------------------------------------------------------------------------------------


@pytest.mark.each_value
@pytest.mark.parametrize("key", ["lr_schedule", "exploration_schedule", "env", "tb_writer", "tensorboard_log", "learn"])
@pytest.mark.parametrize("value", [blob(SYSTEM), Serialized("x", b"\x80\x04nonsense.")])
def test_error_refuses_what_is_unknown_under_keys_that_are_left_out(key: str, value: Serialized) -> None:
    archive = with_keys(**{key: value})
    assert key not in rebuild(archive).archive.data or key == "tensorboard_log"
    with pytest.raises(UnsupportedError, match=f"cannot be rebuilt: {key}: "):
        rebuild(archive, on_unknown="error")


@pytest.mark.parametrize("base", BASES)
def test_error_refuses_nothing_that_is_known(base: str) -> None:
    assert rebuild(BASES[base], on_unknown="error").archive == rebuild(BASES[base]).archive


@pytest.mark.parametrize(
    "arguments",
    [
        {"optimizer_kwargs": {"speed": 1}},
        {"optimizer_kwargs": {"eps": "small"}},
        {"features_extractor_kwargs": {"x": 1}},
    ],
)
def test_arguments_that_are_given_are_checked(arguments: dict[str, Any]) -> None:
    known = {"net_arch": [8, 8]}
    with pytest.raises(UnsupportedError, match="policy_kwargs/.*_kwargs/"):
        rebuild(BASES["ppo"], assign={"policy_kwargs": {**known, **arguments}})
    made = rebuild(BASES["ppo"], assign={"policy_kwargs": {**known, "optimizer_kwargs": {"eps": 1e-5}}}).archive
    assert made.data["policy_kwargs"]["optimizer_kwargs"] == {"eps": 1e-5}


@pytest.mark.parametrize(("base", "name"), [("ppo", "log_std_init"), ("sac", "clip_mean")])
def test_an_argument_of_the_policy_that_has_to_be_a_number_is_dropped(base: str, name: str) -> None:
    _, rows, _ = rebuilt(with_keys(base, policy_kwargs={"net_arch": [8, 8], name: "1"}))
    assert rows[f"policy_kwargs/{name}"].message == "expected a number, got '1'"
    assert rows[f"policy_kwargs/{name}"].new is None
