"""Archives as SBX writes them, made of arrays: the states of flax in a pickled policy, without any function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import sbformat
from sbformat import pkl
from sbformat.data import Serialized
from sbformat.pkl.tree import Call, Dict, Global, Update
from tests.helpers.bundled import PPO, SAC

if TYPE_CHECKING:
    from collections.abc import Mapping

TRAIN_STATE = ("flax.training.train_state", "TrainState")


def with_state(call: Call, state: object) -> Call:
    """The same call, with a state that BUILD sets."""
    call.updates = [Update("BUILD", call, state)]
    return call


def jax_array(value: Any) -> Call:
    """The call that jax pickles an array as."""
    array = np.asarray(value)
    dtype = with_state(
        Call("REDUCE", Global("numpy", "dtype"), (array.dtype.str[1:], False, True)),
        (3, "<", None, None, None, -1, -1, 0),
    )
    state = (1, array.shape, dtype, False, array.tobytes())
    function = Global("numpy._core.multiarray", "_reconstruct")
    flags = Dict([("weak_type", False)])
    given = (Global("numpy", "ndarray"), (0,), b"b")
    return Call("REDUCE", Global("jax._src.array", "_reconstruct_array"), (function, given, state, flags))


def tree_of(value: Any) -> object:
    """Nested dicts of arrays as a tree; nodes, numbers and containers are left as they are."""
    if isinstance(value, dict):
        return Dict([(key, tree_of(part)) for key, part in value.items()])
    return jax_array(value) if isinstance(value, np.ndarray) else value


def made_object(pair: tuple[str, str], attributes: Mapping[str, Any]) -> Call:
    """An object of a class that consists of its attributes."""
    return with_state(Call("NEWOBJ", Global(*pair), ()), Dict([(k, tree_of(v)) for k, v in attributes.items()]))


def train_state(params: Any, **others: Any) -> Call:
    """A state of flax: ``params``, and what SBX has beside them."""
    return made_object(
        TRAIN_STATE, {"step": np.array(3, np.int32), "params": params, "tx": None, "opt_state": (), **others}
    )


def activation(name: str = "relu", module: str = "jax._src.nn.functions") -> Call:
    """A function of jax with a derivative of its own, less what it consists of."""
    return made_object(("jax._src.custom_derivatives", "custom_jvp"), {"__module__": module, "__name__": name})


def blob(tree: object, type_name: str) -> Serialized:
    """A value of ``data``."""
    return Serialized(f"<class '{type_name}'>", pkl.dumps(tree, protocol=4))


def sbx_archive(algorithm: str, policy: Mapping[str, Any], /, **data: Any) -> bytes:
    """An archive of SBX: spaces and settings of a bundled one, and a pickled policy.

    :param algorithm: the package of SBX: ``sac``, ``ppo``, ...
    :param policy: the attributes of the policy
    :param data: further keys
    """
    template = sbformat.read(PPO if algorithm in ("ppo", "dqn") else SAC)
    pair = (f"sbx.{algorithm}.policies", f"{algorithm.upper()}Policy")
    name = ".".join(pair)
    kept = {key: value for key, value in template.data.items() if key not in ("policy_kwargs", "_last_original_obs")}
    made = {
        **kept,
        "policy_class": blob(Global(*pair), "abc.ABCMeta"),
        "policy": blob(made_object(pair, policy), name),
        **data,
    }
    archive = template.replace(data=made, parameters=dict.fromkeys(template.parameters), pytorch_variables=None)
    return sbformat.writes(archive)
