"""What an exported file records about the agent that it comes from, as texts by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import sbformat
from sbformat.rendering import write_numbers
from sbformat.values.render import render_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sbformat.policies.run.policy import Policy


def describe_origin(policy: Policy) -> Mapping[str, str]:
    """Return what is known of an agent: names, and JSON or texts (POLICIES.md 20.1).

    ``algorithm``; ``stable_baselines3_version``; ``observation_space`` and ``action_space``, as JSON; ``sha256`` of the
    file; ``inferred``, a JSON list of sentences; ``normalized``, whether VecNormalize's statistics are applied;
    ``sbformat_version``. What is not known is left out.

    :param policy: a loaded policy
    :raises ContainerError: when the file has changed since it was loaded
    """
    archive = policy.archive
    found = {
        "algorithm": policy.algorithm,
        "stable_baselines3_version": None if archive is None else archive.stable_baselines3_version,
        "observation_space": _write_json(render_json(policy.observation_space)),
        "action_space": _write_json(render_json(policy.action_space)),
        "sha256": None if archive is None else archive.sha256(),
        "inferred": _write_json(list(policy.inferred)) if policy.inferred else None,
        "normalized": _write_json(policy.vecnormalize is not None and policy.vecnormalize.norm_obs),
        "sbformat_version": sbformat.__version__,
    }
    return {name: text.strip() for name, text in found.items() if text is not None}


def summarize_origin(metadata: Mapping[str, str]) -> str:
    """Return a sentence about where an exported file comes from."""
    algorithm = metadata.get("algorithm", "unknown")
    release = metadata.get("stable_baselines3_version")
    of = f" of Stable-Baselines3 {release}" if release else ""
    digest = metadata.get("sha256")
    source = f", from a file with the SHA-256 {digest}" if digest else ""
    return f"{algorithm} policy{of}{source}; exported by sbformat {metadata['sbformat_version']}"


def _write_json(value: object) -> str:
    return json.dumps(write_numbers(value), ensure_ascii=True, allow_nan=False)
