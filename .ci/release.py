"""Prepare a release, and check the tag of one.

    python .ci/release.py prepare 0.2.0    write the version and the date into the files that state them
    python .ci/release.py check v0.2.0     whether these files state it, and whether the commit is on main
    python .ci/release.py notes v0.2.0     print the section of CHANGELOG.md, for the release on GitHub
    python .ci/release.py vectors v0.2.0 FOLDER    write sbformat-conformance-v0.2.0.tar.gz, for implementers

Only Python and git are needed. A file that states the version is a row of ``EDITS``. The exit status is 0, or 2 with
the reason why there is no release; then nothing is written.
"""

from __future__ import annotations

import argparse
import datetime as dt
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
URL: Final = "https://github.com/sbformat/sbformat"
VERSION: Final = r"(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}"
_DATE: Final = r"\d{4}-\d\d-\d\d"
_NOTHING_YET: Final = "not released yet"
_INSTALL: Final = '`pip install "sbformat[cli]"` installs it from the package index.\n'


class Edit(NamedTuple):
    """A place that states the version or the date of the last release."""

    path: str
    pattern: str
    replacement: str
    """With ``{version}``, ``{date}`` and groups of the pattern."""
    is_always_there: bool = True
    """False for sentences that only a project without a release has."""


EDITS: Final = (
    Edit("sbformat/__init__.py", r'^__version__ = ".*"$', '__version__ = "{version}"'),
    Edit("CITATION.cff", rf"^version: .*$(?:\ndate-released: {_DATE}$)?", "version: {version}\ndate-released: {date}"),
    Edit("CHANGELOG.md", r"^## \[Unreleased\]$", "## [Unreleased]\n\n## [{version}] - {date}"),
    Edit(
        "CHANGELOG.md",
        r"^\[Unreleased\]: .*$",
        f"[Unreleased]: {URL}/compare/v{{version}}...main\n[{{version}}]: {URL}/releases/tag/v{{version}}",
    ),
    Edit("docs/how-to/scan-in-ci.md", rf"\b(release |sbformat@v|rev: v){VERSION}\b", r"\g<1>{version}"),
    Edit("CHANGELOG.md", rf"^The first release will be {VERSION}\.\n\n", "", is_always_there=False),
    Edit("README.md", rf"^Version {VERSION} is {_NOTHING_YET}\. ", _INSTALL, is_always_there=False),
    Edit("docs/index.md", rf"^Version {VERSION} is {_NOTHING_YET}\. ", _INSTALL, is_always_there=False),
    Edit("docs/how-to/scan-in-ci.md", r" Until it is published, (?:.*\n)*?\n", "\n\n", is_always_there=False),
    Edit(
        "docs/install.md",
        r"As soon as there is a release on the package index, (`.*`) installs it from anywhere\.",
        r"From the package index, \g<1> installs the newest release.",
        is_always_there=False,
    ),
    Edit("benchmarks/history.md", rf"({VERSION}), {_NOTHING_YET}", r"\g<1>", is_always_there=False),
)


VECTORS: Final = ("LICENSE", "conformance", "schema")
"""What the archive for implementers has of the repository."""


class ReleaseError(Exception):
    """Why there is no release."""


def read(path: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / path).read_text("utf-8")


def run_git(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run git in the repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def find_section(changelog: str, name: str) -> str:
    """Return the text below a heading of the second level, such as ``Unreleased`` or ``0.2.0``; empty without it."""
    found = re.search(
        rf"^## \[{re.escape(name)}\](?: - {_DATE})?$(.*?)(?=^## |^\[[^\]]*\]: |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    return found[1].strip() if found else ""


def split_version(version: str) -> tuple[int, ...]:
    """Return a version as numbers, to compare it."""
    return tuple(map(int, version.split(".")))


def require_new(version: str) -> None:
    """Check that a version can be the next release, and that nothing else is in the working tree."""
    if not re.fullmatch(VERSION, version):
        raise ReleaseError(f"expected a version of three numbers, such as 0.2.0, got {version!r}")
    changelog = read("CHANGELOG.md")
    released = re.findall(rf"^## \[({VERSION})\]", changelog, re.MULTILINE)
    newest = max(released, key=split_version, default="")
    if newest and split_version(version) <= split_version(newest):
        raise ReleaseError(f"expected a version after {newest}, the newest in CHANGELOG.md, got {version}")
    if run_git("rev-parse", "--verify", "--quiet", f"refs/tags/v{version}").returncode == 0:
        raise ReleaseError(f"the tag v{version} exists already")
    if not re.search("^- ", find_section(changelog, "Unreleased"), re.MULTILINE):
        raise ReleaseError("nothing is listed below [Unreleased] in CHANGELOG.md")
    status = run_git("status", "--porcelain")
    if status.returncode or status.stdout:
        raise ReleaseError(
            f"expected a clean working tree: commit or stash first\n{status.stdout}{status.stderr}".rstrip()
        )


def prepare(version: str, date: str) -> list[str]:
    """Write a version and its date into all files that state them; return their paths."""
    require_new(version)
    texts: dict[str, str] = {}
    for edit in EDITS:
        text = texts.get(edit.path) or read(edit.path)
        replacement = edit.replacement.replace("{version}", version).replace("{date}", date)
        texts[edit.path], count = re.subn(edit.pattern, replacement, text, flags=re.MULTILINE)
        if edit.is_always_there and not count:
            raise ReleaseError(f"{edit.path}: expected a text like {edit.pattern}")
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")):
        name = path.relative_to(ROOT).as_posix()
        if _NOTHING_YET in (texts.get(name) or read(name)):
            raise ReleaseError(f"{name} says {_NOTHING_YET!r}, and no row of EDITS in .ci/release.py changes that")
    changed = {name: text for name, text in texts.items() if text != read(name)}
    for name, text in changed.items():
        (ROOT / name).write_text(text, "utf-8", newline="\n")
    return sorted(changed)


def check(tag: str) -> str:
    """Check that the files state the version of a tag, and that the commit is on main; return the notes."""
    version = tag.removeprefix("v")
    if tag != f"v{version}" or not re.fullmatch(VERSION, version):
        raise ReleaseError(f"expected a tag such as v0.2.0, got {tag!r}")
    wanted = {
        "sbformat/__init__.py": f'__version__ = "{version}"',
        "CITATION.cff": f"version: {version}",
        "CHANGELOG.md": rf"## [{version}] - ",
    }
    for path, line in wanted.items():
        if not re.search(rf"^{re.escape(line)}", read(path), re.MULTILINE):
            raise ReleaseError(f"{path}: expected a line that begins with {line!r}, for the tag {tag}")
    if run_git("merge-base", "--is-ancestor", "HEAD", "refs/remotes/origin/main").returncode:
        raise ReleaseError(f"the commit of {tag} is not on main")
    return write_notes(version)


def write_notes(version: str) -> str:
    """Return the section of the changelog about a version, with links that lead from the page of a release."""
    notes = find_section(read("CHANGELOG.md"), version)
    if not notes:
        raise ReleaseError(f"CHANGELOG.md has no section about {version}")
    return re.sub(r"\]\((?!https?:|#)([^)\s]+)\)", rf"]({URL}/blob/v{version}/\1)", notes) + "\n"


def write_vectors(tag: str, folder: Path) -> Path:
    """Write the archive for implementers: specification, vectors, what runs them, and the pages for L0 and L1."""
    name = f"sbformat-conformance-{tag}"
    path = folder.resolve() / f"{name}.tar.gz"
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, str(ROOT / "docs" / "hooks" / "included_sections.py"), work], check=True)
        pages = [f"--add-file={page}" for page in sorted(Path(work).iterdir())]
        done = run_git("archive", "--output", str(path), f"--prefix={name}/", *pages, "HEAD", *VECTORS)
    if done.returncode:
        raise ReleaseError(f"{path.name}: {done.stderr.strip()}")
    return path


def main(arguments: list[str]) -> int:
    """Run one of the commands; return the exit status."""
    parser = argparse.ArgumentParser(prog="release.py", description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("prepare", help="write the version and the date into the files that state them")
    command.add_argument("version", metavar="VERSION", help="such as 0.2.0")
    command.add_argument("--date", default=dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d"))
    for name, text in (("check", "whether the files state it and the commit is on main"), ("notes", "print its notes")):
        commands.add_parser(name, help=text).add_argument("tag", metavar="TAG", help="such as v0.2.0")
    command = commands.add_parser("vectors", help="write the archive for implementers")
    command.add_argument("tag", metavar="TAG", help="such as v0.2.0")
    command.add_argument("folder", metavar="FOLDER", type=Path)
    options = parser.parse_args(arguments)
    try:
        if options.command == "prepare":
            changed = prepare(options.version, options.date)
            print(*changed, sep="\n")
            print(
                f'Read "git diff", commit as "Release {options.version}", and push a tag v{options.version} from main.'
            )
        elif options.command == "check":
            check(options.tag)
        elif options.command == "vectors":
            print(write_vectors(options.tag, options.folder))
        else:
            sys.stdout.write(write_notes(options.tag.removeprefix("v")))
    except ReleaseError as error:
        print(f"release.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
