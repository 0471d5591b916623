"""The repositories of the stand-in for the Hub: commits, references, git's ids, and the JSON that describes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final

LARGE_FILES: Final = (".bin", ".gz", ".mp4", ".npz", ".onnx", ".pkl", ".pt", ".pth", ".safetensors", ".tar", ".zip")
"""Endings of the names that are kept in LFS, as ``.gitattributes`` of a new repository has it."""
FIRST_DATE: Final = datetime(2024, 1, 1, tzinfo=timezone.utc)
MAIN: Final = "main"


@dataclass(frozen=True)
class Commit:
    """The files of a repository at one time."""

    sha: str
    date: str
    title: str
    files: Mapping[str, bytes]
    touched: Mapping[str, str]
    """The last commit that changed each file."""


@dataclass
class Repository:
    """A model repository: ``refs`` names the commit of each branch, tag and pull request (``refs/pr/1``)."""

    id: str
    tags: tuple[str, ...] = ()
    private: bool = False
    gated: bool = False
    commits: dict[str, Commit] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, changes: Mapping[str, bytes | None], ref: str = MAIN) -> str:
        """Add a commit that writes files, and removes those that are None; return its sha."""
        parent = self.find(ref)
        files = {**(parent.files if parent else {}), **changes}
        number = len(self.commits)
        sha = hashlib.sha1(f"{self.id} {number}".encode(), usedforsecurity=False).hexdigest()
        touched = {**(parent.touched if parent else {}), **dict.fromkeys(changes, sha)}
        kept = {name: content for name, content in sorted(files.items()) if content is not None}
        date = write_date(FIRST_DATE + timedelta(hours=number))
        self.commits[sha] = Commit(sha, date, f"Commit {number}", kept, {name: touched[name] for name in kept})
        self.refs[ref] = sha
        return sha

    def find(self, revision: str) -> Commit | None:
        """Return the commit of a branch, a tag, or a sha."""
        return self.commits.get(self.refs.get(revision, revision))

    def describe(self, commit: Commit, *, full: bool = True, blobs: bool = False) -> dict[str, Any]:
        """Return the JSON of a repository; ``full`` as ``model_info`` has it, less in lists of models."""
        basis = {
            "_id": commit.sha[:24],
            "id": self.id,
            "modelId": self.id,
            "private": self.private,
            "likes": 0,
            "downloads": 0,
            "tags": list(self.tags),
            "createdAt": write_date(FIRST_DATE),
        }
        if "stable-baselines3" in self.tags:
            basis["library_name"] = "stable-baselines3"
        if not full:
            return basis
        return {
            **basis,
            "author": self.id.partition("/")[0],
            "sha": commit.sha,
            "lastModified": commit.date,
            "gated": "auto" if self.gated else False,
            "disabled": False,
            "cardData": {"tags": list(self.tags)},
            "siblings": [describe_sibling(name, content, blobs=blobs) for name, content in commit.files.items()],
            "spaces": [],
            "usedStorage": sum(map(len, commit.files.values())),
        }


def write_date(date: datetime) -> str:
    """Return a date as the Hub writes it."""
    return date.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def is_large(name: str) -> bool:
    """Whether a file is kept in LFS."""
    return name.endswith(LARGE_FILES)


def make_pointer(content: bytes) -> bytes:
    """Return what git stores of a file that is kept in LFS."""
    sha = hashlib.sha256(content).hexdigest()
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha}\nsize {len(content)}\n".encode()


def compute_blob_id(name: str, content: bytes) -> str:
    """Return git's id of a file."""
    blob = make_pointer(content) if is_large(name) else content
    return hashlib.sha1(b"blob %d\0%b" % (len(blob), blob), usedforsecurity=False).hexdigest()


def describe_lfs(content: bytes, *, key: str) -> dict[str, Any]:
    """Return the JSON of a file in LFS; its sha256 is called ``oid`` in trees, and ``sha256`` in ``model_info``."""
    sha = hashlib.sha256(content).hexdigest()
    return {key: sha, "size": len(content), "pointerSize": len(make_pointer(content))}


def describe_sibling(name: str, content: bytes, *, blobs: bool) -> dict[str, Any]:
    """Return the JSON of a file in ``model_info``."""
    found: dict[str, Any] = {"rfilename": name}
    if blobs:
        found |= {"blobId": compute_blob_id(name, content), "size": len(content)}
        if is_large(name):
            found["lfs"] = describe_lfs(content, key="sha256")
    return found


def describe_file(repository: Repository, commit: Commit, name: str, *, expand: bool) -> dict[str, Any]:
    """Return the JSON of a file in a tree."""
    content = commit.files[name]
    found = {"type": "file", "oid": compute_blob_id(name, content), "size": len(content), "path": name}
    if is_large(name):
        found["lfs"] = describe_lfs(content, key="oid")
    if expand:
        found["lastCommit"] = describe_last_commit(repository, commit.touched[name])
        found["securityFileStatus"] = {"status": "safe", "avScan": None, "pickleImportScan": None}
    return found


def describe_folder(repository: Repository, commit: Commit, name: str, *, expand: bool) -> dict[str, Any]:
    """Return the JSON of a folder in a tree. Its id is not git's, but depends on the same."""
    inside = [f"{path} {compute_blob_id(path, commit.files[path])}" for path in list_below(commit, name)]
    oid = hashlib.sha1("\n".join(inside).encode(), usedforsecurity=False).hexdigest()
    found: dict[str, Any] = {"type": "directory", "oid": oid, "size": 0, "path": name}
    if expand:
        found["lastCommit"] = describe_last_commit(repository, commit.sha)
    return found


def describe_last_commit(repository: Repository, sha: str) -> dict[str, str]:
    """Return the JSON of the commit that changed a file last."""
    commit = repository.commits[sha]
    return {"id": sha, "title": commit.title, "date": commit.date}


def list_below(commit: Commit, folder: str) -> list[str]:
    """Return the files in a folder and its folders."""
    return [name for name in commit.files if not folder or name.startswith(f"{folder}/")]


def list_tree(
    repository: Repository, commit: Commit, folder: str, *, recursive: bool, expand: bool
) -> list[dict[str, Any]] | None:
    """Return the JSON of what is in a folder, or None if there is no such folder."""
    below = list_below(commit, folder)
    if folder and not below:
        return None
    paths = list_paths(below, folder)
    if not recursive:
        depth = folder.count("/") + 1 if folder else 0
        paths = {path: is_file for path, is_file in paths.items() if path.count("/") == depth}
    return [
        (describe_file if is_file else describe_folder)(repository, commit, path, expand=expand)
        for path, is_file in sorted(paths.items())
    ]


def list_paths(names: Iterable[str], folder: str) -> dict[str, bool]:
    """Return the files and the folders between ``folder`` and them, with whether each is a file."""
    paths: dict[str, bool] = {}
    for name in names:
        parent = name
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent == folder:
                break
            paths[parent] = False
        paths[name] = True
    return paths
