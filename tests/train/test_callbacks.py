"""Callbacks: when they are called, how they stop training, what they keep."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.errors import ConfigError, EnvError
from surefoot.evaluate.episodes import Evaluation
from surefoot.rollout.buffer import Rollout
from surefoot.train.callbacks import (
    Callback,
    CallbackList,
    CheckpointCallback,
    EvaluationCallback,
    FunctionCallback,
    as_callback,
)
from train.agents import ROWS, Random, parameters, same_training, small


class Diary(Callback):
    """Writes down each call with the agent's step count; says stop where told to."""

    def __init__(self, stop_rollout: int | None = None, stop_update: int | None = None) -> None:
        self.calls: list[tuple[str, int]] = []
        self._stop_rollout, self._stop_update = stop_rollout, stop_update

    def on_start(self, agent: PPO) -> None:
        self.calls.append(("start", agent.num_timesteps))

    def on_rollout(self, agent: PPO, rollout: Rollout) -> bool | None:
        self.calls.append(("rollout", agent.num_timesteps))
        return False if agent.num_timesteps == self._stop_rollout else None

    def on_update(self, agent: PPO, record: IterationRecord) -> bool | None:
        self.calls.append(("update", agent.num_timesteps))
        return False if agent.num_timesteps == self._stop_update else None

    def on_end(self, agent: PPO) -> None:
        self.calls.append(("end", agent.num_timesteps))


def test_calls_come_in_order() -> None:
    diary = Diary()
    small().learn(2 * ROWS, callback=diary)
    assert diary.calls == [("start", 0), ("rollout", 32), ("update", 32), ("rollout", 64), ("update", 64), ("end", 64)]


def test_false_from_update_stops_after_it() -> None:
    diary = Diary(stop_update=32)
    agent = small().learn(10 * ROWS, callback=diary)
    assert diary.calls == [("start", 0), ("rollout", 32), ("update", 32), ("end", 32)]
    assert same_training(agent, small().learn(ROWS))


def test_the_update_that_stops_is_logged() -> None:
    agent = small().learn(10 * ROWS, callback=Diary(stop_update=32))
    assert agent.logger_values["time/total_timesteps"] == 32


def test_false_from_rollout_stops_without_the_update() -> None:
    diary = Diary(stop_rollout=64)
    agent = small().learn(10 * ROWS, callback=diary)
    assert diary.calls == [("start", 0), ("rollout", 32), ("update", 32), ("rollout", 64), ("end", 64)]
    assert parameters(agent).equal(parameters(small().learn(ROWS)))


@pytest.mark.parametrize("answer", [None, True, 0, "", 1])
def test_only_false_itself_stops(answer: Any) -> None:
    assert small().learn(2 * ROWS, callback=lambda agent, record: answer).num_timesteps == 2 * ROWS


def test_the_end_is_told_after_an_error_too() -> None:
    diary = Diary()

    def fail(agent: PPO, record: IterationRecord) -> bool | None:
        raise RuntimeError("a mistake of the user")

    with pytest.raises(RuntimeError, match="a mistake of the user"):
        small().learn(ROWS, callback=[diary, FunctionCallback(fail)])
    assert diary.calls[-1] == ("end", 32)


def test_the_end_is_told_when_the_env_raises() -> None:
    class Fails(Random):
        def step(self, action: Any) -> Any:
            raise RuntimeError("no more data")

    diary = Diary()
    with pytest.raises(EnvError, match="no more data"):
        small(Fails).learn(ROWS, callback=diary)
    assert diary.calls == [("start", 0), ("end", 0)]


def test_a_function_sees_agent_and_record() -> None:
    seen: list[tuple[int, int]] = []

    def watch(agent: PPO, record: IterationRecord) -> None:
        seen.append((agent.num_timesteps, record.update.update))

    small().learn(2 * ROWS, callback=watch)
    assert seen == [(32, 0), (64, 1)]


def test_all_of_a_list_are_called_and_one_is_enough_to_stop() -> None:
    first, stopping, last = Diary(), Diary(stop_update=32), Diary()
    small().learn(3 * ROWS, callback=[first, stopping, last])
    assert first.calls == last.calls == [("start", 0), ("rollout", 32), ("update", 32), ("end", 32)]


def test_functions_and_callbacks_mix_in_a_list() -> None:
    calls: list[int] = []
    diary = Diary()
    mixed: Any = [lambda agent, record: calls.append(agent.num_timesteps), diary, CallbackList([Diary()])]
    small().learn(ROWS, callback=mixed)
    assert calls == [32]
    assert len(diary.calls) == 4


@pytest.mark.parametrize("wrong", [3, [3]])
def test_what_is_no_callback_is_refused_before_training(wrong: Any) -> None:
    agent = small()
    with pytest.raises(ConfigError, match="callback"):
        agent.learn(ROWS, callback=wrong)
    assert agent.num_timesteps == 0


def test_a_class_in_place_of_its_instance_is_refused() -> None:
    mistaken: Any = Diary
    with pytest.raises(ConfigError, match="Diary"):
        small().learn(ROWS, callback=mistaken)


def test_callbacks_do_not_disturb_training(tmp_path: Path) -> None:
    busy: list[Callback] = [
        EvaluationCallback(ROWS, 2, best_path=tmp_path / "best"),
        CheckpointCallback(ROWS, tmp_path / "all"),
        Diary(),
    ]
    assert same_training(small().learn(4 * ROWS, callback=busy), small().learn(4 * ROWS))


class Scripted(EvaluationCallback):
    """Finds the given mean returns, one evaluation after the other."""

    def __init__(self, means: list[float], **settings: Any) -> None:
        super().__init__(ROWS, 1, **settings)
        self._means = iter(means)

    def on_start(self, agent: PPO) -> None:
        super().on_start(agent)
        agent.evaluate = lambda *args, **kwargs: Evaluation((next(self._means),), (1,))  # type: ignore[method-assign]


def test_patience_counts_evaluations_without_a_better_mean() -> None:
    # 5 is the best; 4, 5 (no better) and 3 are without gain
    agent = small().learn(10 * ROWS, callback=Scripted([1.0, 5.0, 4.0, 5.0, 3.0, 9.0], patience=3))
    assert agent.num_timesteps == 5 * ROWS
    assert agent.logger_values["eval/best_mean_reward"] == 5.0


def test_a_better_mean_restores_patience() -> None:
    agent = small().learn(6 * ROWS, callback=Scripted([5.0, 4.0, 6.0, 5.0, 7.0, 1.0], patience=2))
    assert agent.num_timesteps == 6 * ROWS


def test_without_patience_training_goes_on() -> None:
    assert small().learn(4 * ROWS, callback=Scripted([4.0, 3.0, 2.0, 1.0])).num_timesteps == 4 * ROWS


def test_the_best_agent_is_kept_with_its_normalizers(tmp_path: Path) -> None:
    best = tmp_path / "best"
    settings: dict[str, Any] = {"normalize_observations": True, "normalize_rewards": True}
    small(**settings).learn(4 * ROWS, callback=Scripted([1.0, 8.0, 3.0, 5.0], best_path=best))
    expected = small(**settings).learn(2 * ROWS)
    kept = PPO.load(best)
    assert same_training(kept, expected)
    assert kept.learner.observations is not None
    assert expected.learner.observations is not None
    for name, tensor in expected.learner.observations.state_dict().items():
        assert kept.learner.observations.state_dict()[name].equal(tensor)
    assert kept.learner.rewards is not None
    assert expected.learner.rewards is not None
    assert kept.learner.rewards.scale == expected.learner.rewards.scale


def test_evaluation_is_logged() -> None:
    agent = small().learn(2 * ROWS, callback=EvaluationCallback(ROWS, 3, seed=11))
    expected = agent.evaluate(3, seed=11)
    assert agent.logger_values["eval/mean_reward"] == expected.mean
    assert agent.logger_values["eval/mean_ep_length"] == sum(expected.lengths) / 3
    assert agent.logger_values["eval/best_mean_reward"] >= expected.mean


@pytest.mark.parametrize(("every", "due"), [(32, [32, 64, 96, 128]), (64, [64, 128]), (50, [64, 128]), (100, [128])])
def test_an_interval_is_due_once_when_it_is_passed(tmp_path: Path, every: int, due: list[int]) -> None:
    small().learn(4 * ROWS, callback=CheckpointCallback(every, tmp_path))
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == due


@pytest.mark.parametrize("every", [0, -5])
def test_an_interval_must_be_positive(every: int) -> None:
    with pytest.raises(ConfigError, match=f"interval of {every}"):
        EvaluationCallback(every)
    with pytest.raises(ConfigError, match=f"interval of {every}"):
        CheckpointCallback(every, "anywhere")


@pytest.mark.parametrize(("argument", "value"), [("n_episodes", 0), ("patience", -1), ("seed", -1)])
def test_wrong_numbers_of_an_evaluation_are_refused_before_training(argument: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=argument):
        EvaluationCallback(ROWS, **{argument: value})


def test_checkpoints_of_the_callback_can_be_loaded(tmp_path: Path) -> None:
    small().learn(2 * ROWS, callback=CheckpointCallback(ROWS, tmp_path))
    assert same_training(PPO.load(tmp_path / f"{ROWS:012d}"), small().learn(ROWS))


def test_what_an_evaluation_remembers_survives_a_round_trip() -> None:
    first = Scripted([5.0, 4.0], patience=3)
    small().learn(2 * ROWS, callback=first)
    saved = json.loads(json.dumps(first.state_dict(), allow_nan=False))
    second = EvaluationCallback(ROWS, patience=3)
    second.load_state_dict(saved)
    assert (second.best, second.without_gain) == (5.0, 1)
    assert second.state_dict() == first.state_dict()


def test_nothing_evaluated_yet_is_remembered_as_such() -> None:
    saved = json.loads(json.dumps(EvaluationCallback(ROWS).state_dict(), allow_nan=False))
    again = EvaluationCallback(ROWS)
    again.load_state_dict(saved)
    assert again.best == -math.inf


def test_a_list_remembers_each_of_its_members() -> None:
    first = CallbackList([Diary(), EvaluationCallback(ROWS), CallbackList([EvaluationCallback(ROWS)])])
    first.callbacks[1].load_state_dict({"best": 3.0, "without_gain": 2, "last": 64})
    first.callbacks[2].load_state_dict({"0": {"best": 7.0, "without_gain": 1, "last": 32}})
    second = CallbackList([Diary(), EvaluationCallback(ROWS), CallbackList([EvaluationCallback(ROWS)])])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict()


def test_a_list_given_to_training_has_the_state_that_it_had_outside() -> None:
    """What a checkpoint holds of the callbacks fits the callbacks that a resumed run makes."""
    callbacks = CallbackList([EvaluationCallback(ROWS)])
    assert as_callback(callbacks).state_dict() == callbacks.state_dict()


def test_values_logged_by_a_callback_reach_the_agent() -> None:
    def log(agent: PPO, record: IterationRecord) -> None:
        agent.log({"mine/weight": float(torch.linalg.vector_norm(agent.learner.flat.values))})

    agent = small().learn(ROWS, callback=log)
    assert agent.logger_values["mine/weight"] == pytest.approx(float(parameters(agent).norm()))
