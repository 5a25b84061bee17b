"""What sections of the configuration are made of: the base class, and kinds of numbers with their bounds."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Annotated, Any

from annotated_types import Ge, Le, Lt
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, core_schema

from surefoot.config.schedule import parse_schedule


class Section(BaseModel):
    """A frozen group of settings that rejects unknown keys."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


_REGISTRIES: dict[str, Container[str]] = {}
"""By setting: where names beside those of the schema are looked up."""


def accept_names_of(registry: Container[str], setting: str) -> None:
    """From now on ``setting`` (section.field, marked `Registered`) takes every name that is in ``registry`` by then."""
    _REGISTRIES[setting] = registry


class Registered:
    """Marks a setting that also takes names which callers have registered for parts of their own.

    The schema still lists ours, so that help and error messages do, and so that this room imports none of the parts.
    """

    def __init__(self, setting: str) -> None:
        self._setting = setting

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # Not a Python function: pydantic would wrap a KeyboardInterrupt in it into an error of its own.
        unchanged = core_schema.simple_ser_schema("any")
        return core_schema.no_info_wrap_validator_function(self._check, handler(source), serialization=unchanged)

    def _check(self, value: Any, ours: ValidatorFunctionWrapHandler) -> Any:
        registered = isinstance(value, str) and value in _REGISTRIES.get(self._setting, ())
        return value if registered else ours(value)


def within(low: float, high: float = math.inf) -> AfterValidator:
    """A number or schedule all of whose values lie between two bounds."""

    def check(value: float | str) -> float | str:
        spec = parse_schedule(value)
        for number in spec.all_values():
            if not (math.isfinite(number) and low <= number <= high):
                raise ValueError(f"{number:g} is outside [{low:g}, {high:g}]")
        return spec.values[0] if spec.kind == "constant" else value

    return AfterValidator(check)


def no_decay(value: float | str) -> float | str:
    """Refuse the schedule that only the entropy coefficient knows."""
    if parse_schedule(value).kind == "decay":
        raise ValueError("decay(…) is for ent_coef; use linear, cosine, piecewise or warmup here")
    return value


def is_zero(value: float | str) -> bool:
    """Whether a number, or every value of a schedule, is 0."""
    return not any(parse_schedule(value).all_values())


Coefficient = Annotated[float | str, within(0.0)]
"""A number or a schedule (see `surefoot.config.schedule`), never negative."""
Scheduled = Annotated[Coefficient, AfterValidator(no_decay)]
"""The same without decay(…)."""
Positive = Annotated[int, Ge(1)]
Fraction = Annotated[float, Ge(0.0), Le(1.0)]
Decay = Annotated[float, Ge(0.0), Lt(1.0)]
Pair = Annotated[tuple[Decay, Decay], Field(strict=False)]
Sizes = Annotated[tuple[Positive, ...], Field(strict=False)]


def changed(section: Section, field: str) -> bool:
    """Whether a field differs from its default."""
    usual = type(section).model_fields[field].get_default(call_default_factory=True)
    return bool(getattr(section, field) != usual)


def changed_fields(section: Section, *but: str) -> list[str]:
    """The fields that differ from their defaults."""
    return [name for name in type(section).model_fields if name not in but and changed(section, name)]
