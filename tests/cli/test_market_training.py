"""``surefoot train market``: spans by time, early stop, fingerprints, and mistakes that are told before training."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.commands import SURELY_QUICK, Ended, Surefoot
from surefoot import PPO
from surefoot.market import Market, load_prices
from surefoot.train.run import latest_checkpoint
from train.agents import lines

STEPS = ("--total-timesteps", "96")
QUICK = (*SURELY_QUICK, *STEPS)


def write_prices(path: Path, bars: int = 300, seed: int = 0, volume: bool = False) -> Path:
    """Daily closes of a random walk from 2015 on."""
    rng = np.random.default_rng(seed)
    close = 100.0 * np.exp(np.cumsum(0.01 * rng.standard_normal(bars)))
    days = np.datetime64("2015-01-01") + np.arange(bars)
    rows = [f"{day},{price:.6f}" + (",10" if volume else "") for day, price in zip(days, close, strict=True)]
    path.write_text("time,close" + (",volume" if volume else "") + "\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_prices(tmp_path / "prices.csv")


@pytest.fixture
def trained(tmp_path: Path, file: Path, surefoot: Surefoot) -> Path:
    """A run that was evaluated twice on its validation span."""
    ended = surefoot("train", "market", "--data", file, "--run-dir", tmp_path / "run", *QUICK, "--run.eval-every", "32")
    assert ended.code == 0, ended.err
    return tmp_path / "run"


def config_of(run: Path) -> dict[str, Any]:
    return tomllib.loads((run / "config.toml").read_text())


def test_spans_follow_one_another_and_their_dates_are_printed(tmp_path: Path, file: Path, surefoot: Surefoot) -> None:
    ended = surefoot("train", "market", "--data", file, "--run-dir", tmp_path / "run", *QUICK)
    assert ended.code == 0, ended.err
    fingerprint = load_prices(file).fingerprint
    assert f"300 bars that close from 2015-01-02 to 2015-10-28, sha256 {fingerprint}" in ended.err
    # 0.6, 0.2 and 0.2 of 300 bars; the bar of a day is known when the day is over.
    assert "train: 2015-01-02 to 2015-06-30 (180 bars)\n" in ended.err
    assert "validation: 2015-07-01 to 2015-08-29 (60 bars)\n" in ended.err
    assert "test: 2015-08-30 to 2015-10-28 (60 bars), not touched\n" in ended.err


def test_the_run_s_config_has_path_fingerprint_and_statistics_of_training(trained: Path, file: Path) -> None:
    config, prices = config_of(trained), load_prices(file)
    assert config["market"]["data"] == config["env_kwargs"]["data"] == str(file)
    assert config["market"]["fingerprint"] == config["env_kwargs"]["fingerprint"] == prices.fingerprint
    statistics = Market(prices, 1, span=tuple(config["env_kwargs"]["span"])).statistics.state_dict()
    assert config["env_kwargs"]["statistics"] == statistics
    assert statistics["end"].startswith("2015-06-30")
    assert config["run"]["eval_env_kwargs"]["span"] == ["2015-07-01", "2015-08-30"]
    assert "statistics" not in config["run"]["eval_env_kwargs"]  # those of training go on


def test_evaluations_are_of_the_validation_span_with_training_s_statistics(trained: Path, file: Path) -> None:
    (*_, last) = [line for line in lines(trained) if "eval/mean_reward" in line]
    assert last["eval/mean_ep_length"] == 59  # 60 bars
    config = config_of(trained)
    agent = PPO.load(latest_checkpoint(trained).path)
    market = Market(
        load_prices(file),
        1,
        span=("2015-07-01", "2015-08-30"),
        statistics=config["env_kwargs"]["statistics"],
        random_start=False,
    )
    assert agent.evaluate(1, env=market).mean == pytest.approx(last["eval/mean_reward"], abs=1e-12)
    assert (trained / "best" / "tensors.safetensors").is_file()


def test_training_stops_when_the_validation_no_longer_improves(tmp_path: Path, file: Path, surefoot: Surefoot) -> None:
    ended = surefoot(
        *("train", "market", "--data", file, "--run-dir", tmp_path / "run", *SURELY_QUICK),
        *("--total-timesteps", "3200", "--run.eval-every", "32", "--run.patience", "1", "--ppo.learning-rate", "0"),
    )
    assert ended.code == 0, ended.err
    assert lines(tmp_path / "run")[-1]["step"] == 64  # the second evaluation is the first again


def test_evaluation_of_a_run_is_of_the_validation_span(trained: Path, surefoot: Surefoot) -> None:
    found = json.loads(surefoot("eval", trained, "--json").out)
    assert found["lengths"] == [59]
    begin, end = config_of(trained)["run"]["eval_env_kwargs"]["span"]
    assert (found["split"], found["span"]) == ("validation", [begin, end])
    shown = surefoot("eval", trained).out
    assert "validation" in shown
    assert begin[:10] in shown


def test_an_evaluation_elsewhere_says_where(trained: Path, tmp_path: Path, file: Path, surefoot: Surefoot) -> None:
    begin, end = config_of(trained)["env_kwargs"]["span"]
    elsewhere = json.dumps({"span": ["2015-03", "2015-05"]})
    found = json.loads(surefoot("eval", trained, "--json", "--env-kwargs", elsewhere).out)
    assert (found["split"], found["span"]) == (None, ["2015-03", "2015-05"])
    words = ("train", "market", "--data", file, "--run-dir", tmp_path / "never", *QUICK, "--run.eval-every", "0")
    assert surefoot(*words).code == 0
    found = json.loads(surefoot("eval", tmp_path / "never", "--json").out)
    assert (found["split"], found["span"]) == ("train", [begin, end])


def test_a_run_shorter_than_its_preset_s_interval_validates_at_its_end(
    tmp_path: Path, file: Path, surefoot: Surefoot
) -> None:
    words = ("train", "--preset", "market-minute", "--data", file, *QUICK, "--market.episode-length", "50")
    ended = surefoot(*words, "--run-dir", tmp_path / "run")
    assert ended.code == 0, ended.err
    assert "validation: at the end of training alone, which is shorter than run.eval_every = 50000" in ended.err
    assert [line["step"] for line in lines(tmp_path / "run") if "eval/mean_reward" in line] == [96]
    assert (tmp_path / "run" / "best").is_dir()


def test_changed_data_are_refused_with_both_fingerprints(trained: Path, file: Path, surefoot: Surefoot) -> None:
    before = load_prices(file).fingerprint
    after = load_prices(write_prices(file, seed=1)).fingerprint
    for words in (("resume", trained, "--total-timesteps", "192"), ("eval", trained)):
        ended = surefoot(*words)
        assert ended.code == 2
        assert before in ended.err
        assert after in ended.err


def test_moved_data_are_taken_by_their_fingerprint(trained: Path, file: Path, surefoot: Surefoot) -> None:
    elsewhere = file.rename(file.with_name("moved.csv"))
    for words in (("resume", trained, "--total-timesteps", "192", "--quiet"), ("eval", trained)):
        ended = surefoot(*words)
        assert ended.code == 2
        assert "--data FILE" in ended.err
    ended = surefoot("resume", trained, "--total-timesteps", "192", "--quiet", "--data", elsewhere)
    assert ended.code == 0, ended.err
    assert "continuing exactly" in ended.err
    assert config_of(trained)["env_kwargs"]["data"] == str(elsewhere)
    assert surefoot("eval", trained).code == 0
    # The best agent was saved before the move.
    assert surefoot("eval", trained, "--best", "--data", elsewhere).code == 0
    ended = surefoot("eval", trained, "--data", write_prices(file, seed=2))
    assert ended.code == 2
    assert "are not those of the run" in ended.err


def test_a_run_that_was_moved_between_two_resumes_goes_on(trained: Path, file: Path, surefoot: Surefoot) -> None:
    elsewhere = file.rename(file.with_name("moved.csv"))
    text = (trained / "config.toml").read_text()
    (trained / "config.toml").write_text(text.replace(str(file), str(elsewhere)))
    ended = surefoot("resume", trained, "--total-timesteps", "192", "--quiet")
    assert ended.code == 0, ended.err


def test_a_run_s_config_trains_the_same_again(trained: Path, tmp_path: Path, surefoot: Surefoot) -> None:
    again = tmp_path / "again"
    ended = surefoot("train", "--config", trained / "config.toml", "--run-dir", again, "--quiet")
    assert ended.code == 0, ended.err
    assert config_of(again) == config_of(trained)
    other = surefoot(
        *("train", "--config", trained / "config.toml", "--run-dir", tmp_path / "w", "--quiet", "--market.window", "3")
    )
    assert other.code == 0, other.err
    assert config_of(tmp_path / "w")["env_kwargs"]["window"] == 3


def test_generated_data_are_said_to_be_so(tmp_path: Path, surefoot: Surefoot) -> None:
    data = "generated:gbm(seed=0, bars=400)"
    ended = surefoot("train", "market", "--data", data, "--run-dir", tmp_path / "run", *QUICK)
    assert ended.code == 0, ended.err
    assert "data: SYNTHETIC, generated and not of any market: " in ended.err


def test_all_kinds_of_agents_train_on_it(tmp_path: Path, file: Path, surefoot: Surefoot) -> None:
    ended = surefoot(
        *("train", "market", "--data", file, "--run-dir", tmp_path / "run", *QUICK, "--market.action", "levels"),
        *("--critic.kind", "quantile", "--memory.kind", "lstm", "--memory.hidden-size", "8"),
        *("--risk.kind", "cvar_constraint", "--risk.limit-per-step", "-0.02", "--market.episode-length", "20", "40"),
        *("--market.cost-multiplier", "0.5", "2", "--market.features", "return(1)", "rsi(5)"),
        *("--market.costs", '{"half_spread_bps": 2}', "--market.reward", "log_growth", "drawdown(0.1, coef=2)"),
    )
    assert ended.code == 0, ended.err
    kwargs = config_of(tmp_path / "run")["env_kwargs"]
    assert kwargs["episode_length"] == [20, 40]
    assert kwargs["costs"] == {"half_spread_bps": 2.0}
    assert surefoot("eval", tmp_path / "run").code == 0


def test_a_preset_brings_its_env(tmp_path: Path, file: Path, surefoot: Surefoot) -> None:
    words = ("train", "--preset", "market-minute", "--data", file, *QUICK, "--run.eval-every", "32")
    ended = surefoot(*words, "--run-dir", tmp_path / "run", "--market.episode-length", "50")
    assert ended.code == 0, ended.err
    assert config_of(tmp_path / "run")["ppo"]["gamma"] < 0.99
    assert "market-daily: env=surefoot/Market-v0" in surefoot("presets").out
    ended = surefoot("train", "CartPole-v1", "--preset", "market-daily", "--data", file, *QUICK)
    assert ended.code == 2
    assert "is for surefoot/Market-v0, not for CartPole-v1" in ended.err


def test_dates_say_the_spans(tmp_path: Path, file: Path, surefoot: Surefoot) -> None:
    ended = surefoot(
        *("train", "market", "--data", file, "--run-dir", tmp_path / "run", *QUICK),
        *("--market.train", "2015", "2015-07", "--market.validation", "2015-07", "2015-09", "--market.test", "2015-09"),
    )
    assert ended.code == 0, ended.err
    assert "train: 2015-01-02 to 2015-06-30 (180 bars)\n" in ended.err
    assert "validation: 2015-07-01 to 2015-08-31 (62 bars)\n" in ended.err
    assert "test: 2015-09-01 to 2015-10-28 (58 bars), not touched\n" in ended.err


OVERLAP = ("--market.train", "2015", "2015-07", "--market.validation", "2015-06", "2015-09")
BEFORE = ("--market.train", "2015-06", "2015-09", "--market.validation", "2015-01", "2015-06")
MISTAKES = {
    "no data": ((), "say which prices"),
    "a file that is not there": (("--data", "none.csv"), "none.csv"),
    "too short a span for the window": (("--data", "FILE", "--market.window", "170"), "too short"),
    "validation too short for episodes": (("--data", "FILE", "--market.episode-length", "170"), "longer than the span"),
    "volume on close-only data": (("--data", "FILE", "--market.features", "volume_zscore(5)"), "volume"),
    "costs that ruin": (("--data", "FILE", "--market.costs", '{"commission_bps": 6000}'), "ruin an account at once"),
    "unknown cost": (("--data", "FILE", "--market.costs", '{"spread": 1}'), "'spread' is not known"),
    "unknown feature": (("--data", "FILE", "--market.features", "rsj(14)"), "rsi"),
    "overlap": (("--data", "FILE", *OVERLAP), "they overlap"),
    "validation first": (("--data", "FILE", *BEFORE), "before train"),
    "half of the dates": (("--data", "FILE", "--market.train", "2015", "2016"), "both market.train and"),
    "a span without bars": (
        ("--data", "FILE", "--market.train", "2015", "2016", "--market.validation", "2016", "2017"),
        "has no bars",
    ),
    "dates and fractions": (("--data", "FILE", *OVERLAP, "--market.fractions", "0.5", "0.5"), "give one of them"),
    "fractions above 1": (("--data", "FILE", "--market.fractions", "0.9", "0.2"), "1 at most in all"),
    "an unreadable date": (
        ("--data", "FILE", "--market.train", "spring", "2015-07", "--market.validation", "2015-07", "2015-09"),
        "cannot be read",
    ),
    "levels without their action": (("--data", "FILE", "--market.levels", "0", "1"), "market.action"),
    "arguments twice": (("--data", "FILE", "--env-kwargs", '{"window": 3}'), "leave them out"),
    "another fingerprint": (("--data", "FILE", "--market.fingerprint", "abc"), "abc"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told_before_training(case: str, tmp_path: Path, file: Path, surefoot: Surefoot) -> None:
    words, text = MISTAKES[case]
    given = [str(file) if word == "FILE" else word for word in words]
    if case == "no data":
        given = ["--market.window", "3"]
    ended: Ended = surefoot("train", "market", *given, "--run-dir", tmp_path / "run", *QUICK)
    assert ended.code == 2
    assert text in ended.err
    assert not (tmp_path / "run").exists()


def test_a_bar_of_the_future_is_refused(tmp_path: Path, surefoot: Surefoot) -> None:
    file = write_prices(tmp_path / "prices.csv")
    file.write_text(file.read_text() + "2095-01-01,100\n")
    ended = surefoot("train", "market", "--data", file, "--run-dir", tmp_path / "run", *QUICK)
    assert ended.code == 2
    assert "[future-bar]" in ended.err


def test_an_instrument_that_the_file_does_not_have_is_refused(tmp_path: Path, surefoot: Surefoot) -> None:
    file = tmp_path / "two.csv"
    rows = [f"2015-01-{day:02d},{name},{100 + day}" for day in range(1, 29) for name in ("AAPL", "IBM")]
    file.write_text("time,symbol,close\n" + "\n".join(rows) + "\n")
    ended = surefoot("train", "market", "--data", file, "--market.instrument", "MSFT", *QUICK)
    assert ended.code == 2
    assert "AAPL" in ended.err


def test_market_on_another_env_is_refused(file: Path, surefoot: Surefoot) -> None:
    ended = surefoot("train", "CartPole-v1", "--data", file, *QUICK)
    assert ended.code == 2
    assert "market.data is for env = 'surefoot/Market-v0'" in ended.err
