"""The compiled gradient step does what the eager one does, is compiled once, and only when that pays."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.fx.experimental.proxy_tensor import make_fx

from surefoot import PPO
from surefoot.actions.heads import HeadSpec
from surefoot.algo.learner import Learner
from surefoot.algo.step import EagerStep
from surefoot.errors import ConfigError, SurefootWarning
from surefoot.fast import accelerate
from surefoot.fast import decision as compiling
from surefoot.fast.acceleration import memories
from surefoot.fast.compiled_step import CompiledStep, Run, to_machine_code
from surefoot.fast.graph_rewriting import (
    fuse_small_products,
    part_biases,
    repeat_by_sections,
    simplify_tanh,
    turn_narrow_products,
)
from surefoot.fast.recurrence import recur
from surefoot.policy.recurrent import Recurrent
from surefoot.rollout.sequences import cut, pack


def use_loops(learner: Learner) -> None:
    """Let memories walk through time by the kernel."""
    for memory in memories(learner.policy):
        memory.scan = recur


needs_compiler = pytest.mark.skipif(not compiling.has_compiler(), reason="needs a C++ compiler")


class Numbers(gymnasium.Env[Any, Any]):
    """Its action has heads, none of which is a choice among n."""

    observation_space = spaces.Box(-1.0, 1.0, (3,))
    action_space = spaces.Dict({"x": spaces.Box(-1.0, 1.0, (2,)), "bits": spaces.MultiBinary(3)})

    def __init__(self) -> None:
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self._observe(), float(action["x"][0] + action["bits"].sum()), self._steps == 7, False, {}

    def _observe(self) -> Any:
        return self.np_random.uniform(-1.0, 1.0, 3).astype(np.float32)


class Trade(Numbers):
    """A choice, a number and flags that matter for one of its options each."""

    action_space = spaces.Dict(
        {"op": spaces.Discrete(3), "x": spaces.Box(0.0, 9.0, (2,)), "bits": spaces.MultiBinary(3)}
    )
    action_heads = (
        HeadSpec("op", 3),
        HeadSpec("x", relevant_when={"op": 1}),
        HeadSpec("bits", relevant_when={"op": 2}),
    )


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "plain": ("CartPole-v1", {}),
    "Box, entropy, exact KL": ("Pendulum-v1", {"ent_coef": 0.01, "kl_estimator": "exact", "target_kl": 0.01}),
    "shared, norm, clipped values, decay": (
        "CartPole-v1",
        {
            "policy": {"shared": True, "layer_norm": True},
            "clip_range_vf": 0.1,
            "normalize_advantage": "minibatch",
            "optimizer": "adamw",
            "weight_decay": 0.1,
        },
    ),
    "KL stop, L2": (
        "CartPole-v1",
        {"target_kl": 1e-4, "learning_rate": 3e-3, "weight_decay": 0.1, "decay_scope": "all"},
    ),
    "pieces, dual clip, tanh": (
        "CartPole-v1",
        {"micro_batch_size": 12, "max_grad_norm": None, "dual_clip": 3.0, "log_ratio_bound": "tanh"},
    ),
    "rates of their own, penalty, pieces": (
        "CartPole-v1",
        {"critic_learning_rate": "linear(1e-3, 0)", "logit_penalty": "linear(1, 0)", "micro_batch_size": 12},
    ),
    "bounded σ, KL penalty, entropy floor": (
        "Pendulum-v1",
        {
            "policy": {"std_min": 0.9999, "std_max": 1.0001},
            "kl_coef": 0.5,
            "entropy_floor": 2.1,
            "kl_estimator": "exact",
            "learning_rate": 1e-3,
        },
    ),
    "heads, KL penalty, entropy floor": ("surefoot/Greenhouse-v0", {"kl_coef": 0.5, "entropy_floor": 3.5}),
    "robust, heads and masks, pieces": (
        "surefoot/Greenhouse-v0",
        {"robust": {"kind": "sa_ppo", "steps": 2, "units": "raw", "ramp": 0.5}, "micro_batch_size": 12},
    ),
    "upgd, by rates of their own": (
        "Pendulum-v1",
        {"optimizer": "upgd", "weight_decay": 0.1, "critic_learning_rate": 1e-3, "upgd": {"exempt_vectors": True}},
    ),
    "adaupgd, vgs": ("CartPole-v1", {"optimizer": "adaupgd", "vgs": {"alpha": 0.5}, "target_kl": 0.01}),
    "vgs": ("CartPole-v1", {"vgs": {"alpha": 0.5}, "max_grad_norm": 0.1}),
    "quantile": ("CartPole-v1", {"critic": {"kind": "quantile"}}),
    "quantile twin, PopArt, CVaR constraint": (
        "surefoot/CrashPortfolio-v0",
        {
            "critic": {"kind": "quantile", "twin": "trunks", "popart": True},
            "risk": {"kind": "cvar_constraint", "alpha": 0.25, "limit_per_episode": -1.0},
        },
    ),
    "scalar, PopArt": ("Pendulum-v1", {"critic": {"popart": True}}),
    "categorical": ("CartPole-v1", {"critic": {"kind": "categorical"}}),
    "categorical, fixed support": ("CartPole-v1", {"critic": {"kind": "categorical", "v_min": -1.0, "v_max": 30.0}}),
    "categorical twin, clipped": (
        "CartPole-v1",
        {"critic": {"kind": "categorical", "twin": "heads", "clip_mode": "mean_only"}, "clip_range_vf": 0.2},
    ),
    "cost constraint": (
        "surefoot/CostlyArm-v0",
        {"risk": {"kind": "cost_constraint", "limit_per_episode": 0.5}},
    ),
    "observations that are codes": ("FrozenLake-v1", {}),
    "heads and masks": ("surefoot/Greenhouse-v0", {"head_ent_coef_floors": {"op": 0.1}, "ent_coef": 0.01}),
    "heads of all kinds": (Trade, {"ent_coef": 0.01, "kl_estimator": "exact"}),
    "heads of all kinds, vgs": (Trade, {"vgs": {"alpha": 0.5}}),
    "heads without choices": (Numbers, {"ent_coef": 0.01}),
    "heads without choices, exact KL": (Numbers, {"kl_estimator": "exact", "micro_batch_size": 12}),
    "beta": ("Pendulum-v1", {"policy": {"distribution": "beta"}}),
    "normalizers": ("surefoot/Corridor-v0", {"normalize_observations": True, "normalize_rewards": True}),
}


def learner_of(env: Any, settings: dict[str, Any]) -> Learner:
    common: dict[str, Any] = {"n_envs": 4, "n_steps": 16, "batch_size": 32, "n_epochs": 3, "compile": False}
    return PPO(env, **(common | settings)).learner


def as_recorded(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Run:
    """The graph, operation by operation: what was recorded is right, whatever the compiler makes of it."""
    return graph


def compile_with(learner: Learner, compiler: Any) -> None:
    learner.updater.step = CompiledStep(learner.updater.step, compiler)


@pytest.mark.parametrize("case", CASES)
def test_compiled_and_eager_agree_after_ten_updates(case: str) -> None:
    env, settings = CASES[case]
    eager, compiled = (learner_of(env, settings | {"n_epochs": 2}) for _ in range(2))
    compile_with(compiled, as_recorded)
    for _ in range(10):
        records = [learner.learn(learner.collect(), 10).update for learner in (eager, compiled)]
        assert records[0].gradient_steps == records[1].gradient_steps
        assert records[0].kl_stop is None or records[1].kl_stop is not None
    # A support that follows the returns moves logits by 3 per atom, so that 1e-7 of 50 atoms' width becomes 1.5e-5.
    tolerance = 5e-5 if case.startswith("categorical") and "support" not in case else 1e-5
    assert (eager.flat.values - compiled.flat.values).abs().max() < tolerance
    steps = [learner.optimizer.state_dict()["steps"] for learner in (eager, compiled)]
    assert torch.equal(*steps)


@needs_compiler
@pytest.mark.parametrize(
    ("env", "settings", "tolerance"),
    [
        ("CartPole-v1", {"target_kl": 0.05, "critic": {"kind": "categorical", "clip_mode": "mean_only"}}, 5e-5),
        (
            "surefoot/Greenhouse-v0",
            {"ent_coef": 0.01, "critic": {"kind": "quantile", "popart": True, "clip_mode": "mean_and_variance"}},
            1e-5,
        ),
        (
            "Pendulum-v1",
            {
                "optimizer": "adaupgd",
                "vgs": {"alpha": 0.1},
                "robust": {"kind": "sa_ppo", "steps": 1, "units": "raw"},
                "imitation": {"coef": 0.1},
                "critic_learning_rate": 1e-3,
                "policy": {"std_max": 2.0, "hidden_sizes": (8,)},
            },
            1e-5,
        ),
    ],
    ids=["categorical, KL stop", "quantile, heads and masks", "options"],
)
def test_the_real_compiler_agrees_too(env: str, settings: dict[str, Any], tolerance: float) -> None:
    """Also in the losses of critics, which are the longest part of it."""
    eager, compiled = (learner_of(env, settings | {"clip_range_vf": 0.1}) for _ in range(2))
    compile_with(compiled, to_machine_code)
    for _ in range(10):
        for learner in (eager, compiled):
            learner.learn(learner.collect(), 10)
    assert (eager.flat.values - compiled.flat.values).abs().max() < tolerance


@needs_compiler
def test_a_memory_compiled_agrees_too() -> None:
    """Of one minibatch, since each size of one is compiled. To the compiler a memory is one operation of any kind."""
    memory = {"kind": "lstm", "hidden_size": 8, "layers": 2, "output_sizes": (12,), "max_length": 5}
    settings: dict[str, Any] = {"n_envs": 4, "n_steps": 32, "batch_size": 128, "n_epochs": 6, "memory": memory}
    eager, compiled = (PPO("CartPole-v1", compile=setting, **settings) for setting in (False, True))
    for agent in (eager, compiled):
        agent.learn(10 * 128)
    assert not eager.learner.compiled
    assert compiled.learner.compiled
    assert (eager.learner.flat.values - compiled.learner.flat.values).abs().max() < 1e-5


MEMORIES: dict[str, tuple[str, dict[str, Any]]] = {
    "observations that are codes": ("FrozenLake-v1", {"memory": {"kind": "lstm", "hidden_size": 8}}),
    "lstm": ("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 8}}),
    "gru, two layers": ("Pendulum-v1", {"memory": {"kind": "gru", "hidden_size": 16, "layers": 2}}),
    "lstm, robust": (
        "CartPole-v1",
        {
            "memory": {"kind": "lstm", "hidden_size": 8},
            "robust": {"kind": "sa_ppo", "steps": 2, "ramp": 0.0, "coef": 0.3},
            "normalize_observations": True,
        },
    ),
    "lstm, imitation, penalties": (
        "CartPole-v1",
        {
            "memory": {"kind": "lstm", "hidden_size": 8},
            "imitation": {"coef": 0.5},
            "kl_coef": 0.5,
            "entropy_floor": 0.69,
            "logit_penalty": 0.1,
        },
    ),
    "one for both": (
        "CartPole-v1",
        {"memory": {"kind": "lstm", "hidden_size": 8, "layers": 2, "shared": True}, "policy": {"shared": True}},
    ),
    "cut, with burn-in": ("CartPole-v1", {"memory": {"kind": "gru", "hidden_size": 8, "max_length": 3, "burn_in": 2}}),
    "short episodes, heads, masks": (
        "surefoot/Greenhouse-v0",
        {
            "memory": {"kind": "lstm", "hidden_size": 8, "output_sizes": (8,)},
            "critic": {"kind": "quantile", "twin": "heads"},
            "normalize_advantage": "minibatch",
            "ent_coef": 0.01,
        },
    ),
}


@needs_compiler
@pytest.mark.parametrize("case", MEMORIES)
def test_a_memory_recorded_agrees_with_torch(case: str) -> None:
    env, settings = MEMORIES[case]
    eager, compiled = (learner_of(env, settings | {"n_epochs": 2}) for _ in range(2))
    use_loops(compiled)
    compile_with(compiled, as_recorded)
    for _ in range(10):
        records = [learner.learn(learner.collect(), 10).update for learner in (eager, compiled)]
        assert records[0].gradient_steps == records[1].gradient_steps
        assert records[1].log_ratio_first < 1e-5
    assert (eager.flat.values - compiled.flat.values).abs().max() < 1e-5


@needs_compiler
def test_a_memory_names_the_source_of_a_non_finite_gradient() -> None:
    settings: dict[str, Any] = {"memory": {"kind": "lstm", "hidden_size": 8}, "max_nonfinite_updates": 100}
    learner = learner_of("CartPole-v1", settings)
    use_loops(learner)
    compile_with(learner, as_recorded)
    rollout = learner.collect()
    rollout.log_prob[3, 1] = -torch.inf
    record = learner.learn(rollout, 1).update
    assert record.skipped_steps == 3
    assert "old log-probability is -inf in env 1 at step 3" in record.non_finite[0]
    assert torch.isfinite(learner.flat.values).all()


@pytest.mark.parametrize(("usual", "longest"), [(512, 256), (64, 2048), (128, 1024), (1, 1), (7, 100), (4096, 16)])
def test_minibatches_of_a_memory_have_few_sizes(usual: int, longest: int) -> None:
    learner = learner_of(*MEMORIES["lstm"])
    assert learner.updater.step.sizes(usual, longest) == ()
    compile_with(learner, as_recorded)
    sizes = learner.updater.step.sizes(usual, longest)
    assert 1 <= len(sizes) <= 4
    assert usual < sizes[0] <= max(usual + 8, 1.02 * usual)
    # The longest first, each to the group that has least: no group has more than the mean and one sequence.
    assert max(sizes) >= 1.5 * usual + longest - 1


@needs_compiler
def test_no_minibatch_of_a_memory_is_larger_than_the_largest_size() -> None:
    rng = np.random.default_rng(0)
    learner = learner_of(*MEMORIES["lstm"])
    compile_with(learner, as_recorded)
    for _ in range(200):
        n_steps, usual = int(rng.integers(1, 200)), int(rng.integers(1, 300))
        starts = rng.random((n_steps, int(rng.integers(1, 9)))) < rng.choice([0.0, 0.01, 0.2, 1.0])
        lengths = cut(starts, np.ones_like(starts)).length
        n_groups = max(1, round(starts.size / usual))
        largest = max(int(lengths[group].sum()) for group in pack(lengths, n_groups, rng))
        assert largest <= max(learner.updater.step.sizes(usual, n_steps))


def test_a_memory_that_does_not_fit_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_KERNEL_STEPS", 1)
    memory = {"kind": "lstm", "hidden_size": 12}
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "memory": memory}
    with pytest.raises(ConfigError, match=r"compile = true with memory needs .* multiple of 8"):
        PPO("CartPole-v1", compile=True, **settings)
    agent = PPO("CartPole-v1", n_epochs=1, **settings).learn(32)
    assert not agent.learner.compiled


def test_small_products_become_sums_and_large_ones_stay() -> None:
    constant = torch.randn(9, 3)

    def products(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x @ constant, (x @ constant) @ constant.T, y @ y]

    x, y = torch.randn(5, 9), torch.randn(40, 40)
    graph = make_fx(products)(x, y)
    fuse_small_products(graph)
    left = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
    assert len(left) == 1
    for found, expected in zip(graph(x, y), products(x, y), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_narrow_products_are_turned_and_wide_ones_stay() -> None:
    def products(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [(x.t() @ y).view(-1), y.t() @ x, x @ x.t()]

    x, y = torch.randn(50, 40), torch.randn(50, 6)
    graph = make_fx(products)(x, y)
    turn_narrow_products(graph)
    shapes: list[torch.Size] = []

    class Watch(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            result = super().call_function(target, args, kwargs)
            if target is torch.ops.aten.mm.default:
                shapes.append(result.shape)
            return result

    found = Watch(graph).run(x, y)
    assert shapes == [(6, 40), (6, 40), (50, 50)]
    for one, expected in zip(found, products(x, y), strict=True):
        torch.testing.assert_close(one, expected)
        assert one.is_contiguous()


@needs_compiler
def test_a_memory_is_compiled_in_two_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """First its loops, in longer runs the whole step; what was compiled is so again after loading."""
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_KERNEL_STEPS", 4)
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_MEMORY_ROWS", 1000)
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 1}
    found = []
    for updates in (1, 2, 40):
        learner = PPO("CartPole-v1", memory={"kind": "gru", "hidden_size": 8}, **settings).learner
        accelerate(learner, updates)
        found.append(learner.compiled_parts)
        twin = PPO("CartPole-v1", memory={"kind": "gru", "hidden_size": 8}, **settings).learner
        twin.load_state_dict(learner.state_dict())
        assert not twin.compiled  # not to act
        accelerate(twin, 1)
        assert twin.compiled_parts == found[-1]
    assert found == [(False, False), (True, False), (True, True)]


@needs_compiler
def test_a_compiled_policy_can_be_copied() -> None:
    learner = learner_of("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 8}})
    use_loops(learner)
    copied = copy.deepcopy(learner.policy).memory
    assert isinstance(copied, Recurrent)
    assert copied.scan is recur


def test_tanh_is_simplified_without_losing_its_ends() -> None:
    x = torch.cat([torch.linspace(-20, 20, 4001), torch.tensor([-torch.inf, -1e30, 1e30, torch.inf, torch.nan, 0.0])])
    graph = make_fx(torch.tanh)(x)
    simplify_tanh(graph)
    assert not graph.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default)
    torch.testing.assert_close(graph(x), torch.tanh(x), rtol=0, atol=2.5e-7, equal_nan=True)
    assert graph(x)[-1] == 0.0


def test_entries_that_are_repeated_are_written_as_sections_and_other_choices_stay() -> None:
    repeated, others = torch.tensor([0, 0, 0, 1, 2, 2]), [torch.tensor([1, 1, 2]), torch.tensor([0, 1, 0, 2])]

    def choose(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [x.index_select(0, repeated), *[x.index_select(0, i) for i in others], y.index_select(0, repeated)]

    x, y = torch.tensor([5.0, -1.0, torch.inf]), torch.randn(3, 2)
    graph = make_fx(choose)(x, y)
    repeat_by_sections(graph)
    assert len(graph.graph.find_nodes(op="call_function", target=torch.ops.aten.index_select.default)) == 3
    for found, expected in zip(graph(x, y), choose(x, y), strict=True):
        assert torch.equal(found, expected)


def test_biases_are_parted_from_products() -> None:
    layer, x = torch.nn.Linear(7, 5), torch.randn(3, 7)
    graph = make_fx(layer)(x)
    part_biases(graph)
    assert not graph.graph.find_nodes(op="call_function", target=torch.ops.aten.addmm.default)
    torch.testing.assert_close(graph(x), layer(x), rtol=1e-6, atol=1e-6)


def test_a_memory_runs_uncompiled_where_the_compiler_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """By itself, with a warning; asked to compile, with the error."""

    def fail() -> None:
        raise RuntimeError("no such header\nand more")

    monkeypatch.setattr("surefoot.fast.acceleration.load_kernel", fail)
    monkeypatch.setattr(compiling, "has_compiler", lambda: True)
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 32, "memory": {"kind": "gru"}}
    agent = PPO("CartPole-v1", n_epochs=compiling.PAYING_KERNEL_STEPS, **settings)
    with pytest.warns(SurefootWarning, match="the memory runs uncompiled: no such header$"):
        accelerate(agent.learner, 1)
    assert not agent.learner.compiled
    with pytest.raises(RuntimeError, match="no such header"):
        accelerate(PPO("CartPole-v1", compile=True, **settings).learner, 1)


def test_a_run_is_compiled_once() -> None:
    compilations = []

    def count(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        compilations.append(graph)
        return graph

    learner = learner_of("CartPole-v1", {"learning_rate": "linear(1e-3, 0)", "clip_range": "linear(0.2, 0.1)"})
    compile_with(learner, count)
    for _ in range(4):
        learner.learn(learner.collect(), 4)
    assert len(compilations) == 1


def test_a_non_finite_gradient_is_no_step() -> None:
    learner = learner_of("CartPole-v1", {"max_nonfinite_updates": 100})
    compile_with(learner, as_recorded)
    rollout = learner.collect()
    rollout.log_prob[3, 1] = -torch.inf
    before = learner.flat.values.clone()
    record = learner.learn(rollout, 1).update
    assert record.skipped_steps == 3
    assert record.gradient_steps == 3
    assert "old log-probability is -inf in env 1 at step 3" in record.non_finite[0]
    assert torch.isfinite(learner.flat.values).all()
    assert not torch.equal(learner.flat.values, before)


def test_a_loss_term_that_does_not_say_so_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.algo.kl_penalty.KLPenalty.compilable", False)
    settings: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "kl_coef": 1.0}
    with pytest.raises(ConfigError, match=r"compile = true: KLPenalty cannot be compiled"):
        accelerate(PPO("CartPole-v1", compile=True, **settings).learner, 1)
    agent = PPO("CartPole-v1", n_epochs=compiling.PAYING_STEPS, **settings)
    accelerate(agent.learner, 1)
    assert not agent.learner.compiled


def test_short_runs_are_not_compiled_by_themselves() -> None:
    agent = PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=16)
    agent.learn(32)
    assert isinstance(agent.learner.updater.step, EagerStep)


def test_long_runs_are_compiled_where_there_is_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(compiling, "has_compiler", lambda: True)
    assert compiling.decide("auto", cpu, compiling.PAYING_STEPS)
    assert not compiling.decide("auto", cpu, compiling.PAYING_STEPS - 1)
    assert not compiling.decide(False, cpu, 10 * compiling.PAYING_STEPS)
    assert compiling.decide(True, cpu, 1)


@pytest.mark.parametrize("named", ["no-such-compiler", "/bin/false"])
def test_without_a_compiler_training_runs_uncompiled_and_says_so(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv("CXX", named)
    agent = PPO("CartPole-v1", n_envs=2, n_steps=16, batch_size=16, compile=True)
    with pytest.warns(SurefootWarning, match=r"no C\+\+ compiler"):
        agent.learn(32)
    assert isinstance(agent.learner.updater.step, EagerStep)
    with pytest.warns(SurefootWarning, match=r"no C\+\+ compiler"):
        assert not compiling.decide("auto", torch.device("cpu"), compiling.PAYING_STEPS)
