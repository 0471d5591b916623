"""``export_torch``: a policy as plain PyTorch, as a person would write it, and its weights as ``.safetensors``.

*In*: the graph of a policy, exact as it is (POLICIES.md 19). *Out*: a Python module and the state dict of its
``Policy`` (POLICIES.md 20.6). The stages:

1. **Layers** (:class:`Tree`): nodes that are a layer of ``torch.nn`` become a module at the place of their weights, so
   that the state dict has SB3's names; so do activations between them. Other weights are parameters and buffers.
2. **Modules**: numbered modules of which each reads the one before are an ``nn.Sequential``; any other module is a
   class whose ``forward`` computes its nodes. If it is left and entered again, its nodes belong to the one around it.
3. **Statements** (:class:`Body`): the nodes of a module in order, each by the column ``torch`` of its operator. A value
   that is used once becomes a part of the expression that uses it (:func:`fill`).
4. **Text**: lines of at most 88 characters, as ``ruff format`` writes them (:func:`break_line`), and the parts of
   ``policy.txt`` around them.

The action is chosen by ``act`` from what ``forward`` returns; a draw replaces the node that ``Sampling`` names.

Texts of a file never become code: a name is one of ours, or of letters and digits of theirs (:func:`make_identifier`);
keys of a Dict are strings in ASCII; the comment at the top has neither quotes nor backslashes.
"""

from __future__ import annotations

import keyword
import os
import re
import textwrap
import warnings
from math import exp
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from sbformat.arrayfiles.writer import encode_safetensors
from sbformat.errors import quote, require_type
from sbformat.policies.export.files import (
    NEXT,
    ExportReport,
    Port,
    describe_origin,
    name_inputs,
    name_states,
    read_parts,
    summarize_origin,
    write_files,
)
from sbformat.policies.export.formats import FORMATS, list_outputs
from sbformat.policies.export.parts import choose_outputs, merge_nodes, refuse_calls
from sbformat.policies.loading import open_policy
from sbformat.policies.pytorch.expressions import (
    GLOBALS,
    WIDTH,
    break_line,
    escape_text,
    fill,
    find_cast,
    make_class_name,
    make_identifier,
    number_name,
    render_shape,
    write_head,
    write_literal,
    write_string,
)
from sbformat.policies.pytorch.modules import CHAIN, CLASS, LEAF, LIST, STATISTICS, Net, Tree
from sbformat.policies.pytorch.statements import Body, find_hint
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
    :raises ValueError: for an output that the policy does not have, a path that does not end in ``.py``, and the name
        of a module that the source imports
    :warns UserWarning: when the name of the file is not one that ``import`` takes
    :raises UnsupportedError: for modules that the caller supplied as functions
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`
    """
    require_type(path, (str, os.PathLike), "a path")
    target = os.fspath(path)
    stem, suffix = os.path.splitext(target)
    if suffix.lower() != ".py":
        raise ValueError(f"expected a path that ends in .py, got {quote(target)}")
    name, (_, beside) = os.path.basename(stem), list_outputs(target)
    if name in _IMPORTED:
        raise ValueError(f"expected another name than {name}.py, which would be imported instead of {name} itself")
    policy = open_policy(policy)
    graph = merge_nodes(choose_outputs(policy.graph, outputs, raw=raw))
    refuse_calls(graph.nodes)
    tree = Tree(graph, policy.action_space)
    metadata = describe_origin(policy.model)
    source = write_source(tree, metadata, name)
    arrays = tree.read_state(policy.weights)
    weights = encode_safetensors(arrays)
    files = write_files({target: source.encode("ascii"), beside: weights}, overwrite=overwrite)
    named = name_states(graph)
    values = {**graph.outputs, **{f"{NEXT}{named[state.input]}": state.output for state in graph.states}}
    results = tuple(Port(name, value, *tree.types[value], "output") for name, value in values.items())
    if not name.isidentifier() or keyword.iskeyword(name):
        warnings.warn(f"a module named {quote(name)} cannot be imported by its name", UserWarning, stacklevel=2)
    inputs = name_inputs(graph, [item.name for item in graph.inputs], graph.outputs)
    constants = sum(array.size for array in arrays.values())
    return ExportReport("pytorch", files, inputs, results, len(graph.nodes), constants, metadata)


_IMPORTED: Final = frozenset(["math", "safetensors", "torch", "typing"])
_LARGEST_LOG: Final = 709.0
"""The greatest integer whose exponential is finite."""
_KINDS: Final = {
    "gaussian": "A policy with a Gaussian distribution of actions.",
    "gsde": "A policy with noise that depends on the state (gSDE).",
    "categorical": "A policy with a distribution over choices.",
    "bernoulli": "A policy with a probability for each bit.",
    "epsilon_greedy": "A policy that chooses the best action, or a random one.",
    "none": "A deterministic policy: the argument deterministic changes nothing.",
}
_LONG_PART: Final = 36
"""Characters of the expression of a part of an observation that is a statement of its own."""
_PARTS: Final = Path(__file__).with_name("policy.txt")


def write_part(part: str, facts: Iterable[str] = (), /, **fields: str) -> str:
    """Return a part of ``policy.txt``, which says how.

    :param facts: what is true of the policy
    :param fields: what stands for ``$NAME``
    """
    known, lines = set(facts), []
    for line in read_parts(_PARTS)[part].split("\n"):
        text, _, conditions = line.partition("  #? ")
        words = filter(None, conditions.split(", "))
        is_true = all((word.removeprefix("no ") in known) != word.startswith("no ") for word in words)
        is_empty = text.startswith("$") and not fields[text[1:]]
        lines += [text] * (is_true and not is_empty)
    return Template("\n".join(lines)).substitute(fields)


def write_source(tree: Tree, metadata: Mapping[str, str], stem: str) -> str:
    """Return the text of the module.

    :param stem: the name of the file, without its suffix
    """
    return Writer(tree).write(textwrap.fill(escape_text(f"{summarize_origin(metadata)}."), WIDTH - 3), stem)


class Writer:
    """Writes the classes of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.graph = tree, tree.graph
        self.classes: list[str] = []
        self._names: dict[str, str] = {}  # of classes, by their text
        self._made: dict[Net, str] = {}  # the expression that makes a module
        graph = self.graph
        self.observations = [item for item in graph.inputs if item.role == "observation"]
        key = self.observations[0].key
        self.first = "observation" if key is None else f"observation[{write_string(key)}]"
        """The expression of an observation, or of its first part."""
        is_long = len(self.first) > _LONG_PART
        self.roles = {item.role: item for item in graph.inputs}
        self.states: dict[str, list[State]] = {}
        for state in graph.states:
            self.states.setdefault(state.name, []).append(state)
        self.is_single_state = list(self.states) == ["state"]
        kinds = {
            "observation": "Tensor" if key is None else "dict[str, Tensor]",
            "action_masks": "Tensor", "state": "State", "episode_start": "Tensor",
        }  # fmt: skip
        self.parameters = {role: kind for role, kind in kinds.items() if role in self.roles}
        """The types of the arguments of ``forward``."""
        facts = {
            "dict": key is not None, "act": "action" in graph.outputs, "states": bool(self.states),
            "long": is_long, "several states": bool(self.states) and not self.is_single_state,
        }  # fmt: skip
        self.facts = {*self.roles, *(fact for fact, is_true in facts.items() if is_true)}

    def write(self, title: str, stem: str) -> str:
        """Return the text of the module.

        :param title: the first lines
        :param stem: the name of the file, without its suffix
        """
        policy = self._write_policy()
        text = "\n\n\n".join([*self.classes, policy, ""])
        facts = {name for name, mark in (("math", "math."), ("functional", "F.")) if mark in text}
        fields = [f"    {name}: Tensor  # {self._render(value)}" for name, value in self.tree.fields.items()]
        state = "Tensor" if self.is_single_state else f"tuple[{', '.join(['Tensor'] * len(self.states))}]"
        return write_part(
            "module", self.facts | facts, title=title, weights=write_string(f"{stem}{FORMATS['.py'].beside}"),
            names=", ".join(self.states), state=state, outputs="\n".join(fields), classes=text.removesuffix("\n\n"),
        )  # fmt: skip

    def _render(self, value: str) -> str:
        """Return the shape of a value for a comment."""
        return render_shape(self.tree.types[value][1])

    # -- modules --------------------------------------------------------------------------------------

    def _write_init(self, net: Net, size: int | None = None) -> str:
        """Return ``__init__``."""
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
                lines += break_line("        ", f'self.register_buffer("{name}", {zeros})')
        return "\n".join(lines)

    def _write_child(self, net: Net, start: str) -> list[str]:
        """Return the lines that make a module within another one."""
        indent = " " * (len(start) - len(start.lstrip()))
        end = "," if start.isspace() else ""
        if net.kind in (CHAIN, LIST):
            deeper = indent + "    " * (2 if net.kind == LIST else 1)
            inner = [line for child in net.children.values() for line in self._write_child(child, deeper)]
            if net.kind == CHAIN:
                return [f"{start}nn.Sequential(", *inner, f"{indent}){end}"]
            return [f"{start}nn.ModuleList(", f"{indent}    [", *inner, f"{indent}    ]", f"{indent}){end}"]
        if net.kind != LEAF and net not in self._made:
            self._made[net] = self._write_class(net)
        return [f"{start}{self._made.get(net, net.constructor)}{end}"]

    def _write_class(self, net: Net) -> str:
        """Write a class, unless there is an equal one; return the expression that makes the module."""
        shapes = {self.graph.weights[value].shape for value in net.parameters.values()}
        shape = next(iter(shapes), ())
        size = shape[0] if len(shapes) == len(shape) == 1 and not net.children and len(net.parameters) > 1 else None
        forward = self._write_forward(net, size) if net.kind == CLASS else ""
        text = self._write_init(net, size) + forward
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

    def _write_forward(self, net: Net, size: int | None) -> str:
        """Return ``forward`` of a module, after an empty line."""
        tree = self.tree
        nodes = tree.list_nodes(net)
        inputs, outputs = tree.find_ends(net, nodes)
        hints = [find_hint(tree, value) for value in inputs]
        if len(inputs) == 1:
            is_observed = (hints[0] == "observation" and not net.name.isdigit()) or net.label.endswith(
                "features_extractor"
            )
            hints = ["features" if net.name == "mlp_extractor" else "observation" if is_observed else "x"]
        hints = [{"action": "scaled_action", "mean": "scaled_action"}.get(hint, hint) for hint in hints]
        parameters: dict[str, str] = {}
        for at, hint in enumerate(hints):
            parameters[f"_in{at}"] = number_name(hint, {*parameters.values(), "self", *GLOBALS})
        body = Body(tree, net, outputs, dict(zip(inputs, parameters)), size=size)
        body.hints.update(parameters)
        body.add(nodes)
        results = [body.operand(value).x for value in outputs]
        body.finish("", ", ".join(results), body.describe(outputs[0]) if len(results) == 1 else "")
        returned = "Tensor" if len(results) == 1 else f"tuple[{', '.join(['Tensor'] * len(results))}]"
        facts = {"scaled_action": ", from -1 to 1"}
        described = (f"{n}: {body.describe(value)}{facts.get(n, '')}" for n, value in zip(parameters.values(), inputs))
        comment = f"        # {'; '.join(described)}"
        head = write_head("forward", [f"{name}: Tensor" for name in parameters.values()], returned)
        return "\n".join(["\n", head, *[comment] * (len(comment) <= WIDTH), body.write((), parameters)])

    # -- the policy -----------------------------------------------------------------------------------

    def _write_policy(self) -> str:
        """Return the class ``Policy``."""
        graph, types = self.graph, self.tree.types
        init = [self._write_init(self.tree.root)]
        kind = graph.sampling.kind
        sizes = ", ".join(map(str, types[graph.sampling.parameters["std"]][1])) if kind == "gsde" else ""
        if sizes and "act" in self.facts:
            noise = f'self.register_buffer("noise", torch.randn(1, {sizes}), persistent=False)'
            init += break_line("        ", noise)
        observations, states = [], []
        for item in self.observations:
            name = "observation" if item.key is None else f"observation, {escape_text(item.key)[:40]}"
            observations.append(f"    {name}: {item.dtype} {render_shape(item.shape)}")
        for name, group in self.states.items():
            label = "state" if self.is_single_state else f"state, {name}"
            states.append(f"    {label}: float32 ({', '.join(self._size_state(group, 'batch'))})")
        action = graph.output("action") if "act" in self.facts else None
        parts = [write_part(
            "policy", self.facts, kind=_KINDS[kind] if action else "The networks of a policy.",
            observations="\n".join(observations), states="\n".join(states), init="\n".join(init),
            masks=render_shape(self.roles["action_masks"].shape) if "action_masks" in self.roles else "",
            action=f"{action.dtype} {render_shape(action.shape)}" if action else "", forward=self._write_main(),
        )]  # fmt: skip
        if self.states:
            parts.append(self._write_initial_state())
        if "act" in self.facts:
            parts.append(self._write_act())
            parts += [write_part("reset_noise", sizes=sizes)] * (kind == "gsde")
        return "\n".join(parts)

    def _size_state(self, group: Sequence[State], batch: str) -> list[str]:
        """Return the shape of a state, whose first axis is that of the layers unless it is the only one."""
        layers = [] if self.is_single_state else [len(group)]
        return [*map(str, layers), batch, *map(str, self.tree.types[group[0].input][1])]

    def _write_head(self, name: str) -> str:
        """Return the head of ``forward``, or of ``act``, whose arguments after the first are optional."""
        parameters = [f"{parameter}: {kind}" for parameter, kind in self.parameters.items()]
        if name == "forward":
            return write_head(name, parameters, "Outputs")
        optional = [f"{parameter} | None = None" for parameter in parameters[1:]]
        returned = "tuple[Tensor, State]" if self.states else "Tensor"
        return write_head(name, [parameters[0], *optional, "deterministic: bool = True"], returned)

    def _read_observation(self, item: Input, body: Body) -> str:
        """Return an observation as SB3 converts it; one that is used more than once is assigned first."""
        users = self.tree.users.get(item.name, [])
        found = "_observation" if item.key is None else f"observation[{write_string(item.key)}]"
        if len(found) > _LONG_PART:
            (found,) = body.assign([find_hint(self.tree, item.name)], found, render_shape(item.shape))
        if not all(user.op == "Cast" for user in users):
            found = fill(find_cast(item.dtype), x=found)
        if sum(user.inputs.count(item.name) for user in users) > 1:
            (found,) = body.assign([find_hint(self.tree, item.name)], found, render_shape(item.shape))
        return found

    def _read_state(self, body: Body) -> None:
        """Add the parts of the state to the values of ``forward``."""
        if self.is_single_state:
            body.values[self.graph.states[0].input] = "state"
        elif self.states:
            for part, (name, group) in zip(body.assign(list(self.states), "state"), self.states.items()):
                body.values[f"state:{name}"] = part
                body.values.update((state.input, f"{part}[{at}]") for at, state in enumerate(group))

    def _write_main(self) -> str:
        """Return ``forward``."""
        tree, graph = self.tree, self.graph
        whole = {name for net in tree.root.children.values() for name in net.states}
        others = [state.output for name, group in self.states.items() if name not in whole for state in group]
        body = Body(tree, tree.root, [*tree.fields.values(), *others])
        for item in self.observations:
            body.values[item.name] = self._read_observation(item, body)
        extras = [role for role in ("action_masks", "episode_start") if role in self.roles]
        body.values.update((self.roles[role].name, role) for role in extras)
        self._read_state(body)
        body.add([node for node in graph.nodes if node.name in tree.forward - tree.constant])
        results = [self._batch(body, value) for value in tree.fields.values()]
        after = []
        for name, group in self.states.items():
            if name in whole:
                after.append(body.values[f"state:{name}"])
            else:
                rows = [body.operand(state.output).x for state in group]
                after.append(rows[0] if self.is_single_state else fill("torch.stack(rows)", rows=rows))
        results += after if self.is_single_state else [f"({', '.join(after)})"] if after else []
        body.finish("", fill("Outputs(*results)", results=results))
        taken = self.parameters.keys() - ({"observation"} if "dict" not in self.facts else set())
        return "\n".join([self._write_head("forward"), body.write(taken, {"_observation": "observation"})])

    def _batch(self, body: Body, value: str) -> str:
        """Return an output with a batch axis."""
        found, tree = body.operand(value), self.tree
        if found.is_batch:
            return found.x
        shape = tree.types[value][1]
        for other in tree.fields.values():
            if other not in tree.constant and tree.types[other][1] == shape:
                return fill("x.expand_as(y)", x=found.x, y=body.operand(other).x)
        return fill("x.expand(first.shape[0], *sizes)", x=found.x, first=self.first, sizes=shape)

    def _write_initial_state(self) -> str:
        """Return ``initial_state``."""
        weight = re.sub(r"\.(\d+)(?=\.)", r"[\1]", next(iter(self.tree.stored)))  # on the device of the policy
        names: dict[str, str] = {}  # of variables, by their expressions
        found, lines = [], []
        for name, group in self.states.items():
            zeros = f"torch.zeros({', '.join(self._size_state(group, 'n_envs'))}, device=self.{weight}.device)"
            if zeros not in names:
                names[zeros] = name if names else "zeros"
                lines += break_line(f"        {names[zeros]} = ", zeros)
            found.append(names[zeros])
        return write_part("initial_state", zeros="\n".join(lines), names=", ".join(found))

    # -- act ------------------------------------------------------------------------------------------

    def _write_act(self) -> str:
        """Return ``act``."""
        tree, graph, sampling = self.tree, self.graph, self.graph.sampling
        values = {item.name: "observation" if item.key is None else f"observation[{write_string(item.key)}]"
                  for item in self.observations}  # fmt: skip
        values |= {value: f"outputs.{name}" for name, value in tree.fields.items()}
        masks = ""
        if "action_masks" in self.roles:
            item = self.roles["action_masks"]
            values[item.name], masks = "action_masks", ", ".join(map(str, ("n", *item.shape)))
        facts = self.facts | ({"count"} if len(self.parameters) > 1 else set())
        acting, action = [node for node in graph.nodes if node.name in tree.acting], graph.outputs["action"]
        greedy = draw = steps = ""
        replaced = sampling.replaces if sampling.kind not in ("none", "epsilon_greedy") else ""
        if replaced:
            facts.add("draw")
            before = [node for node in acting if node.name == replaced or node.name not in tree.drawn]
            after = [node for node in acting if node not in before]
            read_after = {name for node in after for name in node.inputs} - {replaced}
            greedy = self._write_steps(before, values, replaced, 12)
            draw = self._write_draw(values)
            if after:
                again = [node for node in before if node.name in read_after]
                given = {**values, replaced: "_action"}
                steps = self._write_steps([*again, *after], given, action, 8, {"_action": "action"})
        else:
            steps = self._write_steps(acting, values, action, 8)
        low = high = 0
        if sampling.kind == "epsilon_greedy" and sampling.rate > 0:
            facts.add("random")
            low, high = EpsilonGreedy(sampling.rate, tree.action_space, graph.output("action")).range
        return write_part(
            "act", facts, head=self._write_head("act"), first="first" if "long" in facts else self.first,
            long="\n".join(break_line("        first = ", self.first)),
            rank=str(len(self.observations[0].shape)), masks=masks, arguments=", ".join(self.parameters), greedy=greedy,
            draw=draw, steps=steps, low=str(low), high=str(high), rate=write_literal(min(sampling.rate, 1.0)),
        )  # fmt: skip

    def _write_steps(
        self, nodes: Sequence[Node], values: Mapping[str, str], result: str, indent: int,
        names: Mapping[str, str] = {},
    ) -> str:  # fmt: skip
        """Return lines that compute a value and call it ``action``."""
        body = Body(self.tree, self.tree.root, [result], values, indent)
        body.add(nodes)
        body.finish("action", self._batch(body, result), self._render(result))
        return body.write({"observation", "outputs", "state", "action_masks", "n", "is_single"}, names)

    def _write_draw(self, values: Mapping[str, str]) -> str:
        """Return lines that draw the value that ``Sampling`` replaces, and call it ``action``."""
        sampling, tree = self.graph.sampling, self.tree
        parameters = sampling.parameters
        fields = {name: values[value] for name, value in parameters.items() if value in values}
        dtype, shape = tree.types[sampling.replaces]
        if sampling.kind == "gaussian":
            log_std = parameters["log_std"]
            if log_std in tree.literals:
                fields["std"] = write_literal(exp(min(tree.literals[log_std], _LARGEST_LOG)))
            else:
                is_field = "log_std" in tree.fields
                parameter = Body(tree, tree.root, [], values).operand(log_std).x
                fields["std"] = "outputs.log_std.exp()" if is_field else fill("x.detach().exp()", x=parameter)
            return write_part("gaussian", **fields)
        if sampling.kind == "gsde":
            body = Body(tree, tree.root, [], values, 12)
            matrices = fill("s.detach() * self.noise", s=body.operand(parameters["std"]).x)
            body.finish("matrices", matrices, "(n_envs, features, actions)")
            return write_part("gsde", matrices=body.write({"outputs"}), **fields)
        sizes = list(sampling.sizes)
        drawn = ("int64", (len(sizes),)) if sampling.kind == "categorical" else tree.types[parameters["logits"]]
        form = find_cast(dtype)[1:] if dtype != drawn[0] else ""
        if shape != drawn[1]:
            rows = ", ".join(map(str, (-1, *shape)))
            form = (".squeeze(-1)" if (*shape, 1) == drawn[1] else f".reshape({rows})") + form
        if len(sizes) <= 1:
            return write_part(sampling.kind, form=form, **fields)
        parts = fill("x.split(s, -1)", x=fields["logits"], s=sizes[0] if len(set(sizes)) == 1 else sizes)
        return write_part("multi_categorical", parts="\n".join(break_line(" " * 12 + "parts = ", parts)), form=form)
