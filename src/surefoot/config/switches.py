"""Sections that are off until one setting says otherwise: what is given of them alone would act on nothing (P12)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from surefoot.config.section import Section

if TYPE_CHECKING:
    from surefoot.config.schema import Config

SWITCHES = {
    "memory": "memory.kind",
    "risk": "risk.kind",
    "upgd": "ppo.optimizer",
    "vgs": "vgs.alpha",
    "imitation": "imitation.coef",
    "robust": "robust.kind",
}
OFF = ("none", 0.0)


def switch_errors(given: Mapping[str, Any], config: Config) -> list[str]:
    """Sections of which something is given, be it a default value, and whose switch is off and is not mentioned.

    One that is said to be off may keep its other settings, as a written configuration does.
    """
    found = []
    for section, switch in SWITCHES.items():
        names = _names(given.get(section))
        home, _, name = switch.partition(".")
        if names and name not in _names(given.get(home)) and not _is_on(section, getattr(getattr(config, home), name)):
            found.append(
                f"{', '.join(f'{section}.{x}' for x in sorted(names))} cannot act without {switch}: set it too"
            )
    return found


def _is_on(section: str, value: Any) -> bool:
    return value in ("upgd", "adaupgd") if section == "upgd" else value not in OFF


def _names(part: Any) -> set[str]:
    if isinstance(part, Section):
        return set(part.model_fields_set)
    return set(part) if isinstance(part, Mapping) else set()
