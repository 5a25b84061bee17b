"""The section ``market``: prices, how they are split by time, and what is simulated on them."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Len, Lt
from pydantic import Field, field_validator

from surefoot.config.section import Section

Words = Annotated[tuple[str, ...], Field(strict=False)]
Numbers = Annotated[tuple[float, ...], Field(strict=False)]
Moments = Annotated[tuple[str, ...], Field(strict=False), Len(0, 2)]
"""Begin and end of a span, the end excluded; one is the begin of a span to the end of the data."""


class MarketConfig(Section):
    """Prices to trade on, for env surefoot/Market-v0. They become env_kwargs and run.eval_env_kwargs when a run is
    made; docs/market.md and docs/market-simulator.md tell more."""

    data: str = ""
    """A CSV or Parquet file, the name of a data set (`surefoot market data`), or generated:NAME(seed=0, …)."""
    fingerprint: str = ""
    """sha256 that the data must have; empty takes what is there. The configuration of a run has it."""
    instrument: str | None = None
    """Which one, if the file has several."""
    stamp: Literal["open", "close"] | None = None
    """Whether stamps are of the open or close of bars; needed for bars within the day."""
    calendar: str | None = None
    """fx, crypto, none, or an exchange such as XNYS."""
    timezone: str | None = None
    """Of stamps without offset (else UTC), and of features of the time of day."""
    dates: str | None = None
    """Order of day and month (dmy, mdy) or unit of numbers (s, ms, us, ns)."""
    decimal: Literal[".", ","] = "."
    """Decimal mark of the file."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Columns of the file by role where their names do not tell, as JSON: '{"close": "PX_LAST"}'."""
    extra: Words = ()
    """Further columns of numbers, known at the close of their bar, for features such as column('NAME')."""
    repair: Words = ()
    """Policies by which faulty rows are repaired; recorded with the run."""
    accept: Words = ()
    """Rules of `surefoot market check` that are a matter of judgement, and were judged."""

    fractions: Annotated[Numbers, Len(2, 3)] = (0.6, 0.2, 0.2)
    """Shares of the bars for training, validation and, in the end, a test; in the order of time."""
    train: Moments = ()
    """Begin and end of training in place of fractions: 2000 2010."""
    validation: Moments = ()
    """Begin and end of the validation that stops training early: 2010 2014."""
    test: Moments = ()
    """Begin and end of what training must not touch; it may be left out."""

    features: Words = ()
    """What is seen of prices, such as return(1) rsi(14) rsi(14)@4h; none is a default list."""
    window: Annotated[int, Ge(1)] = 1
    """Rows of features that are seen at once."""
    action: Literal["target", "levels"] = "target"
    """A position as a fraction of equity, or one of levels."""
    levels: Annotated[Numbers, Len(2)] = (-1.0, 0.0, 1.0)
    """Positions to choose from (action = levels)."""
    allow_short: bool = True
    """Whether positions below 0 are allowed."""
    costs: dict[str, float] | None = None
    """Costs by name as JSON: '{"half_spread_bps": 1, "commission_bps": 0.5}', which none stands for; '{}' is free."""
    cost_multiplier: Annotated[Numbers, Len(1, 2)] = (1.0,)
    """Of all costs in training; of two numbers one between them is drawn for each episode."""
    reward: Annotated[Words, Len(1)] = ("log_growth",)
    """Components that add up, such as log_growth "drawdown(0.1, coef=2)"."""
    cost: str | None = None
    """What info["cost"] is, for risk.kind = cost_constraint: drawdown:0.1, turnover or exposure."""
    episode_length: Annotated[tuple[Annotated[int, Ge(1)], ...], Field(strict=False), Len(0, 2)] = ()
    """Steps of an episode in training; of two numbers one between them is drawn; none runs to the end of the span."""
    random_start: bool = True
    """Whether episodes of training begin anywhere in their span."""
    no_trade: Words = ()
    """Windows without trading, such as "22:00-23:15" "fri 20:00-24:00"."""
    position_limits: dict[str, float] = Field(default_factory=dict)
    """Largest position by window, as JSON: '{"always": 0.5}'."""
    rebalance_band: Annotated[float, Ge(0.0), Lt(1.0)] = 0.0
    """Trades below this fraction of equity are not made."""
    capital: Annotated[float, Gt(0.0)] = 10_000.0
    """Money that an account starts with."""
    ruin: Annotated[float, Ge(0.0), Lt(1.0)] = 0.1
    """The fraction of capital at which an account is closed."""

    @field_validator("train", "validation", "test", mode="before")
    @classmethod
    def _years_and_dates_are_moments(cls, value: Any) -> Any:
        """``2010`` on the command line is a number, ``2010-01-01`` in TOML a date."""
        if not isinstance(value, list | tuple):
            return value
        return tuple(str(x) if isinstance(x, int | date) and not isinstance(x, bool) else x for x in value)


READING = (
    "instrument",
    "stamp",
    "calendar",
    "timezone",
    "dates",
    "decimal",
    "columns",
    "extra",
    "repair",
    "accept",
)
"""What is said about the data."""
SIMULATED = (
    "features",
    "window",
    "action",
    "levels",
    "allow_short",
    "costs",
    "cost_multiplier",
    "reward",
    "cost",
    "episode_length",
    "random_start",
    "no_trade",
    "position_limits",
    "rebalance_band",
    "capital",
    "ruin",
)
"""What is said about the simulator."""


def market_errors(market: MarketConfig) -> list[str]:
    """Settings that cannot act together, each as a sentence."""
    usual = MarketConfig()
    given = [name for name in type(market).model_fields if getattr(market, name) != getattr(usual, name)]
    if not market.data:
        return [f"market.{', market.'.join(given)} needs market.data: say which prices, --data FILE"] if given else []
    found = []
    if "levels" in given and market.action != "levels":
        found.append('market.levels needs market.action = "levels"')
    by_date = [name for name in ("train", "validation", "test") if name in given]
    if by_date and "fractions" in given:
        found.append(f"market.fractions and market.{', market.'.join(by_date)} both say the spans: give one of them")
    if by_date and not (market.train and market.validation):
        found.append(f"market.{', market.'.join(by_date)}: give the dates of both market.train and market.validation")
    if not by_date:
        shares = market.fractions
        if any(x <= 0.0 for x in shares[:2]) or any(x < 0.0 for x in shares) or sum(shares) > 1.0 + 1e-9:
            found.append(
                f"market.fractions = {list(shares)} must be positive for training and validation, and 1 at most in all"
            )
    return found
