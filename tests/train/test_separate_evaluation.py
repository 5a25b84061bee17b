"""Evaluation during training in an env of its own: by callback, by the settings of a run, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from surefoot import PPO
from surefoot.errors import ConfigError, EnvError
from surefoot.store import Snapshot, read_checkpoint, read_manifest, write_checkpoint
from surefoot.train.callbacks import EvaluationCallback
from surefoot.train.run import latest_checkpoint
from train.agents import ROWS, SMALL, Random, lines, parameters, same_training, small
from vector.trams import ONLY_TOGETHER, OWN_TRAM, TRAM, TramCar, Trams, register_trams

register_trams()
SINKS: dict[str, Any] = {"sinks": (), "checkpoint_every": 0}


def validation(length: int = 3) -> Random:
    return Random(length=length)


@pytest.mark.parametrize(
    ("env", "env_kwargs", "length"),
    [
        (validation, {}, 3),
        (validation, {"length": 4}, 4),
        (validation(6), {}, 6),
        (TRAM, {"length": 7}, 7),
        (OWN_TRAM, {"length": 2}, 2),
        (None, {"length": 4}, 4),
    ],
    ids=["callable", "callable with arguments", "env", "id", "id that steps together", "arguments"],
)
def test_a_callback_evaluates_in_its_own_env(env: Any, env_kwargs: dict[str, Any], length: int) -> None:
    trained = TramCar if env in (TRAM, OWN_TRAM) or env is None else Random
    callback = EvaluationCallback(ROWS, 3, env=env, env_kwargs=env_kwargs)
    agent = small(trained).learn(2 * ROWS, callback=callback)
    assert callback.last is not None
    assert callback.last.lengths == (length,) * 3
    assert agent.logger_values["eval/mean_ep_length"] == length


def test_a_callback_evaluates_in_a_vector_env_and_leaves_it_open() -> None:
    env = Trams(2, length=3)
    callback = EvaluationCallback(ROWS, 5, env=env)
    small(TramCar).learn(2 * ROWS, callback=callback)
    assert callback.last is not None
    assert callback.last.lengths == (3,) * 5
    assert env.closed_times == 0


def test_envs_of_a_callback_are_made_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Any] = []
    monkeypatch.setattr(Trams, "close_extras", lambda self, **_: closed.append(self))
    Trams.made = 0
    small(TramCar).learn(4 * ROWS, callback=EvaluationCallback(ROWS, 3, env=OWN_TRAM))
    assert Trams.made == 1
    assert len(closed) == 1


def test_an_evaluation_in_another_env_does_not_disturb_training() -> None:
    quiet = small(Random, normalize_observations=True).learn(4 * ROWS)
    callback = EvaluationCallback(ROWS, 3, env=validation, deterministic=False)
    assert same_training(small(Random, normalize_observations=True).learn(4 * ROWS, callback=callback), quiet)


@pytest.mark.parametrize(("env", "error"), [("Acrobot-v1", "space"), ("Nowhere-v0", "Nowhere"), (3, "env must be")])
def test_an_env_that_does_not_do_is_refused_before_training(env: Any, error: str) -> None:
    agent = small()
    with pytest.raises((ConfigError, EnvError), match=error):
        agent.learn(ROWS, callback=EvaluationCallback(ROWS, env=env))
    assert agent.num_timesteps == 0


class Fading(TramCar):
    """Pays less in each further episode of any of its envs, so that no evaluation after the first is better."""

    episodes = 0

    def reset(self, **settings: Any) -> Any:
        Fading.episodes += 1
        return super().reset(**settings)

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, -float(Fading.episodes), *rest


def test_patience_counts_evaluations_of_the_separate_env() -> None:
    Fading.episodes = 0
    agent = small(TramCar).learn(10 * ROWS, callback=EvaluationCallback(ROWS, 1, patience=2, env=Fading))
    assert agent.num_timesteps == 3 * ROWS
    assert agent.logger_values["eval/best_mean_reward"] == -5.0


def test_a_run_is_evaluated_where_its_settings_say_with_normalizers_of_training(tmp_path: Path) -> None:
    settings = {"eval_every": ROWS, "eval_episodes": 4, "eval_env": OWN_TRAM, "eval_env_kwargs": {"length": 3}}
    agent = small(TRAM, normalize_observations=True, run=SINKS | settings)
    agent.learn(2 * ROWS, run_dir=tmp_path / "run")
    assert [line["eval/mean_ep_length"] for line in lines(tmp_path / "run")] == [3.0, 3.0]
    best = PPO.load(tmp_path / "run" / "best")
    found = best.evaluate(4, seed=1_000_000, env=OWN_TRAM, env_kwargs={"length": 3})
    assert found.mean == max(line["eval/mean_reward"] for line in lines(tmp_path / "run"))
    assert best.learner.observations is not None
    assert best.learner.observations.moments["obs"].count > 0


def test_arguments_alone_evaluate_the_env_of_training_otherwise(tmp_path: Path) -> None:
    settings = {"eval_every": ROWS, "eval_episodes": 2, "eval_env_kwargs": {"fare": 3.0}}
    small(TRAM, env_kwargs={"length": 4}, run=SINKS | settings).learn(ROWS, run_dir=tmp_path / "run")
    (line,) = lines(tmp_path / "run")
    assert line["eval/mean_ep_length"] == 4
    assert line["eval/mean_reward"] % 3 == 0


def command(*words: Any) -> None:
    from surefoot.cli.main import main

    main([str(word) for word in words])


QUICK = ("--n-envs", 2, "--ppo.n-steps", 16, "--ppo.batch-size", 16, "--policy.hidden-sizes", 8, "--quiet")


def test_the_command_line_trains_resumes_and_evaluates_with_a_separate_env(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    own = ("--run.eval-every", ROWS, "--run.eval-env", TRAM, "--run.eval-env-kwargs", '{"length": 2}')
    command("train", OWN_TRAM, "--run-dir", run, "--total-timesteps", ROWS, *QUICK, "--compile", "false", *own)
    command("resume", run, "--total-timesteps", 2 * ROWS, "--quiet")
    assert [line["eval/mean_ep_length"] for line in lines(run)] == [2.0, 2.0]

    def found(*words: Any) -> dict[str, Any]:
        capsys.readouterr()
        command("eval", run, "--episodes", 3, "--json", *words)
        read: dict[str, Any] = json.loads(capsys.readouterr().out)
        return read

    assert (found()["env"], found()["lengths"]) == (TRAM, [2, 2, 2])
    assert found("--best")["lengths"] == [2, 2, 2]
    assert (found("--env", OWN_TRAM)["env"], found("--env", OWN_TRAM)["lengths"]) == (OWN_TRAM, [5, 5, 5])
    assert found("--env", ONLY_TOGETHER, "--env-kwargs", '{"length": 3}')["lengths"] == [3, 3, 3]
    with pytest.raises(SystemExit):
        command("eval", run, "--env-kwargs", "3")
    assert "JSON object" in capsys.readouterr().err


CODE = {"eval_env": ({"eval_env": "wicked:make"}), "argument": {"eval_env_kwargs": {"a": "wicked:make"}}}


@pytest.mark.parametrize("code", CODE.values(), ids=CODE.keys())
def test_a_file_names_no_code_to_evaluate_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: dict[str, Any]
) -> None:
    (tmp_path / "wicked.py").write_text("open('executed', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run = SINKS | {"eval_every": ROWS, "eval_episodes": 1}
    small(run=run).learn(ROWS, run_dir=tmp_path / "run")
    snapshot, manifest = read_checkpoint(latest_checkpoint(tmp_path / "run").path)
    saved: Any = snapshot.values["config"]
    values = {**snapshot.values, "config": saved | {"run": saved["run"] | code}}
    path = write_checkpoint(
        tmp_path / "agent", Snapshot(snapshot.tensors, values), exact=True, config_hash="0" * 16, versions={}
    )
    agent = PPO.load(path)
    assert agent.evaluate(1).lengths, "to act, no code is needed"
    with pytest.raises(ConfigError, match=r"run\.eval_env.*would import the module 'wicked'"):
        agent.learn(ROWS, run_dir=tmp_path / "other")
    text = (tmp_path / "run" / "config.toml").read_text()
    text = (
        text.replace('eval_env = ""', 'eval_env = "wicked:make"')
        if "eval_env" in code
        else text.replace("eval_env_kwargs = {}", 'eval_env_kwargs = {a = "wicked:make"}')
    )
    (tmp_path / "run" / "config.toml").write_text(text)
    for words in (["eval", path], ["resume", "run", "--total-timesteps", 64], ["train", "--config", "run/config.toml"]):
        with pytest.raises(SystemExit):
            command(*words)
        assert "--trust-module wicked" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()
    assert manifest.exact


@pytest.mark.parametrize("history", [0, 60])
def test_envs_that_step_together_go_on_exactly(tmp_path: Path, history: int) -> None:
    """2,048 envs, and with a history of theirs about a megabyte of state."""
    settings = SMALL | {
        "n_envs": 2048,
        "n_steps": 4,
        "batch_size": 4096,
        "env_kwargs": {"length": 3, "short": True, "history": history},
    }
    agent = PPO(OWN_TRAM, **settings).learn(4 * 2048)
    path = agent.save(tmp_path / "agent")
    assert read_manifest(path).exact
    again = PPO.load(path)
    assert same_training(again.learn(2 * 4 * 2048), agent.learn(2 * 4 * 2048))
    assert not parameters(again).equal(parameters(PPO.load(path)))


def test_a_run_of_envs_that_step_together_is_resumed_exactly(tmp_path: Path) -> None:
    settings = {"env_kwargs": {"short": True}, "vectorization": "vector_entry_point", "run": SINKS}
    whole = small(TRAM, **settings).learn(4 * ROWS, run_dir=tmp_path / "whole")
    small(TRAM, **settings).learn(2 * ROWS, run_dir=tmp_path / "run")
    command("resume", tmp_path / "run", "--total-timesteps", 4 * ROWS, "--quiet")
    assert same_training(PPO.load(latest_checkpoint(tmp_path / "run").path), whole)
