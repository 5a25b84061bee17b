"""The command line as its own process: installed script, module, signals, pipes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.commands import Surefoot, environment, process, script
from surefoot.train.run import latest_checkpoint
from train.agents import checkpoints, lines

OPTIONS = (
    "--n-envs",
    "2",
    "--ppo.n-steps",
    "16",
    "--ppo.batch-size",
    "16",
    "--ppo.n-epochs",
    "1",
    "--compile",
    "false",
)


def started(run: Path, *words: str) -> subprocess.Popen[str]:
    """A training that would take hours, once it has made some updates."""
    command = [script(), "train", "CartPole-v1", "--run-dir", str(run), "--total-timesteps", "100000000", *OPTIONS]
    training = subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    deadline = time.monotonic() + 90
    while not (run / "metrics.jsonl").exists() or len((run / "metrics.jsonl").read_text().splitlines()) < 3:
        assert training.poll() is None, training.communicate()[1]
        assert time.monotonic() < deadline, "training did not start"
        time.sleep(0.05)
    return training


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_says_where_and_the_run_can_be_finished(
    surefoot: Surefoot, tmp_path: Path, number: int, code: int
) -> None:
    run = tmp_path / "run"
    training = started(run)
    training.send_signal(number)
    _, err = training.communicate(timeout=60)
    assert training.returncode == code
    assert "Traceback" not in err
    found = latest_checkpoint(run)
    assert found.skipped == []
    step = found.manifest.step or 0
    assert step == checkpoints(run)[-1] == lines(run)[-1]["step"]
    assert str(found.path) in err
    assert f"surefoot resume {run}" in err

    ended = surefoot("resume", run, "--total-timesteps", str(step + 64), "--quiet")
    assert ended.code == 0, ended.err
    assert f"continuing exactly from {found.path} at step {step}" in ended.err
    assert [line["step"] for line in lines(run)] == list(range(32, step + 65, 32))


def test_many_signals_at_once_are_no_traceback(tmp_path: Path) -> None:
    training = started(tmp_path / "run")
    while training.poll() is None:
        training.send_signal(signal.SIGINT)
        time.sleep(0.001)
    _, err = training.communicate(timeout=60)
    assert training.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert latest_checkpoint(tmp_path / "run").skipped == []


def test_a_killed_training_can_be_finished(surefoot: Surefoot, tmp_path: Path) -> None:
    run = tmp_path / "run"
    training = started(run, "--run.checkpoint-every", "32")
    training.kill()
    training.communicate(timeout=60)
    step = latest_checkpoint(run).manifest.step or 0
    ended = surefoot("resume", run, "--total-timesteps", str(step + 64), "--quiet")
    assert ended.code == 0, ended.err
    assert [line["step"] for line in lines(run)] == list(range(32, step + 65, 32))


def test_the_module_is_the_command(surefoot: Surefoot, tmp_path: Path) -> None:
    words = ("train", "CartPole-v1", "--run-dir", tmp_path / "run", "--total-timesteps", "64", *OPTIONS)
    ended = process(*words, command=(sys.executable, "-m", "surefoot"))
    assert ended.code == 0, ended.err
    assert "step 64/64" in ended.err
    assert surefoot("inspect", tmp_path / "run").out.count("checkpoint") == 2


def test_a_mistake_ends_with_two_and_one_message() -> None:
    ended = process("train", "CartPole-v1", "--ppo.gama", "1")
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.splitlines() == [
        "surefoot train: unknown argument --ppo.gama; did you mean 'ppo.gamma'?",
        "see `surefoot train --help`",
    ]


def test_an_env_beside_the_user_is_found_by_the_installed_script(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("from gymnasium.envs.classic_control import CartPoleEnv as Make\n")
    ended = process("train", "beside:Make", "--run-dir", "run", "--total-timesteps", "32", *OPTIONS, cwd=tmp_path)
    assert ended.code == 0, ended.err


@pytest.mark.parametrize("words", [["presets"], ["train", "--help"]])
def test_a_reader_that_goes_away_is_no_traceback(words: list[str]) -> None:
    writer = subprocess.Popen(
        [script(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
    )
    assert writer.stdout is not None
    writer.stdout.close()
    assert writer.stderr is not None
    err = writer.stderr.read()
    writer.stderr.close()
    writer.wait(timeout=60)
    assert err == ""
