"""Malicious checkpoints. Digests are right everywhere: an attacker can compute them too."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import socket
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TENSORS, STATE, MANIFEST = "tensors.safetensors", "state.json", "manifest.json"
GOOD_STATE = b'{"generation":1}'


class Payload:
    """Unpickling this creates the canary file."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return (os.mkdir, (str(self._canary),))


def safetensors(header: object, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file with any header (text or object) and any claimed header length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8), name: str = "w") -> dict[str, Any]:
    """The header of one tensor."""
    return {name: {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


GOOD_TENSORS = safetensors(one(), bytes(8))


def sealed(body: object) -> bytes:
    """A manifest whose own digest is right, whatever its body (text or object)."""
    text = body if isinstance(body, bytes) else json.dumps(body, indent=2).encode()
    text = text.removesuffix(b"\n}")
    return text + b',\n  "manifest_sha256": "' + hashlib.sha256(text).hexdigest().encode() + b'"\n}\n'


def body_for(tensors: bytes, state: bytes, **changes: object) -> dict[str, Any]:
    """The body of the manifest that fits these files."""
    files = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in ((TENSORS, tensors), (STATE, state))
    }
    body = {
        "format_version": 1,
        "exact": True,
        "config_hash": "c0ffee",
        "step": 2,
        "metric": None,
        "versions": {},
        "files": files,
    }
    return {**body, **changes}


def put(directory: Path, tensors: bytes = GOOD_TENSORS, state: bytes = GOOD_STATE, **changes: object) -> None:
    """Write a checkpoint whose manifest fits, but for the given changes."""
    directory.mkdir()
    (directory / TENSORS).write_bytes(tensors)
    (directory / STATE).write_bytes(state)
    (directory / MANIFEST).write_bytes(sealed(body_for(tensors, state, **changes)))


def put_manifest(directory: Path, manifest: bytes) -> None:
    """Good files under a manifest of any bytes."""
    put(directory)
    (directory / MANIFEST).write_bytes(manifest)


Case = Callable[[Path, Path], None]


def _tensor_files() -> dict[str, bytes]:
    """Bad safetensors files by name."""
    two = {**one(), **one(offsets=(4, 12), name="v")}
    gap = {**one(), **one(offsets=(12, 20), name="v")}
    twice = b'{"w":%s,"w":%s}' % ((json.dumps(one()["w"]).encode(),) * 2)
    entry = b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    return {
        "header length 2^63": safetensors(one(), bytes(8), length=1 << 63),
        "header length 2^64-1": safetensors(one(), bytes(8), length=(1 << 64) - 1),
        "header longer than the file": safetensors(one(), bytes(8), length=10_000),
        "header over all the file": safetensors(one(), bytes(8), length=len(GOOD_TENSORS)),
        "header of no bytes": safetensors(b""),
        "seven bytes": b"\x01\0\0\0\0\0\0",
        "empty file": b"",
        "header of 5 MB of blanks": safetensors(b"{}" + b" " * (5 << 20)),
        "header of nested lists": safetensors(b"[" * 100_000 + b"]" * 100_000),
        "header of nested objects": safetensors(b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        "header of a million lists": safetensors(b"[" + b"[]," * 1_000_000 + b"[]]"),
        "header is a list": safetensors([]),
        "header is a number": safetensors(7),
        "header is not UTF-8": safetensors(b'{"\xff":1}'),
        "header is cut": safetensors(b'{"w":'),
        "header with NaN": safetensors(b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[NaN,8]}}', bytes(8)),
        "header with 1e999": safetensors(b'{"w":{"dtype":"F32","shape":[1e999],"data_offsets":[0,8]}}', bytes(8)),
        "header with 5,000 digits": safetensors(
            b'{"w":{"dtype":"F32","shape":[' + b"9" * 5000 + b'],"data_offsets":[0,8]}}', bytes(8)
        ),
        "duplicate tensor": safetensors(twice, bytes(8)),
        "30,000 tensors": safetensors(b"{" + b",".join(entry % i for i in range(30_000)) + b"}"),
        "overlapping tensors": safetensors(two, bytes(12)),
        "same bytes twice": safetensors({**one(), **one(name="v")}, bytes(8)),
        "gap between tensors": safetensors(gap, bytes(20)),
        "data after the tensors": safetensors(one(), bytes(80)),
        "data before the tensors": safetensors(one(offsets=(8, 16)), bytes(16)),
        "negative offsets": safetensors(one(offsets=(-8, 0)), bytes(8)),
        "offsets beyond the file": safetensors(one(shape=(1 << 20,), offsets=(0, 1 << 22)), bytes(8)),
        "offsets reversed": safetensors(one(offsets=(8, 0)), bytes(8)),
        "offsets as floats": safetensors(one(offsets=(0.0, 8.0)), bytes(8)),
        "offsets as booleans": safetensors(one(dtype="U8", shape=(1,), offsets=(False, True)), bytes(1)),
        "offsets as text": safetensors(one(offsets="08"), bytes(8)),
        "three offsets": safetensors(one(offsets=(0, 4, 8)), bytes(8)),
        "huge shape": safetensors(one(shape=(1 << 40, 1 << 40)), bytes(8)),
        "shape that wraps at 2^64": safetensors(one(shape=(1 << 32, 1 << 32), offsets=(0, 0))),
        "shape of 2^62 and 0": safetensors(one(shape=(0, 1 << 62), offsets=(0, 0))),
        "negative shape": safetensors(one(shape=(-1, -2)), bytes(8)),
        "shape of 1,000 dimensions": safetensors(one(shape=(1,) * 999 + (2,)), bytes(8)),
        "shape of objects": safetensors(one(shape=({},)), bytes(8)),
        "shape as a number": safetensors(one(shape=2), bytes(8)),
        "unknown dtype": safetensors(one(dtype="OBJECT"), bytes(8)),
        "dtype as a list": safetensors(one(dtype=["F32"]), bytes(8)),
        "dtype of Python": safetensors(one(dtype="O"), bytes(8)),
        "missing key": safetensors({"w": {"dtype": "F32", "shape": (2,)}}, bytes(8)),
        "more keys": safetensors({"w": {**one()["w"], "code": "import os"}}, bytes(8)),
        "tensor is a number": safetensors({"w": 1}, bytes(8)),
        "metadata": safetensors({"__metadata__": {"a": "b" * 1000}, **one()}, bytes(8)),
        "name with ..": safetensors(one(name="../../etc/passwd"), bytes(8)),
        "name with a root": safetensors(one(name="/etc/passwd"), bytes(8)),
        "name with a dot part": safetensors(one(name="a/./b"), bytes(8)),
        "name with a backslash": safetensors(one(name="..\\..\\boot.ini"), bytes(8)),
        "name with NUL": safetensors(one(name="w\0.pkl"), bytes(8)),
        "name with a line break": safetensors(one(name="w\nerror: none"), bytes(8)),
        "name of 10,000 characters": safetensors(one(name="w" * 10_000), bytes(8)),
        "empty name": safetensors(one(name=""), bytes(8)),
        "half a character as name": safetensors(b'{"\\ud800":%s}' % json.dumps(one()["w"]).encode(), bytes(8)),
        "boolean of other bytes": safetensors(one(dtype="BOOL", shape=(2,), offsets=(0, 2)), b"\x02\xff"),
    }


def _state_files() -> dict[str, bytes]:
    """Bad state files by name."""
    return {
        "lists nested 100,000 deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "lists nested 70 deep": b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",
        "objects nested 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        "unclosed lists": b'{"a":' + b"[" * 50_000,
        "million empty lists": b'{"a":[' + b"[]," * 1_000_000 + b"[]]}",
        "million small objects": b'{"a":[' + b'{"b":1},' * 400_000 + b"{}]}",
        "NaN": b'{"a":NaN}',
        "Infinity": b'{"a":-Infinity}',
        "1e999": b'{"a":1e999}',
        "integer of a million digits": b'{"a":' + b"9" * 1_000_000 + b"}",
        "duplicate keys": b'{"generation":1,"generation":2}',
        "unknown marker": b'{"$reduce":["os.system","true"]}',
        "marker of no float": b'{"a":{"$float":"__import__"}}',
        "marker of a list": b'{"a":{"$float":["nan"]}}',
        "more than 4 MB": b'{"a":"' + b"x" * (5 << 20) + b'"}',
        "not UTF-8": b'{"a":"\xff\xfe"}',
        "UTF-16": '{"a":1}'.encode("utf-16"),
        "byte order mark": b"\xef\xbb\xbf{}",
        "list at the top": b"[1,2]",
        "text at the top": b"\"__import__('os')\"",
        "Python source": b"__import__('os').system('true')",
        "comment": b'{"a":1} // trust me',
        "unclosed string of quotes": b'{"a":"' + b'\\"' * 1_500_000,
        "empty state": b"",
        "NUL bytes": bytes(1000),
    }


def _manifests() -> dict[str, bytes]:
    """Bad manifests by name, over good files."""
    body = body_for(GOOD_TENSORS, GOOD_STATE)
    good = body["files"][STATE]
    table = {TENSORS: body["files"][TENSORS]}

    def files(**changes: object) -> bytes:
        return sealed({**body, "files": {**table, STATE: {**good, **changes}}})

    deep = b'{\n  "a": ' + b"[" * 30_000 + b"]" * 30_000 + b"\n}"
    return {
        "empty manifest": b"",
        "manifest without a seal": json.dumps(body, indent=2).encode(),
        "manifest with a wrong seal": sealed(body).replace(b'"exact": true', b'"exact": false'),
        "manifest with more after the seal": sealed(body) + b" ",
        "manifest of 1 MB": sealed({**body, "config_hash": "x" * (1 << 20)}),
        "manifest nested deep": sealed(deep),
        "manifest is a list": sealed(b"[1"),
        "manifest is not JSON": sealed(b"os.system('true')\n}"),
        "file name with ..": sealed({**body, "files": {**table, "../../state.json": good}}),
        "file name with a root": sealed({**body, "files": {**table, "/etc/passwd": good}}),
        "file name of its own": sealed({**body, "files": {**body["files"], MANIFEST: good}}),
        "file not listed": sealed({**body, "files": table}),
        "one file more listed": sealed({**body, "files": {**body["files"], "code.pkl": good}}),
        "files is a list": sealed({**body, "files": [TENSORS, STATE]}),
        "files missing": sealed({key: value for key, value in body.items() if key != "files"}),
        "size negative": files(size=-1),
        "size NaN": files(size={"$float": "nan"}),
        "size a float": files(size=16.0),
        "size a boolean": files(size=True),
        "size text": files(size="16"),
        "size 2^70": files(size=1 << 70),
        "size too small": files(size=3),
        "digest too short": files(sha256="00"),
        "digest a list": files(sha256=["0" * 64]),
        "digest of others": files(sha256="0" * 64),
        "digest with a line break": files(sha256="0" * 64 + "\n"),
        "version text": sealed({**body, "format_version": "1"}),
        "version a boolean": sealed({**body, "format_version": True}),
        "version negative": sealed({**body, "format_version": -1}),
        "version 10^30": sealed({**body, "format_version": 10**30}),
        "version missing": sealed({key: value for key, value in body.items() if key != "format_version"}),
        "unknown field": sealed({**body, "run": "os.system('true')"}),
        "exact is text": sealed({**body, "exact": "true"}),
        "step is negative": sealed({**body, "step": -1}),
        "metric is text": sealed({**body, "metric": "high"}),
        "versions of numbers": sealed({**body, "versions": {"surefoot": 1}}),
        "hash is a list": sealed({**body, "config_hash": []}),
    }


def _archive_of(canary: Path, kind: str) -> bytes:
    """An archive with a pickle inside, as other libraries read it."""
    code = pickle.dumps(Payload(canary))
    buffer = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("archive/data.pkl", code)
    elif kind == "tar":
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            member = tarfile.TarInfo("../../data.pkl")
            member.size = len(code)
            archive.addfile(member, io.BytesIO(code))
    else:
        np.save(buffer, np.array([Payload(canary)], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def _with_extra(name: str, data: bytes) -> Case:
    def build(directory: Path, canary: Path) -> None:
        put(directory)
        (directory / name).write_bytes(data or pickle.dumps(Payload(canary)))

    return build


def _replaced(name: str, replace: Callable[[Path], object]) -> Case:
    """A good checkpoint in which one file is something else."""

    def build(directory: Path, canary: Path) -> None:
        put(directory)
        (directory / name).unlink()
        replace(directory / name)

    return build


def _linked(name: str) -> Case:
    """A good checkpoint in which one file is a link to an equal file outside."""

    def build(directory: Path, canary: Path) -> None:
        put(directory)
        outside = directory.parent / f"outside-{directory.name}"
        (directory / name).rename(outside)
        (directory / name).symlink_to(outside)

    return build


def _make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket is at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(here)


def _places() -> dict[str, Case]:
    """Files that are not files, and files that do not belong."""
    cases: dict[str, Case] = {}
    for name in (TENSORS, STATE, MANIFEST):
        cases[f"{name} links outside"] = _linked(name)
        cases[f"{name} links to /dev/zero"] = _replaced(name, lambda path: path.symlink_to("/dev/zero"))
        cases[f"{name} links to nothing"] = _replaced(name, lambda path: path.symlink_to("nowhere"))
        cases[f"{name} links to itself"] = _replaced(name, lambda path: path.symlink_to(path.name))
        cases[f"{name} is a fifo"] = _replaced(name, os.mkfifo)
        cases[f"{name} is a directory"] = _replaced(name, os.mkdir)
        cases[f"{name} is a socket"] = _replaced(name, _make_socket)
        cases[f"{name} is missing"] = _replaced(name, lambda path: None)
    cases["hidden file more"] = _with_extra(".hidden", b"x")
    cases["the checkpoint is a file"] = lambda directory, canary: directory.touch()
    cases["the checkpoint is a link to itself"] = lambda directory, canary: directory.symlink_to(directory.name)
    cases["the checkpoint is a fifo"] = lambda directory, canary: os.mkfifo(directory)
    return cases


def _pickles() -> dict[str, Case]:
    """Pickles in every place."""

    def everywhere(make: Callable[[Path], bytes]) -> dict[str, Case]:
        return {
            TENSORS: lambda directory, canary: put(directory, tensors=make(canary)),
            STATE: lambda directory, canary: put(directory, state=make(canary)),
            MANIFEST: lambda directory, canary: put_manifest(directory, make(canary)),
        }

    makers: dict[str, Callable[[Path], bytes]] = {
        "pickle": lambda canary: pickle.dumps(Payload(canary)),
        "old pickle": lambda canary: pickle.dumps(Payload(canary), protocol=0),
        "zip": lambda canary: _archive_of(canary, "zip"),
        "tar": lambda canary: _archive_of(canary, "tar"),
        "npy of objects": lambda canary: _archive_of(canary, "npy"),
    }
    cases = {f"{kind} as {place}": case for kind, make in makers.items() for place, case in everywhere(make).items()}
    cases["pickle beside the files"] = _with_extra("data.pkl", b"")
    cases["sealed pickle as manifest"] = lambda directory, canary: put_manifest(
        directory, sealed(pickle.dumps(Payload(canary)))
    )
    return cases


def refused_cases() -> dict[str, Case]:
    """Everything that a reader must refuse, by name."""

    def with_tensors(data: bytes) -> Case:
        return lambda directory, canary: put(directory, tensors=data)

    def with_state(data: bytes) -> Case:
        return lambda directory, canary: put(directory, state=data)

    def with_manifest(data: bytes) -> Case:
        return lambda directory, canary: put_manifest(directory, data)

    return {
        **{f"tensors: {name}": with_tensors(data) for name, data in _tensor_files().items()},
        **{f"state: {name}": with_state(data) for name, data in _state_files().items()},
        **{f"manifest: {name}": with_manifest(data) for name, data in _manifests().items()},
        **{f"place: {name}": case for name, case in _places().items()},
        **{f"code: {name}": case for name, case in _pickles().items()},
    }


def harmless_cases() -> dict[str, Case]:
    """Hostile but well-formed: data that stays data. Reading may succeed, cheaply and without effect."""
    pixels = 48 << 20
    return {
        "pickle as the bytes of a tensor": lambda directory, canary: _put_octets(
            directory, pickle.dumps(Payload(canary))
        ),
        "source text as a value": lambda directory, canary: put(
            directory, state=json.dumps({"code": f"__import__('os').mkdir({str(canary)!r})"}).encode()
        ),
        "jsonpickle": lambda directory, canary: put(
            directory, state=json.dumps({"py/reduce": [{"py/type": "os.mkdir"}, [str(canary)]]}).encode()
        ),
        "4 MB of text with one wide character": lambda directory, canary: put(
            directory, state=b'{"a":"\\ud83d\\ude00' + b"x" * (4 * 10**6) + b'"}'
        ),
        "one object of 190,000 keys": lambda directory, canary: put(
            directory, state=b"{" + b",".join(b'"%d":{}' % i for i in range(95_000)) + b"}"
        ),
        "20,000 empty tensors": lambda directory, canary: put(
            directory,
            tensors=safetensors({f"w{i}": one("U8", (0,), (0, 0))["w"] for i in range(20_000)}),
        ),
        "48 MB of zeros": lambda directory, canary: _put_octets(directory, bytes(pixels)),
    }


def _put_octets(directory: Path, data: bytes) -> None:
    put(directory, tensors=safetensors(one("U8", (len(data),), (0, len(data))), data))
