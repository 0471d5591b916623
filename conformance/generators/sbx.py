"""Archives of SBX (SBX.md 22): policies that are run, the state dicts in a pickled policy, and what is refused.

``released/write_sbx_policies.py`` wrote the agents. The others are made here of arrays, without any function by value.
"""

from __future__ import annotations

import json
import math
import struct
from typing import TYPE_CHECKING, Any, Final

from conformance.generators import expected
from conformance.generators.build_objects import dtype
from conformance.generators.build_pth import Apply, Change, Name, Raw, dumps
from conformance.generators.build_zips import Member, build_zip
from conformance.generators.carried import CLOUD
from conformance.generators.carried import function as carried_function
from conformance.generators.policies import CNN, change, read_agent, read_json, serialize
from conformance.generators.scanning import document, scans
from conformance.generators.vectors import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformance.generators.vectors import Vector

SBX: Final = "policy-sbx"
ACTIVATION: Final = "the activation is the function of jax that the attribute `activation_fn` of the network names"
DISCRETE: Final = "nothing is one-hot or divided. A Discrete is a vector of one number"
NORMS: Final = "`BatchRenorm_0`, then `Dense_N`, activation, `BatchRenorm_N+1`; no norm with `use_batch_norm` false"
SQUASHED: Final = "SAC, TQC, CrossQ: tanh of the first head, scaled to the bounds (19.8)"
PREDICTED: Final[Mapping[str, str]] = {
    "whole": "PPO, Box: the head, clipped to the bounds; drawn with `exp(log_std)`",
    "ppo": "PPO, Discrete, MultiDiscrete: argmax of the head, or of its parts",
    "ppo-box": "PPO, Box: the head, clipped to the bounds; drawn with `exp(log_std)`",
    "ppo-multi-discrete": "PPO, Discrete, MultiDiscrete: argmax of the head, or of its parts",
    "ppo-multi-binary": "PPO, MultiBinary: argmax of each pair of numbers",
    "ppo-no-layers": "`Dense_0`, activation, `Dense_1`, ..;",
    "ppo-observes-discrete": DISCRETE,
    "ppo-observes-multi-discrete": DISCRETE,
    "ppo-observes-bytes": DISCRETE,
    "sac": SQUASHED,
    "sac-layer-norm": "`LayerNorm_N` before the activation if there is one;",
    "sac-simba": "for each `SimbaResidualBlock_N` `x + Dense_1(activation(Dense_0(norm(x))))`",
    "sac-wide": "`log_std` is the second, clipped to -20 and 2",
    "sac-observes-dict": "the parts of a Dict are concatenated in the order of the space.",
    "sac-normalized": "Statistics of VecNormalize are applied first (17.3).",
    "tqc": "TQC has a state for each.",
    "crossq": NORMS,
    "crossq-no-norm": NORMS,
    "crossq-simba": "CrossQ's have `BatchRenorm_0` before `Dense_0`",
    "td3": "TD3, DDPG: tanh of the head, scaled",
    "ddpg": "TD3, DDPG: tanh of the head, scaled",
    "dqn": "DQN: argmax of the head; at random with `exploration_rate`",
    "dqn-cnn": "Kernels are (height, width, channels, filters), and the result is flattened in the order height, width, channels",
    "activation-gelu": "(`gelu` is that with tanh)",
    **{f"activation-{name}": ACTIVATION for name in ("silu", "elu", "hard-tanh", "softplus")},
}
"""The sentence that each recorded agent tests."""


def vectors() -> Iterator[Vector]:
    """Yield the vectors of this family."""
    yield from predicted()
    yield from built()
    yield from refused()
    yield from archives()
    yield from state_dicts()
    yield from named_tuples()
    yield from scanned()


def predicted() -> Iterator[Vector]:
    for name, sentence in PREDICTED.items():
        rule = Rule("22.3", sentence, SBX, *(CNN if name == "dqn-cnn" else ()))
        asked, found = read_json(f"sbx-{name}", "input"), read_json(f"sbx-{name}", "expect")
        yield rule.predicts(f"policy-sbx-{name}", read_agent(f"sbx-{name}"), asked, found)


# -- policies of arrays -------------------------------------------------------------------------------

TRAIN_STATE: Final = Name("flax.training.train_state", "TrainState")
POLICY: Final = Name("sbx.sac.policies", "SACPolicy")
SQUASHED_ACTOR: Final = Name("sbx.common.policies", "SquashedGaussianActor")
CRITICS: Final = Name("sbx.common.policies", "VectorCritic")
TD3_ACTOR: Final = Name("sbx.td3.policies", "Actor")


def made(cls: Name, attributes: Mapping[str, Any]) -> Apply:
    """An object that consists of its attributes."""
    return Apply(cls, (), Change("BUILD", dict(attributes)), how="NEWOBJ")


def jax_array(shape: tuple[int, ...], *items: float, code: str = "f4", name: Name | None = None) -> Apply:
    """An array as jax pickles it; items that are not given are 0."""
    count = math.prod(shape)
    raw = struct.pack(f"<{count}{ {'f4': 'f', 'f8': 'd', 'i4': 'i'}[code] }", *items, *[0] * (count - len(items)))
    state = (1, shape, dtype(code), False, raw)
    start = (Name("numpy._core.multiarray", "_reconstruct"), (Name("numpy", "ndarray"), (0,), b"b"))
    return Apply(name or Name("jax._src.array", "_reconstruct_array"), (*start, state, {"weak_type": False}))


def layer(inputs: int, outputs: int, *bias: float, kernel: Apply | None = None) -> dict[str, Apply]:
    """A Dense layer whose kernel is 0."""
    return {"bias": jax_array((outputs,), *bias), "kernel": kernel or jax_array((inputs, outputs))}


def function(name: str = "relu", module: str = "jax._src.nn.functions") -> Apply:
    """A function of jax with a derivative of its own, less what it consists of."""
    return made(Name("jax._src.custom_derivatives", "custom_jvp"), {"__module__": module, "__name__": name})


def actor(cls: Name = SQUASHED_ACTOR, **others: Any) -> Apply:
    """The network that acts: a hidden layer of 2 numbers."""
    return made(cls, {"activation_fn": function(), "action_dim": 2, "net_arch": [2], **others})


def state(params: Any, cls: Name = TRAIN_STATE, **others: Any) -> Apply:
    """A state of flax."""
    return made(cls, {"step": 3, "params": params, "tx": None, "opt_state": (), **others})


PARAMS: Final = {"Dense_0": layer(4, 2, 1, -1), "Dense_1": layer(2, 2, 0.5, -1), "Dense_2": layer(2, 2, 3, 0.25)}
"""Layers of an actor of 4 observations and 2 actions, whose results are their biases."""
ROWS: Final = 4
"""Observations of the first step."""
ASKED: Final = read_json("sbx-sac", "input")


def policy(attributes: Mapping[str, Any], cls: Name = POLICY) -> bytes:
    """The archive of a recorded agent with another policy."""
    return change("sbx-sac", policy=serialize(dumps(made(cls, attributes), 4)))


def acting(params: Mapping[str, Any] = PARAMS, module: Apply | None = None, **others: Any) -> bytes:
    """An archive of these layers."""
    return policy({"actor": module or actor(), "actor_state": state({"params": dict(params)}), **others})


def outputs(**found: tuple[float, ...]) -> dict[str, Any]:
    """What is expected where each observation has the same outputs."""
    arrays = {}
    for name, values in found.items():
        items = [*struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values))] * ROWS
        arrays[name] = {"dtype": "<f4", "shape": [ROWS, len(values)], "items": items}
    return {"policy": {"steps": [{"outputs": arrays}, {}]}}


MEANS: Final = outputs(mean=(0.5, -1.0))


def built() -> Iterator[Vector]:
    rule = Rule("22.3", SQUASHED, SBX)
    yield rule.predicts("policy-sbx-built", acting(), ASKED, outputs(mean=(0.5, -1.0), log_std=(2.0, 0.25)))
    bounds = actor(log_std_min=1.0, log_std_max=2.5)
    rule = Rule("22.3", "or to the attributes `log_std_min` and `log_std_max` of the network", SBX)
    yield rule.predicts("policy-sbx-log-std-of-the-network", acting(module=bounds), ASKED, outputs(log_std=(2.5, 1.0)))
    rule = Rule(
        "22.3", "without that attribute, in SBX before 0.13, it is `tanh` for PPO and `relu` for the others.", SBX
    )
    old = made(SQUASHED_ACTOR, {"action_dim": 2, "net_arch": [2]})
    ones = {**PARAMS, "Dense_1": layer(2, 2, kernel=jax_array((2, 2), 1, 2, 3, 4))}
    yield rule.predicts("policy-sbx-without-activation", acting(ones, old), ASKED, outputs(mean=(1.0, 2.0)))
    rule = Rule("22.3", "A critic that does not fit is left out.", SBX)
    narrow = {"VmapContinuousCritic_0": {"Dense_0": layer(5, 1)}}
    qf = {"qf": made(CRITICS, {"activation_fn": function()}), "qf_state": state({"params": narrow})}
    yield rule.predicts("policy-sbx-critic-left-out", acting(**qf), ASKED, MEANS)
    frozen = Apply(Name("flax.core.frozen_dict", "FrozenDict"), ({"params": PARAMS},))
    rule = Rule("22.1", "a `FrozenDict` of flax is a dict.", SBX)
    data = policy({"actor": actor(), "actor_state": state(frozen)})
    yield rule.predicts("policy-sbx-frozen-dict", data, ASKED, MEANS)
    rule = Rule("22.1", "or of a class whose name ends so, is a **state**", SBX)
    data = policy({"actor": actor(), "actor_state": state({"params": PARAMS}, Name("mine", "MyTrainState"))})
    yield rule.predicts("policy-sbx-state-of-a-subclass", data, ASKED, MEANS)
    rule = Rule("22.1", "before jax 0.4 of `jax._src.device_array._reconstruct_device_array`", SBX)
    old_name = Name("jax._src.device_array", "_reconstruct_device_array")
    bias = {"bias": jax_array((2,), 0.5, -1, name=old_name), "kernel": jax_array((2, 2))}
    yield rule.predicts(
        "policy-sbx-array-of-old-jax", acting({**PARAMS, "Dense_1": bias}), ASKED, outputs(mean=(0.5, -1.0))
    )


def refused() -> Iterator[Vector]:
    rule = Rule(
        "22.3", "The class of the network that acts, the attribute `actor` or for DQN `qf`, determines the layers.", SBX
    )
    for name, module in {"class": actor(Name("mine", "Actor")), "class-of-critics": actor(CRITICS)}.items():
        yield rule.cannot_run(f"policy-sbx-unknown-{name}", acting(module=module), ASKED, "unsupported")
    none = policy({"actor_state": state({"params": PARAMS})})
    yield rule.cannot_run("policy-sbx-without-a-network", none, ASKED, "unsupported")
    yield rule.cannot_run("policy-sbx-without-a-state", policy({"actor": actor()}), ASKED, "unsupported")
    rule = Rule("22.3", ACTIVATION, SBX)
    for name, module in {
        "activation": actor(activation_fn=function("snake")),
        "module-of-an-activation": actor(activation_fn=function("relu", "mine.functions")),
        "object-as-activation": actor(activation_fn=made(Name("mine", "Layer"), {})),
    }.items():
        yield rule.cannot_run(f"policy-sbx-unknown-{name}", acting(module=module), ASKED, "unsupported")
    rule = Rule("22.3", 'An array that is missing, or a size that is not that of `net_arch`, is "invalid"', SBX)
    for name, params in {
        "array-missing": {**PARAMS, "LayerNorm_0": {"scale": jax_array((2,))}},
        "layer-missing": {"Dense_0": PARAMS["Dense_0"], "Dense_1": PARAMS["Dense_1"]},
        "layer-too-many": {**PARAMS, "Dense_3": layer(2, 2)},
        "size": {**PARAMS, "Dense_0": layer(4, 3), "Dense_1": layer(3, 2), "Dense_2": layer(3, 2)},
    }.items():
        yield rule.cannot_run(f"policy-sbx-{name}", acting(params), ASKED, "invalid")
    rule = Rule("22.3", "so is a head that does not have the outputs of the action space.", SBX)
    for name, sizes in {"mean": (3, 2), "log-std": (2, 3)}.items():
        params = {**PARAMS, "Dense_1": layer(2, sizes[0]), "Dense_2": layer(2, sizes[1])}
        yield rule.cannot_run(f"policy-sbx-outputs-of-{name}", acting(params), ASKED, "invalid")
    rule = Rule("22.3", 'An array of another shape or name is "unsupported", as is one that is not of float32.', SBX)
    for name, params in {
        "shape": {**PARAMS, "Dense_0": layer(5, 2)},
        "shape-of-a-bias": {**PARAMS, "Dense_0": {**PARAMS["Dense_0"], "bias": jax_array((1, 2))}},
        "other-array": {**PARAMS, "Other_0": layer(2, 2)},
        "float64": {**PARAMS, "Dense_0": layer(4, 2, kernel=jax_array((4, 2), code="f8"))},
        "integers": {**PARAMS, "Dense_0": layer(4, 2, kernel=jax_array((4, 2), code="i4"))},
    }.items():
        yield rule.cannot_run(f"policy-sbx-{name}", acting(params), ASKED, "unsupported")


# -- archives -----------------------------------------------------------------------------------------


STATE_TYPE: Final = "<class 'flax.training.train_state.TrainState'>"
POLICY_TYPE: Final = "<class 'sbx.sac.policies.SACPolicy'>"


def archive(
    package: str = "sac", attributes: Mapping[str, Any] | None = None, **data: Any
) -> tuple[bytes, dict[str, Any]]:
    """A zip as SBX writes it, and the expected output for its ``data``.

    :param attributes: of the pickled policy
    :param data: other keys of ``data``: JSON values, and states
    """
    pickles = {"policy_class": ("<class 'abc.ABCMeta'>", dumps(Name(f"sbx.{package}.policies", "Policy"), 4))}
    if attributes is not None:
        pickles["policy"] = POLICY_TYPE, dumps(made(POLICY, attributes), 4)
    pickles |= {key: (STATE_TYPE, dumps(part, 4)) for key, part in data.items() if isinstance(part, Apply)}
    blobs = {key: {**serialize(raw), ":type:": type_} for key, (type_, raw) in pickles.items()}
    plain = {key: part for key, part in data.items() if not isinstance(part, Apply)}
    text = json.dumps({**blobs, **plain}).encode()
    held = [[key, expected.serialized(raw, type_)] for key, (type_, raw) in pickles.items()]
    held += [[key, expected.plain(part)] for key, part in plain.items()]
    made_zip = build_zip(Member(b"data", text), Member(b"_stable_baselines3_version", b"2.9.2"))
    return made_zip, {"dict": held}


VERSION: Final = {"version": "2.9.2"}
OTHER: Final = "--other-formats"


def archives() -> Iterator[Vector]:
    rule = Rule("1.1", "A reader SHOULD read the forms in which archives are found:")
    made_zip, held = archive(attributes={"actor_state": state({})})
    entries = {"data": held, "_stable_baselines3_version": VERSION}
    yield rule.accepts("form-zip-of-sbx", made_zip, expected.archive(entries))
    rule = Rule("4.3", "The name by this section is then null, not certain.")
    made_zip, _ = archive("ppo", n_epochs=10)
    unknown = {"algorithm": None, "certain": False}
    yield rule.accepts("sbx-algorithm-of-sb3", made_zip, unknown, "--algorithm")
    rule = Rule("22", "The algorithm is the name of the package in `policy_class`, `sbx.ALGORITHM.policies`")
    for name in ("PPO", "SAC", "TQC", "CrossQ", "TD3", "DQN"):
        made_zip, _ = archive(name.lower(), policy_delay=2)
        found = {"algorithm": name, "certain": True}
        yield rule.accepts(f"sbx-algorithm-{name.lower()}", made_zip, found, "--algorithm", OTHER)
    rule = Rule("22", "a TD3 whose `policy_delay` is 1 and whose `target_noise_clip` is 0 is DDPG, not certain.")
    for name, delay, noise, found in (
        ("ddpg", 1, 0.0, {"algorithm": "DDPG", "certain": False}),
        ("delayed", 2, 0.0, {"algorithm": "TD3", "certain": True}),
        ("noisy", 1, 0.5, {"algorithm": "TD3", "certain": True}),
    ):
        made_zip, _ = archive("td3", policy_delay=delay, target_noise_clip=noise)
        yield rule.accepts(f"sbx-algorithm-td3-{name}", made_zip, found, "--algorithm", OTHER)


def dicts(**state_dicts: Any) -> dict[str, Any]:
    """State dicts by name: ``policy_optimizer`` is ``policy.optimizer``."""
    return {name.replace("_optimizer", ".optimizer"): part for name, part in state_dicts.items()}


def tagged_dict(**parts: Any) -> dict[str, Any]:
    """A dict of parts that are tagged."""
    return {"dict": [[key, part] for key, part in parts.items()]}


def reads(rule: Rule, name: str, attributes: Mapping[str, Any], state_dicts: Mapping[str, Any], **data: Any) -> Vector:
    """An archive whose state dicts a reader must return."""
    made_zip, held = archive(attributes=attributes, **data)
    entries = {"data": held, **state_dicts, "_stable_baselines3_version": VERSION}
    return rule.accepts(f"sbx-{name}", made_zip, expected.archive(entries, "sbx"), OTHER)


def state_dicts() -> Iterator[Vector]:
    one, held_one = jax_array((2,), 0.5, -1), expected.floats(0.5, -1)
    rule = Rule("22.1", "for each state its `params`, and `target_params` and `batch_stats` if it has them")
    attributes = {"net": 1, "qf_state": state({"a": {"b": one}}, target_params={"a": one}, batch_stats={"c": 1})}
    found = tagged_dict(
        params=tagged_dict(a=tagged_dict(b=held_one)),
        target_params=tagged_dict(a=held_one),
        batch_stats=tagged_dict(c=1),
    )
    empty = tagged_dict(step=3, opt_state={"list": []})
    yield reads(
        rule,
        "weights",
        attributes,
        dicts(policy=tagged_dict(qf_state=found), policy_optimizer=tagged_dict(qf_state=empty)),
    )
    rule = Rule("22.1", "for each state its `step` and `opt_state`")
    attributes = {"actor_state": state({}, step=jax_array((), 7, code="i4"), opt_state=({"count": one}, None))}
    step = expected.tensor("int32", (), struct.pack("<i", 7))
    found = tagged_dict(step=step, opt_state={"list": [tagged_dict(count=held_one), None]})
    held = dicts(
        policy=tagged_dict(actor_state=tagged_dict(params={"dict": []})),
        policy_optimizer=tagged_dict(actor_state=found),
    )
    yield reads(rule, "optimizer", attributes, held)
    rule = Rule("22.1", "A value of `data` whose `:type:` ends in `TrainState` is a state, too: `ent_coef_state`.")
    held = dicts(
        policy=tagged_dict(actor_state=tagged_dict(params={"dict": []})),
        policy_optimizer=tagged_dict(actor_state=empty),
        ent_coef_state=tagged_dict(params=tagged_dict(log=held_one)),
        ent_coef_state_optimizer=empty,
    )
    yield reads(rule, "state-of-data", {"actor_state": state({})}, held, ent_coef_state=state({"log": one}))
    rule = Rule("22.1", "Values are nested dicts, lists (of tuples), arrays, numbers and None.")
    parts = {"a": [1, (2.0, None)], "b": True, "c": "text"}
    listed = tagged_dict(a={"list": [1, {"list": [expected.floating(2.0), None]}]}, b=True, c="text")
    held = dicts(
        policy=tagged_dict(actor_state=tagged_dict(params=listed)), policy_optimizer=tagged_dict(actor_state=empty)
    )
    yield reads(rule, "values", {"actor_state": state(parts)}, held)
    rule = Rule("22.1", 'Anything else is "unsupported".')
    for name, value in {
        "name": Name("mine", "kernel"),
        "call": Apply(Name("mine", "kernel"), ()),
        "object": made(Name("mine", "Kernel"), {"a": one}),
        "bytes": b"bytes",
        "set": {1},
    }.items():
        made_zip, _ = archive(attributes={"actor_state": state({"a": value})})
        yield rule.refuses(f"sbx-{name}", made_zip, "unsupported", OTHER)
    rule = Rule("22.1", "They are checked as those of the same array of numpy.")
    for name, shape in {"more-items": (1,), "fewer-items": (3,)}.items():
        array = jax_array((2,), 0.5, -1)
        array.args = (*array.args[:2], (1, shape, *array.args[2][2:]), array.args[3])  # type: ignore[index]
        made_zip, _ = archive(attributes={"actor_state": state({"a": array})})
        yield rule.refuses(f"sbx-array-of-{name}", made_zip, "unsupported", OTHER)


def named_tuples() -> Iterator[Vector]:
    one, held_one = jax_array((2,), 0.5, -1), expected.floats(0.5, -1)
    rule = Rule("22.1", "They are the arguments of NEWOBJ, in this order;")
    for name, pair, fields in (
        ("adam", ("optax._src.transform", "ScaleByAdamState"), ("count", "mu", "nu")),
        ("amsgrad", ("optax._src.transform", "ScaleByAmsgradState"), ("count", "mu", "nu", "nu_max")),
        ("trace", ("optax.transforms._accumulation", "TraceState"), ("trace",)),
        ("empty", ("optax._src.base", "EmptyState"), ()),
    ):
        node = Apply(Name(*pair), (one,) * len(fields), how="NEWOBJ")
        optimizer = tagged_dict(step=3, opt_state={"list": [tagged_dict(**dict.fromkeys(fields, held_one))]})
        held = dicts(
            policy=tagged_dict(actor_state=tagged_dict(params={"dict": []})),
            policy_optimizer=tagged_dict(actor_state=optimizer),
        )
        yield reads(rule, f"named-tuple-{name}", {"actor_state": state({}, opt_state=(node,))}, held)
    rule = Rule("22.1", 'with more or fewer arguments, the value is "unsupported".')
    for name, pair, count in (
        ("fewer-arguments", ("optax._src.transform", "ScaleByAdamState"), 2),
        ("more-arguments", ("optax._src.transform", "ScaleByAdamState"), 4),
        ("unknown-name", ("optax._src.transform", "ScaleByMineState"), 3),
    ):
        node = Apply(Name(*pair), (one,) * count, how="NEWOBJ")
        made_zip, _ = archive(attributes={"actor_state": state({}, opt_state=(node,))})
        yield rule.refuses(f"sbx-named-tuple-{name}", made_zip, "unsupported", OTHER)


INLINE: Final = Name("jax._src.api", "Inline")
ARRAY: Final = Name("jax", "Array")
TREE_MAP: Final = Name("jax.tree_util", "tree_map")
OR: Final = Name("_operator", "or_")
REDUCE: Final = Name("_functools", "reduce")
NONE_TYPE: Final = Apply(Name("builtins", "type"), (None,))


def beside_code(*values: object) -> list[object]:
    """Values, and a function that no release of SB3 contains."""
    return [Raw(carried_function(b"\x00").code), *values]


def scanned() -> Iterator[Vector]:
    rule = Rule("22.2", "The names of SBX 0.28 with jax 0.11 are known.")
    for name in ("whole", "sac", "crossq"):
        rules = ("carried-function", "odd-pickle", *(() if name == "whole" else ("unknown-name",)))
        yield scans(rule, f"sbx-{name}", read_agent(f"sbx-{name}"), "code", *rules)

    def judged(name: str, value: object, found: str, *rules: str) -> Vector:
        policy = dumps(made(POLICY, {"attribute": value}), 4)
        return scans(rule, f"sbx-{name}", document(policy, "policy"), found, *rules)

    rule = Rule("22.2", "`auto`, `jax_early`, `jax_late`, `xla_early` or `xla_late`.")
    for member in ("auto", "jax_early", "jax_late", "xla_early", "xla_late"):
        yield judged(f"inline-{member.replace('_', '-')}", Apply(INLINE, (member,)), "clean")
    for name, args in (("other-value", ("JAX_EARLY",)), ("new-members", ("auto", "A")), ("without-a-value", ())):
        yield judged(f"inline-{name}", Apply(INLINE, args), "unknown", "unchecked-arguments")
    changed = Apply(INLINE, ("auto",), Change("BUILD", {"x": 1}))
    yield judged("inline-with-a-state", changed, "unknown", "unchecked-arguments")
    rule = Rule("22.2", "is known if `TYPES` is a tuple of known names, types and None.")
    code = ("carried-function",)
    yield judged("union", beside_code(Apply(REDUCE, (OR, (ARRAY, NONE_TYPE, None)))), "code", *code)
    for name, args in (
        ("of-objects", (OR, (made(SQUASHED_ACTOR, {}), ARRAY))),
        ("of-numbers", (OR, (1, 2))),
        ("by-another-operator", (Name("_operator", "add"), (ARRAY, ARRAY))),
        ("with-a-start", (OR, (ARRAY,), ARRAY)),
        ("of-a-list", (OR, [ARRAY])),
    ):
        node = beside_code(Apply(REDUCE, args))
        yield judged(f"union-{name}", node, "dangerous", *code, "called-name", "unchecked-arguments")
    system = beside_code(Apply(REDUCE, (Name("os", "system"), ("true",))))
    yield judged("reduce-of-a-harmful-name", system, "dangerous", *code, "dangerous-name", "unchecked-arguments")
    rule = Rule("22.2", "known only in a pickle with a function by value: `name beside code` in `roles.json`.")
    for name, value in {"array": ARRAY, "function": TREE_MAP}.items():
        yield judged(f"{name}-beside-code", beside_code(value), "code", *code)
        yield judged(f"{name}-alone", [value], "dangerous", "called-name")
    called = beside_code(Apply(TREE_MAP, (1, 2)))
    yield judged("call-of-a-function-of-jax", called, "dangerous", *code, "unknown-call", "unknown-name")
    imported = beside_code(Apply(Name(CLOUD, "subimport"), ("optax.tree",)))
    yield judged("module-of-optax", imported, "code", *code)
