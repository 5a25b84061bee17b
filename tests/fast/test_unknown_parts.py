"""Parts that someone else wrote are not compiled: silently by default, with an error that names them if asked for."""

from __future__ import annotations

import pytest

from policy.test_own_encoder import SMALL, Fourier, LastSeen, agent
from surefoot import PPO
from surefoot.errors import ConfigError
from surefoot.policy.memories import MEMORIES


def test_compiling_an_own_encoder_is_refused_by_name_and_auto_runs_in_plain_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="the encoder Fourier cannot be compiled"):
        PPO("CartPole-v1", policy={"encoder": Fourier}, compile=True, **SMALL).learn(32)
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_STEPS", 1)
    trained = agent().learn(32)
    assert not trained.learner.compiled


def test_a_memory_of_someone_else_runs_in_plain_torch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEMORIES, "last", lambda n_inputs, config, activation, init: LastSeen(n_inputs))
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_KERNEL_STEPS", 1)
    memory = {"kind": "last"}
    trained = PPO("CartPole-v1", memory=memory, **SMALL).learn(64)
    assert trained.learner.compiled_parts == (False, False)
    with pytest.raises(ConfigError, match="the memory LastSeen cannot be compiled"):
        PPO("CartPole-v1", memory=memory, compile=True, **SMALL).learn(32)


def test_networks_in_bfloat16_run_in_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"networks in bfloat16 \(ppo\.autocast\) cannot be compiled"):
        PPO("CartPole-v1", autocast="bfloat16", compile=True, **SMALL).learn(32)
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_STEPS", 1)
    assert not PPO("CartPole-v1", autocast="bfloat16", **SMALL).learn(32).learner.compiled
