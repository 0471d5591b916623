"""``rebuild``: classes carried by value become references to a module of the user's (REBUILDING.md 15.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from sbformat import Serialized, UnsupportedError, pkl, read, scan, write, writes
from sbformat.cli import main
from sbformat.pkl import Call, Global
from sbformat.pkl.encode import encode_pickle
from sbformat.tools.rebuild import rebuild
from tests.helpers.build_blobs import CLOUD, call, change, code_parts, function, new, tree
from tests.helpers.many_cases import check_each
from tests.helpers.old_archives import BASES, blob, rebuilt, with_keys
from tests.helpers.sb2_files import change_agent

if TYPE_CHECKING:
    from pathlib import Path

FLATTEN: Final = Global("stable_baselines3.common.torch_layers", "FlattenExtractor")
NET: Final = "__main__.Net"
OWN: Final = "mymodule.Net"


class Carried:
    """A class as cloudpickle carries it by value, with a method; ``form`` is that of a release of cloudpickle."""

    def __init__(self, form: str = "setter", name: str = "Net", module: str = "__main__", base: Any = FLATTEN) -> None:
        arguments = [Global("builtins", "type"), name, (base,), {"__module__": module}, f"{name} id", None]
        self.skeleton = call(CLOUD, "_make_skeleton_class", *arguments)
        method, method_setter = function(
            code_parts((lambda self: self).__code__), (), f"{name}.forward", __module__=module
        )
        attributes = {"__module__": module, "forward": method, "itself": self.skeleton}
        self.setters = {id(method): [method_setter]}
        self.cls = self.skeleton
        if form == "setter":
            self.setters[id(self.skeleton)] = [call(CLOUD, "_class_setstate", self.skeleton, (attributes, {}))]
        else:
            self.cls = call(CLOUD, "_rehydrate_skeleton_class", self.skeleton, attributes)

    def blob(self, content: object, kind: str = "<class 'dict'>", *others: Carried) -> Serialized:
        """A value of ``data`` that has the class, and maybe others."""
        setters = self.setters | {key: calls for other in others for key, calls in other.setters.items()}
        return Serialized(kind, encode_pickle(tree(content), protocol=5, setters=setters))


def assert_no_code(archive: Any) -> None:
    report = scan(writes(archive))
    assert not [finding for finding in report.findings if finding.rule.startswith("carried")]
    assert report.verdict != "code"


@check_each("form", ["setter", "filled"])
def test_a_class_carried_by_value_becomes_a_reference(form: str) -> None:
    carried = Carried(form)
    kwargs = {
        "net_arch": [8, 8],
        "features_extractor_class": carried.cls,
        "features_extractor_kwargs": {"x": carried.cls},
    }
    archive = with_keys(policy_kwargs=carried.blob(kwargs))
    _, rows, _ = rebuilt(archive)
    message = rows["policy_kwargs/features_extractor_class"].message
    assert f"--map {NET}=MODULE.Net (map_names=" in message
    assert "sbformat.sb3.load(..., custom_objects={KEY: VALUE})" in message
    made, rows, report = rebuilt(archive, map_names={NET: OWN})
    arguments: Any = made.decode("policy_kwargs")
    assert str(arguments["features_extractor_class"]) == OWN
    assert arguments["features_extractor_kwargs"] == {"x": Global("mymodule", "Net")}
    assert [(required.key, required.name) for required in report.requires] == [("policy_kwargs", OWN)]
    assert rows["policy_kwargs"].action == "translated"
    assert rows["policy_kwargs"].message.endswith(f"; {NET}, carried by value, is {OWN} now")
    assert "pickled by value" in str(rows["policy_kwargs"].was)
    assert report.findings == ()
    assert_no_code(made)


def test_the_command_maps_classes(tmp_path: Path) -> None:
    carried = Carried()
    source, out = tmp_path / "in.zip", tmp_path / "out.zip"
    write(with_keys(policy_kwargs=carried.blob({"net_arch": [8, 8], "activation_fn": carried.cls})), source)
    option = ["--map", f"{NET}={OWN}"]
    assert main(["rebuild", str(source), "-o", str(out), *option, *option]) == 0
    assert str(read(out).decode("policy_kwargs")["activation_fn"]) == OWN


@check_each("key", ["policy_class", "rollout_buffer_class"])
def test_a_class_that_is_a_value_itself_is_mapped(key: str) -> None:
    carried = Carried()
    made, rows, report = rebuilt(with_keys(**{key: carried.blob(carried.cls)}), map_names={NET: OWN})
    assert made.decode(key) == Global("mymodule", "Net")
    assert rows[key].action == "translated"
    assert [(required.key, required.name) for required in report.requires] == [(key, OWN)]
    assert_no_code(made)


def test_objects_of_a_class_that_is_mapped_are_kept() -> None:
    schedule, box = Carried(name="Slow"), Carried(name="MyBox")
    space: Any = pkl.loads(BASES["ppo"].data["observation_space"].pickle)
    space.func = box.cls
    archive = with_keys(
        learning_rate=schedule.blob(change(Call("NEWOBJ", schedule.cls, ()), {"start": 0.1})),
        observation_space=box.blob(space),
    )
    made, rows, report = rebuilt(archive, map_names={"__main__.Slow": "mine.Slow", "__main__.MyBox": "mine.MyBox"})
    for key, name in (("learning_rate", "mine.Slow"), ("observation_space", "mine.MyBox")):
        assert str(made.decode(key).func) == name
        assert rows[key].action == "translated"
        assert (key, name) in [(required.key, required.name) for required in report.requires]
    assert report.findings == ()
    assert_no_code(made)


def test_a_class_in_something_that_is_dropped_is_not_reported_as_mapped() -> None:
    carried = Carried()
    made, setter = function(
        code_parts((lambda: 1).__code__), (), "f", __module__="__main__", __dict__={"n": carried.cls}
    )
    carried.setters[id(made)] = [setter]
    kwargs = {"net_arch": [8, 8], "activation_fn": [carried.cls], "ortho_init": made}
    result, _, report = rebuilt(with_keys(policy_kwargs=carried.blob(kwargs)), map_names={NET: OWN})
    assert {row.key for row in report.findings} == {"policy_kwargs/activation_fn", "policy_kwargs/ortho_init"}
    assert result.decode("policy_kwargs") == {"net_arch": [8, 8]}
    assert_no_code(result)


@check_each("key", ["learning_rate", "clip_range", "clip_range_vf"])
def test_a_dropped_value_with_a_mapped_class_requires_nothing(key: str) -> None:
    carried = Carried()
    made, rows, report = rebuilt(with_keys(**{key: carried.blob([carried.cls])}), map_names={NET: OWN})
    assert key not in made.data
    assert rows[key].action == "dropped"
    assert report.requires == ()
    assert " now" not in str([row.message for row in report.rows if row.key == key])


@check_each(
    "target",
    [
        "os.system",
        "builtins.eval",
        "builtins.print",
        "mine.__class__.x",
        "torch.nn.ReLU",
        "torch.optim.adam.Adam",
        "Net",
        "a b.Net",
        "mine.",
    ],
)
def test_what_a_class_cannot_be_mapped_to(target: str) -> None:
    carried = Carried()
    with pytest.raises(UnsupportedError, match="cannot be mapped to"):
        rebuild(
            with_keys(policy_kwargs=carried.blob({"features_extractor_class": carried.cls})), map_names={NET: target}
        )


def test_a_class_that_is_not_carried_by_value_cannot_be_mapped() -> None:
    carried = Carried()
    archive = with_keys(
        policy_kwargs=carried.blob({"features_extractor_class": carried.cls}),
        policy_class=blob(Global("mine", "Policy")),
    )
    with pytest.raises(UnsupportedError, match=rf"no class of this name .*; carried by value: '{NET}'"):
        rebuild(archive, map_names={NET: OWN, "__main__.Other": "mymodule.Other"})
    with pytest.raises(
        UnsupportedError, match=r"'mine.Policy' is not carried by value, but imported .*--as NAME=KNOWN"
    ):
        rebuild(archive, map_names={NET: OWN, "mine.Policy": "mymodule.Policy"})
    with pytest.raises(UnsupportedError, match="carried by value: none"):
        rebuild(BASES["ppo"], map_names={NET: OWN})
    with pytest.raises(UnsupportedError, match="map_names.* only in an archive of Stable-Baselines3, got .* sb2"):
        rebuild(change_agent("a2c-no-layers"), map_names={NET: OWN})


def test_classes_that_cannot_be_told_apart_are_refused() -> None:
    one, other = Carried(), Carried()
    archive = with_keys(policy_kwargs=one.blob({"a": one.cls, "b": other.cls}, "x", other))
    with pytest.raises(UnsupportedError, match=f"two classes '{NET}' are carried by value"):
        rebuild(archive, map_names={NET: OWN})


def test_a_class_beside_a_call_whose_result_is_discarded_is_refused() -> None:
    carried = Carried()
    carried.setters[id(carried.cls)].append(new("mine", "Other"))
    archive = with_keys(policy_kwargs=carried.blob({"features_extractor_class": carried.cls}))
    with pytest.raises(UnsupportedError, match=f"policy_kwargs: '{NET}' cannot be mapped beside"):
        rebuild(archive, map_names={NET: OWN})


def test_in_a_folder_agents_without_the_class_are_rebuilt_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    carried = Carried()
    folder = tmp_path / "runs"
    folder.mkdir()
    write(with_keys(policy_kwargs=carried.blob({"features_extractor_class": carried.cls})), folder / "custom.zip")
    write(BASES["ppo"], folder / "plain.zip")
    unused = ["--map", "__main__.Other=mymodule.Other"]
    assert main(["rebuild", str(folder), "-o", str(tmp_path / "out"), "--map", f"{NET}={OWN}", *unused]) == 0
    reference = {"features_extractor_class": Global("mymodule", "Net")}
    assert read(tmp_path / "out" / "custom.zip").decode("policy_kwargs") == reference
    assert read(tmp_path / "out" / "plain.zip").decode("policy_kwargs") != reference
    error = capsys.readouterr().err
    assert "__main__.Other=mymodule.Other: no agent has a class" in error
    assert NET not in error
