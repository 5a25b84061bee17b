"""The contract of `surefoot.critics` on every combination of kind, twin, PopArt, clip mode and targets."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from critics.cases import CASES, B, Case, F, everything, features, grid, targets_of
from surefoot.critics.base import Critic, ValueLoss

every = pytest.mark.parametrize("case", CASES, ids=str)
clipping = pytest.mark.parametrize("case", [case for case in CASES if case.clips], ids=str)
rescaling = pytest.mark.parametrize("case", [case for case in CASES if case.critic["popart"]], ids=str)
following = pytest.mark.parametrize(
    "case", [case for case in CASES if case.kind == "categorical" and "v_min" not in case.critic], ids=str
)
covering = pytest.mark.parametrize(
    "case",
    [
        case
        for case in CASES
        if case.has(twin="heads", popart=True)
        or (case.kind == "categorical" and case.has(twin="none", clip_mode="none"))
    ],
    ids=str,
)


def seen_critic(case: Case) -> Critic:
    """A critic that has taken in one rollout."""
    critic = case.build()
    critic.update_statistics(2.0 * grid(7), everything())
    return critic


def raw_answers(critic: Critic, prediction: Tensor) -> Tensor:
    return torch.stack([critic.mean(prediction), critic.risk(prediction, 0.25), critic.quantile(prediction, 0.5)])


def loss_of(critic: Critic, case: Case, rows: slice = slice(None)) -> ValueLoss:
    prediction, old = critic(features())[rows], critic(features(5)).detach()[rows]
    return critic.loss(prediction, old, targets_of(critic)[rows], case.clip_range)


def test_there_are_as_many_combinations_as_make_sense() -> None:
    counts = {kind: sum(case.kind == kind for case in CASES) for kind in ("scalar", "quantile", "categorical")}
    # Three twins each. Scalar: popart or not, clipped or not. Quantile: popart or not, four modes, two targets.
    # Categorical: four modes and two targets with a support that is fixed or follows, and popart where it follows.
    assert counts == {"scalar": 3 * 2 * 2, "quantile": 3 * 2 * 4 * 2, "categorical": 3 * (4 * 2 * 2 + 4 * 2)}


@every
def test_shapes(case: Case) -> None:
    critic = seen_critic(case)
    prediction = critic(features())
    assert prediction.shape == (B, critic.n_outputs)
    assert prediction.dtype == torch.float32
    assert raw_answers(critic, prediction.view(4, 8, -1)).shape == (3, 4, 8)
    assert targets_of(critic).shape[0] == B
    assert targets_of(critic).dtype == torch.float32
    for part in loss_of(critic, case):
        assert part.shape == (B,)


@every
def test_the_mean_lies_within_what_is_predicted(case: Case) -> None:
    critic = seen_critic(case)
    prediction = critic(features())
    mean = critic.mean(prediction)
    assert (critic.risk(prediction, 0.04) <= critic.risk(prediction, 0.25) + 1e-5).all()
    assert (critic.risk(prediction, 0.25) <= mean + 1e-5).all()
    assert (mean <= critic.quantile(prediction, 1.0) + 1e-5).all()
    torch.testing.assert_close(critic.risk(prediction, 1.0), mean, atol=1e-4, rtol=1e-4)


@every
def test_no_loss_is_negative_and_the_larger_one_counts(case: Case) -> None:
    result = loss_of(seen_critic(case), case)
    assert torch.isfinite(result.loss).all()
    assert (result.unclipped >= 0).all()
    assert (result.loss >= result.unclipped).all()
    if not case.clips:
        assert torch.equal(result.loss, result.unclipped)
        assert not result.active.any()


@every
def test_every_parameter_learns_and_old_predictions_do_not(case: Case) -> None:
    """C09: each row of an output layer by itself, and the trunk below."""
    critic = seen_critic(case)
    seen = features().requires_grad_()
    old = critic(features(5)).detach().requires_grad_()
    critic.loss(critic(seen), old, targets_of(critic), case.clip_range).loss.mean().backward()  # type: ignore[no-untyped-call]
    for name, parameter in critic.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad.reshape(len(parameter), -1).abs().sum(1) > 0).all(), name
    assert seen.grad is not None
    assert (seen.grad.abs().sum(0) > 0).all()
    assert old.grad is None or not old.grad.any()


@every
def test_a_row_does_not_see_the_others(case: Case) -> None:
    critic = seen_critic(case)
    whole = loss_of(critic, case).loss
    rows = slice(3, 9)
    torch.testing.assert_close(loss_of(critic, case, rows).loss, whole[rows], atol=1e-6, rtol=1e-5)
    prediction, old, wanted = critic(features()).detach(), critic(features(5)).detach(), targets_of(critic)
    for x in (prediction, old, wanted):
        x[:3], x[9:] = torch.nan, torch.inf
    padded = critic.loss(prediction, old, wanted, case.clip_range).loss[rows]
    torch.testing.assert_close(padded, whole[rows], atol=1e-6, rtol=1e-5)


@clipping
def test_an_unmoved_prediction_is_not_clipped(case: Case) -> None:
    critic = seen_critic(case)
    prediction = critic(features())
    result = critic.loss(prediction, prediction.detach(), targets_of(critic), case.clip_range)
    assert torch.equal(result.loss, result.unclipped)
    assert not result.active.any()


@clipping
def test_a_wide_range_clips_nothing_and_a_narrow_one_something(case: Case) -> None:
    critic = seen_critic(case)
    prediction, old, wanted = critic(features()), critic(features(5)).detach(), targets_of(critic)
    wide, narrow = (critic.loss(prediction, old, wanted, clip_range) for clip_range in (1e6, 0.01))
    if not case.has(clip_mode="mean_and_variance"):  # whose cap on the spread does not depend on the range
        assert not wide.active.any()
        assert torch.equal(wide.loss, wide.unclipped)
    assert narrow.active.any()
    assert (narrow.loss > narrow.unclipped).any()
    assert torch.equal(narrow.active > 0, narrow.loss > narrow.unclipped)


@clipping
def test_the_range_may_be_a_tensor(case: Case) -> None:
    critic = seen_critic(case)
    prediction, old, wanted = critic(features()), critic(features(5)).detach(), targets_of(critic)
    number, tensor = (critic.loss(prediction, old, wanted, c).loss for c in (0.1, torch.tensor(0.1)))
    torch.testing.assert_close(tensor, number)


@pytest.mark.parametrize("case", [case for case in CASES if not case.has(twin="none")], ids=str)
def test_twins_are_two_critics_with_their_own_old_predictions_averaged(case: Case) -> None:
    """C02."""
    critic = seen_critic(case)
    first, second = critic.parts()["critic1"], critic.parts()["critic2"]
    assert isinstance(first, Critic)
    assert isinstance(second, Critic)
    width = first.n_outputs
    prediction, old, wanted = critic(features()), critic(features(5)).detach(), targets_of(critic)
    one = first.loss(prediction[:, :width], old[:, :width], wanted[:, 0], case.clip_range)
    two = second.loss(prediction[:, width:], old[:, width:], wanted[:, 1], case.clip_range)
    both = critic.loss(prediction, old, wanted, case.clip_range)
    for whole, a, b in zip(both, one, two, strict=True):
        torch.testing.assert_close(whole, (a.float() + b.float()) / 2)
    means = torch.stack([first.mean(prediction[:, :width]), second.mean(prediction[:, width:])])
    assert torch.equal(critic.mean(prediction), means.amin(0))
    assert not torch.allclose(means[0], means[1])
    half = F // 2
    views = (slice(half), slice(half, F)) if case.has(twin="trunks") else (slice(None), slice(None))
    assert torch.equal(prediction[:, :width], first(features()[:, views[0]]))
    assert torch.equal(prediction[:, width:], second(features()[:, views[1]]))


@rescaling
def test_raw_predictions_do_not_move_when_statistics_do(case: Case) -> None:
    """A09; the returns keep their range, so that a support that follows stays."""
    critic = seen_critic(case)
    first = 2.0 * grid(7)
    low, high = first.amin(), first.amax()
    with torch.no_grad():
        before = raw_answers(critic, critic(features()))
        prediction = critic(features())
        for seed in (11, 12, 13):
            returns = (low + (high - low) * grid(seed).sigmoid().square()).clone()
            returns[0, 0], returns[0, 1] = low, high
            critic.update_statistics(returns, everything())
        after = raw_answers(critic, critic(features()))
    assert not torch.allclose(critic(features()), prediction) or case.kind == "categorical"
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", [case for case in CASES if case.kind != "categorical"], ids=str)
def test_raw_predictions_survive_returns_of_another_size(case: Case) -> None:
    """A09."""
    critic = seen_critic(case)
    with torch.no_grad():
        before = raw_answers(critic, critic(features()))
        for size, shift in ((1e3, 200.0), (1e-2, -5.0), (10.0, 0.0), (0.0, 3.0), (0.0, 0.0)):
            critic.update_statistics(size * grid(9) + shift, everything())
            after = raw_answers(critic, critic(features()))
            torch.testing.assert_close(after, before, atol=1e-3, rtol=1e-4)


@following
def test_a_support_that_moves_carries_the_predictions_along(case: Case) -> None:
    """A09, as far as other atoms can say the same."""
    critic = seen_critic(case)
    with torch.no_grad():
        before = critic.mean(critic(features()))
        returns = torch.linspace(-30.0, 50.0, 32).view(8, 4)
        critic.update_statistics(returns, everything())
        after = critic.mean(critic(features()))
        assert (after - before).abs().max() < 1.5 * 80.0 / 50
        assert (
            critic.metrics(critic(features()).view(8, 4, -1), returns, everything())["train/out_of_support_fraction"]
            == 0
        )


@every
def test_metrics_are_numbers(case: Case) -> None:
    critic = seen_critic(case)
    with torch.no_grad():
        found = critic.metrics(critic(features()).view(8, 4, -1), grid(), everything())
    assert all(isinstance(value, float) for value in found.values())
    assert ("train/critic_gap" in found) == (not case.has(twin="none"))
    assert critic.is_distributional == (case.kind != "scalar")
    assert ("train/out_of_support_fraction" in found) == (case.kind == "categorical")
    assert ("train/popart_std" in found) == case.critic["popart"]


@every
def test_a_rollout_without_a_valid_row_changes_and_logs_nothing_by_mistake(case: Case) -> None:
    critic = seen_critic(case)
    before = {name: x.clone() for name, x in critic.state_dict().items()}
    critic.update_statistics(torch.full((8, 4), torch.nan), ~everything())
    for name, x in critic.state_dict().items():
        torch.testing.assert_close(x, before[name], rtol=1e-6, atol=1e-6)


@every
def test_reported_parts_hold_each_parameter_once(case: Case) -> None:
    """O05."""
    critic = case.build()
    held = [id(parameter) for part in critic.parts().values() for parameter in part.parameters()]
    assert sorted(held) == sorted(id(parameter) for parameter in critic.parameters())
    assert list(critic.parts()) == (["critic"] if case.has(twin="none") else ["critic1", "critic2"])


@covering
def test_a_compiled_loss_is_one_graph_with_the_same_value_and_gradient(case: Case) -> None:
    """As recorded for the compiler, which refuses decisions that depend on numbers. Also for other rows, and after
    the statistics moved: the graph reads them, it does not hold them."""
    critic = case.build()
    old, wanted = critic(features(5)).detach(), targets_of(critic)

    def mean_loss(seen: Tensor) -> Tensor:
        return critic.loss(critic(seen), old, wanted, case.clip_range).loss.mean()

    def both(seen: Tensor, *statistics: Tensor) -> tuple[Tensor, Tensor]:
        return torch.func.grad_and_value(mean_loss)(seen)  # statistics are recognised where they are used

    graph = make_fx(both)(features(), *critic.buffers())
    for size in (1.0, 4.0):
        critic.update_statistics(size * grid(), everything())
        gradient, value = torch.func.grad_and_value(mean_loss)(features(7))
        compiled_gradient, compiled_value = graph(features(7), *critic.buffers())
        torch.testing.assert_close(compiled_value, value)
        torch.testing.assert_close(compiled_gradient, gradient)
