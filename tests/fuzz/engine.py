"""The process that fuzzes one target: ``python -m fuzz.engine TARGET FOLDER LIBFUZZER_FLAG...``.

The package is instrumented as it is imported, so nothing here imports it before atheris is there. An error that
Python can catch is kept and fuzzing goes on; only what kills the process ends it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import atheris

from tests.fuzz.findings import Findings


def main() -> None:
    """Fuzz until libFuzzer's flags say stop; does not return."""
    _, name, folder, *flags = sys.argv
    with atheris.instrument_imports(include=["sbformat"]):
        law = import_module("tests.fuzz.law")
        mutate = import_module("tests.fuzz.mutator.whole").mutate
        targets = import_module("tests.fuzz.targets")
        one_input = targets.load(name)
    findings = Findings(Path(folder), name)

    def run(data: bytes) -> None:
        try:
            law.judge(one_input, data)
        except Exception as error:  # noqa: BLE001 -- any is a finding
            findings.add(data, error)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        return bytes(mutate(data, max_size, seed, atheris.Mutate))

    run(targets.warming())
    atheris.Setup([sys.argv[0], *flags], run, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
