"""``export_javascript``: a policy as a JavaScript module without dependencies, and its TypeScript declarations.

*In*: the graph of a policy. *Out*: the text of the module. No code is generated: ``runtime.js`` is the same in every
module, and the policy is data that it gets, a *program* (POLICIES.md 20.5). Values have numbers instead of names::

    inputs   0 observation (4)
    weights  1 q_net.q_net.0.weight (8, 4)   2 q_net.q_net.0.bias (8)   ...
    nodes    5 Gemm of 0, 1, 2               6 Relu of 5                ...

So texts of a file are values of strings alone, and no object has a key of the file. Nodes and dtypes are those of the
graph, as in :func:`export_graph`: nothing is folded or narrowed. numpy is not imported, unless a tensor is stored in an
order of items that only numpy reads.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import textwrap
from array import array
from functools import cache, partial
from math import prod
from pathlib import Path
from struct import iter_unpack
from typing import TYPE_CHECKING, Any, Final

from sbformat.errors import UnsupportedError, quote, require_type
from sbformat.known.numpy import unpack_items
from sbformat.known.spaces import Discrete
from sbformat.limits import Budget
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.export.files import (
    NEXT,
    ExportReport,
    Port,
    describe_origin,
    name_inputs,
    name_states,
    summarize_origin,
    write_files,
)
from sbformat.policies.export.formats import JAVASCRIPT, list_outputs
from sbformat.policies.export.parts import choose_outputs, refuse_calls
from sbformat.policies.graph import list_positions, widen_inputs
from sbformat.policies.loading import open_policy
from sbformat.policies.operators import OPERATORS
from sbformat.pth.array_streams import stream_of
from sbformat.pth.values import TensorInfo
from sbformat.rendering import write_numbers
from sbformat.values.render import render_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.builder import PolicyModel
    from sbformat.policies.graph import Graph, Weight
    from sbformat.policies.run.policy import Policy

_ALIGNMENT: Final = 8
_LARGEST: Final = 2**53
_LINE: Final = 118
_LITERAL: Final = 1 << 19
"""Letters of the data in one literal: engines take quadratic time for a long one."""
_CODES: Final = {
    "bool": "B", "uint8": "B", "int8": "b", "uint16": "H", "int16": "h", "uint32": "I", "int32": "i", "uint64": "d",
    "int64": "d", "float16": "f", "float32": "f", "float64": "d",
}  # fmt: skip
"""The items of ``data`` by dtype, as codes of :mod:`array`: JavaScript has no half-precision numbers everywhere, and
integers of 64 bits only as objects."""
_UNPACK: Final = {"float16": "<e", "int64": "<q", "uint64": "<Q"}
"""How torch stores the dtypes whose items are converted."""
_OPTIONS: Final = {"state": "state.", "episode_start": "episodeStart", "action_masks": "mask"}
"""The options of ``predict``, by the role of inputs."""
ARRAYS: Final = {
    "bool": "Uint8Array", "uint8": "Uint8Array", "int8": "Int8Array", "uint16": "Uint16Array", "int16": "Int16Array",
    "uint32": "Uint32Array", "int32": "Int32Array", "uint64": "Float64Array", "int64": "Float64Array",
    "float16": "Float32Array", "float32": "Float32Array", "float64": "Float64Array",
}  # fmt: skip
"""The arrays of results, by dtype."""


def export_javascript(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    outputs: Iterable[str] | None = None,
    raw: bool = False,
    overwrite: bool = False,
) -> ExportReport:
    """Write a policy as a JavaScript module (ES2022) with TypeScript declarations beside it.

    The module has the weights, needs no other package, evaluates no text as code, and runs in Node 20 and in browsers,
    also under a strict Content-Security-Policy::

        import { predict } from "./policy.js";
        const { action, state, outputs } = predict([0.01, -0.2, 0.03, 0.4]);

    ``predict(observation, { state, episodeStart, mask, deterministic, random })`` is what ``Policy.predict`` is, for
    one observation: nested or typed arrays, a number, or an object of these for a Dict. With ``deterministic: false``
    it samples with ``random``, by default ``Math.random``. POLICIES.md 20.5.

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the module, which ends in ``.js`` or ``.mjs``; the declarations end in ``.d.ts`` or ``.d.mts``
    :param outputs: names of outputs; what they do not depend on is left out. By default all of them
    :param raw: leave out what clips or scales a continuous action to the bounds of its space. Statistics remain: load
        the policy with ``vecnormalize=False`` to leave these out too
    :param overwrite: replace files that exist
    :return: the files, inputs and outputs
    :raises ValueError: for an output that the policy does not have, and another suffix
    :raises FileExistsError: when one of the files exists and ``overwrite`` is False; then none is written
    :raises UnsupportedError: for modules that the caller supplied as functions, a network that computes in float16, and
        integers that JavaScript does not represent
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`

    Example::

        sbformat.export_javascript("ppo_cartpole.zip", "policy.js")
    """
    require_type(path, (str, os.PathLike), "a path")
    target = os.fspath(path)
    if os.path.splitext(target)[1] not in JAVASCRIPT:
        hint = ": node imports no upper-case ending" if target.lower().endswith(JAVASCRIPT) else ""
        raise ValueError(f"expected a path that ends in {' or '.join(JAVASCRIPT)}, got {quote(target)}{hint}")
    program = make_program(open_policy(policy).model, outputs, raw=raw)
    texts = write_module(program), write_declarations(program)
    contents = {name: text.encode("ascii") for name, text in zip(list_outputs(target), texts)}
    files = write_files(contents, overwrite=overwrite)
    constants = sum(prod(weight["shape"]) for weight in program["weights"])
    return ExportReport(
        "javascript", files, *_list_ports(program), len(program["nodes"]), constants, program["metadata"]
    )


def _list_ports(program: Mapping[str, Any]) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Return the inputs, and the outputs with the next states."""
    inputs = tuple(
        Port(row["name"], row["name"], row["dtype"], tuple(row["shape"]), row["role"], row["key"])
        for row in program["inputs"]
    )
    values = [*program["inputs"], *program["weights"], *program["nodes"]]
    rows = [(row["name"], row["value"]) for row in program["outputs"]]
    rows += [(f"{NEXT}{row['name']}", row["output"]) for row in program["states"]]
    return inputs, tuple(
        Port(name, name, values[value]["dtype"], tuple(values[value]["shape"]), "output") for name, value in rows
    )


# -- programs -----------------------------------------------------------------------------------------


def make_program(
    model: PolicyModel, outputs: Iterable[str] | None = None, *, raw: bool = False, budget: Budget | None = None
) -> dict[str, Any]:
    """Return a policy as plain JSON, which ``createPolicy`` of ``runtime.js`` runs (POLICIES.md 20.5).

    :param outputs: names of outputs; by default all
    :param raw: leave out what clips or scales an action
    :param budget: charged for the weights
    :raises UnsupportedError: for what JavaScript cannot compute

    Example::

        make_program(load_model("ppo_cartpole.zip"))["outputs"]  # [{"name": "action", "value": 30}, ...]
    """
    graph = widen_inputs(choose_outputs(model.graph, outputs, raw=raw), model.family)
    refuse_calls(graph.nodes)
    for node in graph.nodes:
        if node.dtype == "float16" and (node.op == "Cast" or not OPERATORS[node.op].moves):
            message = f"{quote(node.module or node.name, 80)} computes in float16, which JavaScript does not have"
            raise UnsupportedError(message)
    names = [*(item.name for item in graph.inputs), *graph.weights, *(node.name for node in graph.nodes)]
    numbers = {name: number for number, name in enumerate(names)}
    weights, data = _write_weights(graph.weights.values(), budget or Budget())
    nodes = [
        {
            "op": node.op, "operands": [numbers[name] for name in node.inputs],
            "attributes": write_numbers(dict(node.attributes)), "dtype": node.dtype, "shape": list(node.shape),
        }
        for node in graph.nodes
    ]  # fmt: skip
    states = name_states(model.graph)
    return {
        "metadata": dict(describe_origin(model)),
        "inputs": _write_inputs(graph, model),
        "weights": weights,
        "nodes": nodes,
        "outputs": [{"name": name, "value": numbers[value]} for name, value in graph.outputs.items()],
        "states": [
            {"name": states[state.input], "input": numbers[state.input], "output": numbers[state.output]}
            for state in graph.states
        ],
        "sampling": _write_sampling(graph, model, numbers),
        "data": base64.b64encode(data).decode("ascii"),
    }


def _write_inputs(graph: Graph, model: PolicyModel) -> list[dict[str, Any]]:
    """Return the inputs in the order of the graph, with what else an observation is checked for."""
    space, parts = model.observation_space, model.observation_space.parts()
    ports = name_inputs(model.graph, [item.name for item in graph.inputs], graph.outputs)
    made = []
    for port, item in zip(ports, graph.inputs):
        part = parts.get(item.key, space)
        is_observation = item.role == "observation"
        choices = list(part.choices()) if is_observation and part.observed == "one-hot" else None
        if item.role == "action_masks":
            choices = list(model.graph.sampling.sizes)
        made.append(
            {
                "name": port.name, "key": item.key, "role": item.role, "dtype": item.dtype, "shape": list(item.shape),
                "is_image": is_observation and model.family == "sb3" and part.is_image(),
                "choices": choices, "default": item.default,
                "space": write_numbers(render_json(part)) if is_observation else None,
            }
        )  # fmt: skip
    return made


def _write_sampling(graph: Graph, model: PolicyModel, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return how actions are drawn; ``checked`` is whether SB3 refuses a mean or logits that are not numbers."""
    sampling, space = graph.sampling, model.action_space
    is_random = sampling.kind == "epsilon_greedy" and sampling.rate > 0
    if is_random and not isinstance(space, Discrete):
        raise UnsupportedError(f"expected a Discrete action space for random actions, got {space.class_name}")
    low, high = (space.start, space.start + space.n) if isinstance(space, Discrete) and is_random else (0, 0)
    _require_exact((low, high), "the action space")
    return {
        "kind": sampling.kind if is_random or sampling.kind != "epsilon_greedy" else "none",
        "replaces": numbers.get(sampling.replaces),
        "parameters": {name: numbers[value] for name, value in sampling.parameters.items()},
        "sizes": list(sampling.sizes),
        "rate": min(sampling.rate, 1) if is_random else 0,
        "low": low,
        "high": high,
        "checked": model.family == "sb3" and not {"mean", "logits"}.isdisjoint(sampling.parameters),
    }


def _write_weights(weights: Iterable[Weight], budget: Budget) -> tuple[list[dict[str, Any]], bytes]:
    """Return the weights, and their bytes in C order, little-endian."""
    described, data = [], bytearray()
    for weight in weights:
        data += bytes(-len(data) % _ALIGNMENT)
        described.append({"dtype": weight.dtype, "shape": list(weight.shape), "at": len(data)})
        budget.inflate(prod(weight.shape) * array(_CODES[weight.dtype]).itemsize)
        data += _read_weight(weight, budget)
    return described, bytes(data)


def _read_weight(weight: Weight, budget: Budget) -> bytes:
    source = weight.source
    if isinstance(source, TensorInfo):
        return _read_tensor(source, weight, budget)
    if isinstance(source, ArrayInfo):
        items = unpack_items(source)
        is_in_order = source.order == "C" and not source.axes
        return _pack(items if is_in_order else [items[at] for at in list_positions(source)], weight)
    return _pack(list(source) * (prod(weight.shape) if len(source) == 1 else 1), weight)


def _read_tensor(info: TensorInfo, weight: Weight, budget: Budget) -> bytes:
    """Return the items of a tensor; of bfloat16 as float32, whose upper half it is."""
    is_half = info.dtype == "bfloat16"
    stored = info._replace(dtype="uint16", conj=False, neg=False) if is_half else info
    content = b"".join(stream_of(stored, partial(_make_array, stored, budget)).in_c_order())
    if is_half:
        wide = bytearray(2 * len(content))
        wide[2::4], wide[3::4] = content[::2], content[1::2]
        return _pack([-item for (item,) in iter_unpack("<f", wide)], weight) if info.neg else bytes(wide)
    if weight.dtype in _UNPACK:
        return _pack([item for (item,) in iter_unpack(_UNPACK[weight.dtype], content)], weight)
    return content


def _make_array(info: TensorInfo, budget: Budget) -> Any:
    from sbformat.pth.arrays import to_array

    return to_array(info, budget)


def _pack(items: Sequence[Any], weight: Weight) -> bytes:
    code = _CODES[weight.dtype]
    if weight.dtype in ("int64", "uint64"):
        _require_exact(items, weight.name)
    packed = array(code, items if code in "fd" else map(int, items))
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _require_exact(items: Iterable[float], what: str) -> None:
    for item in items:
        if abs(item) > _LARGEST:
            raise UnsupportedError(f"{quote(what, 80)}: expected integers up to 2**53, got {item:.0f}")


# -- the module ---------------------------------------------------------------------------------------


@cache
def read_runtime() -> str:
    """Return the text of ``runtime.js``, a module whose export is ``createPolicy(program)``."""
    return Path(__file__).with_name("runtime.js").read_text("utf-8").replace("\r\n", "\n")


def write_module(program: Mapping[str, Any]) -> str:
    """Return the text of the module."""
    members = ",\n".join(f"  {_dump(name)}: {_write_member(value)}" for name, value in program.items())
    comment = [
        f"{summarize_origin(program['metadata'])}.",
        "predict(observation, { state, episodeStart, mask, deterministic, random }): { action, state, outputs }",
        *(_describe_port(port) for ports in _list_ports(program) for port in ports),
    ]
    lines = [line for text in comment for line in textwrap.wrap(_dump(text)[1:-1], _LINE - 3) or [""]]
    runtime = read_runtime().replace("export function createPolicy", "function createPolicy")
    return (
        "\n".join(f"// {line}" for line in lines)
        + f"\n\n{runtime}\nconst policy = createPolicy({{\n{members},\n}});\n"
        + "export const { predict, resetNoise, inputs, outputs, metadata } = policy;\n"
    )


def _write_member(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n    " + ",\n    ".join(map(_dump, value)) + ",\n  ]"
    if isinstance(value, str):  # the data, of letters and digits
        lines = [value[at : at + _LINE] for at in range(0, len(value), _LINE)]
        count = _LITERAL // _LINE
        literals = ["\n".join(lines[at : at + count]) for at in range(0, len(lines), count)]
        return "[`\n" + "\n`, `\n".join(literals) + "\n`].join('')"
    return _dump(value)


def _dump(value: Any) -> str:
    """Return JSON that is ASCII and contains no tag of HTML."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")


def _describe_port(port: Port) -> str:
    """Return a line about an argument or a result, by its name in JavaScript."""
    name = port.name
    if port.role in _OPTIONS:
        name = f"{_OPTIONS[port.role]}{name if port.role == 'state' else ''}"
    elif port.key is not None:
        name = f"{quote(port.key, 80)} of the observation"
    elif name.startswith(NEXT):
        name = f"state.{name[len(NEXT) :]}"
    return f"{'output' if port.role == 'output' else 'input'} {name}: {port.dtype}, shape {port.shape}"


def write_declarations(program: Mapping[str, Any]) -> str:
    """Return the TypeScript declarations of the module."""
    inputs, results = _list_ports(program)
    keys = [port.key for port in inputs if port.key is not None]
    members = "".join(f"  {_dump(key)}: Numbers;\n" for key in keys)
    observation = f"{{\n{members}}} | Map<string, Numbers>" if keys else "Numbers"
    states = [_dump(port.name) for port in inputs if port.role == "state"]
    given = {
        "state": _write_members(states, "Items"),
        "episode_start": "boolean | number",
        "action_masks": "Items | readonly Items[]",
    }
    roles = {port.role for port in inputs}
    outputs = {port.name: ARRAYS[port.dtype] if port.shape else "number" for port in results[: len(program["outputs"])]}
    return _DECLARATIONS % {
        **{role: f"{f'{kind} | ' if role in roles else ''}null | undefined" for role, kind in given.items()},
        "observation": observation,
        "next": _write_members(states, "Float32Array") if states else "undefined",
        "action": outputs.get("action", "undefined"),
        "outputs": "".join(f"  {_dump(name)}: {kind};\n" for name, kind in outputs.items()),
    }


def _write_members(names: Sequence[str], kind: str) -> str:
    return f"{{ {'; '.join(f'{name}: {kind}' for name in names)} }}"


_DECLARATIONS: Final = """\
export type Items =
  readonly (number | bigint | boolean)[] | (ArrayBufferView & (ArrayLike<number> | ArrayLike<bigint>));
export type Numbers = number | bigint | boolean | Items | readonly Numbers[];
export type Observation = %(observation)s;
export type State = %(next)s;
export type Action = %(action)s;
export interface Outputs {
%(outputs)s}
export interface Options {
  /** What the last call returned; by default the state at the start of an episode. */
  state?: %(state)s;
  /** Whether an episode begins, whose state is zero. */
  episodeStart?: %(episode_start)s;
  /** For each choice whether it is valid; may be nested by component. */
  mask?: %(action_masks)s;
  /** The most likely action instead of a drawn one; true by default. */
  deterministic?: boolean | undefined;
  /** Returns uniform numbers >= 0 and < 1; by default Math.random. */
  random?: (() => number) | undefined;
}
export interface Output {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}
export interface Input extends Output {
  /** The key of a Dict observation. */
  readonly key: string | null;
  readonly role: "observation" | "state" | "episode_start" | "action_masks";
}
export declare const inputs: readonly Input[];
export declare const outputs: readonly Output[];
export declare const metadata: Readonly<Record<string, string>>;
/** Return the action for one observation. */
export declare function predict(
  observation: Observation, options?: Options,
): { action: Action; state: State; outputs: Outputs };
/** Draw the noise of gSDE anew at the next drawn action. */
export declare function resetNoise(): void;
"""
