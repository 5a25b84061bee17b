"""train, resume, eval, inspect and presets on real runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cli.commands import ROWS, SURELY_QUICK, Ended, Surefoot
from surefoot import PPO
from surefoot.config import from_dict, from_toml
from surefoot.config.presets import NAMED, PRESETS
from surefoot.train.run import latest_checkpoint
from train.agents import checkpoints, lines, same_training

STEPS = 6 * ROWS
SAVING = ("--run.checkpoint-every", str(2 * ROWS), "--run.keep-checkpoints", "9")


@pytest.fixture
def run(tmp_path: Path, surefoot: Surefoot) -> Path:
    """A finished run with checkpoints after 0, 64, 128 and 192 env steps."""
    path = tmp_path / "run"
    assert surefoot.train(path, *SAVING, steps=STEPS).code == 0
    return path


def agent_of(run: Path) -> PPO:
    return PPO.load(latest_checkpoint(run).path)


def comparable(run: Path) -> list[dict[str, Any]]:
    """Metrics without the clock."""
    return [
        {k: v for k, v in line.items() if not k.startswith("time/") or k == "time/iterations"} for line in lines(run)
    ]


def cut_back(run: Path, step: int) -> None:
    """As if the process had been killed some time after the checkpoint of a step."""
    for later in checkpoints(run):
        if later > step:
            shutil.rmtree(run / "checkpoints" / f"{later:012d}")


def test_training_says_what_it_does_and_where(surefoot: Surefoot, tmp_path: Path) -> None:
    ended = surefoot.train(tmp_path / "run")
    assert ended.code == 0
    assert f"training CartPole-v1 to {3 * ROWS} env steps in {tmp_path / 'run'}" in ended.err
    assert f"surefoot eval {tmp_path / 'run'}" in ended.err
    assert "rollout/ep_rew_mean" in ended.out


def test_training_shows_progress_unless_quiet(surefoot: Surefoot, tmp_path: Path) -> None:
    assert "step " not in surefoot.train(tmp_path / "quiet").err
    words = [word for word in SURELY_QUICK if word != "--quiet"]
    ended = surefoot("train", "CartPole-v1", "--run-dir", tmp_path / "loud", "--total-timesteps", "64", *words)
    assert "step 64/64" in ended.err


def test_without_a_directory_runs_are_numbered(
    surefoot: Surefoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        assert surefoot("train", "CartPole-v1", "--total-timesteps", "32", *SURELY_QUICK).code == 0
        assert (tmp_path / "runs" / f"CartPole-v1-{number}" / "config.toml").is_file()


def test_the_command_trains_as_the_library_does(run: Path) -> None:
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1, "compile": False}
    assert same_training(agent_of(run), PPO("CartPole-v1", **settings, policy={"hidden_sizes": (8,)}).learn(STEPS))


def test_options_win_over_the_file_and_the_file_over_the_preset(surefoot: Surefoot, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        'env = "CartPole-v1"\nseed = 5\ncompile = false\n[ppo]\nn_steps = 16\ngamma = 0.9\nbatch_size = 32\n'
    )
    words = ("--preset", "CartPole-v1", "--config", tmp_path / "my.toml", "--run-dir", tmp_path / "run")
    options = ("--ppo.gamma", "0.5", "--total-timesteps", "128", "--quiet")
    assert surefoot("train", "CartPole-v1", *words, *options).code == 0
    config = from_dict(from_toml(tmp_path / "run" / "config.toml"))
    assert (config.ppo.gamma, config.total_timesteps) == (0.5, 128)  # options
    assert (config.seed, config.ppo.n_steps, config.ppo.batch_size) == (5, 16, 32)  # file
    assert (config.n_envs, config.ppo.gae_lambda, config.ppo.learning_rate) == (8, 0.8, "linear(1e-3, 0)")  # preset


def test_the_env_may_come_from_the_file(surefoot: Surefoot, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('env = "CartPole-v1"\n')
    words = ("--config", tmp_path / "my.toml", "--run-dir", tmp_path / "run", "--total-timesteps", "32")
    assert surefoot("train", *words, *SURELY_QUICK).code == 0


def test_the_env_may_come_from_the_name_of_the_preset(surefoot: Surefoot, tmp_path: Path) -> None:
    words = ("--run-dir", tmp_path / "run", "--total-timesteps", "32")
    assert surefoot("train", "--preset", "CartPole-v1", *words, *SURELY_QUICK).code == 0


def test_the_configuration_of_a_run_trains_it_again(surefoot: Surefoot, run: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert surefoot("train", "--config", run / "config.toml", "--run-dir", again, "--quiet").code == 0
    assert comparable(again) == comparable(run)
    assert same_training(agent_of(again), agent_of(run))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--ppo.max-grad-norm", "none"], ("ppo", "max_grad_norm", 0.0)),
        (["--ppo.target-kl", "None"], ("ppo", "target_kl", None)),
        (["--ppo.normalize-rewards"], ("ppo", "normalize_rewards", True)),
        (["--ppo.normalize-rewards", "True"], ("ppo", "normalize_rewards", True)),
        (["--ppo.normalize-rewards=false"], ("ppo", "normalize_rewards", False)),
        (["--ppo.ent-coef", "1e-2"], ("ppo", "ent_coef", 0.01)),
        (["--ppo.ent-coef", ".5"], ("ppo", "ent_coef", 0.5)),
        (["--ppo.learning-rate", "linear(1e-3, 0)"], ("ppo", "learning_rate", "linear(1e-3, 0)")),
        (["--ppo.adam-betas", "0.8", "0.9"], ("ppo", "adam_betas", (0.8, 0.9))),
        (["--policy.hidden-sizes", "4", "4"], ("policy", "hidden_sizes", (4, 4))),
        (["--policy.hidden-sizes"], ("policy", "hidden_sizes", ())),
        (["--run.sinks"], ("run", "sinks", ())),
        (["--env-kwargs", '{"sutton_barto_reward": true}'], ("", "env_kwargs", {"sutton_barto_reward": True})),
        (["--seed", "12"], ("", "seed", 12)),
        (["--total-timesteps", "1e2"], ("", "total_timesteps", 100)),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, list) else "",
)
def test_values_are_read_as_they_are_typed(
    surefoot: Surefoot, tmp_path: Path, words: list[str], expected: tuple[str, str, Any]
) -> None:
    ended = surefoot.train(tmp_path / "run", *words, steps=ROWS)
    assert ended.code == 0, ended.err
    config = from_dict(from_toml(tmp_path / "run" / "config.toml"))
    section, name, value = expected
    assert getattr(getattr(config, section) if section else config, name) == value


def test_an_env_of_the_working_directory_is_found(
    surefoot: Surefoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_own_env.py").write_text(
        "import gymnasium\n\n\ndef make(**settings):\n    return gymnasium.make('CartPole-v1', **settings)\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ("--run-dir", "run", "--total-timesteps", "32", *SURELY_QUICK)
    ended = surefoot("train", "my_own_env:make", *words)
    assert ended.code == 0, ended.err
    refused = surefoot("eval", "run", "--episodes", "1")
    assert refused.code == 2
    assert "--trust-module my_own_env" in refused.err
    assert surefoot("eval", "run", "--episodes", "1", "--trust-module", "my_own_env").code == 0


def summary(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.err
    found: dict[str, Any] = json.loads(ended.out)
    return found


def test_evaluation_as_json(surefoot: Surefoot, run: Path) -> None:
    found = summary(surefoot("eval", run, "--episodes", "4", "--seed", "7", "--json"))
    expected = agent_of(run).evaluate(4, seed=7)
    assert found["returns"] == list(expected.returns)
    assert found["lengths"] == list(expected.lengths)
    assert (found["env"], found["timesteps"], found["seed"], found["episodes"]) == ("CartPole-v1", STEPS, 7, 4)
    assert found["mean_reward"] == expected.mean
    assert isinstance(found["episodes"], int)


def test_evaluation_as_a_table(surefoot: Surefoot, run: Path) -> None:
    ended = surefoot("eval", run, "--episodes", "2")
    assert ended.code == 0
    assert "mean_reward" in ended.out


def test_evaluation_repeats_itself(surefoot: Surefoot, run: Path) -> None:
    for words in ([], ["--stochastic"]):
        once = summary(surefoot("eval", run, "--episodes", "3", "--json", *words))
        assert summary(surefoot("eval", run, "--episodes", "3", "--json", *words)) == once


def test_a_single_checkpoint_is_evaluated(surefoot: Surefoot, run: Path) -> None:
    found = summary(surefoot("eval", run / "checkpoints" / f"{2 * ROWS:012d}", "--episodes", "1", "--json"))
    assert found["timesteps"] == 2 * ROWS


def test_the_best_agent_is_evaluated(surefoot: Surefoot, tmp_path: Path) -> None:
    run = tmp_path / "run"
    surefoot.train(run, "--run.eval-every", str(ROWS), "--run.eval-episodes", "2", steps=STEPS)
    best = PPO.load(run / "best").num_timesteps
    assert summary(surefoot("eval", run, "--best", "--episodes", "1", "--json"))["timesteps"] == best


def test_a_run_without_a_best_agent_says_how_to_get_one(surefoot: Surefoot, run: Path) -> None:
    ended = surefoot("eval", run, "--best")
    assert ended.code == 2
    assert "--run.eval-every" in ended.err


def test_inspection_as_json(surefoot: Surefoot, run: Path) -> None:
    found = summary(surefoot("inspect", run, "--json"))
    assert [entry["step"] for entry in found["checkpoints"]] == [0, 64, 128, 192]
    assert all(entry["exact"] for entry in found["checkpoints"])
    assert all("torch" in entry["versions"] for entry in found["checkpoints"])
    assert from_dict(found["config"]) == from_dict(from_toml(run / "config.toml"))
    assert found["last"] == lines(run)[-1]


def test_inspection_as_a_table(surefoot: Surefoot, run: Path) -> None:
    ended = surefoot("inspect", run)
    assert ended.code == 0
    for part in ("CartPole-v1", "192", "exact", "train/approx_kl"):
        assert part in ended.out


def test_inspection_shows_a_damaged_checkpoint_as_such(surefoot: Surefoot, run: Path) -> None:
    (run / "checkpoints" / f"{STEPS:012d}" / "manifest.json").write_text("{")
    ended = surefoot("inspect", run)
    assert ended.code == 0, ended.err
    assert "128" in ended.out
    assert "corrupt" in ended.out


def test_inspection_passes_over_a_torn_last_line(surefoot: Surefoot, run: Path) -> None:
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 224, "tr')
    assert summary(surefoot("inspect", run, "--json"))["last"]["step"] == STEPS


def test_inspection_names_a_broken_configuration(surefoot: Surefoot, run: Path) -> None:
    (run / "config.toml").write_text("[ppo")
    for command in ("inspect", "resume"):
        ended = surefoot(command, run)
        assert ended.code == 2
        assert f"{run / 'config.toml'} is not valid TOML" in ended.err


def test_presets_are_listed(surefoot: Surefoot) -> None:
    ended = surefoot("presets")
    assert ended.code == 0
    assert [line.partition(":")[0] for line in ended.out.splitlines()] == [*PRESETS, *NAMED]
    assert "n_steps=32" in ended.out


def test_a_finished_run_has_nothing_to_resume(surefoot: Surefoot, run: Path) -> None:
    before = lines(run)
    ended = surefoot("resume", run)
    assert ended.code == 0
    assert f"{STEPS} of {STEPS} env steps" in ended.err
    assert lines(run) == before


def test_a_new_goal_trains_longer(surefoot: Surefoot, run: Path) -> None:
    ended = surefoot("resume", run, "--total-timesteps", str(STEPS + ROWS), "--quiet")
    assert ended.code == 0, ended.err
    assert [line["step"] for line in lines(run)] == [32, 64, 96, 128, 160, 192, 224]
    assert from_dict(from_toml(run / "config.toml")).total_timesteps == STEPS + ROWS


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--ppo.learning-rate", "linear(1e-2, 0)", "--ppo.normalize-observations", "--ppo.normalize-rewards"],
        ["--run.eval-every", "64", "--run.eval-episodes", "2", "--run.patience", "9"],
        ["--run.eval-every", "96", "--run.eval-episodes", "2"],
    ],
    ids=["plain", "schedules and normalizers", "evaluations", "evaluations between checkpoints"],
)
@pytest.mark.parametrize("step", [0, 64, 128])
def test_a_resumed_run_equals_an_uninterrupted_one(
    surefoot: Surefoot, tmp_path: Path, words: list[str], step: int
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert surefoot.train(whole, *SAVING, *words, steps=STEPS).code == 0
    shutil.copytree(whole, cut)
    cut_back(cut, step)
    ended = surefoot("resume", cut, "--quiet")
    assert ended.code == 0, ended.err
    assert f"at step {step}" in ended.err
    assert comparable(cut) == comparable(whole)
    assert same_training(agent_of(cut), agent_of(whole))


def test_a_damaged_newest_checkpoint_is_passed_over(surefoot: Surefoot, run: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(run, whole)
    newest = run / "checkpoints" / f"{STEPS:012d}"
    (newest / "tensors.safetensors").write_bytes(b"damaged")
    ended = surefoot("resume", run, "--quiet")
    assert ended.code == 0, ended.err
    assert f"passed over {newest}" in ended.err
    assert f"at step {4 * ROWS}" in ended.err
    assert comparable(run) == comparable(whole)
    assert same_training(agent_of(run), agent_of(whole))


def test_an_evaluation_passes_over_a_damaged_checkpoint(surefoot: Surefoot, run: Path) -> None:
    newest = run / "checkpoints" / f"{STEPS:012d}"
    (newest / "state.json").unlink()
    ended = surefoot("eval", run, "--episodes", "1", "--json")
    assert f"passed over {newest}" in ended.err
    assert summary(ended)["timesteps"] == 4 * ROWS


@pytest.mark.parametrize("command", ["resume", "eval"])
def test_a_run_without_any_good_checkpoint_says_so(surefoot: Surefoot, run: Path, command: str) -> None:
    for step in checkpoints(run):
        (run / "checkpoints" / f"{step:012d}" / "manifest.json").write_text("{}")
    before = (run / "metrics.jsonl").read_text()
    ended = surefoot(command, run)
    assert ended.code == 2
    assert "no readable checkpoint" in ended.err
    assert (run / "metrics.jsonl").read_text() == before


def test_a_run_without_any_good_checkpoint_may_start_afresh(surefoot: Surefoot, run: Path) -> None:
    before = comparable(run)
    for step in checkpoints(run):
        (run / "checkpoints" / f"{step:012d}" / "manifest.json").write_text("{}")
    ended = surefoot("resume", run, "--fresh", "--quiet")
    assert ended.code == 0, ended.err
    assert "starting from the beginning" in ended.err
    assert comparable(run) == before


def test_tensorboard_sees_each_step_of_a_resumed_run_once(surefoot: Surefoot, run: Path) -> None:
    cut_back(run, 2 * ROWS)
    assert surefoot("resume", run, "--quiet").code == 0
    events = EventAccumulator(str(run))
    events.Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [32, 64, 96, 128, 160, 192]


@pytest.mark.parametrize("tail", [b'{"step": 224, "tr', b"\x00" * 40, b"\xff\xfe"])
def test_a_torn_line_of_metrics_does_not_stop_a_resume(surefoot: Surefoot, run: Path, tail: bytes) -> None:
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(tail)
    ended = surefoot("resume", run, "--total-timesteps", str(STEPS + ROWS), "--quiet")
    assert ended.code == 0, ended.err
    assert [line["step"] for line in lines(run)] == [32, 64, 96, 128, 160, 192, 224]


def test_missing_metrics_do_not_stop_a_resume(surefoot: Surefoot, run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    assert surefoot("resume", run, "--total-timesteps", str(STEPS + ROWS), "--quiet").code == 0
    assert [line["step"] for line in lines(run)] == [192, 224]  # the checkpoint carries the last line before it


def test_what_a_run_writes_may_be_changed_in_its_file(surefoot: Surefoot, run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace("log_interval = 1", "log_interval = 2"))
    assert surefoot("resume", run, "--total-timesteps", str(STEPS + 4 * ROWS), "--quiet").code == 0
    assert [line["step"] for line in lines(run)][-3:] == [192, 256, 320]


def test_what_decides_the_training_is_not_changed_silently(surefoot: Surefoot, run: Path) -> None:
    config = run / "config.toml"
    config.write_text(config.read_text().replace("gamma = 0.99", "gamma = 0.5"))
    ended = surefoot("resume", run, "--total-timesteps", str(STEPS + ROWS), "--quiet")
    assert "gamma" in ended.err


def test_a_failed_training_says_where_its_last_checkpoint_is(
    surefoot: Surefoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_env.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\n"
        "class Fails(CartPoleEnv):\n"
        "    count = 0\n\n"
        "    def step(self, action):\n"
        "        Fails.count += 1\n"
        "        if Fails.count > 100:\n"
        "            raise RuntimeError('the disk is gone')\n"
        "        return super().step(action)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    run = tmp_path / "run"
    words = ("--run-dir", run, "--total-timesteps", "320", *SURELY_QUICK, "--run.checkpoint-every", "64")
    ended = surefoot("train", "failing_env:Fails", *words)
    assert ended.code == 2
    assert "the disk is gone" in ended.err
    assert "step 50" in ended.err
    assert checkpoints(run) == [0, 64]
    assert f"surefoot resume {run}" in ended.err


def test_resuming_beyond_a_schedule_that_ends_at_0_is_refused_and_leaves_the_run_as_it_is(
    surefoot: Surefoot, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = ("--run-dir", run, "--total-timesteps", "32", "--ppo.learning-rate", "linear(1e-3, 0)", *SURELY_QUICK)
    assert surefoot("train", "CartPole-v1", *words).code == 0
    before = (run / "config.toml").read_text()
    ended = surefoot("resume", run, "--total-timesteps", "64")
    assert ended.code == 2
    assert "learning_rate = 0" in ended.err
    assert (run / "config.toml").read_text() == before
