"""No tensor of the host gets into a gradient on another device, nor into what is sampled there.

There need be no accelerator: tensors of the device `meta` have a shape but no contents, so that all is computed on it
as on any other device, but for what reads a number. Torch itself lets some operations mix it with tensors of the host,
so that a mode looks at each operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from algo.building import estimates_of, make_learner
from surefoot.algo.batch import RowBatches, SequenceBatches, flatten, head_statistics_of
from surefoot.algo.build import observed_layout
from surefoot.algo.coefficients import rewards_entropy
from surefoot.algo.loss_terms import TermContext, build_loss_terms
from surefoot.algo.step import EagerStep
from surefoot.optim.flat import FlatParameters
from surefoot.rollout.make import EnvLike
from train.agents import Random, image_space

META = torch.device("meta")
CROSSES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class OneDevice(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Refuses operations on tensors of two devices; a single number of the host goes with any."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = [x for x in tree_leaves((args, kwargs or {})) if isinstance(x, Tensor)]
        devices = {x.device.type for x in given if x.dim() or x.device == META}
        assert len(devices) < 2 or func in CROSSES, f"{func} on {devices}"
        return func(*args, **(kwargs or {}))


def images() -> Random:
    return Random(image_space())


def mixed() -> Random:
    return Random(action_space=spaces.Dict({"op": spaces.Discrete(3), "size": spaces.Box(-1.0, 1.0, (2,))}))


POPART = {"critic": {"popart": True}}
CASES: dict[str, tuple[EnvLike, dict[str, Any]]] = {
    "plain": ("CartPole-v1", POPART),
    "images": (images, {"policy": {"cnn_channels": (8, 8), "cnn_features": 16}}),
    "pieces, KL stop": ("Pendulum-v1", {"target_kl": 0.01, "micro_batch_size": 5}),
    "beta": ("Pendulum-v1", {"policy": {"distribution": "beta"}, "ent_coef": 0.1}),
    "tanh Gaussian": ("Pendulum-v1", {"policy": {"distribution": "tanh_gaussian"}, "ent_coef": 0.1}),
    "bounded Gaussian": ("Pendulum-v1", {"policy": {"std_min": 0.1, "std_max": 2.0}, "kl_estimator": "exact"}),
    "quantiles": ("CartPole-v1", {"critic": {"kind": "quantile", "clip_mode": "per_quantile"}, "clip_range_vf": 0.2}),
    "atoms, twin": ("CartPole-v1", {"critic": {"kind": "categorical", "twin": "trunks"}}),
    "heads": ("surefoot/Greenhouse-v0", {"head_ent_coefs": {}, "ent_coef": 0.1}),
    "heads, exact": ("surefoot/Greenhouse-v0", {"kl_estimator": "exact", "kl_coef": 0.1}),
    "heads of two kinds": (mixed, {"ent_coef": 0.1}),
    "LSTM": ("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 8}}),
    "GRU": ("Pendulum-v1", {"memory": {"kind": "gru", "hidden_size": 8, "max_length": 4, "burn_in": 2}}),
    "cost": ("surefoot/CostlyArm-v0", {"risk": {"kind": "cost_constraint", "limit_per_episode": 1.0}}),
    "shortfall": ("surefoot/SafeOrRisky-v0", {"risk": {"kind": "cvar_objective"}}),
    "own imitation, penalties": (
        "CartPole-v1",
        {"imitation": {"coef": 0.1}, "logit_penalty": 0.1, "entropy_floor": 0.5},
    ),
    "demonstrations": ("CartPole-v1", {"imitation": {"coef": 0.1, "beta": None}, "normalize_observations": True}),
    "robust": ("Pendulum-v1", {"robust": {"kind": "sa_ppo", "steps": 2}, "normalize_observations": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_gradient_and_a_sample_stay_on_their_device(case: str, tmp_path: Path) -> None:
    env, settings = CASES[case]
    if case == "demonstrations":
        np.savez(tmp_path / "demos.npz", observation=np.zeros((5, 4)), action=np.ones(5), mask=np.ones((5, 2), bool))
        settings = settings | {"imitation": settings["imitation"] | {"demonstrations": str(tmp_path / "demos.npz")}}
    learner = make_learner(env, **settings)
    config, family, policy = learner.config, learner.family, learner.policy
    rollout = learner.collect()
    estimates = estimates_of(learner, rollout)
    policy.to(META)
    flat = FlatParameters(policy.parts())
    layout = observed_layout(learner.envs, config)
    context = TermContext(config, family, layout, learner.envs.action_space, learner.observations, META)
    terms = build_loss_terms(context)
    step = EagerStep(policy, family, flat, learner.optimizer, config.ppo, terms)
    with OneDevice():  # type: ignore[no-untyped-call]
        statistics = head_statistics_of(rollout, family, META, rewards_entropy(config.ppo))
        batch = flatten(rollout, estimates, META, statistics)
        batches: RowBatches | SequenceBatches = RowBatches(batch, config)
        if policy.state_size:
            batches = SequenceBatches(batch, rollout, config, step.sizes)
        for term in terms:
            term.begin(batch.advantages, batch.weight)
        results = [step.gradient(minibatch, learner.plan.at(0, 1)) for minibatch in batches.epoch(torch.Generator())]
        assert {x.device for x in tree_leaves(results) if isinstance(x, Tensor)} == {META}
        with torch.no_grad():
            critic, prediction = policy.critic, batch.prediction
            judged = [critic.mean(prediction), critic.risk(prediction, 0.1), critic.quantile(prediction, 0.1)]
            seen = {name: x[0].to(META) for name, x in rollout.observation.items()}
            parameters, state = policy.step(seen, rollout.state[0].to(META))
            mask = None if rollout.mask is None else rollout.mask[0].to(META)
            distribution = family.bind(parameters, mask)
            sampled = [state, distribution.sample(None), distribution.mode()]
            assert {x.device for x in (*judged, *sampled)} == {META}


def test_a_tensor_of_the_host_is_found() -> None:
    """Also where torch itself finds none: this is what the test above rests on."""
    with OneDevice():  # type: ignore[no-untyped-call]
        torch.ones(3, device=META) * torch.tensor(2.0)
        with pytest.raises(AssertionError, match="on "):
            torch.ones(3, device=META).index_select(0, torch.zeros(2, dtype=torch.int64))
        with pytest.raises(AssertionError, match="on "):
            torch.ones(3, device=META) + torch.ones(3)
