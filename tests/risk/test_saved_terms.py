"""What a checkpoint says of a risk term is refused where it makes no sense, before anything is learned with it."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from surefoot.errors import CheckpointError
from surefoot.store import Manifest, Snapshot
from surefoot.train.checkpoint import from_snapshot, to_snapshot
from surefoot.train.ppo import PPO

KINDS: dict[str, dict[str, Any]] = {
    "cvar": {"kind": "cvar_constraint", "alpha": 0.4, "limit_per_episode": 0.9},
    "cost": {"kind": "cost_constraint", "limit_per_episode": 0.3},
}
ODD: tuple[Any, ...] = ("x", {}, [[1.0]], True, 10**400, 1e300)
"""Wrong wherever a number, a list of numbers or a count is wanted."""
WRONG: list[tuple[str, str, Any]] = [
    *(
        ("cvar", path, odd)
        for path in ("shortfall/recent/recent", "shortfall/tail", "shortfall/steps_without_end")
        for odd in ODD
    ),
    *(
        ("cvar", path, odd)
        for path in ("multiplier/value", "multiplier/slope", "reachability/violations")
        for odd in ODD
    ),
    *(("cost", path, odd) for path in ("costs/total", "returns/length", "without_end") for odd in ODD),
    ("cvar", "shortfall/recent/moments", [-1.0, 0.0, 1.0]),
    ("cvar", "shortfall/recent/moments", [1.0, 0.0]),
    ("cvar", "shortfall/tail", [0.0, 1.0, 1.0]),
    ("cvar", "shortfall/next", ["x", 1.0, 1.0]),
    ("cvar", "shortfall/steps_without_end", -1),
    ("cvar", "multiplier/integral", -1.0),
    ("cvar", "multiplier", None),
    ("cvar", "reachability/said", "no"),
    ("cost", "costs/recent/recent", 0.0),
]


@pytest.fixture(scope="module")
def saved() -> dict[str, Snapshot]:
    found = {}
    for name, risk in KINDS.items():
        agent = PPO("surefoot/CostlyArm-v0", n_envs=4, n_steps=6, batch_size=24, compile=False, risk=risk).learn(72)
        found[name] = to_snapshot(agent.learner.state_dict(), agent.config, agent.envs)
        agent.close()
    return found


def restore(snapshot: Snapshot) -> PPO:
    return PPO.restore(from_snapshot(snapshot, cast(Manifest, _Exact)))


class _Exact:
    """All of a manifest that is read."""

    exact = True


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_is_taken(saved: dict[str, Snapshot], kind: str) -> None:
    assert restore(saved[kind]).num_timesteps == 72


@pytest.mark.parametrize(("kind", "path", "wrong"), WRONG)
def test_what_makes_no_sense_is_refused(saved: dict[str, Snapshot], kind: str, path: str, wrong: Any) -> None:
    values: dict[str, Any] = copy.deepcopy(dict(saved[kind].values))
    *parents, last = path.split("/")
    place = values["learner"]["risk"]
    for parent in parents:
        place = place[parent]
    assert last in place
    place[last] = wrong
    with pytest.raises(CheckpointError):
        restore(Snapshot(saved[kind].tensors, values))
