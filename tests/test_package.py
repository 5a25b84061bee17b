"""The package as a whole: imports point downwards, importing it is quick, the promised names are there."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import surefoot

ROOT = Path(surefoot.__file__).parent

PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \|[^|]*\| *((?:`\w+`,? ?)*) *\|$", re.MULTILINE)
MAP = {
    room: (int(level), frozenset(re.findall(r"`(\w+)`", beside)))
    for level, room, beside in ROW.findall(PAGE.read_text())
}
"""The map of docs/architecture.md: the level of each room, and the rooms of its own level that it may import."""
DOORS = {"__init__", "__main__"}
"""Modules of the package's root that open the way to all rooms."""


def rooms() -> list[str]:
    found = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")}
    return sorted(found - DOORS)


def imported(path: Path) -> Iterator[tuple[str, int]]:
    """Rooms that a file imports, with the line; relative imports are resolved."""
    package = ["surefoot", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module or "").split(".")]
            names = [module] if len(module) > 1 else [[*module, alias.name] for alias in node.names]
        else:
            continue
        yield from ((name[1], node.lineno) for name in names if name[0] == "surefoot" and len(name) > 1)


def edges() -> dict[tuple[str, str], str]:
    """(importing room, imported room) and one place where it happens."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room not in DOORS:
            for other, line in imported(path):
                found.setdefault((room, other), f"{path.relative_to(ROOT.parent)}:{line}")
    return found


def allowed(room: str, other: str) -> bool:
    level, beside = MAP[room]
    return room == other or MAP[other][0] < level or other in beside


def test_the_map_and_the_tree_have_the_same_rooms() -> None:
    assert sorted({*rooms(), "fast"}) == sorted(MAP), "the room `fast` may be missing"


def test_every_file_that_the_pages_name_exists() -> None:
    """Files and folders, below the package or the repository; the room `fast` may be missing."""
    for page in (PAGE, PAGE.parent / "extending.md"):
        named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", page.read_text(encoding="utf-8"))
        assert len(named) > 10
        lost = {path for path in named if not any((root / path).exists() for root in (ROOT, PAGE.parents[1]))}
        assert {path for path in lost if not path.startswith("fast/")} == set()


def test_every_registry_that_the_page_names_exists() -> None:
    """`NAME` in `file.py`, or `NAME` there: the file that stands last before it in the row."""
    found = re.findall(r"`([A-Z_]{4,})` in `([\w/]+\.py)`", PAGE.read_text(encoding="utf-8"))
    assert len(found) >= 6
    for name, path in found:
        root = PAGE.parents[1] if path.startswith("tests/") else ROOT
        assert re.search(rf"^{name}\b", (root / path).read_text(encoding="utf-8"), re.MULTILINE), (name, path)


def test_the_walk_sees_the_imports_that_are_there() -> None:
    seen = edges()
    assert ("train", "algo") in seen
    assert ("config", "errors") in seen
    assert ("cli", "train") in seen


def test_imports_point_downwards() -> None:
    between = {edge: where for edge, where in edges().items() if set(edge) <= set(MAP)}
    assert [
        f"{room} -> {other} in {where}" for (room, other), where in between.items() if not allowed(room, other)
    ] == []


def test_only_one_door_leads_to_the_fast_room() -> None:
    """Without it everything works, only slower."""
    assert {room for room, other in edges() if other == "fast"} <= {"fast", "train"}


def test_no_room_imports_the_front_door() -> None:
    """`from surefoot import PPO` inside the package would make every room depend on all of them."""
    assert {edge for edge in edges() if edge[1] in ("PPO", "Config", "preset")} == set()


def loaded_after(statement: str, watched: str) -> str:
    """Which of the watched modules are loaded after a statement, in a fresh process."""
    code = f"import sys\n{statement}\nprint(sorted(set(sys.modules) & set({watched!r}.split())))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout.strip()


@pytest.mark.parametrize(
    "statement",
    ["import surefoot", "import surefoot; surefoot.__version__", "import surefoot.config, surefoot.catalogue"],
)
def test_importing_the_package_imports_neither_torch_nor_gymnasium(statement: str) -> None:
    assert loaded_after(statement, "torch gymnasium numpy tensorboard") == "[]"


def test_the_public_names_are_there() -> None:
    for name in surefoot.__all__:
        assert getattr(surefoot, name) is not None
    assert {"PPO", "Config", "preset", "math", "__version__"} <= set(surefoot.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"surefoot.*'DQN'"):
        surefoot.DQN  # noqa: B018  # what is under test


def test_public_names_can_be_listed() -> None:
    assert set(surefoot.__all__) <= set(dir(surefoot))


def test_the_package_is_typed() -> None:
    assert (ROOT / "py.typed").is_file()
