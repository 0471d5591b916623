"""Reading, and every command, in a process that watches every audit event: nothing of a file is run.

The child makes files whose pickles would run, import, open and connect, preloads what sbformat itself
imports, then forbids every event that could come of believing a file.
"""

from __future__ import annotations

import subprocess
import sys

from bundled import ROOT

CHILD = r"""
import base64, contextlib, io, json, os, struct, sys, zipfile
from pathlib import Path

root, folder = Path(sys.argv[1]), Path(sys.argv[2])
sys.path[:0] = [str(root), str(root / "tests")]
import encodings.unicode_escape, encodings.raw_unicode_escape
import numpy, jsonschema, safetensors.numpy, ml_dtypes, rich.console  # what is imported lazily
import sbformat, sbformat.schema, sbformat.reader, sbformat.archive, sbformat.pth.arrays, sbformat.pth.compare
import sbformat.export, sbformat.tools.inspect, sbformat.tools.extract, sbformat.cli, difflib, unicodedata
import sbformat.tools.diff, sbformat.tools.edit, sbformat.tools.convert, sbformat.weights, sbformat.writer
import sbformat.tools.scan, sbformat.tools.scan.sarif, sbformat.tools.compare_system, bz2, hashlib, datetime, pathlib
import sbformat.known.shown, sbformat.known.functions, sbformat.names.published, sbformat.pkl.listing
import sbformat.cli._tree, sbformat.cli._workers
import sbformat.pth.portable, sbformat.pth.differences, sbformat.pth.template, sbformat.pth.from_arrays
from sbformat import data, pkl, pth
from sbformat.container import Container
from bundled import PPO, SAC, changed, entries, zipped

EVIL = {
    "system": b"\x80\x02cos\nsystem\nX\x05\x00\x00\x00true \x85R.",
    "exec": b"\x80\x02c__builtin__\nexec\nX\x09\x00\x00\x00import os\x85R.",
    "import": b"\x80\x04\x8c\x0cevil_module_\x8c\x01f\x93)R.",
    "open": b"\x80\x02c__builtin__\nopen\nX\x09\x00\x00\x00/evilfile\x85R.",
    "socket": b"\x80\x02csocket\nsocket\n)R.",
    "subprocess": b"\x80\x02csubprocess\nPopen\n]X\x04\x00\x00\x00truea\x85R.",
    "inst": b"(S'true'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nS'true'\no.",
    "newobj": b"\x80\x02csubprocess\nPopen\nX\x04\x00\x00\x00true\x85\x81.",
    "build": b"\x80\x02csys\nmodules\n}X\x04\x00\x00\x00evilNsb.",
    "cloudpickle": b"\x80\x02cstable_baselines3.common.save_util\njson_to_data\nX\x02\x00\x00\x00{}\x85R.",
}

def torch_zip(pickle):
    return zipped({"archive/data.pkl": pickle, "archive/version": b"3\n"})

def archive_of(pickle):
    values = json.loads(entries()["data"])
    for key in ("policy_class", "learning_rate", "observation_space", "replay_buffer_class", "mine"):
        values[key] = {":type:": "<class 'x'>", ":serialized:": base64.b64encode(pickle).decode()}
    contents = {**entries(), "data": json.dumps(values).encode(), "extra.pth": torch_zip(pickle)}
    contents["policy.optimizer.pth"] = pickle
    return zipped(contents)

files = [PPO, SAC]
for name, pickle in EVIL.items():
    for suffix, content in ((".zip", archive_of(pickle)), (".pth", torch_zip(pickle)), ("-legacy.pth", pickle)):
        (folder / (name + suffix)).write_bytes(content)
        files.append(folder / (name + suffix))
corpus = root.parent / "shared" / "corpus" / "sb3"
files += sorted(corpus.glob("*"))[:20] if corpus.is_dir() else []

def npy(header, data):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data

def safetensors_of(document):
    header = json.dumps({"__metadata__": {"sbformat": json.dumps(document)}}).encode()
    return struct.pack("<Q", len(header)) + header

PLAIN = b"{'descr': %s, 'fortran_order': False, 'shape': (1,), }"
call = b"__import__('os').system('true')"
arrays = []
for name, content in {
    "object.npz": zipped({"a.npy": npy(PLAIN % b"'|O'", EVIL["system"])}),
    "call.npz": zipped({"a.npy": npy(PLAIN % call, bytes(8))}),
    "shape.npz": zipped({"a.npy": npy(PLAIN.replace(b"(1,)", call) % b"'<f4'", bytes(8))}),
    "escape.npz": zipped({"a.npy": npy(PLAIN % rb"'\d'", bytes(8))}),
    "plain.npz": zipped({"a.npy": npy(PLAIN % b"'<f4'", bytes(4))}),
    "tree.safetensors": safetensors_of({"version": 1, "entries": [{"name": "policy.pth", "tree": {"eval": "1"}}]}),
    "dtype.safetensors": safetensors_of(
        {"version": 1, "entries": [{"name": "policy.pth", "tree": {"dtype": "x\nos\nsystem"}}]}),
    "path.safetensors": safetensors_of({"version": 1, "entries": [{"name": "../../evilfile", "text": "x"}]}),
    "blob.safetensors": safetensors_of(
        {"version": 1, "entries": [{"name": "data", "text": archive_of(EVIL["system"])[64:4000].decode("latin-1")}]}),
}.items():
    (folder / name).write_bytes(content)
    arrays.append(folder / name)

def everything(path):
    repr(sbformat.scan(path))
    for on_unknown in ("error", "inert"):
        try:
            archive = sbformat.read(path, on_unknown=on_unknown)
        except sbformat.SbformatError:
            continue
        for get in (lambda: archive.data, lambda: archive.algorithm, lambda: repr(archive.hyperparameters()),
                    lambda: sbformat.compare_system(archive), lambda: archive.system_info,
                    lambda: archive.pytorch_variables, lambda: archive == archive, lambda: repr(archive.data)):
            with contextlib.suppress(sbformat.SbformatError):
                get()
        for name in archive.parameters:
            with contextlib.suppress(sbformat.SbformatError):
                repr(archive.parameters[name].to_numpy())
        with contextlib.suppress(sbformat.SbformatError):
            list(sbformat.iter_problems(archive))
        with contextlib.suppress(sbformat.SbformatError):
            with sbformat.safe_open(path) as opened:
                [opened.get_tensor(key) for key in opened.keys()]

def commands():
    names = [str(path) for path in files]
    for args in (["inspect", *names], ["inspect", *names, "--format", "json"], ["validate", *names],
                 ["validate", *names, "--format", "json"], ["scan", *names, "--jobs", "1"],
                 ["scan", *names, "--jobs", "1", "--format", "sarif"], ["inspect", names[0], "--system"],
                 *(["inspect", name, "--blobs", "policy_class"] for name in names),
                 *(["inspect", name, "--blobs", "policy_class", "--opcodes"] for name in names)):
        with contextlib.redirect_stdout(io.StringIO()):
            sbformat.cli.main(args)
    for number, path in enumerate(files):
        for suffix in (".npz", ".safetensors", ""):
            with contextlib.redirect_stdout(io.StringIO()):
                sbformat.cli.main(["extract", str(path), "-o", str(folder / f"out{number}{suffix}"), "--entry", "all"])

def writing_commands():
    def run(*args):
        with contextlib.redirect_stdout(io.StringIO()):
            return sbformat.cli.main([str(arg) for arg in args])

    for number, path in enumerate([*files, *arrays]):
        for suffix in (".zip", ".safetensors", ".pth"):
            out = folder / f"converted{number}{suffix}"
            if run("convert", path, "-o", out) == 0 and suffix == ".safetensors":
                run("convert", out, "-o", folder / f"back{number}.zip")
        run("edit", PPO, "--weights", path, "-o", folder / f"weighted{number}.zip")
    for number, path in enumerate(files):
        run("diff", path, PPO)
        run("diff", PPO, path, "--format", "json")
        run("edit", path, "--set", "gamma=0.5", "--set", "/policy_class/x=1", "-o", folder / f"a{number}.zip")
        run("edit", path, "--set", "gamma=0.5", "--drop-optimizer", "-o", folder / f"b{number}.zip")
        run("edit", path, "--unset", "policy_class", "--drop", "policy", "-o", folder / f"c{number}.zip")
        for word in ("drop", "keep", "error"):
            run("rebuild", path, "--on-unknown", word, "-o", folder / f"rebuilt-{word}{number}.zip")
        run("rebuild", path, "--target", "2.0", "--policy-class", "my.Policy", "-o", folder / f"old{number}.zip")
    run("edit", PPO, "--set", 'lr_schedule={":serialized:": "Y3Bvc2l4CnN5c3RlbQouCg=="}', "-o", folder / "d.zip")
    run("edit", PPO, "--weights", folder / "converted0.safetensors", "-o", folder / "e.zip")

sbformat.validate(PPO)  # jsonschema loads its metaschemas at first use
everything(PPO)
with contextlib.redirect_stdout(io.StringIO()):
    for suffix in (".npz", ".safetensors", ""):
        sbformat.cli.main(["extract", str(PPO), "-o", str(folder / f"warm{suffix}")])
    sbformat.cli.main(["inspect", str(PPO)])
    for output in ("warm.zip", "warm.safetensors", "warm.pth"):
        sbformat.cli.main(["convert", str(PPO), "-o", str(folder / output), "--force"])
    sbformat.cli.main(["edit", str(PPO), "--weights", str(folder / "warm.safetensors"), "-o", str(folder / "w.zip")])
    sbformat.cli.main(["diff", str(PPO), str(SAC)])
    sbformat.cli.main(["rebuild", str(PPO), "-o", str(folder / "r.zip"), "--target", "2.0"])

allowed = (str(folder), str(root), str(corpus))
before = set(sys.modules), dict(os.environ), os.getcwd(), sys.getrecursionlimit(), len(os.listdir("/proc/self/fd"))
seen = []

def watch(event, args):
    if event.startswith(("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.", "socket.", "exec",
                         "compile", "marshal.", "pickle.", "ctypes.", "urllib.", "code.", "builtins.input")):
        seen.append((event, repr(args)[:200]))
    elif event == "import" and any(part in str(args[0]) for part in ("evil", "socket", "stable_baselines3")):
        seen.append((event, repr(args)[:200]))
    elif event == "open" and not isinstance(args[0], int):
        if not str(args[0]).startswith((*allowed, sys.prefix, sys.base_prefix)):
            seen.append((event, repr(args)[:200]))

sys.addaudithook(watch)
for path in files:
    everything(path)
commands()
writing_commands()
for pickle in EVIL.values():
    pkl.loads(pickle)
    sbformat.scan(pickle)
    pth.loads(torch_zip(pickle), on_unknown="inert")
result = list(seen)
after = set(sys.modules), dict(os.environ), os.getcwd(), sys.getrecursionlimit(), len(os.listdir("/proc/self/fd"))
new_modules = {name for name in after[0] - before[0]}
changed = [was for was, is_ in zip(before[1:], after[1:]) if was != is_]
shown = [repr(part) for part in changed]
counts = {"files": len(files), "written": len(list(folder.glob("back*")))}
print(json.dumps({"seen": result, **counts, "modules": sorted(new_modules), "changed": shown}))
"""


def test_nothing_in_a_file_is_run(tmp_path: object) -> None:
    import json

    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(ROOT), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["files"] >= 35
    assert report["written"] >= 20
    assert report["seen"] == [], report["modules"]
    assert report["modules"] == []
    assert report["changed"] == []
