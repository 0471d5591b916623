"""What the measured processes run: ``python -c "from benchmarks.once import read; read()" SUBJECT FILE...``.

It is imported instead of run by ``-m``, so that its bytecode is cached, as that of an installed package, and costs the
same for every subject.
"""

from __future__ import annotations

import sys


def read() -> None:
    """Read the policies of archives as arrays."""
    from benchmarks.rivals import READERS

    subject, *paths = sys.argv[1:]
    reader = READERS[subject].read
    for path in paths:
        reader(path, "policy")


def act() -> None:
    """Load an agent and predict one action, as the start of a program that plays."""
    import numpy as np

    subject, path = sys.argv[1:]
    if subject == "sbformat":
        from sbformat import load_policy

        agent = load_policy(path)
    else:
        from stable_baselines3 import PPO

        agent = PPO.load(path, device="cpu")
    agent.predict(np.zeros(4, np.float32), deterministic=True)


def export() -> None:
    """Export an agent to ONNX."""
    from benchmarks.exporters import EXPORTERS

    subject, path, output = sys.argv[1:]
    exporter = EXPORTERS[subject]
    exporter.export(exporter.load(path), output)


def export_c() -> None:
    """Export an agent to C."""
    from sbformat.policies.c.export import export_c as export_to_c

    path, output = sys.argv[1:]
    export_to_c(path, output, overwrite=True)


def export_javascript() -> None:
    """Export an agent to JavaScript."""
    from sbformat.policies.javascript.export import export_javascript as export_to_javascript

    path, output = sys.argv[1:]
    export_to_javascript(path, output, overwrite=True)


def open_lazily() -> None:
    """Open a large file and read one small tensor, twice; print the seconds and the private memory."""
    import json
    import os
    import time

    import numpy as np  # noqa: F401 -- the baseline imports it too

    from benchmarks.spawner import anonymous

    subject, path, name = sys.argv[1:]
    seconds = []
    if subject == "sbformat":
        from sbformat import safe_open
    elif subject == "safetensors":
        from safetensors import safe_open
    elif subject == "torch, mmap":
        import torch
    for _ in range(2 if subject != "numpy" else 0):
        begun = time.perf_counter()
        if subject == "torch, mmap":
            tensor = torch.load(path, mmap=True, weights_only=True, map_location="cpu")[name].clone().numpy()
        else:
            with safe_open(path, "np") as file:
                tensor = file.get_tensor(name)
        seconds.append(time.perf_counter() - begun)
        del tensor
    sys.stdout.write(json.dumps({"seconds": seconds, "anonymous": anonymous(os.getpid())}))
