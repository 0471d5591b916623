"""Arguments of policies that are refused: found with mutants of a decoder (FORMAT.md 6.8, POLICIES.md 19.5)."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from conformance.generators.build_pth import Apply, Change, Name, dumps
from conformance.generators.policies import change, read_json, serialize
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

NOT_SQUASHED: Final = "| Box, not squashed | clipped to `low` and `high` |"
OLD_ARS: Final = "Before 1.7, `ARSPolicy` over a Box applied Tanh also if `squash_output` was false"
OTHER_PICKLE: Final = "An object of another class, or with an attribute that is not listed, is something else"
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
    yield from of_releases()
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
