"""Help for each rule of ``scan``: what a finding means, what to do about it, and how severe code scanners rank it.

SARIF logs contain these texts. The documentation has a page of them, made by ``docs/hooks/rule_reference.py``, with a
heading for each rule, which ``helpUri`` leads to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from sbformat.immutable import Record
from sbformat.tools.scan.report import RULES

if TYPE_CHECKING:
    from sbformat.tools.scan.report import Rule, Verdict

Precision: TypeAlias = Literal["very-high", "high", "medium", "low"]

SITE: Final = "https://sbformat.github.io/sbformat/"
PAGE: Final = f"{SITE}reference/rules/"
"""The page with a heading for each rule."""

SEVERITIES: Final[dict[Verdict, float]] = {"unknown": 3.0, "code": 5.0, "broken": 7.0, "dangerous": 8.0}
"""GitHub's ``security-severity`` of a rule, unless it has its own: low below 4, medium below 7, high to 9, critical."""

DANGEROUS_TOO: Final[tuple[Rule, ...]] = ("unchecked-arguments", "unknown-entry", "carried-function")
"""Rules with a lower verdict whose findings may be dangerous. A code scanner ranks a finding by its rule, so SARIF has
a second rule for these findings, such as ``unchecked-arguments-dangerous``."""


class RuleHelp(Record):
    """What a person needs to know about a rule; the texts are Markdown, with backticks around names and commands."""

    meaning: str
    """What was found, what it does when the file is loaded, and what harmless reason there may be."""
    remedy: str
    """What to do about it."""
    precision: Precision
    """How often such a finding is a reason not to load the file: GitHub sorts by it."""
    severity: float | None = None
    """None: that of the verdict, in ``SEVERITIES``."""


_ALLOW: Final = (
    "If you know the name and trust its module, allow exactly this name: `sbformat scan --allow MODULE.NAME`. "
    "Otherwise find out what it is before you load the file."
)
_DO_NOT_LOAD: Final = (
    "Do not load the file, neither with Stable-Baselines3 nor with torch or pickle. Ask where it comes from. If you "
    "need the agent, `sbformat rebuild FILE -o NEW` writes an archive without anything that runs."
)
_REBUILD: Final = "`sbformat rebuild FILE -o NEW` writes an archive without it."

RULE_HELP: Final[dict[Rule, RuleHelp]] = {
    "unknown-name": RuleHelp(
        "A pickle refers to a class, function or module that sbformat does not know, and nothing calls it while the "
        "file is loaded. Loading still imports its module, and importing a module runs the code in it, if it is "
        "installed. Agents with classes of their own contain such names.",
        f"{_ALLOW} {_REBUILD}",
        "low",
    ),
    "unchecked-arguments": RuleHelp(
        "A pickle calls a constructor that sbformat knows, with arguments that it does not know. What the "
        "constructor does with them was not checked. A release of the library that sbformat does not know may be the "
        "reason. The finding is dangerous when the callable reaches code if it receives other arguments, as `getattr` "
        "does.",
        "Do not load the file if the finding is dangerous. Otherwise compare the file with one that the same library "
        "saved, and report the difference if a library really writes it.",
        "medium",
    ),
    "discarded-result": RuleHelp(
        "A pickle calls something that sbformat knows, and throws the result away. Picklers do not write that; a "
        "payload does, to run a call without a trace in the loaded object.",
        f"Do not load the file unless you know which program wrote it. {_REBUILD}",
        "medium",
    ),
    "odd-pickle": RuleHelp(
        "A pickle is built from opcodes in a way that no pickler uses: it was written by hand or by another program. "
        "What it loads as is known, and runs nothing that sbformat does not know.",
        f"Ask which program wrote the file. {_REBUILD}",
        "medium",
    ),
    "trailing-bytes": RuleHelp(
        "Bytes follow the end of a pickle, an array or an archive. The usual loader ignores them; another program may "
        "read them. They were examined: if they contain a pickle, it has findings of its own.",
        f"Ask which program wrote the file, or whether it was damaged in transfer. {_REBUILD}",
        "medium",
    ),
    "lenient-base64": RuleHelp(
        "The base64 text of a serialized value contains other characters, or has other padding, than an encoder "
        "writes. Decoders differ in what they make of such text, so two programs may load different pickles. Each "
        "interpretation was examined.",
        f"Ask which program wrote the file. {_REBUILD}",
        "medium",
    ),
    "hidden-blob": RuleHelp(
        "A member named `:serialized:` is nested in a place of `data` where Stable-Baselines3 does not look for one. "
        "Another program that reads the archive may unpickle it. Its pickle was examined like the others.",
        f"Ask which program wrote the file. {_REBUILD}",
        "medium",
    ),
    "unknown-entry": RuleHelp(
        "An entry of an archive is one that Stable-Baselines3 does not write, or sbformat does not know the type of a "
        "file, so its content could not be examined. The finding is dangerous when a loader would read the entry and "
        "sbformat cannot unpack it.",
        "Do not load the file if the finding is dangerous. Otherwise find out what the entry is and which program "
        "reads it. Files that have nothing to do with the agent do not belong in the archive.",
        "low",
    ),
    "carried-function": RuleHelp(
        "cloudpickle stored a function with its bytecode in the file: a learning rate schedule given as a lambda, for "
        "example. The code runs when Stable-Baselines3 calls the function, and a learning rate is called while the "
        "agent is loaded. The finding is dangerous when the pickle itself calls the function. Functions that "
        "Stable-Baselines3 or rl-zoo3 published are recognized and have no finding.",
        "Give the agent a number instead: `sbformat rebuild FILE -o NEW --set learning_rate=0.0003` drops the function "
        "and stores that. Otherwise load the file only if you trust the author.",
        "medium",
    ),
    "carried-class": RuleHelp(
        "cloudpickle stored a class with the bytecode of its methods in the file: a policy or features extractor that "
        "was defined in a script or notebook. Loading creates the class, and what Stable-Baselines3 does with it runs "
        "its methods. The finding names the methods that run while the file is loaded.",
        "Load the file only if you trust the author. With the source of the class in a module of your own, save the "
        "agent again from a program that imports it, so that the file only refers to it.",
        "medium",
    ),
    "carried-program": RuleHelp(
        "The file contains a TorchScript program, which `torch.jit.load` compiles and a call of the model runs. "
        "Stable-Baselines3 does not save such files.",
        "Load it only if you trust the author. The weights alone: `sbformat extract FILE -o weights.safetensors`, if "
        "the file can be read.",
        "medium",
    ),
    "broken": RuleHelp(
        "Something cannot be parsed, cannot be loaded, or needs more than the limits allow: a truncated download, a "
        "damaged file, or one that was built to confuse readers. What a more lenient reader makes of it is not known. "
        "What could be examined has findings of its own.",
        "Compare the size and checksum with the source and download the file again. If a limit was exceeded and you "
        "expect a file of that size, raise the limit: `sbformat scan --limit NAME=VALUE`. `sbformat validate` lists "
        "every fault.",
        "high",
    ),
    "unknown-call": RuleHelp(
        "A pickle calls a function or class that sbformat does not know: loading the file imports its module and runs "
        "it, with arguments that the file chooses. Agents with objects of libraries that sbformat does not know "
        "contain such calls, and so does every attack with a function that is not on a list of harmful ones.",
        f"{_ALLOW} {_REBUILD}",
        "medium",
    ),
    "unknown-object": RuleHelp(
        "A pickle creates an object of a class that sbformat does not know: loading runs methods of the class, such "
        "as `__new__` and `__setstate__`, with values that the file chooses. Agents with a policy, environment or "
        "callback of their own contain such objects.",
        f"{_ALLOW} {_REBUILD}",
        "medium",
    ),
    "called-name": RuleHelp(
        "A pickle refers to a class or function that sbformat does not know, in a place where Stable-Baselines3 or a "
        "constructor calls it: a policy class, an optimizer, a features extractor, a schedule. A custom policy is the "
        "usual reason.",
        f"{_ALLOW} {_REBUILD}",
        "medium",
    ),
    "changed-value": RuleHelp(
        "A value is changed after a call received it, or in a way that cannot be followed. So what the call received "
        "while loading is not what the finished object shows. No pickler writes that.",
        _DO_NOT_LOAD,
        "high",
    ),
    "ambiguous-frame": RuleHelp(
        "A pickle ends its frames inside arguments. CPython's unpicklers differ there: one reads other bytes than the "
        "other, so a scanner can be shown harmless content while another is loaded. No pickler writes that.",
        _DO_NOT_LOAD,
        "high",
    ),
    "dangerous-name": RuleHelp(
        "A pickle imports or calls something that is known to run commands or code, import modules, open files or "
        "connect to a network: `os.system`, `builtins.eval`, `subprocess.Popen`, for example. Loading the file "
        "executes it, before any check in Python can prevent it.",
        f"{_DO_NOT_LOAD} If it was loaded already, treat the machine as compromised.",
        "very-high",
        9.8,
    ),
    "computed-name": RuleHelp(
        "A pickle computes which name it imports or calls, or takes it from the copyreg registry of the process. Only "
        "running the file shows what that is. No pickler writes that; payloads do, to evade scanners.",
        _DO_NOT_LOAD,
        "very-high",
        9.5,
    ),
    "python-tag": RuleHelp(
        "A file contains a YAML tag that names a Python object. rl_zoo3 loads `args.yml` and `config.yml` with an "
        "unsafe loader, which imports what a tag names and calls it. The tags that rl_zoo3 itself writes are "
        "recognized and have no finding. A comment or text that is spelled as a tag has one, because another encoding "
        "or reader may see a tag in it.",
        "Remove the tag or the file, or load it with `yaml.safe_load`. Do not run rl_zoo3 in this folder.",
        "high",
        8.8,
    ),
}


def get_severity(rule: Rule, verdict: Verdict) -> float:
    """Return GitHub's ``security-severity``, from 0.1 to 10, for the findings of a rule with this verdict."""
    own = RULE_HELP[rule].severity
    return SEVERITIES[verdict] if own is None else own


def make_rule_id(rule: Rule, verdict: Verdict) -> str:
    """Return the identifier in SARIF: the rule, or the second one of a rule whose findings may be dangerous too."""
    is_second = verdict == "dangerous" != RULES[rule][0] and rule in DANGEROUS_TOO
    return f"{rule}-dangerous" if is_second else rule
