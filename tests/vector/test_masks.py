"""Masks reach the policy from wherever an environment says them, and the update sees the same ones (F01, F05)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from algo.building import learner_on
from surefoot.actions.heads import HeadSpec
from surefoot.algo.learner import Learner
from surefoot.errors import ConfigError, EnvError
from surefoot.vector.group import EnvGroup
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.interface import Envs
from surefoot.workers.envs import WorkerEnvs
from surefoot.worlds import Greenhouse

Array = np.ndarray[Any, Any]
Source = Literal["method", "info", "observation", "observation by head"]
N = 3
LENGTH = 5


class Gates(gymnasium.Env[Any, Any]):
    """Four gates; which are open depends on the clock and on the env's number. A closed gate raises.

    After the last step of an episode every gate is closed.
    """

    def __init__(self, number: int = 0, source: Source = "method") -> None:
        self._number, self._source = number, source
        self._clock = 0
        self.action_space = spaces.Discrete(4)
        clock = spaces.Box(0.0, 100.0, (1,), np.float32)
        parts: dict[str, spaces.Space[Any]] = {"clock": clock}
        if source == "observation":
            parts["action_mask"] = spaces.MultiBinary(4)
        if source == "observation by head":
            parts["action_mask"] = spaces.Dict({"action": spaces.Box(0, 1, (4,), np.int8)})
        self.observation_space = spaces.Dict(parts) if source.startswith("observation") else clock
        if source == "method":
            self.action_masks = self._open

    def _open(self) -> Array:
        return open_gates(self._number, self._clock)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._clock = 0
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._open()[action]:
            raise ValueError(f"gate {action} is closed")
        self._clock += 1
        return self._observe(), 1.0, False, self._clock >= LENGTH, self._info()

    def _observe(self) -> Any:
        clock = np.array([self._clock], np.float32)
        if self._source == "observation":
            return {"clock": clock, "action_mask": self._open().astype(np.int8)}
        if self._source == "observation by head":
            return {"clock": clock, "action_mask": {"action": self._open().astype(np.int8)}}
        return clock

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._open().astype(np.int8)} if self._source == "info" else {}

    def state_dict(self) -> dict[str, Any]:
        return {"clock": self._clock}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._clock = state["clock"]


def open_gates(number: int, clock: int) -> Array:
    return np.array([clock < LENGTH and (clock + gate + number) % 3 == 0 for gate in range(4)])


class GatesVector(VectorEnv[Any, Any, Any]):
    """The same, all envs in one: one call says all masks."""

    def __init__(self) -> None:
        self.num_envs = N
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.envs = [Gates(n) for n in range(N)]
        self.single_observation_space = self.envs[0].observation_space
        self.observation_space = batch_space(self.single_observation_space, N)
        self.single_action_space = self.envs[0].action_space
        self.action_space = batch_space(self.single_action_space, N)
        self.calls = 0
        self._ended = np.zeros(N, bool)

    def action_masks(self) -> Array:
        self.calls += 1
        return np.stack([env.action_masks() for env in self.envs])

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self._ended[:] = False
        return np.stack([env.reset()[0] for env in self.envs]), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        rows = [
            (env.reset()[0], 0.0, False, False) if self._ended[i] else env.step(actions[i])[:4]
            for i, env in enumerate(self.envs)
        ]
        observation, reward, terminated, truncated = (np.array(column) for column in zip(*rows, strict=True))
        self._ended = truncated
        return observation, reward, terminated, truncated, {}


MODES = {"next": AutoresetMode.NEXT_STEP, "same": AutoresetMode.SAME_STEP, "disabled": AutoresetMode.DISABLED}
SOURCES: tuple[Source, ...] = ("method", "info", "observation", "observation by head")


def group(source: Source) -> Envs:
    return EnvGroup([Gates(n, source) for n in range(N)])


def wrapped(source: Source) -> Envs:
    return EnvGroup([gymnasium.wrappers.TimeLimit(Gates(n, source), 100) for n in range(N)])


def vector(mode: str, source: Source) -> Envs:
    return VectorEnvs(SyncVectorEnv([partial(Gates, n, source) for n in range(N)], autoreset_mode=MODES[mode]))


def wrapped_vector(source: Source) -> Envs:
    return VectorEnvs(VectorWrapper(SyncVectorEnv([partial(Gates, n, source) for n in range(N)])))


def asynchronous(source: Source) -> Envs:
    return VectorEnvs(AsyncVectorEnv([partial(Gates, n, source) for n in range(N)]))


def workers(source: Source) -> Envs:
    return WorkerEnvs(partial(Gates, 0, source), N, 2)


MAKERS: dict[str, Callable[[Source], Envs]] = {
    "group": group,
    "wrapped": wrapped,
    **{f"vector {mode}": partial(vector, mode) for mode in MODES},
    "wrapped vector": wrapped_vector,
    "asynchronous": asynchronous,
    "workers": workers,
}


@pytest.fixture
def envs(request: pytest.FixtureRequest) -> Iterator[Envs]:
    made: Envs = request.param()
    yield made
    made.close()


EVERYTHING = [
    pytest.param(partial(make, source), id=f"{name}, {source}")
    for name, make in MAKERS.items()
    for source in SOURCES
    if name not in ("asynchronous", "workers") or source in ("method", "info")  # what is observed takes no other way
] + [pytest.param(lambda: VectorEnvs(GatesVector()), id="own vector env")]


@pytest.mark.parametrize("envs", EVERYTHING, indirect=True)
def test_no_closed_gate_is_ever_tried_and_the_update_sees_the_same_masks(envs: Envs) -> None:
    learner = learner_on(envs, n_steps=32, batch_size=96)
    rollout = learner.collect()
    assert rollout.mask is not None
    assert rollout.mask.shape == (32, N, 4)
    number = 0 if isinstance(envs, WorkerEnvs) else None
    for t in range(32):
        for i in range(N):
            if rollout.valid[t, i]:
                clock = int(rollout.observation["clock" if "clock" in rollout.observation else "obs"][t, i])
                expected = open_gates(i if number is None else number, clock)
                assert rollout.mask[t, i].tolist() == expected.tolist()
    record = learner.learn(rollout, 10).update
    assert record.log_ratio_first < 1e-5
    learner.learn(learner.collect(), 10)


def n_features(learner: Learner) -> int:
    return int(learner.flat.named()["encoder.trunk.layers.0.weight"].shape[1])


@pytest.mark.parametrize("source", SOURCES)
def test_what_holds_the_mask_is_no_feature(source: Source) -> None:
    learner = learner_on(group(source), n_steps=8, batch_size=24, normalize_observations=True)
    rollout = learner.collect()
    assert len(rollout.observation) == 1
    assert n_features(learner) == 1


def test_one_call_serves_all_envs() -> None:
    env = GatesVector()
    learner = learner_on(VectorEnvs(env), n_steps=8, batch_size=24)
    learner.collect()
    assert env.calls == 9


@pytest.mark.parametrize("source", SOURCES)
def test_a_continued_run_has_its_masks(source: Source) -> None:
    """The pending mask is part of what is saved, also if only the last info told it."""
    one = learner_on(group(source), n_steps=7, batch_size=21)
    one.learn(one.collect(), 10)
    state = one.state_dict()
    assert state.exact
    expected = one.learn(one.collect(), 10).update
    other = learner_on(group(source), n_steps=7, batch_size=21)
    other.load_state_dict(state)
    assert other.learn(other.collect(), 10).update == expected
    assert other.flat.values.equal(one.flat.values)


def test_an_env_may_change_its_mask_after_it_was_given() -> None:
    """What was given is copied at once: nothing that the env does later can change what the update sees."""

    class Reusing(Gates):
        def __init__(self) -> None:
            super().__init__()
            self._buffer = np.zeros(4, bool)
            self.action_masks = self._reused

        def _reused(self) -> Array:
            self._buffer[:] = self._open()
            return self._buffer

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            found = super().step(action)
            self._buffer[:] = True
            return found

    learner = learner_on(EnvGroup([Reusing()]), n_steps=8, batch_size=8)
    rollout = learner.collect()
    assert rollout.mask is not None
    assert [row.tolist() for row in rollout.mask[:, 0]] == [open_gates(0, t % LENGTH).tolist() for t in range(8)]
    assert learner.learn(rollout, 10).update.log_ratio_first < 1e-5


@pytest.mark.parametrize("memory", ["none", "lstm"])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("change", ["forbids the action", "allows more"])
def test_a_mask_that_changes_between_rollout_and_update_is_named(memory: str, flat: bool, change: str) -> None:
    """In the first step nothing is planted, so that there is something to allow."""
    envs = EnvGroup([Greenhouse(flat=flat) for _ in range(2)])
    learner = learner_on(envs, n_steps=16, batch_size=32, memory={"kind": memory})
    rollout = learner.collect()
    assert rollout.mask is not None
    mask = rollout.mask[0, 1]
    if change == "allows more":
        mask[:] = True
    else:
        mask[int(rollout.action[0, 1] if flat else rollout.action[0, 1, 0])] = False
    before = learner.flat.values.clone()
    with pytest.raises(EnvError, match="mask of env 1 at step 0 is not the one under which its action was drawn"):
        learner.learn(rollout, 10)
    assert torch.equal(learner.flat.values, before)


def test_evaluation_and_prediction_obey_masks() -> None:
    from surefoot import PPO

    for source in SOURCES:
        agent = PPO(partial(Gates, 0, source), n_envs=2, n_steps=8, batch_size=16, compile=False)
        agent.learn(32)
        assert agent.evaluate(3, deterministic=False).mean == LENGTH
        env = Gates(0, source)
        observation, _ = env.reset()
        masks = None if source.startswith("observation") else open_gates(0, 0)
        for _ in range(20):
            action, _ = agent.predict(observation, action_masks=masks)
            assert open_gates(0, 0)[action]


class Told(gymnasium.Env[Any, Any]):
    """Gives whatever mask it is told to, as its method."""

    def __init__(self, space: spaces.Space[Any], mask: Callable[[int], Any], heads: Any = None) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = space
        self.action_heads = heads
        self._mask, self._clock = mask, 0

    def action_masks(self) -> Any:
        return self._mask(self._clock)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._clock += 1
        return np.zeros(1, np.float32), 0.0, False, False, {}


FOUR = spaces.Discrete(4)
PAIR = spaces.MultiDiscrete([2, 3])
HEADS = (HeadSpec("op", ("GO", "STAY")), HeadSpec("way", 3, relevant_when={"op": "GO"}))
WRONG: dict[str, tuple[spaces.Space[Any], Any, Any, str]] = {
    "too short": (FOUR, None, [True] * 3, r"has shape \(3,\), not \(4,\)"),
    "too long": (
        PAIR,
        None,
        [True] * 6,
        r"has shape \(6,\), not \(5,\): one flag for each choice of '0' \(2\), '1' \(3\)",
    ),
    "two axes": (FOUR, None, [[True] * 4] * 2, r"has shape \(2, 4\)"),
    "empty": (FOUR, None, [], r"has shape \(0,\), not \(4,\)"),
    "a column": (FOUR, None, np.ones((4, 1), bool), r"has shape \(4, 1\), not \(4,\)"),
    "a byte that is neither 0 nor 1": (FOUR, None, np.array([0, 1, 2, 1], np.uint8), "holds 2; it must hold True"),
    "a negative byte": (FOUR, None, np.array([0, 1, -1, 1], np.int8), "holds -1; it must hold True"),
    "letters": (FOUR, None, np.array(list("abcd"), "S1"), "has dtype"),
    "a column for a head": (
        PAIR,
        HEADS,
        {"op": np.ones((2, 1), bool), "way": np.ones(3, bool)},
        r"head 'op', has shape \(2, 1\), not \(2,\)",
    ),
    "neither 0 nor 1": (FOUR, None, [0, 1, 2, 1], "holds 2; it must hold True and False, or 1 and 0"),
    "logits": (FOUR, None, [0.0, -np.inf, 0.0, 0.0], "holds -inf"),
    "text": (FOUR, None, ["yes", "no", "yes", "no"], "has dtype"),
    "nothing": (FOUR, None, None, "has dtype object"),
    "ragged": (FOUR, None, [[True], [True, True]], "must be an array of flags"),
    "an unknown head": (PAIR, HEADS, {"wey": [True] * 3}, "has a mask for 'wey', which is no head.*did you mean 'way'"),
    "a head of the wrong size": (
        PAIR,
        HEADS,
        {"way": [True] * 2},
        r"head 'way', has shape \(2,\), not \(3,\) or \(2, 3\)",
    ),
    "a head by too many choices": (PAIR, HEADS, {"way": [[True] * 3] * 4}, r"has shape \(4, 3\), not"),
    "an operation by operations": (PAIR, HEADS, {"op": [[True] * 2] * 2}, r"head 'op', has shape \(2, 2\), not \(2,\)"),
}


@pytest.mark.parametrize("env", [0, 1])
@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize(("space", "heads", "mask", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_mask_of_the_wrong_form_is_named(
    space: Any, heads: Any, mask: Any, message: str, step: int, env: int
) -> None:
    """With its env and its step, whether it comes first or behind masks of the right form."""
    good: Any = {} if heads is not None else np.ones(sum(getattr(space, "nvec", [4])), bool)
    told = [Told(space, lambda clock: mask if clock == step else good, heads), Told(space, lambda _: good, heads)]
    envs = EnvGroup(told if env == 0 else told[::-1])

    def run() -> None:
        envs.reset(0)
        envs.action_masks()
        envs.step(np.zeros((2, *space.shape), int))
        envs.action_masks()

    with pytest.raises(EnvError, match=rf"action_masks\(\) of env {env} \(Told\) after step {step}.*{message}"):
        run()


def test_a_mask_for_numbers_is_named() -> None:
    envs = EnvGroup([Told(spaces.Box(-1, 1, (2,)), lambda _: [True, True])])
    envs.reset(0)
    with pytest.raises(EnvError, match=r"action_masks\(\) of env 0 .* no part of its action space is a choice among n"):
        envs.action_masks()


def test_an_empty_mask_in_the_info_is_named() -> None:
    class Empty(Gates):
        def _info(self) -> dict[str, Any]:
            return {"action_mask": np.zeros(0, bool)}

    with pytest.raises(EnvError, match=r"info\['action_mask'\] of env 0 \(Empty\) after step 0 has shape \(0,\)"):
        learner_on(EnvGroup([Empty(0, "info"), Gates(1, "info")]), n_steps=8, batch_size=16).collect()


NOTHING_LEGAL: dict[str, tuple[spaces.Space[Any], Any, Any, str]] = {
    "one choice": (FOUR, None, [False] * 4, "env 1 at step 3 has no legal action: its action mask is all False"),
    "one of several": (PAIR, None, [True, True, False, False, False], "for the head '1'"),
    "a head": (PAIR, HEADS, {"way": [False] * 3}, "for the head 'way' given op = GO"),
    "the operation": (PAIR, HEADS, {"op": [False, False]}, "for the head 'op'"),
}


@pytest.mark.parametrize(("space", "heads", "mask", "message"), NOTHING_LEGAL.values(), ids=NOTHING_LEGAL.keys())
def test_no_legal_action_is_named_with_env_step_and_head(space: Any, heads: Any, mask: Any, message: str) -> None:
    good: Any = {} if heads is not None else np.ones(sum(getattr(space, "nvec", [4])), bool)
    masks = [lambda _: good, lambda clock: mask if clock == 3 else good]
    learner = learner_on(EnvGroup([Told(space, each, heads) for each in masks]), n_steps=8, batch_size=16)
    with pytest.raises(EnvError, match=message) as caught:
        learner.collect()
    assert "env 1 at step 3" in str(caught.value)


def test_what_raises_in_the_method_is_named() -> None:
    def broken(clock: int) -> Any:
        raise RuntimeError("boom")

    with pytest.raises(EnvError, match=r"action_masks\(\) of env 0 \(Told\) after step 0 raised RuntimeError: boom"):
        EnvGroup([Told(FOUR, broken)]).reset(0)


def test_what_raises_in_the_method_after_a_step_is_named_with_env_and_step() -> None:
    def broken(clock: int) -> Any:
        return np.ones(4, bool) if clock < 2 else 1 // 0

    envs = EnvGroup([Told(FOUR, lambda _: np.ones(4, bool)), Told(FOUR, broken)])
    envs.reset(0)
    envs.step(np.zeros(2, int))
    with pytest.raises(EnvError, match=r"action_masks\(\) of env 1 \(Told\) after step 2 raised ZeroDivisionError"):
        envs.step(np.zeros(2, int))


OP, WAY = np.array([True, False]), np.array([True, True, False])
FORMS: dict[str, Any] = {
    "flags": np.concatenate([OP, WAY]),
    "numbers": np.concatenate([OP, WAY]).astype(np.int8),
    "a list": [1, 0, 1, 1, 0],
    "by head": {"op": OP, "way": WAY},
    "by head in another order": {"way": WAY, "op": OP},
    "by head, numbers": {"op": OP, "way": WAY.astype(float)},
    "by head, bytes": {"op": OP.astype(np.uint8), "way": WAY.astype(np.int8)},
    "by head, parts of arrays": {"op": np.repeat(OP, 2)[::2], "way": np.repeat(WAY, 2)[::2]},
    "by head, lists": {"op": [1, 0], "way": [1, 1, 0]},
}


def always(mask: Any) -> Callable[[int], Any]:
    return lambda _: mask


@pytest.mark.parametrize("one", FORMS)
@pytest.mark.parametrize("other", FORMS)
def test_every_form_says_the_same(one: str, other: str) -> None:
    envs = EnvGroup([Told(PAIR, always(FORMS[form]), HEADS) for form in (one, other)])
    envs.reset(0)
    envs.step(np.zeros((2, 2), int))
    masks = envs.action_masks()
    assert masks is not None
    assert masks.astype(int).tolist() == [[1, 0, 1, 1, 0]] * 2


def test_heads_that_changed_places_are_no_mask() -> None:
    """As many flags as there should be, but not where."""
    envs = EnvGroup([Told(PAIR, lambda clock: {"op": OP, "way": WAY} if clock < 1 else {"op": WAY, "way": OP}, HEADS)])
    envs.reset(0)
    with pytest.raises(EnvError, match=r"of env 0 \(Told\) after step 1, head 'op', has shape \(3,\)"):
        envs.step(np.zeros((1, 2), int))


def test_a_mask_that_nobody_asked_for_is_forgotten() -> None:
    envs = EnvGroup([Told(FOUR, lambda clock: np.arange(4) == clock)])
    envs.reset(0)
    envs.step(np.zeros(1, int))
    masks = envs.action_masks()
    assert masks is not None
    assert masks.tolist() == [[False, True, False, False]]


def test_an_info_that_forgets_the_mask_is_named() -> None:
    class Forgetful(Gates):
        def _info(self) -> dict[str, Any]:
            return {} if self._clock == 2 else super()._info()

    learner = learner_on(EnvGroup([Forgetful(0, "info")]), n_steps=8, batch_size=8)
    with pytest.raises(EnvError, match=r"gave info\['action_mask'\] before, but not after step 2"):
        learner.collect()


def test_envs_of_which_only_some_give_masks_are_named() -> None:
    class Silent(Gates):
        def _info(self) -> dict[str, Any]:
            return {}

    assert (
        learner_on(EnvGroup([Gates(0, "info"), Gates(0, "method")]), n_steps=8, batch_size=16).collect().mask
        is not None
    )
    with pytest.raises(EnvError, match="env 1 gives no action mask, but others do"):
        learner_on(EnvGroup([Gates(0, "info"), Silent(0, "info")]), n_steps=8, batch_size=16).collect()


def test_flat_and_wide_masks_of_one_run_become_wide() -> None:
    flat: Mapping[str, Any] = {"way": [True, False, True]}
    wide: Mapping[str, Any] = {"way": [[True, True, False], [False, False, False]]}
    envs = EnvGroup([Told(PAIR, lambda _: flat, HEADS), Told(PAIR, lambda _: wide, HEADS)])
    envs.reset(0)
    masks = envs.action_masks()
    assert masks is not None
    assert masks.astype(int).tolist() == [[1, 1, 1, 0, 1, 1, 0, 1], [1, 1, 1, 1, 0, 0, 0, 0]]


def test_a_mask_that_changes_its_form_is_named() -> None:
    def mask(clock: int) -> Any:
        return {"way": [[True] * 3] * 2} if clock == 4 else {"way": [True] * 3}

    learner = learner_on(EnvGroup([Told(PAIR, mask, HEADS)]), n_steps=8, batch_size=8)
    with pytest.raises(EnvError, match="masks of 5 flags at the start and of 8 at step 4"):
        learner.collect()


def test_a_key_that_the_observation_has_not_is_named() -> None:
    with pytest.raises(ConfigError, match=r"policy.mask_key = 'action_mosk': no part .* did you mean 'action_mask'"):
        learner_on(group("observation"), n_steps=8, batch_size=24, policy={"mask_key": "action_mosk"})


def test_without_a_key_the_mask_is_a_feature() -> None:
    learner = learner_on(group("observation"), n_steps=8, batch_size=24, policy={"mask_key": ""})
    assert n_features(learner) == 5
    with pytest.raises(EnvError, match="is closed"):
        learner.collect()


def test_masks_of_workers_are_those_of_a_group() -> None:
    """Bit for bit, through shared memory and without a call of their own."""
    found = []
    for envs in (EnvGroup([Gates(0, "info") for _ in range(N)]), workers("info")):
        learner = learner_on(envs, n_steps=16, batch_size=48)
        rollout = learner.collect()
        assert rollout.mask is not None
        found.append((rollout.mask.clone(), rollout.action.clone()))
        envs.close()
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
