"""What a run writes: metrics, events, checkpoints; what is refused; what a resumed run finds."""

from __future__ import annotations

import errno
import importlib.util
import io
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from surefoot import PPO
from surefoot.algo.learner import IterationRecord
from surefoot.config import from_dict, from_toml
from surefoot.errors import EnvError, MissingExtraError, RunError
from surefoot.output import forgiving
from surefoot.rollout.buffer import Rollout
from surefoot.store import CheckpointStore
from surefoot.train.callbacks import Callback
from surefoot.train.progress import Bar, Lines, numbers, open_display
from surefoot.train.run import Run, latest_checkpoint, read_config, require_unchanged
from surefoot.train.signals import HANDLED, Interrupted
from surefoot.train.sinks import drop_after, read_metrics
from train.agents import ROWS, SMALL, Random, checkpoints, lines, same_training, small


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_run_has_configuration_metrics_events_and_checkpoints(run: Path) -> None:
    agent = small(seed=5).learn(3 * ROWS, run_dir=run)
    kinds = {path.name.partition(".tfevents")[0] for path in run.iterdir()}
    assert kinds == {"config.toml", "metrics.jsonl", "events.out", "checkpoints"}
    written = from_dict(from_toml(run / "config.toml"))
    assert written == agent.config.model_copy(update={"total_timesteps": 3 * ROWS})


def test_there_is_one_line_of_metrics_per_update(run: Path) -> None:
    agent = small().learn(4 * ROWS, run_dir=run)
    found = lines(run)
    assert [line["step"] for line in found] == [32, 64, 96, 128]
    assert [line["time/iterations"] for line in found] == [1, 2, 3, 4]
    last = {key: value for key, value in found[-1].items() if key != "step"}
    assert last == {key: agent.logger_values[key] for key in last}


def test_numbers_that_are_not_finite_become_null(run: Path) -> None:
    def log(agent: PPO, record: IterationRecord) -> None:
        agent.log({"mine/nan": math.nan, "mine/inf": -math.inf})

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    small().learn(ROWS, callback=log, run_dir=run)
    line = json.loads((run / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert (line["mine/nan"], line["mine/inf"]) == (None, None)


@pytest.mark.parametrize(("interval", "steps"), [(1, [32, 64, 96, 128, 160]), (2, [64, 128]), (3, [96])])
def test_metrics_are_written_every_interval(run: Path, interval: int, steps: list[int]) -> None:
    small(run={"log_interval": interval}).learn(5 * ROWS, run_dir=run)
    assert [line["step"] for line in lines(run)] == steps


def test_values_logged_between_two_lines_are_not_lost(run: Path) -> None:
    def log(agent: PPO, record: IterationRecord) -> None:
        if agent.num_timesteps == ROWS:
            agent.log({"eval/mean_reward": 7.0})

    small(run={"log_interval": 2}).learn(4 * ROWS, callback=log, run_dir=run)
    assert [line.get("eval/mean_reward") for line in lines(run)] == [7.0, None]


def test_tensorboard_reads_the_events(run: Path) -> None:
    small().learn(3 * ROWS, run_dir=run)
    events = EventAccumulator(str(run))
    events.Reload()
    tags = set(events.Tags()["scalars"])
    assert {"train/approx_kl", "train/explained_variance", "rollout/ep_rew_mean", "time/fps"} <= tags
    written = [(event.step, event.value) for event in events.Scalars("train/loss")]
    assert written == [(line["step"], pytest.approx(line["train/loss"])) for line in lines(run)]


def test_without_tensorboard_there_are_no_events(run: Path) -> None:
    small(run={"sinks": ()}).learn(ROWS, run_dir=run)
    assert list(run.glob("*tfevents*")) == []
    assert len(lines(run)) == 1


@pytest.mark.parametrize("sink", ["wandb", "mlflow"])
def test_a_sink_that_is_not_installed_is_named_before_anything_starts(run: Path, sink: str) -> None:
    if importlib.util.find_spec(sink) is not None:
        pytest.skip(f"{sink} is installed")
    agent = small(run={"sinks": (sink,)})
    with pytest.raises(MissingExtraError, match=rf"pip install 'surefoot\[{sink}\]'"):
        agent.learn(ROWS, run_dir=run)
    assert agent.num_timesteps == 0
    assert not run.exists()


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"checkpoint_every": 32, "keep_checkpoints": 2}, [128, 160]),
        ({"checkpoint_every": 32, "keep_checkpoints": 9}, [0, 32, 64, 96, 128, 160]),
        ({"checkpoint_every": 64, "keep_checkpoints": 9}, [0, 64, 128, 160]),
    ],
)
def test_checkpoints_are_written_and_kept_as_asked(run: Path, settings: dict[str, Any], kept: list[int]) -> None:
    small(run=settings).learn(5 * ROWS, run_dir=run)
    assert checkpoints(run) == kept


def test_zero_keeps_only_the_last_checkpoint(run: Path) -> None:
    small(run={"checkpoint_every": 0}).learn(5 * ROWS, run_dir=run)
    assert checkpoints(run) == [5 * ROWS]


def test_evaluations_of_the_configuration_are_made(run: Path) -> None:
    small(run={"eval_every": 64, "eval_episodes": 2}).learn(4 * ROWS, run_dir=run)
    assert ["eval/mean_reward" in line for line in lines(run)] == [False, True, False, True]
    assert PPO.load(run / "best").num_timesteps in (64, 128)


def test_a_directory_that_holds_a_run_is_refused(run: Path) -> None:
    small().learn(ROWS, run_dir=run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    agent = small()
    with pytest.raises(RunError, match="already holds a run"):
        agent.learn(ROWS, run_dir=run)
    assert agent.num_timesteps == 0
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("rest", ["checkpoints", "metrics.jsonl", "config.toml"])
def test_the_rest_of_a_run_is_refused_too(run: Path, rest: str) -> None:
    small().learn(ROWS, run_dir=run)
    keep = run.parent / "keep"
    keep.mkdir()
    (run / rest).rename(keep / rest)
    with pytest.raises(RunError, match="already holds a run"):
        small().learn(ROWS, run_dir=keep)


def test_an_empty_directory_may_be_used(run: Path) -> None:
    run.mkdir()
    small().learn(ROWS, run_dir=run)
    assert len(lines(run)) == 1


def test_a_file_in_the_way_is_named(run: Path) -> None:
    run.write_text("mine")
    with pytest.raises(RunError, match=f"cannot write the run directory {run}"):
        small().learn(ROWS, run_dir=run)
    assert run.read_text() == "mine"


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = Path("/proc/surefoot-run")
    with pytest.raises(RunError, match="cannot write the run directory /proc/surefoot-run"):
        small().learn(ROWS, run_dir=blocked)


def test_a_failed_run_keeps_its_last_checkpoint(run: Path) -> None:
    def fail(agent: PPO, record: IterationRecord) -> None:
        if agent.num_timesteps == 3 * ROWS:
            raise RuntimeError("a mistake of the user")

    with pytest.raises(RuntimeError, match="a mistake of the user"):
        small(run={"checkpoint_every": 2 * ROWS}).learn(5 * ROWS, callback=fail, run_dir=run)
    assert latest_checkpoint(run).manifest.step == 2 * ROWS
    assert [line["step"] for line in lines(run)] == [32, 64]


def test_what_holds_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="there is no run directory"):
        read_config(tmp_path / "nowhere")
    with pytest.raises(RunError, match=r"config\.toml is missing"):
        read_config(tmp_path)


@pytest.mark.parametrize("tail", ['{"step": 96, "train/lo', "\x00\x00\x00", "{", "[1"])
def test_a_torn_last_line_is_passed_over(run: Path, tail: str) -> None:
    small().learn(2 * ROWS, run_dir=run)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(tail)
    assert [line["step"] for line in read_metrics(run)] == [32, 64]


def test_bytes_that_are_no_text_in_the_last_line_are_passed_over(run: Path) -> None:
    small().learn(2 * ROWS, run_dir=run)
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b"\xff\xfe")
    assert [line["step"] for line in read_metrics(run)] == [32, 64]


def test_damage_before_the_last_line_is_named(run: Path) -> None:
    small().learn(3 * ROWS, run_dir=run)
    content = (run / "metrics.jsonl").read_text().splitlines()
    content[1] = content[1][:20]
    (run / "metrics.jsonl").write_text("\n".join(content))
    with pytest.raises(RunError, match=r"metrics\.jsonl is damaged in line 2"):
        read_metrics(run)


def test_lines_beyond_a_step_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"st')
    drop_after(path, 2)
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    drop_after(tmp_path / "absent.jsonl", 2)
    assert not (tmp_path / "absent.jsonl").exists()


def interrupt_at(step: int, number: int) -> Any:
    def callback(agent: PPO, record: IterationRecord) -> None:
        if agent.num_timesteps == step:
            os.kill(os.getpid(), number)

    return callback


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_saves_and_says_where(run: Path, number: int, code: int) -> None:
    agent = small()
    handlers = [signal.getsignal(each) for each in HANDLED]
    with pytest.raises(Interrupted) as stop:
        agent.learn(100 * ROWS, callback=interrupt_at(2 * ROWS, number), run_dir=run)
    assert stop.value.code == code
    assert str(CheckpointStore(run / "checkpoints").path_of(2 * ROWS)) in str(stop.value)
    assert latest_checkpoint(run).manifest.step == 2 * ROWS
    assert agent.num_timesteps == 2 * ROWS
    assert [signal.getsignal(each) for each in HANDLED] == handlers


def test_what_fails_on_the_signal_as_well_is_no_traceback(run: Path) -> None:
    """Ctrl-C reaches every process of a terminal, so that a compiler ends with an error before this process stops."""

    def compiler_ends(agent: PPO, record: IterationRecord) -> None:
        if agent.num_timesteps == 3 * ROWS:
            os.kill(os.getpid(), signal.SIGINT)
            raise RuntimeError("C++ compile error")

    with pytest.raises(Interrupted) as stop:
        small().learn(100 * ROWS, callback=compiler_ends, run_dir=run)
    assert stop.value.code == 130
    step = latest_checkpoint(run).manifest.step
    assert step in (0, ROWS, 2 * ROWS)
    assert f"everything up to env step {step} is saved" in str(stop.value)


def test_an_error_without_a_signal_stays_what_it_is(run: Path) -> None:
    def fails(agent: PPO, record: IterationRecord) -> None:
        raise RuntimeError("C++ compile error")

    with pytest.raises(RuntimeError, match="compile error"):
        small().learn(100 * ROWS, callback=fails, run_dir=run)


def test_without_a_run_directory_ctrl_c_acts_as_always() -> None:
    with pytest.raises(KeyboardInterrupt):
        small().learn(100 * ROWS, callback=interrupt_at(2 * ROWS, signal.SIGINT))


def test_a_second_ctrl_c_does_not_wait(run: Path) -> None:
    def twice(agent: PPO, record: IterationRecord) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        small().learn(100 * ROWS, callback=twice, run_dir=run)
    assert latest_checkpoint(run).manifest.step == 0


@pytest.mark.parametrize("number", HANDLED)
def test_a_signal_that_is_ignored_stays_ignored(run: Path, number: int) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        agent = small().learn(3 * ROWS, callback=interrupt_at(ROWS, number), run_dir=run)
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
    assert agent.num_timesteps == 3 * ROWS


def test_a_closed_terminal_that_signals_twice_still_saves(run: Path) -> None:
    def twice(agent: PPO, record: IterationRecord) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)

    with pytest.raises(Interrupted) as stop:
        small().learn(100 * ROWS, callback=twice, run_dir=run)
    assert stop.value.code == 129
    assert latest_checkpoint(run).manifest.step == ROWS


SCRIPT = """
import os, signal, sys
from surefoot import PPO

def stop(agent, record):
    os.kill(os.getpid(), signal.SIGINT)

PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=16, compile=False).learn(3200, callback=stop, run_dir=sys.argv[1])
"""


def test_a_script_stopped_by_ctrl_c_says_where_its_work_is(run: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(run)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 130
    assert str(run) in ended.stderr
    assert latest_checkpoint(run).manifest.step == ROWS


def test_progress_is_plain_lines_when_not_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    small().learn(8 * ROWS, progress_bar=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    last = printed.err.splitlines()[-1]
    assert last.startswith(f"step {8 * ROWS}/{8 * ROWS}")
    for word in ("return", "kl", "entropy", "fps", "eta"):
        assert word in last


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-0.00312, "-0.0031"), (0.0, "0.0"), (0.05, "0.05"), (-0.5, "-0.5"), (21.13, "21.1"), (-1234.5, "-1234.5")],
)
def test_small_returns_are_shown_with_the_digits_that_tell(value: float, shown: str) -> None:
    assert numbers({"rollout/ep_rew_mean": value}) == f"return {shown}"


def test_there_is_no_progress_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    small().learn(2 * ROWS)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(open_display(0, 10), Lines)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    bar = open_display(0, 10)
    assert isinstance(bar, Bar)
    bar.show(5, {"time/fps": 100.0})
    bar.close()


class Gone(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_goes_away_does_not_stop_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = Bar(0, 10, Console(file=forgiving(Gone()), force_terminal=True))
    bar.show(5, {"time/fps": 100.0})
    bar.close()
    monkeypatch.setattr(sys, "stderr", Gone())
    small().learn(2 * ROWS, progress_bar=True)


def test_numbers_that_are_not_there_are_left_out() -> None:
    assert numbers({"time/fps": 1234.4, "train/approx_kl": 0.01234}) == "kl 0.0123  fps 1234"


class Slow(Random):
    """Steps take their time once ``naps`` seconds are set."""

    naps = 0.0

    def step(self, action: Any) -> Any:
        time.sleep(Slow.naps)
        return super().step(action)


def test_a_long_iteration_that_is_given_up_loses_nothing_before_it(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.train.loop.PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(Slow, "naps", 0.0)

    def slow_down(agent: PPO, record: IterationRecord) -> None:
        if agent.num_timesteps == 3 * ROWS:
            Slow.naps = 0.05
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(Interrupted):
        small(Slow).learn(9 * ROWS, callback=slow_down, run_dir=run)
    assert (latest_checkpoint(run).manifest.step or 0) >= 3 * ROWS  # given up or waited for: nothing before it is lost


def test_an_agent_learns_on_after_an_interruption(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.train.loop.PATIENCE_SECONDS", 0.0)
    agent = small()
    with pytest.raises(Interrupted):
        agent.learn(100 * ROWS, callback=interrupt_at(2 * ROWS, signal.SIGINT), run_dir=run)
    assert same_training(agent.learn(ROWS), small().learn(3 * ROWS))


def test_a_stop_before_an_update_writes_no_line_for_it(run: Path) -> None:
    class Stop(Callback):
        def on_rollout(self, agent: PPO, rollout: Rollout) -> bool | None:
            return False if agent.num_timesteps == 3 * ROWS else None

    small().learn(9 * ROWS, callback=Stop(), run_dir=run)
    assert [line["time/iterations"] for line in lines(run)] == [1, 2]


def test_a_stop_after_an_update_writes_its_line(run: Path) -> None:
    small().learn(9 * ROWS, callback=lambda agent, record: agent.num_timesteps < 2 * ROWS, run_dir=run)
    assert [line["step"] for line in lines(run)] == [32, 64]
    assert checkpoints(run)[-1] == 2 * ROWS


def test_a_run_may_be_made_in_a_thread(run: Path) -> None:
    """Where no signal handler can be set."""
    agent = small()
    thread = threading.Thread(target=agent.learn, args=(2 * ROWS,), kwargs={"run_dir": run})
    thread.start()
    thread.join()
    assert agent.num_timesteps == 2 * ROWS
    assert checkpoints(run)[-1] == 2 * ROWS


def test_values_logged_before_a_checkpoint_reach_the_next_line_of_a_resumed_run(run: Path) -> None:
    def log(agent: PPO, record: IterationRecord) -> bool:
        agent.log({"eval/mean_reward": math.nan if agent.num_timesteps == ROWS else 7.0})
        return agent.num_timesteps < ROWS

    agent = small(run={"log_interval": 2}).learn(4 * ROWS, callback=log, run_dir=run)
    assert lines(run) == []
    extra: Any = latest_checkpoint(run).snapshot.values
    again = Run.reopen(run, read_config(run), agent.num_timesteps, extra["extra"])
    assert math.isnan(again.pending["eval/mean_reward"])
    again.note({"train/loss": 1.0})
    again.write_line(2 * ROWS)
    again.close()
    assert {"eval/mean_reward", "train/approx_kl"} <= lines(run)[0].keys()


def test_a_restarted_run_moves_its_old_checkpoints_aside(run: Path) -> None:
    small().learn(2 * ROWS, run_dir=run)
    for number in (1, 2):
        Run.restart(run, read_config(run)).close()
        assert (run / f"checkpoints.old-{number}").is_dir()
        (run / "checkpoints").mkdir()
    assert checkpoints(run) == []
    assert lines(run) == []
    assert (run / "checkpoints.old-1" / f"{2 * ROWS:012d}").is_dir()


def test_changes_of_what_decides_the_training_are_named(run: Path) -> None:
    config = small().config
    require_unchanged(run, config.model_copy(update={"total_timesteps": 7}), config)
    edited = config.model_copy(update={"ppo": config.ppo.model_copy(update={"gamma": 0.5}), "seed": 3})
    with pytest.raises(RunError, match=r"ppo\.gamma = 0\.5 \(trained with 0\.99\); seed = 3 \(trained with 0\)"):
        require_unchanged(run, edited, config)


def test_an_error_of_the_env_says_how_to_go_on(run: Path) -> None:
    class Fails(Random):
        def step(self, action: Any) -> Any:
            raise RuntimeError("no more data")

    with pytest.raises(EnvError, match=r"no more data(.|\n)*checkpoints/000000000000; go on with PPO\.load"):
        small(Fails).learn(ROWS, run_dir=run)


def test_an_evaluation_without_a_second_env_is_refused_before_training(run: Path) -> None:
    agent = PPO(Random(), **SMALL, run={"eval_every": 16})
    with pytest.raises(EnvError, match="cannot be made"):
        agent.learn(32, run_dir=run)
    assert agent.num_timesteps == 0
