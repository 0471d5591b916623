"""``export_torch``: a policy as plain PyTorch, as a person would write it, and its weights as ``.safetensors``.

*In*: the graph of a policy, exact as it is (POLICIES.md 19). *Out*: a Python module and the state dict of its
``Policy`` (POLICIES.md 20.6). The stages:

1. **Layers** (:class:`Tree`): nodes that are a layer of ``torch.nn`` become a module at the place of their weights, so
   that the state dict has SB3's names; so do activations between them. Other weights are parameters and buffers.
2. **Modules**: numbered modules of which each reads the one before are an ``nn.Sequential``; any other module is a
   class whose ``forward`` computes its nodes. If it is left and entered again, its nodes belong to the one around it.
3. **Statements** (:class:`Body`): the nodes of a module in order, each by the column ``torch`` of its operator. A value
   that is used once becomes a part of the expression that uses it. Expressions are trees of :mod:`ast`, and so are
   never put together from text.
4. **Text**: lines of at most 88 characters, as ``ruff format`` writes them (:func:`break_line`).

The action is chosen by ``act`` from what ``forward`` returns; a draw replaces the node that ``Sampling`` names.

Texts of a file never become code: a name is one of ours, or of letters and digits of theirs (:func:`make_identifier`);
keys of a Dict are strings in ASCII; the comment at the top has neither quotes nor backslashes.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import textwrap
from math import exp
from typing import TYPE_CHECKING, Any, Final

from sbformat.arrayfiles.writer import encode_safetensors
from sbformat.errors import quote, require_type
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
from sbformat.policies.export.lowering import open_policy
from sbformat.policies.export.parts import choose_outputs, refuse_calls
from sbformat.policies.pytorch.expressions import (
    CASTS,
    GLOBALS,
    WIDTH,
    break_call,
    break_line,
    escape_text,
    fill,
    make_call,
    make_class_name,
    make_identifier,
    make_literal,
    parse,
    render_shape,
    unparse,
    write_string,
)
from sbformat.policies.pytorch.modules import CHAIN, CLASS, LEAF, STATISTICS, Net, Tree
from sbformat.policies.pytorch.statements import Body, Statement, find_hint
from sbformat.policies.run.policy import EpsilonGreedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.graph import Input, Node, State
    from sbformat.policies.run.policy import Policy


def export_torch(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    outputs: Iterable[str] | None = None,
    raw: bool = False,
    overwrite: bool = False,
) -> ExportReport:
    """Write a policy as a PyTorch module in Python, with its weights in a ``.safetensors`` file of the same name.

    >>> [file.path for file in sbformat.export_torch("ppo_cartpole.zip", "policy.py").files]
    ['policy.py', 'policy.safetensors']

    The module imports torch and safetensors, and has one class ``Policy``: ``Policy.load("policy.safetensors")``,
    ``forward``, which returns what training needs for a batch, and ``act``, which returns actions as ``predict`` does.
    ``torch.jit.script`` and ``torch.compile`` take it, and it can be trained on. The names of its state dict are those
    of SB3. POLICIES.md 20.6.

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the module, ending in ``.py``; the weights are written beside it
    :param outputs: names of outputs; what they do not depend on is left out. By default all of them
    :param raw: leave out what clips or scales a continuous action to the bounds of its space. Statistics remain: load
        the policy with ``vecnormalize=False`` to leave these out too
    :param overwrite: replace files that exist
    :return: the files, inputs and outputs
    :raises FileExistsError: when one of the files exists and ``overwrite`` is False; then none is written
    :raises OSError: when one cannot be written
    :raises ValueError: for an output that the policy does not have, and a path that does not end in ``.py``
    :raises UnsupportedError: for modules that the caller supplied as functions
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`
    """
    require_type(path, (str, os.PathLike), "a path")
    target = os.fspath(path)
    stem, suffix = os.path.splitext(target)
    if suffix.lower() != ".py":
        raise ValueError(f"expected a path that ends in .py, got {quote(target)}")
    policy = open_policy(policy)
    graph = choose_outputs(policy.graph, outputs, raw=raw)
    refuse_calls(graph.nodes)
    tree = Tree(graph, policy.action_space)
    metadata = describe_origin(policy.model)
    source = write_source(tree, metadata, os.path.basename(stem))
    arrays = tree.read_state(policy.weights)
    weights = encode_safetensors(arrays)
    files = write_files({target: source.encode("ascii"), f"{stem}.safetensors": weights}, overwrite=overwrite)
    named = name_states(graph)
    values = {**graph.outputs, **{f"{NEXT}{named[state.input]}": state.output for state in graph.states}}
    results = tuple(Port(name, value, *tree.types[value], "output") for name, value in values.items())
    inputs = name_inputs(graph, [item.name for item in graph.inputs], graph.outputs)
    constants = sum(array.size for array in arrays.values())
    return ExportReport("pytorch", files, inputs, results, len(graph.nodes), constants, metadata)


def write_source(tree: Tree, metadata: Mapping[str, str], stem: str) -> str:
    """Return the text of the module.

    :param stem: the name of the file, without its suffix
    """
    writer = Writer(tree)
    policy = writer.write_policy()
    text = "\n\n\n".join([*writer.classes, policy])
    aliases = writer.write_state_alias()
    imports = ["import math\n"] * ("math." in text) + ["from typing import NamedTuple\n", "import torch"]
    imports += ["import torch.nn.functional as F"] * ("F." in text)
    imports += ["from safetensors.torch import load_file", "from torch import Tensor, nn"]
    weights = escape_text(stem[:60]) + ".safetensors"
    title = textwrap.wrap(escape_text(f"{summarize_origin(metadata)}."), WIDTH - 3)
    usage = [
        f'policy = Policy.load("{weights}")', writer.describe_usage(),
    ]  # fmt: skip
    head = ['"""' + title[0], *title[1:], "", *(f"    {line}" for line in usage), '"""', "", *imports]
    return "\n".join([*head, *aliases, "", "", writer.write_outputs(), "", "", text, ""])


class Writer:
    """Writes the classes of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.graph = tree, tree.graph
        self.classes: list[str] = []
        self._names: dict[str, str] = {}  # of classes, by their text
        self._made: dict[Net, str] = {}  # the expression that makes a module
        graph = self.graph
        self.observations = [item for item in graph.inputs if item.role == "observation"]
        self.is_dict = self.observations[0].key is not None
        roles = {item.role: item for item in graph.inputs}
        self.masks, self.start = roles.get("action_masks"), roles.get("episode_start")
        self.states: dict[str, list[State]] = {}
        for state in graph.states:
            self.states.setdefault(state.name, []).append(state)
        self.is_single_state = list(self.states) == ["state"]
        self.has_act = "action" in graph.outputs

    # -- modules --------------------------------------------------------------------------------------

    def write_init(self, net: Net, size: int | None = None) -> list[str]:
        """Return the lines of ``__init__``."""
        head = "self, size: int" if size is not None else "self"
        lines = [f"    def __init__({head}) -> None:", "        super().__init__()"]
        for child in net.children.values():
            lines += self._write_child(child, f"        self.{child.attribute} = ")
        for text, value in net.parameters.items():
            weight = self.graph.weights[value]
            shape = "size" if size is not None else ", ".join(map(str, weight.shape)) or "()"
            dtype = f", dtype=torch.{weight.dtype}" if weight.dtype != "float32" else ""
            name, zeros = net.attributes[text], f"torch.zeros({shape}{dtype})"
            if self.tree.is_trained(value):
                lines.append(f"        self.{name} = nn.Parameter({zeros})")
            else:
                lines += break_call("        self.register_buffer", [f'"{name}"', zeros], " " * 8)
        return lines

    def _write_child(self, net: Net, start: str) -> list[str]:
        indent = " " * (len(start) - len(start.lstrip()))
        end = "," if start.isspace() else ""
        if net.kind == LEAF:
            return [f"{start}{net.constructor}{end}"]
        if net.kind == CHAIN:
            inner = [line for child in net.children.values() for line in self._write_child(child, f"{indent}    ")]
            return [f"{start}nn.Sequential(", *inner, f"{indent}){end}"]
        if net not in self._made:
            self._made[net] = self._write_class(net)
        return [f"{start}{self._made[net]}{end}"]

    def _write_class(self, net: Net) -> str:
        """Write a class, unless there is an equal one; return the expression that makes the module."""
        shapes = {self.graph.weights[value].shape for value in net.parameters.values()}
        shape = next(iter(shapes), ())
        size = shape[0] if len(shapes) == len(shape) == 1 and not net.children and len(net.parameters) > 1 else None
        forward = self._write_forward(net, size) if net.kind == CLASS else []
        text = "\n".join([*self.write_init(net, size), *forward])
        if text not in self._names:
            kinds = set(net.parameters)
            label = make_identifier(net.label, "module")
            if set(net.children) == {"cnn", "linear"}:
                label = "NatureCNN"
            elif kinds & STATISTICS:
                label = "BatchRenorm" if "ra_mean" in kinds or "scale" in kinds else "Normalization"
            self._names[text] = make_class_name(label, self._names.values())
            self.classes.append(f"class {self._names[text]}(nn.Module):\n{text}")
        return f"{self._names[text]}({'' if size is None else size})"

    def _write_forward(self, net: Net, size: int | None) -> list[str]:
        tree = self.tree
        nodes = tree.list_nodes(net)
        inputs, outputs = tree.find_ends(net, nodes)
        values: dict[str, ast.expr] = {}
        names: dict[str, str] = {}
        for at, value in enumerate(inputs):
            hint = find_hint(tree, value)
            if len(inputs) == 1:
                is_observed = (hint == "observation" and not net.name.isdigit()) or net.label.endswith(
                    "features_extractor"
                )
                hint = "features" if net.name == "mlp_extractor" else "observation" if is_observed else "x"
            options = (hint if number == 1 else f"{hint}_{number}" for number in itertools.count(1))
            names[f"%in{at}"] = next(name for name in options if name not in {*names.values(), *GLOBALS, "self"})
            values[value] = ast.Name(f"%in{at}", ast.Load())
        body = Body(tree, net, outputs, values, size=size)
        body.hints.update(names)
        body.add(nodes)
        results = [body.operand(value).x for value in outputs]
        end = results[0] if len(results) == 1 else ast.Tuple(results, ast.Load())
        body.statements.append(Statement((), end, body.describe(outputs[0]) if len(results) == 1 else ""))
        returned = "Tensor" if len(results) == 1 else f"tuple[{', '.join(['Tensor'] * len(results))}]"
        described = (f"{name}: {body.describe(value)}" for name, value in zip(names.values(), inputs))
        comment = f"        # {'; '.join(described)}"
        comments = [comment] * (len(comment) <= WIDTH)
        head = write_head("forward", [f"{name}: Tensor" for name in names.values()], returned)
        return ["", *head, *comments, *body.write(GLOBALS | {"self"}, names)]

    # -- the policy -----------------------------------------------------------------------------------

    def write_policy(self) -> str:
        """Return the class ``Policy``."""
        init = self.write_init(self.tree.root)
        if self.graph.sampling.kind == "gsde" and self.has_act:
            shape = ", ".join(map(str, self.tree.types[self.graph.sampling.parameters["std"]][1]))
            noise = f"torch.randn(1, {shape})"
            init += break_call("        self.register_buffer", ['"noise"', noise, "persistent=False"], " " * 8)
        lines = ["class Policy(nn.Module):", *self._describe_policy(), "", *init, "", *_LOAD]
        lines += self._write_main()
        if self.states:
            lines += self._write_initial_state()
        if self.has_act:
            lines += self._write_act()
        return "\n".join(lines)

    def _describe_policy(self) -> list[str]:
        rows = []
        for item in self.observations:
            name = "observation" if item.key is None else f"observation, {escape_text(item.key)[:40]}"
            rows.append(f"    {name}: {item.dtype} {render_shape(item.shape)}")
        if self.masks is not None:
            rows.append(f"    action_masks: bool {render_shape(self.masks.shape)}, False for a choice that is excluded")
        for name, group in self.states.items():
            shape = self.tree.types[group[0].input][1]
            axes = "batch" if self.is_single_state else f"{len(group)}, batch"
            label = "state" if self.is_single_state else f"state, {name}"
            rows.append(f"    {label}: float32 ({axes}, {', '.join(map(str, shape))})")
        if self.start is not None:
            rows.append("    episode_start: float32 (batch,), 1 where an episode starts")
        if self.has_act:
            action = self.graph.output("action")
            rows.append(f"    action: {action.dtype} {render_shape(action.shape)}")
        kind = _KINDS[self.graph.sampling.kind] if self.has_act else "The networks of a policy."
        return [f'    """{kind}', "", *rows, '    """']

    def write_state_alias(self) -> list[str]:
        """Return the type of the state."""
        if not self.states:
            return []
        if self.is_single_state:
            return ["", "State = Tensor"]
        return ["", f"# {', '.join(self.states)}", f"State = tuple[{', '.join(['Tensor'] * len(self.states))}]"]

    def write_outputs(self) -> str:
        """Return the class of what ``forward`` returns."""
        lines = ["class Outputs(NamedTuple):"]
        for name, value in self.tree.fields.items():
            lines.append(f"    {name}: Tensor  # {render_shape(self.tree.types[value][1])}")
        if self.states:
            lines.append("    state: State  # after this step")
        return "\n".join(lines)

    def _parameters(self, *, is_act: bool) -> list[str]:
        kind = "dict[str, Tensor]" if self.is_dict else "Tensor"
        optional = " | None = None" if is_act else ""
        found = [f"observation: {kind}"]
        found += [f"action_masks: Tensor{optional}"] * (self.masks is not None)
        found += [f"state: State{optional}"] * bool(self.states)
        found += [f"episode_start: Tensor{optional}"] * (self.start is not None)
        return found + ["deterministic: bool = True"] * is_act

    def _read_observation(self, item: Input, name: str, body: Body) -> ast.expr:
        """Return an observation as SB3 converts it; one that is used more than once is assigned first.

        :param name: of a variable for it
        """
        users = self.tree.users.get(item.name, [])
        found: ast.expr = ast.Name("%observation", ast.Load())
        if item.key is not None:
            found = fill("observation[k]", k=ast.Name(write_string(item.key), ast.Load()))
        if not all(user.op == "Cast" for user in users):
            found = fill(CASTS.get(item.dtype, f"x.to(torch.{item.dtype})"), x=found)
        if sum(user.inputs.count(item.name) for user in users) > 1:
            body.hints[name] = find_hint(self.tree, item.name)
            body.statements.append(Statement((name,), found, render_shape(item.shape)))
            found = ast.Name(name, ast.Load())
        return found

    def _read_state(self, body: Body) -> None:
        """Add the parts of the state to the values of ``forward``."""
        if self.is_single_state:
            body.values[self.graph.states[0].input] = ast.Name("state", ast.Load())
        elif self.states:
            targets = [body.name("", name) for name in self.states]
            body.statements.append(Statement(tuple(targets), ast.Name("state", ast.Load())))
            for target, (name, group) in zip(targets, self.states.items()):
                part = body.values[f"state:{name}"] = ast.Name(target, ast.Load())
                body.values.update((state.input, fill("s[a]", s=part, a=at)) for at, state in enumerate(group))

    def _write_main(self) -> list[str]:
        """Return the lines of ``forward``."""
        tree, graph = self.tree, self.graph
        whole = {name for net in tree.root.children.values() for name in net.states}
        others = [state.output for name, group in self.states.items() if name not in whole for state in group]
        body = Body(tree, tree.root, [*tree.fields.values(), *others])
        for at, item in enumerate(self.observations):
            body.values[item.name] = self._read_observation(item, f"%i{at}", body)
        extras = [item for item in (self.masks, self.start) if item is not None]
        body.values.update((item.name, ast.Name(item.role, ast.Load())) for item in extras)
        self._read_state(body)
        body.add([node for node in graph.nodes if node.name in tree.forward - tree.constant])
        results = [self._batch(body, value) for value in tree.fields.values()]
        after: list[ast.expr] = []
        for name, group in self.states.items():
            rows = [body.operand(state.output).x for state in group] if name not in whole else []
            stacked = fill("torch.stack(rows)", rows=ast.List(rows, ast.Load()))
            is_one = self.is_single_state
            after.append(body.values[f"state:{name}"] if name in whole else rows[0] if is_one else stacked)
        if self.states:
            results.append(after[0] if self.is_single_state else ast.Tuple(after, ast.Load()))
        body.statements.append(Statement((), make_call("Outputs", results)))
        taken = GLOBALS | {"self", *(item.role for item in extras)} | ({"state"} if self.states else set())
        taken |= {"observation"} if self.is_dict else set()
        lines = body.write(taken, {"%observation": "observation"})
        return ["", *write_head("forward", self._parameters(is_act=False), "Outputs"), *lines]

    def _batch(self, body: Body, value: str) -> ast.expr:
        """Return an output with a batch axis."""
        found, tree = body.operand(value), self.tree
        if found.is_batch:
            return found.x
        shape = tree.types[value][1]
        like = next(
            (other for other in tree.fields.values() if other not in tree.constant and tree.types[other][1] == shape),
            None,
        )
        if like is not None:
            return fill("x.expand_as(y)", x=found.x, y=body.operand(like).x)
        first = self.observations[0].key
        whole = fill(
            "observation[k]" if self.is_dict else "observation", k=ast.Name(write_string(first or ""), ast.Load())
        )
        return make_call("x.expand", [fill("x.shape[0]", x=whole), *map(make_literal, shape)], x=found.x)

    def _write_initial_state(self) -> list[str]:
        shapes: dict[tuple[int, ...], str] = {}
        lines, names = [], []
        for name, group in self.states.items():
            shape = self.tree.types[group[0].input][1]
            axes = (
                ["n_envs", *map(str, shape)] if self.is_single_state else [str(len(group)), "n_envs", *map(str, shape)]
            )
            key = (len(group), *shape)
            if key not in shapes:
                shapes[key] = name if shapes else "zeros"
                device = f"device=self.{self._find_parameter()}.device"
                lines += break_call(f"        {shapes[key]} = torch.zeros", [*axes, device], " " * 8)
            names.append(shapes[key])
        return [
            "", "    @torch.jit.export", "    def initial_state(self, n_envs: int = 1) -> State:",
            '        """Return the state at the start of an episode."""', *lines, f"        return {', '.join(names)}",
        ]  # fmt: skip

    def _find_parameter(self) -> str:
        """Return the attribute of some weight, whose device is that of the policy."""
        return re.sub(r"\.(\d+)(?=\.)", r"[\1]", next(iter(self.tree.stored)))

    # -- act ------------------------------------------------------------------------------------------

    def _write_act(self) -> list[str]:
        tree, graph, sampling = self.tree, self.graph, self.graph.sampling
        first = self.observations[0]
        one = f"observation[{write_string(first.key)}]" if first.key is not None else "observation"
        lines = [f"        is_single = {one}.dim() == {len(first.shape)}"]
        if self.is_dict:
            lines += [
                "        if is_single:",
                "            observation = {k: v.unsqueeze(0) for k, v in observation.items()}",
            ]
        else:
            lines += ["        if is_single:", "            observation = observation.unsqueeze(0)"]
        arguments = ["observation"]
        if self.masks is not None or self.states:
            lines.append(f"        n = {one}.shape[0]")
        if self.masks is not None:
            shape = ", ".join(map(str, ("n", *self.masks.shape)))
            lines += [
                "        if action_masks is None:",
                f"            action_masks = torch.ones({shape}, device={one}.device)",
                f"        action_masks = action_masks.reshape({shape}).to(torch.bool)",
            ]  # fmt: skip
            arguments.append("action_masks")
        if self.states:
            lines += ["        if state is None:", "            state = self.initial_state(n)"]
            arguments.append("state")
        if self.start is not None:
            lines += [
                "        if episode_start is None:", f"            episode_start = torch.zeros(n, device={one}.device)",
                "        episode_start = episode_start.reshape(n).float()",
            ]  # fmt: skip
            arguments.append("episode_start")
        lines.append(f"        outputs = self.forward({', '.join(arguments)})")
        values: dict[str, ast.expr] = {value: parse(f"outputs.{name}") for name, value in tree.fields.items()}
        if self.masks is not None:
            values[self.masks.name] = ast.Name("action_masks", ast.Load())
        for item in graph.inputs:
            if item.role == "observation":
                values.setdefault(item.name, parse("observation") if item.key is None else
                                  fill("observation[k]", k=ast.Name(write_string(item.key), ast.Load())))  # fmt: skip
        replaced = sampling.replaces if sampling.kind not in ("none", "epsilon_greedy") else ""
        action = graph.outputs["action"]
        acting = [node for node in graph.nodes if node.name in tree.acting]
        if replaced:
            before = [node for node in acting if node.name == replaced or node.name not in tree.drawn]
            after = [node for node in acting if node not in before]
            post = [node.name for node in after]
            read_after = {name for node in after for name in node.inputs} - {replaced}
            early = [node for node in before if node.name in read_after]
            lines += ["        if deterministic:", *self._write_steps(before, values, replaced, 12)]
            lines += ["        else:", *(f"            {line}" for line in self._write_draw(values))]
            values[replaced] = ast.Name("%action", ast.Load())
            if post:
                lines += self._write_steps([*early, *after], values, action, 8, {"%action": "action"})
        else:
            lines += self._write_steps(acting, values, action, 8)
        if sampling.kind == "epsilon_greedy" and sampling.rate > 0:
            lines += self._write_random()
        returned = "tuple[Tensor, State]" if self.states else "Tensor"
        single = "action.squeeze(0) if is_single else action"
        lines += (
            [f"        action = {single}", "        return action, outputs.state"]
            if self.states
            else [f"        return {single}"]
        )
        head = write_head("act", self._parameters(is_act=True), returned)
        docs = '        """Return the action of one observation, or of each of a batch."""'
        made = ["", "    @torch.jit.export", *head, docs, *lines]
        if sampling.kind == "gsde":
            rows, columns = tree.types[sampling.parameters["std"]][1]
            made += [
                "", "    @torch.jit.export", "    def reset_noise(self, n_envs: int = 1) -> None:",
                '        """Draw the noise anew, for each environment of a batch."""',
                f"        self.noise = torch.randn(n_envs, {rows}, {columns}, device=self.noise.device)",
            ]  # fmt: skip
        return made

    def _write_steps(
        self, nodes: Sequence[Node], values: Mapping[str, ast.expr], result: str, indent: int,
        names: Mapping[str, str] = {},
    ) -> list[str]:  # fmt: skip
        """Return lines that compute a value and call it ``action``."""
        body = Body(self.tree, self.tree.root, [result], values, indent)
        body.add(nodes)
        found = self._batch(body, result)
        body.hints["%result"] = "action"
        body.statements.append(Statement(("%result",), found, render_shape(self.tree.types[result][1])))
        taken = GLOBALS | {"self", "observation", "outputs", "state", "action_masks", "n", "is_single"}
        return body.write(taken, names)

    def _write_draw(self, values: Mapping[str, ast.expr]) -> list[str]:
        sampling, tree = self.graph.sampling, self.tree
        fields = {value: name for name, value in tree.fields.items()}
        parameters = sampling.parameters
        dtype, shape = tree.types[sampling.replaces]
        if sampling.kind == "gaussian":
            mean = f"outputs.{fields[parameters['mean']]}"
            log_std = parameters["log_std"]
            std = "outputs.log_std.exp()"
            if log_std in tree.literals:
                std = repr(exp(min(tree.literals[log_std], _MOST_LOG)))
            elif "log_std" not in tree.fields:
                std = unparse(fill("x.exp()", x=Body(tree, tree.root, [], values).operand(log_std).x))
            return [f"noise = torch.randn_like({mean})", f"action = {mean} + {std} * noise"]
        if sampling.kind == "gsde":
            mean, latent = (f"outputs.{fields[parameters[name]]}" for name in ("mean", "latent"))
            body = Body(tree, tree.root, [], values, 12)
            matrices = fill("s * self.noise", s=body.operand(parameters["std"]).x)
            body.statements.append(Statement(("%m",), matrices, "(n_envs, features, actions)"))
            body.hints["%m"] = "matrices"
            body.statements.append(Statement((), ast.Name("%m", ast.Load())))
            made = body.write(GLOBALS | {"self", "outputs"})[:-1]
            return [
                *(line[12:] for line in made),
                f"if matrices.shape[0] == {latent}.shape[0]:",
                f"    noise = torch.bmm({latent}.unsqueeze(1), matrices).squeeze(1)",
                "else:", f"    noise = {latent} @ matrices[0]", f"action = {mean} + noise",
            ]  # fmt: skip
        logits = f"outputs.{fields[parameters['logits']]}"
        cast = {"int64": "", "float32": ".float()"}.get(dtype, f".to(torch.{dtype})")
        if sampling.kind == "bernoulli":
            cast = "" if dtype == tree.types[parameters["logits"]][0] else {"int64": ".long()"}.get(dtype, cast)
            same = (
                "" if shape == tree.types[parameters["logits"]][1] else f".reshape({', '.join(map(str, (-1, *shape)))})"
            )
            return [f"action = {logits}.sigmoid().bernoulli(){cast}{same}"]
        sizes = list(sampling.sizes)
        if len(sizes) == 1:
            squeeze = ".squeeze(-1)" if shape == () else ""
            return [f"action = {logits}.softmax(-1).multinomial(1){squeeze}{cast}"]
        parts: Any = fill("x.split(sizes, -1)", x=parse(logits), sizes=sizes[0] if len(set(sizes)) == 1 else sizes)
        reshape = "" if shape == (len(sizes),) else f".reshape({', '.join(map(str, (-1, *shape)))})"
        lines = [line[12:] for line in break_line(" " * 12 + "parts = ", parts)]
        return [
            *lines, "draws = [part.softmax(-1).multinomial(1) for part in parts]",
            f"action = torch.cat(draws, -1){cast}{reshape}",
        ]  # fmt: skip

    def _write_random(self) -> list[str]:
        draw = EpsilonGreedy(self.graph.sampling.rate, self.tree.action_space, self.graph.output("action"))
        low, high = draw.range
        return [
            "        if not deterministic:",
            f"            random = torch.randint_like(action, {low}, {high})",
            f"            is_random = torch.rand(1, device=action.device) < {self.graph.sampling.rate!r}",
            "            action = torch.where(is_random, random, action)  # for the whole batch",
        ]

    def describe_usage(self) -> str:
        """Return a line that shows how to act."""
        if not self.has_act:
            return "outputs = policy(observation)"
        given = "observation, state, episode_start" if self.states else "observation"
        return f"action{', state' if self.states else ''} = policy.act({given})"


_MOST_LOG: Final = 709.0
"""The greatest integer whose exponential is finite."""
_KINDS: Final = {
    "gaussian": "A policy with a Gaussian distribution of actions.",
    "gsde": "A policy with noise that depends on the state (gSDE).",
    "categorical": "A policy with a distribution over choices.",
    "bernoulli": "A policy with a probability for each bit.",
    "epsilon_greedy": "A policy that chooses the best action, or a random one.",
    "none": "A deterministic policy.",
}
_LOAD: Final = (
    "    @classmethod",
    '    def load(cls, path: str) -> "Policy":',
    "        policy = cls()",
    "        policy.load_state_dict(load_file(path))",
    "        return policy.eval()",
)


def write_head(name: str, parameters: Sequence[str], returned: str) -> list[str]:
    """Return the first lines of a method."""
    whole = f"    def {name}({', '.join(('self', *parameters))}) -> {returned}:"
    if len(whole) <= WIDTH:
        return [whole]
    return [f"    def {name}(", *(f"        {part}," for part in ("self", *parameters)), f"    ) -> {returned}:"]
