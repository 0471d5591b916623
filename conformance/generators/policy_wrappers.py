"""Policies whose modules or tensors torch wrapped (FORMAT.md 6.8): the agent ``ppo`` with other names.

What computes a tensor is chosen so that the tensor is that of the agent: its predictions are the same.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from conformance.generators.build_pth import ordered, storage, tensor
from conformance.generators.build_torch_zips import pth
from conformance.generators.policies import change, entry, read_json
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from conformance.generators.vectors import Vector

Numbers = tuple[tuple[int, ...], "list[float]"]
"""A shape, and items in C order."""

SHAPES: Final = {
    "mlp_extractor.policy_net.0.weight": (8, 4), "mlp_extractor.policy_net.0.bias": (8,),
    "mlp_extractor.value_net.0.weight": (8, 4), "mlp_extractor.value_net.0.bias": (8,),
    "action_net.weight": (3, 8), "action_net.bias": (3,), "value_net.weight": (1, 8), "value_net.bias": (1,),
}  # fmt: skip
"""The tensors of the agent; their storages are numbered in this order."""
WITHOUT: Final = {"pytorch_variables.pth": None, "policy.optimizer.pth": None}
"""Entries that the policy does not need."""
LAYER: Final = "action_net"
FIRST: Final = "mlp_extractor.policy_net.0"
WRAPPED: Final = "A validator and a runner MUST first remove these wrappers from `policy.pth`"
ONE_MODULE: Final = "such a wrapper has one module and no tensors"
MASK: Final = "`T_orig T_mask`, item by item"
SPECTRAL: Final = "| `spectral_norm` | `T_orig`, `T_u`, `T_v` | `T_orig / (T_u M T_v)` |"
OTHERS: Final = "do not determine `T`. A runner refuses it"
AXIS: Final = "`T` is not determined if there is none;"
ROUNDED: Final = "It has the shape of the first of them, and is rounded to its dtype."
LENGTHS: Final = "`norm` is over the axes along which `T_g` has one item, and over all if it has no axes."


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    asked, found = read_json("ppo", "input"), read_json("ppo", "expect")
    tensors = read_tensors()
    rule = Rule("6.8", WRAPPED)
    for what, rename in RENAMED.items():
        made = archive({rename(name): numbers for name, numbers in tensors.items()})
        yield rule.predicts(f"policy-wrapped-{what}", made, asked, found)
    twice = {f"_orig_mod.{name}": numbers for name, numbers in tensors.items()} | tensors
    yield rule.cannot_run("policy-wrapped-and-not", archive(twice), asked, "invalid")
    rule = Rule("6.8", ONE_MODULE)
    beside = {f"action_net.module.{name[11:]}" if name.startswith(LAYER) else name: tensors[name] for name in tensors}
    yield rule.predicts("policy-module-alone", archive(beside), asked, found)
    made = archive({**beside, "action_net.scale": ((1,), [1.0])})
    yield rule.cannot_run("policy-module-beside-a-tensor", made, asked, "invalid")
    for sentence, what, name, parts in COMPUTED:
        made = archive(replace(tensors, name, parts(tensors[name])))
        yield Rule("6.8", sentence).predicts(f"policy-computed-{what}", made, asked, found)
    for sentence, what, name, parts in UNDETERMINED:
        made = archive(replace(tensors, name, parts(tensors[name])))
        yield Rule("6.8", sentence).cannot_run(f"policy-undetermined-{what}", made, asked, "unsupported")
    yield from square()
    rule = Rule("6.8", ROUNDED)
    for cls, code, factor in (("Half", "e", 1 + 2**-13), ("Half", "e", 1 - 2**-14), ("Double", "d", 1.0)):
        shape, items = tensors[WEIGHT]
        changed = replace(tensors, WEIGHT, {"_orig": (shape, items), "_mask": (shape, [factor] * len(items))})
        made = archive(changed, dtypes={f"{WEIGHT}_orig": (f"{cls}Storage", code)})
        what = f"{cls.lower()}-{'down' if factor > 1 else 'up' if factor < 1 else 'same'}"
        yield rule.predicts(f"policy-computed-prune-{what}", made, asked, found)
    parts = spectral(".original", ".0._u", ".0._v")(tensors[f"{LAYER}.weight"])
    name = f"{LAYER}.parametrizations.weight"
    made = archive(replace(tensors, f"{LAYER}.weight", parts), metadata=("", name, f"{name}.0", f"{name}.1"))
    alone = archive(replace(tensors, f"{LAYER}.weight", parts), metadata=("", name, f"{name}.0"))
    yield Rule("6.8", OTHERS).predicts("policy-computed-first-parametrization", alone, asked, found)
    yield Rule("6.8", OTHERS).cannot_run("policy-undetermined-second-parametrization", made, asked, "unsupported")


def square() -> Iterator[Vector]:
    """A square weight of a layer between others of 0, of which the vectors select one item along each axis."""
    weight = f"{FIRST}.weight"
    below = ("weight", "bias")
    zeros = {f"{module}.{part}": (outputs, inputs)[: 2 if part == "weight" else 1]
             for module, outputs, inputs in ((FIRST, 4, 4), ("mlp_extractor.value_net.0", 4, 4), ("action_net", 3, 4),
                                             ("value_net", 1, 4)) for part in below}  # fmt: skip
    tensors = {name: (shape, [0.25 * (name[-1] == "s")] * math.prod(shape)) for name, shape in zeros.items()}
    left, right = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]
    asked = {"steps": [{"observation": {"dtype": "<f4", "shape": [1, 4], "items": [1, 2, 3, 4]}}]}
    outputs = {"logits": {"dtype": "<f4", "shape": [1, 3], "items": [0.25] * 3},
               "value": {"dtype": "<f4", "shape": [1, 1], "items": [0.25]}}  # fmt: skip
    found = {"policy": {"steps": [{"action": {"dtype": "<i8", "shape": [1], "items": [0]}, "outputs": outputs}]}}
    rule = Rule("6.8", "or another one yields a `T_u M T_v` whose absolute value is greater by more than a thousandth.")
    for name, other in {"less": 1.0, "equal": 2.0, "a-little-greater": -2.001, "greater": -2.01}.items():
        items = [0.0] * 16
        items[1], items[4] = 2.0, other
        parts = {"_orig": ((4, 4), items), "_u": ((4,), left), "_v": ((4,), right)}
        made = archive(replace(tensors, weight, parts), net_arch=[4])
        if name == "greater":
            yield rule.cannot_run(f"policy-undetermined-square-{name}", made, asked, "unsupported")
        else:
            yield rule.predicts(f"policy-computed-square-{name}", made, asked, found)


RENAMED: Final[Mapping[str, Callable[[str], str]]] = {
    "compiled": lambda name: f"_orig_mod.{name}",
    "compiled-parallel": lambda name: f"_orig_mod.module.{name}",
    "compiled-layers": lambda name: "._orig_mod.".join(name.rsplit(".", 1)),
}


def read_tensors() -> dict[str, Numbers]:
    """Return the tensors of the agent."""
    with zipfile.ZipFile(io.BytesIO(entry("ppo", "policy.pth"))) as opened:
        raws = [opened.read(f"archive/data/{number}") for number in range(len(SHAPES))]
    return {name: (shape, unpack(raw)) for (name, shape), raw in zip(SHAPES.items(), raws)}


def unpack(raw: bytes) -> list[float]:
    """Return numbers of float32."""
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


def archive(
    tensors: Mapping[str, Numbers],
    metadata: Sequence[str] | None = None,
    dtypes: Mapping[str, tuple[str, str]] = MappingProxyType({}),
    net_arch: Sequence[int] = (8,),
) -> bytes:
    """The archive of the agent with other tensors.

    :param metadata: the paths of its modules
    :param dtypes: the class of a tensor's storage, and the code of its items; by default those of float32
    """
    records, pairs = {}, {}
    for number, (name, (shape, items)) in enumerate(tensors.items()):
        cls, code = dtypes.get(name, ("FloatStorage", "f"))
        records[str(number)] = struct.pack(f"<{len(items)}{code}", *items)
        pairs[name] = tensor(storage(len(items), str(number), cls), shape)
    versions = None if metadata is None else ordered({path: {"version": 1} for path in metadata})
    entries = {"policy.pth": pth(ordered(pairs, versions), records), **WITHOUT}
    return change("ppo", entries, policy_kwargs={"net_arch": list(net_arch)})


def replace(tensors: Mapping[str, Numbers], name: str, parts: Mapping[str, Numbers]) -> dict[str, Numbers]:
    """The tensors with what one of them is computed from in its place; parts begin with a dot below a module."""
    module, _, last = name.rpartition(".")
    others = {key: numbers for key, numbers in tensors.items() if key != name}
    below = f"{module}.parametrizations.{last}"
    return others | {(below if part.startswith(".") else name) + part: numbers for part, numbers in parts.items()}


# -- what computes a tensor ---------------------------------------------------------------------------

Parts = "Callable[[Numbers], dict[str, Numbers]]"


def masked(numbers: Numbers) -> dict[str, Numbers]:
    """Twice the numbers, and a mask of halves."""
    shape, items = numbers
    return {"_orig": (shape, [2 * item for item in items]), "_mask": (shape, [0.5] * len(items))}


def spectral(whole: str, left: str, right: str, axis: int = 0, count: int | None = None) -> Parts:
    """The numbers, and vectors that yield 1 with the largest of them.

    :param axis: of the rows of the matrix
    :param count: another number of items of the first vector
    """

    def make(numbers: Numbers) -> dict[str, Numbers]:
        (rows, columns), items = numbers
        at = max(range(len(items)), key=lambda index: abs(items[index]))
        row, column = divmod(at, columns)
        one = [float(index == row) for index in range(rows)]
        other = [1 / items[at] if index == column else 0.0 for index in range(columns)]
        vectors = [one, other] if axis == 0 else [other, one]
        vectors[0] += [0.0] * ((count or len(vectors[0])) - len(vectors[0]))
        return {
            whole: numbers,
            left: ((len(vectors[0]),), vectors[0]),
            right: ((len(vectors[1]),), vectors[1]),
        }

    return make


def directed(direction: str, length: str, axis: int | None = 0, size: int | None = None) -> Parts:
    """Three times the numbers, and their lengths along the other axes.

    :param axis: that has several lengths; None for one of all
    :param size: another number of lengths
    """

    def make(numbers: Numbers) -> dict[str, Numbers]:
        (rows, columns), items = numbers
        lines = [items[row * columns : (row + 1) * columns] for row in range(rows)]
        groups = {0: lines, 1: [list(line) for line in zip(*lines)], None: [items]}[axis]
        lengths = [math.sqrt(sum(item * item for item in group)) for group in groups]
        lengths += [1.0] * ((size or len(lengths)) - len(lengths))
        shape: tuple[int, ...] = {0: (len(lengths), 1), 1: (1, len(lengths)), None: ()}[axis]
        return {direction: ((rows, columns), [3 * item for item in items]), length: (shape, lengths)}

    return make


WEIGHT: Final = f"{LAYER}.weight"
COMPUTED: Final = (
    (MASK, "prune", WEIGHT, masked),
    (SPECTRAL, "spectral-norm", WEIGHT, spectral("_orig", "_u", "_v")),
    (SPECTRAL, "spectral-norm-parametrization", WEIGHT, spectral(".original", ".0._u", ".0._v")),
    (AXIS, "spectral-norm-over-axis-1", f"{FIRST}.weight", spectral("_orig", "_u", "_v", axis=1)),
    (LENGTHS, "weight-norm", WEIGHT, directed("_v", "_g")),
    (LENGTHS, "weight-norm-parametrization", WEIGHT, directed(".original1", ".original0")),
    (LENGTHS, "weight-norm-of-all", WEIGHT, directed(".original1", ".original0", None)),
)
"""Sentence, name, tensor, and what it is computed from."""
UNDETERMINED: Final = (
    (AXIS, "spectral-norm-of-other-sizes", WEIGHT, spectral("_orig", "_u", "_v", count=4)),
    (LENGTHS, "weight-norm-of-other-sizes", WEIGHT, directed("_v", "_g", size=4)),
    (OTHERS, "orthogonal", WEIGHT, lambda numbers: {".original": numbers, ".0.base": ((3, 3), [0.0] * 9)}),
    (MASK, "prune-of-another-shape", WEIGHT, lambda numbers: {**masked(numbers), "_mask": ((1,), [1.0])}),
)
"""The same of tensors that their parts do not determine."""
