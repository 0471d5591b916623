"""``export_c``: a policy as C99 source, to compile where it runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from sbformat.errors import quote
from sbformat.policies.c.arguments import name_arguments
from sbformat.policies.c.names import check_name, refuse_clashes
from sbformat.policies.c.numbers import C_DTYPES
from sbformat.policies.c.source import write_source
from sbformat.policies.export.files import ExportReport, write_files
from sbformat.policies.export.lowering import lower, open_policy

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sbformat.archive.archive import Archive
    from sbformat.io.opening import SourceLike
    from sbformat.policies.export.interface import Port
    from sbformat.policies.run.policy import Policy

_UNSAFE: Final = frozenset("\"'\\?<>")
"""Characters that an ``#include`` cannot have, or only with some compilers."""


def export_c(
    policy: Policy | Archive | SourceLike,
    path: str | os.PathLike[str],
    *,
    name: str = "policy",
    outputs: Iterable[str] = ("action",),
    raw: bool = False,
    deterministic: bool = True,
    overwrite: bool = False,
) -> ExportReport:
    """Write a policy as C99 source: a function from an observation to an action, and a header beside it.

    The source allocates no memory, needs nothing but ``<math.h>`` and ``<stdint.h>``, has the weights as ``static
    const``, and can be compiled as C++17 as well. The function computes in float32::

        void NAME_predict(const float *observation, int32_t *action);

    The header describes the arguments: observations, ``action_masks``, ``episode_start``, the state of a recurrent
    policy (a struct, which ``NAME_reset`` starts), then the outputs. All are arrays without a batch axis. A float64 is
    a ``double``, an integer of 64 bits an ``int32_t``, a bool a ``uint8_t``. With ``-DNAME_MAIN`` the source is a
    program for tests. POLICIES.md 20.

    :param policy: a loaded policy, or what :func:`sbformat.load_policy` takes
    :param path: of the source, which ends in ``.c``; the header has the same name with ``.h``
    :param name: what all names in the source begin with: an identifier in C and C++, with which no argument begins
    :param outputs: names of outputs of the policy's graph, such as ``action``, ``value``, ``logits``
    :param raw: leave out what clips or scales a continuous action to the bounds of its space. Statistics remain: load
        the policy with ``vecnormalize=False`` to leave these out too
    :param deterministic: False is refused: the source has no random numbers
    :param overwrite: replace files that exist
    :return: the files, arguments (with their dtypes in C), and numbers of operations and constants
    :raises ValueError: for a name that C does not have or an argument begins with, another suffix, or an output that
        the policy does not have
    :raises FileExistsError: when one of the two files exists and ``overwrite`` is False
    :raises UnsupportedError: for what cannot be exported: sampled actions, modules that are functions of Python
    :raises ContainerError: when the file has changed since the policy was loaded
    :raises SbformatError: as :func:`sbformat.load_policy`

    Example::

        sbformat.export_c("ppo_cartpole.zip", "policy.c", outputs=("action", "value"))
    """
    check_name(name)
    target, header = _name_files(path)
    opened = open_policy(policy)
    lowered = lower(opened, outputs, raw=raw, deterministic=deterministic)
    arguments = name_arguments(lowered, name, opened.observation_space, opened.action_space)
    refuse_clashes(name, [argument.name for argument in (*arguments.inputs, *arguments.outputs)])
    source = write_source(lowered, arguments, name, os.path.basename(header))
    files = write_files({target: source.code.encode(), header: source.header.encode()}, overwrite=overwrite)
    return ExportReport(
        "c",
        files,
        tuple(_narrow_port(port) for port in lowered.inputs),
        tuple(_narrow_port(port) for port in lowered.outputs),
        len(lowered.nodes),
        lowered.constant_count,
        lowered.metadata,
    )


def _name_files(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the paths of the source and the header.

    :raises ValueError: for a name that an ``#include`` cannot have
    """
    text = os.fspath(path)
    base = os.path.basename(text)
    stem, suffix = os.path.splitext(base)
    if suffix.lower() != ".c" or not stem:
        message = f"expected a path that ends in .c, got {quote(base)}"
        raise ValueError(message)
    if not base.isprintable() or _UNSAFE & set(base):
        message = f"expected a file name without quotes, backslashes, question marks and brackets, got {quote(base)}"
        raise ValueError(message)
    return text, text[:-1] + ("h" if suffix == ".c" else "H")


def _narrow_port(port: Port) -> Port:
    return port._replace(dtype=C_DTYPES.get(port.dtype, port.dtype))
