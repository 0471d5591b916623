"""Optimizer states and the entropy coefficient for the target (REBUILDING.md 15.5, 15.6).

An optimizer's state dict has ``param_groups``, options with the numbers of their parameters, and ``state``, tensors and
numbers by parameter number, in the order of the network's parameters: a tensor that moves or splits moves its state.
``load_state_dict`` of torch replaces its own groups with the saved ones without a check, and ``step`` raises for
options that are missing. So a state that the optimizer of SB3 could not continue from starts anew, with a note.

In: the old states, the old and the new network, and the network that SB3 makes. Out: the new states; and one tensor of
``pytorch_variables.pth``, which SB3's ``load`` puts in the place of the one that it makes from ``ent_coef``.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sbformat.constants import PTH_SUFFIX, PYTORCH_VARIABLES_ENTRY, TORCH_VARIABLES
from sbformat.errors import escape
from sbformat.known.algorithms import ENTROPY_LEARNERS
from sbformat.known.changes import ONE_NETWORK_OPTIMIZER
from sbformat.known.table import current_name, list_place
from sbformat.known.types import Partial, Reference
from sbformat.nets.entropy import FIXED, KEY, LEARNED, check_variable, fixed_coefficient, initial_coefficient
from sbformat.nets.reading import is_optimizer_tree, online_network, optimized_parameters
from sbformat.pkl.numpy import ArrayInfo
from sbformat.pth.values import TensorInfo
from sbformat.tools.rebuild.network import Copies, Tensor, list_parameters, make_scalar, make_storage
from sbformat.tools.rebuild.rebuild_report import Row, refuse, show
from sbformat.values.render import render_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.known.rows import Known
    from sbformat.nets.reading import NetworkMatch
    from sbformat.nets.wrappers import Unwrapped
    from sbformat.pkl.tree import Pair
    from sbformat.tools.rebuild.network import HerObservation, Network
    from sbformat.tools.rebuild.rebuild_context import RebuildContext

Shapes = list[tuple[int, ...]]

# -- options ------------------------------------------------------------------------------------------

ADAM: Final[Pair] = ("torch.optim.adam", "Adam")
OPTIMIZERS: Final = list_place("optimizer_class")
"""The optimizers that SB3 can use."""


def list_defaults(optimizer: Known) -> dict[str, Any]:
    """Return the options that a group needs, with the defaults of the constructor; SB3 sets ``lr``, whatever it is."""
    return {"lr": 1e-3, **{name: default for name, default in optimizer.arguments.items() if default is not None}}


def is_number(value: object) -> bool:
    """Return whether a value is a number of Python or numpy."""
    is_scalar = isinstance(value, ArrayInfo) and value.is_scalar and value.dtype[1] in "fiu"
    return is_scalar or type(value) in (int, float)


def fits_option(name: str, value: Any, default: object) -> bool:
    """Return whether an option has a value of the same kind as its default; that of a flag is None."""

    def is_nonnegative(number: Any) -> bool:
        return type(number) in (int, float) and 0 <= number < math.inf

    value = value.to_numpy().item() if isinstance(value, ArrayInfo) and value.is_scalar else value
    if name == "lr":  # SB3 sets it before each update
        return type(value) in (int, float)
    if name == "differentiable":  # SB3 cannot train with it
        return not value
    if default is None:
        return value is None or type(value) is bool
    if type(default) is tuple:
        is_pair = type(value) in (list, tuple) and len(value) == len(default)
        return is_pair and all(map(is_nonnegative, value)) and (name != "betas" or max(value) < 1)
    return is_nonnegative(value)


def find_wrong_options(optimizer: Known, group: Mapping[str, Any]) -> list[str]:
    """Return the options that a group lacks, and those whose values are of another kind."""
    needed = list_defaults(optimizer)
    lacking = [name for name in needed if name not in group]
    known = {**optimizer.arguments, **needed}
    wrong = [name for name, default in known.items() if name in group and not fits_option(name, group[name], default)]
    return [*lacking, *wrong]


def fits_parameter(
    optimizer: Known, group: Mapping[str, Any], state: Mapping[str, Any], shape: tuple[int, ...] | None
) -> bool:
    """Return whether ``step`` can continue from the state of a parameter of a shape, if that is known."""

    def is_scalar(value: object) -> bool:
        return type(value) in (int, float) or (isinstance(value, TensorInfo) and value.shape in ((), (1,)))

    def has_shape(value: object) -> bool:
        return isinstance(value, TensorInfo) and (shape is None or tuple(value.shape) == tuple(shape))

    if not state:
        return True
    has_all = all(
        name in state and (is_scalar(state[name]) if kind == "scalar" else has_shape(state[name]))
        for name, kind in optimizer.stores.items()
        if kind in ("scalar", "parameter") or group.get(kind)  # the others depend on an option
    )
    tensors = (value for value in state.values() if isinstance(value, TensorInfo))
    return has_all and all(is_scalar(value) or has_shape(value) for value in tensors)


# -- the state of an optimizer ------------------------------------------------------------------------

_MODULES: Final = {"policy.optimizer": "", "actor.optimizer": "actor.", "critic.optimizer": "critic."}
"""The prefix of the module that an optimizer trains."""
_STEPPED: Final = ("exp_avg", "square_avg")
"""State of the torch optimizers that count their steps in a tensor: Adam and similar ones, and RMSprop."""
_MAX_ITEMS: Final = 1_000_000  # items that are copied: in a file any number of them can be shared
_MAX_STEPS: Final = 2**63
_POLICY_OPTIONS: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("actor_critic", "Adam"): {"eps": 1e-5},
    ("CrossQ", "Adam"): {"betas": (0.5, 0.999)},
    ("CrossQ", "AdamW"): {"betas": (0.5, 0.999)},
}
"""Options that policies of a kind or algorithm pass to an optimizer unless ``optimizer_kwargs`` is given."""
_GPU_OPTIONS: Final = {"fused": None, "capturable": False}
"""Options for parameters on a GPU only, and their values on the CPU."""
_CLASS_BY_OPTION: Final = (("centered", ("torch.optim.rmsprop", "RMSprop")), ("nesterov", ("torch.optim.sgd", "SGD")))
"""Options that only one optimizer has, and its class."""


class Optimizer:
    """The state of one of a policy's optimizers while it is rebuilt."""

    def __init__(self, name: str, tree: Any) -> None:
        self.name = name
        if not is_optimizer_tree(tree) or not all(isinstance(state, dict) for state in tree["state"].values()):
            self._refuse("not an optimizer's state dict: expected state, and param_groups with their params")
        states, groups = tree["state"], tree["param_groups"]
        if sum(len(group) + len(group["params"]) for group in groups) + sum(map(len, states.values())) > _MAX_ITEMS:
            self._refuse(f"expected at most {_MAX_ITEMS:,} parameters, options and state items")
        if any(type(key) is not int for group in groups for key in group["params"]):
            self._refuse("expected params to be numbers")
        self.is_new = False
        """Whether its options were replaced."""
        self.notes: list[str] = []
        self.groups = [
            {key: value for key, value in group.items() if _is_name(key) and _is_option(value)} for group in groups
        ]
        self.state = {
            key: own
            for key, own in states.items()
            if all(_is_name(name) and _is_option(part) for name, part in own.items())
        }
        self.given_options = self.options()
        """The options of its first group in the archive."""
        if len(self.state) < len(states):
            self.notes.append("state that is not tensors and numbers starts anew")
        if any(len(group) < len(old) for group, old in zip(self.groups, groups)):
            self.notes.append("options that are not tensors and numbers are left out")

    @property
    def tree(self) -> dict[str, Any]:
        """The new state dict."""
        return {"state": self.state, "param_groups": self.groups}

    @property
    def size(self) -> int:
        """The number of its parameters."""
        return sum(len(group["params"]) for group in self.groups)

    def options(self) -> dict[str, Any]:
        """Return the options of its first group."""
        return {key: value for key, value in self.groups[0].items() if key != "params"} if self.groups else {}

    def guess_class(self) -> Pair | None:
        """Return the class that its options identify, when it is not the default, Adam."""
        return next((pair for name, pair in _CLASS_BY_OPTION if self.groups and name in self.groups[0]), None)

    def learning_rate(self) -> float | None:
        """Return its learning rate."""
        rate = self.options().get("lr")
        return rate if type(rate) is float else None

    def renumber(self) -> None:
        """Number the parameters from 0; torch < 1.5 stored the ``id()`` of each."""
        keys = [key for group in self.groups for key in group["params"]]
        numbers = {key: index for index, key in enumerate(keys)}
        if keys == list(range(len(keys))) and self.state.keys() <= numbers.keys():
            return
        if len(numbers) != len(keys):
            self._refuse("expected each parameter once in the groups")
        self.state = {numbers[key]: own for key, own in self.state.items() if key in numbers}
        for group in self.groups:
            group["params"] = [numbers[key] for key in group["params"]]
        self.notes.append("parameters are numbered from 0 without gaps")

    def match_target_network(self, online: int, *, has_online_only: bool) -> None:
        """Include the parameters of the target network, or leave them out, as the target release does."""
        size = online if has_online_only else 2 * online
        if len(self.groups) != 1 or self.size not in (online, 2 * online) or not online or self.size == size:
            return
        self.groups[0]["params"] = list(range(size))
        self.state = {index: own for index, own in self.state.items() if index < size}
        done, since = ("left out", "as since") if has_online_only else ("added", "as before")
        self.notes.append(f"the parameters of the target network are {done}, {since} SB3 {ONE_NETWORK_OPTIMIZER}")

    def reorder(self, old: list[Tensor], new: list[Tensor]) -> None:
        """Move the state into the order of the new parameters; a shared layer that was split has it twice."""
        where = {tensor.name: index for index, tensor in enumerate(old)}
        if len(self.groups) != 1:
            self._refuse("expected one group of parameters, since shared layers were split")

        def fits(tensor: Tensor) -> bool:
            own = self.state.get(where.get(tensor.origin), {}).values()
            tensors = (part for part in own if isinstance(part, TensorInfo))
            return tensor.origin in where and all(part.shape in ((), (1,), tensor.info.shape) for part in tensors)

        # the numbers are those of the new parameters, whether their states are kept or start anew
        size, self.groups[0]["params"] = self.size, list(range(len(new)))
        if size != len(old) or not all(map(fits, new)):
            self.state = {}
            self.notes.append("the state does not fit the network's parameters, and starts anew")
            return
        state: dict[Any, dict[str, Any]] = {}
        taken: set[int] = set()
        copies = Copies()
        for index, tensor in enumerate(new):
            origin = where[tensor.origin]
            if origin in self.state:
                state[index] = {
                    name: copies.copy_tensor(part) if origin in taken and isinstance(part, TensorInfo) else part
                    for name, part in self.state[origin].items()
                }
                taken.add(origin)
        self.state = state
        self.notes.append("the state is in the order of the new layers; both networks have that of the shared layers")

    def widen(self, her: HerObservation, parameters: list[Tensor]) -> None:
        """Give the state of first layers the columns of the Dict space."""
        for index, own in self.state.items():
            if index >= len(parameters):
                self._refuse("it has more parameters than its network")
            self.state[index] = {
                name: her.widen(parameters[index].name, part)
                if isinstance(part, TensorInfo) and len(part.shape) == 2
                else part
                for name, part in own.items()
            }

    def update_values(self, *, counts_in_tensors: bool) -> None:
        """Change values to those that today's optimizers accept on a machine without a GPU."""
        for index, own in self.state.items():
            step = own.get("step")
            if type(step) in (int, float) and not 0 <= step < _MAX_STEPS:
                self._refuse(f"expected a number of steps from 0 to {_MAX_STEPS - 1}, got {step}")
            if counts_in_tensors and type(step) in (int, float) and any(name in own for name in _STEPPED):
                self.state[index] = {**own, "step": make_scalar(step)}
        for group in self.groups:
            for flag, off in _GPU_OPTIONS.items():
                if flag in group and group[flag] is not None and group[flag] is not False:
                    group[flag] = off
                    self.notes.append(f"{flag} is off: it is for a GPU only")

    def restart_if_wrong(self, optimizer: Known, defaults: dict[str, Any], shapes: Shapes | None) -> None:
        """Start anew what the optimizer that SB3 makes, with its options and shapes, could not continue from."""
        size = self.size if shapes is None else len(shapes)
        why = ""
        if len(self.groups) != 1:
            why = f"expected one group of parameters, got {len(self.groups)}"
        elif self.size != size:
            why = f"expected {size} parameters, got {self.size}"
        elif wrong := find_wrong_options(optimizer, self.groups[0]):
            why = f"its options do not fit the optimizer that SB3 makes: {', '.join(wrong)}"
        if why:
            rate = self.learning_rate()
            own = {} if rate is None or not 0 <= rate < math.inf else {"lr": rate}
            self.groups = [{**defaults, **own, "params": list(range(size))}]
            self.state = {}
            self.notes.append(f"starts anew: {why}")
            self.is_new = True
            return

        def fits(index: object, own: dict[str, Any]) -> bool:
            if type(index) is not int or not 0 <= index < size:
                return False
            return fits_parameter(optimizer, self.groups[0], own, None if shapes is None else shapes[index])

        if not all(fits(index, own) for index, own in self.state.items()):
            self.state = {}
            self.notes.append("the state does not fit the parameters or the optimizer that SB3 makes, and starts anew")

    def _refuse(self, message: str) -> NoReturn:
        refuse(message, self.name + PTH_SUFFIX)


def _is_name(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier() and key.isascii()


def _is_option(value: Any) -> bool:
    """Return whether an optimizer of torch stores such values: numbers, tuples of numbers, tensors."""
    if type(value) in (list, tuple):
        return all(part is None or type(part) in (bool, int, float) for part in value)
    return value is None or type(value) in (bool, int, float) or isinstance(value, TensorInfo)


# -- the optimizers of an archive ---------------------------------------------------------------------


def rebuild_optimizer(
    context: RebuildContext, made: Optimizer, policy: Unwrapped, network: Network, match: NetworkMatch | None
) -> dict[str, Any]:
    """Return an optimizer's state dict for the target and its new network; what was done is in its notes."""
    made.renumber()
    pair, options, shapes = _describe_new(context, made.name, match)
    prefix = _MODULES.get(made.name)
    is_computed = prefix is not None and any(name.startswith(prefix) for name in policy.computed)
    if is_computed:
        made.state = {}
        if len(made.groups) == 1 and shapes is not None:
            made.groups[0]["params"] = list(range(len(shapes)))
        made.notes.append("the state starts anew: it is that of tensors from which parameters were computed")
    if context.family.kind == "q":
        module = online_network(next(iter(context.family.policies.values()))) or ""
        online = len(list_parameters(network.tensors, module))
        made.match_target_network(online, has_online_only=context.target >= ONE_NETWORK_OPTIMIZER)
    if network.net_arch is not None and prefix == "" and not is_computed:
        old = [Tensor(name, name, info) for name, info in policy.state_dict.tree.items()]
        made.reorder(list_parameters(old), list_parameters(network.tensors))
    if context.her_observation is not None and prefix is not None:
        made.widen(context.her_observation, list_parameters(network.tensors, prefix))
    optimizer = context.policy_argument("optimizer_class")
    counts_in_numbers = isinstance(optimizer, Reference) and optimizer.name == "RMSpropTFLike"  # SB3's own
    made.update_values(counts_in_tensors=prefix is None or not counts_in_numbers)
    if pair is not None:
        made.restart_if_wrong(OPTIMIZERS[pair], options, shapes)
    if made.is_new:
        given, new, entry = made.given_options, made.options(), made.name + PTH_SUFFIX
        instead = "the options that SB3 gives a new optimizer"
        row = Row(entry, "param_groups", "dropped", made.notes[-1], instead, show(given), is_finding=True)
        values = {"old": render_json(given), "new": render_json(new)}
        context.rows.append(row._replace(is_hyperparameter=True, **values))
    return made.tree


def _find_class(context: RebuildContext) -> Pair | None:
    """Return the class of the optimizer that SB3 makes for the policy; None when it is not known."""
    arguments = context.policy_arguments
    is_supplied = context.options.supplied_at_load & {"policy_class", "policy_kwargs"}
    if is_supplied or context.sb3_policy is None or arguments is None:
        return None
    given = arguments.get("optimizer_class", Reference(*ADAM))
    function = given.function if isinstance(given, Partial) else given
    pair = current_name(function.pair) if isinstance(function, Reference) else None
    return pair if pair in OPTIMIZERS else None


def _describe_new(
    context: RebuildContext, name: str, match: NetworkMatch | None
) -> tuple[Pair | None, dict[str, Any], Shapes | None]:
    """Return the class of an optimizer that SB3 makes, its options, and the shapes of its parameters, if known."""
    rates = (context.last_learning_rate, context.new_learning_rate)
    rate = next((rate for rate in rates if rate is not None and rate >= 0), context.family.learning_rate)
    if name not in _MODULES:  # that of the entropy coefficient, an Adam with its defaults
        return ADAM, {**list_defaults(OPTIMIZERS[ADAM]), "lr": rate}, [(1,)]
    shapes = None
    if match is not None:
        found = optimized_parameters(match.agent, match.parameters, name) or [[]]
        shapes = [part.shape for part in found[0 if context.target >= ONE_NETWORK_OPTIMIZER else -1]]
    pair = _find_class(context)
    if pair is None:
        return None, {}, shapes
    arguments = context.policy_arguments or {}
    made, given = arguments.get("optimizer_class"), arguments.get("optimizer_kwargs")
    options = list_defaults(OPTIMIZERS[pair])
    if isinstance(made, Partial):
        options |= made.keywords
    elif given is None:
        by_kind = _POLICY_OPTIONS.get((context.family.kind, pair[1]))
        options |= by_kind or _POLICY_OPTIONS.get((context.algorithm, pair[1]), {})
    options |= given if isinstance(given, dict) else {}
    return pair, {**options, "lr": rate}, shapes


def make_state(context: RebuildContext, name: str, match: NetworkMatch | None) -> dict[str, Any] | None:
    """Return the state dict of a new optimizer; None when its class or the network is not known."""
    pair, options, shapes = _describe_new(context, name, match)
    if pair is None or not shapes:
        return None
    return {"state": {}, "param_groups": [{**options, "params": list(range(len(shapes)))}]}


# -- the entropy coefficient --------------------------------------------------------------------------


def rebuild_variables(context: RebuildContext, data: dict[str, Any]) -> dict[str, TensorInfo]:
    """Return the variables that SB3 has for the algorithm; others would become attributes of the agent."""
    found = context.archive.pytorch_variables
    tree: Any = found.tree if found is not None and isinstance(found.tree, dict) else {}
    wanted = "" if context.algorithm not in ENTROPY_LEARNERS else LEARNED if context.learns_entropy else FIXED
    for name, value in tree.items():
        if name != wanted and not (name in TORCH_VARIABLES and value is None):
            message = f"not a variable of {context.algorithm}{wanted and f', which has only {wanted}'}"
            context.report("dropped", message, key=str(name), entry=PYTORCH_VARIABLES_ENTRY)
    return {wanted: _rebuild_coefficient(context, wanted, tree.get(wanted), data)} if wanted else {}


def _rebuild_coefficient(context: RebuildContext, name: str, found: object, data: dict[str, Any]) -> TensorInfo:
    """Return the tensor of the coefficient, with a row when it is not the archive's."""
    value = context.decode_or_none(KEY) if KEY in context.options.supplied_at_load else data.get(KEY)
    is_assigned = KEY in context.assigned
    fixed, initial = fixed_coefficient(value), initial_coefficient(value)
    if is_assigned and fixed is None and initial is None:
        expected = "a number of at least 0, auto or auto_ with a number above 0"
        refuse(f"{KEY}: expected {expected}, got {escape(str(value), 80)}")
    why = "it was missing" if found is None else check_variable(name, found)
    old = found if isinstance(found, TensorInfo) and not why else None
    if name == LEARNED:
        if old is not None and not (is_assigned and value not in ("auto", context.decode_or_none(KEY))):
            return old
        why = why or f"as {KEY} was assigned"
        number, instead = math.log(initial or 1.0), f"log({initial or 1.0})"
        storage = make_storage(struct.pack("<f", number), "float32")
        made = TensorInfo("float32", (1,), (1,), 0, storage, requires_grad=True)
    else:
        made = make_scalar(fixed or 0.0)
        number, instead = _read_item(made), f"{value}, from {KEY}"
        if old is not None and _read_item(old) == number:
            return old
        if old is not None:
            why = f"the archive's tensor is {_read_item(old)}, which contradicts {KEY}"
        why = "as it was assigned" if is_assigned else why
    row = Row(PYTORCH_VARIABLES_ENTRY, name, "dropped", why, instead, new=number)
    if is_assigned:
        row = row._replace(action="translated", message=f"{instead}: {why}", instead=None)
    has_number = isinstance(found, TensorInfo) and found.dtype == "float32" and found.numel == 1
    item = _read_item(found) if has_number else None  # type: ignore[arg-type]
    context.rows.append(row._replace(old=item, is_finding=not is_assigned, is_hyperparameter=True))
    return made


def _read_item(info: TensorInfo) -> float:
    """Return the only element of a float32 tensor."""
    data = bytes(info.storage.bytes()[info.offset * 4 : info.offset * 4 + 4])
    number: float = struct.unpack(">f" if info.storage.byte_order == "big" else "<f", data)[0]
    return -number if info.neg else number
