"""`PPO(...)` and `learn`: what trains, for how long, from which environments, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from surefoot import PPO, Config
from surefoot.algo.learner import IterationRecord
from surefoot.config import from_flat
from surefoot.errors import ConfigError, EnvError, SurefootError, SurefootWarning
from train.agents import ROWS, SMALL, Random, image_space, parameters, same_training, small


def cartpole() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("CartPole-v1")


@pytest.mark.parametrize(("asked", "trained"), [(1, 32), (32, 32), (33, 64), (64, 64)])
def test_learn_rounds_up_to_whole_rollouts(asked: int, trained: int) -> None:
    assert small().learn(asked).num_timesteps == trained


def test_learn_trains_that_many_steps_more() -> None:
    agent = small()
    assert agent.num_timesteps == 0
    assert agent.learn(40) is agent
    assert agent.learn(40).num_timesteps == 128


def test_learning_in_two_parts_equals_learning_at_once() -> None:
    assert same_training(small().learn(2 * ROWS).learn(2 * ROWS), small().learn(4 * ROWS))


@pytest.mark.parametrize("steps", [0, -1])
def test_learning_no_steps_is_refused(steps: int) -> None:
    with pytest.raises(ConfigError, match="total_timesteps must be at least 1"):
        small().learn(steps)


@pytest.mark.parametrize("steps", ["100", None, math.nan, math.inf])
def test_a_goal_that_is_no_count_is_refused(steps: Any) -> None:
    with pytest.raises(ConfigError, match="total_timesteps"):
        small().learn(steps)


def test_a_whole_number_written_as_a_float_is_a_count(tmp_path: Path) -> None:
    assert small().learn(6e1, run_dir=tmp_path / "run").num_timesteps == 64  # type: ignore[arg-type]  # as users do
    assert "total_timesteps = 60\n" in (tmp_path / "run" / "config.toml").read_text()


RUN_SETTINGS: list[dict[str, Any]] = [
    {"eval_every": 32},
    {"eval_every": 32, "patience": 2},
    {"checkpoint_every": 32},
    {"log_interval": 2},
    {"sinks": ()},
]


@pytest.mark.parametrize("settings", RUN_SETTINGS, ids=str)
def test_settings_of_a_run_are_refused_without_a_run_directory(settings: dict[str, Any], tmp_path: Path) -> None:
    """P12"""
    agent = small(run=settings)
    with pytest.raises(ConfigError, match=r"run_dir") as caught:
        agent.learn(ROWS)
    assert [name for name in settings if f"run.{name}" not in str(caught.value)] == []
    assert ("EvaluationCallback" in str(caught.value)) == ("eval_every" in settings)
    assert agent.num_timesteps == 0
    assert agent.learn(ROWS, run_dir=tmp_path / "run").num_timesteps == ROWS


def test_an_agent_loaded_from_a_run_may_go_on_without_one(tmp_path: Path) -> None:
    """Its settings of the run are not the caller's. That it is no longer evaluated is said."""
    quiet, evaluated = small(run={"log_interval": 2, "sinks": ()}), small(run={"eval_every": 32, "sinks": ()})
    loaded = PPO.load(quiet.save(tmp_path / "quiet"))
    assert loaded.learn(ROWS).num_timesteps == ROWS
    loaded = PPO.load(evaluated.save(tmp_path / "evaluated"))
    with pytest.warns(SurefootWarning, match=r"run\.eval_every.*run_dir"):
        loaded.learn(ROWS)


ONE_STEP: dict[str, Any] = {"n_epochs": 1, "batch_size": ROWS}


@pytest.mark.parametrize("memory", [{}, {"kind": "gru", "hidden_size": 4}], ids=["rows", "sequences"])
def test_an_update_of_one_gradient_step_is_called_a2c_once(memory: dict[str, Any]) -> None:
    """P10: its ratios never leave 1."""
    agent = small(memory=memory, **ONE_STEP)
    with pytest.warns(SurefootWarning, match=r"n_epochs = 1 and batch_size = 32 .*A2C") as caught:
        agent.learn(ROWS)
    assert [warning.filename for warning in caught] == [__file__]
    assert agent.learn(2 * ROWS).num_timesteps == 3 * ROWS
    assert agent.logger_values["train/gradient_steps"] == 1.0
    assert agent.logger_values["train/log_ratio_max"] == pytest.approx(0.0, abs=1e-5)


def test_the_logged_values_carry_the_known_keys() -> None:
    agent = small().learn(8 * ROWS)
    expected = {
        "rollout/ep_rew_mean",
        "rollout/ep_len_mean",
        "time/fps",
        "time/time_elapsed",
        "time/iterations",
        "time/total_timesteps",
        "train/approx_kl",
        "train/clip_fraction",
        "train/explained_variance",
        "train/learning_rate",
        "train/loss",
        "train/policy_gradient_loss",
        "train/value_loss",
        "train/entropy_loss",
        "train/log_ratio_mean",
        "train/log_ratio_std",
        "train/log_ratio_max",
    }
    assert expected - agent.logger_values.keys() == set()
    assert all(isinstance(value, float) for value in agent.logger_values.values())
    assert agent.logger_values["time/total_timesteps"] == 8 * ROWS


def test_nothing_is_logged_before_learning() -> None:
    assert small().logger_values == {}


def test_equal_seeds_train_equally_whatever_the_global_random_state() -> None:
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002  # the global state is what is under test
    first = small(seed=3).learn(2 * ROWS)
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002  # as above
    second = small(seed=3).learn(2 * ROWS)
    assert same_training(first, second)
    assert not parameters(first).equal(parameters(small(seed=4).learn(2 * ROWS)))


def test_training_leaves_the_global_random_state_alone() -> None:
    agent = small()
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    agent.learn(ROWS).evaluate(1)
    assert torch.get_rng_state().equal(before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)  # type: ignore[index]  # noqa: NPY002


def rates(agent: PPO, goals: list[int], reset_num_timesteps: bool = False) -> list[float]:
    seen: list[float] = []

    def watch(agent: PPO, record: IterationRecord) -> None:
        seen.append(record.update.coefficients.learning_rate)

    for goal in goals:
        agent.learn(goal, callback=watch, reset_num_timesteps=reset_num_timesteps)
    return seen


def test_a_schedule_spans_the_run() -> None:
    agent = small(learning_rate="linear(1e-3, 0)")
    assert rates(agent, [4 * ROWS]) == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])


def test_a_schedule_spans_the_first_training_and_then_keeps_its_end_value() -> None:
    agent = small(learning_rate="linear(1e-3, 1e-4)")
    assert rates(agent, [2 * ROWS]) == pytest.approx([1e-3, 0.55e-3])
    with pytest.warns(SurefootWarning, match=r"span 64 env steps; from there to 128 .* learning_rate = 0\.0001"):
        assert rates(agent, [2 * ROWS]) == pytest.approx([1e-4, 1e-4])


def test_every_schedule_says_what_it_ends_with() -> None:
    imitation = {"coef": "linear(0.5, 0)"}
    settings: dict[str, Any] = {
        "kl_coef": "linear(1, 0.25)",
        "critic_learning_rate": "linear(1e-3, 2e-4)",
        "imitation": imitation,
    }
    agent = small(**settings, ent_coef="linear(0.1, 0.05)").learn(ROWS)
    told = r"critic_learning_rate = 0\.0002, ent_coef = 0\.05, kl_coef = 0\.25, imitation\.coef = 0$"
    with pytest.warns(SurefootWarning, match=told):
        agent.learn(ROWS)


def test_total_timesteps_spans_schedules_over_several_trainings() -> None:
    agent = small(learning_rate="linear(1e-3, 0)", total_timesteps=4 * ROWS)
    assert rates(agent, [2 * ROWS, 2 * ROWS]) == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])


def test_training_beyond_a_schedule_that_ends_at_0_is_an_error_that_names_the_ways() -> None:
    agent = small(clip_range="linear(0.2, 0)").learn(2 * ROWS)
    before = parameters(agent)
    with pytest.raises(ConfigError, match=r"clip_range = 0 .*total_timesteps=96 .*reset_num_timesteps=True.*PPO\.load"):
        agent.learn(ROWS)
    assert agent.num_timesteps == 2 * ROWS
    assert parameters(agent).equal(before)
    with pytest.raises(ConfigError, match="learning_rate = 0"):
        small(learning_rate="cosine(1e-3, 0)", total_timesteps=ROWS).learn(2 * ROWS)


def test_rounding_up_to_a_whole_rollout_is_not_beyond_a_schedule() -> None:
    agent = small(learning_rate="linear(1e-3, 0)", total_timesteps=3 * ROWS - 5)
    assert rates(agent, [ROWS + 3, ROWS - 5]) == pytest.approx([1e-3, 2e-3 / 3, 1e-3 / 3])


def test_resetting_the_count_of_steps_begins_schedules_anew() -> None:
    agent = small(learning_rate="linear(1e-3, 0)")
    assert rates(agent, [2 * ROWS]) == pytest.approx([1e-3, 0.5e-3])
    assert rates(agent, [4 * ROWS], reset_num_timesteps=True) == pytest.approx([1e-3, 0.75e-3, 0.5e-3, 0.25e-3])
    assert agent.num_timesteps == 4 * ROWS


def test_the_span_of_schedules_survives_a_load(tmp_path: Path) -> None:
    agent = small(learning_rate="linear(1e-3, 0)").learn(2 * ROWS)
    again = PPO.load(agent.save(tmp_path / "agent"))
    with pytest.raises(ConfigError, match="span 64 env steps"):
        again.learn(ROWS)
    other = PPO.load(tmp_path / "agent", learning_rate=3e-4)
    assert rates(other, [ROWS]) == pytest.approx([3e-4])


KINDS: dict[str, Callable[[], Any]] = {
    "id": lambda: "CartPole-v1",
    "module and id": lambda: "gymnasium.envs.classic_control:CartPole-v1",
    "module and callable": lambda: "gymnasium.envs.classic_control:CartPoleEnv",
    "function": lambda: cartpole,
    "class": lambda: CartPoleEnv,
    "env": cartpole,
    "wrapped env": lambda: gymnasium.wrappers.FlattenObservation(cartpole()),
    "next step": lambda: SyncVectorEnv([cartpole] * 3, autoreset_mode=AutoresetMode.NEXT_STEP),
    "same step": lambda: SyncVectorEnv([cartpole] * 3, autoreset_mode=AutoresetMode.SAME_STEP),
    "no autoreset": lambda: SyncVectorEnv([cartpole] * 3, autoreset_mode=AutoresetMode.DISABLED),
    "made vector env": lambda: gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"),
    "vectorised env": lambda: gymnasium.make_vec("CartPole-v1", num_envs=3),
}


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS.keys())
def test_any_kind_of_environment_trains(make: Callable[[], Any]) -> None:
    agent = PPO(make(), **SMALL)
    before = parameters(agent)
    agent.learn(200)
    assert agent.num_timesteps >= 200
    assert agent.logger_values["rollout/ep_rew_mean"] > 0
    assert not parameters(agent).equal(before)
    agent.close()


@pytest.mark.parametrize("kind", ["env", "next step"])
def test_an_instance_decides_the_number_of_envs(kind: str) -> None:
    env = KINDS[kind]()
    n_envs = 3 if kind == "next step" else 1
    assert PPO(env, **SMALL).config.n_envs == n_envs
    with pytest.raises(ConfigError, match=rf"n_envs = 5, but the given \w+ is {n_envs} env"):
        PPO(env, **SMALL, n_envs=5)
    with pytest.raises(ConfigError, match="n_envs"):
        PPO(env, config=from_flat(**SMALL, n_envs=5))


class Counted(CartPoleEnv):
    """Counts true steps, over all instances."""

    steps = 0

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        Counted.steps += 1
        return super().step(action)  # type: ignore[no-any-return, no-untyped-call]  # Gymnasium's is untyped


@pytest.mark.parametrize("mode", AutoresetMode)
def test_only_true_steps_are_counted(mode: AutoresetMode) -> None:
    Counted.steps = 0
    agent = PPO(SyncVectorEnv([Counted] * 3, autoreset_mode=mode), **SMALL).learn(300)
    assert agent.num_timesteps == Counted.steps
    assert agent.num_timesteps >= 300


def test_the_policy_does_not_come_first() -> None:
    with pytest.raises(ConfigError, match=r"the env comes first: PPO\(env, …\)"):
        PPO("MlpPolicy")
    as_elsewhere: Any = PPO
    with pytest.raises(ConfigError, match=r"the env comes first: PPO\(env, …\)"):
        as_elsewhere("MlpPolicy", "CartPole-v1")
    with pytest.raises(ConfigError, match=r"the env comes first: PPO\(env, …\)"):
        as_elsewhere("CnnPolicy", cartpole(), verbose=1)


@pytest.mark.parametrize("env", [None, 3, 1.5, ["CartPole-v1"]])
def test_what_is_no_environment_is_refused(env: Any) -> None:
    with pytest.raises(SurefootError, match="env"):
        PPO(env)


def test_an_unknown_id_names_the_nearest_one() -> None:
    with pytest.raises(EnvError, match=r"cannot make the env 'CartPol-v1'.*CartPole"):
        PPO("CartPol-v1")


def test_wrong_arguments_of_the_env_name_it() -> None:
    with pytest.raises(EnvError, match=r"cannot make the env 'CartPole-v1'.*gravity"):
        PPO("CartPole-v1", env_kwargs={"gravity": 1.0})


@pytest.mark.parametrize("path", ["no_such_module:make", "gymnasium.envs.classic_control:NoSuchEnv"])
def test_a_path_that_cannot_be_imported_is_named(path: str) -> None:
    with pytest.raises(EnvError, match=f"cannot import the env '{path}'"):
        PPO(path)


def test_a_path_to_something_that_makes_no_env_is_named() -> None:
    with pytest.raises(EnvError, match="not callable"):
        PPO("math:pi")
    with pytest.raises(ConfigError, match=r"made float, not a gymnasium\.Env"):
        PPO("builtins:float")


def test_one_env_given_out_several_times_is_refused() -> None:
    env = cartpole()
    with pytest.raises(SurefootError, match="same"):
        small(lambda: env)


def test_an_instance_and_arguments_for_making_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="env_kwargs"):
        PPO(cartpole(), **SMALL, env_kwargs={"sutton_barto_reward": True})


def test_a_configuration_and_single_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="either config or single settings"):
        PPO("CartPole-v1", config=Config(), gamma=0.9)


def test_a_configuration_for_another_env_is_refused() -> None:
    with pytest.raises(ConfigError, match="Pendulum-v1"):
        PPO("CartPole-v1", config=Config(env="Pendulum-v1"))


def test_a_configuration_without_env_takes_the_given_one() -> None:
    assert PPO("CartPole-v1", config=from_flat(**SMALL, n_envs=2)).config.env == "CartPole-v1"


@pytest.mark.parametrize("device", ["gpu", "cudaa", "cuda:999", "auto"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match=f"device = '{device}'"):
        small(device=device)


def test_settings_of_images_without_images_are_refused() -> None:
    with pytest.raises(ConfigError, match="cnn_features"):
        small(policy={"cnn_features": 8})
    with pytest.raises(ConfigError, match="cnn_channels"):
        small(policy={"cnn_channels": (8,)})


def test_normalizing_observations_that_have_no_numbers_is_refused() -> None:
    with pytest.raises(ConfigError, match="normalize_observations"):
        small(
            lambda: Random(image_space()), policy={"cnn_channels": (4,), "cnn_features": 8}, normalize_observations=True
        )


def test_settings_of_continuous_actions_are_refused_for_discrete_ones() -> None:
    with pytest.raises(ConfigError, match="beta"):
        small(policy={"distribution": "beta"})
    with pytest.raises(ConfigError, match="log_std_init"):
        small(policy={"log_std_init": -1.0})
    with pytest.raises(ConfigError, match="state_dependent_std"):
        small(policy={"state_dependent_std": True})


def test_a_penalty_on_logits_is_refused_for_continuous_actions() -> None:
    with pytest.raises(ConfigError, match="logit_penalty"):
        small("Pendulum-v1", logit_penalty=0.1)


def test_torch_threads_are_set_for_training_only() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    small(threads=2).learn(ROWS, callback=lambda agent, record: seen.append(torch.get_num_threads()))
    assert seen == [2]
    assert torch.get_num_threads() == before


def test_closing_twice_does_no_harm() -> None:
    agent = small().learn(ROWS)
    agent.evaluate(1)
    agent.close()
    agent.close()
