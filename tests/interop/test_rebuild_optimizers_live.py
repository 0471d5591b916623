"""The table of optimizers beside torch itself, and training on from states that were made anew (REBUILDING.md 15.5)."""

# ruff: noqa: E402 -- importorskip stands before what needs it
from __future__ import annotations

import inspect
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
sb3 = pytest.importorskip("stable_baselines3")

import sbformat
from sbformat import pth
from sbformat.nets.layers import ACTIVATIONS
from sbformat.pkl import Global
from sbformat.tools.rebuild import rebuild
from sbformat.tools.rebuild.optimizers import OPTIMIZERS, find_wrong_options, fits_parameter, list_defaults
from tests.helpers.build_blobs import partial
from tests.helpers.bundled import SAC
from tests.helpers.old_archives import blob, with_keys
from tests.interop.rebuild_envs import environment

if TYPE_CHECKING:
    from sbformat import Archive

pytestmark = [pytest.mark.filterwarnings("ignore")]

SGD = {"lr": 0.25, "momentum": 0, "dampening": 0, "weight_decay": 0, "nesterov": False, "params": [0]}


def named(pair: tuple[str, str]) -> Any:
    return getattr(import_module(pair[0]), pair[1])


def stepped(pair: tuple[str, str], **options: Any) -> tuple[Any, Any]:
    """An optimizer that took two steps, and its parameter."""
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    optimizer = named(pair)([parameter], lr=0.01, **options)
    for _ in range(2):
        parameter.grad = torch.ones(2, 3)
        optimizer.step()
    return optimizer, parameter


@pytest.mark.parametrize("pair", OPTIMIZERS)
@pytest.mark.parametrize("option", [{}, {"amsgrad": True}, {"momentum": 0.5}, {"centered": True}])
def test_what_torch_saves_is_what_the_table_asks_for(pair: tuple[str, str], option: dict[str, Any]) -> None:
    if not set(option) <= OPTIMIZERS[pair].arguments.keys():
        return
    optimizer, _ = stepped(pair, **option)
    stream = io.BytesIO()
    torch.save(optimizer.state_dict(), stream)
    tree: Any = pth.loads(stream.getvalue()).tree
    (group,) = tree["param_groups"]
    assert find_wrong_options(OPTIMIZERS[pair], group) == []
    assert fits_parameter(OPTIMIZERS[pair], group, tree["state"].get(0, {}), (2, 3))
    if OPTIMIZERS[pair].stores:
        assert not fits_parameter(OPTIMIZERS[pair], group, tree["state"][0], (3, 2))


@pytest.mark.parametrize("pair", OPTIMIZERS)
def test_torch_steps_on_with_the_defaults_of_the_table(pair: tuple[str, str]) -> None:
    optimizer, parameter = stepped(pair)
    optimizer.load_state_dict({"state": {}, "param_groups": [{**list_defaults(OPTIMIZERS[pair]), "params": [0]}]})
    before = parameter.detach().clone()
    parameter.grad = torch.ones(2, 3)
    optimizer.step()
    assert not torch.equal(before, parameter)
    for name in OPTIMIZERS[pair].arguments:
        assert name in inspect.signature(named(pair).__init__).parameters


@pytest.mark.parametrize("pair", OPTIMIZERS)
def test_torch_fails_without_any_of_the_options_that_the_table_asks_for(pair: tuple[str, str]) -> None:
    for gone in list_defaults(OPTIMIZERS[pair]):
        optimizer, parameter = stepped(pair)
        group = {name: value for name, value in list_defaults(OPTIMIZERS[pair]).items() if name != gone}
        if gone in ("momentum", "initial_accumulator_value"):
            continue  # RMSprop adds the first, Adagrad reads the second only when it is made
        optimizer.load_state_dict({"state": {}, "param_groups": [{**group, "params": [0]}]})
        parameter.grad = torch.ones(2, 3)
        with pytest.raises(KeyError, match=gone):
            optimizer.step()


@pytest.mark.parametrize("pair", ACTIVATIONS)
def test_activations_take_the_arguments_of_the_table(pair: tuple[str, str]) -> None:
    activation = named(pair)
    activation()
    parameters = list(inspect.signature(activation.__init__).parameters)[1:]
    assert parameters[: len(ACTIVATIONS[pair])] == list(ACTIVATIONS[pair]) or not ACTIVATIONS[pair]


def trained(algorithm: Any, archive: Archive, **options: Any) -> Any:
    made, _ = rebuild(archive)
    spaces = algorithm.load(io.BytesIO(sbformat.writes(made)), device="cpu", **options)
    env = environment(spaces.observation_space, spaces.action_space, 1)
    model = algorithm.load(io.BytesIO(sbformat.writes(made)), env, device="cpu", **options)
    updates = model._n_updates
    model.learn(64)
    assert model._n_updates > updates
    return model


def test_sac_trains_on_with_a_new_state_where_it_was_one_of_sgd() -> None:
    archive = sbformat.read(SAC).replace(parameters={"ent_coef_optimizer": {"state": {}, "param_groups": [SGD]}})
    options = {"buffer_size": 100, "learning_starts": 8, "batch_size": 4}
    with pytest.raises(KeyError, match="betas"):
        model = sb3.SAC.load(io.BytesIO(sbformat.writes(archive)), device="cpu", **options)
        env = environment(model.observation_space, model.action_space, 1)
        sb3.SAC.load(io.BytesIO(sbformat.writes(archive)), env, device="cpu", **options).learn(64)
    model = trained(sb3.SAC, archive, **options)
    assert type(model.ent_coef_optimizer) is torch.optim.Adam
    for name in ("actor.optimizer.pth", "critic.optimizer.pth", "ent_coef_optimizer.pth"):
        assert trained(sb3.SAC, sbformat.read(SAC).without(name), **options)


@pytest.mark.parametrize("pair", OPTIMIZERS)
def test_ppo_trains_on_with_every_class_in_the_place_of_adam(pair: tuple[str, str]) -> None:
    given = {"net_arch": [8, 8], "optimizer_class": Global(*pair)}
    model = trained(sb3.PPO, with_keys(policy_kwargs=blob(given)), n_steps=32, batch_size=8)
    assert type(model.policy.optimizer) is named(pair)


def test_ppo_trains_on_with_partials() -> None:
    given = {
        "net_arch": [8, 8],
        "optimizer_class": partial(Global("torch.optim.sgd", "SGD"), momentum=0.5, nesterov=True),
        "activation_fn": partial(Global("torch.nn.modules.activation", "LeakyReLU"), 0.25, inplace=False),
    }
    model = trained(sb3.PPO, with_keys(policy_kwargs=blob(given)), n_steps=32, batch_size=8)
    (group,) = model.policy.optimizer.param_groups
    assert (group["momentum"], group["nesterov"]) == (0.5, True)
    assert model.policy.activation_fn().negative_slope == 0.25
