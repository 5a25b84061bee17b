"""Environments that give something of the wrong kind, in every place and at every moment.

Each case is healthy but for one thing. It must end in an error of ours that names the env and the step, before anything
is learned from it.
"""

from __future__ import annotations

import itertools
import random
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from faults.wrong_kinds import (
    ANSWERS,
    CODES,
    COSTS,
    FLAGS,
    INFOS,
    MASKS,
    OBSERVATIONS,
    PARTS,
    RAISED,
    REWARDS,
    SUCCESSES,
    Absent,
)
from surefoot import PPO
from surefoot.errors import SurefootError

Array = np.ndarray[Any, Any]
Moment = Literal["reset", "first", "middle", "last", "next reset"]
Carrier = Literal["single", "vector", "worker", "evaluation"]

LENGTH = 8
"""Steps of an episode; then it is truncated."""
STEPS: dict[Moment, int] = {"reset": 0, "first": 1, "middle": 4, "last": LENGTH, "next reset": LENGTH}
"""Steps that were made when the moment comes, the one that it is in included."""
RESETS: tuple[Moment, ...] = ("reset", "next reset")
IN_STEPS: tuple[Moment, ...] = ("first", "middle", "last")
ALWAYS: tuple[Moment, ...] = (*RESETS, *IN_STEPS)
WRONG = 1
"""The env that is at fault; env 0 is healthy."""
SETTINGS: dict[str, Any] = {
    "n_envs": 2,
    "n_steps": 2 * LENGTH,
    "batch_size": 2 * LENGTH,
    "n_epochs": 1,
    "compile": False,
    "policy": {"hidden_sizes": (4,)},
}
BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)


class Place(NamedTuple):
    """What can be wrong in one part of what an env gives."""

    kinds: dict[str, Any]
    moments: tuple[Moment, ...]
    space: spaces.Space[Any] = BOX
    carriers: tuple[Carrier, ...] = ("single", "vector", "evaluation")


LIMIT = {"risk": {"kind": "cost_constraint", "limit_per_episode": 1.0}}
PLACES: dict[str, Place] = {
    "observation": Place(OBSERVATIONS, ALWAYS),
    "code": Place(CODES, ALWAYS, spaces.Discrete(3)),
    "part": Place(PARTS, ALWAYS, spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)}), ("single",)),
    "reward": Place(REWARDS, IN_STEPS),
    "cost": Place(COSTS, IN_STEPS, carriers=("single", "vector")),
    "is_success": Place(SUCCESSES, ("last",)),
    "info": Place(INFOS, ALWAYS),
    "action_mask": Place(MASKS, ("reset", "first", "middle", "next reset")),
    "answer": Place(ANSWERS, ALWAYS),
    "exception": Place(RAISED, ALWAYS),
    "terminated": Place(FLAGS, IN_STEPS, carriers=("single", "evaluation")),
    "truncated": Place(FLAGS, IN_STEPS, carriers=("single", "evaluation")),
}
IN_WORKERS = {
    "observation": ("complex", "NaN", "longer", "refusing"),
    "reward": ("NaN", "text", "of one axis"),
    "cost": ("missing", "infinite"),
    "is_success": ("text",),
}
"""Of these a worker makes no new env: it would give the same again."""
FINE = {
    ("evaluation", "reward", "beyond float32"),  # rewards are added up in float64
}
"""What is no fault there."""


class Case(NamedTuple):
    """One fault of one env."""

    place: str
    kind: str
    moment: Moment
    carrier: Carrier

    @property
    def value(self) -> Any:
        """What is given."""
        return PLACES[self.place].kinds[self.kind]

    def __str__(self) -> str:
        return f"{self.carrier}: {self.place} {self.kind}, {self.moment}"


def cases() -> list[Case]:
    """All of them."""
    return list(_cases())


def _cases() -> Iterator[Case]:
    for name, place in PLACES.items():
        for kind, moment, carrier in itertools.product(place.kinds, place.moments, place.carriers):
            unseen = carrier == "evaluation" and moment in ("last", "next reset") and name != "is_success"
            unmasked = kind == "missing" and moment == "reset"  # then the env has no masks, which is not of a step
            if not (unseen or unmasked or (carrier, name, kind) in FINE):
                yield Case(name, kind, moment, carrier)
    for name, kinds in IN_WORKERS.items():
        for kind in kinds:
            yield Case(name, kind, "last" if name == "is_success" else "middle", "worker")


class Faulty(gymnasium.Env[Any, Any]):
    """Gives something wrong at one moment, if it has the number of the wrong one; episodes of the other are shorter."""

    def __init__(self, case: Case, number: int = WRONG) -> None:
        self.observation_space, self.action_space = PLACES[case.place].space, spaces.Discrete(2)
        self._case, self._wrong = case, number == WRONG
        self._length = LENGTH if self._wrong else LENGTH - 5
        self._steps = self._made = self._resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._steps = 0
        self._resets += 1
        moment: Moment = "reset" if self._resets == 1 else "next reset"
        due = moment == self._case.moment and self._resets <= 2
        return self._spoiled((self._observe(), self._info()), ("observation", "info"), due)

    def step(self, action: Any) -> Any:
        self._steps += 1
        self._made += 1
        given = (self._observe(), 0.5, False, self._steps >= self._length, self._info())
        due = self._case.moment in IN_STEPS and self._made == STEPS[self._case.moment]
        return self._spoiled(given, ("observation", "reward", "terminated", "truncated", "info"), due)

    def _spoiled(self, given: tuple[Any, ...], names: tuple[str, ...], due: bool) -> Any:
        place, value = self._case.place, self._case.value
        if not (due and self._wrong):
            return given
        if place == "exception":
            raise value
        if place == "answer":
            return value
        if place in ("cost", "is_success", "action_mask"):
            info = given[-1]
            info.pop(place, None)
            return (*given[:-1], info if value is Absent else info | {place: value})
        name = "observation" if place in ("code", "part") else place
        return tuple(value if each == name else part for each, part in zip(names, given, strict=True))

    def _observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()

    def _info(self) -> dict[str, Any]:
        masked = self._case.place == "action_mask"
        return {"cost": 0.5} | ({"action_mask": np.ones(2, np.bool_)} if masked else {})


class FaultyVector(VectorEnv[Any, Any, Any]):
    """The same of arrays: resets itself in the same step, and gives the last observation in its info."""

    def __init__(self, case: Case) -> None:
        space = PLACES[case.place].space
        self.num_envs, self.metadata = 2, {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space, self.single_action_space = space, spaces.Discrete(2)
        self.observation_space, self.action_space = batch_space(space, 2), batch_space(self.single_action_space, 2)
        self._case, self._steps = case, 0
        self._healthy = np.ones(2, np.int64) if isinstance(space, spaces.Discrete) else np.full((2, 3), 0.5, np.float32)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        self._steps = 0
        given = (self._healthy.copy(), self._info())
        return self._spoiled(given, ("observation", "info"), self._case.moment == "reset")

    def step(self, actions: Any) -> Any:
        self._steps += 1
        ends = self._steps % LENGTH == 0
        moment = self._case.moment
        due = self._steps == STEPS[moment] and moment != "reset"
        info = self._info()
        observed = self._case.place in ("observation", "code")
        if ends:
            spoiled = due and moment == "last" and observed
            info["final_obs"] = self._batch() if spoiled else self._healthy.copy()
        given = (self._healthy.copy(), np.full(2, 0.5), np.zeros(2, np.bool_), np.full(2, ends), info)
        names = ("observation", "reward", "terminated", "truncated", "info")
        return self._spoiled(given, names, due and not (moment == "last" and observed))

    def _spoiled(self, given: tuple[Any, ...], names: tuple[str, ...], due: bool) -> Any:
        place, value = self._case.place, self._case.value
        if not due:
            return given
        if place == "exception":
            raise value
        if place == "answer":
            return value
        if place in ("cost", "is_success", "action_mask"):
            return (*given[:-1], given[-1] | self._told(place, value))
        if place == "info":
            return (*given[:-1], value)
        name = "observation" if place == "code" else place
        return tuple(self._batch() if each == name else part for each, part in zip(names, given, strict=True))

    def _info(self) -> dict[str, Any]:
        everyone = np.ones(2, np.bool_)
        masks = {"action_mask": np.ones((2, 2), np.bool_), "_action_mask": everyone}
        return {"cost": np.full(2, 0.5), "_cost": everyone} | (masks if self._case.place == "action_mask" else {})

    def _told(self, key: str, value: Any) -> dict[str, Any]:
        """The infos of all envs about one thing: objects, and who has it."""
        rows = np.empty(2, object)
        rows[0], rows[WRONG] = self._info()[key][0] if key in self._info() else True, value
        return {key: rows, f"_{key}": np.array([True, value is not Absent])}

    def _batch(self) -> Any:
        """Two rows, the second wrong; or something wrong in the place of all rows, where they cannot be two."""
        value = self._case.value
        healthy = np.float64(0.5) if self._case.place == "reward" else self._healthy[0]
        if torch.is_tensor(value):
            return torch.stack([value, value])
        if isinstance(value, np.ndarray | np.generic | float | int | complex) and np.ndim(value) == np.ndim(healthy):
            return [healthy, value] if isinstance(value, int) else np.stack([_like(value, healthy), value])
        return value


def _like(value: Any, healthy: Any) -> Any:
    """The healthy one if both can stand in one array, else the wrong one."""
    numbers = np.shape(value) == np.shape(healthy) and np.asarray(value).dtype.kind in "iuf"
    return healthy if numbers else value


class Met(NamedTuple):
    """What came of a case."""

    outcome: Literal["named", "accepted", "foreign", "unnamed", "not finite", "learned"]
    said: str


def faulty_envs(n: int | None = None, seed: int = 0) -> dict[str, Any]:
    """All cases, or ``n`` of them at random."""
    every = cases()
    chosen = every if n is None else random.Random(seed).sample([x for x in every if x.carrier != "worker"], n)
    outcomes: Counter[str] = Counter()
    problems = []
    for case in chosen:
        outcome, said = met(case)
        outcomes[outcome] += 1
        if outcome != "named":
            problems.append(f"{case}: {outcome}: {said}")
    return {
        "cases": len(chosen),
        "named": outcomes["named"],
        "accepted": outcomes["accepted"],
        "foreign_errors": outcomes["foreign"],
        "unnamed": outcomes["unnamed"],
        "weights_not_finite": outcomes["not finite"],
        "weights_moved": outcomes["learned"],
        "by": dict(Counter(case.carrier for case in chosen)),
        "problems": problems,
    }


def met(case: Case) -> Met:
    """Train or evaluate on a faulty env."""
    settings = SETTINGS | (LIMIT if case.place == "cost" else {}) | {"workers": int(case.carrier == "worker")}
    made = itertools.count()
    make: Callable[[], Any] = partial(_make, case, made)
    env: Any = FaultyVector(case) if case.carrier == "vector" else make
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with closing(PPO(env, **settings)) as agent:
            before = agent.learner.flat.values.detach().clone()
            said = _failure(agent, case)
            weights = agent.learner.flat.values.detach()
            if not weights.isfinite().all():
                return Met("not finite", said)
            if not weights.equal(before):
                return Met("learned", said)
    if not said:
        return Met("accepted", "no error")
    if said.startswith("foreign "):
        return Met("foreign", said.removeprefix("foreign "))
    return Met("named" if names(case, said) else "unnamed", said)


def _make(case: Case, made: Iterator[int]) -> Faulty:
    return Faulty(case, next(made) % 2)


def _failure(agent: PPO, case: Case) -> str:
    """What is said of the fault; nothing if there was no error."""
    try:
        if case.carrier == "evaluation":
            agent.evaluate(2)
        else:
            agent.learn(2 * 2 * LENGTH)
    except SurefootError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        return f"foreign {type(error).__name__}: {str(error)[:100]}"
    return ""


def names(case: Case, said: str) -> bool:
    """Whether an error says which env it was and when."""
    whose = rf"\benv {WRONG}\b" + ("|the vector env FaultyVector" if case.carrier == "vector" else "")
    if re.search(whose, said) is None:
        return False
    if case.moment in RESETS and re.search(r"\breset\b", said):
        return True
    counted = {int(number) for number in re.findall(r"\bstep (\d+)", said)}
    return bool(counted & {max(STEPS[case.moment] - 1, 0), STEPS[case.moment]})  # counted from 0 or from 1
