"""What goes wrong in PPO, as data: one row for each id that comments cite (`# A02`).

`docs/pitfalls.md` is made from it.
"""

from __future__ import annotations

import difflib

from surefoot.catalogue import (
    actions,
    critics,
    memory,
    optimization,
    policy_objective,
    populations,
    returns,
    risk,
    system,
    trading,
)
from surefoot.catalogue.row import AREAS, VERDICTS, Row, Verdict
from surefoot.errors import CatalogueError

__all__ = ["AREAS", "ROWS", "VERDICTS", "Row", "Verdict", "row"]

ROWS: dict[str, Row] = {
    entry.id: entry
    for area in (
        policy_objective,
        returns,
        critics,
        risk,
        optimization,
        memory,
        actions,
        populations,
        system,
        trading,
    )
    for entry in area.ROWS
}
"""By id, area after area."""


def row(id: str) -> Row:
    """The row of an id; an error names the nearest one."""
    if id in ROWS:
        return ROWS[id]
    ids = [known for known in ROWS if known[0] == id[:1].upper()]
    names = {entry.name: entry.id for entry in ROWS.values()}
    by_name = difflib.get_close_matches(id, names, n=1)
    by_id = difflib.get_close_matches(id.upper(), ids, n=1)
    near = [*by_id, *(names[name] for name in by_name)]
    advice = f"did you mean {near[0]} ({ROWS[near[0]].name})?" if near else f"its ids begin with {', '.join(AREAS)}"
    raise CatalogueError(f"the catalogue has no row {id!r}; {advice}")
