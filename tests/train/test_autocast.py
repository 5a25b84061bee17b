"""Networks in bfloat16: what is computed in it, what is not, and that an update still starts where its rollout was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.cli.main import main
from surefoot.errors import ConfigError
from surefoot.train.setup import require_bfloat16
from train.agents import parameters, same_training, small

HALF: dict[str, Any] = {"autocast": "bfloat16"}
MEMORIES: dict[str, dict[str, Any]] = {
    "no memory": {},
    "lstm": {"memory": {"kind": "lstm", "hidden_size": 16}},
    "gru, shared": {"memory": {"kind": "gru", "hidden_size": 16, "shared": True}, "policy": {"shared": True}},
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_ratios_are_one_at_the_first_minibatch_of_every_update(memory: str, env: str) -> None:
    found: list[float] = []

    def keep(agent: PPO, record: IterationRecord) -> None:
        found.append(record.update.log_ratio_first)

    settings: dict[str, Any] = {"n_steps": 64, "n_envs": 3, "batch_size": 64, "learning_rate": 3e-3, "compile": False}
    PPO(env, **settings, **HALF, **MEMORIES[memory]).learn(192 * 6, callback=keep)
    assert len(found) == 6
    assert max(found) < 1e-5


@pytest.mark.parametrize("memory", MEMORIES)
def test_encoders_compute_in_bfloat16_and_all_else_in_float32(memory: str) -> None:
    agent = small(**HALF, **MEMORIES[memory])
    policy = agent.learner.policy
    hidden: set[torch.dtype] = set()
    outputs: set[torch.dtype] = set()
    for layer in policy.encoder.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_hook(lambda module, inputs, output: hidden.add(output.dtype))
    for part in (policy.output, policy.critic):
        part.register_forward_hook(lambda module, inputs, output: outputs.update((inputs[0].dtype, output.dtype)))
    agent.learn(32)
    assert hidden == {torch.bfloat16}
    assert outputs == {torch.float32}
    assert agent.learner.flat.values.dtype == torch.float32
    rollout = agent.learner.collector.rollout
    assert {x.dtype for x in (rollout.parameters, rollout.state, rollout.log_prob)} == {torch.float32}


def test_gradients_are_those_of_float32_but_for_rounding() -> None:
    def gradient(**settings: Any) -> Tensor:
        policy = small(**settings).learner.policy
        observation = {"obs": torch.linspace(-1, 1, 32).view(8, 4)}
        logits, values = policy(observation)
        torch.autograd.backward((logits.square().sum() + values.square().sum(),))
        found = [p.grad for p in policy.parameters() if p.grad is not None]
        assert {x.dtype for x in found} == {torch.float32}
        return torch.cat([x.flatten() for x in found])

    plain, half = gradient(), gradient(**HALF)
    error = (half - plain).norm() / plain.norm()
    assert 1e-5 < error < 0.02


def test_a_small_world_is_learned() -> None:
    settings: dict[str, Any] = {"n_envs": 8, "n_steps": 32, "learning_rate": 1e-2, "compile": False, "seed": 3}
    agent = PPO("surefoot/Identity-v0", **settings, **HALF).learn(8_000)
    assert agent.evaluate(20, seed=1).mean >= 0.95 * 32  # one for each right answer of an episode


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_resumed_training_goes_on_exactly(memory: str, tmp_path: Path) -> None:
    whole = small(**HALF, **MEMORIES[memory]).learn(64)
    half = small(**HALF, **MEMORIES[memory]).learn(32)
    half.save(tmp_path / "agent")
    assert same_training(PPO.load(tmp_path / "agent").learn(32), whole)


def test_an_agent_may_be_loaded_to_act_in_float32(tmp_path: Path) -> None:
    agent = small(**HALF).learn(32)
    agent.save(tmp_path / "agent")
    loaded = PPO.load(tmp_path / "agent", autocast=None)
    assert parameters(loaded).equal(parameters(agent))
    row = {"obs": torch.ones(1, 4)}
    exact, rounded = (x.learner.policy.action_parameters(row) for x in (loaded, agent))
    assert not exact.equal(rounded)
    assert torch.allclose(exact, rounded, atol=1e-2)


def test_a_device_without_bfloat16_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"ppo\.autocast = \"bfloat16\": the device 'meta' has no bfloat16"):
        require_bfloat16(torch.device("meta"))
    require_bfloat16(torch.device("cpu"))


def test_networks_without_hidden_layers_have_nothing_to_round() -> None:
    with pytest.raises(ConfigError, match=r"ppo\.autocast is for hidden layers"):
        small(**HALF, policy={"hidden_sizes": ()})


def test_the_command_line_has_it(tmp_path: Path) -> None:
    words = "--total-timesteps 32 --n-envs 2 --ppo.n-steps 16 --ppo.batch-size 16 --ppo.autocast bfloat16 --quiet"
    main(["train", "CartPole-v1", "--run-dir", str(tmp_path / "run"), *words.split()])
    assert 'autocast = "bfloat16"' in (tmp_path / "run" / "config.toml").read_text()
