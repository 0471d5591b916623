"""``export_graph``: the graph as JSON, and its weights as ``.safetensors`` beside it (POLICIES.md 20.4)."""

from __future__ import annotations

import hashlib
import json
import os
from math import prod
from typing import TYPE_CHECKING, Any, Final

from sbformat.arrayfiles.writer import encode_safetensors
from sbformat.errors import UnsupportedError, quote, require_type
from sbformat.policies.export.files import ExportReport, Port, describe_origin, write_files
from sbformat.policies.export.lowering import (
    check_outputs,
    close_over_states,
    find_raw_action,
    open_policy,
    refuse_calls,
)
from sbformat.policies.graph import Graph, Sampling

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.run.policy import Policy

_SUFFIX: Final = ".json"
_WEIGHTS_SUFFIX: Final = ".safetensors"


def export_graph(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    outputs: Iterable[str] | None = None,
    raw: bool = False,
    overwrite: bool = False,
) -> ExportReport:
    """Write what a policy computes as JSON, with its weights in a ``.safetensors`` file of the same name.

    >>> [file.path for file in sbformat.export_graph("ppo_cartpole.zip", "policy.json").files]
    ['policy.json', 'policy.safetensors']

    The two files are all that a program in any language needs to compute actions: POLICIES.md 19.2 has the operators,
    20.4 the steps. The JSON has the digest of the weights, so that a reader notices files of two exports. Unlike the
    other exports it is exact: nodes, dtypes and names are those of :attr:`Policy.graph`.

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the JSON, ending in ``.json``; the weights are written beside it
    :param outputs: names of outputs; what they do not depend on is left out. By default all of them
    :param raw: leave out what clips or scales a continuous action to the bounds of its space. Statistics remain: load
        the policy with ``vecnormalize=False`` to leave these out too
    :param overwrite: replace files that exist
    :return: the files, inputs and outputs
    :raises FileExistsError: when one of the files exists and ``overwrite`` is False; then none is written
    :raises OSError: when one cannot be written
    :raises ValueError: for an output that the policy does not have, and a path that does not end in ``.json``
    :raises UnsupportedError: for modules that the caller supplied as functions, and names that the files cannot have
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`
    """
    require_type(path, (str, os.PathLike), "a path")
    target = os.fspath(path)
    weights_path = _name_weights_file(target)
    policy = open_policy(policy)
    graph = choose_outputs(policy.graph, outputs, raw=raw)
    refuse_calls(graph.nodes)
    described = graph.to_dict()
    stored = [name for name, weight in described["weights"].items() if "items" not in weight]
    metadata = describe_origin(policy)
    weights = encode_safetensors({name: policy.weights[name] for name in stored})
    document = {
        **described,
        "metadata": dict(metadata),
        "weights_file": os.path.basename(weights_path),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    files = write_files({target: _write_json(document).encode(), weights_path: weights}, overwrite=overwrite)
    constants = sum(prod(weight.shape) for weight in graph.weights.values())
    return ExportReport("json", files, _list_inputs(graph), _list_outputs(graph), len(graph.nodes), constants, metadata)


def choose_outputs(graph: Graph, outputs: Iterable[str] | None, *, raw: bool) -> Graph:
    """Return the part of a graph that computes outputs.

    Observations remain inputs. With the output ``action``, so does what it is sampled from.

    :param outputs: their names; None for all
    :param raw: as for :func:`export_graph`
    :raises ValueError: for an output that the graph does not have
    """
    names = tuple(graph.outputs) if outputs is None else check_outputs(graph, outputs)
    values = {name: graph.outputs[name] for name in names}
    sampling = Sampling("none")
    if "action" in values:
        values["action"] = find_raw_action(graph) if raw else values["action"]
        sampling = graph.sampling
    nodes, wanted, _ = close_over_states(graph, (*values.values(), *sampling.parameters.values()))
    return Graph(
        tuple(item for item in graph.inputs if item.role == "observation" or item.name in wanted),
        nodes,
        values,
        {name: weight for name, weight in graph.weights.items() if name in wanted},
        tuple(state for state in graph.states if state.input in wanted),
        sampling,
        graph.inferred,
    )


def _name_weights_file(target: str) -> str:
    if not target.lower().endswith(_SUFFIX):
        message = f"expected a path that ends in {_SUFFIX}, got {quote(target)}"
        raise ValueError(message)
    made = target[: -len(_SUFFIX)] + _WEIGHTS_SUFFIX
    name = os.path.basename(made)
    if "\\" in name or not name.isprintable():  # a lone surrogate, which is a byte that is not UTF-8, is not printable
        message = f"expected a file name in UTF-8 without backslashes, which the JSON can contain, got {quote(name)}"
        raise UnsupportedError(message)
    return made


def _write_json(document: Mapping[str, Any]) -> str:
    """Return JSON with a line for each node, weight and other item, in ASCII."""
    members = [f"{json.dumps(name)}: {_write_items(value)}" for name, value in document.items()]
    return "{\n" + ",\n".join(members) + "\n}\n"


def _write_items(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n  " + ",\n  ".join(_dump(item) for item in value) + "\n]"
    if isinstance(value, dict) and value:
        return "{\n  " + ",\n  ".join(f"{json.dumps(name)}: {_dump(item)}" for name, item in value.items()) + "\n}"
    return _dump(value)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _list_inputs(graph: Graph) -> tuple[Port, ...]:
    return tuple(Port(item.name, item.name, item.dtype, item.shape, item.role, item.key) for item in graph.inputs)


def _list_outputs(graph: Graph) -> tuple[Port, ...]:
    """Return the outputs, then the next states, which have the names of their nodes."""
    values = {**graph.outputs, **{state.output: state.output for state in graph.states}}
    described = {item.name: (item.dtype, item.shape) for item in graph.inputs}
    described.update({node.name: (node.dtype, node.shape) for node in graph.nodes})
    return tuple(Port(name, value, *described[value], "output") for name, value in values.items())
