"""``load_policy`` and ``policy_graph``: from a file of any kind to a policy that runs, or to its graph.

What the caller passes beside the file is checked and converted here; the builders of ``sb3`` and ``sb2`` make the
graph, and ``run`` executes it. numpy is imported where it is needed: for statistics, and to run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sbformat.archive.kinds import SB3_ARCHIVES
from sbformat.constants import ARRAYS_ENTRY, DATA_ENTRY, POLICY_ENTRY, SETTINGS_ENTRY
from sbformat.errors import MissingEntryError, SbformatError, UnsupportedError, quote, require_names, require_type
from sbformat.formats.opener import open_archive
from sbformat.io.opening import is_folder
from sbformat.known.spaces import convert_space
from sbformat.known.types import Partial, Reference
from sbformat.limits import DEFAULT_LIMITS, Budget, Limits
from sbformat.policies.builder import Given, PolicyModel

if TYPE_CHECKING:
    from sbformat.archive.archive import Archive
    from sbformat.archive.kinds import Kind
    from sbformat.formats.vecnormalize import VecNormalize
    from sbformat.io.opening import SourceLike
    from sbformat.known.spaces import Space
    from sbformat.policies.graph import Graph
    from sbformat.policies.run.policy import Policy

_OBSERVATION_SPACE: Final = "observation_space"
_OTHERWISE: Final = "normalize observations yourself and pass vecnormalize=False if a wrapper comes between the two"
_CLASS_ARGUMENTS: Final = {
    "activation_fn": "an activation in torch.nn", "features_extractor_class": "a features extractor of SB3",
}  # fmt: skip
"""Arguments of a policy that are classes, which the caller gives by their names."""
_WITHOUT_POLICY: Final[Mapping[Kind, str]] = {
    "data-json": "a lone data entry, which has no weights",
    "vecnormalize": "statistics of VecNormalize; pass them as vecnormalize (--vecnormalize), beside the agent",
    "running-mean-std": "normalization statistics; pass them as vecnormalize (--vecnormalize), beside the agent",
    "replay-buffer": "a replay buffer",
    "array-pickle": "a plain pickle of tensors or arrays",
    "safetensors": "plain arrays",
    "npz": "plain arrays",
}
NO_STATISTICS: Final = "the agent was trained behind VecNormalize, and no statistics are used"
NOT_NORMALIZED: Final = (
    f"{NO_STATISTICS}: pass vecnormalize='vecnormalize.pkl', the file with them, or vecnormalize=False if observations "
    "are normalized already"
)
"""The warning of :func:`load_policy`; the command line has its own advice."""


def load_policy(
    source: Archive | SourceLike,
    *,
    vecnormalize: VecNormalize | Archive | SourceLike | bool | None = None,
    policy_class: str | None = None,
    observation_space: Space | object | None = None,
    action_space: Space | object | None = None,
    policy_kwargs: Mapping[str, Any] | None = None,
    modules: Mapping[str, Callable[..., Any]] | None = None,
    seed: Any = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Policy:
    """Load an agent to run it with numpy alone; nothing in the file is executed (POLICIES.md 19).

    >>> policy = sbformat.load_policy("ppo_cartpole.zip")
    >>> action, state = policy.predict(observation, deterministic=True)

    The file may be an agent of Stable-Baselines3, sb3-contrib or Stable Baselines 2, the folder that it was unzipped
    into, a file of ``policy.save()``, or a lone ``policy.pth``. It may also be a folder of rl_zoo3, of the Hugging Face
    tools or of SB3's callbacks: its ``best_model.zip`` is loaded, or its only agent, or the last checkpoint, with the
    statistics that belong to it (:func:`sbformat.find_agent`); such a folder may be a repository of the Hub,
    ``hf://sb3/ppo-CartPole-v1``. What the file does not contain is inferred from the
    shapes of the weights where they determine it (:attr:`Policy.inferred`); the rest has to be passed. ::

        policy = sbformat.load_policy("agent.zip", vecnormalize="vecnormalize.pkl")
        policy = sbformat.load_policy("policy.pth", action_space=env.action_space, policy_class="ActorCriticPolicy")
        policy = sbformat.load_policy("agent.zip", modules={"features_extractor": lambda observation: ...})

    :param source: as for :func:`sbformat.read`
    :param vecnormalize: statistics that observations are normalized with: what :func:`sbformat.read_vecnormalize`
        takes, or returned. By default those of a bundle, and of a folder those that belong to the agent. False:
        observations are normalized already
    :param policy_class: the name of SB3's class to treat the policy as, such as ``ActorCriticPolicy``
    :param observation_space: used instead of the file's: a space of sbformat, gymnasium or gym
    :param action_space: the same for actions
    :param policy_kwargs: arguments of the policy, where the file has none, or names a class that is not known; an
        activation by its name in ``torch.nn``, a features extractor by that of SB3's, such as ``NatureCNN``
    :param modules: functions of arrays for modules that sbformat does not know, such as a custom
        ``features_extractor``. Each gets what SB3 passes to the module, in batches, and returns an array with a batch
        axis
    :param seed: for sampled actions: an integer or a ``numpy.random.Generator``; by default from the system
    :param limits: the largest sizes and counts to accept (FORMAT.md 8)
    :raises OSError: if a path cannot be read
    :raises UnsupportedError: for a file without a policy, and for a network that is not known, with its class
    :raises ValidationError: when the weights contradict what ``data`` describes, or the statistics do not fit
    :raises SbformatError: when the file breaks the format
    :raises TypeError: for an argument of the wrong type
    :warns UserWarning: when the agent was trained behind VecNormalize, and no statistics are given; and when statistics
        of a folder are left out, or its settings cannot be read
    """
    from sbformat.policies.run.policy import Policy

    functions: dict[str, Callable[..., Any]] = {}
    if modules is not None:
        require_type(modules, Mapping, "modules to be a dict of functions by name")
        functions.update(modules)
    for name, function in functions.items():
        require_type(name, str, "a name of a module")
        if not callable(function):
            raise TypeError(f"expected a function as the module {name}, got {type(function).__name__}")
    given = _check_given(policy_class, observation_space, action_space, policy_kwargs, functions)
    budget = Budget(limits)
    model, statistics = _build_model(source, given, vecnormalize, budget)
    if model.was_normalized and statistics is None and vecnormalize is not False:
        warnings.warn(NOT_NORMALIZED, UserWarning, stacklevel=2)
    return Policy(model, vecnormalize=statistics, modules=functions, seed=seed, budget=budget)


def policy_graph(
    source: Archive | SourceLike,
    *,
    vecnormalize: VecNormalize | Archive | SourceLike | bool | None = None,
    policy_class: str | None = None,
    observation_space: Space | object | None = None,
    action_space: Space | object | None = None,
    policy_kwargs: Mapping[str, Any] | None = None,
    modules: Iterable[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Graph:
    """Return what the policy of an agent computes, as inert data; weights are not read (POLICIES.md 19).

    numpy is imported for statistics only.

    >>> graph = sbformat.policy_graph("ppo_cartpole.zip")
    >>> [item.name for item in graph.inputs], list(graph.outputs)
    (['observation'], ['action', 'logits', 'probabilities', 'value'])

    The parameters and errors are those of :func:`load_policy`.

    :param modules: the names of modules that the caller who runs the graph supplies
    """
    names = require_names(modules, "modules")
    given = _check_given(policy_class, observation_space, action_space, policy_kwargs, names)
    return _build_model(source, given, vecnormalize, Budget(limits))[0].graph


def open_policy(source: Policy | Archive | SourceLike) -> Policy:
    """Return a policy unchanged, and load anything else."""
    from sbformat.policies.run.policy import Policy

    return source if isinstance(source, Policy) else load_policy(source)


def load_model(
    source: PolicyModel | Policy | Archive | SourceLike, *, vecnormalize: object = None, limits: Limits = DEFAULT_LIMITS
) -> PolicyModel:
    """Return what :func:`load_policy` makes a policy of: the graph and the spaces, for a back end without numpy.

    The errors are those of :func:`load_policy`. A policy that is loaded already gives its own.
    """
    model: Any = getattr(source, "model", source)
    return model if isinstance(model, PolicyModel) else _build_model(model, Given(), vecnormalize, Budget(limits))[0]


def _check_given(
    policy_class: object, observation_space: object, action_space: object, policy_kwargs: object, modules: Iterable[str]
) -> Given:
    """Return what the caller supplies, checked, without statistics."""
    require_type(policy_class, (str, type(None)), "the name of a class as policy_class")
    require_type(policy_kwargs, (Mapping, type(None)), "policy_kwargs to be a dict of arguments")
    for name, value in (policy_kwargs or {}).items():  # type: ignore[attr-defined]
        require_type(name, str, "the name of an argument in policy_kwargs")
        if name in _CLASS_ARGUMENTS:
            require_type(value, (str, Reference, Partial), f"the name of {_CLASS_ARGUMENTS[name]} as {name}")
    return Given(
        policy_class=policy_class,  # type: ignore[arg-type]
        observation_space=None if observation_space is None else convert_space(observation_space, _OBSERVATION_SPACE),
        action_space=None if action_space is None else convert_space(action_space, "action_space"),
        policy_kwargs=policy_kwargs,  # type: ignore[arg-type]
        modules=frozenset(modules),
    )


def _build_model(
    source: Archive | SourceLike, given: Given, vecnormalize: object, budget: Budget
) -> tuple[PolicyModel, VecNormalize | None]:
    """Open the file and build the graph; return it with the statistics that apply."""
    source, vecnormalize, is_normalized, warning = resolve_folder(source, vecnormalize, budget.limits)
    if warning:
        warnings.warn(warning, UserWarning, stacklevel=3)
    archive = open_archive(source, budget)
    if archive.format in _WITHOUT_POLICY:
        raise UnsupportedError(f"expected an agent or its policy, got {_WITHOUT_POLICY[archive.format]}")
    if archive.format in SB3_ARCHIVES and DATA_ENTRY in archive.entries:
        archive.state_dict(POLICY_ENTRY)
    statistics = read_statistics(archive, vecnormalize, budget.limits)
    if statistics is not None and statistics.norm_obs:
        from sbformat.formats.vecnormalize.values import require_fit

        space: object = given.observation_space
        if space is None:
            with suppress(SbformatError):  # a space that is not known is for the builder to refuse
                space = archive.decode(_OBSERVATION_SPACE)
        require_fit(statistics, space, _OTHERWISE)
        given = given._replace(vecnormalize=statistics)
    if archive.format in ("sb2-zip", "sb2-pickle"):
        from sbformat.nets.sb2_agents import build_sb2_policy as build
    elif archive.format == "sbx":
        from sbformat.nets.sbx import build_sbx_policy as build
    else:
        from sbformat.nets.building import build_sb3_policy as build
    model = build(archive, given, budget)
    called = {node.attributes["function"] for node in model.graph.nodes if node.op == "Call"}
    for name in sorted(given.modules - called):
        raise ValueError(
            f"the policy does not have the module {quote(name, 60)} that modules supplies: modules have the names that "
            "begin those of tensors, such as features_extractor or mlp_extractor.policy_net, and activation_fn"
        )
    return model._replace(
        was_normalized=model.was_normalized or is_normalized,
        is_normalized=statistics is not None and statistics.norm_obs,
    ), statistics


def resolve_folder(
    source: Archive | SourceLike, vecnormalize: object, limits: Limits
) -> tuple[Archive | SourceLike, object, bool, str]:
    """Return the agent of a folder, and its statistics unless the caller passes some (FOLDERS.md 21).

    :return: the source and the statistics, unchanged for what is not a folder of files; and whether ``config.yml`` says
        that observations were normalized; and a warning about statistics that are left out, empty if there is none
    """
    chosen = None
    if is_folder(source):
        from sbformat.folders.agents import find_in_folder

        chosen = find_in_folder(source, limits)
    if chosen is None:
        return source, vecnormalize, False, ""
    if vecnormalize is not None:
        return chosen.path, vecnormalize, bool(chosen.is_normalized), ""
    if chosen.problem:
        raise UnsupportedError(chosen.problem)
    return chosen.path, chosen.statistics, bool(chosen.is_normalized), chosen.warning


def read_statistics(archive: Archive, vecnormalize: object, limits: Limits) -> VecNormalize | None:
    """Return the statistics that the caller of :func:`load_policy` passes, or those of a bundle."""
    if vecnormalize is False or (vecnormalize is None and not {SETTINGS_ENTRY, ARRAYS_ENTRY} & archive.entries.keys()):
        return None  # before anything is imported that only statistics need
    if vecnormalize is True:
        raise TypeError("expected statistics as vecnormalize, or False, got True")
    if vecnormalize is None:
        from sbformat.formats.vecnormalize.bundled import read_entries

        return read_entries(archive)
    return read_given_statistics(vecnormalize, limits)


def read_given_statistics(vecnormalize: object, limits: Limits) -> VecNormalize:
    """Return statistics, or what :func:`sbformat.read_vecnormalize` returns for them."""
    from sbformat.formats.vecnormalize import VecNormalize, read_vecnormalize

    if isinstance(vecnormalize, VecNormalize):
        return vecnormalize
    try:
        return read_vecnormalize(vecnormalize, limits=limits)  # type: ignore[arg-type]
    except MissingEntryError as error:
        expected = "expected statistics as vecnormalize (a vecnormalize.pkl, or a bundle)"
        raise UnsupportedError(f"{expected}, got an archive without them: {error.message}") from None
