"""Torch's wrappers of modules and tensors: from the names that they add to the names of SB3 (FORMAT.md 6.8).

In: the state dict of a policy as it is stored. Out: an :class:`Unwrapped`, the state dict of the same network without
wrappers. Some wrappers only add a part to names; others replace a tensor by those that it is computed from. Example, a
policy that was compiled after its last layer was pruned::

    _orig_mod.mlp_extractor.policy_net.0.weight  ->  mlp_extractor.policy_net.0.weight, the same tensor
    _orig_mod.action_net.bias                    ->  action_net.bias
    _orig_mod.action_net.weight_orig             ->  action_net.weight, which is weight_orig * weight_mask
    _orig_mod.action_net.weight_mask

Names that only resemble those of a wrapper, and the parts of tensors that they do not determine, stay as they are
stored: SB3's networks have no such names, so they are refused where names are compared.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import POLICY_ENTRY
from sbformat.errors import UnsupportedError, escape
from sbformat.immutable import FrozenDict, Record
from sbformat.policies.operators import require
from sbformat.pth.values import TensorInfo, tensor_info

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.limits import Budget
    from sbformat.pth import StateDict

_MODULES: Final = {"_orig_mod.": "torch.compile", "module.": "DataParallel"}
"""Wrappers of a module, by the part that each adds to names."""
_KEYED: Final = "extractors."
"""The module of a CombinedExtractor whose submodules have the keys of the observation as names."""
_MARKS: Final = ("_orig_mod.", "module.", "parametrizations.", "_orig\n", "_g\n")
"""Parts of names that only wrappers add, where each name is a line."""
_PARAMETRIZATION: Final = r"((?:.+?\.)?)parametrizations\.([^.]+)(\..+)"
_DTYPES: Final = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}
_MOST_NAMES: Final = 4


class Unwrapped(Record):
    """The state dict of a policy without wrappers."""

    state_dict: StateDict
    """With the names of SB3; tensors that share memory in the file still do."""
    origins: Mapping[str, str] = FrozenDict()
    """The stored names of tensors that have another name now, and are not computed."""
    computed: frozenset[str] = frozenset()
    """The names of tensors whose values were computed from others."""
    notes: tuple[str, ...] = ()
    """A sentence for each wrapper: what was removed, and which tensors were computed."""
    refused: Mapping[str, str] = FrozenDict()
    """By the name of each tensor that cannot be computed: its wrapper, and why not."""

    def require_all(self, supplied: Iterable[str] = ()) -> None:
        """Refuse tensors that cannot be computed, but those of modules that the caller supplies."""
        found = [why for name, why in self.refused.items() if not any(f"{module}." in name for module in supplied)]
        if found:
            raise UnsupportedError("; ".join(found[:_MOST_NAMES]), entry=self.state_dict.entry)


def unwrap_policy(archive: Archive, entry: str = POLICY_ENTRY) -> Unwrapped:
    """Return the state dict of an archive's policy without wrappers, as :func:`unwrap` does."""
    return archive.derive(f"unwrapped {entry}", lambda: unwrap(archive.state_dict(entry)))


def unwrap(state_dict: StateDict, kept: Collection[str] = ()) -> Unwrapped:
    """Return the state dict of a policy without torch's wrappers.

    :param state_dict: as it is stored; what is not a dict of tensors is returned unchanged
    :param kept: modules whose class may make wrappers itself, ``features_extractor``, or ``""`` for the policy: of
        these, only ``torch.compile`` of the module itself is removed
    """
    tree: Any = state_dict.tree
    items = tree.items() if isinstance(tree, dict) else [(None, None)]
    if not all(type(name) is str and isinstance(info, TensorInfo) for name, info in items):
        return Unwrapped(state_dict)
    lines = "\n".join([*tree, ""])
    if not any(mark in lines for mark in _MARKS):
        return Unwrapped(state_dict)
    counts = Counter(beginning for name in tree for beginning in accumulate(_split(name)[:-1], initial=""))
    names = {name: _strip(name, counts, kept) for name in tree}
    tensors = {plain.name: tree[name] for name, plain in names.items()}
    metadata = getattr(tree, "_metadata", None)
    paths = {}
    for path, facts in metadata.items() if isinstance(metadata, dict) else ():
        if type(path) is str:
            paths[_strip(f"{path}." if path else "", counts, kept).name.removesuffix(".")] = facts
    free = {plain.name: tensors[plain.name] for plain in names.values() if not plain.is_kept}
    computed, refused = _compute_all(free, paths.keys(), state_dict.new_budget())
    made: Any = OrderedDict(_list_tensors(tensors, computed))
    if metadata is not None:
        made._metadata = OrderedDict(paths)  # noqa: SLF001 -- torch's own name
    removed = Counter(part for plain in names.values() for part in plain.removed)
    notes = (f"{_MODULES[part]}: {part} removed from {count:,} names" for part, count in removed.items())
    return Unwrapped(
        state_dict.with_tree(made),
        FrozenDict({plain.name: name for name, plain in names.items() if plain.name != name and plain.name in made}),
        frozenset(computed),
        (*notes, *_describe_tensors(computed)),
        FrozenDict(refused),
    )


# -- wrappers of modules ------------------------------------------------------------------------------


class _Plain(Record):
    """The name of a tensor without wrappers of modules."""

    name: str
    removed: tuple[str, ...]
    is_kept: bool


def _split(name: str) -> list[str]:
    """Return the parts of a name, each but the last with its dot."""
    *modules, last = name.split(".", 32)  # what follows more modules is one part
    return [*(f"{part}." for part in modules), last]


def _strip(name: str, counts: Mapping[str, int], kept: Collection[str]) -> _Plain:
    """Remove the wrappers of modules from a name.

    A wrapper has no tensors and one child: a ``module`` beside others has its name from its author.

    :param counts: how many names have each beginning
    """
    parts = _split(name)
    plain: list[str] = []
    removed = []
    for part, before in zip(parts, accumulate(parts[:-1], initial="")):
        is_kept = (plain[-1][:-1] if plain else "") in kept
        is_wrapper = part in _MODULES and counts[before] == counts[before + part] and plain[-1:] != [_KEYED]
        if is_wrapper and not (is_kept and part == "module."):
            removed.append(part)
        elif is_kept:
            return _Plain("".join([*plain, name[len(before) :]]), tuple(removed), is_kept=True)
        else:
            plain.append(part)
    return _Plain("".join(plain), tuple(removed), is_kept=False)


# -- wrappers of tensors ------------------------------------------------------------------------------


def _apply_mask(original: Any, mask: Any) -> Any:
    require(original.shape == mask.shape, "expected a mask of the tensor's shape")
    return original * mask


def _divide_by_norm(weight: Any, left: Any, right: Any) -> Any:
    """``weight / sigma``; sigma is ``left @ matrix @ right``, and the axis ``dim`` of the weight the matrix's first.

    ``dim`` is not stored. It is 0 by default, and another one where only that fits the sizes of the vectors. They
    yield nearly the largest sigma that there is: where another axis yields more, 0 is not certain.
    """
    import numpy as np

    sigmas = {
        axis: left @ np.moveaxis(weight, axis, 0).reshape(size, -1) @ right
        for axis, size in enumerate(weight.shape)
        if weight.size and left.shape == (size,) and right.shape == (weight.size // size,)
    }
    require(bool(sigmas), "expected vectors of the sizes of its matrix")
    axis, sigma = next(iter(sigmas.items()))
    others = [abs(sigmas[other]) for other in sigmas if other != axis]
    is_certain = not others or (axis == 0 and max(others) <= abs(sigma) * 1.001)  # rounding
    require(is_certain, "expected vectors that fit one axis: the argument dim is not stored")
    return weight / sigma


def _scale(direction: Any, length: Any) -> Any:
    """``direction * length / norm``, with a norm for each length; one length without axes is that of all."""
    require(length.ndim in (0, direction.ndim), "expected one length, or one along each axis")
    axes = tuple(axis for axis, size in enumerate(length.shape) if size == 1) if length.shape else None
    norms = (direction**2).sum(axes, keepdims=bool(length.shape)) ** 0.5
    require(norms.shape == length.shape, "expected a length for each part of the direction")
    return direction * (length / norms)


def _refuse(*_: Any) -> Any:
    raise UnsupportedError("how its parts determine it is not stored")


class _Wrapper(Record):
    """A wrapper of a tensor."""

    name: str
    parts: tuple[str, ...]
    """The ends of stored names, after the tensor's; the first part has the dtype and shape of the tensor."""
    compute: Callable[..., Any]
    """From arrays of float64; ``UnsupportedError`` when they do not fit."""


_SUFFIXES: Final = (
    _Wrapper("prune", ("_orig", "_mask"), _apply_mask),
    _Wrapper("spectral_norm", ("_orig", "_u", "_v"), _divide_by_norm),
    _Wrapper("weight_norm", ("_v", "_g"), _scale),
)
"""The wrappers of ``torch.nn.utils``: parts are beside the tensor."""
_PARAMETRIZED: Final = (
    _Wrapper("spectral_norm", (".original", ".0._u", ".0._v"), _divide_by_norm),
    _Wrapper("weight_norm", (".original1", ".original0"), _scale),
    _Wrapper("orthogonal", (".original", ".0.base"), _refuse),
)
"""Those of ``torch.nn.utils.parametrizations``: parts are below ``parametrizations`` and the tensor's name."""


class _Computed(Record):
    """A tensor that was computed."""

    wrapper: _Wrapper
    parts: tuple[str, ...]
    info: TensorInfo


def _compute_all(
    tensors: Mapping[str, TensorInfo], modules: Collection[str], budget: Budget
) -> tuple[dict[str, _Computed], dict[str, str]]:
    """Return the tensors that have a wrapper, and why others cannot be computed; each by name."""
    computed: dict[str, _Computed] = {}
    refused: dict[str, str] = {}
    known: dict[object, TensorInfo] = {}
    """By the memory of the parts: tensors that shared it still do."""
    for name, parts, wrapper in _find_wrapped(tensors, modules):
        infos = [tensors[part] for part in parts]
        memory = wrapper, tuple((id(info.storage), *info[:4], info.conj, info.neg) for info in infos)
        try:
            if memory not in known:
                known[memory] = _compute(wrapper, infos, budget)
            computed[name] = _Computed(wrapper, parts, known[memory])
        except UnsupportedError as error:
            shown = ", ".join(escape(part, 120) for part in parts[:_MOST_NAMES])
            refused[name] = f"{wrapper.name}: {escape(name, 120)} cannot be computed from {shown}: {error.message}"
    return computed, refused


def _find_wrapped(
    tensors: Mapping[str, TensorInfo], modules: Collection[str]
) -> Iterator[tuple[str, tuple[str, ...], _Wrapper]]:
    """Yield the names of tensors that are not stored themselves, each with its parts and their wrapper."""
    found: dict[tuple[str, str], list[str]] = {}
    for tensor in tensors:
        for wrapper in _SUFFIXES:
            stem = tensor.removesuffix(wrapper.parts[0])
            names = tuple(stem + part for part in wrapper.parts)
            if stem != tensor and all(name in tensors for name in names):
                if stem not in tensors:
                    yield stem, names, wrapper
                break
        match = re.fullmatch(_PARAMETRIZATION, tensor)
        if match and not match[1].endswith(_KEYED):
            found.setdefault((match[1], match[2]), []).append(match[3])
    for (module, name), parts in found.items():
        stem = f"{module}parametrizations.{name}"
        is_one = f"{stem}.1" not in modules
        unknown = _Wrapper("a parametrization that is not known", tuple(parts), _refuse)
        wrapper = next((row for row in _PARAMETRIZED if set(row.parts) == set(parts) and is_one), unknown)
        if module + name not in tensors:
            yield module + name, tuple(stem + part for part in wrapper.parts), wrapper


def _compute(wrapper: _Wrapper, infos: Sequence[TensorInfo], budget: Budget) -> TensorInfo:
    """Return the tensor of a wrapper, rounded once."""
    import numpy as np

    from sbformat.pth.arrays import to_array

    first = infos[0]
    require(all(info.dtype in _DTYPES for info in infos), f"expected tensors of {', '.join(_DTYPES)}")
    budget.inflate(16 * sum(info.numel for info in infos))  # as float64, and the result
    with np.errstate(all="ignore"):  # as torch, which returns infinity and NaN
        made = wrapper.compute(*(to_array(info, budget).astype(np.float64) for info in infos))
        data = made.astype(_DTYPES[first.dtype]).tobytes()
    return tensor_info(_DTYPES[first.dtype], first.shape, "C", lambda _: memoryview(data))


def _list_tensors(tensors: Mapping[str, TensorInfo], computed: Mapping[str, _Computed]) -> Iterator[tuple[str, Any]]:
    """Yield the tensors by name; a computed one is where its first part was, but a weight before the bias."""
    targets = {part: name for name, found in computed.items() for part in found.parts}
    names = list(dict.fromkeys(targets.get(name, name) for name in tensors))
    for at in range(1, len(names)):
        layer, _, last = names[at].rpartition("weight")
        if names[at] in computed and not last and names[at - 1] == f"{layer}bias":
            names[at - 1], names[at] = names[at], names[at - 1]
    for name in names:
        yield name, computed[name].info if name in computed else tensors[name]


def _describe_tensors(computed: Mapping[str, _Computed]) -> Iterator[str]:
    by_wrapper: dict[_Wrapper, list[str]] = {}
    for name, found in computed.items():
        by_wrapper.setdefault(found.wrapper, []).append(name)
    for wrapper, names in by_wrapper.items():
        shown = ", ".join(escape(name, 120) for name in names[:_MOST_NAMES])
        more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
        yield f"{wrapper.name}: {shown}{more} computed from {', '.join(part.lstrip('.') for part in wrapper.parts)}"
