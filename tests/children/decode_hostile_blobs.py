"""Reads hostile pickles from standard input as a blob of ``data``, and prints what each cost as JSON.

Runs as a process of its own, as ``read_hostile_pth`` does for ``.pth`` files, whose scales these are.
"""

from __future__ import annotations

import json
import sys

from sbformat.limits import Budget, Limits
from sbformat.values import decode_blob
from sbformat.values.render import render_json
from tests.children.read_hostile_pth import ask, files


def main() -> None:
    """Recognise each pickle, then show what came of it."""
    limits = Limits(**json.loads(sys.argv[1]).get("limits", {}))
    rows: list[dict[str, object]] = []
    for number, data in enumerate(files()):
        found: list[object] = []
        answers = [ask("decode", lambda data=data, found=found: found.append(decode_blob(data, Budget(limits))))]
        if found:
            answers.append(ask("show", lambda found=found: json.dumps(render_json(found[0]))))
        for what, outcome, shown, seconds, grown in answers:
            rows.append(
                {"file": number, "what": what, "outcome": outcome, "shown": shown, "seconds": seconds, "grown": grown}
            )
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
