"""Actor and critic: initial behaviour, parts, trunks (P08, C09, O05)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from surefoot.actions.distribution import Family
from surefoot.actions.registry import family_for
from surefoot.config import from_flat
from surefoot.policy.policy import Policy, build_policy
from surefoot.spaces import Layout

LAYOUT = Layout.of(spaces.Box(-1, 1, (5,), np.float32))
ACTIONS: dict[str, tuple[spaces.Space[Any], dict[str, Any]]] = {
    "discrete": (spaces.Discrete(4), {}),
    "multidiscrete": (spaces.MultiDiscrete([2, 3]), {}),
    "multibinary": (spaces.MultiBinary(3), {}),
    "gaussian": (spaces.Box(-1, 1, (2,)), {}),
    "gaussian by state": (spaces.Box(-1, 1, (2,)), {"state_dependent_std": True}),
    "tanh": (spaces.Box(-1, 1, (2,)), {"distribution": "tanh_gaussian"}),
    "beta": (spaces.Box(-1, 1, (2,)), {"distribution": "beta"}),
}
every_action = pytest.mark.parametrize("action", ACTIONS)
every_trunk = pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])


def build(action: str = "discrete", seed: int = 0, **settings: Any) -> tuple[Policy, Family]:
    space, options = ACTIONS[action]
    config = from_flat(policy={"hidden_sizes": (16, 16)} | options | settings)
    policy = config.policy
    family = family_for(space, policy.distribution, policy.log_std_init, policy.state_dependent_std)
    return build_policy(LAYOUT, family, config, torch.Generator().manual_seed(seed)), family


def observations(n: int = 64, seed: int = 0) -> dict[str, Tensor]:
    return {"obs": 2 * torch.rand(n, 5, generator=torch.Generator().manual_seed(seed)) - 1}


@every_action
def test_parameters_have_the_width_that_the_distribution_wants(action: str) -> None:
    policy, family = build(action)
    width = family.n_parameters
    assert policy.action_parameters(observations()).shape == (64, width)


@every_action
@every_trunk
def test_one_pass_gives_what_two_would(action: str, shared: bool) -> None:
    policy, _ = build(action, shared=shared)
    parameters, prediction = policy(observations())
    assert torch.equal(parameters, policy.action_parameters(observations()))
    assert torch.equal(prediction, policy.prediction(observations()))


@pytest.mark.parametrize(
    ("action", "largest"),
    [("discrete", math.log(4)), ("multidiscrete", math.log(6)), ("multibinary", 3 * math.log(2))],
)
def test_the_first_policy_is_nearly_uniform(action: str, largest: float) -> None:
    """P08."""
    policy, family = build(action)
    entropy = family.bind(policy.action_parameters(observations())).entropy()
    assert (entropy > 0.999 * largest).all()
    assert (entropy <= largest + 1e-5).all()


@pytest.mark.parametrize("action", ["gaussian", "gaussian by state", "tanh"])
def test_the_first_gaussian_is_nearly_standard(action: str) -> None:
    policy, _ = build(action)
    mean, log_std = policy.action_parameters(observations()).chunk(2, -1)
    assert mean.abs().max() < 0.1
    assert log_std.abs().max() < 0.1


def test_the_initial_spread_can_be_chosen() -> None:
    policy, family = build("gaussian", log_std_init=-1.5)
    distribution = family.bind(policy.action_parameters(observations()))
    spread = distribution.sample(torch.Generator().manual_seed(0)).std()
    assert spread.item() == pytest.approx(math.exp(-1.5), rel=0.2)


@every_action
def test_head_gains(action: str) -> None:
    policy, _ = build(action)
    (head,) = (m for m in policy.output.modules() if isinstance(m, nn.Linear))
    weight = head.weight if head.weight.shape[0] <= head.weight.shape[1] else head.weight.T
    assert torch.allclose(weight @ weight.T, 1e-4 * torch.eye(len(weight)), atol=1e-7)
    assert not head.bias.any()


@every_action
@every_trunk
def test_the_parts_hold_each_parameter_once(action: str, shared: bool) -> None:
    policy, _ = build(action, shared=shared)
    held = [id(parameter) for part in policy.parts().values() for parameter in part.parameters()]
    assert sorted(held) == sorted(id(parameter) for parameter in policy.parameters())
    assert ("value_encoder" in policy.parts()) == (not shared)


@every_trunk
def test_weight_decay_is_meant_for_parts_that_only_the_critic_uses(shared: bool) -> None:
    """O04."""
    policy, _ = build(shared=shared)
    assert set(policy.critic_parts()) == ({"critic"} if shared else {"value_encoder", "critic"})


def gradients(policy: Policy) -> dict[str, float]:
    return {
        name: sum(float(p.grad.abs().sum()) for p in part.parameters() if p.grad is not None)
        for name, part in policy.parts().items()
    }


def differentiated(term: str, shared: bool) -> dict[str, float]:
    """Size of each part's gradient from a loss on the actor's or the critic's output alone."""
    policy, family = build("gaussian", shared=shared)
    parameters, prediction = policy(observations())
    action = family.bind(parameters).sample(torch.Generator().manual_seed(0)).detach()
    loss = family.bind(parameters).log_prob(action).mean() if term == "actor" else prediction.square().mean()
    loss.backward()
    return gradients(policy)


def test_separate_trunks_learn_from_their_own_loss_only() -> None:
    """C09."""
    actor, critic = differentiated("actor", False), differentiated("critic", False)
    assert {part for part, size in actor.items() if size > 0} == {"encoder", "output"}
    assert {part for part, size in critic.items() if size > 0} == {"value_encoder", "critic"}


def test_a_shared_trunk_learns_from_both_losses() -> None:
    actor, critic = differentiated("actor", True), differentiated("critic", True)
    assert {part for part, size in actor.items() if size > 0} == {"encoder", "output"}
    assert {part for part, size in critic.items() if size > 0} == {"encoder", "critic"}


@every_action
@every_trunk
def test_equal_generators_give_equal_policies(action: str, shared: bool) -> None:
    one, two, other = (build(action, seed, shared=shared)[0] for seed in (0, 0, 1))
    for left, right in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(left, right)
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@every_trunk
@pytest.mark.parametrize("ortho_init", [True, False])
def test_building_a_policy_does_not_touch_the_global_random_stream(shared: bool, ortho_init: bool) -> None:
    before = torch.get_rng_state()
    build(shared=shared, ortho_init=ortho_init)
    assert torch.equal(torch.get_rng_state(), before)


def test_actor_and_critic_start_from_different_weights() -> None:
    policy, _ = build()
    pairs = zip(policy.encoder.parameters(), policy.value_encoder.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)


def test_without_hidden_layers_the_heads_see_the_observation() -> None:
    policy, _ = build(hidden_sizes=())
    parameters, prediction = policy(observations())
    assert parameters.shape == (64, 4)
    assert prediction.shape == (64, 1)
