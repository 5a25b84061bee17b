"""The contract of `surefoot.actions`: every family runs every test here. A new family adds a line to CASES."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from surefoot.actions.distribution import Distribution, Family
from surefoot.actions.registry import family_for

B = 5


@dataclass(frozen=True)
class Case:
    """A space with its options; `grid` holds the mass of a one-dimensional Box's stored actions."""

    name: str
    space: spaces.Space[Any]
    options: dict[str, Any] = field(default_factory=dict)
    mask: list[bool] | None = None
    grid: tuple[float, float] | None = None

    def family(self) -> Family:
        return family_for(self.space, **self.options)

    def params(self, seed: int, scale: float = 1.0, batch: int = B) -> Tensor:
        """Random parameters [batch, n_outputs + n_state_independent] in float64, so that rounding hides nothing."""
        family = self.family()
        width = family.n_parameters
        noise = torch.randn(batch, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        return scale * noise

    def bind(self, params: Tensor) -> Distribution:
        mask = None if self.mask is None else torch.tensor(self.mask).expand(len(params), -1)
        return self.family().bind(params, mask)


def line(low: float, high: float) -> spaces.Box:
    return spaces.Box(low, high, (1,), np.float64)


CASES = [
    Case("discrete", spaces.Discrete(5)),
    Case("discrete-start", spaces.Discrete(3, start=-1)),
    Case("discrete-masked", spaces.Discrete(5), mask=[True, False, True, False, True]),
    Case("discrete-one-legal", spaces.Discrete(4), mask=[False, False, True, False]),
    Case("multidiscrete", spaces.MultiDiscrete([2, 4, 3])),
    Case("multidiscrete-equal", spaces.MultiDiscrete([3, 3], start=[1, -2])),
    Case("multidiscrete-2d", spaces.MultiDiscrete(np.array([[2, 3], [1, 2]]))),
    Case(
        "multidiscrete-masked",
        spaces.MultiDiscrete([2, 3]),
        mask=[True, True, False, True, True],
    ),
    Case(
        "multidiscrete-equal-masked",
        spaces.MultiDiscrete([2, 2]),
        mask=[True, False, True, True],
    ),
    Case("multibinary", spaces.MultiBinary(3)),
    Case("multibinary-2d", spaces.MultiBinary([2, 2])),
    Case("gaussian", line(-np.inf, np.inf), grid=(-60, 60)),
    Case(
        "gaussian-state-dependent",
        line(-np.inf, np.inf),
        {"kind": "gaussian", "state_dependent_std": True, "log_std_init": -0.5},
        grid=(-60, 60),
    ),
    Case("gaussian-2d-float32", spaces.Box(-0.1, np.inf, (2, 2), np.float32)),
    Case("gaussian-float16", spaces.Box(-np.inf, 0.3, (3,), np.float16)),
    Case("gaussian-in-a-far-box", spaces.Box(np.array([100.0, 0.0]), np.array([200.0, 1e-3]), dtype=np.float64)),
    Case("gaussian-scalar", spaces.Box(-1.0, 1.0, (), np.float32)),
    Case("tanh", line(-2.0, 5.0), {"kind": "tanh_gaussian", "log_std_init": -0.7}, grid=(-18, 18)),
    Case(
        "tanh-state-dependent",
        line(0.0, 0.1),
        {"kind": "tanh_gaussian", "state_dependent_std": True, "log_std_init": -0.7},
        grid=(-18, 18),
    ),
    Case(
        "tanh-2d-float32",
        spaces.Box(np.array([-0.1, 0.7], np.float32), np.array([0.1, 3.3], np.float32)),
        {"kind": "tanh_gaussian"},
    ),
    Case("beta", line(-2.0, 5.0), {"kind": "beta"}, grid=(0, 1)),
    Case("beta-2d-float16", spaces.Box(-0.1, 0.3, (2, 2), np.float16), {"kind": "beta"}),
]
SMALL = [case for case in CASES if case.grid or not isinstance(case.space, spaces.Box)]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_small_case = pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sub_action_sizes(space: spaces.Space[Any]) -> list[int]:
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.reshape(-1)]
    assert isinstance(space, spaces.MultiBinary)
    return [2] * int(np.prod(space.shape))


def all_actions(case: Case) -> tuple[Tensor, Tensor]:
    """Stored actions [M, *action_shape] that cover the space, and the measure [M] each stands for.

    Discrete: every action, counted once. A line: a grid in stored units, with the length of env action around
    each point as `to_env` gives it, so that the density is checked in the env's units.
    """
    family = case.family()
    if case.grid is None:
        combinations = list(itertools.product(*(range(n) for n in sub_action_sizes(case.space))))
        actions = torch.tensor(combinations).reshape(-1, *family.action_shape)
        return actions, torch.ones(len(actions), dtype=torch.float64)
    low, high = case.grid
    edges = torch.linspace(low, high, 40_001, dtype=torch.float64)
    middles = (0.5 * (edges[1:] + edges[:-1])).unsqueeze(-1)
    lengths = np.diff(family.to_env(edges.unsqueeze(-1).numpy())[:, 0])
    return middles, torch.from_numpy(lengths)


def log_prob_table(case: Case, params: Tensor, actions: Tensor) -> Tensor:
    """ln p [B, M] of every action under every row of `params`."""
    rows = [
        case.bind(row.expand(len(actions), -1)).log_prob(actions) for row in params
    ]  # one row at a time, as a batch of M
    return torch.stack(rows)


@every_case
def test_shapes_and_dtypes(case: Case) -> None:
    family = case.family()
    params = case.params(0).float()
    dist, other = case.bind(params), case.bind(case.params(1).float())
    for action in (dist.sample(generator(0)), dist.mode()):
        assert action.shape == (B, *family.action_shape)
        assert action.dtype == family.action_dtype
        assert dist.log_prob(action).shape == (B,)
        assert dist.log_prob(action).dtype == torch.float32
    assert dist.entropy().shape == dist.kl(other).shape == (B,)
    assert dist.entropy().dtype == dist.kl(other).dtype == torch.float32
    if family.state_independent is not None:
        assert family.state_independent.dtype == torch.float32
        assert params.shape[1] == family.n_outputs + len(family.state_independent)


@every_case
def test_sampling_depends_on_the_generator_alone(case: Case) -> None:
    dist = case.bind(case.params(0, batch=64))
    before = torch.get_rng_state()
    first = dist.sample(generator(3))
    assert torch.equal(first, dist.sample(generator(3)))
    assert torch.equal(before, torch.get_rng_state())
    if case.name != "discrete-one-legal":
        assert not torch.equal(first, dist.sample(generator(4)))


@every_case
def test_env_actions_are_in_the_space(case: Case) -> None:
    for scale in (1.0, 100.0):
        dist = case.bind(case.params(0, scale, batch=50).float())
        for action in (dist.sample(generator(0)), dist.mode()):
            env_actions = case.family().to_env(action.numpy())
            assert env_actions.shape == (50, *(case.space.shape or ()))
            assert env_actions.dtype == case.space.dtype
            assert all(case.space.contains(np.asarray(row)) for row in env_actions)
            assert not np.shares_memory(env_actions, action.numpy())  # an env may write into its action


@every_small_case
def test_probabilities_sum_to_one(case: Case) -> None:
    actions, measure = all_actions(case)
    total = (log_prob_table(case, case.params(0), actions).exp() * measure).sum(1)
    torch.testing.assert_close(total, torch.ones(B, dtype=torch.float64), rtol=0, atol=1e-6)


@every_small_case
def test_samples_follow_log_prob(case: Case) -> None:
    n = 20_000
    params = case.params(0, batch=1)
    actions, measure = all_actions(case)
    probabilities = (log_prob_table(case, params, actions).exp() * measure)[0]
    drawn = case.bind(params.expand(n, -1)).sample(generator(0))
    if case.grid is None:
        same = (drawn.reshape(n, 1, -1) == actions.reshape(1, len(actions), -1)).all(-1)
        frequencies = same.double().mean(0)
        standard_error = (probabilities * (1 - probabilities) / n).sqrt()
        assert ((frequencies - probabilities).abs() <= 5 * standard_error + 1e-12).all()
    else:
        at_most = torch.searchsorted(drawn[:, 0].sort().values, actions[:, 0].contiguous()).double() / n
        assert (at_most - probabilities.cumsum(0)).abs().max() < 2.2 / n**0.5  # Kolmogorov–Smirnov, 1e-4


@every_small_case
def test_entropy_is_that_of_log_prob(case: Case) -> None:
    params = case.params(0)
    actions, measure = all_actions(case)
    log_probs = log_prob_table(case, params, actions)
    surprise = torch.where(log_probs.exp() > 0, -log_probs * log_probs.exp(), 0.0)
    torch.testing.assert_close(case.bind(params).entropy(), (surprise * measure).sum(1), rtol=1e-3, atol=1e-6)


@every_case
def test_entropy_is_the_mean_surprise_of_samples(case: Case) -> None:
    n = 20_000
    dist = case.bind(case.params(2, scale=0.5, batch=1).expand(n, -1))
    surprise = -dist.log_prob(dist.sample(generator(0)))
    assert abs(surprise.mean() - dist.entropy()[0]) <= 5 * surprise.std() / n**0.5 + 1e-6


@every_small_case
def test_kl_is_that_of_log_prob(case: Case) -> None:
    old, new = case.params(0), case.params(1)
    actions, measure = all_actions(case)
    log_old, log_new = log_prob_table(case, old, actions), log_prob_table(case, new, actions)
    terms = torch.where(log_old.exp() > 0, log_old.exp() * (log_old - log_new), 0.0)
    torch.testing.assert_close(case.bind(old).kl(case.bind(new)), (terms * measure).sum(1), rtol=1e-5, atol=1e-6)


@every_case
def test_kl_is_never_negative_and_zero_to_itself(case: Case) -> None:
    """In float32, for steps down to those that rounding swallows; its gradient is finite."""
    params = case.params(0, scale=3.0, batch=500).float()
    old = case.bind(params)
    assert (old.kl(old) == 0).all()
    for size in (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0):
        moved = (params + size * case.params(1, batch=500).float()).requires_grad_()
        divergence = old.kl(case.bind(moved))
        assert (divergence >= 0).all(), f"steps of {size:g}"
        (gradient,) = torch.autograd.grad(divergence.sum(), moved)
        assert gradient.isfinite().all()


@every_small_case
def test_mode_has_the_highest_density_among_stored_actions(case: Case) -> None:
    params = case.params(0)
    actions, measure = all_actions(case)
    density = log_prob_table(case, params, actions).exp() * measure  # equal cells in stored units
    best = actions[density.argmax(1)]
    mode = case.bind(params).mode()
    if case.grid is None:
        assert torch.equal(mode, best)
    else:
        cell = (case.grid[1] - case.grid[0]) / len(actions)
        assert ((mode - best).abs() <= cell).all()


@every_case
@pytest.mark.parametrize("extreme", [30.0, 1e3, -1e3])
def test_values_and_gradients_stay_finite_at_extremes(case: Case, extreme: float) -> None:
    alternate = torch.ones_like(case.params(0))
    alternate[:, ::2] = -1.0
    params = (extreme * alternate).float().requires_grad_()
    dist = case.bind(params)
    ordinary = case.bind(case.params(0).float())
    action = ordinary.sample(generator(0))
    for value in (dist.log_prob(action), dist.log_prob(dist.mode().detach()), dist.entropy()):
        assert value.isfinite().all()
        (gradient,) = torch.autograd.grad(10.0 * value.sum(), params, retain_graph=True, allow_unused=True)
        assert gradient is not None
        assert gradient.isfinite().all()


@every_case
def test_compiled_equals_eager(case: Case) -> None:
    family = case.family()
    params, new_params = case.params(0).float(), case.params(1).float()
    mask = None if case.mask is None else torch.tensor(case.mask).expand(B, -1)
    action = case.bind(params).sample(generator(0))

    def numbers(params: Tensor, new_params: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        dist = family.bind(params, mask)
        return dist.log_prob(action), dist.entropy(), dist.kl(family.bind(new_params, mask)), dist.mode()

    # As it is recorded for the compiler, which refuses decisions that depend on numbers; and then for other numbers.
    compiled = make_fx(numbers)(params, new_params, action)
    given = new_params, params, case.bind(new_params).sample(generator(1))
    for got, expected in zip(compiled(*given), numbers(*given), strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize(
    ("space_of", "kind"),
    [
        (lambda d: spaces.MultiDiscrete([3] * d), "auto"),
        (spaces.MultiBinary, "auto"),
        (lambda d: spaces.Box(-2.0, 3.0, (d,)), "gaussian"),
        (lambda d: spaces.Box(-2.0, 3.0, (d,)), "tanh_gaussian"),
        (lambda d: spaces.Box(-2.0, 3.0, (d,)), "beta"),
    ],
    ids=["multidiscrete", "multibinary", "gaussian", "tanh_gaussian", "beta"],
)
def test_entropy_counts_each_dimension_once(space_of: Callable[[int], spaces.Space[Any]], kind: Any) -> None:  # P06
    def entropy(dims: int, batch: int) -> Tensor:
        case = Case("", space_of(dims), {"kind": kind})
        return case.bind(torch.full_like(case.params(0, batch=batch), 0.3)).entropy()

    torch.testing.assert_close(entropy(4, batch=3), 2 * entropy(2, batch=3))
    torch.testing.assert_close(entropy(2, batch=6), entropy(2, batch=3).repeat(2))
