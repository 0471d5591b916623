"""What exports the action of an agent to ONNX, one per row: sbformat, and SB3's documented recipe with ``torch.onnx``.

The recipe is that of "Exporting models" in SB3's documentation, with three changes that torch 2.13 needs or that make
its result like ours: it exports the action alone (a policy of PPO or A2C would also compute a value and the logarithm
of a probability), the batch is dynamic, and distributions do not check their arguments, without which the default
exporter fails. ``DOCUMENTED`` is the recipe as it is, with the old exporter where the default one fails.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.predictors import load_with_sb3
from benchmarks.rivals import US

if TYPE_CHECKING:
    from collections.abc import Callable

RAW: Final = "sbformat, raw"
TORCH_ONNX: Final = "torch.onnx"
UNOPTIMIZED: Final = "torch.onnx, not optimized"
OLD: Final = "torch.onnx, dynamo=False"
DOCUMENTED: Final = "SB3's recipe as documented"
ON_POLICY: Final = frozenset({"PPO", "A2C"})


class Exporter(NamedTuple):
    """A way to export."""

    name: str
    modules: tuple[str, ...]
    """The modules that must be installed."""
    load: Callable[[str], Any]
    """Returns the agent of an archive."""
    export: Callable[[Any, str], Any]
    """From an agent to the path of an ONNX file, which may be replaced."""


def load_with_sbformat(path: str) -> Any:
    import sbformat

    return sbformat.load_policy(path)


def with_sbformat(policy: Any, output: str, *, raw: bool) -> None:
    """Export the action: as ``predict`` returns it, or raw, as the recipe has it."""
    from sbformat.policies.onnx import export_onnx

    export_onnx(policy, output, raw=raw, overwrite=True)


def with_torch(model: Any, output: str, *, is_documented: bool = False, **options: Any) -> None:
    """Follow SB3's recipe.

    :param is_documented: all outputs of the policy, and a batch of one
    :param options: of ``torch.onnx.export``
    """
    import torch

    is_on_policy = type(model).__name__ in ON_POLICY
    policy = model.policy if is_on_policy else getattr(model.policy, "actor", model.policy)
    act = policy if is_documented or not is_on_policy else policy._predict  # noqa: SLF001
    torch.distributions.Distribution.set_default_validate_args(is_documented)

    class OnnxablePolicy(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.policy = policy

        def forward(self, observation: Any) -> Any:
            return act(observation, deterministic=True)

    space = model.observation_space
    example = torch.zeros((1, *space.shape), dtype=torch.as_tensor(space.sample()).dtype)
    if is_documented:
        options = {"dynamo": not is_on_policy and type(model).__name__ != "SAC"}
    elif options["dynamo"]:
        options = {"dynamic_shapes": ({0: "batch"},), **options}
    else:
        options = {"dynamic_axes": {"input": {0: "batch"}}, **options}
    torch.onnx.export(OnnxablePolicy(), (example,), output, input_names=["input"], verbose=False, **options)


NEEDED: Final = ("stable_baselines3", "torch", "onnx", "onnxscript")
EXPORTERS: Final = {
    exporter.name: exporter
    for exporter in (
        Exporter(US, ("onnx",), load_with_sbformat, partial(with_sbformat, raw=False)),
        Exporter(RAW, ("onnx",), load_with_sbformat, partial(with_sbformat, raw=True)),
        Exporter(TORCH_ONNX, NEEDED, load_with_sb3, partial(with_torch, dynamo=True)),
        Exporter(UNOPTIMIZED, NEEDED, load_with_sb3, partial(with_torch, dynamo=True, optimize=False)),
        Exporter(OLD, NEEDED, load_with_sb3, partial(with_torch, dynamo=False)),
        Exporter(DOCUMENTED, NEEDED, load_with_sb3, partial(with_torch, is_documented=True)),
    )
}
"""By name. All but the first leave an action as the network gives it, and clip or scale nothing."""
