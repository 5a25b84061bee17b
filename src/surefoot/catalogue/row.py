"""What a row of the catalogue is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AREAS = {
    "P": "Policy objective",
    "A": "Returns and advantages",
    "C": "Critics",
    "R": "Risk",
    "O": "Optimization",
    "M": "Memory",
    "F": "Factored and masked actions",
    "B": "Populations and robustness",
    "S": "Populations and robustness",
    "Y": "System",
    "E": "Trading environment",
}
"""The area of a row by the letter of its id, in the order of the page."""

Verdict = Literal["real", "deeper", "style", "option", "false alarm"]

VERDICTS: dict[Verdict, str] = {
    "real": "a defect: learning goes wrong, or something else happens than was asked for",
    "deeper": "the defect that people see is a symptom; the cause is elsewhere",
    "style": "right as it stands, and easy to break",
    "option": "a choice that some tasks need and others do not",
    "false alarm": "looks wrong and is right; a check must not complain about it",
}
"""What each verdict means."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that goes wrong in PPO, or seems to."""

    id: str
    """A letter and two digits. An id is for ever: rows are retired, never renumbered."""
    name: str
    verdict: Verdict
    holds: str
    """What must hold. For a false alarm: what the right code looks like."""
    why: str
    """What goes wrong otherwise. For a false alarm: why it is none."""
    formula: str = ""
    """One formula per line; empty if words say it all."""
    tests: tuple[str, ...] = ()
    """Node ids of tests that show it; empty while there are none, which reads "planned"."""
    planned: str = ""
    """The part that `tests` do not show yet."""

    @property
    def area(self) -> str:
        """The heading under which the row stands."""
        return AREAS[self.id[0]]
