"""The examples run as they are, with few env steps: what they print and leave behind."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

Run = Callable[[str, int], str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the `main` of an example in an empty directory and answers what it printed."""
    monkeypatch.chdir(tmp_path)

    def call(name: str, timesteps: int) -> str:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        example: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(example)
        example.main(timesteps)
        return capsys.readouterr().out

    return call


def number(pattern: str, text: str) -> float:
    """What stands in the parentheses of a pattern."""
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found[1])


def test_every_example_has_a_test() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        "first_agent",
        "own_env_and_network",
        "masks_heads_memory",
        "cvar_limit",
        "callbacks_and_logging",
        "market_agent",
    }


def test_the_first_agent_learns_and_acts_after_it_is_loaded(run: Run, tmp_path: Path) -> None:
    printed = run("first_agent", 1024)
    assert number(r"after 1024 env steps: (\S+)", printed) > number(r"before training: (\S+)", printed)
    assert printed.endswith(("push: left\n", "push: right\n"))
    assert (tmp_path / "first-agent" / "tensors.safetensors").is_file()


def test_an_own_env_with_an_own_network_learns(run: Run) -> None:
    printed = run("own_env_and_network", 1024)
    # Actor and critic: 2·32 + 32, 32·32 + 32, output 32 + 1; one standard deviation.
    assert number(r"parameters of actor and critic: (\d+)", printed) == 2 * (96 + 1056 + 33) + 1
    assert number(r"after 1024 env steps: (\S+)", printed) > number(r"before training: (\S+)", printed)


def test_heads_masks_and_memory_go_together(run: Run) -> None:
    printed = run("masks_heads_memory", 1024)
    assert 0.0 <= number(r"mean return: (\S+)", printed) <= 1.0
    episode = re.search(r"an episode: (.*); reward", printed)
    assert episode is not None
    # Masks: no door can be opened in the first three steps. An episode ends when one is, or after six steps.
    moves = episode[1].split(", ")
    assert moves[:3] == ["WAIT"] * 3
    assert len(moves) == 6 or moves[-1].startswith("OPEN")
    # Of three doors one is always locked, so that there is at most one bit to choose.
    assert 0.0 < number(r"choice of a door: (\S+)", printed) <= 0.7


def test_a_cvar_limit_is_told_beside_the_known_answer(run: Run) -> None:
    printed = run("cvar_limit", 3 * 512)
    free, limited = printed.splitlines()
    assert "(best 1.00)" in free
    # CVaR(x) = 1 − 5·0.4·x/0.4 meets −1 at x = 0.4.
    assert "(best 0.40)" in limited
    for line in (free, limited):
        assert 0.0 <= number(r"gambles in (\S+)", line) <= 1.0
        assert -4.0 <= number(r"CVaR (-?\d+\.\d+)$", line) <= 1.0


def test_callbacks_log_into_the_run_directory(run: Run, tmp_path: Path) -> None:
    printed = run("callbacks_and_logging", 1024)
    assert printed.count("step 1024: return ") == 1
    assert "trained to the end" in printed
    assert number(r"best agent: (\S+)", printed) > 0.0
    (directory,) = (tmp_path / "runs").iterdir()
    assert "own/entropy_above_limit" in (directory / "metrics.jsonl").read_text()
    assert {path.name for path in directory.iterdir()} >= {"best", "checkpoints", "config.toml", "metrics.jsonl"}


def test_a_market_agent_learns_on_one_span_and_is_judged_on_the_next(run: Run) -> None:
    printed = run("market_agent", 2 * 4096)
    train, validation, test, grown, known = printed.splitlines()
    ends = [re.search(r": (\S+) to (\S+)$", line) for line in (train, validation, test)]
    assert all(ends)
    assert ends[0][2] == ends[1][1]  # type: ignore[index]  # found, as said above
    assert ends[1][2] == ends[2][1]  # type: ignore[index]
    assert number(r"after: (\S+)$", grown) > number(r"before training: (\S+),", grown)
    assert number(r"earn (\S+)$", known) == pytest.approx(3.9, abs=0.1)  # 2,000 bars of about 0.002
