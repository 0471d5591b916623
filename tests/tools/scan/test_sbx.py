"""Archives of SBX: the functions that they contain are code, and the objects of jax around them are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sbformat
from sbformat import pkl
from sbformat.data import Serialized
from sbformat.pkl import Call, Dict, Global
from tests.helpers.many_cases import check_each
from tests.helpers.sbx import made_object, sbx_archive, train_state, with_state

ARCHIVES = sorted((Path(__file__).parents[2] / "nets" / "archives" / "sbx").glob("*.zip"))


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_an_archive_of_sbx_has_code_and_nothing_dangerous(path: Path) -> None:
    report = sbformat.scan(path)
    assert report.verdict == "code"
    rules = {finding.rule for finding in report.findings if finding.verdict == "code"}
    assert rules == {"carried-function", "carried-class"}
    assert not [finding for finding in report.findings if finding.reason == "harmful"]


def verdict(**policy: Any) -> str:
    return sbformat.scan(sbx_archive("sac", policy)).verdict


def test_states_and_networks_alone_are_clean() -> None:
    assert verdict(actor_state=train_state({}), actor=made_object(("sbx.sac.policies", "Actor"), {})) == "clean"


def bound(method: Global) -> Call:
    kind = Call("REDUCE", Global("cloudpickle.cloudpickle", "_builtin_type"), ("MethodType",))
    return Call("REDUCE", kind, (method, made_object(("sbx.sac.policies", "Actor"), {})))


def test_methods_of_flax_and_sbx_are_bound_to_networks() -> None:
    for pair in (("flax.linen.module", "Module.apply"), ("sbx.sac.policies", "SACPolicy.reset_noise")):
        found = sbformat.values.decode(Serialized(None, pkl.dumps(bound(Global(*pair)))))
        assert (found.kind, str(found.parts[0])) == ("method", ".".join(pair))


@check_each(
    "node",
    [
        bound(Global("os", "system")),
        bound(Global("builtins", "eval")),
        bound(Global("flax.linen.module", "Module.__init_subclass__")),
        Call("REDUCE", Global("flax.linen.module", "Module.apply"), ("x",)),
        Call("REDUCE", Global("optax._src.alias", "adam"), (0.1,)),
        Call(
            "REDUCE", Global("builtins", "getattr"), (Global("jax._src.numpy.array_methods", "_IndexUpdateHelper"), "x")
        ),
        Call("NEWOBJ", Global("sbx.sac.policies", "Actor"), (Global("os", "system"),)),
        made_object(("sbx.mine.policies", "Actor"), {}),
        made_object(("sbx.sac.policies", "Actor.__init__"), {}),
        made_object(("sbx.sac.policies", "Actor"), {"apply": Global("os", "system")}),
        Call("REDUCE", Global("inspect", "unwrap"), ()),
        Call("REDUCE", Global("inspect", "Signature"), (Global("os", "system"),)),
        Call("REDUCE", Global("jax._src.array", "_reconstruct_array"), (Global("os", "system"), ("id",), (), Dict())),
        Call("REDUCE", Global("jax._src.array", "mine"), ()),
        Call("REDUCE", Global("jax._src.api", "Inline"), (Global("os", "system"),)),
        Call("REDUCE", Global("jax._src.api", "Inline.__init__"), ("auto",)),
        Call("REDUCE", Global("jax.tree_util", "tree_map"), (Global("os", "system"), ("true",))),
        Call("REDUCE", Global("_functools", "reduce"), (Global("os", "system"), ("true",))),
        Call("REDUCE", Global("_functools", "reduce"), (Global("_operator", "or_"), (Global("os", "system"), None))),
        Call("REDUCE", Global("_functools", "reduce"), (Global("_operator", "or_"), (Global("mine", "Own"), None))),
        Call("REDUCE", Global("jax", "Array"), ()),
    ],
)
def test_anything_else_is_dangerous(node: Call) -> None:
    assert verdict(attribute=node) == "dangerous"


@pytest.mark.parametrize(
    "node",
    [
        with_state(Call("NEWOBJ", Global("jaxlib._jax", "PjitFunction"), ()), Dict([(1, 2)])),
        with_state(Call("NEWOBJ", Global("typing", "ForwardRef"), ()), (None, Dict([("__forward_arg__", 3)]))),
    ],
)
def test_a_state_that_no_pickler_writes_is_unknown(node: Call) -> None:
    assert verdict(attribute=node) == "unknown"


def test_code_of_a_forward_reference_is_found() -> None:
    slots = Dict([("__forward_arg__", "DenyList"), ("__forward_code__", None)])
    node = with_state(Call("NEWOBJ", Global("typing", "ForwardRef"), ()), (None, slots))
    assert verdict(attribute=node) == "code"


def test_a_policy_may_refer_to_itself() -> None:
    policy = made_object(("sbx.sac.policies", "SACPolicy"), {})
    state = policy.updates[0].value  # type: ignore[index]
    kind = Call("REDUCE", Global("cloudpickle.cloudpickle", "_builtin_type"), ("MethodType",))
    method = Call("REDUCE", kind, (Global("sbx.sac.policies", "SACPolicy.reset_noise"), policy))
    state.append(("method", method))  # type: ignore[attr-defined]
    found = sbformat.values.decode(Serialized(None, pkl.dumps(policy)))
    assert found.type.name == "SACPolicy"
    assert found.attributes["method"].kind == "method"
