"""``rebuild``: what becomes of each key and entry, without SB3 (REBUILDING.md 15.1, 15.2, 15.6)."""

from __future__ import annotations

import json
import pickle
import pickletools
from typing import Any

import pytest

import sbformat
from sbformat import MissingEntryError, Serialized, UnsupportedError, ValidationError
from sbformat.known.spaces import Box
from sbformat.known.types import ConstantSchedule, LinearSchedule, Reference, TrainFreq
from sbformat.pkl import Call, Global
from sbformat.tools.rebuild import RebuildReport, rebuild
from sbformat.values import decode
from sbformat.values.render import render_json, render_line
from tests.helpers.build_blobs import CONSTANT, array, box, call, change, discrete, function, new, partial
from tests.helpers.many_cases import check_each
from tests.helpers.old_archives import BASES, blob, rebuilt, reference, with_keys
from tests.helpers.sampling import with_exhaustive

USERS: Any = function((*CONSTANT[:6], b"d\0S\0", *CONSTANT[7:]), (1e-3,), "mine.<locals>.f", spelling="fill")[0]  # type: ignore[index]
SYSTEM = call("os", "system", "true")


def schedule(name: str, **state: Any) -> Any:
    return new("stable_baselines3.common.utils", name, state)


# -- the whole ----------------------------------------------------------------------------------------


@check_each("base", BASES)
@check_each("target", ["1.6", "1.8", "2.0", "2.6", "2.9"])
def test_the_result_is_clean_of_the_target_and_loses_no_value(base: str, target: str) -> None:
    archive = BASES[base]
    made, rows, report = rebuilt(archive, target=target)
    assert sbformat.scan(sbformat.writes(made)).verdict == "clean"
    assert sbformat.iter_problems(made) is not None
    assert [problem for problem in sbformat.iter_problems(made) if problem.level == "error"] == []
    assert made.stable_baselines3_version == report.target
    assert report.target.startswith(target)
    assert report.written_by == archive.stable_baselines3_version
    assert {key.partition("/")[0] for key in rows} >= {*archive.data, *archive.entries} - {"data"}
    for key, value in archive.data.items():
        if key in made.data and not isinstance(value, Serialized) and key not in ("tensorboard_log", "policy_kwargs"):
            assert made.data[key] == value, key


@pytest.mark.parametrize("base", BASES)
def test_every_key_and_entry_has_one_row(base: str) -> None:
    _, report = rebuild(BASES[base])
    places = [row.key or row.entry for row in report.rows]
    assert sorted(places) == sorted(set(places))


@pytest.mark.parametrize("base", BASES)
def test_what_was_rebuilt_is_rebuilt_to_the_same(base: str) -> None:
    first, _, _ = rebuilt(BASES[base])
    second, _, report = rebuilt(first)
    assert sbformat.writes(second) == sbformat.writes(first)
    assert report.counts()["dropped"] == 0


# -- values before and now ----------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
def test_each_key_has_its_value_before_and_now(base: str) -> None:
    archive = BASES[base]
    made, rows, report = rebuilt(archive)
    for key, value in archive.data.items():
        row = rows[key]
        assert row.old == render_json(archive.decode(key))
        assert row.was == render_line(archive.decode(key)) or isinstance(archive.decode(key), Reference)
        name = row.new_key or key
        assert row.new == (render_json(made.decode(name)) if name in made.data else None), key
        if row.action == "kept" and not isinstance(value, Serialized):
            assert row.old == row.new == value
    json.dumps(report.to_json())


def test_a_dropped_value_has_the_default_of_sb3_as_its_new_one() -> None:
    archive = with_keys(learning_rate=blob(USERS), clip_range=blob(SYSTEM), gamma="a text", n_steps=-5)
    rows = rebuilt(archive)[1]
    assert [rows[key].new for key in ("learning_rate", "clip_range", "gamma", "n_steps")] == [3e-4, 0.2, 0.99, 2048]
    assert [rows[key].now for key in ("learning_rate", "clip_range")] == [None, None]
    assert (rows["gamma"].old, rows["n_steps"].old) == ("a text", -5)
    assert (rows["clip_range"].old["kind"], rows["learning_rate"].old["kind"]) == ("opaque", "function")


def test_an_assigned_value_is_the_new_one() -> None:
    rows = rebuilt(with_keys(learning_rate=blob(USERS)), assign={"learning_rate": 0.5})[1]
    assert (rows["learning_rate"].old["kind"], rows["learning_rate"].new) == ("function", 0.5)


def test_a_value_under_another_key_is_found() -> None:
    rows = rebuilt(BASES["old"])[1]
    assert rows["_last_dones"].new_key == "_last_episode_starts"
    assert rows["_last_dones"].old == rows["_last_dones"].new
    assert rows["gamma"].new_key is None


def test_a_part_of_a_value_has_its_own() -> None:
    rows = rebuilt(with_keys(policy_kwargs={"net_arch": [8, 8], "nonsense": 1}))[1]
    assert (rows["policy_kwargs/nonsense"].old, rows["policy_kwargs/nonsense"].new) == (1, None)
    assert rows["policy_kwargs"].new == {"net_arch": [8, 8]}


def test_the_values_that_training_uses_are_marked() -> None:
    report = rebuilt(BASES["ppo"])[2]
    marked = {row.key for row in report.hyperparameters}
    assert {"gamma", "learning_rate", "clip_range", "n_steps", "ent_coef", "policy_kwargs"} <= marked
    assert not {"verbose", "num_timesteps", "_last_obs", "ep_info_buffer", "lr_schedule", "policy_class"} & marked


def test_a_value_of_a_broken_pickle_is_none() -> None:
    rows = rebuilt(with_keys(learning_rate=Serialized("x", b"\x80\x04K")))[1]
    assert (rows["learning_rate"].old, rows["learning_rate"].was, rows["learning_rate"].new) == (None, None, 3e-4)


def test_an_entropy_coefficient_that_is_made_anew_has_both_values() -> None:
    rows = rebuilt(BASES["sac"], assign={"ent_coef": 0.5})[1]
    assert (rows["ent_coef_tensor"].new, rows["ent_coef_tensor"].action) == (0.5, "translated")
    assert (rows["ent_coef"].old, rows["ent_coef"].new) == ("auto", 0.5)


def test_a_source_is_read() -> None:
    source = sbformat.writes(BASES["ppo"])
    assert rebuild(source).archive == rebuild(BASES["ppo"]).archive


def test_no_byte_of_an_old_pickle_is_in_the_result() -> None:
    made, _, _ = rebuilt(BASES["old"])
    for value in made.data.values():
        if isinstance(value, Serialized):
            names = {arg for opcode, arg, _ in pickletools.genops(value.pickle) if opcode.name == "SHORT_BINUNICODE"}
            assert not {name for name in names if "gym." in name or "cloudpickle" in name or "/" in name}
    assert b"/home/user" in bytes(BASES["old"].raw("data")) or "home" in str(BASES["old"].data["tensorboard_log"])
    assert b"/home/user" not in sbformat.writes(made)


# -- what is not known --------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [USERS, SYSTEM, call("mine", "thing")])
def test_what_is_not_known_is_dropped_kept_or_refused_as_asked(content: Any) -> None:
    archive = with_keys(learning_rate=blob(content), mine=blob(content))
    made, rows, _ = rebuilt(archive)
    assert not {"learning_rate", "mine"} & set(made.data)
    assert rows["learning_rate"].instead == "0.0003, the default of PPO"
    assert "--set learning_rate=NUMBER" in rows["learning_rate"].message
    assert rows["mine"].action == "dropped"
    kept, rows, _ = rebuilt(archive, on_unknown="keep")
    assert kept.data["learning_rate"] == archive.data["learning_rate"]
    assert rows["mine"].action == "kept"
    assert sbformat.scan(sbformat.writes(kept)).verdict != "clean"
    with pytest.raises(UnsupportedError, match="learning_rate: .*; mine: "):
        rebuild(archive, on_unknown="error")


def test_a_blob_that_is_no_pickle_is_not_known() -> None:
    archive = with_keys(learning_rate=Serialized("x", b"\x80\x04nonsense."))
    _, rows, _ = rebuilt(archive)
    assert "cannot be decoded" in rows["learning_rate"].message


def test_values_are_given_where_the_authors_are_lost() -> None:
    archive = with_keys(learning_rate=blob(USERS))
    made, rows, _ = rebuilt(archive, assign={"learning_rate": 0.25})
    assert made.data["learning_rate"] == 0.25
    assert rows["learning_rate"].message == "another value was assigned"
    with pytest.raises(ValidationError, match="learning_rate"):
        rebuild(archive, assign={"learning_rate": "fast"})
    with pytest.raises(MissingEntryError, match="learning_rat.*learning_rate"):
        rebuild(archive, assign={"learning_rat": 1.0})


@check_each("key", ["observation_space", "action_space"])
@check_each("content", [SYSTEM, 7, Global("gymnasium.spaces.box", "Box"), new("mine", "Space", {})])
def test_spaces_cannot_be_done_without(key: str, content: Any) -> None:
    archive = with_keys(**{key: blob(content)})
    with pytest.raises(UnsupportedError, match=f"{key}: .*SB3 loads no agent without it"):
        rebuild(archive)
    kept, rows, _ = rebuilt(archive, on_unknown="keep")
    assert kept.data[key] == archive.data[key]
    assert rows[key].action == "kept"


# -- policies -----------------------------------------------------------------------------------------


def required_names(report: RebuildReport) -> list[tuple[str, str]]:
    return [(required.key, required.name) for required in report.requires]


def test_a_policy_outside_sb3_is_kept_when_it_is_allowed() -> None:
    archive = with_keys(policy_class=reference("mine.policies", "Mine"))
    made, rows, report = rebuilt(archive, allow=["mine.policies.Mine"])
    assert required_names(report) == [("policy_class", "mine.policies.Mine")]
    assert str(made.decode("policy_class")) == "mine.policies.Mine"
    assert "the loader imports it" in rows["policy_class"].message
    assert report.findings == ()


def test_a_policy_outside_sb3_is_replaced_where_all_weights_fit() -> None:
    archive = with_keys(policy_class=reference("mine.policies", "Mine"))
    made, rows, report = rebuilt(archive)
    assert report.requires == ()
    assert str(made.decode("policy_class")) == "stable_baselines3.common.policies.ActorCriticPolicy"
    row = rows["policy_class"]
    assert (row.action, row.was, row.is_finding) == ("dropped", "mine.policies.Mine", True)
    assert row.instead == "stable_baselines3.common.policies.ActorCriticPolicy"
    assert "--allow mine.policies.Mine" in row.message
    assert "it may compute something else" in row.message
    assert report.findings == (row,)
    assert sbformat.scan(sbformat.writes(made)).verdict == "clean"


@pytest.mark.parametrize("allow", [[], ["mine.policies.mine"], ["mine.policies"], ["Mine"], ["mine.policies.Mine.x"]])
def test_a_policy_whose_weights_do_not_fit_is_refused(allow: list[str]) -> None:
    archive = with_keys(policy_class=reference("mine.policies", "Mine"), policy_kwargs={"net_arch": [8]})
    with pytest.raises(UnsupportedError, match="--allow mine.policies.Mine .*do not fit ActorCriticPol.*--policy-cl"):
        rebuild(archive, allow=allow)
    rebuild(archive, allow=["mine.policies.Mine"])
    with pytest.raises(UnsupportedError, match="do not fit ActorCriticPolicy"):
        rebuild(archive, policy_class="MlpPolicy")


def test_a_policy_of_the_author_s_for_images_is_not_replaced_by_another_kind() -> None:
    for name in ("ActorCriticCnnPolicy", "MultiInputActorCriticPolicy"):
        archive = with_keys(policy_class=reference("stable_baselines3.common.policies", name))
        with pytest.raises(UnsupportedError, match="SB3 cannot make its network"):
            rebuild(archive)
    archive = with_keys(policy_class=reference("sb3_contrib.tqc.policies", "TQCPolicy"))
    assert rebuilt(archive)[1]["policy_class"].is_finding


@pytest.mark.parametrize("text", ["MlpPolicy", "os.system", "mine.Policy"])
def test_a_policy_that_is_a_text_is_looked_up_in_a_table(text: str) -> None:
    made, rows, _ = rebuilt(with_keys(policy_class=text))
    assert str(made.decode("policy_class")) == "stable_baselines3.common.policies.ActorCriticPolicy"
    assert rows["policy_class"].is_finding == (text != "MlpPolicy")


MINE = Global("mine", "Thing")
PARTIAL_OF_MINE = partial(MINE, 0.5, a=Global("torch.nn.modules.activation", "ReLU"))


@pytest.mark.each_value
@pytest.mark.parametrize("content", [MINE, PARTIAL_OF_MINE])
@pytest.mark.parametrize(
    ("base", "place"),
    [
        ("ppo", "policy_kwargs/activation_fn"),
        ("ppo", "policy_kwargs/features_extractor_class"),
        ("ppo", "policy_kwargs/optimizer_class"),
        ("ppo", "learning_rate"),
        ("ppo", "clip_range"),
        ("sac", "replay_buffer_class"),
        ("ppo", "rollout_buffer_class"),
    ],
)
def test_what_sb3_would_call_is_kept_only_by_its_exact_name(base: str, place: str, content: Any) -> None:
    key, _, name = place.partition("/")
    value = {"net_arch": [8, 8], name: content} if name else content
    archive = with_keys(base, **{key: blob(value)})
    takes_it = content is MINE or not place.endswith("buffer_class")  # SB3 takes a class there, not a partial
    others = ["mine.thing", "mine", "Thing", "yours.Thing"]
    made, rows, report = rebuilt(archive, allow=others if takes_it else ["mine.Thing"])
    assert report.requires == ()
    assert (rows[place].action, rows[place].is_finding) == ("dropped", True)
    assert "--allow mine.Thing" in rows[place].message
    assert sbformat.scan(sbformat.writes(made)).verdict == "clean"
    if not takes_it:
        return
    made, rows, report = rebuilt(archive, allow=["mine.Thing"])
    assert required_names(report) == [(key, "mine.Thing")]
    assert report.findings == ()
    kept: Any = made.data[key]
    assert b"mine" in kept.pickle


@check_each(
    "content",
    [
        {"net_arch": [8, 8], "features_extractor_kwargs": {"features_dim": MINE}},
        {"net_arch": [8, 8], "features_extractor_kwargs": {"mine": [{"a": (PARTIAL_OF_MINE,)}]}},
        {"net_arch": [8, 8], "optimizer_kwargs": {"eps": MINE}},
        {"net_arch": [8, 8], "optimizer_kwargs": {"eps": [MINE]}},
        {"net_arch": [8, 8], "optimizer_kwargs": MINE},
        {"net_arch": [8, 8], "log_std_init": MINE},
        {"net_arch": [8, 8], "mine": MINE},
        {"net_arch": [8, 8], "ortho_init": {"a": [MINE]}},
        {"net_arch": [8, 8], "activation_fn": call("functools", "partial", SYSTEM)},
        {
            "net_arch": [8, 8],
            "features_extractor_kwargs": {"features_dim": Global("torch.nn.modules.linear", "Linear")},
        },
        {"net_arch": [8, 8], "optimizer_kwargs": {"eps": Global("torch.nn.modules.linear", "Linear")}},
    ],
)
def test_nothing_to_call_is_left_at_any_depth_of_the_arguments(content: Any) -> None:
    made, _, report = rebuilt(with_keys(policy_kwargs=blob(content)))
    assert report.requires == ()
    assert sbformat.scan(sbformat.writes(made)).verdict == "clean"
    arguments: Any = made.decode("policy_kwargs")
    assert arguments.get("optimizer_kwargs", {}) == {}
    assert arguments.get("features_extractor_kwargs", {}) == {}
    assert arguments["net_arch"] == [8, 8]
    assert report.findings


@check_each(
    "value",
    [
        Global("torch.nn.modules.transformer", "Transformer"),
        Global("torch.nn.modules.module", "Module"),
        Global("torch.nn.modules.linear", "Linear"),
        Global("torch.nn.modules.activation", "MultiheadAttention"),
        Global("torch.optim.adam", "Adam"),
        Global("gymnasium.spaces.box", "Box"),
        Global("stable_baselines3.common.policies", "ActorCriticPolicy"),
        Global("stable_baselines3.common.torch_layers", "NatureCNN"),
        partial(Global("torch.nn.modules.transformer", "Transformer")),
        partial(Global("torch.nn.modules.activation", "ReLU"), Global("torch.nn.modules.linear", "Linear")),
        partial(Global("torch.nn.modules.activation", "LeakyReLU"), a=[1, 2]),
        new("stable_baselines3.common.noise", "NormalActionNoise", {}),
        schedule("ConstantSchedule", val=1.0),
        "torch.nn.ReLU",
        5,
        None,
    ],
)
def test_an_activation_is_one_of_a_table(value: Any) -> None:
    archive = with_keys(policy_kwargs=blob({"net_arch": [8, 8], "activation_fn": value}))
    made, rows, report = rebuilt(archive)
    assert made.data["policy_kwargs"] == {"net_arch": [8, 8]}
    assert rows["policy_kwargs/activation_fn"].is_finding
    assert report.requires == ()


def test_a_known_activation_stays() -> None:
    for value in (
        Global("torch.nn.modules.activation", "ReLU"),
        partial(Global("torch.nn.modules.activation", "ELU"), 2.0),
    ):
        archive = with_keys(policy_kwargs=blob({"net_arch": [8, 8], "activation_fn": value}))
        made, _, report = rebuilt(archive)
        assert made.decode("policy_kwargs") == archive.decode("policy_kwargs")
        assert report.findings == ()


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "stable_baselines3.ppo.ppo.PPO", "builtins.eval"])
def test_a_name_that_is_known_to_be_harmful_cannot_be_allowed(name: str) -> None:
    with pytest.raises(UnsupportedError, match="it cannot be allowed"):
        rebuild(BASES["ppo"], allow=[name])
    module, _, last = name.rpartition(".")
    made, _, report = rebuilt(with_keys(policy_class=reference(module, last)), allow=["mine.Policy"])
    assert report.requires == ()
    assert str(made.decode("policy_class")).endswith(".ActorCriticPolicy")


@pytest.mark.parametrize("name", [("os", "system"), ("subprocess", "Popen"), ("builtins", "eval"), ("posix", "system")])
def test_a_name_that_runs_is_no_policy(name: tuple[str, str]) -> None:
    made, rows, report = rebuilt(with_keys(policy_class=reference(*name)))
    assert str(made.decode("policy_class")).endswith(".ActorCriticPolicy")
    assert rows["policy_class"].action == "dropped"
    assert "--allow" not in rows["policy_class"].message.partition(";")[0]
    arguments = {"net_arch": [8, 8], "activation_fn": Global(*name)}
    made, rows, report = rebuilt(with_keys(policy_kwargs=blob(arguments)))
    assert report.requires == ()
    assert "activation_fn" not in made.data.get("policy_kwargs", {})


@check_each(
    ("key", "content"),
    [
        ("policy_class", Global("stable_baselines3.ppo.ppo", "PPO")),
        ("policy_class", Global("torch.nn.modules.linear", "Linear")),
        ("replay_buffer_class", Global("torch.optim.adam", "Adam")),
        ("rollout_buffer_class", Global("stable_baselines3.a2c.a2c", "A2C")),
        ("policy_kwargs", {"features_extractor_class": Global("stable_baselines3.a2c.a2c", "A2C")}),
        ("policy_kwargs", {"activation_fn": Global("torch.optim.adam", "Adam")}),
        ("policy_kwargs", {"optimizer_class": Global("numpy", "ndarray")}),
        ("policy_kwargs", {"features_extractor_kwargs": {"a": [Global("stable_baselines3.ppo.ppo", "PPO")]}}),
    ],
)
def test_a_class_that_is_known_stands_in_its_role_alone(key: str, content: Any) -> None:
    content = {"net_arch": [8, 8], **content} if isinstance(content, dict) else content
    archive = with_keys("sac" if key == "replay_buffer_class" else "ppo", **{key: blob(content)})
    made, _, report = rebuilt(archive)
    assert sbformat.scan(sbformat.writes(made)).verdict == "clean"
    assert report.requires == ()
    assert any(row.action == "dropped" and row.key and row.key.startswith(key) for row in report.rows)
    if key == "policy_class":
        assert str(made.decode(key)) == "stable_baselines3.common.policies.ActorCriticPolicy"
    else:
        assert made.data.get(key) in (None, {"net_arch": [8, 8]}, {"net_arch": [8, 8], "features_extractor_kwargs": {}})


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("MlpPolicy", "stable_baselines3.common.policies.ActorCriticPolicy"),
        ("stable_baselines3.common.policies.ActorCriticPolicy", "stable_baselines3.common.policies.ActorCriticPolicy"),
        ("mine.policies.Mine", "mine.policies.Mine"),
        (type("Mine", (), {"__module__": "mine.policies"}), "mine.policies.Mine"),
    ],
)
def test_another_policy_takes_its_place(given: str | type, wanted: str) -> None:
    archive = with_keys(policy_class=blob(SYSTEM))
    made, rows, report = rebuilt(archive, policy_class=given)
    assert str(made.decode("policy_class")) == wanted
    assert "as requested" in rows["policy_class"].message
    assert not rows["policy_class"].is_finding
    assert bool(report.requires) == wanted.startswith("mine")


def test_a_policy_that_is_no_name_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="expected MlpPolicy, CnnPolicy, MultiInputPolicy or a dotted name"):
        rebuild(BASES["ppo"], policy_class="Nonsense")
    with pytest.raises(UnsupportedError, match="runs commands"):
        rebuild(BASES["ppo"], policy_class="os.system")
    for name in ("torch.nn.modules.linear.Linear", "builtins.dict", "stable_baselines3.sac.policies.SACPolicy"):
        with pytest.raises(UnsupportedError, match="is not a policy of PPO"):
            rebuild(BASES["ppo"], policy_class=name)


def test_arguments_that_policies_no_longer_take_are_left_out() -> None:
    arguments = {"device": "cpu", "sde_net_arch": None, "net_arch": [8, 8], "adam_epsilon": 1.0}
    made, rows, _ = rebuilt(with_keys(policy_kwargs=arguments))
    assert made.data["policy_kwargs"] == {"net_arch": [8, 8]}
    assert {key for key in rows if key.startswith("policy_kwargs/")} == {
        "policy_kwargs/device", "policy_kwargs/sde_net_arch", "policy_kwargs/adam_epsilon",
    }  # fmt: skip
    with pytest.raises(UnsupportedError, match="sde_net_arch"):
        rebuild(with_keys(policy_kwargs={"sde_net_arch": [4]}))


# -- values -------------------------------------------------------------------------------------------


def test_a_space_of_gym_is_gymnasiums_with_all_its_bounds() -> None:
    low = array((4,), b"\0\0\x80\xff\0\0\0\0" * 2, "f4")
    high = array((4,), b"\0\0\x80\x7f\0\0\x80\x3f" * 2, "f4")
    flags = {name: array((4,), b"\0\1\0\1", "b1", "|") for name in ("bounded_below", "bounded_above")}
    archive = with_keys(observation_space=blob(box(low, high, (4,), **flags)))
    made, _, _ = rebuilt(archive)
    old, space = archive.decode("observation_space"), made.decode("observation_space")
    assert isinstance(old, Box)
    assert isinstance(space, Box)
    assert (space.library, space.random) == ("gymnasium", None)
    assert (space.low.buffer, space.high.buffer) == (old.low.buffer, old.high.buffer)
    assert space.bounded_below is not None
    assert space.bounded_below.buffer == b"\0\1\0\1"
    assert made.data["observation_space"].hints["_shape"] == [4]


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("value", "wanted", "before"),
    [
        (schedule("ConstantSchedule", val=0.5), 0.5, 0.5),
        (schedule("FloatSchedule", value_schedule=schedule("ConstantSchedule", val=0.5)), 0.5, 0.5),
        (schedule("LinearSchedule", start=1.0, end=0.25, end_fraction=1.0), LinearSchedule(1.0, 0.25, 1.0), ...),
        (new("rl_zoo3.utils", "SimpleLinearSchedule", {"initial_value": 0.5}), LinearSchedule(0.5, 0.0, 1.0), ...),
        (schedule("LinearSchedule", start=1.0, end=0.25, end_fraction=0.5), LinearSchedule(1.0, 0.25, 0.5), ...),
        (call("numpy.core.multiarray", "scalar", call("numpy", "dtype", "f8"), b"\0" * 7 + b"\x40"), 2.0, 2.0),
    ],
)
@pytest.mark.parametrize("key", ["learning_rate", "clip_range", "clip_range_vf"])
def test_schedules_become_numbers_or_classes_or_calls_of_sb3(key: str, value: Any, wanted: Any, before: Any) -> None:
    archive = with_keys(**{key: blob(value)})
    made, _, _ = rebuilt(archive)
    assert made.decode(key) == wanted
    made, _, _ = rebuilt(archive, target="2.6")
    if before is ...:
        assert b"get_linear_fn" in made.data[key].pickle
        assert made.decode(key) == wanted
    else:
        assert made.data[key] == before


def test_the_schedule_of_ars_stays_one() -> None:
    archive = with_keys(delta_std_schedule=blob(schedule("ConstantSchedule", val=0.5)))
    for target in ("2.0", "2.9"):
        made, _, _ = rebuilt(archive, target=target)
        assert made.decode("delta_std_schedule") == ConstantSchedule(0.5)


def test_what_sb3_makes_anew_is_left_to_it() -> None:
    made, rows, _ = rebuilt(with_keys(lr_schedule=blob(USERS)))
    assert "lr_schedule" not in made.data
    assert (rows["lr_schedule"].action, rows["lr_schedule"].instead) == (
        "dropped",
        "what SB3 creates from learning_rate",
    )
    _, rows, _ = rebuilt(BASES["ppo"])
    assert rows["lr_schedule"].action == "translated"


@pytest.mark.parametrize(("episodes", "wanted"), [(-1, (4, "step")), (2, (2, "episode"))])
def test_how_often_it_trains_is_one_value_now(episodes: int, wanted: tuple[int, str]) -> None:
    made, rows, _ = rebuilt(with_keys("sac", train_freq=4, n_episodes_rollout=episodes))
    found = made.decode("train_freq")
    assert isinstance(found, TrainFreq)
    assert (found.frequency, found.unit.value) == wanted
    assert "n_episodes_rollout" not in made.data
    assert rows["n_episodes_rollout"].action == "dropped"


def test_keys_have_their_names_of_today() -> None:
    made, rows, _ = rebuilt(with_keys(_current_progress=0.5, _current_progress_remaining=..., tb_writer=None))
    assert made.data["_current_progress_remaining"] == 0.5
    assert "tb_writer" not in made.data
    made, rows, _ = rebuilt(BASES["old"])
    assert made.data["_last_episode_starts"].type == "<class 'numpy.ndarray'>"
    assert rows["_last_dones"].message == "is _last_episode_starts now"


def test_a_pair_of_json_is_a_pair_again() -> None:
    made, _, _ = rebuilt(with_keys("sac", train_freq=[1, "episode"]))
    assert isinstance(made.decode("train_freq"), TrainFreq)


def test_memory_and_timeouts_are_not_asked_for_at_once() -> None:
    made, _, _ = rebuilt(with_keys("sac", optimize_memory_usage=True, replay_buffer_kwargs=...))
    assert made.data["replay_buffer_kwargs"] == {"handle_timeout_termination": False}
    kept = {"handle_timeout_termination": True}
    made, _, _ = rebuilt(with_keys("sac", optimize_memory_usage=True, replay_buffer_kwargs=kept))
    assert made.data["replay_buffer_kwargs"] == kept


@pytest.mark.usefixtures("any_network")
def test_a_replay_buffer_has_arguments_of_today() -> None:
    strategy = call("stable_baselines3.her.goal_selection_strategy", "GoalSelectionStrategy", 1)
    given = {"online_sampling": True, "max_episode_length": 7, "n_sampled_goal": 2, "goal_selection_strategy": strategy}
    buffer = reference("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer")
    parts = {name: discrete() for name in ("achieved_goal", "desired_goal", "observation")}
    space = new("gymnasium.spaces.dict", "Dict", {"spaces": parts, "_np_random": None})
    dicts = {"replay_buffer_class": buffer, "observation_space": blob(space)}
    made, rows, _ = rebuilt(with_keys("sac", **dicts, replay_buffer_kwargs=blob(given)))
    assert made.data["replay_buffer_kwargs"] == {"n_sampled_goal": 2, "goal_selection_strategy": "final"}
    made, rows, _ = rebuilt(with_keys("sac", **dicts, replay_buffer_kwargs={"goal_selection_strategy": "uniform"}))
    assert made.data["replay_buffer_kwargs"] == {"goal_selection_strategy": "future"}
    assert rows["replay_buffer_kwargs/goal_selection_strategy"].action == "dropped"
    made, rows, _ = rebuilt(with_keys("sac", replay_buffer_class=None, replay_buffer_kwargs=blob(given)))
    assert made.data["replay_buffer_kwargs"] == {}


def test_buffers_are_sb3s_own() -> None:
    nstep = reference("stable_baselines3.common.buffers", "NStepReplayBuffer")
    made, _, _ = rebuilt(with_keys("sac", replay_buffer_class=nstep, n_steps=3))
    assert made.data["replay_buffer_class"] is None
    made, rows, _ = rebuilt(with_keys("sac", replay_buffer_class=reference("mine", "Buffer")))
    assert "replay_buffer_class" not in made.data
    assert rows["replay_buffer_class"].instead == "the buffer that SB3 chooses"


def test_noise_has_the_dtype_that_later_releases_ask_for() -> None:
    state = {"_mu": array((1,), b"\0" * 8, "f8"), "_sigma": array((1,), b"\0" * 8, "f8")}
    noise = new("stable_baselines3.common.noise", "NormalActionNoise", state)
    made, _, _ = rebuilt(with_keys("sac", action_noise=blob(noise)))
    found: Any = made.decode("action_noise")
    assert found.attributes["_dtype"] == Reference("numpy", "float32")


# -- privacy, and what strangers put in ---------------------------------------------------------------


@check_each(
    "text",
    [
        "/home/alice/logs", "C:\\Users\\alice", "~alice/x", "see /mnt/disk/a/b", "\\\\host\\share",
        "alice@host.example",
        "/alice", "-L/home/alice/lib", "+/mnt/c/Users/alice", "${HOME}/alice", "%USERPROFILE%", "git+ssh:alice",
        "laptop:8080", "file:x", "d:/alice", "~alice", "C:alice", "\\Users\\alice\\x",
    ],
)  # fmt: skip
def test_no_path_and_no_address_of_the_author_survives(text: str) -> None:
    archive = with_keys(
        mine=text, yours={"a": [text]}, tensorboard_log=text, ours=blob([text, (1,)]), theirs=blob([text.encode()]),
        replay_buffer_kwargs={text: 1, "a": text}, policy_kwargs={"net_arch": [8, 8], "optimizer_kwargs": {text: 1}},
        ep_info_buffer=blob([{"r": text}]), lr_schedule=text, weights={"a": text},
    )  # fmt: skip
    made, rows, _ = rebuilt(archive)
    assert text not in json.dumps(sbformat.data.to_json(made.data), ensure_ascii=False)
    assert text.encode() not in sbformat.writes(made)
    dropped = ("mine", "yours", "tensorboard_log", "ours", "theirs", "ep_info_buffer", "policy_kwargs/optimizer_kwargs")
    assert {rows[key].action for key in dropped} == {"dropped"}
    assert made.data["policy_kwargs"] == {"net_arch": [8, 8]}
    assert made.data["tensorboard_log"] is None


def test_what_describes_the_machine_is_kept_when_asked_for() -> None:
    archive = with_keys(tensorboard_log="logs")
    assert "system_info.txt" not in rebuilt(archive)[0].entries
    made, _, _ = rebuilt(archive, keep_system_info=True)
    assert made.raw("system_info.txt") == archive.raw("system_info.txt")
    assert made.data["tensorboard_log"] == "logs"
    for address in ("gs://bucket/logs", "gs::logs", "//host/logs", "\\\\host\\logs"):
        made, _, _ = rebuilt(with_keys(tensorboard_log=address), keep_system_info=True)
        assert made.data["tensorboard_log"] is None


@pytest.mark.each_value
@pytest.mark.parametrize("key", ["env", "device", "policy", "replay_buffer", "_logger", "_vec_normalize_env"])
@pytest.mark.parametrize("value", ["antigravity:Env-v0", None, {"a": 1}])
def test_attributes_that_sb3_never_saves_are_left_out(key: str, value: Any) -> None:
    made, rows, _ = rebuilt(with_keys(**{key: value}))
    assert key not in made.data
    assert rows[key].action == "dropped"


def test_attributes_of_ones_own_are_kept_when_they_are_plain() -> None:
    made, rows, _ = rebuilt(with_keys(mine={"a": [1, None]}, learn=blob(Global("torch.nn.modules.activation", "ReLU"))))
    assert made.data["mine"] == {"a": [1, None]}
    assert "attribute of the agent" in rows["mine"].message
    assert "mine" not in rebuilt(with_keys(mine={"a": ["alice"]}))[0].data
    assert "learn" not in made.data


def test_entries_and_variables_that_sb3_would_look_up_are_left_out() -> None:
    sac = BASES["sac"]
    policy, optimizer = sac.parameters["policy"], sac.parameters["actor.optimizer"]
    archive = sac.replace(
        parameters={"torch.ctypes.x": policy, "policy.optimizer": optimizer},
        pytorch_variables={**sac.pytorch_variables.to_numpy(), "policy.actor": sac.pytorch_variables["log_ent_coef"]},  # type: ignore[union-attr]
        extra={"evil.pkl": b"cos\nsystem\n.", "read.me": b"hello"},
    )
    made, rows, _ = rebuilt(archive)
    assert list(made.pytorch_variables or ()) == ["log_ent_coef"]
    assert not {"evil.pkl", "read.me", "torch.ctypes.x.pth", "policy.optimizer.pth"} & set(made.entries)
    assert rows["policy.optimizer.pth"].message.startswith("SAC has no such part")
    kept, _, _ = rebuilt(archive, on_unknown="keep")
    assert bytes(kept.extra["read.me"]) == b"hello"
    assert "policy.optimizer.pth" not in kept.entries


def test_a_fixed_entropy_coefficient_has_its_variable_and_no_optimizer() -> None:
    variables = BASES["sac"].pytorch_variables.to_numpy()  # type: ignore[union-attr]
    archive = with_keys("sac", ent_coef=0.5).replace(
        pytorch_variables={"log_ent_coef": None, "ent_coef_tensor": variables["log_ent_coef"]}
    )
    made, _, _ = rebuilt(archive)
    assert list(made.pytorch_variables or ()) == ["ent_coef_tensor"]
    assert "ent_coef_optimizer.pth" not in made.entries


@pytest.mark.usefixtures("any_network")
def test_who_asks_decides_what_the_archive_does_not_tell() -> None:
    archive = with_keys("sac", policy_delay=1, target_noise_clip=0.0, target_policy_noise=0.1, target_entropy=...)
    assert archive.algorithm.name == "DDPG"
    for name in ("TD3", "DDPG"):
        assert rebuild(archive, algorithm=name).report.algorithm == name
    with pytest.raises(UnsupportedError, match="an agent of DDPG, not of A2C"):
        rebuild(archive, algorithm="A2C")
    with pytest.raises(UnsupportedError, match="an agent of SAC, not of TD3"):
        rebuild(BASES["sac"], algorithm="TD3")
    with pytest.raises(UnsupportedError, match="an agent of DDPG, not of 'Nonsense'"):
        rebuild(archive, algorithm="Nonsense")


# -- what cannot be done ------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["1.5", "1.9", "3.0", "2.99", "", "newest"])
def test_a_release_that_cannot_be_written_for_is_refused(target: str) -> None:
    with pytest.raises(UnsupportedError, match=r"expected SB3 1\.6 to 2\.9"):
        rebuild(BASES["ppo"], target=target)


def test_parts_of_archives_are_no_archives() -> None:
    with pytest.raises(UnsupportedError, match="expected an archive of Stable-Baselines3"):
        rebuild(bytes(BASES["ppo"].raw("policy.pth")))
    with pytest.raises(MissingEntryError, match=r"policy\.optimizer"):
        rebuild(BASES["ppo"].without("policy.optimizer.pth"), policy_class="my_project.MyPolicy")
    with pytest.raises(UnsupportedError, match="algorithm"):
        rebuild(BASES["ppo"].replace(data={"policy_class": reference("mine", "Mine")}))


def test_broken_entries_are_named() -> None:
    broken = BASES["ppo"].replace(extra={})
    raw = bytearray(sbformat.writes(broken))
    at = raw.index(b"policy.pth") + 200
    raw[at] ^= 0xFF
    with pytest.raises(sbformat.SbformatError, match=r"policy\.pth"):
        rebuild(bytes(raw))


@pytest.mark.usefixtures("any_network")
def test_a_discrete_space_of_the_oldest_gym_starts_at_zero() -> None:
    made, _, _ = rebuilt(with_keys(action_space=blob(discrete(3, "gym"))))
    found: Any = made.decode("action_space")
    assert (found.n, found.start, found.library) == (3, 0, "gymnasium")
    assert decode(made.data["action_space"]) == found


def test_no_class_takes_the_place_of_a_value() -> None:
    partial = call("functools", "partial", Global("torch.nn.modules.activation", "LeakyReLU"))
    noise = new("stable_baselines3.common.noise", "VectorizedActionNoise", {"n_envs": 1})
    for content in (Global("torch.nn.modules.linear", "Linear"), partial, schedule("ConstantSchedule", val=1.0), noise):
        keys = {"gamma", "n_epochs", "ep_info_buffer", *(() if content is noise else ("action_noise",))}
        made, _, _ = rebuilt(with_keys(**dict.fromkeys(keys, blob(content))))
        assert sbformat.scan(sbformat.writes(made)).verdict == "clean"
        assert not keys & made.data.keys()


@pytest.mark.parametrize("part", with_exhaustive([4], [1]))
def test_texts_and_lists_that_are_shared_a_million_times_cost_nothing(part: int) -> None:
    text, row = "x" * 200_000, [0] * 300
    for content in ([text] * (20_000 // part), [[row] * 300] * (300 // part), {"a": [text] * (20_000 // part)}):
        given = {"net_arch": [8, 8], "optimizer_kwargs": {"a": content}}
        mine, arguments = (pickle.dumps(value) for value in (content, given))
        made, _, _ = rebuilt(with_keys(mine=Serialized("x", mine), policy_kwargs=Serialized("x", arguments)))
        assert made.entries["data"].size < 10_000_000


@pytest.mark.each_value
@pytest.mark.parametrize("key", ["_update_learning_rate", "predict", "_setup_model"])
@pytest.mark.parametrize("value", [None, 5, schedule("ConstantSchedule", val=1.0)])
def test_nothing_takes_the_place_of_a_method(key: str, value: Any) -> None:
    archive = with_keys(**{key: blob(value) if isinstance(value, Call) else value})
    made, _, _ = rebuilt(archive)
    assert key not in made.data
    assert isinstance(value, (int, type(None))) or sbformat.scan(sbformat.writes(archive)).verdict == "unknown"


def test_arguments_go_with_the_class_that_is_dropped() -> None:
    given = {"features_extractor_class": SYSTEM, "features_extractor_kwargs": {"a": 1}, "net_arch": [8, 8]}
    made, _, _ = rebuilt(with_keys(policy_kwargs=blob(given)))
    assert made.data["policy_kwargs"] == {"net_arch": [8, 8]}


def test_a_published_schedule_keeps_its_value_whatever_its_line_table() -> None:
    """CPython 3.12.7 writes another one than 3.12.1 for the same code."""
    clip_range = BASES["old"].data["clip_range"]
    changed = clip_range.pickle.replace(b"C\x02\x00\x01", b"C\x02\x00\x02")
    assert changed != clip_range.pickle
    made, rows, _ = rebuilt(with_keys("old", clip_range=Serialized(clip_range.type, changed)))
    assert made.data["clip_range"] == 0.2
    assert rows["clip_range"].action == "translated"


def test_an_object_of_a_carried_class_is_no_schedule_that_is_known() -> None:
    cls = call(
        "cloudpickle.cloudpickle", "_make_skeleton_class", Global("builtins", "type"), "Linear",
        (Global("builtins", "object"),), {"__module__": "__main__"}, "id", None,
    )  # fmt: skip
    value = change(Call("NEWOBJ", cls, ()), {"start": 0.5})
    made, rows, _ = rebuilt(with_keys(learning_rate=blob(value), lr_schedule=blob(value)))
    assert "learning_rate" not in made.data
    assert rows["learning_rate"].action == "dropped"
    assert "object of Linear" in rows["learning_rate"].message
    assert rows["lr_schedule"].action == "dropped"
