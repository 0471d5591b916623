"""What SB3, torch and gym do with plain values and names: attribute paths, environments, addresses, optimizers."""

from __future__ import annotations

import json
import pathlib
import pickle as pickles
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import sbformat
from conformance.generators import build_pth
from conformance.generators.build_pth import (
    ORDERED_DICT,
    Apply,
    Change,
    Name,
    Pairs,
    Raw,
    floats,
    legacy_stream,
    ordered,
    tensor,
    text,
    torch_zip,
)
from sbformat import pkl, pth
from sbformat.errors import TensorError
from sbformat.pkl import Dict, Global
from tests.helpers import bundled
from tests.helpers.attacks import (
    attributes,
    call,
    function,
    in_blob,
    in_data,
    in_entry,
    name,
    new,
    pickle,
    schedule_lambda,
)
from tests.helpers.build_blobs import call as made_call
from tests.helpers.build_blobs import change, dtype
from tests.helpers.many_cases import check_each

if TYPE_CHECKING:
    from collections.abc import Callable

    from sbformat.tools.scan.findings import Finding

VARIABLES: Final = "pytorch_variables.pth"
OPTIMIZER: Final = "policy.optimizer.pth"


def judged(raw: bytes, entry: str, key: str = "") -> list[tuple[str, str]]:
    """The rule and the verdict of every finding at one place; there are none elsewhere."""
    found = sbformat.scan(raw).findings
    assert {(finding.entry.partition("!")[0], finding.key) for finding in found} <= {(entry, key)}, found
    return [(finding.rule, finding.verdict) for finding in found]


def only(raw: bytes) -> Finding:
    (finding,) = sbformat.scan(raw).findings
    return finding


DANGEROUS: Final = [("dangerous-name", "dangerous")]
UNKNOWN_ENTRY: Final = [("unknown-entry", "unknown")]
UNKNOWN_NAME: Final = [("unknown-name", "unknown")]
UNCHECKED: Final = [("unchecked-arguments", "unknown")]

# -- names that SB3 looks up on the agent, attribute by attribute -------------------------------------

LIBRARY: Final = "observation_space.low.ctypes._ctypes.cdll.x"
PATHS: Final = (
    LIBRARY, "a.b.c", "__class__", "policy.__class__", "policy.optimizer.step", "ctypes", "low.ctypes", "..",
    "__init__.__globals__",
)  # fmt: skip
UNKNOWN_PATHS: Final = (
    "extra", "policy.extra", "x/y", "critic_optimizer", "policy_", "policy.optimizer2", "_policy", "", "a b", "log_std",
)  # fmt: skip
KNOWN_PATHS: Final = (
    "policy", "policy.optimizer", "actor.optimizer", "critic.optimizer", "ent_coef_optimizer", "log_ent_coef",
    "ent_coef_tensor", "pytorch_variables", "tensors",
)  # fmt: skip


@check_each(
    ("path", "expected"),
    [
        *[(path, DANGEROUS) for path in PATHS],
        *[(path, UNKNOWN_ENTRY) for path in UNKNOWN_PATHS],
        *[(path, []) for path in KNOWN_PATHS],
    ],
)
def test_the_name_of_a_state_dict_is_a_path_of_attributes(path: str, expected: list[tuple[str, str]]) -> None:
    entry = f"{path}.pth"
    assert [row for row in judged(in_entry(entry, torch_zip({})), entry) if row[0] != "broken"] == expected


def variables(tree: object) -> bytes:
    return in_entry(VARIABLES, torch_zip(tree, {"0": bytes(4)}))


def test_the_names_of_variables_that_an_ordered_dict_is_made_of() -> None:
    """Its pairs may be the argument of its call, as well as what SETITEMS adds."""
    pair = text("policy.__class__") + b"N\x86"
    raw = b"\x80\x02" + name("collections", "OrderedDict") + b"](" + pair + b"e\x85R."
    assert judged(in_entry(VARIABLES, torch_zip(raw)), VARIABLES) == DANGEROUS


@check_each(
    ("path", "expected"),
    [
        *[(path, DANGEROUS) for path in (*PATHS, "observation_space.low.ctypes._ctypes.cdll./tmp/x")],
        *[(path, UNKNOWN_ENTRY) for path in (*UNKNOWN_PATHS, "Policy", "\u200bpolicy")],
        *[(path, []) for path in KNOWN_PATHS],
    ],
)
def test_the_keys_of_the_variables_are_paths_too(path: str, expected: list[tuple[str, str]]) -> None:
    assert judged(variables({path: floats((1,))}), VARIABLES) == expected


OTHER_KEYS: Final[dict[str, Callable[[], object]]] = {
    "an ordered dict": lambda: ordered({LIBRARY: floats((1,))}),
    "the key twice": lambda: Pairs((LIBRARY, floats((1,))), (LIBRARY, floats((1,)))),
    "a key behind another": lambda: {"log_ent_coef": floats((1,)), LIBRARY: None},
}
"""Where the text of the key is SB3's path."""


@pytest.mark.parametrize("what", OTHER_KEYS)
def test_wherever_the_keys_stand(what: str) -> None:
    assert judged(variables(OTHER_KEYS[what]()), VARIABLES) == DANGEROUS
    assert judged(in_entry("tensors.pth", torch_zip(OTHER_KEYS[what](), {"0": bytes(4)})), "tensors.pth") == DANGEROUS


ODD_KEYS: Final[dict[str, Callable[[], object]]] = {
    "a path": lambda: Apply(Name("pathlib", "PurePosixPath"), (LIBRARY,)),
    "a text of numpy": lambda: Raw(pickles.dumps(np.str_(LIBRARY), 2)[2:-1]),
}


@pytest.mark.parametrize("what", ODD_KEYS)
def test_a_key_that_is_no_text_becomes_one(what: str) -> None:
    """SB3 writes it into a text, and looks that up."""
    assert sbformat.scan(variables(Pairs((ODD_KEYS[what](), floats((1,)))))).verdict != "clean"


def test_the_keys_of_an_old_file_of_variables() -> None:
    made = legacy_stream({LIBRARY: 1})
    assert judged(in_entry(VARIABLES, made), VARIABLES) == DANGEROUS


def test_the_keys_of_a_policy_are_no_paths() -> None:
    assert judged(in_entry("policy.pth", torch_zip({"a.b.c.d": floats((1,))}, {"0": bytes(4)})), "policy.pth") == []


# -- values of data -----------------------------------------------------------------------------------


def with_value(key: str, value: object) -> bytes:
    return in_data(lambda text: json.dumps({**json.loads(text), key: value}))


@check_each(
    ("value", "expected"),
    [("a.b:Any-v0", DANGEROUS), ("CartPole-v1", DANGEROUS), (5, UNKNOWN_NAME), ({}, UNKNOWN_NAME), ([], UNKNOWN_NAME),
     (None, [])],
)  # fmt: skip
def test_an_environment_in_json(value: object, expected: list[tuple[str, str]]) -> None:
    assert judged(with_value("env", value), "data", "env") == expected


@check_each(
    ("value", "expected"),
    [
        ("a.b:Any-v0", DANGEROUS),
        (np.str_("a.b:Any-v0"), DANGEROUS),
        (np.array("a.b:Any-v0"), DANGEROUS),
        (np.array("a.b:Any-v0").astype(">U10"), DANGEROUS),
        (b"a.b:Any-v0", UNKNOWN_NAME),
        (5, UNKNOWN_NAME),
        ({"a": 1}, UNKNOWN_NAME),
        (None, []),
    ],
)
@check_each("protocol", [0, 2, 4])
def test_an_environment_in_a_blob(value: object, expected: list[tuple[str, str]], protocol: int) -> None:
    assert judged(in_blob(pickles.dumps(value, protocol), "env"), "data", "env") == expected


def test_an_environment_is_named_as_it_stands() -> None:
    assert only(with_value("env", "a.b:Any-v0")).names == ("a.b:Any-v0",)
    shown = only(with_value("env", "a\x1b[2J\u202e" + "b" * 1000)).names[0]
    assert shown.isprintable()
    assert len(shown) < 300


def test_an_environment_that_is_an_object() -> None:
    for state in ({}, {"training": True}):
        made = new(name("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize"))
        content = pickle(made + attributes(**dict.fromkeys(state, b"\x88")) + b"b")
        assert sbformat.scan(in_blob(content, "env")).verdict != "clean"


def test_an_environment_is_one_under_its_own_key_only() -> None:
    assert judged(with_value("env_", "a.b:Any-v0"), "data", "env_") == []


@pytest.mark.parametrize(
    "address", ["ftp://127.0.0.1/x", "s3://bucket", "simplecache::s3://b", "gs://b", "hf://b", "file://h"]
)
def test_a_log_that_is_written_to_an_address(address: str) -> None:
    key = "tensorboard_log"
    assert judged(with_value(key, address), "data", key) == DANGEROUS
    assert judged(in_blob(pickles.dumps(address), key), "data", key) == DANGEROUS
    assert judged(in_blob(pickles.dumps(np.str_(address)), key), "data", key) == DANGEROUS
    assert only(with_value(key, address)).reason == (
        "not-known" if address in ("s3://bucket", "gs://b", "hf://b") else "harmful"
    )


@pytest.mark.parametrize("address", ["file:///x", "FILE:///C:/x", "file://C:/x", "file://localhost/x"])
def test_a_log_in_a_local_folder_that_is_given_as_an_address(address: str) -> None:
    assert judged(with_value("tensorboard_log", address), "data", "tensorboard_log") == UNKNOWN_NAME
    for more in ("/x", "\\x", "x::y", "s3://"):  # other hosts on Windows, and chains of addresses
        assert only(with_value("tensorboard_log", f"file:///{more}")).reason == "harmful"


@check_each("folder", ["logs", "./logs/a:b", "logs/PPO::CartPole", "/tmp/logs", "C:\\logs", "", None])  # noqa: S108 -- a text
def test_a_log_that_is_written_to_a_folder(folder: str | None) -> None:
    assert judged(with_value("tensorboard_log", folder), "data", "tensorboard_log") == []


def test_a_log_is_one_under_its_own_key_only() -> None:
    assert judged(with_value("my_url", "ftp://127.0.0.1/x"), "data", "my_url") == []


CALLABLES: Final[dict[str, bytes]] = {
    "a class": pickle(name("torch.nn.modules.activation", "ReLU")),
    "a schedule": pickle(function()),
    "a schedule in another": pickle(schedule_lambda()),
}


@check_each("what", CALLABLES)
@check_each("key", ["predict", "learn", "_setup_model", "my_key", "set_random_seed"])
def test_what_can_be_called_stands_where_a_method_would(what: str, key: str) -> None:
    assert judged(in_blob(CALLABLES[what], key), "data", key) == UNKNOWN_NAME


@pytest.mark.parametrize("key", ["lr_schedule", "learning_rate", "clip_range", "clip_range_vf", "exploration_schedule"])
def test_what_can_be_called_stands_where_sb3_keeps_it(key: str) -> None:
    for what in ("a schedule", "a schedule in another"):
        assert judged(in_blob(CALLABLES[what], key), "data", key) == []


def test_a_path_is_no_text() -> None:
    content = pickles.dumps(pathlib.PurePosixPath("a.b:Any-v0"))
    assert sbformat.scan(in_blob(content, "env")).verdict == "unknown"


def test_the_bundled_play_no_part() -> None:
    for path in (bundled.PPO, bundled.SAC):
        assert sbformat.scan(path).findings == ()


# -- torch's optimizers and tensors -------------------------------------------------------------------

GROUP: Final = {"lr": 0.1, "params": [0], "fused": True}


def of_groups(groups: object) -> object:
    return {"state": {}, "param_groups": groups}


FUSED: Final[dict[str, Callable[[], object]]] = {
    "a list": lambda: of_groups([GROUP]),
    "the second": lambda: of_groups([{**GROUP, "fused": None}, GROUP]),
    "a whole number": lambda: of_groups([{**GROUP, "fused": 1}]),
    "an ordered group": lambda: of_groups([ordered(GROUP)]),
    "an ordered dict": lambda: ordered({"state": {}, "param_groups": [GROUP]}),
    "said twice": lambda: of_groups([Pairs(("fused", False), ("params", [0]), ("fused", True))]),
    "groups twice": lambda: Pairs(("state", {}), ("param_groups", []), ("param_groups", [GROUP])),
    "a tuple": lambda: of_groups((GROUP,)),
    "a deque": lambda: of_groups(Apply(Name("collections", "deque"), ([GROUP],))),
    "a group with a key that is a tuple": lambda: of_groups([Pairs(("fused", True), ((1, 2.5), 3))]),
    "a dict with a key that is a tuple": lambda: Pairs(("state", {}), ("param_groups", [GROUP]), ((1, 2.5), 3)),
    "a group that is filled later": lambda: of_groups([Apply(ORDERED_DICT, (), Change("SETITEMS", ["fused", True]))]),
}


@check_each("what", FUSED)
def test_a_fused_optimizer(what: str) -> None:
    """Torch takes the sizes of its state as they come, and writes past the end of a tensor."""
    assert set(judged(in_entry(OPTIMIZER, torch_zip(FUSED[what]())), OPTIMIZER)) >= set(UNCHECKED)


def test_a_fused_optimizer_in_an_old_file_or_alone() -> None:
    made = of_groups([GROUP])
    assert judged(in_entry(OPTIMIZER, legacy_stream(made)), OPTIMIZER) == UNCHECKED
    assert judged(torch_zip(made), "") == UNCHECKED


@pytest.mark.parametrize("fused", [None, False, 0])
def test_an_optimizer_that_is_not_fused(fused: object) -> None:
    made = of_groups([{**GROUP, "fused": fused}, {"lr": 0.1, "params": [1]}])
    assert judged(in_entry(OPTIMIZER, torch_zip(made)), OPTIMIZER) == []


def test_what_is_popped_is_no_optimizer() -> None:
    raw = build_pth.dumps(of_groups([{"lr": 0.1, "params": [0]}]), 2)
    popped = b"}X\5\0\0\0fusedK\1s0"
    assert judged(in_entry(OPTIMIZER, torch_zip(raw[:2] + popped + raw[2:])), OPTIMIZER) == []


def sparse(index: int) -> Any:
    indices = tensor(build_pth.storage(1, "0", "LongStorage"), (1, 1))
    parts = (indices, floats((1,), "1"), build_pth.Apply(build_pth.SIZE, ((2,),)), False)
    layout = Apply(build_pth.GET_LAYOUT, ("torch.sparse_coo",))
    made = Apply(build_pth.REBUILD_SPARSE, (layout, parts))
    return torch_zip({"w": made}, {"0": index.to_bytes(8, "little"), "1": bytes(4)})


@pytest.mark.parametrize("index", [0, 1, 2, 10**9])
def test_a_sparse_tensor(index: int) -> None:
    """Torch accesses memory by its indices without a check."""
    raw = in_entry("policy.pth", sparse(index))
    assert judged(raw, "policy.pth") == ([("unchecked-arguments", "dangerous")] if index > 1 else [])
    assert sbformat.scan(raw).reason == ("harmful" if index > 1 else None)


STORAGE: Final = build_pth.storage(8, "0")


def test_a_storage_without_a_tensor() -> None:
    """SB3 saves none, and fails to load one in place of a tensor."""
    for tree in ({"w": STORAGE}, {"list": [STORAGE]}, {"w": floats((8,), "1"), "bare": STORAGE}):
        raw = torch_zip(tree, {"0": bytes(32), "1": bytes(32)} if "bare" in tree else {"0": bytes(32)})
        assert judged(in_entry("policy.pth", raw), "policy.pth") == [("odd-pickle", "unknown")]
    stream = legacy_stream(build_pth.storage(8, "0", "FloatStorage", "cpu", None), [build_pth.Run("0", 8, bytes(32))])
    stored = pkl.dumps(made_call("torch.storage", "_load_from_bytes", stream))
    assert ("odd-pickle", "unknown") in judged(in_blob(stored, "_last_obs"), "data", "_last_obs")


@pytest.mark.parametrize(("kind", "found"), [("cpu", 0), ("cuda:1", 0), ("privateuseone", 0), ("", 1), ("auto", 1)])
def test_a_device_that_torch_does_not_know(kind: str, found: int) -> None:
    raw = in_blob(pickle(call(name("torch", "device"), pickles.dumps(kind, 2)[2:-1])), "device")
    assert judged(raw, "data", "device") == UNCHECKED[:found]


def test_a_call_that_is_no_role_of_a_value() -> None:
    content = pickle(call(name("os", "system"), b"\x8c\x04true"))
    assert ("dangerous-name", "dangerous") in judged(in_blob(content, "env"), "data", "env")


# -- numpy's states -----------------------------------------------------------------------------------

DTYPES: Final[dict[str, tuple[str, str, tuple[object, ...]]]] = {
    "an alignment of 0": ("dangerous", "V8", (3, "|", None, ("a",), Dict([("a", (dtype("f8"), 0))]), 8, 0, 128)),
    "a field outside": ("dangerous", "V8", (3, "|", None, ("a",), Dict([("a", (dtype("f8"), 1 << 40))]), 8, 1, 0)),
    "a subarray": ("dangerous", "V8", (3, "|", (dtype("f8"), (1 << 40,)), None, None, 8, 1, 0)),
    "text of another size": ("dangerous", "U2", (3, "<", None, None, None, 1 << 30, 4, 8)),
    "numbers as pointers": ("dangerous", "i8", (3, "|", None, None, None, -1, -1, 63)),
    "dates without a unit": ("dangerous", "M8", (4, "<", None, None, None, -1, -1, 0)),
    "pointers as plain items": ("dangerous", "O8", (4, "|", None, None, None, -1, -1, 0)),
    "dates": ("unknown", "M8", (4, "<", None, None, None, -1, -1, 0, (Dict(), (b"us", 1, 1, 1)))),
    "wide floats": ("unknown", "f16", (3, "<", None, None, None, -1, -1, 0)),
    "metadata": ("unknown", "f8", (4, "<", None, None, None, -1, -1, 0, Dict([("a", 1)]))),
}


@check_each("what", DTYPES)
def test_a_state_that_numpy_does_not_check(what: str) -> None:
    """A dtype with sizes that do not fit ends the process that uses it, alone, in a scalar or in an array."""
    verdict, code, state = DTYPES[what]
    kind = change(made_call("numpy", "dtype", code, False, True), state)
    values = [kind, made_call("numpy.core.multiarray", "scalar", kind, bytes(8)), array_of(kind, bytes(8))]
    for value in (*values, array_of(kind, [None])):
        report = sbformat.scan(pkl.dumps(value))
        assert report.verdict == verdict
    assert sbformat.scan(in_blob(pkl.dumps(kind), "_last_obs")).verdict == verdict
    inert = torch_zip(pkl.dumps(Dict([("data", Dict([("x", kind)]))]), protocol=2))
    if verdict == "dangerous":
        with pytest.raises(TensorError, match="numpy never writes"):
            pth.loads(inert, on_unknown="inert")
    else:
        assert pth.dumps(pth.loads(inert, on_unknown="inert"))


def array_of(kind: object, items: object) -> object:
    made = made_call("numpy.core.multiarray", "_reconstruct", Global("numpy", "ndarray"), (0,), b"b")
    return change(made, (1, (1,), kind, False, items))
