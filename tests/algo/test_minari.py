"""Demonstrations out of a Minari data set, which Minari itself writes here."""

from __future__ import annotations

import builtins
import json
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from algo.building import iterate, make_learner
from surefoot.algo.demonstration_minari import read_minari
from surefoot.algo.demonstrations import Demonstrations
from surefoot.algo.imitation import DemonstrationImitation
from surefoot.errors import ConfigError
from surefoot.spaces import Layout
from train.agents import Random, dict_space

minari = pytest.importorskip("minari", reason="needs minari")
h5py = pytest.importorskip("h5py", reason="needs h5py")
NAME, SOURCE = "here/pole-v0", "minari:here/pole-v0"
LENGTHS = (3, 2)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where data sets are."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def written(
    env: str = "CartPole-v1", observation: spaces.Space[Any] | None = None, action: spaces.Space[Any] | None = None
) -> Path:
    """Two episodes of an env's spaces, the first terminated and the second truncated; the data file."""
    from minari.data_collector import EpisodeBuffer

    made = gymnasium.make(env)
    observation, action = observation or made.observation_space, action or made.action_space
    observation.seed(0)
    action.seed(0)
    buffers = []
    for length in LENGTHS:
        ends = [step == length - 1 for step in range(length)]
        terminated = length == LENGTHS[0]
        seen = [observation.sample() for _ in range(length + 1)]
        parts: Any = seen
        if isinstance(observation, spaces.Dict):
            parts = {key: [x[key] for x in seen] for key in observation.spaces}
        buffers.append(
            EpisodeBuffer(
                observations=parts,
                actions=[action.sample() for _ in range(length)],
                rewards=[float(i + 1) for i in range(length)],
                terminations=[end and terminated for end in ends],
                truncations=[end and not terminated for end in ends],
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about authors and links, which it wants to be told
        minari.create_dataset_from_buffers(
            NAME, buffers, env=env, observation_space=observation, action_space=action, data_format="hdf5"
        )
    return file()


def file() -> Path:
    return Path(str(minari.storage.get_dataset_path(NAME))) / "data" / "main_data.hdf5"


def loaded(env: Any = "CartPole-v1", **settings: Any) -> Demonstrations:
    learner = make_learner(env, imitation={"coef": 1.0, "demonstrations": SOURCE}, **settings)
    (term,) = learner.terms
    assert isinstance(term, DemonstrationImitation)
    return term._load()


def test_episodes_are_what_minari_itself_reads() -> None:
    written()
    found = loaded(gamma=0.5)
    episodes = list(minari.load_dataset(NAME).iterate_episodes())
    assert np.array_equal(found.observation["obs"], np.concatenate([e.observations[:-1] for e in episodes]))
    assert np.array_equal(found.action.reshape(-1), np.concatenate([e.actions for e in episodes]))
    assert found.returns is not None
    assert found.returns.tolist() == [1 + 2 / 2 + 3 / 4, 2 + 3 / 2, 3.0, 1 + 2 / 2, 2.0]


def test_a_policy_learns_from_them() -> None:
    written("Pendulum-v1")
    imitation = {"coef": 1.0, "demonstrations": SOURCE, "beta": None}
    records = iterate(make_learner("Pendulum-v1", imitation=imitation, learning_rate=0.03), 20)
    losses = [record.update.values["train/imitation_loss"] for record in records]
    assert losses[-1] < losses[0] - 0.5


def test_observations_of_several_parts_are_found_by_their_keys() -> None:
    written(observation=dict_space())
    found = loaded(lambda: Random(dict_space(), spaces.Discrete(2)))
    first, *_ = minari.load_dataset(NAME).iterate_episodes()
    assert np.allclose(found.observation["numbers"][:3], first.observations["numbers"][:3])
    assert found.observation["kind"][:3].tolist() == first.observations["kind"][:3].tolist()


def test_positions_of_a_tuple_are_found_too(tmp_path: Path) -> None:
    space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,))))
    path = tmp_path / NAME / "data" / "main_data.hdf5"
    path.parent.mkdir(parents=True)
    with h5py.File(path, "w") as out:
        out["episode_0/observations/_index_0"] = [0, 1, 2]
        out["episode_0/observations/_index_1"] = np.zeros((3, 2), np.float32)
        out["episode_0/actions"], out["episode_0/rewards"] = [1, 0], [1.0, 1.0]
    found = read_minari(SOURCE, Layout.of(space))
    assert found["observation/0"].tolist() == [0, 1]
    assert found["observation/1"].shape == (2, 2)
    assert found["episode_start"].tolist() == [True, False]


def test_no_env_is_made_that_a_data_set_names(tmp_path: Path) -> None:
    """Minari makes it if the metadata say no spaces; here the metadata are not read at all."""
    data = written()
    metadata = json.loads((data.parent / "metadata.json").read_text())
    del metadata["observation_space"], metadata["action_space"]
    spec = json.loads(metadata["env_spec"]) | {"entry_point": "algo.planted_env:make", "id": "Planted-v0"}
    metadata |= {"env_spec": json.dumps(spec), "total_episodes": 10**12}
    (data.parent / "metadata.json").write_text(json.dumps(metadata))
    assert len(loaded().action) == sum(LENGTHS)


def test_arrays_above_the_limit_are_refused_before_they_are_read() -> None:
    """A file may say that it is larger than it is."""
    with h5py.File(written(), "a") as out:
        del out["episode_1/observations"]
        out["episode_1"].create_dataset("observations", (1 << 40, 4), np.float32, chunks=(1024, 4))
    assert file().stat().st_size < 1 << 20
    with pytest.raises(ConfigError, match=r"minari:here/pole-v0: 17,592,186,.* bytes of arrays, at most"):
        loaded()


def rewrite(data: Path, what: str) -> None:
    """Spoil a data set."""
    with h5py.File(data, "a") as out:
        episode = out["episode_1"]
        if what == "another space":
            for name in ("episode_0", "episode_1"):
                rows = len(out[name]["rewards"]) + 1
                del out[name]["observations"]
                out[name]["observations"] = np.zeros((rows, 3), np.float32)
        elif what == "too few":
            del episode["rewards"]
            episode["rewards"] = [1.0]
        elif what == "NaN":
            episode["observations"][0, 0] = np.nan
        elif what == "link":
            del episode["actions"]
            episode["actions"] = h5py.ExternalLink("/etc/passwd", "/")
        elif what == "external":
            (data.parent / "other.bin").write_bytes(bytes(16))
            del episode["actions"]
            other = [(str(data.parent / "other.bin"), 0, 16)]
            episode.create_dataset("actions", (2,), np.int64, external=other)
        elif what == "virtual":
            with h5py.File(data.parent / "other.h5", "w") as elsewhere:
                elsewhere["actions"] = np.zeros(2, np.int64)
            layout = h5py.VirtualLayout((2,), np.int64)
            layout[:] = h5py.VirtualSource(str(data.parent / "other.h5"), "actions", (2,))
            del episode["actions"]
            episode.create_virtual_dataset("actions", layout)
        elif what == "gap":
            out.move("episode_1", "episode_2")
        elif what == "text":
            del episode["actions"]
            episode["actions"] = ["a", "b"]
        elif what == "parts":
            del episode["actions"]
            episode["actions/left"] = [1, 0]
        elif what == "illegal":
            episode["actions"][0] = 7
        elif what == "empty":
            del out["episode_0"], out["episode_1"]


BAD = {
    "another space": r"rows of shape \(3,\), the env's have \(4,\)",
    "too few": r"episode 1 has 2 actions and reward of shape \(1,\)",
    "NaN": "is not finite in row 3",
    "link": "there is no episode_1/actions in it",
    "external": "episode_1/actions lies in another file",
    "virtual": "episode_1/actions lies in another file",
    "gap": "there is episode_2, but no episode_1",
    "text": "episode_1/actions has dtype object, which are no numbers",
    "parts": "episode_1/actions is of several parts",
    "illegal": r"the action 7 of row 3 is not in Discrete\(2\)",
    "empty": "there is no demonstration in it",
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_set_is_refused_before_anything_starts(what: str) -> None:
    rewrite(written(), what)
    with pytest.raises(ConfigError, match=BAD[what]):
        loaded()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no data set at .*here.pole-v0; `minari download here/pole-v0` gets one"):
        loaded()
    (tmp_path / NAME / "data").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"only data sets in Minari's HDF5 format are read"):
        loaded()
    file().write_text("text")
    with pytest.raises(ConfigError, match=r"cannot be read as Minari's HDF5"):
        loaded()


def test_without_h5py_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return original(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"needs Minari and h5py: pip install 'surefoot\[minari\]'"):
        read_minari(SOURCE, Layout.of(spaces.Discrete(2)))
