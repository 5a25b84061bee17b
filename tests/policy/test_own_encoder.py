"""Networks that users bring: trained, saved or named, and never imported because a file says so."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from surefoot import PPO
from surefoot.errors import ConfigError
from surefoot.policy.memories import MEMORIES
from surefoot.policy.memory import Memory
from surefoot.policy.own_encoder import OwnEncoder
from surefoot.spaces import Layout

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2}


class Fourier(nn.Module):
    """Sines of random directions, then a layer."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        (leaf,) = layout.leaves
        self.n_outputs = 12
        self.into, self.out = nn.Linear(leaf.shape[0], 8), nn.Linear(8, 12)

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        return torch.relu(self.out(torch.sin(self.into(observation["obs"]))))


class Wrong(Fourier):
    """Says another width than it has."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self.n_outputs = 5


def agent(**policy: Any) -> PPO:
    return PPO("CartPole-v1", policy={"encoder": Fourier} | policy, **SMALL)


def values(trained: PPO) -> Tensor:
    return trained.learner.flat.values.detach().clone()


def test_an_own_encoder_is_trained_in_actor_and_critic() -> None:
    trained = agent()
    before = {name: x.clone() for name, x in trained.learner.flat.named().items()}
    assert isinstance(trained.learner.policy.encoder, OwnEncoder)
    assert trained.learner.policy.value_encoder is not trained.learner.policy.encoder
    trained.learn(64)
    for name, x in trained.learner.flat.named().items():
        assert not torch.equal(x, before[name]), name


def test_equal_seeds_give_equal_weights_and_leave_the_global_stream_alone() -> None:
    before = torch.get_rng_state()
    assert torch.equal(values(agent()), values(agent()))
    assert torch.equal(before, torch.get_rng_state())
    other = PPO("CartPole-v1", policy={"encoder": Fourier}, seed=1, **SMALL)
    assert not torch.equal(values(agent()), values(other))


@pytest.mark.parametrize("settings", [{"shared": True}, {}], ids=["shared", "apart"])
def test_it_goes_with_memory_twins_and_a_shared_trunk(settings: dict[str, Any]) -> None:
    memory = {"kind": "gru", "hidden_size": 8}
    critic = {"kind": "quantile", "twin": "heads" if settings else "trunks"}
    trained = PPO(
        "CartPole-v1",
        policy={"encoder": Fourier, **settings},
        memory={} if critic["twin"] == "trunks" else memory,
        critic=critic,
        **SMALL,
    )
    assert trained.learn(64).num_timesteps == 64


def test_loading_needs_the_class_from_the_caller(tmp_path: Path) -> None:
    trained = agent().learn(32)
    path = trained.save(tmp_path / "agent")
    with pytest.raises(ConfigError, match=r"policy=dict\(encoder=Fourier\)"):
        PPO.load(path)
    again = PPO.load(path, policy={"encoder": Fourier})
    assert torch.equal(values(again), values(trained))
    assert torch.equal(values(again.learn(32)), values(trained.learn(32)))
    seen = np.zeros(4, np.float32)
    assert again.predict(seen, deterministic=True)[0] == trained.predict(seen, deterministic=True)[0]


def test_a_class_by_name_is_imported_for_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_networks.py").write_text(
        "import torch\n\n\nclass Plain(torch.nn.Module):\n    n_outputs = 3\n\n    def __init__(self, layout):\n"
        "        super().__init__()\n        self.layer = torch.nn.Linear(layout.leaves[0].shape[0], 3)\n\n"
        "    def forward(self, observation):\n        return torch.tanh(self.layer(observation['obs']))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = PPO("CartPole-v1", policy={"encoder": "my_networks:Plain"}, **SMALL).learn(32).save(tmp_path / "agent")
    sys.modules.pop("my_networks")
    with pytest.raises(ConfigError, match="only names"):
        PPO.load(path)
    assert "my_networks" not in sys.modules
    assert PPO.load(path, policy={"encoder": "my_networks:Plain"}).learn(32).num_timesteps == 64


@pytest.mark.parametrize(
    ("encoder", "said"),
    [
        (Wrong, r"gives \(2, 12\) for two rows, not \(2, 5\)"),
        (lambda layout: nn.Linear(4, 4), "must make a torch.nn.Module with n_outputs"),
        ("nowhere_at_all:Class", "cannot import policy.encoder"),
        ("json:nothing", "cannot import policy.encoder"),
        ("no colon", "must be module:Class"),
        (3, "must be a class or module:Class"),
    ],
    ids=["width", "no width", "no module", "no class", "no colon", "a number"],
)
def test_what_is_no_encoder_is_explained(encoder: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PPO("CartPole-v1", policy={"encoder": encoder}, **SMALL)


def test_layers_that_it_replaces_cannot_be_set() -> None:
    with pytest.raises(ConfigError, match=r"policy\.hidden_sizes cannot act"):
        agent(hidden_sizes=(8,))


class LastSeen(Memory):
    """Remembers the features of the step before."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.state_size = self.n_outputs = 2 * n_features
        self.hidden = slice(0, self.state_size)

    def finish(self, hidden: Tensor) -> Tensor:
        return hidden

    def sequences(self, features: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
        first = start[:, : features.shape[-1]]
        outputs = torch.cat([features, torch.cat([first.unsqueeze(1), features[:, :-1]], 1)], -1)
        return outputs, outputs[:, -1]


def test_a_memory_of_someone_else_is_trained_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MEMORIES, "last", lambda n_inputs, config, activation, init: LastSeen(n_inputs))
    assert PPO("CartPole-v1", memory={"kind": "last"}, **SMALL).learn(64).num_timesteps == 64


def test_the_critic_may_have_layers_of_its_own_sizes() -> None:
    trained = PPO("CartPole-v1", policy={"hidden_sizes": (8,), "critic_hidden_sizes": (32, 16)}, **SMALL).learn(32)
    shapes = {name: tuple(x.shape) for name, x in trained.learner.flat.named().items()}
    assert shapes["encoder.trunk.layers.0.weight"] == (8, 4)
    assert shapes["value_encoder.trunk.layers.0.weight"] == (32, 4)
    assert shapes["critic.inner.output.weight"] == (1, 16)
    with pytest.raises(ConfigError, match=r"critic_hidden_sizes needs policy\.shared = false"):
        PPO("CartPole-v1", policy={"shared": True, "critic_hidden_sizes": (8,)}, **SMALL)
