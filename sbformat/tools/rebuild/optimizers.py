"""Optimizer states for the target: parameters by number, in today's order, with values of today (FORMAT.md 15.5)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import PTH_SUFFIX
from sbformat.errors import UnsupportedError
from sbformat.globals.releases import ONE_NETWORK_OPTIMIZER
from sbformat.globals.renamed import current_name
from sbformat.policies.optimizers import ONLINE_NETWORKS, optimized_parameters
from sbformat.pth.values import TensorInfo
from sbformat.tools.rebuild.networks import parameters
from sbformat.tools.rebuild.optimizer_options import (
    ADAM,
    OPTIMIZERS,
    OptimizerClass,
    fits_parameter,
    misfits_of_group,
)
from sbformat.tools.rebuild.tensors import Copies, scalar
from sbformat.values.types import Partial, Reference

if TYPE_CHECKING:
    from sbformat.globals.torch import Pair
    from sbformat.policies import NetworkMatch
    from sbformat.tools.rebuild.context import Job
    from sbformat.tools.rebuild.hindsight import Hindsight
    from sbformat.tools.rebuild.networks import Network, Tensor

_MODULES: Final = {"policy.optimizer": "", "actor.optimizer": "actor.", "critic.optimizer": "critic."}
"""The module of an optimizer's parameters."""
_COUNTED: Final = ("exp_avg", "square_avg")
"""Moments of torch's optimizers that count their steps in a tensor: Adam and its kin, RMSprop."""
_MOST: Final = 1_000_000
"""Of what is copied, which a file may share."""
_MOST_STEPS: Final = 2**63
_ON_A_GPU: Final = {"fused": None, "capturable": False}
"""Options that hold for parameters on a GPU alone, and what they are without."""
_KINDS: Final = (
    ("centered", ("torch.optim.rmsprop", "RMSprop")),
    ("nesterov", ("torch.optim.sgd", "SGD")),
)
"""Options that only one optimizer has."""


class Optimizer:
    """An optimizer's state while it is rebuilt.

    :param name: ``policy.optimizer``, ``critic.optimizer``, ...
    :param tree: of its state dict
    :raises UnsupportedError: when it is no optimizer's state
    """

    def __init__(self, name: str, tree: Any) -> None:
        self.name = name
        if not _is_optimizer(tree):
            self._refuse("not an optimizer's state dict: no state and param_groups with their parameters")
        moments = tree["state"].values()
        groups = tree["param_groups"]
        if sum(len(group) + len(group["params"]) for group in groups) + sum(map(len, moments)) > _MOST:
            self._refuse(f"it has more than {_MOST:,} parameters, options and moments")
        if any(type(key) is not int for group in groups for key in group["params"]):
            self._refuse("its parameters have no numbers")
        self.is_new = False
        """Whether its options were replaced."""
        self.notes: list[str] = []
        self.groups = [
            {key: value for key, value in group.items() if _is_word(key) and _is_option(value)} for group in groups
        ]
        self.state = {
            key: moments
            for key, moments in tree["state"].items()
            if all(_is_word(word) and _is_option(part) for word, part in moments.items())
        }
        if len(self.state) < len(moments):
            self.notes.append("moments that are no plain tensors and numbers start anew")
        if any(len(group) < len(old) for group, old in zip(self.groups, groups)):
            self.notes.append("options that are no plain tensors and numbers are left out")

    @property
    def tree(self) -> dict[str, Any]:
        """Its state dict."""
        return {"state": self.state, "param_groups": self.groups}

    @property
    def size(self) -> int:
        """The number of its parameters."""
        return sum(len(group["params"]) for group in self.groups)

    def kind(self) -> tuple[str, str] | None:
        """Return the class that its options tell, when that is not Adam, the default."""
        options = self.groups[0] if self.groups else {}
        return next((pair for word, pair in _KINDS if word in options), None)

    def rate(self) -> float | None:
        """Return its learning rate."""
        rate = self.groups[0].get("lr") if self.groups else None
        return rate if type(rate) is float else None

    def number(self) -> None:
        """Number the parameters from 0, where torch < 1.5 had the ``id()`` of each."""
        keys = [key for group in self.groups for key in group["params"]]
        numbers = {key: index for index, key in enumerate(keys)}
        if keys == list(range(len(keys))) and self.state.keys() <= numbers.keys():
            return
        if len(numbers) != len(keys):
            self._refuse("a parameter is in two groups of it")
        self.state = {numbers[key]: moments for key, moments in self.state.items() if key in numbers}
        for group in self.groups:
            group["params"] = [numbers[key] for key in group["params"]]
        self.notes.append("parameters are numbered from 0, where they had addresses or gaps")

    def keep_online(self, online: int, *, is_alone: bool) -> None:
        """Have the parameters of the online network alone, or of both networks, as the target has them.

        :param online: the number of parameters of the online network
        :param is_alone: whether the target's optimizer has no others
        """
        if len(self.groups) != 1 or self.size not in (online, 2 * online) or not online:
            return
        size = online if is_alone else 2 * online
        if self.size == size:
            return
        self.groups[0]["params"] = list(range(size))
        self.state = {index: moments for index, moments in self.state.items() if index < size}
        self.notes.append(
            "the parameters of the target network are left out, as since SB3 2.4"
            if is_alone
            else "the parameters of the target network are there, as before SB3 2.4"
        )

    def reorder(self, old: list[Tensor], new: list[Tensor]) -> None:
        """Bring the moments into the order of the new network; a layer that was parted has them twice."""
        where = {tensor.name: index for index, tensor in enumerate(old)}
        if len(self.groups) != 1:
            self._refuse("it has several groups of parameters, which cannot be matched with the parted layers")
        is_fit = self.size == len(old) and all(
            tensor.origin in where and _fits(self.state.get(where[tensor.origin], {}), tensor) for tensor in new
        )
        state = {}
        taken: set[int] = set()
        copies = Copies()
        for index, tensor in enumerate(new if is_fit else ()):
            origin = where[tensor.origin]
            if origin in self.state:
                moments = self.state[origin]
                state[index] = _own(moments, copies) if origin in taken else moments
                taken.add(origin)
        self.state = state
        self.groups[0]["params"] = list(range(len(new)))
        self.notes.append(
            "moments are in the order of the parted layers, which both have those of the shared ones"
            if is_fit
            else "moments do not fit the network's parameters, and start anew"
        )

    def widen(self, hindsight: Hindsight, own: list[Tensor]) -> None:
        """Give the moments of first layers the columns of the dict."""
        for index, moments in self.state.items():
            if index >= len(own):
                self._refuse("it has more parameters than its network")
            self.state[index] = {
                word: hindsight.widened(own[index].name, part) if _is_matrix(part) else part
                for word, part in moments.items()
            }

    def modernize(self, *, counts_in_tensors: bool) -> None:
        """Have values that today's optimizers take, on a machine without a GPU."""
        for index, moments in self.state.items():
            step = moments.get("step")
            if type(step) in (int, float) and not 0 <= step < _MOST_STEPS:
                self._refuse("its number of steps is none")
            if counts_in_tensors and type(step) in (int, float) and any(word in moments for word in _COUNTED):
                self.state[index] = {**moments, "step": scalar(step)}
        for group in self.groups:
            for flag, off in _ON_A_GPU.items():
                if flag in group and group[flag] is not None and group[flag] is not False:
                    group[flag] = off
                    self.notes.append(f"{flag}, which holds on a GPU alone, is off")

    def fit(self, optimizer: OptimizerClass, defaults: dict[str, Any], shapes: list[tuple[int, ...]] | None) -> None:
        """Start anew what the optimizer that SB3 makes could not go on from.

        :param optimizer: what its class needs
        :param defaults: the options that SB3 gives it
        :param shapes: of its parameters, in order; None when they are not known
        """
        size = self.size if shapes is None else len(shapes)
        why = ""
        if len(self.groups) != 1:
            why = f"expected one group of parameters, got {len(self.groups)}"
        elif self.size != size:
            why = f"expected {size} parameters, got {self.size}"
        elif misfits := misfits_of_group(optimizer, self.groups[0]):
            why = f"its options do not fit the class that SB3 makes: {', '.join(misfits)}"
        if why:
            rate = self.rate()
            options = {**defaults, **({} if rate is None or not 0 <= rate < math.inf else {"lr": rate})}
            self.groups = [{**options, "params": list(range(size))}]
            self.state = {}
            self.notes.append(f"starts anew: {why}")
            self.is_new = True
        elif not all(self._fits(optimizer, index, moments, shapes) for index, moments in self.state.items()):
            self.state = {}
            self.notes.append("moments do not fit the parameters or the class that SB3 makes, and start anew")

    def _fits(
        self, optimizer: OptimizerClass, index: object, moments: dict[str, Any], shapes: list[tuple[int, ...]] | None
    ) -> bool:
        if type(index) is not int or not 0 <= index < self.size:
            return False
        return fits_parameter(optimizer, self.groups[0], moments, None if shapes is None else shapes[index])

    def _refuse(self, message: str) -> Any:
        raise UnsupportedError(message, entry=self.name + PTH_SUFFIX)


def _is_optimizer(tree: Any) -> bool:
    return (
        isinstance(tree, dict)
        and isinstance(tree.get("state"), dict)
        and isinstance(tree.get("param_groups"), list)
        and all(isinstance(group, dict) and isinstance(group.get("params"), list) for group in tree["param_groups"])
        and all(isinstance(moments, dict) for moments in tree["state"].values())
    )


def _is_word(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier() and key.isascii()


def _is_option(value: Any) -> bool:
    """Say whether a value is one that an optimizer of torch keeps: numbers, a few of them together, tensors."""
    if type(value) in (list, tuple):
        return all(part is None or type(part) in (bool, int, float) for part in value)
    return value is None or type(value) in (bool, int, float) or isinstance(value, TensorInfo)


def _is_matrix(part: object) -> bool:
    return isinstance(part, TensorInfo) and len(part.shape) == 2


def _fits(moments: dict[str, Any], tensor: Tensor) -> bool:
    return all(part.shape in ((), (1,), tensor.info.shape) for part in moments.values() if isinstance(part, TensorInfo))


def _own(moments: dict[str, Any], copies: Copies) -> dict[str, Any]:
    return {word: copies.tensor(part) if isinstance(part, TensorInfo) else part for word, part in moments.items()}


def rebuilt_optimizer(
    job: Job, made: Optimizer, old: tuple[Tensor, ...], network: Network, known: NetworkMatch | None
) -> dict[str, Any]:
    """Return an optimizer's state for the target; what was done is in its notes.

    :param made: the optimizer as it was
    :param old: the tensors of the old network
    :param network: the new one
    :param known: the policy as SB3 makes it; None when it is not known
    :raises UnsupportedError: when it cannot be matched with the network
    """
    made.number()
    prefix = _MODULES.get(made.name)
    if job.family.kind == "q":
        module, _ = next(iter(job.family.policies.values()))
        online = len(parameters(network.tensors, ONLINE_NETWORKS[module]))
        made.keep_online(online, is_alone=job.target >= ONE_NETWORK_OPTIMIZER)
    if network.net_arch is not None and prefix == "":
        made.reorder(parameters(old), parameters(network.tensors))
    if job.hindsight is not None and prefix is not None:
        made.widen(job.hindsight, parameters(network.tensors, prefix))
    made.modernize(counts_in_tensors=not job.counts_in_numbers or prefix is None)
    if prefix is None:
        made.fit(OPTIMIZERS[ADAM], entropy_options(job), [(1,)])
    elif (pair := optimizer_class(job)) is not None:
        options = optimized_parameters(known.agent, known.parameters, made.name) if known is not None else []
        own = (options[0] if job.target >= ONE_NETWORK_OPTIMIZER else options[-1]) if options else []
        shapes = None if known is None else [part.shape for part in own]
        made.fit(OPTIMIZERS[pair], fresh_options(job, pair), shapes)
    if made.is_new:
        job.lost_options(made.name + PTH_SUFFIX, made.notes[-1])
    return made.tree


def optimizer_class(job: Job) -> Pair | None:
    """Return the class that SB3 makes for the policy; None when it is not known."""
    if job.options.given & {"policy_class", "policy_kwargs"} or job.policy is None or job.arguments is None:
        return None
    given = job.arguments.get("optimizer_class", Reference(*ADAM))
    function = given.function if isinstance(given, Partial) else given
    pair = current_name(function.pair) if isinstance(function, Reference) else None
    return pair if pair in OPTIMIZERS else None


def fresh_options(job: Job, pair: Pair) -> dict[str, Any]:
    """Return the options of an optimizer that has just been made: its defaults, and what the policy gives it."""
    arguments = job.arguments or {}
    made, given = arguments.get("optimizer_class"), arguments.get("optimizer_kwargs")
    keywords = made.keywords if isinstance(made, Partial) else {}
    rate = job.last_rate if job.last_rate is not None and job.last_rate >= 0 else job.family.learning_rate
    return {**OPTIMIZERS[pair].defaults, **keywords, **(given if isinstance(given, dict) else {}), "lr": rate}


def fresh_entropy_state(job: Job) -> dict[str, Any]:
    """Return the state of an entropy coefficient's optimizer that took no step."""
    return {"state": {}, "param_groups": [{**entropy_options(job), "params": [0]}]}


def entropy_options(job: Job) -> dict[str, Any]:
    """Return the options that SB3 gives the entropy coefficient's optimizer: a plain Adam."""
    return {**OPTIMIZERS[ADAM].defaults, "lr": fresh_options(job, ADAM)["lr"]}
