"""What a disk may hold after a power cut.

The model is harsher than common file systems: the data of a file is whole if it was synced, else torn; each
directory keeps any prefix of its changes that includes all before its last sync, whatever others keep.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from faults.operations import Call


@dataclass
class _File:
    data: bytes
    synced: bool


@dataclass
class _Directory:
    base: dict[str, _File | _Directory] = field(default_factory=dict)
    changes: list[dict[str, _File | _Directory | None]] = field(default_factory=list)
    durable: int = 0

    def entries(self, kept: int) -> dict[str, _File | _Directory]:
        found = dict(self.base)
        for change in self.changes[:kept]:
            for name, node in change.items():
                found.pop(name, None)
                if node is not None:
                    found[name] = node
        return found

    def now(self) -> dict[str, _File | _Directory]:
        return self.entries(len(self.changes))


def states_after_power_cut(log: list[Call], base: Path, scratch: Path) -> Iterator[tuple[int, Path]]:
    """(operations done, directory) for each operation count and each state the disk may be in then.

    `base` is the durable start; the log was recorded on a directory at the same path.
    """
    tree = _load(base)
    seen: set[str] = set()
    for index in range(len(log) + 1):
        if index:
            _apply(tree, base, log[index - 1])
        for kept in _choices(tree):
            state = _describe(tree, kept)
            if (key := f"{index == len(log)} {state}") in seen:
                continue
            seen.add(key)
            shutil.rmtree(scratch, ignore_errors=True)
            _write(tree, kept, scratch)
            yield index, scratch


def _load(path: Path) -> _Directory:
    nodes = {
        child.name: _load(child) if child.is_dir() else _File(child.read_bytes(), True) for child in path.iterdir()
    }
    return _Directory(dict(nodes))


def _walk(tree: _Directory) -> list[_Directory]:
    """Every directory that is or was below `tree`, each once, in a fixed order."""
    found: list[_Directory] = []
    queue = [tree]
    while queue:
        node = queue.pop(0)
        if any(node is other for other in found):
            continue
        found.append(node)
        children = [*node.base.values(), *(child for change in node.changes for child in change.values())]
        queue.extend(child for child in children if isinstance(child, _Directory))
    return found


def _choices(tree: _Directory) -> Iterator[dict[int, int]]:
    """For each directory (by id) how many of its changes are kept: all combinations."""
    nodes = _walk(tree)
    ranges = [range(node.durable, len(node.changes) + 1) for node in nodes]
    for kept in itertools.product(*ranges):
        yield {id(node): count for node, count in zip(nodes, kept, strict=True)}


def _find(tree: _Directory, base: Path, path: Path) -> _File | _Directory:
    node: _File | _Directory = tree
    for part in path.relative_to(base).parts:
        assert isinstance(node, _Directory)
        node = node.now()[part]
    return node


def _apply(tree: _Directory, base: Path, call: Call) -> None:
    if call.name == "sync":
        node = _find(tree, base, call.path)
        if isinstance(node, _File):
            node.synced = True
        else:
            node.durable = len(node.changes)
    elif call.name == "write":
        node = _find(tree, base, call.path)
        assert isinstance(node, _File)
        node.data, node.synced = node.data + call.data, False
    elif call.name not in ("close", "open_directory"):
        parent = _find(tree, base, call.path.parent)
        assert isinstance(parent, _Directory)
        parent.changes.append(_change(parent, call))


def _change(parent: _Directory, call: Call) -> dict[str, _File | _Directory | None]:
    name = call.path.name
    if call.name == "make_directory":
        return {name: _Directory()}
    if call.name == "create_file":
        return {name: _File(b"", False)}
    if call.name == "rename":
        assert call.target is not None
        assert call.target.parent == call.path.parent
        return {name: None, call.target.name: parent.now()[name]}
    assert call.name in ("remove_file", "remove_directory"), call.name
    return {name: None}


def _describe(tree: _Directory, kept: dict[int, int]) -> str:
    parts = []
    for name, node in sorted(tree.entries(kept[id(tree)]).items()):
        inner = _describe(node, kept) if isinstance(node, _Directory) else f"{id(node)} {node.synced} {len(node.data)}"
        parts.append(f"{name}({inner})")
    return " ".join(parts)


def _write(tree: _Directory, kept: dict[int, int], path: Path) -> None:
    path.mkdir()
    for name, node in tree.entries(kept[id(tree)]).items():
        if isinstance(node, _Directory):
            _write(node, kept, path / name)
        else:
            torn = node.data[: len(node.data) // 2] + bytes(len(node.data) - len(node.data) // 2)
            (path / name).write_bytes(node.data if node.synced else torn)
