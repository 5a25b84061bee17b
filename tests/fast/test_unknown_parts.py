"""Parts that only their users know run in plain torch; asked to compile them, the library names them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from policy.test_own_encoder import SMALL, Fourier, agent
from surefoot import PPO
from surefoot.errors import ConfigError
from surefoot.policy.memory import Memory


def test_compiling_it_is_refused_by_name_and_auto_runs_in_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="the encoder Fourier cannot be compiled"):
        PPO("CartPole-v1", policy={"encoder": Fourier}, compile=True, **SMALL).learn(32)
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_STEPS", 1)
    trained = agent().learn(32)
    assert not trained.learner.compiled


class LastSeen(Memory):
    """Remembers the features of the step before."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.state_size, self.n_outputs, self.hidden = n_features, 2 * n_features, slice(0, n_features)

    def finish(self, hidden: Tensor) -> Tensor:
        return torch.cat([hidden, hidden], -1)

    def sequences(self, features: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        before = torch.cat([start.unsqueeze(1), features[:, :-1]], 1)
        return torch.cat([features, before], -1), features[:, -1]


def test_a_memory_of_someone_else_runs_in_plain_torch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.policy.policy.build_memory", lambda config, n_inputs, init: LastSeen(n_inputs))
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_KERNEL_STEPS", 1)
    memory = {"kind": "gru"}
    trained = PPO("CartPole-v1", memory=memory, **SMALL).learn(64)
    assert trained.learner.compiled_parts == (False, False)
    with pytest.raises(ConfigError, match="the memory LastSeen cannot be compiled"):
        PPO("CartPole-v1", memory=memory, compile=True, **SMALL).learn(32)
