"""What releases of SB3, sb3-contrib, torch, gym and cloudpickle changed: every such fact of the package, once.

A :class:`Release` is the first that has the change, which its comment describes, with the source. Names that differ are
beside it. What a class is called, and since when it exists, is in its row (:mod:`sbformat.known.rows`).

Sources: the changelogs and packages of SB3 0.6 to 2.9 and sb3-contrib 0.9 to 2.9.
"""

from __future__ import annotations

import re
from typing import Final

from sbformat.errors import UnsupportedError, quote, require_type
from sbformat.immutable import Record


class Release(Record):
    """A release without its patch number; compares as releases do."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def version(self) -> str:
        """Its last patch release, of a target."""
        return RELEASES[self]

    @property
    def before(self) -> Release:
        """The release of SB3 before it; the newest for a major release that is not known."""
        return Release(self.major, self.minor - 1) if self.minor else _LAST_OF_MAJOR.get(self.major - 1, NEWEST)


def parse_release(version: str | None) -> Release | None:
    """Return the release at the start of a version, ``2.7`` of ``2.7.1a0``; None if there is none."""
    match = re.match(r"([0-9]{1,6})\.([0-9]{1,6})", version or "")
    return Release(int(match[1]), int(match[2])) if match else None


UNKNOWN: Final = Release(0, 0)
"""In the place of the release of an archive that names none."""
RELEASES: Final = {
    Release(1, 6): "1.6.2", Release(1, 7): "1.7.0", Release(1, 8): "1.8.0",
    Release(2, 0): "2.0.0", Release(2, 1): "2.1.0", Release(2, 2): "2.2.1", Release(2, 3): "2.3.2",
    Release(2, 4): "2.4.1", Release(2, 5): "2.5.0", Release(2, 6): "2.6.0", Release(2, 7): "2.7.1",
    Release(2, 8): "2.8.0", Release(2, 9): "2.9.2",
}  # fmt: skip
"""Every target: the releases of SB3 that can be written for (VALUES.md 13.7), with their last patch releases."""
NEWEST: Final = max(RELEASES)
_LAST_OF_MAJOR: Final = {0: Release(0, 11), 1: Release(1, 8)}


def oldest_python(target: Release) -> Release:
    """Return the oldest Python that a target can be installed for."""
    return OLDEST_PYTHON[max(release for release in OLDEST_PYTHON if release <= target)]


def name_space_library(target: Release) -> str:
    """Return the library whose spaces a target has."""
    return "gym" if target < GYMNASIUM else "gymnasium"


def parse_target(text: str | Release) -> Release:
    """Return the target that a version such as ``2.9`` or ``2.9.2`` names."""
    target: Release | None = text if isinstance(text, Release) else None
    if target is None:
        require_type(text, str, "a release of SB3 such as '2.9'")
        is_version = re.fullmatch(r"[1-9]\.(0|[1-9][0-9]?)(\.[0-9]{1,2})?", str(text))
        target = parse_release(str(text)) if is_version else None
    if target not in RELEASES:
        raise UnsupportedError(f"{quote(str(text), 40)} is not a target: expected SB3 {min(RELEASES)} to {NEWEST}")
    return target


# -- entries and keys of data --------------------------------------------------------------------------

WRITES_VERSION: Final = Release(0, 9)  # the release, and pytorch_variables.pth instead of tensors.pth: base_class.py
FIRST: Final = Release(0, 6)  # the oldest on PyPI
A2C_OF_0_6: Final = frozenset({"batch_size", "n_epochs", "clip_range", "clip_range_vf", "target_kl"})
"""Keys of PPO that A2C wrote there, as a subclass of it: ``a2c/a2c.py``."""
MARK_OF_0_6: Final = "_current_progress"
"""A key by which such an archive is recognized."""

DICT_SPACES: Final = Release(1, 1)  # and CombinedExtractor; HER is a replay buffer; buffers handle timeouts: changelog
GYMNASIUM: Final = Release(2, 0)  # instead of gym: changelog
HER_ONLINE: Final = Release(1, 8)  # HerReplayBuffer samples online and records ends: her_replay_buffer.py
HER_MOVED: Final = ("online_sampling", "max_episode_length")
"""Keys of HER, the algorithm, that were arguments of HerReplayBuffer until it sampled online."""
HER_REMOVED: Final = (*HER_MOVED, "replay_buffer")
"""Arguments of HerReplayBuffer that it does not accept since it samples online."""
HER_ADDED: Final = ("copy_info_dict",)
"""Arguments that it accepts since then."""
SYSTEM_FIELDS: Final = {"OpenAI Gym": "Gym"}
"""Fields of ``system_info.txt`` with their names before gymnasium: ``common/utils.py``."""

RENAMED: Final = {
    MARK_OF_0_6: "_current_progress_remaining",  # 0.8
    "_last_dones": "_last_episode_starts",  # 1.1
}
"""Keys that were renamed, with the release that did it."""
HER_KEPT: Final = {
    "model_class": f"HER is a replay buffer since SB3 {DICT_SPACES}, not an algorithm",
    "n_sampled_goal": f"part of replay_buffer_kwargs since SB3 {DICT_SPACES}",
    "goal_selection_strategy": f"part of replay_buffer_kwargs since SB3 {DICT_SPACES}",
}
"""Keys of HER, the algorithm, whose meaning moved to other keys."""
REMOVED: Final = {
    "tb_writer": "removed in SB3 0.8",
    "remove_time_limit_termination": "removed in SB3 1.5: replay buffers handle timeouts",
    "n_episodes_rollout": "part of train_freq since SB3 1.0",
    **HER_KEPT,
    "online_sampling": f"removed in SB3 {HER_ONLINE}: goals are always sampled online",
    "max_episode_length": f"removed in SB3 {HER_ONLINE}: the replay buffer records where episodes end",
}
"""Keys that no target has, and what became of them."""
DIVIDED_INTERVAL: Final = {"DQN": (Release(1, 4), Release(2, 0)), "QRDQN": (Release(2, 0), Release(2, 4))}
"""The first release that saved ``target_update_interval`` divided by ``n_envs``, and the first that did not again:
``dqn/dqn.py``, ``qrdqn/qrdqn.py``."""

# -- networks: common/policies.py and common/torch_layers.py of SB3, if nothing else is said -------------

NUMBERED_CRITICS: Final = Release(0, 8)  # critics have numbers, and there are n_critics: ContinuousCritic
WIDE_CNN: Final = Release(0, 8)  # more filters in the third layer: NatureCNN
FILTERS: Final = (32, 64, 64)
OLD_FILTERS: Final = (32, 64, 32)
OWN_EXTRACTORS: Final = Release(0, 10)  # of actor and critics, which may share one, instead of the policy's: sac, td3
PI_AND_QF: Final = Release(0, 10)  # net_arch of actor and critics may be a dict, and no tuple: get_actor_critic_arch
LAYERS_AFTER_CNN: Final = Release(1, 6)  # actor and critics of images have hidden layers by default: sac, td3
UNSHARED_EXTRACTORS: Final = Release(1, 6)  # actor and critics do not share theirs by default: sac, td3

NO_NOISE_LAYERS: Final = Release(1, 3)  # gSDE uses the last hidden layer, whatever sde_net_arch is
NO_NOISE_ARGUMENT: Final = Release(1, 7)  # sde_net_arch is no argument
NOISE_ARGUMENT: Final = "sde_net_arch"
NOISE_LAYERS: Final = "sde_features_extractor"

BRANCH_EXTRACTORS: Final = Release(1, 7)  # three names for one or two extractors of ActorCriticPolicy
ACTOR_EXTRACTOR: Final = "pi_features_extractor"
CRITIC_EXTRACTOR: Final = "vf_features_extractor"
NORMALIZED_IMAGES: Final = Release(1, 7)  # extractors have normalized_image, which normalize_images sets
NORMALIZED_ARGUMENT: Final = "normalized_image"
PI_AND_VF: Final = Release(1, 7)  # net_arch of ActorCriticPolicy may be a dict, of both keys: MlpExtractor
NO_SHARED_LAYERS: Final = Release(1, 8)  # of actor and critic; the dict needs no key: MlpExtractor
SHARED_LAYERS: Final = "mlp_extractor.shared_net"
SQUASH_NEEDS_GSDE: Final = Release(2, 2)
"""ActorCriticPolicy refuses ``squash_output`` without gSDE; before, ``predict`` unscaled actions that no tanh had
squashed."""

ARS_SQUASHES_IF_ASKED: Final = Release(1, 7)  # and scales then; before, ARSPolicy always squashed: ars/policies.py
ARS_BIAS: Final = Release(1, 7)  # with_bias of ARSPolicy: ars/policies.py
ARS_SEQUENCE: Final = Release(1, 7)  # action_net.0 instead of action_net in ARSLinearPolicy: ars/policies.py

_NETWORKS: Final = frozenset({
    NUMBERED_CRITICS, WIDE_CNN, OWN_EXTRACTORS, PI_AND_QF, LAYERS_AFTER_CNN, UNSHARED_EXTRACTORS, NO_NOISE_LAYERS,
    NO_NOISE_ARGUMENT, BRANCH_EXTRACTORS, NORMALIZED_IMAGES, PI_AND_VF, NO_SHARED_LAYERS, SQUASH_NEEDS_GSDE,
    ARS_SQUASHES_IF_ASKED, ARS_BIAS, ARS_SEQUENCE,
})  # fmt: skip
"""The releases that made other networks; with Dict spaces came new ones alone."""
ERAS: Final = (NEWEST, *(release.before for release in sorted(_NETWORKS, reverse=True)))
"""One release for each group of releases with equal networks, the newest first."""


def candidate_releases(version: str | None) -> tuple[Release, ...]:
    """Return the releases whose networks an archive may have, from the version that it names.

    >>> candidate_releases("1.6.2")
    (Release(major=1, minor=6),)

    :param version: ``_stable_baselines3_version``; None without that entry: every group of releases is then possible,
        since old releases wrote none, and the entry may have been removed. A pre-release may have the networks of the
        release before it.
    """
    release = parse_release(version)
    if release is None:
        return ERAS
    is_final = re.search(r"(?:a|b|rc|\.?dev)[0-9]", version or "") is None
    return (release,) if is_final else (release, release.before)


class RenamedModule(Record):
    """A module of networks that is called something else in some releases."""

    name: str
    """Its name in :mod:`sbformat.nets`."""
    within: tuple[str, ...]
    """The modules of a policy that have it."""
    stored: str
    """Its name in those releases."""
    since: Release = UNKNOWN
    """The first of those releases; by default there is none before."""
    until: Release | None = None
    """The first release after them."""

    def is_in(self, release: Release) -> bool:
        """Return whether a release has that name."""
        return self.since <= release and (self.until is None or release < self.until)


RENAMED_MODULES: Final = (
    RenamedModule("qf0", ("critic", "critic_target"), "q1_net", until=NUMBERED_CRITICS),
    RenamedModule("qf1", ("critic", "critic_target"), "q2_net", until=NUMBERED_CRITICS),
)
"""Every such module. A rename in a new release is one row: ``RenamedModule("mu", ("actor",), "mean", since=...)``."""


Renamed = dict[tuple[str, str], str]
"""What modules are called elsewhere, by the module that they are in and their name."""


def stored_names(release: Release) -> Renamed:
    """Return the names in a release of the modules that :mod:`sbformat.nets` calls something else."""
    return {(parent, row.name): row.stored for row in RENAMED_MODULES if row.is_in(release) for parent in row.within}


def own_names() -> Renamed:
    """Return the names in :mod:`sbformat.nets` of the modules that any release calls something else."""
    return {(parent, row.stored): row.name for row in RENAMED_MODULES for parent in row.within}


def rename(path: str, names: Renamed) -> str:
    """Return another name of a tensor or module.

    >>> rename("critic.qf0.0.weight", stored_names(Release(0, 7)))
    'critic.q1_net.0.weight'
    """
    parts = path.split(".", 2) if names else []
    new = names.get((parts[0], parts[1])) if len(parts) > 1 else None
    return path if new is None else ".".join([parts[0], new, *parts[2:]])


# -- optimizers, schedules, statistics, buffers --------------------------------------------------------

ONE_NETWORK_OPTIMIZER: Final = Release(2, 4)  # of DQN and QRDQN, without the target network: dqn/policies.py
SCHEDULE_CLASSES: Final = Release(2, 7)  # instead of functions: common/utils.py
NSTEP_RETURNS: Final = Release(2, 7)  # NStepReplayBuffer, n_steps of off-policy algorithms: common/buffers.py
ROLLOUT_BUFFERS: Final = Release(2, 2)  # rollout_buffer_class and its arguments: on_policy_algorithm.py
STATS_WINDOW: Final = Release(1, 8)  # stats_window_size, which was 100: base_class.py
BATCH_RENORM: Final = Release(2, 4)  # and CrossQ: contrib, crossq
ADDED: Final = {
    "n_steps": NSTEP_RETURNS,
    "rollout_buffer_class": ROLLOUT_BUFFERS,
    "rollout_buffer_kwargs": ROLLOUT_BUFFERS,
    "_stats_window_size": STATS_WINDOW,
}
"""Keys that a target may not read, with the first release that does; ``n_steps`` of off-policy algorithms alone."""
NORM_OBS_KEYS: Final = Release(1, 4)  # VecNormalize saves which keys of a Dict it normalizes: vec_normalize.py
NUMPY_2: Final = Release(2, 5)  # is accepted; 2.4 requires numpy 1, and earlier releases are older than 2: setup.py
RESET_OPTIONS: Final = Release(2, 2)  # of environments; VecNormalize has no observation at first: base_vec_env.py

# -- other libraries -----------------------------------------------------------------------------------

TORCH_ZIP: Final = Release(1, 6)  # torch.save writes a zip, which earlier releases do not read: serialization.py
TORCH_SWAPS_BYTES: Final = Release(2, 1)  # torch.load, of tensors of the other byte order: serialization.py
TORCH_UNSIGNED: Final = Release(2, 3)  # uint16 and other dtypes that earlier releases lack
CLOUDPICKLE_FUNCTION: Final = Release(2, 1)  # _make_function makes functions: cloudpickle.py
CLOUDPICKLE_SKELETON: Final = Release(3, 0)  # no _make_skel_func, which did before: cloudpickle.py
OLDEST_PYTHON: Final = {
    Release(1, 6): Release(3, 7), Release(2, 1): Release(3, 8), Release(2, 5): Release(3, 9),
    Release(2, 8): Release(3, 10),
}  # fmt: skip
"""The oldest Python that releases of SB3 require, by the first of them: their ``Requires-Python``."""
NUMPY_NAMES: Final = Release(2, 0)  # of numpy: numpy._core, bit generators by class: random/_pickle.py
NEWEST_NUMPY_1: Final = Release(1, 26)
LOCAL_PATHS: Final = Release(3, 13)  # of CPython: paths are in pathlib._local: Lib/pathlib
CODE_ARGUMENTS: Final = Release(3, 11)  # of CPython: types.CodeType has 18 arguments since: Objects/codeobject.c
GYM_SHAPE: Final = Release(0, 20)  # _shape of spaces instead of shape: spaces/space.py
