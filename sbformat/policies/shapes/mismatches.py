"""How a stored state dict differs from the network that SB3 makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from sbformat.constants import POLICY_ENTRY
from sbformat.errors import UnsupportedError, quote
from sbformat.policies.shapes.sizes import join_keys
from sbformat.pth.compare import equal
from sbformat.pth.values import TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sbformat.policies.shapes.layers import Parameters
    from sbformat.pth import StateDict

Kind: TypeAlias = Literal["missing", "unexpected", "shape", "count", "contradiction"]

_KEYS: Final = (
    ("mlp_extractor.", "policy_kwargs/net_arch"),
    ("features_extractor.", "policy_kwargs/features_extractor_class and observation_space"),
    ("lstm_", "policy_kwargs/lstm_kwargs and policy_kwargs/enable_critic_lstm"),
    ("log_std", "use_sde and action_space"),
    ("qf", "policy_kwargs/n_critics and policy_kwargs/net_arch"),
)
"""Parts of names, and the keys of ``data`` that decide whether such names exist."""


class Mismatch(NamedTuple):
    """A name or a shape that differs."""

    name: str
    kind: Kind
    expected: tuple[int, ...] | None
    """None for a name that is not expected."""
    actual: tuple[int, ...] | None
    """None for a name that is missing."""
    key: str
    """The keys of ``data`` that decide on it; for a contradiction, the other name of the tensor."""

    @property
    def loc(self) -> str:
        """The tensor's path, as in other problems of a :class:`ValidationError`."""
        return self.name

    @property
    def message(self) -> str:
        """A sentence."""
        because = f" (from {self.key})" if self.key else ""
        name = quote(self.name, 120)
        if self.kind == "missing":
            return f"{name} is missing: expected the shape {self.expected}{because}"
        if self.kind == "unexpected":
            return f"{name} is unexpected{because}; its shape is {self.actual}"
        if self.kind == "contradiction":
            return f"{name} contradicts {quote(self.key, 120)}: they are one tensor in SB3, but their values differ"
        if self.kind == "count":
            groups = f"groups of {self.actual}" if len(self.actual or ()) != 1 else f"{(self.actual or (0,))[0]:,}"
            return f"expected one group of {(self.expected or (0,))[0]:,} parameters{because}, got {groups}"
        return f"{name}: expected the shape {self.expected}{because}, got {self.actual}"


def read_shapes(state_dict: StateDict) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of a policy's state dict.

    :raises UnsupportedError: when it is not a dict of tensors
    """
    tree = state_dict.tree
    if isinstance(tree, dict) and {"state", "param_groups"} <= tree.keys():
        message = "expected the state dict of a policy, got that of an optimizer"
        raise UnsupportedError(message, entry=state_dict.entry)
    if not isinstance(tree, dict):
        message = "expected a dict of tensors"
        raise UnsupportedError(message, entry=POLICY_ENTRY)
    made = {}
    for name, value in tree.items():
        if type(name) is not str or not isinstance(value, TensorInfo):
            message = f"{quote(name, 80)} is not a tensor"
            raise UnsupportedError(message, entry=POLICY_ENTRY)
        made[name] = tuple(value.shape)
    return made


def find_mismatches(
    expected: Mapping[str, tuple[int, ...]], actual: Mapping[str, tuple[int, ...]]
) -> tuple[Mismatch, ...]:
    """Return the names and shapes that differ; order does not matter.

    :param expected: as :func:`~sbformat.policies.shapes.expected_parameters` returns them
    :param actual: names and shapes of the state dict
    """
    found = []
    for name, shape in expected.items():
        have = actual.get(name)
        if have is None:
            found.append(Mismatch(name, "missing", _plain(shape), None, _keys(shape) or _guess_keys(name)))
        elif tuple(have) != tuple(shape):
            wrong = (size for size, other in zip(shape, have) if size != other) if len(shape) == len(have) else shape
            found.append(Mismatch(name, "shape", _plain(shape), tuple(have), _keys(tuple(wrong))))
    for name, have in actual.items():
        if name not in expected:
            found.append(Mismatch(name, "unexpected", None, tuple(have), _guess_keys(name)))
    return tuple(found)


def find_contradictions(state_dict: StateDict, parameters: Parameters) -> Iterator[Mismatch]:
    """Yield the tensors whose two names have different values; in SB3 both names are one tensor.

    :param state_dict: of the policy, with the names and shapes of the parameters
    :param parameters: as :func:`~sbformat.policies.shapes.match_network` returns them
    :raises SbformatError: when a storage cannot be read
    """
    for parameter in parameters:
        if parameter.same_as is None:
            continue
        one, other = (
            state_dict.tree[name]._replace(requires_grad=False, is_parameter=False, state=None)
            for name in (parameter.name, parameter.same_as)
        )
        if not equal(one, other, state_dict.new_budget(), state_dict.new_budget()):
            shape = _plain(parameter.shape)
            yield Mismatch(parameter.name, "contradiction", shape, shape, parameter.same_as)


def _plain(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(int, shape))


def _keys(shape: tuple[int, ...]) -> str:
    """Return the keys of ``data`` that decide on a shape."""
    return join_keys(getattr(size, "key", "") for size in shape)


def _guess_keys(name: str) -> str:
    return next((key for part, key in _KEYS if part in name), "policy_class and policy_kwargs")
