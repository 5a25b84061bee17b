"""Every key that a run logs is declared, and the page of all keys is up to date."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest

import surefoot
from surefoot.algo.metrics import ELSEWHERE, TABLE, declared
from surefoot.errors import SurefootWarning
from surefoot.train.callbacks import EvaluationCallback
from surefoot.worlds import register_envs
from train.agents import ROWS, small

register_envs()
DOCS = Path(__file__).parents[2] / "docs"

RUNS: dict[str, tuple[str, dict[str, Any], set[str]]] = {
    "plain": (
        "CartPole-v1",
        {"target_kl": 1e-9, "clip_range_vf": 0.2, "ent_coef": "decay(0.1, 0.01, 10, 2)"},
        {"train/kl_stop_epoch", "train/value_clip_active", "train/entropy_decay_delayed", "train/action_share_max"},
    ),
    "heads": (
        "surefoot/Greenhouse-v0",
        {"ent_coef": 0.01, "head_ent_coefs": {"slot": 0.5}},
        {"train/head/slot/ent_coef", "train/head/op/ratio", "train/action_share_max"},
    ),
    "memory": ("CartPole-v1", {"memory": {"kind": "lstm"}}, {"train/grad_norm/memory", "train/kl_p90"}),
    "quantile twin, normalizers": (
        "Pendulum-v1",
        {
            "normalize_observations": True,
            "normalize_rewards": True,
            "critic": {"kind": "quantile", "twin": "heads", "popart": True},
        },
        {"train/critics_grad_ratio", "train/quantile_spread", "train/observation_std_drift", "train/std"},
    ),
    "categorical": ("CartPole-v1", {"critic": {"kind": "categorical"}}, {"train/out_of_support_fraction"}),
    "CVaR limit": (
        "CartPole-v1",
        {"critic": {"kind": "quantile"}, "risk": {"kind": "cvar_constraint", "alpha": 0.9, "limit_per_episode": 5.0}},
        {"risk/multiplier", "risk/cvar", "risk/coverage_05"},
    ),
    "cost limit": (
        "surefoot/CostlyArm-v0",
        {"risk": {"kind": "cost_constraint", "limit_per_episode": 0.5}},
        {"risk/cost", "risk/cost_explained_variance", "rollout/ep_cost_mean"},
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_key_that_is_logged_is_declared(name: str) -> None:
    env, settings, among_them = RUNS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)  # so few episodes say little about a tail
        agent = small(env, **settings).learn(3 * ROWS, callback=EvaluationCallback(every=ROWS, n_episodes=1))
    assert among_them | {"eval/mean_reward", "time/fps"} <= agent.logger_values.keys()
    assert [key for key in agent.logger_values if declared(key) is None] == []


def test_a_name_stands_for_what_is_in_angle_brackets() -> None:
    assert declared("train/head/op/ratio") is TABLE["train/head/<head>/ratio"]
    assert declared("train/grad_norm/encoder") is TABLE["train/grad_norm/<part>"]
    assert declared("train/grad_norm") is TABLE["train/grad_norm"]
    assert declared("risk/coverage_05") is TABLE["risk/coverage_<level>"]
    assert declared("train/head/op/ratioo") is None
    assert declared("train/losss") is None


def test_every_metric_says_what_it_means_in_a_sentence() -> None:
    for key, entry in TABLE.items():
        assert entry.meaning.endswith("."), key
        assert entry.unit, key


def test_keys_that_are_made_elsewhere_name_their_makers() -> None:
    package = Path(surefoot.__file__).parent
    assert [entry.key for entry in ELSEWHERE if not (package / entry.maker).exists()] == []


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("generate_metrics", DOCS / "generate_metrics.py")
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    written = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert written == generator.page(), "run: python docs/generate_metrics.py"
    assert all(f"| `{key}` |" in written for key in TABLE)
