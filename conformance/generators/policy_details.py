"""Arguments of policies that are refused: found with mutants of a decoder (FORMAT.md 6.8, POLICIES.md 19.5)."""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Final

from conformance.generators.build_pth import Apply, Change, Name, Pairs, dumps, ordered, storage, tensor
from conformance.generators.build_torch_zips import pth
from conformance.generators.policies import change, read_json, serialize
from conformance.generators.policy_defaults import ACTIONS, VECTOR, WITHOUT, floats
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

NOT_SQUASHED: Final = "| Box, not squashed | clipped to `low` and `high` |"
OLD_ARS: Final = "Before 1.7, `ARSPolicy` over a Box applied Tanh also if `squash_output` was false"
OTHER_PICKLE: Final = "An object of another class, or with an attribute that is not listed, is something else"
NO_STATE_DICT: Final = 'A `policy.pth` that is not a dict of tensors by name is "unsupported".'
INFINITE: Final = float("inf")
REFUSED: Final[dict[str, tuple[str, Mapping[str, object]]]] = {
    "hardtanh-of-no-interval": ("Hardtanh", {"min_val": 1.0, "max_val": 1.0}),
    "softshrink-negative": ("Softshrink", {"lambd": -0.5}),
    "softshrink-infinite": ("Softshrink", {"lambd": INFINITE}),
    "softshrink-of-nan": ("Softshrink", {"lambd": float("nan")}),
    "hardtanh-above-the-default": ("Hardtanh", {"min_val": 1.0}),
    "rrelu-above-the-default": ("RReLU", {"lower": 0.5}),
    "rrelu-minus-infinite": ("RReLU", {"lower": -INFINITE}),
    "celu-of-0": ("CELU", {"alpha": 0.0}),
    "rrelu-in-the-other-order": ("RReLU", {"lower": 0.5, "upper": 0.25}),
    "rrelu-infinite": ("RReLU", {"lower": 0.5, "upper": INFINITE}),
}
"""Activations with arguments that torch does not compute with."""

SMALL_FLOATS: Final = (
    ("Half", (0xC600, 0x03FF, 0x3555), (-6.0, 1023 / 2**24, 0.333251953125)),
    ("BFloat16", (0xC0C0, 0x3A80, 0x3EAB), (-6.0, 2**-10, 0.333984375)),
)
"""Storages of 16 bits, words, and the numbers that these are."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    asked = read_json("ppo", "input")
    rule = Rule("19.5", "Those that torch does not compute with are refused as well")
    for name, (cls, arguments) in REFUSED.items():
        yield rule.cannot_run(f"policy-activation-{name}", with_activation(cls, arguments), asked, "unsupported")
    rule = Rule("19.5", "and softmaxes over another axis than the features, are refused")
    for cls in ("Softmax", "LogSoftmax", "Softmin"):
        made = with_activation(cls, {"dim": 0})
        yield rule.cannot_run(f"policy-activation-{cls.lower()}-over-axis-0", made, asked, "unsupported")
    rule = Rule("6.8", "a size that is not an integer")
    for name, size in {"a-float": 8.5, "a-text": "8"}.items():
        made = change("ppo", policy_kwargs=serialize(dumps({"net_arch": [size]})))
        yield rule.cannot_run(f"policy-layer-of-{name}", made, asked, "invalid")
    rule = Rule("19.8", 'torch raises an error, and so does a reader ("invalid").')
    for name in ("ppo", "ppo-box", "sac", "activation-gelu"):
        made = read_json(name, "input")
        made["steps"][0]["observation"] = {"dtype": "<f4", "shape": [4], "items": ["NaN", 0, 0, 0]}
        yield rule.cannot_run(f"policy-{name}-of-nan", change(name), made, "invalid")
    rule = Rule("3.2", "`:serialized:` MUST be text without lone surrogates.")
    beside = change("ppo", lr_schedule={":serialized:": 5})
    yield rule.cannot_run("policy-beside-broken-blob", beside, read_json("ppo", "input"), "data failure")
    yield from of_releases()
    yield from of_dtypes()
    rule = Rule("17.1", OTHER_PICKLE)
    number = base64.b64encode(dumps(1)).decode()
    asked = {**asked, "vecnormalize": number}
    yield rule.cannot_run("policy-statistics-of-a-number", change("ppo"), asked, "unsupported")


def of_releases() -> Iterator[Vector]:
    """Agents of ARS with which releases compute different actions."""
    for name, release, sentence in (
        ("ars-clipped", "1.7.0", NOT_SQUASHED), ("ars-clipped", "1.10.0", NOT_SQUASHED),
        ("ars-clipped", "2.0.0", NOT_SQUASHED), ("old-ars", "0.11.0", OLD_ARS),
    ):  # fmt: skip
        made = change(name, {"_stable_baselines3_version": release.encode()})
        found = read_json(name, "expect")
        yield Rule("19.8", sentence).predicts(f"policy-{name}-{release}", made, read_json(name, "input"), found)


def with_activation(cls: str, arguments: Mapping[str, object]) -> bytes:
    """An archive with a ``functools.partial`` as its activation."""
    activation = Name("torch.nn.modules.activation", cls)
    state = (activation, (), dict(arguments), None)
    partial = Apply(Name("functools", "partial"), (activation,), Change("BUILD", state))
    return change("ppo", policy_kwargs=serialize(dumps({"activation_fn": partial, "net_arch": [8]})))


def of_dtypes() -> Iterator[Vector]:
    """Weights of other dtypes than float32, and an argument that refers to the same lists very often."""
    rule = Rule("19.1", "a tensor of the state dict, cast to float32;")
    for name, code in (
        ("Bool", "?"),
        ("Byte", "B"),
        ("Char", "b"),
        ("Short", "h"),
        ("Int", "i"),
        ("Long", "q"),
        ("Double", "d"),
        ("Half", "e"),
    ):
        made = of_storage(f"{name}Storage", struct.pack(f"<{ACTIONS}{code}", 0, 1, 1))
        yield rule.predicts(f"policy-weights-{name.lower()}", made, ONE, LAST)
    made = of_storage("BFloat16Storage", struct.pack(f"<{ACTIONS}H", 0, 0x3F80, 0x3F80))
    yield rule.predicts("policy-weights-bfloat16", made, ONE, LAST)
    for cls, words, items in SMALL_FLOATS:
        made = of_storage(f"{cls}Storage", struct.pack(f"<{ACTIONS}H", *words))
        action = {"action": {"dtype": "<i8", "shape": [1], "items": [2]}}
        steps = [{**action, "outputs": {"logits": floats(*items), "value": floats(0.0)}}]
        yield rule.predicts(f"policy-weights-{cls.lower()}-of-other-signs", made, ONE, {"policy": {"steps": steps}})
    made = of_storage("ComplexFloatStorage", bytes(8 * ACTIONS))
    yield Rule("19.1", "cast to float32;").cannot_run("policy-weights-complex", made, ONE, "unsupported")
    rule = Rule("6.8", "Names and shapes of `policy.pth` follow from `policy_class`")
    asked, found = read_json("ppo", "input"), read_json("ppo", "expect")
    lists: list[object] = []
    for _ in range(30):
        lists = [lists, lists]
    function = Name("my_project", "function")
    objects = {
        "shared": lists, "called": Apply(Apply(function, ()), ()), "ordered": ordered({"a": 1}, {"b": 1}),
        "key": Pairs((1, 2)), "items": Apply(function, (), Change("SETITEMS", ["a", 1])),
    }  # fmt: skip
    for name, value in objects.items():
        made = change("ppo", policy_kwargs=serialize(dumps({"net_arch": [8], "optimizer_kwargs": {"x": value}})))
        yield rule.predicts(f"policy-argument-{name}", made, asked, found)
    rule = Rule("19", NO_STATE_DICT)
    one = tensor(storage(1, "0"), (1,))
    for name, tree in {"list": [one], "dict-of-a-number": {"a": 1}, "dict-by-numbers": {1: one}}.items():
        made = change("ppo", {"policy.pth": pth(tree, {"0": bytes(4)}), **WITHOUT})
        yield rule.cannot_run(f"policy-in-a-{name}", made, asked, "unsupported")


ONE: Final = {"steps": [{"observation": floats(0.0, 0.0, 0.0, 0.0)}]}
LAST: Final = {
    "policy": {
        "steps": [{
            "action": {"dtype": "<i8", "shape": [1], "items": [1]},
            "outputs": {"logits": floats(0.0, 1.0, 1.0), "value": floats(0.0)},
        }]
    }
}  # fmt: skip


def of_storage(cls: str, raw: bytes) -> bytes:
    """An agent without hidden layers, whose weights are 0 and whose biases for the choices have a storage of this class."""
    zero = storage(1, "0")
    shapes = {"action_net.weight": (ACTIONS, VECTOR), "value_net.weight": (1, VECTOR), "value_net.bias": (1,)}
    pairs = {name: tensor(zero, shape, (0,) * len(shape)) for name, shape in shapes.items()}
    pairs["action_net.bias"] = tensor(storage(ACTIONS, "1", cls), (ACTIONS,))
    state_dict = pth(ordered(pairs), {"0": bytes(4), "1": raw})
    return change("ppo", {"policy.pth": state_dict, **WITHOUT}, policy_kwargs={"net_arch": []})
