"""Options beside plain PPO go with memory, heads, masks, distributional critics and limits, and a saved agent goes on
exactly with each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surefoot import PPO
from surefoot.errors import ConfigError
from surefoot.train.recording import record
from train.agents import ROWS, parameters, same_training, small

SCHEDULED = {"total_timesteps": 6 * ROWS}
OPTIONS: dict[str, dict[str, Any]] = {
    "upgd": {"optimizer": "upgd", "weight_decay": 0.01},
    "adaupgd": {"optimizer": "adaupgd", "upgd": {"exempt_vectors": True}},
    "vgs": {"vgs": {"alpha": 0.1}, "critic_learning_rate": "linear(1e-3, 0)"},
    "robust": {"robust": {"kind": "sa_ppo", "epsilon": 0.1, "steps": 2}, "normalize_observations": True},
    "imitation": {"imitation": {"coef": "linear(0.5, 0.1)", "beta": 0.5}},
    "demonstrations": {"imitation": {"coef": 0.5, "beta": None, "demonstrations": "…"}},
    "kl penalty": {"kl_coef": 0.5, "adaptive_kl_coef": True, "target_kl": 10.0},
    "entropy floor": {"entropy_floor": 0.0},
}
PARTNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 8}}),
    "masked heads": ("surefoot/Greenhouse-v0", {}),
    "masked heads, gru": ("surefoot/Greenhouse-v0", {"memory": {"kind": "gru", "hidden_size": 8}}),
    "cvar limit, twin quantiles": (
        "surefoot/CrashPortfolio-v0",
        {
            "critic": {"kind": "quantile", "n_quantiles": 8, "twin": "heads"},
            "risk": {"kind": "cvar_constraint", "alpha": 0.25, "limit_per_episode": 0.0},
        },
    ),
    "cost limit, categorical": (
        "surefoot/CostlyArm-v0",
        {
            "critic": {"kind": "categorical", "n_atoms": 11},
            "risk": {"kind": "cost_constraint", "limit_per_episode": 1.0},
        },
    ),
}
REFUSED = {("demonstrations", "lstm"), ("demonstrations", "masked heads, gru")}


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Files of one recorded episode, by env id."""
    folder = tmp_path_factory.mktemp("demonstrations")

    def of(env: str) -> str:
        path = folder / f"{env.replace('/', '-')}.npz"
        if not path.exists():
            record(small(env), path, 1)
        return str(path)

    return of


def settings_of(option: str, partner: str, demonstrations: Callable[[str], str]) -> tuple[str, dict[str, Any]]:
    env, settings = PARTNERS[partner]
    chosen = {name: dict(value) if isinstance(value, dict) else value for name, value in OPTIONS[option].items()}
    if option == "demonstrations":
        chosen["imitation"]["demonstrations"] = demonstrations(env)
    if option == "entropy floor":  # which the policy is below from the start
        chosen["entropy_floor"] = min(20.0, small(env).learner.family.max_entropy - 1e-6)
    return env, SCHEDULED | settings | chosen


@pytest.mark.parametrize("partner", PARTNERS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_acts_beside_other_parts_and_is_resumed_exactly(
    option: str, partner: str, demonstrations: Callable[[str], str], tmp_path: Path
) -> None:
    env, settings = settings_of(option, partner, demonstrations)
    if (option, partner) in REFUSED:
        with pytest.raises(ConfigError, match="do not go with memory"):
            small(env, **settings)
        return
    agent = small(env, **settings).learn(3 * ROWS)
    plain = {"normalize_observations": True} if option == "robust" else {}
    assert not parameters(agent).equal(
        parameters(small(env, **SCHEDULED, **PARTNERS[partner][1], **plain).learn(3 * ROWS))
    )
    again = PPO.load(agent.save(tmp_path / "agent"))
    assert same_training(again.learn(3 * ROWS), agent.learn(3 * ROWS))
