"""``rebuild`` for SB3 1.6 to 1.8: spaces of gym 0.21, and what these releases lack (REBUILDING.md 15)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import numpy as np
import pytest

import sbformat
from sbformat import Serialized, UnsupportedError
from sbformat.known.spaces import Box, DictSpace, Discrete, Graph, MultiBinary, MultiDiscrete, Space, TupleSpace
from sbformat.known.types import Reference
from sbformat.pkl.numpy import ArrayInfo
from sbformat.tools.rebuild import rebuild
from sbformat.values import decode, encode
from tests.helpers.build_blobs import discrete, new
from tests.helpers.bundled import ARCHIVES
from tests.helpers.many_cases import check_each
from tests.helpers.old_archives import BASES, blob, rebuilt, reference, with_keys
from tests.tools.rebuild.test_networks import arrays, ars, extractor, her, numbers, with_network

OLD: Final = ("1.6", "1.7", "1.8")
HER_BUFFER: Final = reference("stable_baselines3.her.her_replay_buffer", "HerReplayBuffer")


# -- spaces -------------------------------------------------------------------------------------------


def choices(*items: int) -> ArrayInfo:
    return ArrayInfo("<i8", (len(items),), "C", np.array(items).tobytes(), is_scalar=False)


def read(data: bytes) -> Any:
    return decode(Serialized("<class 'x'>", data))


BOX: Final = Box("gymnasium", (), "<f4", *(ArrayInfo("<f4", (), "C", bytes(4), is_scalar=False),) * 2, None)
SPACES: Final = (
    BOX,
    Discrete("gymnasium", 3, 0, "<i8", None),
    MultiDiscrete("gymnasium", choices(2, 3), choices(0, 0), "<i8", None),
    MultiDiscrete("gymnasium", choices(2, 3), None, "<i8", None),
    MultiBinary("gymnasium", (4,), "|i1", None),
    DictSpace("gymnasium", {"b": BOX, "a": BOX}, None),
    TupleSpace("gymnasium", (BOX,), None),
)


@check_each("target", OLD)
@check_each("space", SPACES)
def test_a_space_is_gyms_with_the_attributes_of_gym_0_21(target: str, space: Space) -> None:
    data = encode(space, target)
    again = read(data)
    assert again.library == "gym"
    assert type(again) is type(space)
    assert b"gym.spaces." in data
    assert not any(word in data for word in (b"gymnasium", b"start", b"sort_keys", b"numpy.core", b"numpy._core"))
    assert encode(again, target) == data
    assert encode(again, "2.9") == encode(read(encode(space, "2.9")), "2.9")


@check_each(("space", "message"), [
    (Discrete("gymnasium", 3, 1, "<i8", None), "do not start at 0, and gym has no such space"),
    (MultiDiscrete("gymnasium", choices(2, 3), choices(0, 1), "<i8", None), "do not start at 0"),
    (Graph("gymnasium", BOX, None, None), "has no form without code"),
])  # fmt: skip
def test_a_space_that_gym_0_21_lacks_is_refused(space: Space, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        encode(space, "1.8")
    with pytest.raises(UnsupportedError, match="exists since SB3 2.0, not in 1.8"):
        encode(Reference("gymnasium.spaces.text", "Text"), "1.8")


@check_each("name", ["dict_space", "dict"])
def test_every_name_of_a_space_becomes_that_of_the_target(name: str) -> None:
    for target, wanted in (("1.8", "gym.spaces.dict.Dict"), ("2.0", "gymnasium.spaces.dict.Dict")):
        assert str(read(encode(Reference(f"gym.spaces.{name}", "Dict"), target))) == wanted


@check_each("target", OLD)
def test_an_agent_of_today_has_the_spaces_of_gym(target: str) -> None:
    made, rows, report = rebuilt(BASES["ppo"], target=target)
    space = made.data["observation_space"]
    assert isinstance(space, Serialized)
    assert space.type == "<class 'gym.spaces.box.Box'>"
    assert "a space of gym instead of gymnasium" in rows["observation_space"].message
    assert "encoded again" in rebuilt(BASES["old"], target=target)[1]["observation_space"].message
    assert report.findings == ()
    again, rows, _ = rebuilt(made)
    assert "a space of gymnasium instead of gym" in rows["observation_space"].message
    assert again.parameters == rebuild(BASES["ppo"]).archive.parameters


# -- keys and arguments -------------------------------------------------------------------------------


def test_a_key_that_the_target_does_not_read_is_a_finding_unless_it_is_the_usual() -> None:
    given = {"n_steps": 3, "_stats_window_size": 100}
    _, rows, _ = rebuilt(with_keys("sac", **given), target="1.6")
    assert "not a key of SB3 1.6: it exists since 2.7" in rows["n_steps"].message
    assert (rows["n_steps"].is_finding, rows["n_steps"].instead) == (True, "1")
    assert (rows["_stats_window_size"].action, rows["_stats_window_size"].is_finding) == ("dropped", False)
    assert rebuilt(with_keys("sac", **given), target="1.8")[1]["_stats_window_size"].action == "kept"
    made, rows, _ = rebuilt(BASES["ppo"], target="2.0")
    assert made.data["n_steps"] == BASES["ppo"].data["n_steps"]  # of PPO, which always had it
    assert rows["rollout_buffer_class"].is_finding is False
    assert "rollout_buffer_class" not in made.data
    with pytest.raises(UnsupportedError, match=r"n_steps: not a key of SB3 1\.8"):
        rebuild(BASES["sac"], target="1.8", assign={"n_steps": 3})


@pytest.mark.usefixtures("any_network")
@check_each(("given", "pi", "vf"), [
    ([4, 8], [4, 8], [4, 8]), ({"pi": [4]}, [4], []), ({"vf": [4], "pi": [2]}, [2], [4]),
    ([{"pi": [3], "vf": [4]}], [3], [4]),
])  # fmt: skip
def test_layers_of_their_own_stay_their_own_where_a_list_would_share_them(given: Any, pi: Any, vf: Any) -> None:
    for target, wanted in (("1.6", [{"pi": pi, "vf": vf}]), ("1.7", {"pi": pi, "vf": vf}), ("1.8", given)):
        made, _, _ = rebuilt(with_keys(policy_kwargs={"net_arch": given}), target=target)
        assert made.data["policy_kwargs"]["net_arch"] == wanted
    made, _, _ = rebuilt(with_keys("sac", policy_kwargs={"net_arch": [4, 8], "use_sde": False}), target="1.6")
    assert made.data["policy_kwargs"]["net_arch"] == [4, 8]


@check_each(("target", "is_shared"), [("1.6", True), ("1.7", True), ("1.8", False)])
def test_shared_layers_stay_shared_where_they_can(target: str, is_shared: bool) -> None:  # noqa: FBT001
    made, _, _ = rebuilt(BASES["old"], target=target)
    assert any("shared_net" in name for name in arrays(made)) == is_shared
    given: Any = BASES["old"].decode("policy_kwargs")
    assert (made.data["policy_kwargs"]["net_arch"] == given["net_arch"]) == is_shared
    assert arrays(rebuilt(made)[0]).keys() == arrays(rebuild(BASES["old"]).archive).keys()


def test_arguments_of_the_her_buffer_are_those_of_the_target() -> None:
    parts = {name: discrete() for name in ("achieved_goal", "desired_goal", "observation")}
    space = blob(new("gymnasium.spaces.dict", "Dict", {"spaces": parts, "_np_random": None}))
    old, now = {"online_sampling": True, "max_episode_length": 7}, {"copy_info_dict": True}
    archive = with_keys(
        "sac", replay_buffer_class=HER_BUFFER, observation_space=space, replay_buffer_kwargs={**old, **now}
    )
    for target, wanted in (("1.6", old), ("1.7", old), ("1.8", now), ("2.9", now)):
        made, rows, _ = rebuilt(archive, target=target, policy_class="mine.Policy")
        assert made.data["replay_buffer_kwargs"] == wanted
        assert ("trains in one environment" in rows["replay_buffer_class"].message) == (target < "1.8")


def test_her_as_an_algorithm_keeps_what_the_buffer_of_the_target_takes() -> None:
    made, rows, _ = rebuilt(her(), target="1.6")
    assert made.data["replay_buffer_kwargs"]["max_episode_length"] == 7
    assert made.data["replay_buffer_kwargs"]["online_sampling"] is True
    assert rows["max_episode_length"].action == "translated"
    made, rows, _ = rebuilt(her(), target="1.8")
    assert "max_episode_length" not in made.data["replay_buffer_kwargs"]
    assert rows["max_episode_length"].action == "dropped"


# -- networks -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("any_network")
def test_a_features_extractor_has_one_name_before_1_7() -> None:
    rest = {"action_net.weight": numbers(2, 6), "value_net.weight": numbers(1, 6)}
    now, _, _ = rebuilt(with_network({**extractor(), **rest}))
    made, rows, _ = rebuilt(now, target="1.6")
    assert list(arrays(made)) == [*extractor(), *rest]
    assert "has one name before SB3 1.7" in rows["policy.pth"].message
    assert len(arrays(made, "policy.optimizer")["state"]) == 4
    assert arrays(rebuilt(now, target="1.7")[0]).keys() == arrays(now).keys()
    apart = {**extractor(), **extractor("pi_features_extractor."), **extractor("vf_features_extractor."), **rest}
    with pytest.raises(UnsupportedError, match="extractors of their own, which SB3 before 1.7"):
        rebuild(with_network(apart), target="1.6")


@pytest.mark.usefixtures("any_network")
def test_an_argument_that_1_6_lacks_is_dropped_if_the_network_is_the_same() -> None:
    arguments = {"share_features_extractor": True, "features_extractor_kwargs": {"normalized_image": True}}
    made, rows, report = rebuilt(with_keys(policy_kwargs=arguments), target="1.6", policy_class="CnnPolicy")
    assert made.data["policy_kwargs"] == {"features_extractor_kwargs": {}}
    assert report.findings == ()
    assert rows["policy_kwargs/share_features_extractor"].action == "dropped"


@pytest.mark.usefixtures("any_network")
def test_the_linear_layer_of_ars_has_no_number_before_1_7() -> None:
    for name in ("action_net.weight", "action_net.0.weight"):
        assert list(arrays(rebuilt(ars(name), target="1.6")[0])) == ["action_net.weight"]
        assert list(arrays(rebuilt(ars(name), target="1.7")[0])) == ["action_net.0.weight"]


@pytest.mark.usefixtures("any_network")
def test_ars_of_today_that_does_not_squash_is_refused_for_1_6() -> None:
    archive = with_keys(
        n_delta=8, pop_size=16, policy_class=reference("sb3_contrib.ars.policies", "ARSPolicy"),
        policy_kwargs={"squash_output": False}, action_space=BASES["sac"].data["action_space"],
    )  # fmt: skip
    archive = archive.replace(
        parameters={"policy": OrderedDict({"action_net.0.weight": numbers(2, 4)}), "policy.optimizer": None}
    )
    with pytest.raises(UnsupportedError, match="ARS of SB3 before 1.7 always squashes"):
        rebuild(archive, target="1.6")
    old = archive.replace(stable_baselines3_version="1.6.2")
    assert rebuilt(old, target="1.6")[0].data["policy_kwargs"]["squash_output"] is False
    assert rebuilt(archive, target="1.7")[0].data["policy_kwargs"]["squash_output"] is False


# -- files beside it ----------------------------------------------------------------------------------


def test_statistics_have_the_attributes_of_the_target() -> None:
    value, report = sbformat.rebuild_vecnormalize(ARCHIVES / "vecnormalize-pendulum.pkl", target="1.8")
    data = sbformat.writes_vecnormalize(value, target="1.8")
    assert not any(word in data for word in (b"gymnasium", b"reset_infos", b"render_mode", b"_seeds"))
    assert {row.key: row.message for row in report.rows}["action_space"] == "a space of gym instead of gymnasium"
    assert sbformat.read_vecnormalize(data).obs_rms == value.obs_rms


def test_a_file_of_policy_save_is_in_the_form_of_the_target() -> None:
    for target in OLD:
        content, report = sbformat.rebuild_policy(ARCHIVES / "policy-box.pth", target=target)
        assert sbformat.reads(content).decode("observation_space").library == "gym"
        assert sbformat.scan(content).verdict == "clean"
        assert report.target.startswith(target)
    made = sbformat.reads(sbformat.rebuild_policy(ARCHIVES / "policy-box.pth", target="1.6").content)
    assert isinstance(made.decode("net_arch"), list)
    assert "share_features_extractor" not in made.data
