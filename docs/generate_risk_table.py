"""Writes docs/risk-functionals.md: how far each CVaR rule is from the truth, computed here and now.

Run: python docs/generate_risk_table.py
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.errors import SurefootWarning
from surefoot.math.quantile import midpoints
from surefoot.math.risk import cvar_from_quantiles

PAGE = Path(__file__).with_name("risk-functionals.md")
SIZES = (21, 32, 51, 101)
ALPHAS = (0.01, 0.05, 0.1, 0.25)
KAPPAS = (0.0, 0.02, 0.05, 0.25, 1.0)
SAMPLE = 4_000

TEXT = """# Risk functionals

Made by `python docs/generate_risk_table.py`; edit that, not this.

A low return is a bad one. VaR_α is the return that a share α of outcomes does not exceed, CVaR_α the mean of those
outcomes. `surefoot.math.risk` computes both from quantiles, from atoms with probabilities and from samples.

## From quantiles

A quantile critic knows a distribution by N numbers, its quantiles at the levels (i + ½)/N. What the distribution does
below the lowest of them is a guess, and rules differ in it:

- **ours** (`rule="tail"`, the default) draws the quantile function straight in the normal score from quantile to
  quantile, and goes on below the lowest as its neighbours suggest. A gap among the lowest (a rare crash, and nothing
  between it and the ordinary) is not extrapolated; then it is the step rule.
- **step** (`rule="step"`) takes the quantiles for N equally likely outcomes. It is exact for those, and for samples.
- **audited** is the rule of the code base whose audit began this project: straight in the level, and a trapezoid at
  the end.

Error of CVaR_α from *exact* quantiles, in percent of the true value; positive is too optimistic. α·N < 1 rests on less
than one quantile, and `cvar_from_quantiles` warns.

{errors}
{verdict}

A Student-t(3) tail is a power: no rule can see from the lowest quantiles how heavy it is further out.

## From a trained critic

Exact quantiles are not what training finds. The quantile Huber loss is quadratic within κ of its minimum, and draws the
quantile of level τ towards the middle by about κ·(½ − τ). `critic.kappa` is κ as a share of the returns' std. Where
the loss is least, for N = 32 and the default rule:

{kappas}

κ = 1 with targets of std 1 is what the audited code base used: it learned expectiles. Hence the default of 0.02.

The mean of N quantiles misses what the outermost 1/2N on each side have beyond their neighbours. On both sides alike
that cancels; if one tail is much longer than the other it does not:

{means}

A quantile critic's V is off by as much, in relation to the std of the return from there on. Where that matters, take
more quantiles, or a categorical critic, whose mean has no such error.

## Which return the tail is of

`critic.targets = "lambda"` regresses on λ-returns. A λ-return with λ < 1 replaces what comes after a while by its mean,
so its distribution has thinner tails than that of the return. Two choices keep the tails:

- `"monte_carlo"` regresses on the return itself (λ = 1), as far as the rollout goes. It costs no more, and the mean
  is learned from noisier targets; at the end of a rollout the critic's mean stands in for what follows, so rollouts
  should be longer than episodes.
- `"backup"` regresses every quantile on every one of r + γ·Z(s′). It needs no whole episodes; news travels by one step
  per update, and N² pairs take their time.

`"auto"` is `"monte_carlo"` if `risk.kind` is about CVaR, and `"lambda"` if not. The advantages of the policy are with
`ppo.gae_lambda` in any case. `risk/coverage_05`, `_25`, `_75`, `_95` say what share of the returns of finished episodes
lies below the critic's 5, 25, 75 and 95 % quantiles; from no prediction is anything taken for them.
"""


class KnownDistribution(NamedTuple):
    """A distribution with its quantile function and its exact lower CVaR."""

    name: str
    quantile: Callable[[float], float]
    cvar: Callable[[float], float]


NORMAL = NormalDist()


def normal_cvar(alpha: float) -> float:
    return -NORMAL.pdf(NORMAL.inv_cdf(alpha)) / alpha


def student_cdf(x: float) -> float:
    s = x / math.sqrt(3.0)
    return 0.5 + (s / (1.0 + s * s) + math.atan(s)) / math.pi


def student_quantile(level: float) -> float:
    low, high = -1e4, 1e4
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if student_cdf(middle) < level else (low, middle)
    return 0.5 * (low + high)


def student_cvar(alpha: float) -> float:
    """−f(x)·(3 + x²)/(2α) with f the density of t(3) and x its α-quantile."""
    x = student_quantile(alpha)
    return -3.0 * math.sqrt(3.0) / (math.pi * (3.0 + x * x) * alpha)


def right_skewed_cvar(alpha: float) -> float:
    return math.exp(0.5) * NORMAL.cdf(NORMAL.inv_cdf(alpha) - 1.0) / alpha


def left_skewed_cvar(alpha: float) -> float:
    return -math.exp(0.5) * NORMAL.cdf(NORMAL.inv_cdf(alpha) + 1.0) / alpha


DISTRIBUTIONS = (
    KnownDistribution("normal", NORMAL.inv_cdf, normal_cvar),
    KnownDistribution("student-t(3)", student_quantile, student_cvar),
    KnownDistribution("lognormal", lambda level: math.exp(NORMAL.inv_cdf(level)), right_skewed_cvar),
    KnownDistribution("-lognormal", lambda level: -math.exp(-NORMAL.inv_cdf(level)), left_skewed_cvar),
)
"""Normal and log-normal lie within the family that the tail rule extrapolates with; Student-t(3) does not."""


class Cell(NamedTuple):
    """Relative errors of the three rules for one distribution, N and α."""

    distribution: str
    n: int
    alpha: float
    ours: float
    step: float
    audited: float


def audited_cvar(q: Sequence[float], alpha: float) -> float:
    """The audited rule on ascending quantiles: straight between (i + ½)/N, extrapolated through the lowest two."""
    n = len(q)

    def at(x: float) -> float:
        """Through the points (i, q_i)."""
        i = min(max(math.floor(x), 0), n - 2)
        return q[i] + (x - i) * (q[i + 1] - q[i])

    end = alpha * n - 0.5
    whole = max(math.floor(end), 0)
    if whole >= n - 1:
        return float(cvar_from_quantiles(torch.tensor(q, dtype=torch.float64), alpha, "step"))
    rest = 0.5 * (at(whole - 0.5) + at(end)) * (alpha - whole / n)
    return (sum(q[:whole]) / n + rest) / alpha


def cells() -> list[Cell]:
    """The whole table."""
    found = []
    for distribution in DISTRIBUTIONS:
        for n in SIZES:
            q = quantiles(distribution, n)
            for alpha in ALPHAS:
                exact = distribution.cvar(alpha)
                rules = (
                    float(cvar_from_quantiles(q, alpha)),
                    float(cvar_from_quantiles(q, alpha, "step")),
                    audited_cvar(q.tolist(), alpha),
                )
                found.append(
                    Cell(distribution.name, n, alpha, *((estimate - exact) / abs(exact) for estimate in rules))
                )
    return found


def quantiles(distribution: KnownDistribution, n: int) -> Tensor:
    """Exact midpoint quantiles [n]."""
    return torch.tensor([distribution.quantile(level) for level in midpoints(n, dtype=torch.float64).tolist()])


def error_tables(table: list[Cell]) -> str:
    """One table for each distribution."""
    lines = []
    for distribution in DISTRIBUTIONS:
        head = " | ".join(f"α = {alpha:g}: ours | step | audited" for alpha in ALPHAS)
        lines += [f"### {distribution.name}", "", f"| N | {head} |", "|" + "---:|" * (1 + 3 * len(ALPHAS))]
        for n in SIZES:
            row = [cell for cell in table if cell.distribution == distribution.name and cell.n == n]
            errors = " | ".join(f"**{percent(c.ours)}** | {percent(c.step)} | {percent(c.audited)}" for c in row)
            lines.append(f"| {n} | {errors} |")
        lines.append("")
    return "\n".join(lines)


def verdict(table: list[Cell]) -> str:
    """Where ours is not at most half as far off as the audited rule."""
    close = [c for c in table if abs(c.ours) > 0.5 * abs(c.audited)]
    text = f"Ours is at most half as far off as the audited rule in {len(table) - len(close)} of {len(table)} cells"
    if not close:
        return f"{text}."
    listed = [
        f"- {c.distribution}, N = {c.n}, α = {c.alpha:g}: {percent(c.ours)} against {percent(c.audited)}" for c in close
    ]
    worst = max(abs(c.ours) for c in close)
    return "\n".join([f"{text}. In the others it is off by {100 * worst:.2f} % at most:", "", *listed])


def percent(error: float) -> str:
    """Two digits below 10 %."""
    text = f"{100 * error:+.2f}" if abs(error) < 0.0995 else f"{100 * error:+.1f}"
    return "0.00" if text in ("+0.00", "-0.00") else text


def huber_quantiles(sample: Tensor, levels: Tensor, kappa: float) -> Tensor:
    """Where τ·E[min(u⁺/κ, 1)] = (1 − τ)·E[min(u⁻/κ, 1)], u = y − q, by bisection; κ = 0 is the quantile itself."""
    low, high = sample.min().expand_as(levels), sample.max().expand_as(levels)
    for _ in range(60):
        middle = 0.5 * (low + high)
        u = sample - middle.unsqueeze(1)
        pull = torch.sign(u) if kappa == 0.0 else (u / kappa).clamp(-1.0, 1.0)
        slope = (levels.unsqueeze(1) * pull.clamp(min=0.0) + (1.0 - levels.unsqueeze(1)) * pull.clamp(max=0.0)).mean(1)
        low, high = torch.where(slope > 0, middle, low), torch.where(slope > 0, high, middle)
    return 0.5 * (low + high)


def kappa_table() -> str:
    """Lowest quantile and CVaR at the minimum of the loss."""
    n, alpha = 32, 0.05
    levels = midpoints(n, dtype=torch.float64)
    score = torch.special.ndtri((torch.arange(SAMPLE, dtype=torch.float64) + 0.5) / SAMPLE)
    lines = [
        "| κ / std | normal: q_0 | CVaR 5 % | error, % | -lognormal: q_0 | CVaR 5 % | error, % |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    samples = {"normal": score, "-lognormal": -torch.exp(-score)}
    for kappa in KAPPAS:
        texts = []
        for distribution in DISTRIBUTIONS:
            if distribution.name not in samples:
                continue
            sample = samples[distribution.name]
            found = huber_quantiles(sample, levels, kappa * float(sample.std()))
            cvar, exact = float(cvar_from_quantiles(found, alpha)), distribution.cvar(alpha)
            texts.append(f"{float(found[0]):.2f} | {cvar:.2f} | {100 * (cvar - exact) / abs(exact):+.1f}")
        lines.append(f"| {kappa:g} | {' | '.join(texts)} |")
    truths = [distribution for distribution in DISTRIBUTIONS if distribution.name in samples]
    exact_row = " | ".join(
        f"{distribution.quantile(0.5 / n):.2f} | {distribution.cvar(alpha):.2f} | " for distribution in truths
    )
    return "\n".join([*lines, f"| truth | {exact_row} |"])


def mean_table() -> str:
    """Mean of exact quantiles against the mean, in standard deviations."""
    mean, std = math.exp(0.5), math.sqrt((math.e - 1.0) * math.e)
    lognormal = next(distribution for distribution in DISTRIBUTIONS if distribution.name == "lognormal")
    lines = ["| N | normal, student-t(3) | lognormal, in % of its std |", "|---:|---:|---:|"]
    for n in SIZES:
        gap = (float(quantiles(lognormal, n).double().mean()) - mean) / std
        lines.append(f"| {n} | 0.0 | {100 * gap:+.1f} |")
    return "\n".join(lines)


def page() -> str:
    """The whole document."""
    with warnings.catch_warnings():
        # The table is meant to show α·N < 1 too.
        warnings.simplefilter("ignore", SurefootWarning)
        table = cells()
        return TEXT.format(errors=error_tables(table), verdict=verdict(table), kappas=kappa_table(), means=mean_table())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
