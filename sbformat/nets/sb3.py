"""The policies of SB3 and sb3-contrib, as their sources write them: what each is made of, and how it acts.

``POLICIES`` has a row for each class. A policy adds its outputs to a graph: ``action`` first; ``logits`` (of the last
layer; masked ones are -1e8), ``probabilities``, ``mean``, ``log_std`` (of the distribution, also with gSDE), ``value``;
``q_values``, for each action, or for each critic and the deterministic action; ``quantiles``.

Sources: SB3 ``common/policies.py``, ``common/torch_layers.py``, ``dqn/policies.py``, ``sac/policies.py``,
``td3/policies.py`` of 0.6 to 2.9; sb3-contrib ``common/maskable``, ``common/recurrent``, and ``policies.py`` of
``qrdqn``, ``tqc``, ``crossq`` and ``ars``, of 0.9 to 2.9.
"""

from __future__ import annotations

from abc import abstractmethod
from math import inf
from typing import TYPE_CHECKING, Any, Final

from sbformat.constants import DATA_ENTRY
from sbformat.errors import UnsupportedError, escape, find_alike
from sbformat.immutable import Record
from sbformat.known import changes
from sbformat.known.algorithms import POLICY_CLASSES
from sbformat.known.rows import UnrecognizedError
from sbformat.known.sb3 import COMBINED, FLATTEN, NATURE
from sbformat.nets.arguments import (
    KWARGS,
    LARGEST_FLOAT32,
    NET_ARCH,
    USE_SDE,
    NetworkError,
    Size,
    action_size,
    action_space_error,
    output_size,
    wrong_value_error,
)
from sbformat.nets.distributions import (
    LOG_STD_RANGE,
    Head,
    add_bits,
    add_choices,
    add_gaussian,
    add_gsde,
    average_quantiles,
    choose_greatest,
    component_sizes,
    finish_deterministic,
    finish_gaussian,
    require_outputs,
)
from sbformat.nets.extractors import (
    EXTRACTOR,
    FeaturesExtractor,
    NatureCNN,
    SuppliedExtractor,
    extract_features,
    make_extractor,
)
from sbformat.nets.layers import (
    LSTM,
    RELU,
    TANH,
    BatchRenorm,
    Linear,
    Module,
    Opaque,
    Sequential,
    Supplied,
    Tensor,
    clip,
    read_activation,
)
from sbformat.pkl.numpy import ArrayInfo
from sbformat.policies.builder import check_layers
from sbformat.policies.graph import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sbformat.known.changes import Release
    from sbformat.nets.arguments import Agent, Arguments
    from sbformat.nets.distributions import Noise
    from sbformat.nets.layers import Parameter, Scope
    from sbformat.pkl.tree import Pair
    from sbformat.policies.builder import Value

    Observation = Mapping[str | None, Value]
    Outputs = dict[str, Value]
    MakeModule = Callable[[], Module]

UNIT: Final = Size(1, "")


def create_mlp(
    inputs: int,
    outputs: int | None,
    sizes: Sequence[Size],
    activation: MakeModule,
    *,
    bias: bool = True,
    renorm: Arguments | None = None,
) -> list[Module]:
    """Return the layers that SB3's function of this name makes.

    :param outputs: outputs of the last layer, which no activation follows; None without such a layer
    :param renorm: the policy's arguments, if a batch renormalisation precedes each layer
    """
    made: list[Module] = []
    for size in [*sizes] if outputs is None else [*sizes, outputs]:
        made += [BatchRenorm(inputs, renorm)] if renorm else []
        made += [Linear(inputs, size, bias=bias), activation()]
        inputs = size
    return made if outputs is None else made[:-1]


class Policy(Module):
    """A policy: a network that acts, with what only training uses; it has a default features extractor."""

    activation: Pair = RELU
    extractor_names: tuple[str, str] = (EXTRACTOR, "")
    """The names of the features extractors of what acts and of its critic, in a state dict of today."""

    def __init__(self, agent: Agent, extractor: Pair) -> None:
        self.agent = agent
        self._extractor = extractor
        self.make()

    @abstractmethod
    def make(self) -> None:
        """Set the modules, in SB3's order."""

    def parameters(self) -> list[Parameter]:
        """Return the tensors of its state dict, by their names in the agent's release."""
        made, renamed = super().parameters(), changes.stored_names(self.agent.release)
        if not renamed:
            return made
        names = {parameter.name: changes.rename(parameter.name, renamed) for parameter in made}
        return [one._replace(name=names[one.name], same_as=names.get(one.same_as or "")) for one in made]

    @abstractmethod
    def act(self, scope: Scope, observation: Observation, rate: float) -> Head:
        """Add the nodes that compute the policy's outputs.

        :param rate: the share of random actions, ``exploration_rate`` of ``data``
        """

    def make_extractor(self) -> FeaturesExtractor:
        """Return a features extractor of what acts, or the function of the caller that has one of its names."""
        for name in (self.extractor_names[0], EXTRACTOR):
            if name in self.agent.supplied:
                return SuppliedExtractor(*self.agent.supplied[name])
        return make_extractor(self.agent, self._extractor)

    def make_critic_extractor(self) -> FeaturesExtractor | Opaque:
        """Return a features extractor of a critic alone; it need not be known if the caller supplies the actor's."""
        if self.extractor_names[1] in self.agent.supplied:
            return SuppliedExtractor(*self.agent.supplied[self.extractor_names[1]])
        try:
            return make_extractor(self.agent, self._extractor)
        except UnsupportedError:
            if not self.agent.supplied:
                raise
            return Opaque()


def make_noise_layers(agent: Agent, activation: MakeModule, inputs: Size, latent: Size) -> tuple[Module | None, Size]:
    """Return the layers that gSDE has for itself, which may be none, and the size of what its noise depends on."""
    value = agent.policy_kwargs.get(changes.NOISE_ARGUMENT)
    if value is None or agent.release >= changes.NO_NOISE_LAYERS:
        return None, latent
    sizes = agent.read_sizes(value, f"{KWARGS}/{changes.NOISE_ARGUMENT}")
    return Sequential(create_mlp(inputs, None, sizes, activation)), (sizes or [inputs])[-1]


# -- common/policies.py: an actor and a critic beside it -----------------------------------------------


class MlpExtractor(Module):
    """The layers of the policy and value networks, after those that they share in old releases.

    A function that the caller supplies as ``mlp_extractor`` returns what the actor uses.
    """

    def __init__(self, agent: Agent, extractor: FeaturesExtractor, inputs: Size, activation: MakeModule) -> None:
        shared, pi, vf = _read_branches(agent, is_image=isinstance(extractor, NatureCNN))
        split = shared[-1] if shared else inputs
        self.latent_dim_pi, self.latent_dim_vf = ((sizes or [split])[-1] for sizes in (pi, vf))
        supplied = agent.supplied
        self.is_opaque = "mlp_extractor" in supplied
        self.has_critic = not self.is_opaque or "mlp_extractor.value_net" in supplied
        self.shared_net = Sequential(create_mlp(inputs, None, [] if self.is_opaque else shared, activation))
        for branch, sizes in (("policy_net", pi), ("value_net", vf)):
            names = (f"mlp_extractor.{branch}", "mlp_extractor")
            found = next((supplied[name] for name in names if name in supplied), None)
            made = Sequential(create_mlp(split, None, sizes, activation)) if found is None else Supplied(*found)
            setattr(self, branch, made)

    def forward_branch(self, scope: Scope, branch: str, features: Value) -> Value:
        """Add the layers of ``policy_net`` or ``value_net``."""
        module: Module = getattr(self, branch)
        if not module.is_opaque:
            features = self.shared_net.forward(scope / "shared_net", features)
        return module.forward(scope / branch, features)


def _read_branches(agent: Agent, *, is_image: bool) -> tuple[list[Size], list[Size], list[Size]]:
    """Return the hidden layers that ``net_arch`` describes: shared ones, those of the policy, those of the value."""
    value = agent.net_arch()
    if value is None:
        sizes = [] if is_image else agent.read_sizes((64, 64))
        return [], sizes, sizes
    takes_dict, shares = agent.release >= changes.PI_AND_VF, agent.release < changes.NO_SHARED_LAYERS
    if takes_dict and isinstance(value, list) and value and isinstance(value[0], dict):
        value = value[0]
    if takes_dict and isinstance(value, dict):
        if shares and not {"pi", "vf"} <= value.keys():
            raise NetworkError(NET_ARCH, f"expected the keys pi and vf, which SB3 {changes.PI_AND_VF} needs")
        return [], agent.read_sizes(value.get("pi", [])), agent.read_sizes(value.get("vf", []))
    if not shares:
        if not isinstance(value, (list, tuple, ArrayInfo)):
            raise wrong_value_error(value, NET_ARCH, "a list of layer sizes, or a dict of two lists")
        return [], agent.read_sizes(value), agent.read_sizes(value)
    if not isinstance(value, (list, tuple)):
        raise wrong_value_error(value, NET_ARCH, "a list of layer sizes, or of sizes and then a dict of two lists")
    split = next((at for at, layer in enumerate(value) if isinstance(layer, dict)), len(value))
    own = value[split] if split < len(value) else {}
    return agent.read_sizes(value[:split]), agent.read_sizes(own.get("pi", [])), agent.read_sizes(own.get("vf", []))


class ActorCriticPolicy(Policy):
    """A policy and a value network after a features extractor: PPO, A2C, TRPO."""

    activation = TANH
    extractor_names = (changes.ACTOR_EXTRACTOR, changes.CRITIC_EXTRACTOR)

    def make(self) -> None:
        extractor = self.make_extractor()
        self.make_layers(extractor, extractor.features_dim)

    def make_layers(self, extractor: FeaturesExtractor, inputs: Size) -> None:
        """Set the modules after the features, or after the outputs of an LSTM: the inputs of ``mlp_extractor``."""
        agent, arguments, activation = self.agent, self.agent.arguments, read_activation(self.agent, self.activation)
        mlp_extractor = MlpExtractor(agent, extractor, inputs, activation)
        noise_layers, seen = make_noise_layers(agent, activation, inputs, mlp_extractor.latent_dim_pi)
        refuses_squash = not agent.use_sde and agent.release >= changes.SQUASH_NEEDS_GSDE
        if refuses_squash and arguments.flag("squash_output", default=False):
            raise NetworkError(arguments.key("squash_output"), "squash_output needs use_sde=True")
        if agent.action_space.distribution == "gaussian":
            size = action_size(agent.action_space)
            arguments.require_number("log_std_init")
            shape = (seen, size if arguments.flag("full_std", default=True) else 1) if agent.use_sde else (size,)
            self.log_std = Tensor(shape)
        self.features_extractor = extractor
        if agent.release >= changes.BRANCH_EXTRACTORS:
            setattr(self, changes.ACTOR_EXTRACTOR, extractor)
            shares = arguments.flag("share_features_extractor", default=True)
            critics = extractor if shares else self.make_critic_extractor()
            setattr(self, changes.CRITIC_EXTRACTOR, critics)
        self.mlp_extractor = mlp_extractor
        if noise_layers is not None:
            setattr(self, changes.NOISE_LAYERS, noise_layers)
        self.action_net = Linear(mlp_extractor.latent_dim_pi, self.count_logits())
        self.has_critic = mlp_extractor.has_critic and type(self.critic_extractor) is not Opaque
        self.value_net: Module = Linear(mlp_extractor.latent_dim_vf, 1) if self.has_critic else Opaque()

    @property
    def critic_extractor(self) -> Any:
        """The features extractor of the critic, which may be the actor's; ``Opaque`` if it is not known."""
        return getattr(self, changes.CRITIC_EXTRACTOR, self.features_extractor)

    def count_logits(self) -> Size:
        """Return the number of outputs of ``action_net``."""
        return output_size(self.agent.action_space)

    def act(self, scope: Scope, observation: Observation, rate: float) -> Head:  # noqa: ARG002
        actor, critic = self.extractor_names
        features = extract_features(scope, self.features_extractor, actor, observation)
        recurred = self.recur(scope, features)
        latent = self.mlp_extractor.forward_branch(scope / "mlp_extractor", "policy_net", recurred)
        head = self.act_on(scope, features, latent)
        if not self.has_critic:
            return head
        extractor = self.critic_extractor
        name = actor if extractor is self.features_extractor else critic
        features = self.recur_critic(scope, extract_features(scope, extractor, name, observation), recurred)
        latent = self.mlp_extractor.forward_branch(scope / "mlp_extractor", "value_net", features)
        value = self.value_net.forward(scope / "value_net", latent, name="value")  # type: ignore[call-arg]
        return head._replace(outputs={**head.outputs, "value": value})

    def recur(self, scope: Scope, features: Value) -> Value:  # noqa: ARG002 -- of a policy with an LSTM
        """Add what is between the features and the actor's layers."""
        return features

    def recur_critic(self, scope: Scope, features: Value, recurred: Value) -> Value:  # noqa: ARG002
        """Add what is between the features and the critic's layers; the actor's layers get ``recurred``."""
        return features

    def act_on(self, scope: Scope, features: Value, latent: Value) -> Head:
        """Add the distribution of actions, from the features and from what ``action_net`` gets."""
        agent, space, net = self.agent, self.agent.action_space, scope / "action_net"
        is_box = space.distribution == "gaussian"
        raw = self.action_net.forward(net, latent, name="mean" if is_box else "logits")
        if space.distribution == "bernoulli":
            return add_bits(scope, space, raw)
        if not is_box:
            return add_choices(scope, space, raw, masked=False)
        squash = agent.arguments.flag("squash_output", default=False)
        if not agent.use_sde:
            squash = squash and agent.release < changes.SQUASH_NEEDS_GSDE  # which no tanh precedes
            return finish_gaussian(scope, space, add_gaussian(raw, scope.weight("log_std")), raw, raw, squashed=squash)
        noise = add_module_noise(self, scope, agent.arguments, features, latent, raw)
        scaled = scope.add("Tanh", raw, module="action") if squash else raw
        return finish_gaussian(scope, space, noise, raw, scaled, squashed=squash)


def add_module_noise(
    module: Module, scope: Scope, arguments: Arguments, features: Value, latent: Value, mean: Value
) -> Noise:
    """Add gSDE's noise, which depends on the last hidden layer, or on layers of its own that the module has."""
    layers = getattr(module, changes.NOISE_LAYERS, None)
    seen = latent if layers is None else layers.forward(scope / changes.NOISE_LAYERS, features)
    return add_gsde(scope / "log_std", mean, seen, use_expln=arguments.flag("use_expln", default=False))


class MaskableActorCriticPolicy(ActorCriticPolicy):
    """As ``ActorCriticPolicy``, for choices that can be masked; a bit has a logit for each of its values."""

    def __init__(self, agent: Agent, extractor: Pair) -> None:
        if agent.action_space.distribution == "gaussian":
            raise action_space_error(agent.action_space)
        super().__init__(agent._replace(use_sde=False), extractor)

    def count_logits(self) -> Size:
        size = output_size(self.agent.action_space)
        return size * 2 if self.agent.action_space.distribution == "bernoulli" else size

    def act_on(self, scope: Scope, features: Value, latent: Value) -> Head:  # noqa: ARG002
        logits = self.action_net.forward(scope / "action_net", latent, name="raw_logits")
        return add_choices(scope, self.agent.action_space, logits, masked=True)


class RecurrentActorCriticPolicy(ActorCriticPolicy):
    """An LSTM between the features extractor and the two networks, and another one or a layer for the critic."""

    def make(self) -> None:
        arguments, extractor = self.agent.arguments, self.make_extractor()
        size, hidden = extractor.features_dim, arguments.size("lstm_hidden_size", 256, least=1)
        layers = arguments.size("n_lstm_layers", 1, least=1)
        check_layers(layers, self.agent.limits, arguments.key("n_lstm_layers"))
        is_shared = arguments.flag("shared_lstm", default=False)
        has_critic = arguments.flag("enable_critic_lstm", default=True)
        if is_shared and has_critic:
            raise NetworkError(arguments.key("shared_lstm"), "a shared LSTM needs enable_critic_lstm=False")
        if is_shared and not arguments.flag("share_features_extractor", default=True):
            raise NetworkError(arguments.key("shared_lstm"), "a shared LSTM needs share_features_extractor=True")
        self.make_layers(extractor, hidden)
        self.lstm_actor = LSTM(size, hidden, layers, arguments.nested("lstm_kwargs"))
        if has_critic:
            self.lstm_critic = LSTM(size, hidden, layers, arguments.nested("lstm_kwargs"))
        elif not is_shared:
            self.critic = Linear(size, hidden)

    def recur(self, scope: Scope, features: Value) -> Value:
        return self.lstm_actor.forward(scope / "lstm_actor", features)

    def recur_critic(self, scope: Scope, features: Value, recurred: Value) -> Value:
        for name in ("lstm_critic", "critic"):
            if hasattr(self, name):
                return getattr(self, name).forward(scope / name, features)  # type: ignore[no-any-return]
        return recurred


# -- dqn, qrdqn: one network and its target -----------------------------------------------------------


class QNetwork(Module):
    """A network of the values of actions, or of their quantiles."""

    def __init__(self, policy: Policy, name: str, outputs: Size) -> None:
        self.features_extractor = extractor = policy.make_extractor()
        value = policy.agent.net_arch()
        default = [] if isinstance(extractor, NatureCNN) else [64, 64]
        sizes = policy.agent.read_sizes(default if value is None else value)
        layers = create_mlp(extractor.features_dim, outputs, sizes, read_activation(policy.agent, policy.activation))
        setattr(self, name, Sequential(layers))


class DQNPolicy(Policy):
    """A Q-network, and its target: the action of the greatest value, or at random."""

    network = "q_net"
    extractor_names = (f"q_net.{EXTRACTOR}", "")

    def make(self) -> None:
        if self.agent.action_space.distribution != "categorical":
            raise action_space_error(self.agent.action_space)
        outputs = output_size(self.agent.action_space) * self.count_quantiles()
        for name in (self.network, f"{self.network}_target"):
            setattr(self, name, QNetwork(self, self.network, outputs))

    def count_quantiles(self) -> Size:
        """Return the number of outputs for each action."""
        return UNIT

    def act(self, scope: Scope, observation: Observation, rate: float) -> Head:
        outputs = self.evaluate(scope, observation)
        require_outputs(outputs["q_values"], self.agent.action_space.flat_size())
        return choose_greatest(scope, outputs, rate)

    def evaluate(self, scope: Scope, observation: Observation) -> Outputs:
        """Add the values of all actions."""
        return {"q_values": self.forward_network(scope, observation, "q_values")}

    def forward_network(self, scope: Scope, observation: Observation, result: str) -> Value:
        """Add the network, whose result gets a name."""
        name = self.network
        network = getattr(self, name)
        features = extract_features(scope, network.features_extractor, self.extractor_names[0], observation)
        return getattr(network, name).forward(scope / name / name, features, name=result)  # type: ignore[no-any-return]


class QRDQNPolicy(DQNPolicy):
    """A network of quantiles of each action's value, whose mean is the value."""

    network = "quantile_net"
    extractor_names = (f"quantile_net.{EXTRACTOR}", "")

    def count_quantiles(self) -> Size:
        return self.agent.arguments.number_of("n_quantiles", 200)

    def evaluate(self, scope: Scope, observation: Observation) -> Outputs:
        flat, actions = self.forward_network(scope, observation, ""), self.agent.action_space.flat_size()
        shape = (flat.shape[0] // actions, actions)
        quantiles = scope.add("Reshape", flat, shape=shape, name="quantiles", module=self.network)
        values = scope.add("ReduceMean", quantiles, axis=-2, name="q_values", module=self.network)
        return {"q_values": values, "quantiles": quantiles}


# -- sac, tqc, crossq, td3: an actor, and critics of its action -----------------------------------------


class ContinuousCritic(Module):
    """Networks that return the value of an observation and an action, or its quantiles."""

    def __init__(self, policy: ActorCriticsPolicy, extractor: FeaturesExtractor, outputs: Size) -> None:
        agent = policy.agent
        inputs = extractor.features_dim + action_size(agent.action_space)

        def make() -> Sequential:
            return Sequential(create_mlp(inputs, outputs, policy.critic_arch, policy.make_layer, renorm=policy.renorm))

        first = make()
        self.features_extractor = extractor
        count = 2 if agent.release < changes.NUMBERED_CRITICS else agent.arguments.number_of("n_critics", 2, least=1)
        check_layers(count * (len(policy.critic_arch) + 1), agent.limits, agent.arguments.key("n_critics"))
        self.names = [f"qf{number}" for number in range(count)]
        for name in self.names:
            setattr(self, name, first if name == "qf0" else make())

    def forward_values(self, scope: Scope, features: Value, action: Value) -> list[Value]:
        """Add the networks, and return the result of each."""
        seen = scope.add("Concat", features, action, axis=-1)
        return [getattr(self, name).forward(scope / name, seen) for name in self.names]


class SACActor(Module):
    """``Actor`` of ``sac/policies.py``: mean and standard deviation of the actions."""

    def __init__(self, policy: ActorCriticsPolicy, extractor: FeaturesExtractor) -> None:
        agent, arguments = policy.agent, policy.agent.arguments
        features, sizes, activation = extractor.features_dim, policy.actor_arch, policy.make_layer
        latent = (sizes or [features])[-1]
        size = action_size(agent.action_space)
        layers = create_mlp(features, None, sizes, activation, renorm=policy.renorm)
        if policy.renorm and sizes:
            layers.append(BatchRenorm(latent, policy.renorm))
        self.arguments = arguments
        self.clips_mean = False
        noise_layers = None
        use_sde = arguments.flag(USE_SDE, default=False)
        if use_sde:
            arguments.require_number("log_std_init")
            noise_layers, seen = make_noise_layers(agent, activation, features, latent)
            self.log_std: Tensor | Linear = Tensor((seen, size))
            self.clips_mean = arguments.number("clip_mean", 2.0) > 0.0
        self.features_extractor = extractor
        self.latent_pi = Sequential(layers)
        if noise_layers is not None:
            setattr(self, changes.NOISE_LAYERS, noise_layers)
        self.mu = Sequential([Linear(latent, size)]) if self.clips_mean else Linear(latent, size)
        if not use_sde:
            self.log_std = Linear(latent, size)

    def forward_actions(self, scope: Scope, features: Value) -> tuple[Value, Noise]:
        """Add the mean and the noise around it; with gSDE a Hardtanh limits the mean unless ``clip_mean`` is 0."""
        latent, place = self.latent_pi.forward(scope / "latent_pi", features), scope / "mu"
        if self.clips_mean:
            limit = self.arguments.number("clip_mean", 2.0)
            if LARGEST_FLOAT32 < limit < inf:
                raise NetworkError(self.arguments.key("clip_mean"), f"expected a number of float32, got {limit!r}")
            mean = clip(place / 1, self.mu.forward(place, latent), -limit, limit, "mean")
        else:
            mean = self.mu.forward(place, latent, name="mean")
        if not isinstance(self.log_std, Linear):
            return mean, add_module_noise(self, scope, self.arguments, features, latent, mean)
        place = scope / "log_std"
        log_std = clip(place, self.log_std.forward(place, latent), *LOG_STD_RANGE, "log_std")
        return mean, add_gaussian(mean, log_std)


class TD3Actor(Module):
    """``Actor`` of ``td3/policies.py``: one action, without noise."""

    def __init__(self, policy: ActorCriticsPolicy, extractor: FeaturesExtractor) -> None:
        size = action_size(policy.agent.action_space)
        layers = create_mlp(extractor.features_dim, size, policy.actor_arch, policy.make_layer)
        self.features_extractor = extractor
        self.mu = Sequential(layers)


class ActorCriticsPolicy(Policy):
    """An actor, critics of its action, and targets, with features extractors that they share or not."""

    extractor_names = (f"actor.{EXTRACTOR}", f"critic.{EXTRACTOR}")
    actor_class: Callable[[Any, FeaturesExtractor], Any]
    net_arch: Any = (256, 256)
    """The hidden layers by default: of actor and critics, or of each."""
    net_arch_of_images: Any = (256, 256)
    """Those after a NatureCNN."""
    renorm: Arguments | None = None

    def make(self) -> None:
        agent = self.agent
        extractor = self.make_extractor()
        self.actor_arch, self.critic_arch = self._read_net_arch(is_image=isinstance(extractor, NatureCNN))
        self.make_layer = read_activation(self.agent, self.activation)
        if agent.release < changes.OWN_EXTRACTORS:  # all modules used one of the policy
            self.features_extractor = extractor
        self.actor = self.actor_class(self, extractor)
        self.make_critics(extractor)

    def make_critics(self, extractor: FeaturesExtractor) -> None:
        """Set the modules after the actor, whose features extractor they get."""
        self.critic = self.make_critic(extractor)
        self.critic_target = self.make_critic(None)

    def make_critic(self, extractor: FeaturesExtractor | None) -> Module:
        """Return critics, which may share a features extractor, unless they have one of their own."""
        found: Module | None = extractor if self.agent.shares_extractor() else None
        found = getattr(self, EXTRACTOR, found) or self.make_critic_extractor()
        if isinstance(found, FeaturesExtractor):
            return ContinuousCritic(self, found, self.count_quantiles())
        return Opaque()

    def count_quantiles(self) -> Size:
        """Return the number of outputs of a critic."""
        return UNIT

    def _read_net_arch(self, *, is_image: bool) -> tuple[list[Size], list[Size]]:
        """Return the hidden layers of the actor and of the critics."""
        agent, value = self.agent, self.agent.net_arch()
        if value is None:
            has_layers = agent.release >= changes.LAYERS_AFTER_CNN
            default = self.net_arch if not is_image else self.net_arch_of_images if has_layers else ()
            value = default if isinstance(default, dict) else list(default)
        takes_dict = agent.release >= changes.PI_AND_QF
        if isinstance(value, dict) and takes_dict:
            if not {"pi", "qf"} <= value.keys():
                raise NetworkError(NET_ARCH, "expected the keys pi and qf, for actor and critics")
            return agent.read_sizes(value["pi"]), agent.read_sizes(value["qf"])
        if isinstance(value, list) or (isinstance(value, tuple) and not takes_dict):
            return agent.read_sizes(value), agent.read_sizes(value)
        raise wrong_value_error(value, NET_ARCH, "a list of layer sizes, or a dict of two lists")

    def act(self, scope: Scope, observation: Observation, rate: float) -> Head:  # noqa: ARG002
        place = scope / "actor"
        features = extract_features(scope, self.actor.features_extractor, self.extractor_names[0], observation)
        head, scaled = self.act_on(place, features)
        place, critic = scope / "critic", self.critic
        if not isinstance(critic, ContinuousCritic) or not scope.has("critic"):
            return head  # the file has none, or the caller supplies a features extractor for the actor alone
        name = self.extractor_names[0 if self.agent.shares_extractor() else 1]
        features = extract_features(scope, critic.features_extractor, name, observation)
        values = self.evaluate(place, critic.forward_values(place, features, scaled))
        return head._replace(outputs={**head.outputs, **values})

    def act_on(self, place: Scope, features: Value) -> tuple[Head, Value]:
        """Add the actor's outputs; return them and the action before it is scaled to the bounds."""
        mean, noise = self.actor.forward_actions(place, features)
        scaled = place.add("Tanh", mean)
        return finish_gaussian(place, self.agent.action_space, noise, mean, scaled, squashed=True), scaled

    def evaluate(self, place: Scope, values: list[Value]) -> Outputs:
        """Add the outputs of the critics."""
        return {"q_values": place.add("Concat", *values, axis=-1, name="q_values")}


class SACPolicy(ActorCriticsPolicy):
    """A Gaussian actor, squashed by tanh, critics, and their targets."""

    actor_class = SACActor


class TQCPolicy(SACPolicy):
    """As SAC's, with critics that return quantiles."""

    def count_quantiles(self) -> Size:
        return self.agent.arguments.size("n_quantiles", 25)

    def evaluate(self, place: Scope, values: list[Value]) -> Outputs:
        return average_quantiles(place, values)


class CrossQPolicy(SACPolicy):
    """As SAC's, with batch renormalisation and without targets."""

    net_arch = net_arch_of_images = {"pi": [256, 256], "qf": [1024, 1024]}

    def make(self) -> None:
        self.renorm = self.agent.arguments if self.agent.arguments.flag("batch_norm", default=True) else None
        super().make()

    def make_critics(self, extractor: FeaturesExtractor) -> None:
        self.critic = self.make_critic(extractor)


class TD3Policy(ActorCriticsPolicy):
    """A deterministic actor, critics, and their targets; DDPG has it, too."""

    actor_class = TD3Actor
    net_arch = (400, 300)

    def make_critics(self, extractor: FeaturesExtractor) -> None:
        target = getattr(self, EXTRACTOR, None) or self.make_extractor()
        self.actor_target = TD3Actor(self, target)
        self.critic = self.make_critic(extractor)
        self.critic_target = self.make_critic(target)

    def act_on(self, place: Scope, features: Value) -> tuple[Head, Value]:
        raw = self.actor.mu.forward(place / "mu", features)
        scaled = (place / "mu").add("Tanh", raw, name="mean")
        return finish_deterministic(place, self.agent.action_space, scaled), scaled


# -- ars: one network, whose weights are searched -------------------------------------------------------


class ARSPolicy(Policy):
    """One network, with or without biases; deterministic."""

    net_arch: tuple[int, ...] = (64, 64)
    has_bias = True
    squashes = True

    def make(self) -> None:
        space, extractor = self.agent.action_space, self.make_extractor()
        value = self.agent.net_arch()
        sizes = self.agent.read_sizes(list(self.net_arch) if value is None else value)
        activation = read_activation(self.agent, self.activation)
        if space.distribution not in ("gaussian", "categorical"):
            raise action_space_error(space)
        bias = self.agent.arguments.flag("with_bias", default=self.has_bias)
        layers = create_mlp(extractor.features_dim, output_size(space), sizes, activation, bias=bias)
        self.extractor = [extractor]
        self.action_net: Module = Sequential(layers)

    def act(self, scope: Scope, observation: Observation, rate: float) -> Head:  # noqa: ARG002
        agent, space = self.agent, self.agent.action_space
        features = extract_features(scope, self.extractor[0], EXTRACTOR, observation)
        is_box = space.distribution == "gaussian"
        raw = self.action_net.forward(scope / "action_net", features, name="" if is_box else "scores")  # type: ignore[call-arg]
        if not is_box:
            require_outputs(raw, *component_sizes(scope, space, raw))
            return Head({"action": scope.add("ArgMax", raw, axis=-1, name="action"), "scores": raw}, Sampling("none"))
        squash = agent.arguments.flag("squash_output", default=self.squashes)
        if squash or (self.squashes and agent.release < changes.ARS_SQUASHES_IF_ASKED):
            raw = scope.add("Tanh", raw, module="action_net")
        return finish_deterministic(scope, space, raw, squashed=squash)


class ARSLinearPolicy(ARSPolicy):
    """One layer, in a ``Sequential`` or not."""

    net_arch = ()
    has_bias = squashes = False

    def make(self) -> None:
        super().make()
        agent = self.agent
        if agent.release >= changes.ARS_SEQUENCE:
            return
        is_box = agent.action_space.distribution == "gaussian"
        if not (is_box and agent.arguments.flag("squash_output", default=False)):
            self.action_net = self.action_net.parts()["0"]


# -- every class ----------------------------------------------------------------------------------------


class Row(Record):
    """A policy class: what makes its network, and the arguments that it accepts."""

    network: type[Policy]
    arguments: frozenset[str]
    """Those of any release."""
    since: Mapping[str, Release] = {}
    """The first release of the arguments that came later."""
    extractor: Pair = FLATTEN

    def argument_names(self, release: Release) -> frozenset[str]:
        """Return the arguments that it accepts in a release."""
        gone = {changes.NOISE_ARGUMENT} if release >= changes.NO_NOISE_ARGUMENT else set()
        return self.arguments - gone - {name for name, since in self.since.items() if release < since}


PRESETS: Final[dict[Pair, tuple[Pair, dict[str, Any]]]] = {
    ("imitation.policies.base", "FeedForward32Policy"): (
        ("stable_baselines3.common.policies", "ActorCriticPolicy"), {"net_arch": [32, 32]},
    ),
    ("imitation.policies.base", "SAC1024Policy"): (
        ("stable_baselines3.sac.policies", "SACPolicy"), {"net_arch": [1024, 1024]},
    ),
}  # fmt: skip
"""Published classes that only pass arguments to a class of SB3: that class, and the arguments.

Source: imitation ``policies/base.py``, 0.2 to 1.0.
"""

_COMMON: Final = frozenset(
    {
        "net_arch", "activation_fn", "features_extractor_class", "features_extractor_kwargs", "normalize_images",
        "optimizer_class", "optimizer_kwargs",
    }
)  # fmt: skip
_MASKABLE: Final = _COMMON | {"ortho_init", "share_features_extractor"}
_ON_POLICY: Final = _MASKABLE | {"log_std_init", "full_std", changes.NOISE_ARGUMENT, "use_expln", "squash_output"}
_RECURRENT: Final = _ON_POLICY | {
    "lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs",
}  # fmt: skip
_CRITICS: Final = _COMMON | {"n_critics", "share_features_extractor"}
_SAC: Final = _CRITICS | {USE_SDE, "log_std_init", changes.NOISE_ARGUMENT, "use_expln", "clip_mean"}
_CROSSQ: Final = _SAC | {"batch_norm", "batch_norm_momentum", "batch_norm_eps", "renorm_warmup_steps"}
_ARS: Final = frozenset({"with_bias", "squash_output"})

_ON_POLICY_SINCE: Final[dict[str, Release]] = {"share_features_extractor": changes.BRANCH_EXTRACTORS}
_CRITICS_SINCE: Final[dict[str, Release]] = {
    "n_critics": changes.NUMBERED_CRITICS, "share_features_extractor": changes.OWN_EXTRACTORS,
}  # fmt: skip


NETWORKS: Final = {
    "ActorCriticPolicy": Row(ActorCriticPolicy, _ON_POLICY, _ON_POLICY_SINCE),
    "MaskableActorCriticPolicy": Row(MaskableActorCriticPolicy, _MASKABLE, _ON_POLICY_SINCE),
    "RecurrentActorCriticPolicy": Row(RecurrentActorCriticPolicy, _RECURRENT, _ON_POLICY_SINCE),
    "DQNPolicy": Row(DQNPolicy, _COMMON),
    "QRDQNPolicy": Row(QRDQNPolicy, _COMMON | {"n_quantiles"}),
    "SACPolicy": Row(SACPolicy, _SAC, _CRITICS_SINCE),
    "TD3Policy": Row(TD3Policy, _CRITICS, _CRITICS_SINCE),
    "TQCPolicy": Row(TQCPolicy, _SAC | {"n_quantiles"}, _CRITICS_SINCE),
    "CrossQPolicy": Row(CrossQPolicy, _CROSSQ, _CRITICS_SINCE),
    "ARSPolicy": Row(ARSPolicy, _ARS | {"net_arch", "activation_fn"}, {"with_bias": changes.ARS_BIAS}),
    "ARSLinearPolicy": Row(ARSLinearPolicy, _ARS),
}
"""The policy classes with a network of their own; those for images and dicts differ in the features extractor alone."""


def _list_policies() -> Iterator[tuple[Pair, Row]]:
    for classes in POLICY_CLASSES:
        pairs = classes.by_alias
        usual = classes.network or next(iter(pairs.values()))[1]
        for alias, pair in pairs.items():
            extractor = {"Cnn": NATURE, "Mul": COMBINED}.get(alias[:3], FLATTEN)
            yield pair, NETWORKS.get(pair[1], NETWORKS[usual])._replace(extractor=extractor)


POLICIES: Final = dict(_list_policies())


def make_policy(agent: Agent) -> Policy:
    """Return the network of an agent, as SB3 makes it."""
    row = POLICIES.get(agent.policy_class)
    if row is None:
        message = f"the network of the policy class {escape('.'.join(agent.policy_class), 200)} is not known"
        raise UnsupportedError(message, entry=DATA_ENTRY)
    accepted = row.argument_names(agent.release) | {"device"}  # SB3 removes it when it loads
    for name in agent.policy_kwargs:
        if name not in accepted:
            key = f"{KWARGS}/{escape(name, 80)}"
            alike = find_alike(name[:80], sorted(accepted))
            suggestion = f"; did you mean {alike[0]}?" if alike else ""
            raise NetworkError(key, f"{agent.policy_class[1]} has no argument of this name{suggestion}")
    optimizer = agent.arguments.nested("optimizer_kwargs")
    if "lr" in optimizer.values:
        raise NetworkError(optimizer.key("lr"), "SB3 itself passes lr to the optimizer")
    if agent.use_sde:
        require_gsde(agent)
    try:
        return row.network(agent, row.extractor)
    except UnrecognizedError as error:
        raise UnsupportedError(str(error), entry=DATA_ENTRY) from None


def is_on_policy(pair: Pair) -> bool:
    """Return whether a policy class is of an on-policy algorithm, which passes ``use_sde`` to its policy."""
    return "full_std" in POLICIES[pair].arguments


def require_gsde(agent: Agent) -> None:
    """Refuse the algorithm's ``use_sde`` where the policy has no exploration noise: SB3's ``load`` samples it."""
    if is_on_policy(agent.policy_class):
        if agent.action_space.distribution != "gaussian":
            raise NetworkError(USE_SDE, "gSDE needs Box actions")
    elif USE_SDE not in POLICIES[agent.policy_class].arguments:
        raise NetworkError(USE_SDE, f"{agent.policy_class[1]} has no gSDE")
    elif not agent.arguments.flag(USE_SDE, default=False):
        raise NetworkError(USE_SDE, f"gSDE needs a policy with gSDE, but {KWARGS}/{USE_SDE} is not true")
