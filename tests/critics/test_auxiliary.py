"""A cost critic beside any critic: each learns its own, and neither disturbs the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from critics.cases import CASES, B, Case, F, N, T, everything, features, generator, grid
from surefoot.config import CriticConfig
from surefoot.critics.auxiliary import Auxiliary, WithAuxiliary
from surefoot.critics.base import Critic
from surefoot.critics.build import with_auxiliary
from surefoot.nets.init import Initializer

CHOSEN = [case for case in CASES if case.has(clip_mode="none") or case.has(clip_mode="per_quantile")]
every = pytest.mark.parametrize("case", CHOSEN, ids=str)


def costed(case: Case) -> tuple[Critic, WithAuxiliary]:
    """A critic, and an equal one with a cost critic beside it; they have seen returns, and costs of spread 1."""
    settings = CriticConfig.model_validate(case.critic)
    alone = case.build()
    both = with_auxiliary(case.build(), Auxiliary("cost", 0.9), settings, F, Initializer(generator(9)), "tanh")
    assert isinstance(both, WithAuxiliary)
    for critic in (alone, both):
        critic.update_statistics(2.0 * grid(7), everything())
    both.update_auxiliary_statistics(torch.tensor([1.0, -1.0]).repeat(T, N // 2), everything())
    return alone, both


def whole_targets(critic: WithAuxiliary, prediction: Tensor, costs: Tensor) -> Tensor:
    """As `estimate` makes them, for steps that all terminate: [B, M + 1]."""
    successors, ended = prediction.detach().view(T, N, -1), torch.zeros(T, N)
    own = critic.targets(grid(), grid(), ended, successors)
    return critic.with_auxiliary_targets(own, costs).flatten(0, 1)


@every
def test_it_answers_as_the_critic_alone(case: Case) -> None:
    alone, both = costed(case)
    single, joint = alone(features()), both(features())
    assert joint.shape == (B, both.n_outputs)
    assert torch.equal(both.mean(joint), alone.mean(single))
    assert torch.equal(both.risk(joint, 0.25), alone.risk(single, 0.25))
    assert torch.equal(both.quantile(joint, 0.5), alone.quantile(single, 0.5))
    metrics = both.metrics(joint.detach().view(T, N, -1), grid(), everything())
    assert metrics == alone.metrics(single.detach().view(T, N, -1), grid(), everything())


@every
def test_the_losses_add_up(case: Case) -> None:
    """The cost critic is scalar, so its part is the squared error."""
    alone, both = costed(case)
    single, joint, old = alone(features()), both(features()), both(features(5)).detach()
    costs = grid(3)
    ended = torch.zeros(T, N)
    wanted = alone.targets(grid(), grid(), ended, single.detach().view(T, N, -1)).flatten(0, 1)
    expected = alone.loss(single, old[:, : alone.n_outputs], wanted, case.clip_range)
    error = (both.mean_auxiliary(joint) - costs.flatten()).square()
    found = both.loss(joint, old, whole_targets(both, joint, costs), case.clip_range)
    torch.testing.assert_close(found.loss, expected.loss + error)
    assert torch.equal(found.active, expected.active)


@every
def test_each_learns_only_its_own(case: Case) -> None:
    _, both = costed(case)
    joint = both(features())
    still = whole_targets(both, joint, both.mean_auxiliary(joint).detach().view(T, N))
    total = both.loss(joint, joint.detach(), still, case.clip_range).loss.sum()
    total.backward()  # type: ignore[no-untyped-call]
    assert any(parameter.grad is not None and bool(parameter.grad.any()) for parameter in both.critic.parameters())
    assert not any(
        bool(parameter.grad.any()) for parameter in both.auxiliary.parameters() if parameter.grad is not None
    )


@every
def test_the_heads_hold_every_parameter_once(case: Case) -> None:
    _, both = costed(case)
    held = [id(parameter) for part in both.parts().values() for parameter in part.parameters()]
    assert sorted(held) == sorted(id(parameter) for parameter in both.parameters())
    assert "cost_critic" in both.parts()


def test_popart_keeps_what_was_predicted_of_the_cost() -> None:
    _, both = costed(next(case for case in CHOSEN if case.has(kind="scalar", popart=True, twin="none")))
    both.update_auxiliary_statistics(grid(3), everything())
    before = both.mean_auxiliary(both(features())).detach()
    both.update_auxiliary_statistics(30.0 + 5.0 * grid(4), everything())
    torch.testing.assert_close(both.mean_auxiliary(both(features())).detach(), before, rtol=1e-4, atol=1e-4)
