"""``edit``: other values, weights and entries, without torch and SB3."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators import build_pth
from conformance.generators.build_zips import is_terminal_safe
from sbformat import (
    Archive,
    DataError,
    MissingEntryError,
    SbformatError,
    Serialized,
    UnsupportedError,
    ValidationError,
)
from sbformat.tools.diff import diff
from sbformat.tools.edit import edit
from tests.helpers.attacks import stream
from tests.helpers.bundled import PPO, SAC, changed, entries, set_data, with_data
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from pathlib import Path

BASE: Final = sbformat.read(PPO)
WEIGHTS: Final = BASE.parameters["policy"].to_numpy()


def errors(archive: Archive) -> list[str]:
    return [problem.message for problem in sbformat.iter_problems(archive) if problem.level == "error"]


def written(archive: Archive) -> Archive:
    """As it is read again."""
    again = sbformat.reads(sbformat.writes(archive))
    assert again == archive
    return again


def changed_places(old: Archive, new: Archive) -> list[str]:
    return [f"{row.entry} {row.loc}".strip() for row in diff(old, new).changes]


def test_nothing_asked_for_is_nothing_done() -> None:
    assert edit(BASE).archive is BASE


# -- data ---------------------------------------------------------------------------------------------


def test_a_key_gets_a_value_and_all_else_stays_byte_for_byte() -> None:
    edited, problems = edit(BASE, assign={"gamma": 0.5})
    assert problems == ()
    assert edited.data["gamma"] == 0.5
    assert BASE.data["gamma"] == 0.99
    assert changed_places(BASE, edited) == ["data /gamma"]
    assert bytes(edited.raw("data")) == entries()["data"].replace(b'"gamma": 0.99', b'"gamma": 0.5')
    again = written(edited)
    for name in BASE.entries:
        assert name == "data" or again.raw(name) == BASE.raw(name)


def test_replace_refuses_the_values_that_edit_refuses() -> None:
    for key, value in (("observation_space", None), ("seed", -1), ("n_steps", 1000.5), ("policy_class", "MlpPolicy")):
        messages = []
        for change in (
            lambda: BASE.replace(data={**BASE.data, key: value}),  # noqa: B023 -- called here
            lambda: edit(BASE, assign={key: value}),  # noqa: B023
            lambda: sbformat.new(BASE, {"policy": WEIGHTS}, data={key: value}),  # noqa: B023
        ):
            with pytest.raises(ValidationError, match=f"data: /{key}: expected") as caught:
                change()
            messages.append(str(caught.value))
        assert len({*messages}) == 1
    wrong = set_data(BASE, {**BASE.data, "gamma": float("nan"), "n_steps": [1]})
    assert wrong.replace(data={**wrong.data, "seed": 5}).data["seed"] == 5
    with pytest.raises(ValidationError, match="data: /n_steps: expected"):
        wrong.replace(data={**wrong.data, "n_steps": [2]})
    missing = BASE.replace(data={key: value for key, value in BASE.data.items() if key != "observation_space"})
    assert errors(missing)


def test_an_optimizer_whose_content_is_of_no_optimizer_is_dropped() -> None:
    for tree in ({"x": 1}, {"state": 1, "param_groups": 2}, [1], {"state": {0: 1}, "param_groups": [3]}):
        wrong = BASE.replace(parameters={"policy.optimizer": BASE.parameters["policy.optimizer"].with_tree(tree)})
        edited = edit(wrong, drop_optimizer=True).archive
        assert "policy.optimizer" not in edited.parameters
        assert "policy.optimizer" in sbformat.rebuild(edited).archive.parameters


def test_keys_that_sb3_knows_can_be_added() -> None:
    edited, _ = edit(
        BASE.replace(data={k: v for k, v in BASE.data.items() if k != "target_kl"}), assign={"target_kl": 0.1}
    )
    assert list(edited.data)[-1] == "target_kl"


@check_each(
    ("pairs", "wanted"),
    [
        ([("/policy_kwargs/net_arch", [64, 64])], {"net_arch": [64, 64]}),
        ([("/policy_kwargs/net_arch/0", 16)], {"net_arch": [16, 8]}),
        ([("/policy_kwargs/net_arch/-", 16), ("/policy_kwargs/net_arch/-", 32)], {"net_arch": [8, 8, 16, 32]}),
        ([("/policy_kwargs/a~1b~0c~01", 1)], {"net_arch": [8, 8], "a/b~c~1": 1}),
        ([("/policy_kwargs/", 1)], {"net_arch": [8, 8], "": 1}),
        ([("/policy_kwargs", {}), ("/policy_kwargs/x", {"y": []}), ("/policy_kwargs/x/y/-", 1)], {"x": {"y": [1]}}),
    ],
)
def test_json_pointers_lead_anywhere(pairs: list[tuple[str, Any]], wanted: Any) -> None:
    edited, _ = edit(BASE, assign=pairs, allow_mismatch=True)
    assert edited.data["policy_kwargs"] == wanted
    assert BASE.data["policy_kwargs"] == {"net_arch": [8, 8]}


@check_each(
    ("target", "kind", "words"),
    [
        ("/policy_kwargs/net_arch/2", MissingEntryError, "item"),
        ("/policy_kwargs/net_arch/-1", MissingEntryError, "item"),
        ("/policy_kwargs/net_arch/01", MissingEntryError, "item"),
        ("/policy_kwargs/net_arch/\u0660", MissingEntryError, "item"),
        ("/policy_kwargs/net_arch/9999999999999999", MissingEntryError, "item"),
        ("/policy_kwargs/net_arch/-/x", MissingEntryError, "item"),
        ("/policy_kwargs/net_arhc/0", MissingEntryError, "did you mean '/policy_kwargs/net_arch'"),
        ("/polcy_kwargs/net_arch", MissingEntryError, "did you mean 'policy_kwargs'"),
        ("/policy_kwargs/net_arch/0/x", UnsupportedError, "neither an object nor an array"),
        ("/gamma/x", UnsupportedError, "neither an object nor an array"),
        ("/gamma/x/y", UnsupportedError, "neither an object nor an array"),
        ("/seed/0/0", UnsupportedError, "neither an object nor an array"),
        ("/policy_class/x", UnsupportedError, "serialized value"),
        ("/policy_class/x/y", UnsupportedError, "serialized value"),
        ("/policy_class/:serialized:", UnsupportedError, "serialized value"),
        ("/policy_kwargs/~2", UnsupportedError, "pointer"),
        ("/policy_kwargs/~", UnsupportedError, "pointer"),
        ("/policy_kwargs/\x1b[2J/x", MissingEntryError, "key"),
        ("gama", MissingEntryError, "did you mean 'gamma'"),
        ("/gama", MissingEntryError, "did you mean 'gamma'"),
        ("", MissingEntryError, "key of SB3"),
        ("/", MissingEntryError, "key of SB3"),
    ],
)
def test_bad_places_are_refused(target: str, kind: type[SbformatError], words: str) -> None:
    for asked in ({"assign": {target: 1}}, {"unset": [target]}):
        with pytest.raises(kind) as caught:
            edit(BASE, **asked)  # type: ignore[arg-type]
        assert is_terminal_safe(str(caught.value))
        if "assign" in asked:
            assert words in str(caught.value)


def test_unknown_keys_are_taken_when_asked_for() -> None:
    edited, problems = edit(BASE, assign={"mine": 1, "a/b": 2}, unknown_keys=True)
    assert (edited.data["mine"], edited.data["a/b"], problems) == (1, 2, ())


def test_values_against_the_schema_are_refused_together() -> None:
    with pytest.raises(ValidationError) as caught:
        edit(BASE, assign={"gamma": "high", "n_steps": -1, "ent_coef": 0.1})
    assert {row.loc for row in caught.value.problems} == {"/gamma", "/n_steps"}
    assert is_terminal_safe(str(caught.value))


def test_integers_are_written_without_a_fraction() -> None:
    """SB3 counts with them: ``range(1000.0)`` is a TypeError."""
    for key, given, written in (
        ("n_steps", 1e3, 1000),
        ("n_epochs", 5.0, 5),
        ("num_timesteps", 1e6, 1e6),
        ("gamma", 1.0, 1.0),
    ):
        value = edit(PPO, assign={key: given}).archive.data[key]
        assert (value, type(value)) == (written, type(written)), key
    with pytest.raises(ValidationError, match="expected an integer >= 1 or a serialized value, got 1.5"):
        edit(PPO, assign={"n_steps": 1.5})
    (problem,) = sbformat.iter_problems(with_data(lambda data: data.update(n_steps=1000.0)))
    assert problem.message == "expected an integer >= 1 or a serialized value, got 1000.0"


def test_an_unusual_value_is_written_with_a_warning() -> None:
    archive, problems = edit(PPO, assign={"num_timesteps": 1.5})
    assert archive.data["num_timesteps"] == 1.5
    message = "expected a whole number >= 0 or a serialized value, got 1.5; it is unusual, but accepted"
    assert [(row.loc, row.level, row.message) for row in problems] == [("/num_timesteps", "warning", message)]


def test_errors_that_were_there_do_not_hinder_other_edits() -> None:
    broken = sbformat.reads(with_data(lambda data: data.update(gamma="high", n_steps=[1])))
    edited, problems = edit(broken, assign={"seed": 3})
    assert (edited.data["gamma"], problems) == ("high", ())
    assert edit(broken, assign={"gamma": 0.9}).archive.data["gamma"] == 0.9
    with pytest.raises(ValidationError, match="n_steps"):
        edit(broken, assign={"n_steps": [2]})


@pytest.mark.parametrize("value", [{1: 2}, {"a": b"x"}, [{3}], object(), np.float32(1)])
def test_values_that_json_cannot_hold_are_refused(value: Any) -> None:
    with pytest.raises(DataError):
        edit(BASE, assign={"policy_kwargs": value})


def test_values_that_hold_themselves_or_are_deep_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    for value in (loop, deep):
        with pytest.raises(SbformatError):
            edit(BASE, assign={"policy_kwargs": {"x": value}})


def test_serialized_values_can_be_put_in_place() -> None:
    blob = Serialized(None, b"\x80\x04K\x07.")
    assert edit(BASE, assign={"lr_schedule": blob}).archive.data["lr_schedule"] == blob
    edited, _ = edit(BASE, assign={"/policy_kwargs/x": blob}, allow_mismatch=True)
    assert written(edited).data["policy_kwargs"]["x"] == blob.to_json()
    with pytest.raises(DataError, match=":serialized:"):
        edit(BASE, assign={"lr_schedule": blob.to_json()})


def test_unset_removes_keys_and_items() -> None:
    edited, problems = edit(BASE, unset=["lr_schedule", "/policy_kwargs/net_arch/0"], allow_mismatch=True)
    assert "lr_schedule" not in edited.data
    assert edited.data["policy_kwargs"] == {"net_arch": [8]}
    assert {(problem.entry, problem.kind) for problem in problems} == {("policy.pth", "mismatch")}
    with pytest.raises(MissingEntryError, match="did you mean 'lr_schedule'"):
        edit(BASE, unset=["lr_shedule"])
    with pytest.raises(MissingEntryError):
        edit(BASE, unset=["seed", "seed"])


def test_what_sb3_needs_can_be_removed_and_is_told() -> None:
    edited, problems = edit(BASE, unset=["policy_class"], drop=["policy.optimizer"])
    assert {(problem.entry, problem.kind) for problem in problems} == {
        ("data", "missing-key"), ("policy.optimizer.pth", "missing-entry"),
    }  # fmt: skip
    assert edit(edited, assign={"gamma": 0.5}).problems == ()


def test_there_is_no_data_to_edit() -> None:
    with pytest.raises(MissingEntryError, match="'data'"):
        edit(sbformat.reads(entries()["policy.pth"]), assign={"gamma": 1})
    with pytest.raises(DataError):
        edit(sbformat.reads(changed(data=b"[]")), assign={"gamma": 1})


def test_bare_data_can_be_edited() -> None:
    edited, _ = edit(sbformat.reads(entries()["data"]), assign={"gamma": 0.5})
    assert written(edited).data["gamma"] == 0.5


def test_one_broken_entry_does_not_hinder_edits_elsewhere() -> None:
    broken = sbformat.reads(changed(policy_optimizer_pth=b"junk"))
    edited, problems = edit(broken, assign={"gamma": 0.5}, weights=WEIGHTS)
    assert problems == ()
    assert bytes(written(edited).raw("policy.optimizer.pth")) == b"junk"
    dropped = edit(broken, drop=["policy.optimizer.pth"])
    assert dropped.problems != ()
    assert edit(broken, drop_optimizer=True) == dropped


# -- weights ------------------------------------------------------------------------------------------


def halves() -> dict[str, np.ndarray]:
    return {name: (array / 2).astype("f8") for name, array in WEIGHTS.items()}


def test_weights_by_the_names_of_the_policy() -> None:
    edited, problems = edit(BASE, weights=halves())
    assert problems == ()
    found = written(edited).parameters["policy"]
    for name, info in found.tensors().items():
        assert info.dtype == "float32"
        assert np.array_equal(found.array(name), WEIGHTS[name] / 2)
    old = BASE.parameters["policy"].tensors()
    assert [(n, i.shape, i.requires_grad, i.is_parameter) for n, i in found.tensors().items()] == [
        (n, i.shape, i.requires_grad, i.is_parameter) for n, i in old.items()
    ]
    assert {place.split()[0] for place in changed_places(BASE, edited)} == {"policy.pth"}


def test_weights_by_address_of_several_state_dicts() -> None:
    archive = sbformat.read(SAC)
    weights = {}
    for name in ("policy", "critic.optimizer", "pytorch_variables"):
        state_dict = archive.state_dict(f"{name}.pth")
        weights |= {f"{name}:{path}": np.asarray(state_dict.array(path)) + 1 for path in state_dict.tensors()}
    edited, problems = edit(archive, weights=weights)
    assert problems == ()
    again = written(edited)
    path = "state/[0]/exp_avg"
    assert np.array_equal(again.parameters["critic.optimizer"].array(path), weights[f"critic.optimizer:{path}"])
    assert again.pytorch_variables is not None
    assert np.array_equal(again.pytorch_variables.array("log_ent_coef"), weights["pytorch_variables:log_ent_coef"])
    assert again.raw("actor.optimizer.pth") == archive.raw("actor.optimizer.pth")


def test_all_that_does_not_fit_is_listed() -> None:
    weights: dict[str, Any] = {**WEIGHTS, "extra": np.zeros(1), "nothing:here": np.zeros(1)}
    weights["action_net.bias"] = np.zeros(3)
    weights["value_net.bias"] = np.zeros(1, "c8")
    del weights["value_net.weight"]
    weights["policy.optimizer:state/[0]/exp_avg"] = np.zeros((8, 4))
    with pytest.raises(ValidationError) as caught:
        edit(BASE, weights=weights)
    found = {row.loc: row.kind for row in caught.value.problems}
    assert found["policy:extra"] == found["policy:nothing:here"] == "unexpected"
    assert found["policy:action_net.bias"] == "shape"
    assert found["policy:value_net.bias"] == "dtype"
    assert found["policy:value_net.weight"] == "missing"
    assert found["policy.optimizer:state/[1]/exp_avg"] == "missing"
    assert is_terminal_safe(str(caught.value))


def test_an_optimizer_whose_state_is_damaged_can_be_dropped(tmp_path: Path) -> None:
    data = bytearray(SAC.read_bytes())
    with zipfile.ZipFile(SAC) as file, zipfile.ZipFile(file.open("actor.optimizer.pth")) as records:
        tensor = max((records.read(name) for name in records.namelist() if "/data/" in name), key=len)
    data[data.index(tensor) + len(tensor) // 2] ^= 1
    path = tmp_path / "damaged.zip"
    path.write_bytes(data)
    with pytest.raises(sbformat.ContainerError, match=r"actor.optimizer.pth: expected CRC-32"):
        sbformat.read(path).parameters["actor.optimizer"].check()
    edited = edit(path, drop_optimizer=True).archive
    sbformat.write(edited, tmp_path / "edited.zip")
    sbformat.read(tmp_path / "edited.zip").check()
    before, after = sbformat.read(SAC).parameters, sbformat.read(tmp_path / "edited.zip").parameters
    assert after["actor.optimizer"].tree["param_groups"] == before["actor.optimizer"].tree["param_groups"]
    assert after["actor.optimizer"].tree["state"] == {}
    sbformat.rebuild(tmp_path / "edited.zip")


def list_damages(raw: bytes) -> dict[str, bytes]:
    """An optimizer's entry, damaged in ways that its options do not survive."""
    places = {
        "header": 0,
        "header of a record": 6,
        "directory": raw.index(b"PK\1\2") + 10,
        "end": raw.rindex(b"PK\5\6") + 8,
    }
    flipped = {name: raw[:at] + bytes([raw[at] ^ 255]) + raw[at + 1 :] for name, at in places.items()}
    return {
        **flipped, "empty": b"", "text": b"<html>not found</html>", "garbage": bytes(range(256)),
        "zeros": bytes(len(raw)), "half": raw[: len(raw) // 2], "last byte": raw[:-1],
    }  # fmt: skip


@pytest.mark.parametrize("path", [PPO, SAC])
def test_a_damaged_optimizer_is_dropped_and_rebuild_makes_a_new_one(path: Path) -> None:
    """No damage matters: neither with the CRC of what was damaged, nor with that of the whole entry."""
    archive = sbformat.read(path)
    name = "policy.optimizer" if path == PPO else "critic.optimizer"
    entry = f"{name}.pth"
    raw, whole = bytes(archive.raw(entry)), changed(path)
    expected = sbformat.rebuild(edit(archive, drop_optimizer=True).archive).archive
    damages = list_damages(raw)
    damaged = {what: changed(path, **{entry.replace(".", "_"): data}) for what, data in damages.items()}
    damaged |= {f"CRC, {what}": whole.replace(raw, data) for what, data in damages.items() if len(data) == len(raw)}
    for what, data in damaged.items():
        broken = sbformat.reads(data)
        with pytest.raises(SbformatError):
            broken.parameters[name].check()
        edited, problems = edit(broken, drop_optimizer=True)
        assert [(row.entry, "rebuild makes a new one" in row.message) for row in problems] == [(entry, True)], what
        made = sbformat.rebuild(written(edited)).archive
        assert errors(made) == [], what
        for key, optimizer in expected.parameters.items():
            found, wanted = made.parameters[key].to_numpy(), optimizer.to_numpy()
            if key == name:
                (group,), (old,) = found["param_groups"], wanted["param_groups"]
                assert found["state"] == {}
                assert group["params"] == old["params"], what
                assert {option: old[option] for option in group} == group, what
            else:
                np.testing.assert_equal(found, wanted)


def test_a_damaged_legacy_optimizer_is_not_taken_for_whole() -> None:
    """It has no CRC but that of its entry: a learning rate may be another, and nothing shows it."""
    raw = stream(build_pth.dumps({"state": {0: {}}, "param_groups": [{"lr": 0.25, "params": [0]}]}))
    whole = changed(policy_optimizer_pth=raw)
    assert "policy.optimizer" in edit(sbformat.reads(whole), drop_optimizer=True).archive.parameters
    rate = struct.pack(">d", 0.25)
    damaged = whole.replace(rate, struct.pack(">d", 0.125))
    assert damaged != whole
    assert "policy.optimizer" not in edit(sbformat.reads(damaged), drop_optimizer=True).archive.parameters


def test_a_tensor_is_given_once() -> None:
    with pytest.raises(ValidationError, match="twice"):
        edit(BASE, weights={**WEIGHTS, "policy:value_net.bias": np.zeros(1)})


def test_tensors_that_are_one_stay_one() -> None:
    shared, other = np.arange(400, dtype="f4"), np.ones(3, "f4")
    names = ["features_extractor.w", "pi_features_extractor.w", "vf_features_extractor.w"]
    archive = BASE.replace(parameters={"policy": {**dict.fromkeys(names, shared), "b": other}})
    size = archive.entries["policy.pth"].size
    for weights in (
        {**{name: shared.copy() * 2 for name in names}, "b": other},
        {names[0]: shared * 2, "b": other},
    ):
        edited, _ = edit(archive, weights=weights)
        assert abs(edited.entries["policy.pth"].size - size) < 256
        tree: Any = written(edited).parameters["policy"].tree
        assert tree[names[0]].storage is tree[names[2]].storage
        assert np.array_equal(edited.parameters["policy"].array(names[1]), shared * 2)


def test_weights_of_a_lone_file_go_to_its_only_state_dict(tmp_path: Path) -> None:
    (tmp_path / "mine.pth").write_bytes(entries()["policy.pth"])
    edited, _ = edit(sbformat.read(tmp_path / "mine.pth"), weights=halves())
    assert np.array_equal(edited.parameters["mine"].array("value_net.bias"), WEIGHTS["value_net.bias"] / 2)


def test_weights_need_a_state_dict() -> None:
    with pytest.raises(MissingEntryError, match="'policy'"):
        edit(BASE.without("policy.pth"), weights=WEIGHTS)


# -- entries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [PPO, SAC])
def test_optimizers_are_emptied_and_the_archive_stays_valid(path: Path) -> None:
    archive = sbformat.read(path)
    edited, problems = edit(archive, drop_optimizer=True)
    assert problems == ()
    again = written(edited)
    assert errors(again) == []
    optimizers = [name for name in again.parameters if "optimizer" in name]
    assert optimizers
    for name in optimizers:
        assert again.parameters[name]["state"] == {}
        assert again.parameters[name]["param_groups"] == archive.parameters[name]["param_groups"]
    assert again.raw("policy.pth") == archive.raw("policy.pth")
    assert len(sbformat.writes(again)) < len(sbformat.writes(archive))


def test_optimizers_that_are_empty_already_stay_byte_for_byte() -> None:
    once = edit(BASE, drop_optimizer=True).archive
    twice = edit(once, drop_optimizer=True).archive
    assert not any(twice.encode_entry(name)[1] and not once.encode_entry(name)[1] for name in twice.entries)
    assert sbformat.writes(twice) == sbformat.writes(once)


def test_there_is_no_optimizer() -> None:
    with pytest.raises(MissingEntryError, match="optimizer"):
        edit(BASE.without("policy.optimizer.pth"), drop_optimizer=True)


def test_entries_are_left_out() -> None:
    edited, problems = edit(BASE, drop=["system_info.txt", "policy.optimizer"])
    assert set(BASE.entries) - set(edited.entries) == {"system_info.txt", "policy.optimizer.pth"}
    assert [problem.entry for problem in problems] == ["policy.optimizer.pth"]
    assert edit(BASE, drop=["system_info.txt"]).problems == ()
    with pytest.raises(MissingEntryError, match=r"did you mean 'system_info.txt'"):
        edit(BASE, drop=["sytem_info.txt"])


def test_all_edits_together() -> None:
    edited, problems = edit(
        BASE,
        assign={"gamma": 0.5, "mine": float("inf"), "start_time": 2**80},
        unset=["seed"],
        weights=halves(),
        drop_optimizer=True,
        drop=["system_info.txt"],
        unknown_keys=True,
    )
    assert problems == ()
    again = written(edited)
    assert (again.data["gamma"], again.data["mine"], again.data["start_time"]) == (0.5, float("inf"), 2**80)
    assert "seed" not in again.data
    assert again.parameters["policy.optimizer"]["state"] == {}
    assert again.system_info is None
    assert json.loads(bytes(again.raw("data")))["gamma"] == 0.5
