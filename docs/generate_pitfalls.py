"""Writes docs/pitfalls.md: the rows of the catalogue, area after area.

Run: python docs/generate_pitfalls.py
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from surefoot.catalogue import ROWS, VERDICTS, Row

PAGE = Path(__file__).with_name("pitfalls.md")

TEXT = """# Pitfalls of PPO

Made by `python docs/generate_pitfalls.py` from `surefoot.catalogue`; edit those, not this.

What goes wrong in PPO, or seems to: found in reviews of PPO systems in use, and of this one. Comments and tests cite a
row by its id (`# A02`). An id is for ever: rows are retired, never renumbered. Of {rows} rows {shown} are shown by
tests, the others are planned.

{verdicts}

{areas}
"""


def page() -> str:
    """The whole document."""
    verdicts = "\n".join(f"- *{verdict}*: {meaning}." for verdict, meaning in VERDICTS.items())
    areas = [
        "\n\n".join([f"## {name}", *(section(row) for row in rows)])
        for name, rows in groupby(ROWS.values(), lambda row: row.area)
    ]
    shown = sum(bool(row.tests) for row in ROWS.values())
    return TEXT.format(rows=len(ROWS), shown=shown, verdicts=verdicts, areas="\n\n".join(areas))


def section(row: Row) -> str:
    """One row."""
    right, wrong = ("Right", "Why") if row.verdict == "false alarm" else ("Must hold", "Otherwise")
    parts = [f"### {row.id} {row.name}", f"*{row.verdict}*", f"**{right}:** {row.holds}", f"**{wrong}:** {row.why}"]
    if row.formula:
        parts.append(f"```text\n{row.formula}\n```")
    return "\n\n".join([*parts, f"**Shown by:** {shown_by(row)}"])


def shown_by(row: Row) -> str:
    """Links to the tests, and what is still to come."""
    if not row.tests:
        return "planned."
    links = ", ".join(f"[`{test.rpartition('::')[2]}`](../{test.partition('::')[0]})" for test in row.tests)
    return f"{links}; planned: {row.planned}." if row.planned else f"{links}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
