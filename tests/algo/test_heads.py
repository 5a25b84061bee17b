"""What is measured and learned head by head (F02, F03, F04, F06, P12)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from algo.building import batch_of, gradient_of, make_learner
from surefoot import PPO
from surefoot.actions.distribution import Family, HeadStatistics, PackedHeads
from surefoot.actions.heads import HeadSpec
from surefoot.algo.batch import Batch, head_statistics_of
from surefoot.algo.coefficients import CoefficientPlan
from surefoot.algo.heads import HeadMetrics, HeadRecord
from surefoot.algo.learner import Learner
from surefoot.config import from_flat
from surefoot.errors import ConfigError
from surefoot.worlds import register_envs

register_envs()
NAMES = ("op", "slot", "kind")
NOTHING_PACKED = PackedHeads(*[torch.zeros(0, 0)] * 3)


def greenhouse(**settings: Any) -> Learner:
    return make_learner("surefoot/Greenhouse-v0", **({"n_steps": 32, "batch_size": 32} | settings))


def head_metrics(
    statistics: HeadStatistics, *pieces: tuple[Tensor, Tensor, Tensor], **settings: Any
) -> dict[str, HeadRecord]:
    """Of log-ratio and entropy [A, B] and the places of the rows in the rollout."""
    n_heads = len(statistics.active)
    config = from_flat(**settings)
    family = SimpleNamespace(head_names=NAMES[:n_heads], head_outputs=(slice(0, 1),) * n_heads)
    coefficients = CoefficientPlan(config.ppo).at(0, 1)
    metrics = HeadMetrics(cast(Family, family), statistics, statistics.active.sum(1).tolist(), coefficients, config.ppo)
    for piece in pieces:
        metrics.add(*piece)
    return metrics.records(torch.ones(1, 1))


def test_means_by_hand() -> None:
    """Two heads, three rows; the second head is inactive in the first row and has one legal choice in the last."""
    active = torch.tensor([[True, True, True], [False, True, True]])
    log_ratio = torch.log(torch.tensor([[1.5, 1.0, 1.0], [1.0, 0.5, 2.0]]))
    entropy = torch.tensor([[0.6, 0.3, 0.0], [0.0, math.log(2), 0.0]])
    statistics = HeadStatistics(active, torch.tensor([[3.0, 2.0, 2.0], [4.0, 4.0, 1.0]]), NOTHING_PACKED)
    row = torch.tensor([2, 0, 1])
    op, slot = head_metrics(statistics, (log_ratio[:, row], entropy[:, row], row)).values()
    assert (op.count, slot.count) == (3, 2)
    assert op.ratio == pytest.approx(3.5 / 3)
    assert slot.ratio == pytest.approx(2.5 / 2)
    # k3 = r − 1 − ln r
    assert op.kl == pytest.approx((0.5 - math.log(1.5)) / 3)
    assert slot.kl == pytest.approx(((-0.5 + math.log(2)) + (1 - math.log(2))) / 2)
    assert [op.clip_fraction, slot.clip_fraction] == pytest.approx([1 / 3, 1.0])
    assert [op.entropy, slot.entropy] == pytest.approx([0.3, math.log(2) / 2])
    assert op.normalized_entropy == pytest.approx((0.6 / math.log(3) + 0.3 / math.log(2)) / 3)
    assert slot.normalized_entropy == pytest.approx(0.5), "the row with one legal choice does not count"


def test_rows_that_are_used_twice_count_twice() -> None:
    statistics = HeadStatistics(torch.tensor([[True, False]]), torch.full((1, 2), 2.0), NOTHING_PACKED)
    first = (torch.tensor([[0.1, 0.0]]), torch.tensor([[0.5, 0.0]]), torch.tensor([0, 1]))
    second = (torch.tensor([[-0.1]]), torch.tensor([[0.4]]), torch.tensor([0]))
    (op,) = head_metrics(statistics, first, second, kl_estimator="k2").values()
    assert op.ratio == pytest.approx((math.exp(0.1) + math.exp(-0.1)) / 2)
    assert op.kl == pytest.approx(0.005)
    assert op.clip_fraction == 0.0
    assert op.entropy == pytest.approx(0.45)
    assert op.normalized_entropy == pytest.approx(0.45 / math.log(2))


def test_every_head_reports_itself() -> None:
    learner = greenhouse()
    rollout = learner.collect()
    metrics = learner.learn(rollout, 10).update.metrics()
    keys = ("count", "ratio", "approx_kl", "clip_fraction", "entropy", "entropy_normalized", "grad_norm")
    for name in NAMES:
        for key in keys:
            assert math.isfinite(metrics[f"train/head/{name}/{key}"])
    op = rollout.action[..., 0]
    assert metrics["train/head/op/count"] == op.numel()
    assert metrics["train/head/slot/count"] == int((op > 0).sum())
    assert metrics["train/head/kind/count"] == int((op == 1).sum())
    assert 0.9 < metrics["train/head/kind/entropy_normalized"] <= 1.0
    assert metrics["train/head/kind/entropy"] == pytest.approx(math.log(4), abs=0.1)


@pytest.mark.parametrize("diagnostics", [True, False])
def test_the_joint_divergence_is_the_same_however_it_is_summed(diagnostics: bool) -> None:
    """By each step where it decides or rows are not kept, else from the rows of all of them."""
    found = []
    for settings in ({"target_kl": 1e6}, {}):
        learner = greenhouse(learning_rate=1e-2, n_epochs=3, diagnostics=diagnostics, **settings)
        record = learner.learn(learner.collect(), 10).update
        found.append((record.kl, record.kl_last))
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[0][1] > 1e-4


def test_the_joint_divergence_is_the_sum_over_active_heads() -> None:
    """F06: over all rows, never a mean of the heads' means."""
    learner = greenhouse(learning_rate=1e-2, n_epochs=4)
    rollout = learner.collect()
    record = learner.learn(rollout, 10).update
    rows = int(rollout.valid.sum())
    assert record.kl == pytest.approx(sum(head.kl * head.count for head in record.heads.values()) / rows, rel=1e-5)
    assert record.kl > 1e-4
    means = sum(head.kl for head in record.heads.values())
    assert abs(means - record.kl) > 0.05 * record.kl


def test_the_stop_uses_the_joint_divergence() -> None:
    learner = greenhouse(learning_rate=1e-2, n_epochs=20, target_kl=1e-3)
    record = learner.learn(learner.collect(), 10).update
    assert record.kl_stop is not None
    assert record.kl_stop.kl > 1.5e-3


def test_the_first_ratio_is_one_and_later_ones_are_not() -> None:
    """P10, jointly and by head."""
    learner = greenhouse(n_epochs=1, batch_size=128)
    first = learner.learn(learner.collect(), 10).update
    assert first.log_ratio_first < 1e-5
    for head in first.heads.values():
        assert head.ratio == pytest.approx(1.0, abs=1e-5)
        assert head.kl == pytest.approx(0.0, abs=1e-9)
        assert head.clip_fraction == 0.0
    later = greenhouse(n_epochs=10, learning_rate=3e-2)
    record = later.learn(later.collect(), 10).update
    assert record.heads["op"].ratio != 1.0
    assert record.heads["op"].clip_fraction > 0


def test_gradient_norms_of_the_heads_are_those_of_their_rows() -> None:
    learner = greenhouse(n_epochs=1, batch_size=128, max_grad_norm=0.0)
    rollout = learner.collect()
    record = learner.learn(rollout, 10).update
    squares = sum(head.gradient_norm**2 for head in record.heads.values())
    assert math.sqrt(squares) == pytest.approx(record.gradient_norms["output"], rel=1e-5)
    assert len({round(head.gradient_norm, 9) for head in record.heads.values()}) == 3


class OnlyWait(gymnasium.Env[Any, Any]):
    """Nothing but waiting is legal, so that the slot is never active."""

    action_heads: Any = (HeadSpec("op", ("WAIT", "ACT")), HeadSpec("slot", 3, relevant_when={"op": "ACT"}))

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space: spaces.Space[Any] = spaces.MultiDiscrete([2, 3])

    def action_masks(self) -> Any:
        return {"op": [True, False]}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action.tolist() == [0, 0]
        return self.observation_space.sample(), float(self.np_random.normal()), False, False, {}


def test_a_head_without_data_says_so(tmp_path: Path) -> None:
    """F03: null, not 0.0."""
    agent = PPO(OnlyWait, n_envs=2, n_steps=16, batch_size=16, n_epochs=2, compile=False)
    agent.learn(32, run_dir=tmp_path / "run")
    line = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert line["train/head/slot/count"] == 0.0
    for key in ("ratio", "approx_kl", "clip_fraction", "entropy", "entropy_normalized", "grad_norm"):
        assert line[f"train/head/slot/{key}"] is None
        assert math.isnan(agent.logger_values[f"train/head/slot/{key}"])
    assert line["train/head/op/count"] == 32.0
    assert line["train/head/op/entropy"] == 0.0
    assert line["train/head/op/entropy_normalized"] is None, "with one legal choice there is none to spread over"


def rows_of(learner: Learner, gradient: Tensor) -> dict[str, Tensor]:
    """The gradient of each head's rows of the last layer."""
    slots = {slot.name: slot for slot in learner.flat.slots}
    weight, bias = slots["output.linear.weight"], slots["output.linear.bias"]
    both = torch.cat([gradient[weight.where].view(weight.shape), gradient[bias.where].unsqueeze(1)], 1)
    return {name: both[rows] for name, rows in zip(learner.family.head_names, learner.family.head_outputs, strict=True)}


def test_a_head_that_the_action_makes_inactive_gets_no_gradient() -> None:
    """F02: not from the advantage, and without a bonus not from the entropy."""
    learner = greenhouse(ent_coef=0.0)
    rollout = learner.collect()
    batch, statistics = batch_of(learner, rollout), head_statistics_of(rollout, learner.family, learner.device, False)
    everything = rows_of(learner, gradient_of(learner, batch))
    assert all((rows != 0).any() for rows in everything.values())
    assert statistics is not None
    active = statistics.active
    for h, name in enumerate(NAMES[1:], 1):
        without = batch._replace(weight=torch.where(active[h], 0.0, 1.0))
        assert bool(without.weight.any())
        assert (rows_of(learner, gradient_of(learner, without))[name] == 0).all()


def indifferent(learner: Learner) -> Batch:
    """A rollout in which only the entropy matters, of a policy that is not uniform."""
    outputs = learner.flat.named()["output.linear.bias"]
    outputs.copy_(torch.randn(len(outputs), generator=torch.Generator().manual_seed(0)))
    batch = batch_of(learner, learner.collect())
    return batch._replace(advantages=torch.zeros_like(batch.advantages))


def test_the_bonus_is_for_the_joint_entropy() -> None:
    """P13: with masks that depend on the operation, whatever was chosen."""
    learner = greenhouse(ent_coef=0.1, vf_coef=0.0)
    batch = indifferent(learner)
    got = gradient_of(learner, batch)
    parameters, _ = learner.policy(batch.observation)
    assert batch.mask is not None
    entropy = learner.family.bind(parameters, batch.mask).entropy()
    learner.flat.gradient.zero_()
    torch.autograd.backward(-0.1 * entropy.mean())
    torch.testing.assert_close(got, learner.flat.gradient, rtol=1e-4, atol=1e-8)


def test_the_entropy_of_an_update_is_the_joint_one_and_of_a_head_that_of_the_steps_in_which_it_was_active() -> None:
    learner = greenhouse(ent_coef=0.1, n_epochs=1, batch_size=128)
    rollout = learner.collect()
    dist = learner.family.bind(rollout.parameters.flatten(0, 1), rollout.mask.flatten(0, 1))  # type: ignore[union-attr]
    record = learner.learn(rollout, 10).update
    assert record.entropy == pytest.approx(float(dist.entropy().mean()), rel=1e-5)
    without = greenhouse(n_epochs=1, batch_size=128)
    plain = without.learn(without.collect(), 10).update
    for name in NAMES:
        assert record.heads[name].entropy == pytest.approx(plain.heads[name].entropy, rel=1e-5)


def test_entropy_coefficients_of_single_heads_act_on_these_heads_and_on_what_makes_them_active() -> None:
    learner = greenhouse(head_ent_coefs={"slot": 0.5}, vf_coef=0.0)
    found = rows_of(learner, gradient_of(learner, indifferent(learner)))
    assert (found["slot"] != 0).any()
    assert found["op"][0, -1] > 0, "to wait becomes less likely, since it leaves no slot to choose"
    assert (found["kind"] == 0).all()


def test_a_head_takes_its_own_coefficient_or_the_common_one_and_keeps_its_floor() -> None:
    config = from_flat(
        ent_coef="linear(0.1, 0)",
        head_ent_coefs={"op": 0.3, "slot": "linear(0.2, 0)"},
        head_ent_coef_floors={"kind": 0.04},
    )
    plan = CoefficientPlan(config.ppo, NAMES)
    assert plan.at(0, 10).head_ent_coefs == pytest.approx((0.3, 0.2, 0.1))
    assert plan.at(9, 10).head_ent_coefs[2] == 0.04
    assert plan.at(9, 10).head_ent_coefs[1] < 0.05
    assert CoefficientPlan(from_flat().ppo, NAMES).at(0, 1).head_ent_coefs is None


def test_the_coefficient_of_a_head_is_logged() -> None:
    learner = greenhouse(ent_coef=0.01, head_ent_coefs={"slot": 0.5})
    metrics = learner.learn(learner.collect(), 10).update.metrics()
    assert metrics["train/head/slot/ent_coef"] == 0.5
    assert metrics["train/head/op/ent_coef"] == 0.01


def several_choices(**settings: Any) -> Learner:
    return make_learner("surefoot/IdentityMulti-v0", **({"n_steps": 32, "batch_size": 32} | settings))


def test_each_choice_of_a_multi_discrete_is_a_head() -> None:
    """Named by its position, as its masks are."""
    learner = several_choices()
    metrics = learner.learn(learner.collect(), 10).update.metrics()
    sizes = learner.envs.action_space.nvec.tolist()  # type: ignore[attr-defined]  # a MultiDiscrete
    for k, size in enumerate(sizes):
        assert metrics[f"train/head/{k}/count"] == learner.config.rollout_rows
        assert metrics[f"train/head/{k}/entropy"] == pytest.approx(math.log(size), abs=0.1)
    assert metrics["train/entropy"] == pytest.approx(sum(metrics[f"train/head/{k}/entropy"] for k in range(len(sizes))))
    assert metrics["train/approx_kl"] == pytest.approx(
        sum(metrics[f"train/head/{k}/approx_kl"] for k in range(len(sizes))), rel=1e-4
    )


@pytest.mark.parametrize("settings", [{"head_ent_coefs": {"1": 0.5}}, {"head_ent_coef_floors": {"1": 0.5}}])
def test_the_coefficient_of_one_of_several_choices_acts_on_it_alone(settings: dict[str, Any]) -> None:
    plain, own = several_choices(vf_coef=0.0), several_choices(vf_coef=0.0, **settings)
    rollouts = [learner.collect() for learner in (plain, own)]
    outputs = [learner.flat.named()["output.linear.weight"] for learner in (plain, own)]
    for weight in outputs:  # away from equal choices, where an entropy has no gradient
        weight[:, 0] += torch.linspace(-1.0, 1.0, len(weight))
    first, second = (
        rows_of(learner, gradient_of(learner, batch_of(learner, rollout)))
        for learner, rollout in zip((plain, own), rollouts, strict=True)
    )
    assert not torch.allclose(first["1"], second["1"])
    for name in set(first) - {"1"}:
        torch.testing.assert_close(first[name], second[name])
    metrics = own.learn(rollouts[1], 10).update.metrics()
    assert metrics["train/head/1/ent_coef"] == 0.5


def test_one_choice_is_measured_as_a_whole() -> None:
    learner = make_learner("CartPole-v1")
    assert learner.family.head_names == ()
    metrics = learner.learn(learner.collect(), 10).update.metrics()
    assert not [key for key in metrics if key.startswith("train/head/")]
    with pytest.raises(ConfigError, match="the env's actions have no heads"):
        make_learner("CartPole-v1", head_ent_coefs={"action": 0.1})


@pytest.mark.parametrize("field", ["head_ent_coefs", "head_ent_coef_floors"])
def test_a_coefficient_for_a_head_that_is_not_there_is_an_error(field: str) -> None:
    with pytest.raises(ConfigError, match=rf"ppo.{field}: the heads .* are op, slot, kind, not 'slott'; did you mean"):
        greenhouse(**{field: {"slott": 0.1}})
    with pytest.raises(ConfigError, match=rf"ppo.{field}: the env's actions have no heads, not 'op'"):
        make_learner("CartPole-v1", **{field: {"op": 0.1}})


def test_a_floor_that_is_never_reached_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"head_ent_coef_floors: 0\.1 for 'op' is not above the coefficient 0\.2"):
        from_flat(ent_coef=0.2, head_ent_coef_floors={"op": 0.1})


def test_pieces_of_a_minibatch_add_up() -> None:
    whole, pieces = greenhouse(n_epochs=1), greenhouse(n_epochs=1, micro_batch_size=12)
    records = [learner.learn(learner.collect(), 1).update for learner in (whole, pieces)]
    for name in NAMES:
        one, other = (record.heads[name] for record in records)
        assert one.entropy == pytest.approx(other.entropy, rel=1e-5)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-3)
        assert one.count == other.count
    assert (whole.flat.values - pieces.flat.values).abs().max() < 1e-5


def test_the_penalty_on_logits_leaves_numbers_alone() -> None:
    """A Dict of a choice and a Box: only the choice has logits."""

    class Mixed(OnlyWait):
        action_heads = None

        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.Dict({"a": spaces.Discrete(2), "x": spaces.Box(-1, 1, (2,))})

        def action_masks(self) -> Any:
            return {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            assert self.action_space.contains(action)
            return self.observation_space.sample(), 0.0, False, False, {}

    learner = make_learner(Mixed, logit_penalty=1.0, normalize_advantage="none", n_epochs=1, batch_size=64)
    bias = learner.flat.named()["output.linear.bias"]
    bias[2:] = 50.0
    assert learner.learn(learner.collect(), 1).update.values["train/logit_penalty"] == 0.0
    bias[:2] = 50.0
    assert learner.learn(learner.collect(), 1).update.values["train/logit_penalty"] > 1000.0
    with pytest.raises(ConfigError, match="logit_penalty is for discrete actions"):
        make_learner("Pendulum-v1", logit_penalty=1.0)
