"""The catalogue has a row for every id that is cited, and names tests that are there."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import io
import pkgutil
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from surefoot import catalogue
from surefoot.catalogue import AREAS, ROWS, VERDICTS, row
from surefoot.errors import CatalogueError

ROOT = Path(__file__).parents[2]
ID = re.compile(r"\b[A-Z]\d\d\b")


def said(text: str) -> Iterator[str]:
    """Comments and docstrings of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def unknown(text: str) -> set[str]:
    """Ids that comments and docstrings of a module cite, and that are no rows."""
    # Most files cite rows only, and then there is nothing to parse.
    if set(ID.findall(text)) <= ROWS.keys():
        return set()
    return {found for part in said(text) for found in ID.findall(part)} - ROWS.keys()


@cache
def functions(path: Path) -> frozenset[str]:
    """Test functions of a file as in node ids; those of a class have its name before them."""
    if not path.is_file():
        return frozenset()
    return frozenset(named(ast.parse(path.read_text(encoding="utf-8")).body))


def named(body: list[ast.stmt], before: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield before + node.name
        elif isinstance(node, ast.ClassDef):
            yield from named(node.body, f"{before}{node.name}::")


def where_now(function: str) -> str:
    """Where a test of that name is, for whoever has to mend a node id."""
    found = [
        f"{path.relative_to(ROOT)}::{name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if function in path.read_text(encoding="utf-8")
        for name in sorted(functions(path))
        if name.rpartition("::")[2] == function
    ]
    return " or ".join(found) or "no test of that name"


def test_ids_are_well_formed_and_unique() -> None:
    files = [module.name for module in pkgutil.iter_modules(catalogue.__path__) if module.name != "row"]
    ids = [entry.id for file in files for entry in importlib.import_module(f"surefoot.catalogue.{file}").ROWS]
    assert sorted(ids) == sorted(ROWS)
    for key, entry in ROWS.items():
        assert ID.fullmatch(key)
        assert entry.area in AREAS.values()
        assert entry.verdict in VERDICTS
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.name)
    assert len({entry.name for entry in ROWS.values()}) == len(ROWS)


def test_rows_of_an_area_stand_together_and_in_order() -> None:
    """Else the page would have a heading twice."""
    order = list(AREAS)
    assert list(ROWS) == sorted(ROWS, key=lambda key: (order.index(key[0]), key))


def test_every_row_says_what_must_hold_and_why_in_sentences() -> None:
    for entry in ROWS.values():
        for text in (entry.holds, entry.why):
            assert text.endswith("."), entry.id
            assert "  " not in text, entry.id
        assert not (entry.planned and not entry.tests), f"{entry.id} is planned as a whole"


def test_every_id_cited_in_code_and_tests_is_a_row() -> None:
    found = [
        f"  {path.relative_to(ROOT)}: {', '.join(sorted(ids))}"
        for room in ("src", "tests")
        for path in sorted((ROOT / room).rglob("*.py"))
        if (ids := unknown(path.read_text(encoding="utf-8")))
    ]
    assert not found, "ids that are no rows of the catalogue:\n" + "\n".join(found)


def test_ids_are_found_in_comments_and_docstrings_and_nowhere_else() -> None:
    text = '"""About Z01."""\nX = "Z02"  # Z03, A01\nY = 1\n"""Of Y: Z04."""\n\n\ndef f(Z05):\n    """Z06."""\n'
    assert unknown(text) == {"Z01", "Z03", "Z04", "Z06"}


def test_every_named_test_exists() -> None:
    stale = {}
    for entry in ROWS.values():
        for test in entry.tests:
            file, _, function = test.partition("::")
            if function not in functions(ROOT / file):
                stale[f"{entry.id}: {test}"] = where_now(function.rpartition("::")[2])
    listed = "\n".join(f"  {test}\n    now: {now}" for test, now in stale.items())
    assert not stale, f"{len(stale)} node ids in src/surefoot/catalogue name no test:\n{listed}"


def test_a_moved_test_is_found_by_its_name() -> None:
    here = "test_a_moved_test_is_found_by_its_name"
    assert where_now(here) == f"{Path(__file__).relative_to(ROOT)}::{here}"
    assert where_now("test_that_nobody_wrote") == "no test of that name"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate_pitfalls", ROOT / "docs" / "generate_pitfalls.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
    assert written == generator.page(), "run: python docs/generate_pitfalls.py"


def test_a_row_is_found_by_its_id() -> None:
    assert row("A01").name == "truncation-is-not-termination"
    assert row("A01").area == "Returns and advantages"


@pytest.mark.parametrize(
    ("wanted", "advice"),
    [
        ("a01", r"did you mean A01 \(truncation-is-not-termination\)\?"),
        ("A12", r"did you mean A11 "),
        ("F1", r"did you mean F01 "),
        ("dual-clips", r"did you mean P09 \(dual-clip\)"),
        ("Z99", r"its ids begin with P, A, C"),
        ("", r"its ids begin with P, A, C"),
    ],
)
def test_an_unknown_row_is_an_error_that_names_the_nearest(wanted: str, advice: str) -> None:
    with pytest.raises(CatalogueError, match=rf"no row '{wanted}'; {advice}"):
        row(wanted)
