"""A setting that is unknown, of the wrong type, out of range or without effect is refused by name (Y04, P12)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import ValidationError

from surefoot.config import Config, PPOConfig, from_dict, from_flat, merge
from surefoot.config.load import leaves
from surefoot.errors import ConfigError

LEAVES = dict(leaves())


def nested(dotted: str, value: Any) -> dict[str, Any]:
    section, _, name = dotted.rpartition(".")
    return {section: {name: value}} if section else {name: value}


def validation_error(**settings: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        from_flat(**settings)
    return str(caught.value)


def complaint_in_sections(data: Mapping[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        from_dict(data)
    return str(caught.value)


def kinds(annotation: Any) -> Iterator[Any]:
    """The plain types that an annotation admits."""
    arguments = get_args(annotation)
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from kinds(argument)


def test_every_field_is_documented() -> None:
    assert [name for name, field in LEAVES.items() if not field.description] == []


def test_the_configuration_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Config().ppo.gamma = 0.5


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"n_step": 8}, ["unknown setting 'n_step'", "'n_steps'"]),
        ({"learning_rat": 0.1}, ["'learning_rat'", "'learning_rate'"]),
        ({"sed": 1}, ["'sed'", "'seed'"]),
        ({"polcy": {}}, ["'polcy'", "'policy'"]),
        ({"policy": {"hiden_sizes": (8,)}}, ["'policy.hiden_sizes'", "'hidden_sizes'"]),
        ({"run": {"checkpoint_evry": 8}}, ["'run.checkpoint_evry'", "'checkpoint_every'"]),
        ({"critic": {"knd": "scalar"}}, ["'critic.knd'", "'kind'"]),
        ({"ppo": {"gama": 0.9}}, ["'ppo.gama'", "'gamma'"]),
        ({"lr": 0.1}, ["'lr'", "learning_rate"]),
        ({"num_envs": 2}, ["'num_envs'", "n_envs"]),
        ({"policy": {"net_arch": [8]}}, ["'policy.net_arch'", "policy.hidden_sizes"]),
    ],
    ids=str,
)
def test_an_unknown_keyword_names_the_nearest_right_one(settings: dict[str, Any], parts: list[str]) -> None:
    message = validation_error(**settings)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize("name", ["hidden_sizes", "activation", "checkpoint_every", "log_std_init"])
def test_a_setting_given_outside_its_section_is_shown_its_section(name: str) -> None:
    home = next(leaf for leaf in LEAVES if leaf.endswith(f".{name}"))
    message = validation_error(**{name: 8})
    assert f"unknown setting {name!r}" in message
    assert home in message


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({"n_steps": 8}, ["'n_steps'", "'ppo.n_steps'"]),
        ({"ppo": {"n_step": 8}}, ["'ppo.n_step'", "'n_steps'"]),
        ({"policy": {"shard": True}}, ["'policy.shard'", "'shared'"]),
    ],
    ids=str,
)
def test_an_unknown_key_of_a_file_names_the_nearest_right_one(data: dict[str, Any], parts: list[str]) -> None:
    message = complaint_in_sections(data)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(("section", "right"), [("pp", "ppo"), ("polciy", "policy"), ("crtic", "critic")])
def test_a_misspelt_section_of_a_file_names_the_nearest_right_one(section: str, right: str) -> None:
    message = complaint_in_sections({section: {}})
    assert f"unknown setting {section!r}" in message
    assert f"{right!r}" in message


@pytest.mark.parametrize("dotted", LEAVES)
def test_every_field_refuses_a_value_of_a_foreign_type(dotted: str) -> None:
    message = complaint_in_sections(nested(dotted, object()))
    assert message.startswith(f"{dotted} = ")


@pytest.mark.parametrize("dotted", [name for name, f in LEAVES.items() if {int, float} & set(kinds(f.annotation))])
def test_every_number_refuses_booleans(dotted: str) -> None:
    if bool in kinds(LEAVES[dotted].annotation):
        pytest.skip("takes a boolean too")
    assert dotted in complaint_in_sections(nested(dotted, True))


@pytest.mark.parametrize(
    "dotted",
    [name for name, f in LEAVES.items() if {int, float} & set(kinds(f.annotation)) and str not in kinds(f.annotation)],
)
def test_every_number_refuses_text(dotted: str) -> None:
    assert dotted in complaint_in_sections(nested(dotted, "1"))


@pytest.mark.parametrize("dotted", [name for name, f in LEAVES.items() if int in kinds(f.annotation)])
def test_every_count_refuses_a_fraction(dotted: str) -> None:
    value = (2.0,) if tuple in kinds(LEAVES[dotted].annotation) else 2.0
    assert dotted in complaint_in_sections(nested(dotted, value))


@pytest.mark.parametrize("dotted", [name for name, f in LEAVES.items() if float in kinds(f.annotation)])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_every_number_must_be_finite(dotted: str, value: float) -> None:
    pair = (value, value) if "betas" in dotted else value
    assert dotted in complaint_in_sections(nested(dotted, pair))


@pytest.mark.parametrize("dotted", [name for name, f in LEAVES.items() if f.annotation is bool])
@pytest.mark.parametrize("value", [0, 1, "true", "yes"])
def test_every_switch_refuses_anything_but_a_boolean(dotted: str, value: object) -> None:
    assert dotted in complaint_in_sections(nested(dotted, value))


OUT_OF_RANGE: dict[str, list[Any]] = {
    "ppo.critic_learning_rate": [-1e-4, "decay(1, 0, 5)"],
    "ppo.logit_penalty": [-1.0, "decay(1, 0, 5)"],
    "ppo.learning_rate": [-1e-4, "linear(1e-3, -1e-3)", "warmup(0.1, linear(-1, 0))", "piecewise(0: 1, 1: -1)"],
    "ppo.clip_range": [-0.1, 11.0, "linear(11, 0)"],
    "ppo.clip_range_vf": [-0.1],
    "ppo.ent_coef": [-0.1, "decay(0.1, -0.1, 10)"],
    "ppo.vf_coef": [-0.5],
    "ppo.adam_betas": [(1.0, 0.9), (-0.1, 0.9), (0.9,), (0.9, 0.9, 0.9)],
    "policy.hidden_sizes": [(0,), (8, -8)],
    "policy.cnn_channels": [(0,)],
}
"""Values beyond the bounds of coefficients and sequences; those of plain numbers are read from their bounds."""


def beyond(annotation: Any, metadata: Sequence[Any]) -> Iterator[Any]:
    """The nearest values that violate the declared bounds of a number."""
    for bound in metadata:
        match bound:
            case Gt() | Lt():
                yield bound.gt if isinstance(bound, Gt) else bound.lt
            case Ge(ge=int() | float() as limit):
                yield limit - 1
            case Le(le=int() | float() as limit):
                yield limit + 1
    for member in get_args(annotation):
        if get_origin(member) is Annotated:
            inner, *bounds = get_args(member)
            yield from beyond(inner, bounds)


def out_of_range() -> list[tuple[str, Any]]:
    numbers = {
        name: f for name, f in LEAVES.items() if name not in OUT_OF_RANGE and {int, float} & set(kinds(f.annotation))
    }
    found = [(name, value) for name, f in numbers.items() for value in beyond(f.annotation, f.metadata)]
    return found + [(name, value) for name, values in OUT_OF_RANGE.items() for value in values]


def test_bounds_are_found() -> None:
    assert ("n_envs", 0) in out_of_range()
    assert ("ppo.gamma", 2.0) in out_of_range()
    assert ("ppo.target_kl", 0.0) in out_of_range()
    assert ("seed", 2**31) in out_of_range()


@pytest.mark.parametrize(("dotted", "value"), out_of_range())
def test_a_number_out_of_range_is_refused_by_name(dotted: str, value: Any) -> None:
    message = complaint_in_sections(nested(dotted, value))
    assert message.startswith(dotted)


@pytest.mark.parametrize(
    ("dotted", "value", "right"),
    [
        ("ppo.normalize_advantage", "rolout", "'rollout'"),
        ("ppo.kl_estimator", "exct", "'exact'"),
        ("ppo.optimizer", "AdamW", "'adamw'"),
        ("policy.activation", "rlu", "'relu'"),
        ("policy.distribution", "gausian", "'gaussian'"),
        ("critic.kind", "scaler", "'scalar'"),
        ("run.sinks", ("tensorbord",), "'tensorboard'"),
    ],
)
def test_a_wrong_choice_names_the_nearest_right_one(dotted: str, value: Any, right: str) -> None:
    message = complaint_in_sections(nested(dotted, value))
    assert message.startswith(dotted)
    assert f"did you mean {right}?" in message


ONE_STEP: dict[str, Any] = {"n_envs": 2, "n_steps": 64, "batch_size": 128, "n_epochs": 1}
"""Each rollout makes one gradient step, so that no ratio ever leaves 1 (P10)."""

CONTRADICTIONS: list[tuple[dict[str, Any], list[str]]] = [
    ({"n_envs": 2, "n_steps": 8, "batch_size": 17}, ["batch_size = 17", "16"]),
    ({"batch_size": 1}, ["batch_size = 1", "normalize_advantage"]),
    ({"batch_size": 1, "normalize_advantage": "minibatch"}, ["batch_size = 1", "minibatch"]),
    ({"n_steps": 1, "n_envs": 8, "normalize_advantage": "env"}, ["env", "n_steps"]),
    ({"batch_size": 64, "micro_batch_size": 64}, ["micro_batch_size = 64", "batch_size = 64"]),
    ({"adaptive_lr_kl": 0.01, "learning_rate": "linear(1e-3, 0)"}, ["adaptive_lr_kl", "learning_rate"]),
    ({"optimizer": "adamw"}, ["adamw", "weight_decay"]),
    ({"decay_scope": "all"}, ["decay_scope", "weight_decay"]),
    ({"observation_clip": 5.0}, ["observation_clip", "normalize_observations"]),
    ({"reward_clip": 5.0}, ["reward_clip", "normalize_rewards"]),
    ({"run": {"patience": 3}}, ["run.patience", "run.eval_every"]),
    ({"run": {"eval_episodes": 3}}, ["run.eval_episodes", "run.eval_every"]),
    ({"run": {"eval_env": "CartPole-v1"}}, ["run.eval_env", "run.eval_every"]),
    ({"run": {"eval_env_kwargs": {"g": 3}}}, ["run.eval_env_kwargs", "run.eval_every"]),
    ({"vectorization": "vector_entry_point", "workers": 2}, ["vectorization", "workers"]),
    ({"run": {"keep_checkpoints": 9, "checkpoint_every": 0}}, ["run.keep_checkpoints", "run.checkpoint_every"]),
    ({"n_envs": 1, "normalize_advantage": "env"}, ["normalize_advantage", '"env"', "n_envs", '"rollout"']),
    ({"n_steps": 32, "memory": {"kind": "gru", "max_length": 32}}, ["memory.max_length = 32", "n_steps = 32"]),
    (
        {"n_steps": 32, "memory": {"kind": "gru", "max_length": 10, "burn_in": 31}},
        ["memory.burn_in = 31", "30", "n_steps = 32"],
    ),
    (ONE_STEP | {"clip_range": 0.1}, ["ppo.clip_range ", "n_epochs"]),
    (ONE_STEP | {"clip_range_vf": 0.1}, ["ppo.clip_range_vf ", "n_epochs"]),
    (ONE_STEP | {"target_kl": 0.1}, ["ppo.target_kl ", "n_epochs"]),
    (ONE_STEP | {"adaptive_lr_kl": 0.1}, ["ppo.adaptive_lr_kl ", "n_epochs"]),
    (ONE_STEP | {"kl_estimator": "k1"}, ["ppo.kl_estimator ", "n_epochs"]),
    (ONE_STEP | {"dual_clip": 3.0}, ["ppo.dual_clip ", "n_epochs"]),
    (ONE_STEP | {"log_ratio_bound": "tanh"}, ["ppo.log_ratio_bound ", "n_epochs"]),
    (
        {"n_envs": 2, "n_steps": 16, "n_epochs": 1, "clip_range": 0.1, "target_kl": 0.1},
        ["ppo.clip_range, ppo.target_kl ", "batch_size = 32"],
    ),
    ({"workers": 3, "n_envs": 2}, ["workers = 3", "n_envs = 2"]),
    ({"worker_timeout": 3.0}, ["worker_timeout", "workers"]),
    ({"policy": {"distribution": "beta", "log_std_init": -1.0}}, ["beta", "log_std_init"]),
    ({"policy": {"distribution": "beta", "state_dependent_std": True}}, ["beta", "state_dependent_std"]),
    ({"policy": {"hidden_sizes": (), "layer_norm": True}}, ["layer_norm", "hidden_sizes"]),
    ({"policy": {"hidden_sizes": (), "activation": "relu"}}, ["activation", "hidden_sizes"]),
]


@pytest.mark.parametrize(("settings", "parts"), CONTRADICTIONS, ids=str)
def test_settings_without_effect_together_are_refused(settings: dict[str, Any], parts: list[str]) -> None:
    message = validation_error(**settings)
    assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    "settings",
    [
        {"n_epochs": 2},
        {"batch_size": 64},
        {"n_steps": 65, "batch_size": 129, "n_epochs": 1},  # 130 rows: the second minibatch has one
    ],
    ids=str,
)
def test_ratios_that_leave_one_may_be_clipped(settings: dict[str, Any]) -> None:
    config = from_flat(**ONE_STEP | settings | {"clip_range": 0.1, "target_kl": 0.02})
    assert config.ppo.clip_range == 0.1


def test_the_longest_settings_of_memory_that_cut_anything_are_taken() -> None:
    memory = from_flat(n_steps=32, memory={"kind": "gru", "max_length": 10, "burn_in": 30}).memory
    assert (memory.max_length, memory.burn_in) == (10, 30)
    assert from_flat(n_steps=32, memory={"kind": "gru", "max_length": 31}).memory.max_length == 31


def test_every_mistake_is_reported_at_once() -> None:
    message = validation_error(gamma=2.0, n_epochs=0, policy={"hiden_sizes": (8,)})
    assert len(message.splitlines()) == 3


def test_a_batch_of_one_is_allowed_without_normalization() -> None:
    assert from_flat(batch_size=1, normalize_advantage="none").batch_size == 1


def test_the_batch_size_follows_a_small_rollout() -> None:
    assert from_flat(n_steps=4, n_envs=2).batch_size == 8
    assert from_flat(n_steps=256, n_envs=8).batch_size == 64


def test_names_known_from_stable_baselines_keep_their_meaning() -> None:
    config = from_flat(normalize_advantage=False, max_grad_norm=None)
    assert config.ppo.normalize_advantage == "none"
    assert config.ppo.max_grad_norm == 0.0
    assert from_flat(normalize_advantage=True).ppo.normalize_advantage == "rollout"


def test_numpy_scalars_count_as_numbers() -> None:
    config = from_flat(n_envs=np.int64(3), gamma=np.float64(0.5), normalize_rewards=np.bool_(True))
    assert (config.n_envs, config.ppo.gamma, config.ppo.normalize_rewards) == (3, 0.5, True)


def test_lists_and_tuples_of_sizes_are_equal() -> None:
    assert from_flat(policy={"hidden_sizes": [8, 4]}) == from_flat(policy={"hidden_sizes": (8, 4)})


def test_a_ppo_section_and_flat_settings_add_up() -> None:
    config = from_flat(ppo={"n_steps": 8}, gamma=0.5)
    assert (config.ppo.n_steps, config.ppo.gamma) == (8, 0.5)


def test_a_ppo_record_and_flat_settings_add_up_or_are_refused() -> None:
    try:
        config = from_flat(ppo=PPOConfig(n_steps=8), gamma=0.5)
    except ConfigError:
        return
    assert (config.ppo.n_steps, config.ppo.gamma) == (8, 0.5)


def test_a_setting_given_twice_with_two_values_is_refused() -> None:
    assert "n_steps" in validation_error(n_steps=16, ppo={"n_steps": 8})


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"robust": {"epsilon": 0.1}}, "robust.epsilon cannot act without robust.kind"),
        ({"vgs": {"beta": 0.99}}, "vgs.beta cannot act without vgs.alpha"),
        ({"imitation": {"beta": 1.0, "max_weight": 20.0}}, "imitation.beta, imitation.max_weight cannot act without"),
        ({"upgd": {"sigma": 0.001}}, "upgd.sigma cannot act without ppo.optimizer"),
        ({"upgd": {"sigma": 0.001}, "ppo": {"gamma": 0.9}}, "upgd.sigma cannot act without ppo.optimizer"),
        ({"risk": {"alpha": 0.05}}, "risk.alpha cannot act without risk.kind"),
        ({"memory": {"hidden_size": 64}}, "memory.hidden_size cannot act without memory.kind"),
    ],
    ids=str,
)
def test_a_default_value_of_a_section_that_is_off_is_refused(settings: dict[str, Any], named: str) -> None:
    """Whoever writes it believes that it acts; that it equals the default says nothing."""
    assert named in complaint_in_sections(settings)


def test_a_section_that_is_said_to_be_off_keeps_its_settings() -> None:
    """So do all sections of a written configuration."""
    assert from_dict(Config().model_dump()) == Config()
    assert from_flat(robust={"kind": "none", "epsilon": 0.1}) == from_flat()
    assert from_flat(optimizer="upgd", upgd={"sigma": 0.001}).upgd.sigma == 0.001


def test_moments_that_forget_everything_see_no_noise() -> None:
    assert "vgs.beta = 0.0" in validation_error(vgs={"alpha": 0.5, "beta": 0.0})


def test_bfloat16_is_not_compiled() -> None:
    assert "ppo.autocast" in validation_error(compile=True, autocast="bfloat16")


def test_an_agent_that_only_acts_may_have_been_saved_with_what_training_refuses() -> None:
    for section, given in (("vgs", {"alpha": 0.5, "beta": 0.0}), ("imitation", {"coef": 1.0, "beta": 1e-7})):
        with pytest.raises(ConfigError, match=rf"{section}\.beta"):
            from_dict({section: given})
        assert from_dict({section: given}, acting=True)


@pytest.mark.parametrize(("section", "place"), [("imitation", "demonstrations"), ("market", "data")])
def test_another_file_has_another_sha256(section: str, place: str) -> None:
    base = {section: {place: "one", "fingerprint": "0" * 64}}
    assert merge(base, {section: {place: "two"}}) == {section: {place: "two"}}
    assert merge(base, {section: {"coef": 0.5}})[section]["fingerprint"] == "0" * 64
    again = {section: {place: "two", "fingerprint": "1" * 64}}
    assert merge(base, again) == again
