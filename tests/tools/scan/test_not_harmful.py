"""What libraries write and only calls what it is given, or nothing, is not harmful; what runs code stays so."""

from __future__ import annotations

from typing import Any, Final

import sbformat
from sbformat import pkl
from sbformat.pkl import Call, Global
from tests.helpers.attacks import in_blob, torchscript
from tests.helpers.build_blobs import array, box, call, change, dtype, new, partial, tree
from tests.helpers.many_cases import check_each

MINE: Final = Global("mymod", "f")
OBJECT: Final = Global("builtins", "object")


def scanned(value: object, key: str = "x", protocol: int = 4) -> tuple[str, str | None]:
    report = sbformat.scan(in_blob(pkl.dumps(tree(value), protocol=protocol), key))
    assert "type=Reference" not in repr(report.findings)
    return report.verdict, report.reason


NOT_KNOWN: Final = ("dangerous", "not-known")
HARMFUL: Final = ("dangerous", "harmful")


def attribute(value: object, name: str) -> Call:
    return call("builtins", "getattr", value, name)


SCHEDULES: Final[dict[str, tuple[Any, tuple[str, str]]]] = {
    "a function of a module": (partial(MINE, 1, k=2), NOT_KNOWN),
    "a partial of a partial": (partial(partial(MINE, 1), 2), NOT_KNOWN),
    "a partial that is called": (Call("REDUCE", partial(MINE, 1), ()), NOT_KNOWN),
    "a method of an object": (attribute(new("mymod", "Schedule", {"a": 1}), "value"), NOT_KNOWN),
    "a command": (partial(Global("os", "system"), "id"), HARMFUL),
    "a command in two partials": (partial(partial(Global("posix", "system")), "id"), HARMFUL),
    "a partial of partial": (partial(Global("functools", "partial"), MINE), NOT_KNOWN),
    "a method of a class": (attribute(Global("mymod", "Schedule"), "apply"), NOT_KNOWN),
    "a function of torch": (attribute(Global("torch._C", "_VariableFunctionsClass"), "tanh"), NOT_KNOWN),
    "a method of a text": (attribute("x", "replace"), NOT_KNOWN),
    "a class method": (attribute(Global("datetime", "datetime"), "now"), NOT_KNOWN),
    "a class method of a library": (attribute(Global("stable_baselines3.ppo.ppo", "PPO"), "load"), HARMFUL),
    "an attribute of a module": (attribute(call("cloudpickle", "subimport", "os"), "system"), HARMFUL),
    "an attribute of an attribute": (attribute(attribute(Global("mymod", "C"), "a"), "b"), HARMFUL),
    "getattr": (partial(Global("builtins", "getattr"), 1), HARMFUL),
    "an import": (partial(Global("cloudpickle.cloudpickle", "subimport"), "x"), HARMFUL),
    "dill": (partial(Global("dill._dill", "_get_attr"), 1), HARMFUL),
    "a method of a command": (attribute(call("os", "system", "id"), "value"), HARMFUL),
    "a method of a description": (attribute(new("gym.envs.registration", "EnvSpec", {"id": "a-v0"}), "make"), HARMFUL),
    "a private method": (attribute(new("mymod", "Schedule", {"a": 1}), "__init__"), HARMFUL),
    "the data set of SB2": (partial(Global("stable_baselines.gail.dataset.dataset", "ExpertDataset"), "x"), NOT_KNOWN),
}


@check_each("what", SCHEDULES)
def test_a_schedule_that_applies_something(what: str) -> None:
    value, expected = SCHEDULES[what]
    assert scanned(value, "learning_rate") == expected


def lookup(module: object, name: object) -> Call:
    return call("dill._dill", "_get_attr", call("cloudpickle.cloudpickle", "subimport", module), name)


def looked_up(module: str, name: str, *args: object) -> Call:
    return Call("REDUCE", lookup(module, name), tree(args))


def dill_array() -> Call:
    made = looked_up("numpy.core._multiarray_umath", "_reconstruct", Global("numpy", "ndarray"), (0,), b"b")
    return change(made, (1, (2,), dtype("f4"), False, bytes(8)))  # type: ignore[no-any-return]


def test_spaces_that_were_pickled_while_dill_was_imported() -> None:
    """dill has cloudpickle write the functions of numpy in C as attributes of their modules."""
    for protocol in (2, 4):
        assert scanned(box(dill_array(), dill_array(), (2,)), "observation_space", protocol) == ("clean", None)
        scalar = looked_up("numpy.core.multiarray", "scalar", dtype("f4"), bytes(4))
        assert scanned(scalar, "x", protocol) == ("clean", None)
    for made in (
        looked_up("os", "system", "id"), looked_up("numpy", "load", "x"), looked_up("builtins", "eval", "1"),
        lookup("numpy.core.multiarray", ["scalar"]), lookup("numpy.core.multiarray", "__builtins__"),
    ):  # fmt: skip
        assert scanned(made) == HARMFUL
    for made in (
        lookup("numpy.core._multiarray_umath", "_reconstruct"), change(lookup("numpy.core.multiarray", "scalar"), {}),
        Call("REDUCE", call("dill._dill", "_get_attr", MINE, "scalar"), (dtype("f4"), bytes(4))),
    ):  # fmt: skip
        assert scanned(made) == NOT_KNOWN


def reconstructed(cls: Global, state: dict[str, object], base: object = OBJECT, given: object = None) -> Call:
    return change(call("copyreg", "_reconstructor", cls, base, given), state)  # type: ignore[no-any-return]


def test_objects_of_the_protocols_0_and_1() -> None:
    ends = {"low": array((2,), bytes(8)), "high": array((2,), bytes(8)), "_shape": (2,), "dtype": dtype("f4")}
    cls = Global("gymnasium.spaces.box", "Box")
    assert scanned(reconstructed(cls, {**ends, "_np_random": None}), protocol=2) == ("clean", None)
    assert scanned(reconstructed(cls, {"low": 1}), protocol=2)[0] == "dangerous"
    for made in (
        reconstructed(Global("mymod", "C"), {}), reconstructed(cls, ends, Global("builtins", "dict")),
        reconstructed(Global("mymod", "C"), {}, Global("builtins", "tuple"), (1, 2)),
        attribute(reconstructed(Global("mymod", "C"), {}), "value"),
    ):  # fmt: skip
        assert scanned(made, protocol=2) == NOT_KNOWN
    for made in (
        reconstructed(Global("mymod", "C"), {}, Global("builtins", "type"), ("A", (), {})),
        reconstructed(Global("os", "_wrap_close"), {}),
    ):  # fmt: skip
        assert scanned(made, protocol=2) == HARMFUL


SPEC: Final = {
    "id": "CartPole-v1", "entry_point": "gym.envs.classic_control:CartPoleEnv", "reward_threshold": 475.0,
    "nondeterministic": False, "max_episode_steps": 500, "order_enforce": True,
}  # fmt: skip
SPECS: Final[dict[str, dict[str, object]]] = {
    "gym.envs.registration": {"_kwargs": {}, "_env_name": "CartPole", "namespace": None, "version": 1},  # 0.21
    "gymnasium.envs.registration": {
        "kwargs": {"render_mode": None}, "name": "CartPole", "autoreset": False, "apply_api_compatibility": False,
        "disable_env_checker": False, "vector_entry_point": None,
        "additional_wrappers": (
            new("gymnasium.envs.registration", "WrapperSpec", {"name": "T", "entry_point": "a:b", "kwargs": None}),
        ),
    },
}  # fmt: skip


@check_each("module", SPECS)
def test_a_description_of_an_environment(module: str) -> None:
    state = {**SPEC, **SPECS[module]}
    assert scanned(new(module, "EnvSpec", state)) == ("unknown", None)
    assert scanned(reconstructed(Global(module, "EnvSpec"), state), protocol=2) == ("unknown", None)
    assert scanned(new(module, "EnvSpec", {**state, "entry_point": Global("os", "system")})) == HARMFUL
    assert scanned(Global(module, "EnvSpec")) == HARMFUL
    assert scanned(call(module, "make", "a:b-v0")) == HARMFUL


SB2: Final = "stable_baselines.common.schedules"
KNOWN: Final[dict[str, tuple[Call, str]]] = {
    "constant": (new(SB2, "ConstantSchedule", {"_value": 1.0}), "exploration"),
    "linear": (new(SB2, "LinearSchedule", {"schedule_timesteps": 9, "final_p": 0.1, "initial_p": 1.0}), "exploration"),
    "piecewise": (
        new(SB2, "PiecewiseSchedule", {
            "_endpoints": [(0, 1.0), (5, 2.0)], "_interpolation": Global(SB2, "linear_interpolation"),
            "_outside_value": None,
        }), "beta_schedule",
    ),
    "scheduler": (
        new(SB2, "Scheduler", {
            "step": 0.0, "initial_value": 1.0, "nvalues": 9, "schedule": Global(SB2, "linear_schedule"),
        }), "learning_rate_schedule",
    ),
    "noise of parameters": (
        new("stable_baselines.common.noise", "AdaptiveParamNoiseSpec", {
            "initial_stddev": 0.1, "desired_action_stddev": 0.1, "adoption_coefficient": 1.01, "current_stddev": 0.1,
        }), "param_noise",
    ),
    "data set": (
        new("stable_baselines.gail.dataset.dataset", "ExpertDataset", {
            "observations": array((2,), bytes(8)), "avg_ret": 1.0, "dataloader": None, "train_loader": None,
        }), "expert_dataset",
    ),
}  # fmt: skip


@check_each("what", KNOWN)
def test_classes_of_stable_baselines_2(what: str) -> None:
    value, key = KNOWN[what]
    assert scanned(value, key) == ("clean", None)
    report = sbformat.scan(in_blob(pkl.dumps(tree(value)), "my_key"))
    if report.findings:
        assert report.findings[0].names[0].startswith("stable_baselines.")


def test_functions_of_paths() -> None:
    for module in ("posixpath", "ntpath", "genericpath"):
        assert scanned(Global(module, "join"))[0] == "unknown"
        assert scanned(call(module, "join", "a", "b")) == NOT_KNOWN
        assert scanned(Global(module, "os")) == scanned(Global(module, "os.system")) == HARMFUL


def test_functions_with_which_torchscript_stores_lists() -> None:
    """torch.jit.load replaces them; in any other pickle they are a part of torch.jit, which compiles."""
    lists = call("torch.jit._pickle", "build_intlist", [1])
    typed = call("torch.jit._pickle", "restore_type_tag", [lists], "List[int]")
    report = sbformat.scan(torchscript(code__debug_pkl=pkl.dumps(tree((lists, typed)), protocol=2)))
    assert (report.verdict, report.reason) == ("code", None)
    assert scanned(lists) == HARMFUL
    for other in (
        call("torch.jit._pickle", "load", "x"),
        call("torch.jit._pickle", "build_intlist", call("os", "system", "id")),
    ):
        assert sbformat.scan(torchscript(code__debug_pkl=pkl.dumps(other, protocol=2))).reason == "harmful"


def test_what_calls_what_it_is_given() -> None:
    """A finding of what is given says what it does."""
    for function in ("builtins.map", "functools.reduce", "itertools.starmap", "numpy.vectorize", "copy._reconstruct"):
        module, _, name = function.rpartition(".")
        assert scanned(call(module, name, MINE, [1])) == NOT_KNOWN
        assert scanned(call(module, name, Global("os", "system"), ["id"])) == HARMFUL
        assert scanned(Global(module, name))[1] != "harmful"
    assert scanned(call("builtins", "iter", [1])) == NOT_KNOWN


def test_names_that_are_looked_up_later() -> None:
    for module in ("operator", "_operator"):
        assert scanned(call(module, "itemgetter", 0)) == NOT_KNOWN
        for name in ("attrgetter", "methodcaller"):
            assert scanned(call(module, name, "mean")) == NOT_KNOWN
            for attribute_ in ("__globals__", "f.__globals__", "os.path", "system", "import_module"):
                assert scanned(call(module, name, attribute_)) == HARMFUL
            assert scanned(call(module, name)) == scanned(call(module, name, MINE)) == HARMFUL
            assert scanned(Global(module, name)) == HARMFUL


def test_values_of_modules_that_do_harm() -> None:
    for module, name in (
        ("http", "HTTPStatus"), ("signal", "Signals"), ("posix", "getcwd"), ("os", "stat_result"),
        ("_thread", "allocate_lock"), ("urllib.parse", "ParseResult"), ("omegaconf.dictconfig", "DictConfig"),
        ("ruamel.yaml.scalarfloat", "ScalarFloat"), ("stable_baselines3.common.logger", "Logger"),
    ):  # fmt: skip
        assert scanned(Global(module, name)) == ("unknown", None)
        assert scanned(call(module, name, 1)) == NOT_KNOWN
        assert scanned(Global(module, "popen"))[1] == scanned(Global(module, f"{name}.__init__"))[1] == "harmful"
    for name in ("Trainer.run", "Config.load", "Data.replace"):
        assert scanned(Global("mymod", name)) == ("unknown", None)


def test_code_without_a_function() -> None:
    kind = call("cloudpickle.cloudpickle", "_builtin_type", "CodeType")
    code = Call("REDUCE", kind, (0, 0, 0, 0, 1, 64, b"", (None,), (), (), "f", "n", "q", 1, b"", b"", (), ()))
    assert scanned(code) == scanned(code, "observation_space") == ("code", None)


def test_a_function_of_numpy_that_dill_looks_up_and_nothing_calls() -> None:
    getter = lookup("numpy.core.multiarray", "scalar")
    value = Call("REDUCE", getter, (dtype("f4"), bytes(4)))
    assert scanned([getter, value]) == scanned(lookup("mymod", "f")) == NOT_KNOWN
    assert scanned([value, Call("REDUCE", getter, (dtype("f4"), bytes(4)))]) == ("clean", None)


def test_what_can_be_called_may_replace_a_method() -> None:
    generic = call("_operator", "getitem", Global("typing", "Dict"), (Global("builtins", "str"),) * 2)
    method = attribute(Global("stable_baselines3.common.policies", "BasePolicy"), "_dummy_schedule")
    for value in (generic, method):
        assert scanned(value, "set_parameters") == ("unknown", None)
    assert scanned(call("builtins", "slice", 1, 2, 3)) == ("clean", None)


def test_storages_of_a_program_that_begin_like_a_pickle() -> None:
    for folder in ("data", "constants"):
        for start in (b"\x8e" + b"\x7f" * 40, b"\x95" + b"\x01" * 40, b"\x80\x02K\x01"):
            archive = torchscript(**{f"{folder}/0": start})
            assert {row.rule for row in sbformat.scan(archive).findings} == {"carried-program"}
        hidden = torchscript(**{f"{folder}/0": b"cos\nsystem\n(S'id'\ntR."})
        assert sbformat.scan(hidden).reason == "harmful"


def test_a_getter_that_other_code_may_call_with_any_name_is_harmful() -> None:
    """``g = attrgetter; g("x"); functools.reduce(g, [...])``, where ``g`` is one object of the pickle."""
    alone = b"\x80\x04\x8c\x08operator\x8c\x0aattrgetter\x93\x94\x8c\x01x\x85R"
    passed = b"0\x8c\x09functools\x8c\x06reduce\x93h\x00](\x8c\x0b__globals__\x8c\x09__class__e\x86R"
    assert [row.reason for row in sbformat.scan(alone + b".").findings if row.rule == "dangerous-name"] == []
    found = sbformat.scan(alone + passed + b".").findings
    assert [row.reason for row in found if row.rule == "dangerous-name"][:1] == ["harmful"]
