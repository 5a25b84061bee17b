"""Imitation: weights that cannot overflow, demonstrations that are checked, and a term that acts (P11)."""

from __future__ import annotations

import io
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from algo.building import estimates_of, iterate, make_learner
from surefoot import PPO
from surefoot.algo.demonstrations import Demonstrations
from surefoot.algo.imitation import DemonstrationImitation, weights
from surefoot.algo.learner import Learner
from surefoot.config import from_flat
from surefoot.errors import ConfigError
from train.agents import Random


def written(path: Path, **changes: Any) -> str:
    """Twenty steps of CartPole in which the pole always goes right."""
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "observation": rng.normal(size=(20, 4)).astype(np.float32),
        "action": np.ones(20, np.int64),
        "reward": np.ones(20),
        "episode_start": np.arange(20) % 10 == 0,
    }
    arrays = {name: value for name, value in (arrays | changes).items() if value is not None}
    np.savez(path / "demos.npz", **arrays)
    return str(path / "demos.npz")


def loaded(learner: Learner) -> Demonstrations:
    (term,) = learner.terms
    assert isinstance(term, DemonstrationImitation)
    return term._load()


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_weights_are_bounded_before_exp_and_have_no_gradient(beta: float) -> None:
    advantages = torch.tensor([-1e30, -1.0, 0.0, 1.0, 1e30], requires_grad=True)
    found = weights(advantages, beta, 20.0)
    expected = [0.0, math.exp(-1 / beta), 1.0, min(math.exp(1 / beta), 20.0), 20.0]
    assert found.tolist() == pytest.approx(expected, rel=1e-6)
    assert not found.requires_grad


def test_a_large_beta_is_behaviour_cloning() -> None:
    advantages = torch.linspace(-3, 3, 7)
    assert torch.allclose(weights(advantages, 1e9, 20.0), weights(advantages, None, 20.0))


def test_the_own_term_is_minus_the_weighted_log_probability() -> None:
    """Row by row in Python numbers, with coefficient 1 and one minibatch."""
    settings: dict[str, Any] = {"n_epochs": 1, "batch_size": 64, "learning_rate": 0.0}
    learner = make_learner(imitation={"coef": 1.0, "beta": 0.7, "max_weight": 1.5}, **settings)
    rollout = learner.collect()
    record = learner.learn(rollout, 1).update
    twin = make_learner(**settings)
    twin.collect()
    advantages = estimates_of(twin, rollout).advantages.flatten().tolist()
    log_probs = rollout.log_prob.flatten().tolist()
    each = [-min(math.exp(a / 0.7), 1.5) * p for a, p in zip(advantages, log_probs, strict=True)]
    capped = [math.exp(a / 0.7) >= 1.5 for a in advantages]
    assert record.values["train/imitation_loss"] == pytest.approx(sum(each) / 64, rel=1e-4)
    assert record.values["train/imitation_capped"] == pytest.approx(sum(capped) / 64)
    size = sum(abs(x) for x in each) / sum(abs(a) for a in advantages)  # the policy loss is −A at ratio 1
    assert record.values["train/imitation_ratio"] == pytest.approx(size, rel=1e-4)


def test_returns_are_discounted_within_episodes_and_set_the_weights(tmp_path: Path) -> None:
    learner = make_learner(imitation={"coef": 1.0, "demonstrations": written(tmp_path)}, gamma=0.5)
    returns = loaded(learner).returns
    assert returns is not None
    assert returns[9] == 1.0
    assert returns[8] == 1.5
    assert returns[0] == pytest.approx(2 - 2**-9)
    assert returns[10] == pytest.approx(returns[0])


@pytest.mark.parametrize("normalize", [False, True])
def test_demonstrations_teach_the_policy(tmp_path: Path, normalize: bool) -> None:
    path = written(tmp_path)
    probabilities = []
    for coef in (0.0, 10.0):
        imitation = {"coef": coef, "demonstrations": path, "beta": None} if coef else {}
        learner = make_learner(
            imitation=imitation, learning_rate=1e-2, normalize_observations=normalize, normalize_advantage="none"
        )
        iterate(learner, 10)
        seen = learner.actor.seen({"obs": np.load(path)["observation"]})
        logits = learner.policy.action_parameters({"obs": torch.from_numpy(seen["obs"])})
        probabilities.append(torch.softmax(logits, 1)[:, 1].mean().item())
    assert probabilities[1] > 0.85 > 0.7 > probabilities[0]


@pytest.mark.parametrize("distribution", ["gaussian", "tanh_gaussian", "beta"])
def test_box_actions_are_read_in_the_units_of_the_policy(tmp_path: Path, distribution: str) -> None:
    """What the policy stores, sent to the env again, is what was demonstrated; the bounds but nearly."""
    action = np.array([[-2.0], [-0.5], [0.0], [1.0], [2.0]], np.float32)
    path = written(
        tmp_path, observation=np.zeros((5, 3), np.float32), action=action, reward=np.arange(5.0), episode_start=None
    )
    learner = make_learner(
        "Pendulum-v1", policy={"distribution": distribution}, imitation={"coef": 1.0, "demonstrations": path}
    )
    assert np.allclose(learner.family.to_env(loaded(learner).action), action, atol=1e-4)
    (record,) = iterate(learner, 1)
    assert math.isfinite(record.update.values["train/imitation_loss"])


def test_parquet_is_read_like_npz(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = written(tmp_path)
    arrays = np.load(path)
    columns = {f"observation_{i}": arrays["observation"][:, i] for i in range(4)}
    columns |= {name: arrays[name] for name in ("action", "reward", "episode_start")}
    polars.DataFrame(columns).write_parquet(tmp_path / "demos.parquet")
    names = (path, str(tmp_path / "demos.parquet"))
    npz, parquet = (loaded(make_learner(imitation={"coef": 1.0, "demonstrations": name})) for name in names)
    assert np.array_equal(npz.observation["obs"], parquet.observation["obs"])
    assert np.array_equal(npz.action, parquet.action)
    assert npz.returns is not None
    assert parquet.returns is not None
    assert np.array_equal(npz.returns, parquet.returns)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "empty": ({"action": np.zeros(0, np.int64), "observation": np.zeros((0, 4))}, "there is no demonstration in it"),
    "no actions": ({"action": None}, "there is no demonstration"),
    "of another space": ({"observation": np.zeros((20, 3))}, r"rows of shape \(3,\), the env's have \(4,\)"),
    "another name": (
        {"observation": None, "obervation": np.zeros((20, 4))},
        "nothing reads an array 'obervation'.*did you mean 'observation'",
    ),
    "no observations": ({"observation": None}, "observation 'obs' is missing"),
    "a name too many": ({"episode_starts": np.ones(20, bool)}, "'episode_starts'.*did you mean 'episode_start'"),
    "one number": ({"action": np.int64(1)}, "there is no demonstration"),
    "returns without end": ({"reward": np.full(20, 1e308)}, "reward is so large"),
    "NaN": ({"observation": np.full((20, 4), np.nan)}, "observation is not finite in row 0"),
    "infinite reward": ({"reward": np.append(np.ones(19), np.inf)}, "reward is not finite in row 19"),
    "other lengths": ({"reward": np.ones(19)}, r"reward has shape \(19,\), action has 20 rows"),
    "rewards of several": ({"reward": np.ones((20, 3))}, r"reward has shape \(20, 3\), one for each of 20 rows"),
    "starts of several": ({"episode_start": np.ones((20, 2), bool)}, r"episode_start has shape \(20, 2\)"),
    "not an action": ({"action": np.full(20, 2)}, r"the action 2 of row 0 is not in Discrete\(2\)"),
    "half an action": ({"action": np.full(20, 0.5)}, "is not in Discrete"),
    "text": ({"reward": np.array(["a"] * 20)}, "reward has dtype <U1"),
    "objects": ({"reward": np.array([{}] * 20, dtype=object)}, "holds Python objects, which are code"),
    "no legal choice": ({"mask": np.zeros((20, 2), bool)}, "mask of row 0 leaves no legal choice"),
    "an illegal action": (
        {"mask": np.stack([np.ones(20, bool), np.arange(20) != 7], 1)},
        "the action 1 of row 7 is not legal by its own mask",
    ),
    "masks of another width": ({"mask": np.ones((20, 3), bool)}, r"mask has shape \(3,\), not \(2,\)"),
    "masks that are no flags": ({"mask": np.full((20, 2), 0.5)}, "mask"),
    "no rewards": ({"reward": None}, r"no rewards to weigh .* imitation\.beta = none"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_set_is_refused_before_anything_starts(tmp_path: Path, case: str) -> None:
    changes, told = BAD[case]
    with pytest.raises(ConfigError, match=told):
        make_learner(imitation={"coef": 1.0, "demonstrations": written(tmp_path, **changes)})


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    (tmp_path / "demos.pkl").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("action.npy", b"")
        archive.infolist()[0].file_size = 1 << 40
    for name, told in (
        ("missing.npz", "no file at"),
        ("text.npz", "cannot be read as a set"),
        ("demos.pkl", r"only \.npz and \.parquet"),
        ("bomb.npz", "cannot be read as a set|at most"),
    ):
        with pytest.raises(ConfigError, match=told):
            make_learner(imitation={"coef": 1.0, "demonstrations": str(tmp_path / name)})


def test_broken_archives_are_refused(tmp_path: Path) -> None:
    """By whatever words their parts fail: bytes inside, a header without an end, an unknown compression."""
    whole = Path(written(tmp_path)).read_bytes()
    np.savez_compressed(tmp_path / "packed.npz", action=np.random.default_rng(0).integers(0, 2, 5000))
    packed = bytearray((tmp_path / "packed.npz").read_bytes())
    packed[60:90] = bytes(30)
    method = bytearray(whole)
    method[whole.rindex(b"PK\x01\x02") + 10] = 99
    with zipfile.ZipFile(tmp_path / "header.npz", "w") as archive:
        archive.writestr("action.npy", b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000)
    for name, content in (("packed", packed), ("method", method), ("cut", bytearray(whole[:200]))):
        (tmp_path / f"{name}.npz").write_bytes(bytes(content))
    for name in ("packed", "method", "cut", "header"):
        with pytest.raises(ConfigError, match="cannot be read as a set of demonstrations"):
            make_learner(imitation={"coef": 1.0, "demonstrations": str(tmp_path / f"{name}.npz")})


def test_memory_is_not_taken_on_the_word_of_a_file(tmp_path: Path) -> None:
    """A header that declares 800 GB of array, and 400 M rows that are packed into a megabyte."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})
    with zipfile.ZipFile(tmp_path / "header.npz", "w") as archive:
        archive.writestr("action.npy", header.getvalue() + bytes(80))
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    chunk = pyarrow.table({"action": pyarrow.array(np.zeros(10_000_000, np.int64))})
    with parquet.ParquetWriter(tmp_path / "rows.parquet", chunk.schema) as writer:
        for _ in range(30):
            writer.write_table(chunk)
    assert (tmp_path / "rows.parquet").stat().st_size < 1 << 22
    for name, told in (
        ("header.npz", "larger than it is"),
        ("rows.parquet", r"2,400,000,000 bytes of arrays, at most"),
    ):
        with pytest.raises(ConfigError, match=told):
            make_learner(imitation={"coef": 1.0, "demonstrations": str(tmp_path / name)})


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (["a"] * 20, "note has type string, which are no numbers"),
        ([[1]] * 20, r"note has type list<.*>, which are no numbers"),
        ([None] + [1.0] * 19, "note has 1 empty cells"),
    ],
)
def test_parquet_columns_that_are_no_numbers_are_refused(tmp_path: Path, column: list[Any], told: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns: dict[str, Any] = {"action": np.ones(20, np.int64), "note": column}
    parquet.write_table(pyarrow.table(columns), tmp_path / "demos.parquet")
    with pytest.raises(ConfigError, match=told):
        make_learner(imitation={"coef": 1.0, "demonstrations": str(tmp_path / "demos.parquet")})


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({f"observation_{i}": np.zeros(5) for i in (0, 1, 3, 7)}, "observation has columns numbered 0, 1, 3, 7"),
        ({"action_0": np.zeros(5, np.int64)}, "action has columns numbered 0, and a column action"),
    ],
)
def test_parquet_columns_count_without_a_gap(tmp_path: Path, columns: dict[str, Any], told: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"action": np.ones(5, np.int64)} | columns)
    parquet.write_table(table, tmp_path / "demos.parquet")
    with pytest.raises(ConfigError, match=told):
        make_learner(imitation={"coef": 1.0, "demonstrations": str(tmp_path / "demos.parquet")})


IMAGES = spaces.Box(0, 255, (16, 15, 3), np.uint8)


@pytest.mark.parametrize(
    ("space", "observation", "told"),
    [
        (spaces.Discrete(16), np.array([3, 40]), r"observation is 40 in row 1, which is not in Discrete\(16\)"),
        (spaces.Discrete(16), np.array([-1, 3]), "observation is -1 in row 0"),
        (spaces.Discrete(16), np.array([0.5, 3.0]), r"observation is 0\.5 in row 0"),
        (spaces.MultiDiscrete([2, 3]), np.array([[1, 2], [1, 3]]), r"observation is \[1, 3\] in row 1"),
        (IMAGES, np.zeros((2, 3, 16, 15), np.uint8), r"rows of shape \(3, 16, 15\), the env's have \(16, 15, 3\)"),
        (IMAGES, np.full((2, 16, 15, 3), 300.0), "in row 0, which is not in Box"),
        (spaces.Box(-1, 1, (2, 3)), np.zeros((2, 3, 2)), r"rows of shape \(3, 2\)"),
    ],
)
def test_observations_of_another_space_are_refused(
    tmp_path: Path, space: spaces.Space[Any], observation: Any, told: str
) -> None:
    path = written(tmp_path, observation=observation, action=np.zeros(2, np.int64), reward=None, episode_start=None)
    imitation = {"coef": 1.0, "demonstrations": path, "beta": None}
    with pytest.raises(ConfigError, match=told):
        make_learner(lambda: Random(space, spaces.Discrete(2)), imitation=imitation)


def test_masks_of_actions_that_are_no_choices_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, observation=np.zeros((20, 3)), action=np.zeros((20, 1)), mask=np.ones((20, 2), bool))
    with pytest.raises(ConfigError, match="mask is for choices among n"):
        make_learner("Pendulum-v1", imitation={"coef": 1.0, "demonstrations": path})


def test_bits_are_imitated(tmp_path: Path) -> None:
    bits = np.tile([[1, 0, 1]], (20, 1))
    path = written(tmp_path, observation=np.zeros((20, 2), np.float32), action=bits)
    imitation = {"coef": 10.0, "demonstrations": path, "beta": None}
    learner = make_learner(
        lambda: Random(spaces.Box(-1, 1, (2,)), spaces.MultiBinary(3)), imitation=imitation, learning_rate=1e-2
    )
    iterate(learner, 10)
    logits = learner.policy.action_parameters({"obs": torch.zeros(1, 2)})
    assert (logits[0] > 1.0).tolist() == [True, False, True]


def test_files_that_are_no_files_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "zeros.npz").symlink_to("/dev/zero")
    for name in ("pipe.npz", "zeros.npz"):
        with pytest.raises(ConfigError, match="is no file"):
            PPO("CartPole-v1", imitation={"coef": 1.0, "demonstrations": tmp_path / name})


def test_without_a_policy_loss_there_is_no_ratio(tmp_path: Path) -> None:
    """As long as no reward was seen, which is what demonstrations are for."""
    path = written(tmp_path, observation=np.zeros((20, 2), np.float32), reward=None)
    imitation = {"coef": 1.0, "demonstrations": path, "beta": None}
    learner = make_learner(
        lambda: Random(spaces.Box(-1, 1, (2,)), spaces.Discrete(2), scale=0.0),
        imitation=imitation,
        critic={"popart": True},
    )
    (record,) = iterate(learner, 1)
    assert math.isnan(record.update.values["train/imitation_ratio"])
    assert record.update.values["train/imitation_loss"] > 0.0


def test_box_actions_outside_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, observation=np.zeros((20, 3)), action=np.full((20, 1), 2.5))
    with pytest.raises(ConfigError, match=r"the action \[2\.5\] of row 0 is outside of Box"):
        make_learner("Pendulum-v1", imitation={"coef": 1.0, "demonstrations": path})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"imitation": {"coef": -1.0}}, r"imitation\.coef"),
        ({"imitation": {"beta": 2.0}}, r"imitation\.beta needs imitation\.coef > 0"),
        ({"imitation": {"coef": 1.0, "beta": 0.0}}, r"imitation\.beta"),
        ({"imitation": {"coef": 1.0, "max_weight": 1e300}}, r"imitation\.max_weight"),
        ({"imitation": {"coef": 1.0, "beta": None}}, "imitates all that it does, good or bad"),
        ({"imitation": {"coef": 1.0, "beta": None, "demonstrations": "x", "max_weight": 9.0}}, "bounds nothing"),
        ({"imitation": {"coef": 1.0, "demonstrations": "x"}, "memory": {"kind": "lstm"}}, "do not go with memory"),
        ({"imitation": {"coef": 1.0, "beta": 1e-50}}, r"imitation\.beta"),
        (
            {
                "imitation": {"coef": 1.0, "demonstrations": "x"},
                "risk": {"kind": "cvar_objective", "observe_return": True},
            },
            r"do not go with risk\.observe_return",
        ),
    ],
)
def test_settings_that_cannot_act_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        from_flat(**settings)
