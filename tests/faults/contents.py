"""Sealed checkpoints with wicked contents: every digest is right, what is inside is not.

Good small agents are saved, one thing in them is changed, and they are sealed anew. Each is loaded and asked for an
action in a process of its own kind: refused with an error of ours, or acting finitely, is all that may come of it.
"""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import math
import os
import random
import re
import resource
import select
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from faults.samples import FIND_FAULTS, VERSIONS, workspace
from surefoot.store import Snapshot, write_checkpoint

ALLOWANCE_BYTES = 64 << 20
"""Memory beyond that of a good load and twice the file."""
ROOM_BYTES = 3 << 30
"""Address space that a case may take before it is denied, so that no case harms the machine."""
SLOW_SECONDS = 5.0
"""Of processor time."""
HANG_SECONDS = 40.0
START_SECONDS = 120.0
CANARY = "SUREFOOT_CANARY"
"""Names the file that a case makes if it runs a command."""

_LIBC = ctypes.CDLL(None)
OWN = "policy|optimizer|observations|rewards"
"""Sections of tensors that are the agent itself; others may be replaced by new episodes."""
Values = dict[str, Any]
Tensors = dict[str, np.ndarray[Any, Any]]
Change = Callable[[Values, Tensors], None]
Path_ = tuple[str | int, ...]


class Case(NamedTuple):
    """One change of one good agent."""

    name: str
    agent: str
    change: Change

    @property
    def must_be_refused(self) -> bool:
        """Whether it takes something away that the agent consists of, or makes it other than the configuration says."""
        changed = rf" tensor ({OWN})/\S* (as |of \w+ shape|of -?(nan|inf)$|with one nan)"
        return re.search(rf"{changed}|without tensor ({OWN})/", self.name) is not None


SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 8, "batch_size": 16, "n_epochs": 2, "compile": False}
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "numbers": (
        "Pendulum-v1",
        {
            "policy": {"hidden_sizes": (8,)},
            "critic": {"kind": "quantile", "n_quantiles": 8, "twin": "heads", "popart": True},
            "risk": {"kind": "cvar_constraint", "alpha": 0.25, "limit_per_episode": -900.0},
            "normalize_observations": True,
            "normalize_rewards": True,
            "ent_coef": "decay(0.01, 0.001, 4, 4)",
        },
    ),
    "memory": (
        "surefoot/Greenhouse-v0",
        {"policy": {"hidden_sizes": (8,)}, "memory": {"kind": "lstm", "hidden_size": 8}, "adaptive_lr_kl": 0.01},
    ),
}

JUNK = {"a": [{"b": None}, [[[]]], "\x00"], "array": "AAAA", "dtype": "O"}
VALUES: dict[str, Any] = {
    "null": None,
    "text": "x" * 40,
    "list": [1, "a", None],
    "junk": JUNK,
    "huge": 10**30,
    "negative": -5,
    "nan": math.nan,
    "inf": math.inf,
    "true": True,
}
"""What is put in the place of a value."""
BOMBS: dict[str, dict[str, Any]] = {
    "hidden_sizes of 30000": {"policy.hidden_sizes": [30_000]},
    "hidden_sizes of two 30000": {"policy.hidden_sizes": [30_000, 30_000]},
    "hidden_sizes of 10**9": {"policy.hidden_sizes": [10**9]},
    "10000 hidden layers": {"policy.hidden_sizes": [8] * 10_000},
    "n_steps of 10**9": {"ppo.n_steps": 10**9, "ppo.batch_size": 10**9},
    "n_steps of 10**7": {"ppo.n_steps": 10**7},
    "n_envs of 10**9": {"n_envs": 10**9},
    "n_envs of 10**5": {"n_envs": 10**5},
    "batch_size of 10**18": {"ppo.batch_size": 10**18},
    "n_epochs of 10**12": {"ppo.n_epochs": 10**12},
    "n_quantiles of 10**7": {"critic.kind": "quantile", "critic.n_quantiles": 10**7},
    "n_quantiles of 10**9": {"critic.kind": "quantile", "critic.n_quantiles": 10**9},
    "n_atoms of 10**7": {"critic.kind": "categorical", "critic.n_atoms": 10**7, "risk.kind": "none"},
    "memory of 10**5": {"memory.kind": "lstm", "memory.hidden_size": 10**5},
    "memory of 10**4 layers": {"memory.kind": "lstm", "memory.layers": 10**4},
    "memory of 10**6 layers": {"memory.kind": "gru", "memory.layers": 10**6},
    "outputs of memory of 30000": {"memory.kind": "gru", "memory.output_sizes": [30_000, 30_000]},
    "max_length of 10**12": {"memory.kind": "lstm", "memory.max_length": 10**12},
    "channels of 10**6": {"policy.cnn_channels": [10**6]},
    "threads of 10**6": {"threads": 10**6},
    "workers of 10**6": {"workers": 10**6, "n_envs": 10**6},
    "seed of 10**40": {"seed": 10**40},
    "total_timesteps of 10**40": {"total_timesteps": 10**40},
    "a long env id": {"env": "x" * 100_000},
    "another env": {"env": "CartPole-v1"},
    "a wrong env id": {"env": "Nothing-v99"},
    "many env_kwargs": {"env_kwargs": {f"k{i}": i for i in range(10_000)}},
    "deep env_kwargs": {"env_kwargs": {"a": json.loads("[" * 50 + "]" * 50)}},
    "a long learning rate": {"ppo.learning_rate": "linear(" + "1" * 2000 + ", 0)"},
    "a learning rate of parentheses": {"ppo.learning_rate": "(" * 1000},
    "unknown settings": {"ppo.unknown": 1, "unknown": {"a": 1}},
    "a command for an env": {"env": "os:system", "env_kwargs": {"command": f"touch ${CANARY}"}},
    "a program for an env": {"env": "subprocess:run", "env_kwargs": {"args": f"touch ${CANARY}", "shell": True}},
    "a device": {"device": "meta"},
    "another device": {"device": "cuda:99"},
    "adaptive rate": {"learner.plan.adapted_rate": 1e300},
    "many episodes": {"learner.collector.episodes.recent": [[0, 1.0, 1, 0.0, None]] * 30_000},
    "episodes of texts": {"learner.collector.episodes.recent": [["a", "b", "c", "d", "e"]]},
    "envs that are many": {
        "learner.collector.active": [True] * 50_000,
        "learner.collector.episode_start": [True] * 50_000,
    },
    "envs of other states": {"learner.collector.envs": [[0, {"own": JUNK}, None], [0, {"said": JUNK}, None]]},
    "states of huge arrays": {
        "learner.collector.envs": [[0, {"said": {"array": [0], "dtype": "U900000000", "shape": [10**12]}}, None]] * 2
    },
    "a plan of long history": {"learner.plan.entropy.history": [0.5] * 50_000},
    "steps of 10**18": {
        "learner.timesteps": 10**18,
        "learner.updates": 10**18,
        "learner.collector.vector_steps": 10**18,
    },
}
"""Settings and values that ask for a lot, by dotted name (of the configuration unless it begins with ``learner``)."""


def cases() -> list[Case]:
    """All changes, always in the same order."""
    found: list[Case] = []
    with workspace() as place:
        for agent in AGENTS:
            good = save_good(place, agent)
            for path, value in _paths(dict(good.values)):
                if path[0] == "config" and agent != "numbers":
                    continue  # configurations are of one form
                found += [Case(f"{agent}: {name}", agent, change) for name, change in _value_changes(path, value)]
            for tensor, array in good.tensors.items():
                found += [Case(f"{agent}: {name}", agent, change) for name, change in _tensor_changes(tensor, array)]
            found += [Case(f"{agent}: {name}", agent, partial(_settings, given)) for name, given in BOMBS.items()]
            found += [Case(f"{agent}: {name}", agent, change) for name, change in _whole_changes()]
    return found


def save_good(place: Path, agent: str) -> Snapshot:
    """What a good agent is saved as."""
    from surefoot import PPO
    from surefoot.store import read_checkpoint

    env, settings = AGENTS[agent]
    made = PPO(env, **(SMALL | settings)).learn(64)
    return read_checkpoint(made.save(place / agent))[0]


def _paths(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every place in JSON values; of a list the first item stands for all."""
    if path:
        yield path, value
    items: Any = value.items() if isinstance(value, dict) else list(enumerate(value))[:1] if type(value) is list else ()
    for key, part in items:
        yield from _paths(part, (*path, key))


def _value_changes(path: Path_, value: Any) -> Iterator[tuple[str, Change]]:
    name = ".".join(map(str, path))
    yield f"without {name}", partial(_remove, path)
    config = path[0] == "config"
    for kind, other in VALUES.items():
        if other != value and not (config and kind in ("list", "inf", "true")):  # there are many settings
            yield f"{name} {kind}", partial(_put, path, other)
    if type(value) is list:
        yield f"{name} empty", partial(_put, path, [])
        yield f"{name} longer", partial(_put, path, [*value, *value, *value, 0])
    if isinstance(value, dict):
        yield f"{name} with more", partial(_put, path, {**value, "more": JUNK})


def _tensor_changes(name: str, array: np.ndarray[Any, Any]) -> Iterator[tuple[str, Change]]:
    yield f"without tensor {name}", partial(_remove_tensor, name)
    for shape, other in {"longer": (*array.shape, 2), "empty": (0, *array.shape), "other": (3, 1, 7)}.items():
        yield f"tensor {name} of {shape} shape", partial(_put_tensor, name, np.zeros(other, array.dtype))
    for dtype in (np.float64, np.int64, np.uint8, np.bool_):
        if dtype != array.dtype:
            yield f"tensor {name} as {np.dtype(dtype)}", partial(_put_tensor, name, np.zeros(array.shape, dtype))
    if array.dtype.kind == "f":
        for value in (math.nan, math.inf, -math.inf, float(np.finfo(array.dtype).max), -1.0):
            yield f"tensor {name} of {value:g}", partial(_fill, name, value, everywhere=True)
        yield f"tensor {name} with one nan", partial(_fill, name, math.nan, everywhere=False)
    else:
        for value in (0, 255 if array.dtype == np.uint8 else -1, 1):
            yield f"tensor {name} of {value}", partial(_fill, name, value, everywhere=True)


def _whole_changes() -> Iterator[tuple[str, Change]]:
    extra: Tensors = {
        "more": np.zeros(3, np.float32),
        "policy/more.weight": np.zeros((2, 2), np.float32),
        "collector/pending/more": np.zeros((2, 2), np.float32),
        "generator/more": np.zeros(5056, np.uint8),
        "optimizer/more": np.full(3, np.nan),
        "many dimensions": np.zeros((1,) * 32, np.float32),
        "huge and empty": np.zeros((0, 1 << 40), np.uint8),
    }
    for name, array in extra.items():
        yield f"more tensors: {name}", partial(_put_tensor, name, array)
    yield "no tensors", lambda values, tensors: tensors.clear()
    yield "no values", lambda values, tensors: values.clear()
    for section in ("policy/", "optimizer/", "generator/", "collector/"):
        yield f"no {section}", partial(_remove_section, section)


def _remove(path: Path_, values: Values, tensors: Tensors) -> None:
    del _holder(path, values)[path[-1]]


def _put(path: Path_, value: Any, values: Values, tensors: Tensors) -> None:
    _holder(path, values)[path[-1]] = copy.deepcopy(value)


def _holder(path: Path_, values: Any) -> Any:
    for key in path[:-1]:
        values = values[key]
    return values


def _remove_tensor(name: str, values: Values, tensors: Tensors) -> None:
    del tensors[name]


def _put_tensor(name: str, array: np.ndarray[Any, Any], values: Values, tensors: Tensors) -> None:
    tensors[name] = array


def _fill(name: str, value: float, values: Values, tensors: Tensors, *, everywhere: bool) -> None:
    array = tensors[name].copy()
    array.reshape(-1)[: None if everywhere else 1] = value
    tensors[name] = array


def _remove_section(section: str, values: Values, tensors: Tensors) -> None:
    for name in [name for name in tensors if name.startswith(section)]:
        del tensors[name]


def _settings(given: dict[str, Any], values: Values, tensors: Tensors) -> None:
    for name, value in given.items():
        parts: list[str] = name.split(".")
        path = tuple(parts if parts[0] == "learner" else ["config", *parts])
        _put(path, value, values, tensors)


def wicked_contents(n: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Load all cases, or ``n`` of them at random; figures of what came of them."""
    found = cases()
    every = range(len(found))
    chosen = list(every) if n is None else sorted(random.Random(seed).sample(every, n))
    with workspace() as place:
        os.environ[CANARY] = str(place / "canary")
        results, failures = _results(chosen), []
        executed = (place / "canary").exists()
    outcomes: Counter[str] = Counter()
    foreign: Counter[str] = Counter()
    for index in chosen:
        result = results[index]
        outcome = str(result["outcome"])
        if outcome == "acts" and found[index].must_be_refused:
            outcome = "accepted"
        outcomes[outcome.partition(":")[0]] += 1
        if outcome.startswith("foreign"):
            foreign[outcome.split(":")[1].strip()] += 1
        if outcome not in ("refused", "acts") or result["over_memory"] or result["slow"]:
            failures.append(f"{found[index].name}: {outcome}, {result['megabytes']:.0f} MB, {result['seconds']:.1f} s")
    return {
        "files": len(chosen),
        "refused": outcomes["refused"],
        "acts": outcomes["acts"],
        "wrongly_accepted": outcomes["accepted"],
        "foreign_errors": outcomes["foreign"],
        "not_finite": outcomes["not finite"],
        "hangs_and_crashes": outcomes["lost"],
        "executions": int(executed),
        "over_memory": sum(bool(results[index]["over_memory"]) for index in chosen),
        "slow": sum(bool(results[index]["slow"]) for index in chosen),
        "worst_megabytes": round(max(float(results[index]["megabytes"]) for index in chosen), 1),
        "foreign": dict(foreign.most_common()),
        "failures": failures,
    }


def _results(chosen: list[int]) -> dict[int, dict[str, Any]]:
    """What came of the chosen cases. One that hangs or ends its process is lost, and the next has a new one."""
    results: dict[int, dict[str, Any]] = {}
    while left := [index for index in chosen if index not in results]:
        code = f"{FIND_FAULTS}import faults.contents as suite; suite.main({left})"
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            seconds = START_SECONDS
            while select.select([process.stdout], [], [], seconds)[0] and (line := process.stdout.readline()):
                seconds = HANG_SECONDS
                if line.strip() != b"ready":
                    result = json.loads(line)
                    results[result.pop("index")] = result
            process.kill()
        lost = next((index for index in left if index not in results), None)
        if lost is not None:
            if seconds == START_SECONDS:
                raise RuntimeError(f"the process of the wicked checkpoints did not start (exit {process.returncode})")
            results[lost] = {"outcome": "lost", "over_memory": False, "slow": True, "megabytes": 0.0, "seconds": 99.0}
    return results


def main(chosen: list[int]) -> None:
    """Load the chosen cases one after the other; one line of JSON for each, for `wicked_contents`."""
    warnings.simplefilter("ignore")
    found = cases()
    with workspace() as place:
        good = {agent: save_good(place, agent) for agent in AGENTS}
        usual = max(_measured(_sealed(place / "good", good[agent]), agent)[1] for agent in [*AGENTS] * 3)
        limit = _status("VmSize") + ROOM_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        print("ready", flush=True)
        for index in chosen:
            case = found[index]
            values, tensors = copy.deepcopy(dict(good[case.agent].values)), dict(good[case.agent].tensors)
            case.change(values, tensors)
            path = _sealed(place / "wicked", Snapshot(tensors, values))
            size = sum(file.stat().st_size for file in path.iterdir())
            outcome, peak, seconds = _measured(path, case.agent)
            memory = peak - usual - 2 * size
            figures = {"over_memory": memory > ALLOWANCE_BYTES, "slow": seconds > SLOW_SECONDS}
            line = {"index": index, "outcome": outcome, "megabytes": memory / 2**20, "seconds": seconds} | figures
            print(json.dumps(line), flush=True)


def _measured(path: Path, agent: str) -> tuple[str, int, float]:
    """What came of loading, the memory that it took at most, and its processor time."""
    gc.collect()
    _LIBC.malloc_trim(0)  # what is kept from earlier cases would hide what this one takes
    before = _reset_peak()
    began = time.process_time()
    outcome = _outcome(path, agent)
    return outcome, _status("VmHWM") - before, time.process_time() - began


def _sealed(directory: Path, snapshot: Snapshot) -> Path:
    return write_checkpoint(directory, snapshot, exact=True, config_hash="0" * 16, versions=VERSIONS)


def _outcome(path: Path, agent: str) -> str:
    from surefoot import PPO
    from surefoot.errors import SurefootError

    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS - 5)
    try:
        loaded = PPO.load(path)
        shape = (3,) if agent == "numbers" else loaded.envs.observation_space.shape or ()
        answers = [loaded.predict(np.zeros(shape, np.float32), deterministic=given)[0] for given in (True, False)]
        loaded.close()
    except SurefootError:
        return "refused"
    except _TookTooLong:
        return "lost"
    except Exception as error:
        return f"foreign: {type(error).__name__}: {str(error)[:100]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "acts" if all(_finite(answer) for answer in answers) else "not finite"


class _TookTooLong(BaseException):
    pass


def _give_up(number: int, frame: object) -> None:
    raise _TookTooLong


def _finite(answer: Any) -> bool:
    parts = answer.values() if isinstance(answer, dict) else answer if isinstance(answer, tuple) else [answer]
    return all(bool(np.isfinite(np.asarray(part, np.float64)).all()) for part in parts)


def _reset_peak() -> int:
    """Set the peak of this process back to what it uses now, and return that (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")


if __name__ == "__main__":
    os.nice(10)
    print(json.dumps(wicked_contents(), indent=1))
