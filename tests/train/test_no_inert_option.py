"""Every setting changes behaviour (P12). A new field fails here until it has its line in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from surefoot import PPO
from surefoot.cli.main import main
from surefoot.config import Config, from_dict
from surefoot.config.load import leaves
from surefoot.errors import ConfigError, NonFiniteError, RiskError
from surefoot.rollout.make import EnvLike
from train.agents import Random, checkpoints, image_space, lines, parameters

TESTS = Path(__file__).parent.parent

BASE: dict[str, Any] = {
    "n_envs": 2,
    "compile": False,
    "ppo.n_steps": 32,
    "ppo.batch_size": 32,
    "ppo.n_epochs": 4,
    "ppo.learning_rate": 0.01,
    "policy.hidden_sizes": (8,),
}
"""A short training with steps so large that every part of the objective comes to bear."""
UPDATES = 3


def build(settings: dict[str, Any]) -> Config:
    nested: dict[str, Any] = {}
    for dotted, value in (BASE | settings).items():
        section, _, name = dotted.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[name] = value
    return from_dict(nested)


def images() -> Random:
    return Random(image_space())


def two_heads() -> Random:
    return Random(action_space=spaces.Dict({"op": spaces.Discrete(3), "size": spaces.Discrete(2)}))


def huge_rewards() -> Random:
    """The square of a return overflows float32, so that no gradient is finite."""
    return Random(scale=1e30)


def trained(env: EnvLike, settings: dict[str, Any]) -> Tensor:
    config = build(settings)
    agent = PPO(env, config=config)
    agent.learn(UPDATES * config.rollout_rows)
    return parameters(agent)


REFERENCES: dict[str, Tensor] = {}
"""Weights of the trainings that others are compared with."""


@dataclass(frozen=True)
class Trains:
    """Training with each of ``values`` leads to other weights than training without."""

    values: Sequence[Any]
    base: dict[str, Any] = field(default_factory=dict)
    env: EnvLike = "CartPole-v1"

    def __call__(self, dotted: str, tmp_path: Path) -> None:
        key = repr((self.env, self.base))
        if key not in REFERENCES:
            REFERENCES[key] = trained(self.env, self.base)
        reference = REFERENCES[key]
        for value in self.values:
            assert not trained(self.env, self.base | {dotted: value}).equal(reference), f"{dotted} = {value!r} is inert"


@dataclass(frozen=True)
class Elsewhere:
    """Another file proves it."""

    file: str

    def __call__(self, dotted: str, tmp_path: Path) -> None:
        assert (TESTS / self.file).is_file(), f"{dotted} should be proven in {self.file}"


def run_of(tmp_path: Path, **options: Any) -> Path:
    """A run of five updates of 64 env steps by the command line, with other options as given."""
    settings = {"total-timesteps": 320, "n-envs": 2, "ppo.n-steps": 32, "ppo.n-epochs": 2, "compile": "false"}
    settings |= {"policy.hidden-sizes": 8, "ppo.learning-rate": 0.01} | options
    words = [word for name, value in settings.items() for word in (f"--{name}", str(value)) if word]
    path = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
    main(["train", "CartPole-v1", "--quiet", "--run-dir", str(path), *words])
    return path


def env(dotted: str, tmp_path: Path) -> None:
    for name, size in (("CartPole-v1", 4), ("Acrobot-v1", 6)):
        config = build({"env": name})
        assert PPO(config.env, config=config).envs.observation_space.shape == (size,)


def total_timesteps(dotted: str, tmp_path: Path) -> None:
    assert [line["step"] for line in lines(run_of(tmp_path))] == [64, 128, 192, 256, 320]
    assert [line["step"] for line in lines(run_of(tmp_path, **{"total-timesteps": 100}))] == [64, 128]


def device(dotted: str, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        assert PPO("CartPole-v1", config=build({"device": "cuda"})).learner.flat.values.is_cuda
    else:
        with pytest.raises(ConfigError, match="device"):
            PPO("CartPole-v1", config=build({"device": "cuda"}))


def threads(dotted: str, tmp_path: Path) -> None:
    for count in (1, 2):
        seen: set[int] = set()
        agent = PPO("CartPole-v1", config=build({"threads": count}))
        agent.learn(1, callback=lambda agent, record, seen=seen: seen.add(torch.get_num_threads()))
        assert seen == {count}


def kl_estimator(dotted: str, tmp_path: Path) -> None:
    logged = set()
    for name in ("k1", "k2", "k3", "exact"):
        agent = PPO("CartPole-v1", config=build({dotted: name})).learn(64)
        logged.add(agent.logger_values["train/approx_kl"])
    assert len(logged) == 4


def micro_batch_size(dotted: str, tmp_path: Path) -> None:
    def largest_forward(settings: dict[str, Any]) -> int:
        agent = PPO("CartPole-v1", config=build(settings))
        rows: list[int] = []
        agent.learner.policy.register_forward_hook(lambda module, inputs, outputs: rows.append(outputs[0].shape[0]))
        agent.learn(64)
        return max(rows)

    assert largest_forward({}) == 32
    assert largest_forward({dotted: 10}) == 10


def diagnostics(dotted: str, tmp_path: Path) -> None:
    """Y06: they are passive. Without them the same is learned, and less is said."""
    for settings in ({}, {"ppo.target_kl": 0.01}, {"ppo.adaptive_lr_kl": 0.01}):
        full, bare = (PPO("CartPole-v1", config=build(settings | {dotted: on})).learn(320) for on in (True, False))
        assert torch.equal(full.learner.flat.values, bare.learner.flat.values)
        assert "train/clip_fraction" in full.logger_values
        assert "train/clip_fraction" not in bare.logger_values
        assert bare.logger_values["train/grad_norm"] == full.logger_values["train/grad_norm"]


def max_nonfinite_updates(dotted: str, tmp_path: Path) -> None:
    for limit in (1, 5):
        with pytest.raises(NonFiniteError, match=f"^{limit} optimizer steps in a row"):
            PPO(huge_rewards, config=build({dotted: limit, "critic.popart": False})).learn(1000)


def checkpoint_every(dotted: str, tmp_path: Path) -> None:
    kept = {"run.keep-checkpoints": 9}
    assert checkpoints(run_of(tmp_path, **kept, **{"run.checkpoint-every": 64})) == [0, 64, 128, 192, 256, 320]
    assert checkpoints(run_of(tmp_path, **kept, **{"run.checkpoint-every": 128})) == [0, 128, 256, 320]


def keep_checkpoints(dotted: str, tmp_path: Path) -> None:
    for count in (1, 4):
        run = run_of(tmp_path, **{"run.checkpoint-every": 64, "run.keep-checkpoints": count})
        assert len(checkpoints(run)) == count


def log_interval(dotted: str, tmp_path: Path) -> None:
    assert [line["step"] for line in lines(run_of(tmp_path, **{"run.log-interval": 2}))] == [128, 256]


def eval_every(dotted: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, **{"run.eval-every": 128})
    assert [line["step"] for line in lines(run) if "eval/mean_reward" in line] == [128, 256]
    assert (run / "best" / "manifest.json").is_file()


def eval_episodes(dotted: str, tmp_path: Path) -> None:
    run = run_of(tmp_path, **{"run.eval-every": 128, "run.eval-episodes": 3})
    assert {line["eval/episodes"] for line in lines(run) if "eval/episodes" in line} == {3}


def patience(dotted: str, tmp_path: Path) -> None:
    # with a learning rate of 0 no evaluation is better than the first
    settings = {"run.eval-every": 64, "run.eval-episodes": 2, "ppo.learning-rate": 0}
    assert len(lines(run_of(tmp_path, **settings))) == 5
    assert len(lines(run_of(tmp_path, **settings, **{"run.patience": 2}))) == 3


def sinks(dotted: str, tmp_path: Path) -> None:
    assert len(list(run_of(tmp_path).glob("*tfevents*"))) == 1
    assert list(run_of(tmp_path, **{"run.sinks": ""}).glob("*tfevents*")) == []


class Costly(Random):
    """Tells two costs of each step, under two names."""

    def step(self, action: Any) -> Any:
        *rest, _ = super().step(action)
        return *rest, {"cost": 1.0, "wear": float(action)}


def risk_kind(dotted: str, tmp_path: Path) -> None:
    limit, half = {"risk.limit_per_episode": 5.0}, {"risk.alpha": 0.5}
    found = [trained(Costly, {}), trained(Costly, {dotted: "cvar_objective"} | half)]
    found += [trained(Costly, {dotted: "cvar_constraint"} | limit | half)]
    found += [trained(Costly, {dotted: "cost_constraint"} | limit)]
    assert all(not a.equal(b) for i, a in enumerate(found) for b in found[:i])


def cost_key(dotted: str, tmp_path: Path) -> None:
    base = {"risk.kind": "cost_constraint", "risk.limit_per_episode": 1.0}
    assert not trained(Costly, base).equal(trained(Costly, base | {dotted: "wear"}))


def max_steps_without_episode(dotted: str, tmp_path: Path) -> None:
    with pytest.raises(RiskError, match="limit_per_step"):
        trained(Endless, CONSTRAINT | {dotted: 8})
    trained(Endless, CONSTRAINT)


class Endless(Random):
    """Episodes never end."""

    def step(self, action: Any) -> Any:
        observation, reward, *_ = super().step(action)
        return observation, reward, False, False, {}


def critic_clip_mode(dotted: str, tmp_path: Path) -> None:
    base = QUANTILE | {"ppo.clip_range_vf": 0.01}
    found = [
        trained("CartPole-v1", base | {dotted: mode}) for mode in ("mean_only", "mean_and_variance", "per_quantile")
    ]
    found.append(trained("CartPole-v1", QUANTILE))
    assert all(not a.equal(b) for i, a in enumerate(found) for b in found[:i])


QUANTILE: dict[str, Any] = {"critic.kind": "quantile"}
CATEGORICAL: dict[str, Any] = {"critic.kind": "categorical", "critic.v_min": -10.0, "critic.v_max": 100.0}
CONSTRAINT: dict[str, Any] = {"risk.kind": "cvar_constraint", "risk.alpha": 0.5, "risk.limit_per_episode": 100.0}

ROBUST: dict[str, Any] = {"robust.kind": "sa_ppo", "ppo.normalize_observations": True, "ppo.learning_rate": 0.1}

PROOFS: dict[str, Callable[[str, Path], None]] = {
    "env": env,
    "env_kwargs": Trains([{"sutton_barto_reward": True}]),
    "n_envs": Trains([1, 3]),
    "vectorization": Elsewhere("rollout/test_make_envs.py"),
    "workers": Elsewhere("workers/test_workers.py"),
    "worker_timeout": Elsewhere("workers/test_workers.py"),
    "seed": Trains([1]),
    "total_timesteps": total_timesteps,
    "device": device,
    "compile": Elsewhere("fast/test_compile.py"),
    "threads": threads,
    "ppo.learning_rate": Trains([0.02, "linear(0.01, 0)"]),
    "ppo.critic_learning_rate": Trains([0.02, "linear(0.01, 0)"]),
    "ppo.n_steps": Trains([48]),
    "ppo.batch_size": Trains([16]),
    "ppo.n_epochs": Trains([3]),
    "ppo.gamma": Trains([0.9]),
    "ppo.gae_lambda": Trains([0.5]),
    "ppo.clip_range": Trains([0.01, "linear(0.01, 0)"]),
    "ppo.clip_range_vf": Trains([0.01]),
    "ppo.normalize_advantage": Trains(["minibatch", "env", "none"]),
    "ppo.ent_coef": Trains([0.1, "decay(0.1, 0.01, 2)"]),
    "ppo.head_ent_coefs": Trains([{"op": 0.1}, {"size": 0.1}], env=two_heads),
    "ppo.head_ent_coef_floors": Trains([{"op": 0.1}], env=two_heads),
    "ppo.vf_coef": Trains([1.0]),
    "ppo.max_grad_norm": Trains([0.1, None]),
    "ppo.target_kl": Trains([1e-4]),
    "ppo.kl_estimator": kl_estimator,
    "ppo.adaptive_lr_kl": Trains([1e-5]),
    "ppo.kl_coef": Trains([1.0, "linear(1, 0)"]),
    "ppo.adaptive_kl_coef": Trains([True], {"ppo.kl_coef": 1.0, "ppo.target_kl": 1e-3}),
    "ppo.entropy_floor": Trains([0.69]),
    "ppo.dual_clip": Trains([1.01], {"ppo.learning_rate": 0.1}),
    "ppo.log_ratio_bound": Trains(["tanh"]),
    "ppo.logit_penalty": Trains([1.0], {"ppo.learning_rate": 3.0}),
    "ppo.optimizer": Trains(["adamw", "upgd", "adaupgd"], {"ppo.weight_decay": 0.1}),
    "upgd.beta_utility": Trains([0.9], {"ppo.optimizer": "upgd"}),
    "upgd.sigma": Trains([0.1, 0.0], {"ppo.optimizer": "adaupgd"}),
    "upgd.exempt_vectors": Trains([True], {"ppo.optimizer": "upgd"}),
    "robust.kind": Trains(["sa_ppo"], {"ppo.normalize_observations": True}),
    "robust.epsilon": Trains([0.5], ROBUST),
    "robust.coef": Trains([0.1, "linear(1, 0)"], ROBUST),
    "robust.steps": Trains([2], ROBUST),
    "robust.ramp": Trains([0.0, 0.5], ROBUST),
    "robust.units": Elsewhere("algo/test_robust.py"),
    "robust.fixed_features": Trains([("1",), ("obs:2",)], ROBUST),
    "imitation.coef": Trains([1.0, "linear(1, 0)"]),
    "imitation.beta": Trains([0.1], {"imitation.coef": 1.0}),
    "imitation.max_weight": Trains([1.01], {"imitation.coef": 1.0}),
    "imitation.demonstrations": Elsewhere("algo/test_imitation.py"),
    "imitation.fingerprint": Elsewhere("train/test_recording.py"),
    "vgs.alpha": Trains([0.5, 0.1]),
    "vgs.beta": Trains([0.5], {"vgs.alpha": 0.5}),
    "ppo.adam_eps": Trains([1e-2]),
    "ppo.adam_betas": Trains([(0.5, 0.999), (0.9, 0.9)]),
    "ppo.weight_decay": Trains([0.1]),
    "ppo.decay_scope": Trains(["all"], {"ppo.weight_decay": 0.1}),
    "ppo.micro_batch_size": micro_batch_size,
    "ppo.autocast": Trains(["bfloat16"]),
    "ppo.diagnostics": diagnostics,
    "ppo.max_nonfinite_updates": max_nonfinite_updates,
    "ppo.normalize_observations": Trains([True]),
    "ppo.normalize_rewards": Trains([True]),
    "ppo.observation_statistics": Trains(["step"], {"ppo.normalize_observations": True}),
    "ppo.observation_clip": Trains([0.5], {"ppo.normalize_observations": True}),
    "ppo.reward_clip": Trains([0.01], {"ppo.normalize_rewards": True}),
    "policy.hidden_sizes": Trains([(4,), (8, 8), ()]),
    "policy.critic_hidden_sizes": Trains([(4,), (8, 8), ()]),
    "policy.encoder": Elsewhere("policy/test_own_encoder.py"),
    "policy.activation": Trains(["relu", "elu", "silu", "gelu"]),
    "policy.layer_norm": Trains([True]),
    "policy.shared": Trains([True]),
    "policy.ortho_init": Trains([False]),
    "policy.mask_key": Elsewhere("vector/test_masks.py"),
    "policy.distribution": Trains(["tanh_gaussian", "beta"], env="Pendulum-v1"),
    "policy.log_std_init": Trains([-1.0], env="Pendulum-v1"),
    "policy.std_min": Trains([1.0], env="Pendulum-v1"),
    "policy.std_max": Trains([1.0], env="Pendulum-v1"),
    "policy.state_dependent_std": Trains([True], env="Pendulum-v1"),
    "policy.cnn_channels": Trains([(2,), (4, 4)], {"policy.cnn_channels": (4,), "policy.cnn_features": 4}, env=images),
    "policy.cnn_features": Trains([8], {"policy.cnn_channels": (2,)}, env=images),
    "critic.kind": Trains(["quantile", "categorical"]),
    "critic.n_quantiles": Trains([8], QUANTILE),
    "critic.kappa": Trains([0.5, 0.0], QUANTILE),
    "critic.n_atoms": Trains([11], CATEGORICAL),
    "critic.v_min": Trains([-50.0], CATEGORICAL),
    "critic.v_max": Trains([50.0], CATEGORICAL),
    "critic.targets": Trains(["monte_carlo", "backup"], QUANTILE),
    "critic.twin": Trains(["heads", "trunks"]),
    "critic.popart": Trains([False]),
    "critic.clip_mode": critic_clip_mode,
    "memory.kind": Trains(["lstm", "gru"]),
    "memory.hidden_size": Trains([8], {"memory.kind": "lstm"}),
    "memory.output_sizes": Trains([(8,)], {"memory.kind": "lstm"}),
    "memory.layers": Trains([2], {"memory.kind": "lstm"}),
    "memory.shared": Trains([True], {"memory.kind": "lstm", "policy.shared": True}),
    "memory.max_length": Trains([4], {"memory.kind": "lstm"}),
    "memory.span": Trains([20], {"memory.kind": "lstm"}),
    "memory.burn_in": Trains([2], {"memory.kind": "lstm", "memory.max_length": 4}),
    "risk.kind": risk_kind,
    "risk.alpha": Trains([0.9], {"risk.kind": "cvar_objective", "risk.alpha": 0.5}),
    "risk.limit_per_episode": Trains([30.0], CONSTRAINT),
    "risk.limit_discounted": Trains(
        [30.0], {"risk.kind": "cvar_constraint", "risk.alpha": 0.5, "risk.limit_discounted": 100.0}
    ),
    "risk.cvar_weight": Trains([1.0], {"risk.kind": "cvar_objective", "risk.alpha": 0.5}),
    "risk.multiplier_lr": Trains([0.9], CONSTRAINT),
    "risk.limit_per_step": Trains([30.0], {"risk.kind": "cvar_constraint", "risk.limit_per_step": 100.0}),
    "risk.observe_return": Trains([True], CONSTRAINT),
    "risk.max_steps_without_episode": max_steps_without_episode,
    "risk.multiplier_init": Trains([1.0], CONSTRAINT),
    "risk.multiplier_kp": Trains([0.0], CONSTRAINT),
    "risk.multiplier_kd": Trains([1.0], CONSTRAINT),
    "risk.multiplier_smoothing": Trains([0.0], CONSTRAINT),
    "risk.cost_key": cost_key,
    "run.checkpoint_every": checkpoint_every,
    "run.keep_checkpoints": keep_checkpoints,
    "run.log_interval": log_interval,
    "run.eval_every": eval_every,
    "run.eval_env": Elsewhere("train/test_separate_evaluation.py"),
    "run.eval_env_kwargs": Elsewhere("train/test_separate_evaluation.py"),
    "run.eval_episodes": eval_episodes,
    "run.patience": patience,
    "run.sinks": sinks,
    **{name: Elsewhere("train/test_market_settings.py") for name, _ in leaves() if name.startswith("market.")},
}
SAME = {"policy.distribution": {"gaussian"}, "critic.targets": {"lambda"}}
"""Choices that are another name of the default, by their documentation."""


@pytest.mark.parametrize("dotted", [name for name, _ in leaves()])
def test_every_setting_changes_behaviour(dotted: str, tmp_path: Path) -> None:
    assert dotted in PROOFS, f"{dotted} is new: show in PROOFS what it changes"
    PROOFS[dotted](dotted, tmp_path)


@pytest.mark.parametrize("world", ["CartPole-v1", "Pendulum-v1"])
def test_without_a_change_nothing_changes(world: str) -> None:
    assert trained(world, {}).equal(trained(world, {}))


def test_the_table_names_no_setting_that_is_gone() -> None:
    assert PROOFS.keys() - dict(leaves()).keys() == set()


def choices(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)


@pytest.mark.parametrize("dotted", [name for name, f in leaves() if any(choices(f.annotation))])
def test_every_choice_is_proven(dotted: str) -> None:
    proof, about = PROOFS[dotted], dict(leaves())[dotted]
    if isinstance(proof, Trains):
        proven = {*proof.values, about.default} | SAME.get(dotted, set())
        assert set(choices(about.annotation)) == proven
