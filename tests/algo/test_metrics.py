"""The metrics of an update, worked by hand on a few rows."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from algo.building import make_learner, updates
from surefoot.actions.diagonal_gaussian import DiagonalGaussianFamily
from surefoot.actions.distribution import Family
from surefoot.algo.coefficients import CoefficientPlan
from surefoot.algo.estimate import Estimates
from surefoot.algo.metrics import OF_ROLLOUT
from surefoot.algo.objective import Terms
from surefoot.algo.reduce import reduced
from surefoot.algo.rows import RolloutData
from surefoot.algo.update_metrics import RowMetrics
from surefoot.config import from_flat
from surefoot.critics.base import Critic
from surefoot.critics.calibration import quantile_spread
from surefoot.math.explained import explained_variance
from surefoot.rollout.buffer import NO_FINALS, Rollout


def terms(log_ratio: list[float], entropy: list[float] | None = None) -> Terms:
    d = torch.tensor(log_ratio)
    zeros = torch.zeros_like(d)
    own = zeros if entropy is None else torch.tensor(entropy)
    return Terms(zeros, zeros, zeros, zeros, zeros, zeros, own, d, d.exp())


def row_metrics(*minibatches: tuple[Terms, list[float]]) -> dict[str, float]:
    """Of minibatches with the weights of their rows; those of weight 0 do not count."""
    metrics = RowMetrics(0.2, from_flat(kl_estimator="k2").ppo)
    for each, weight in minibatches:
        metrics.add(each.stacked(), torch.tensor(weight), torch.arange(len(weight)))
    return metrics.values()


def test_ratios_and_divergences_of_rows() -> None:
    """k2 = d²/2 of the log-ratios ln 2, −ln 4, 0, 0, and a row that does not count."""
    two = math.log(2.0)
    found = row_metrics((terms([two, -2 * two, 9.0]), [1.0, 1.0, 0.0]), (terms([0.0, 0.0]), [1.0, 1.0]))
    assert found["train/ratio_max"] == pytest.approx(2.0)
    assert found["train/ratio_min"] == pytest.approx(0.25)
    assert found["train/ratio"] == pytest.approx((2 + 0.25 + 1 + 1) / 4)
    assert found["train/kl_max"] == pytest.approx(2 * two**2)
    assert found["train/approx_kl"] == pytest.approx((0.5 + 2.0) * two**2 / 4)
    assert found["train/log_ratio_std"] == pytest.approx(np.std([two, -2 * two, 0.0, 0.0]))
    assert found["train/log_ratio_max"] == pytest.approx(2 * two)
    assert found["train/clip_fraction"] == pytest.approx(0.5)


def test_log_ratios_beyond_the_bounds_are_counted() -> None:
    """Of 1, 3, −12 and 25 two are beyond 10 and one is beyond 20. A row of weight 0 does not count."""
    found = row_metrics((terms([1.0, 3.0, -12.0, 25.0, -99.0]), [1.0, 1.0, 1.0, 1.0, 0.0]))
    assert found["train/log_ratio_mean"] == pytest.approx(4.25)
    assert found["train/log_ratio_extreme_fraction"] == pytest.approx(0.5)
    assert found["train/log_ratio_bounded_fraction"] == pytest.approx(0.25)


def test_nine_of_ten_rows_do_not_exceed_the_p90_of_kl() -> None:
    """Log-ratios 1 … 10 have k2 = ½ … 50; the ninth is 40.5."""
    first, second = (terms(list(range(a, b))) for a, b in ((6, 11), (1, 6)))
    found = row_metrics((first, [1.0] * 5), (second, [1.0] * 5))
    assert found["train/kl_p90"] == 40.5
    assert found["train/kl_max"] == 50.0


def test_the_slope_of_the_entropy_is_its_change_over_the_update() -> None:
    """On a line it is the last minus the first, also over several pieces; of 0, 0, 1, 1 by least squares 1.2."""
    zeros = [0.0, 0.0]
    falling = row_metrics((terms(zeros, [1.0, 0.9]), [1.0, 1.0]), (terms(zeros, [0.8, 0.7]), [1.0, 1.0]))
    assert falling["train/entropy_slope"] == pytest.approx(-0.3, rel=1e-5)
    assert falling["train/entropy"] == pytest.approx(0.85)
    step = row_metrics((terms([0.0] * 4, [0.0, 0.0, 1.0, 1.0]), [1.0] * 4))
    # Numbers −1.5, −0.5, 0.5, 1.5: slope (0.5 + 1.5)/5 = 0.4 a row, over three rows 1.2.
    assert step["train/entropy_slope"] == pytest.approx(1.2)
    assert (step["train/entropy_min"], step["train/entropy_max"]) == (0.0, 1.0)


def test_metrics_of_no_rows_are_not_a_number() -> None:
    assert all(math.isnan(value) for value in row_metrics().values())


def rollout_metrics(
    values: Tensor,
    returns: Tensor,
    valid: Tensor,
    action: Tensor,
    family: object = None,
    parameters: Tensor | None = None,
) -> dict[str, float]:
    estimates = SimpleNamespace(raw_advantages=returns - values, values=values, returns=returns)
    rollout = SimpleNamespace(valid=valid, action=action, parameters=values if parameters is None else parameters)
    nothing = SimpleNamespace(is_clipped=lambda action: None, std=lambda parameters: None)
    data = RolloutData(cast(Rollout, rollout), cast(Estimates, estimates), cast(Family, family or nothing))
    given = {metric: metric.of(data) for metric in OF_ROLLOUT}
    return {metric.key: reduced(x, metric.reduce) for metric, x in given.items() if x is not None}


def test_values_and_returns_of_the_rollout() -> None:
    """Three steps of three envs. The last env has one step that is no transition; its other returns do not vary."""
    values = torch.tensor([[1.0, 0.0, 5.0], [2.0, 0.0, 5.0], [3.0, 0.0, 99.0]])
    returns = torch.tensor([[1.0, 1.0, 6.0], [2.0, 2.0, 6.0], [3.0, 3.0, -9.0]])
    valid = torch.ones(3, 3, dtype=torch.bool)
    valid[2, 2] = False
    found = rollout_metrics(values, returns, valid, torch.tensor([[0, 2, 2], [0, 2, 2], [1, 2, 0]]))
    assert found["train/returns_mean"] == pytest.approx(24 / 8)
    assert found["train/returns_std"] == pytest.approx(np.std([1, 1, 6, 2, 2, 6, 3, 3]))
    assert found["train/value_mean"] == pytest.approx(16 / 8)
    assert found["train/value_std"] == pytest.approx(np.std([1, 0, 5, 2, 0, 5, 3, 0]))
    assert found["train/value_error"] == pytest.approx((1 + 2 + 3 + 1 + 1) / 8)
    assert found["train/explained_variance_min_env"] == pytest.approx(0.0, abs=1e-6)
    assert found["train/explained_variance_median_env"] == pytest.approx(0.0, abs=1e-6), "of 0 and 1 the lower one"
    assert found["train/action_share_max"] == pytest.approx(5 / 8)


def test_explained_variance_by_env_is_that_of_each_env() -> None:
    generator = torch.Generator().manual_seed(0)
    values, returns = torch.randn(2, 20, 5, generator=generator)
    valid = torch.rand(20, 5, generator=generator) < 0.8
    returns[:, 3] = 7.0
    found = explained_variance(values, returns, valid, by_env=True)
    wanted = [float(explained_variance(values[:, i], returns[:, i], valid[:, i])) for i in range(5)]
    assert math.isnan(wanted[3])
    assert found.tolist() == pytest.approx(wanted, nan_ok=True, abs=1e-6)


def test_several_choices_are_one_action() -> None:
    action = torch.tensor([[[0, 1], [0, 1]], [[0, 0], [1, 1]]])
    ones = torch.ones(2, 2)
    assert rollout_metrics(ones, ones, ones.bool(), action)["train/action_share_max"] == 0.5


def test_gaussian_actions_beyond_the_box_and_their_std_in_its_units() -> None:
    """In [0, 4] × [−1, 1], half-widths 2 and 1: stored 1.5 is 5, beyond 4; stored −1 is −1, at the bound and inside."""
    box = DiagonalGaussianFamily(spaces.Box(np.array([0.0, -1.0]), np.array([4.0, 1.0]), dtype=np.float64))
    action = torch.tensor([[[1.5, -1.0]], [[0.0, -1.1]]])
    parameters = torch.tensor([0.0, 0.0, math.log(0.5), math.log(3.0)]).expand(2, 1, 4)
    ones = torch.ones(2, 1)
    found = rollout_metrics(ones, ones, ones.bool(), action, box, parameters)
    assert found["train/action_at_bound"] == 0.5
    assert found["train/std"] == pytest.approx((0.5 * 2 + 3.0) / 2)
    assert "train/action_share_max" not in found


def test_quantile_spread_is_from_five_to_ninety_five_percent() -> None:
    """A critic whose quantile at level p is p times its prediction: 0.9 of 10, and of 30."""
    critic = cast(Critic, SimpleNamespace(quantile=lambda prediction, level: level * prediction[..., 0]))
    prediction = torch.tensor([[[10.0]], [[30.0]], [[1e9]]])
    found = quantile_spread(critic, prediction, torch.tensor([[True], [True], [False]]))
    assert found == {"train/quantile_spread": pytest.approx(18.0)}


def test_delayed_updates_of_the_entropy_decay_are_logged() -> None:
    """A window of two returns that do not rise: every update from the second on is delayed."""
    plan = CoefficientPlan(from_flat(ent_coef="decay(0.1, 0.01, 10, 2)").ppo)
    for _ in range(4):
        plan.advance(plan.at(0, 10), 0.0, 1.0)
    assert plan.metrics() == {"train/entropy_decay_delayed": 3.0}
    assert CoefficientPlan(from_flat().ppo).metrics() == {}


def test_the_worst_row_has_the_largest_log_ratio() -> None:
    learner = make_learner(batch_size=64, n_epochs=1)
    learner.learn(learner.collect(), 2)
    rollout = learner.collect()
    rollout.log_prob[3, 1] += 2.5
    record = learner.learn(rollout, 2).update
    assert record.worst is not None
    assert record.worst[:4] == (1, 16 + 3, None, "log_ratio")
    assert record.worst.value == pytest.approx(-2.5, abs=1e-5)
    assert abs(record.worst.value) == pytest.approx(record.log_ratio_max)


@pytest.mark.parametrize("bad", [-math.inf, math.nan])
def test_the_worst_row_is_the_first_that_is_not_finite(bad: float) -> None:
    learner = make_learner(batch_size=64, n_epochs=2)
    rollout = learner.collect()
    rollout.log_prob[3, 1] = bad
    worst = learner.learn(rollout, 2).update.worst
    assert worst is not None
    assert worst[:4] == (1, 3, None, "log_ratio")
    assert not math.isfinite(worst.value)


def test_the_worst_row_names_another_quantity_that_is_not_finite() -> None:
    learner = make_learner(batch_size=64, n_epochs=1)
    rollout = learner.collect()
    rollout.terminated[:] = True
    rollout.final = NO_FINALS
    rollout.reward[5, 2] = 1e25
    worst = learner.learn(rollout, 1).update.worst
    assert worst == (2, 5, None, "value", math.inf)


@pytest.mark.parametrize("bad", [2.5, math.inf])
def test_the_worst_row_names_its_head(bad: float) -> None:
    learner = make_learner("surefoot/Greenhouse-v0", batch_size=64, n_epochs=1)
    rollout = learner.collect()
    assert rollout.head_log_prob is not None
    t, env = torch.nonzero(rollout.action[..., 0] > 0)[0].tolist()
    rollout.head_log_prob[t, env, 1] -= bad
    worst = learner.learn(rollout, 1).update.worst
    assert worst is not None
    assert worst[:4] == (env, t, "slot", "log_ratio")


def test_without_diagnostics_no_row_is_kept() -> None:
    (record,) = updates(make_learner(diagnostics=False), 1)
    assert record.worst is None
    settings: dict[str, Any] = record.metrics()
    assert "train/ratio_max" not in settings
    assert "train/returns_mean" in settings
