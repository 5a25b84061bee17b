"""Configuration files: what is written is read back equal; a broken file is named; options win over files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surefoot.config import Config, config_hash, from_dict, from_flat, from_toml, merge, to_toml
from surefoot.config.load import leaves
from surefoot.errors import ConfigError

numbers = st.floats(0.0, 1.0)
counts = st.integers(1, 10**6)
sizes = st.lists(st.integers(1, 512), min_size=1, max_size=4).map(tuple)
coefficients = st.one_of(
    numbers,
    st.builds("linear({}, {})".format, numbers, numbers),
    st.builds("cosine({}, {})".format, numbers, numbers),
    st.builds("piecewise(0: {}, 1: {})".format, numbers, numbers),
    st.builds("warmup(0.25, linear({}, {}))".format, numbers, numbers),
)
positive = st.floats(1e-6, 1e6)
plain = st.one_of(st.booleans(), st.integers(-(2**62), 2**62), st.floats(allow_nan=False), st.text(max_size=12))
jsons = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "env": st.text(max_size=20),
    "env_kwargs": st.dictionaries(st.text(max_size=8), jsons, max_size=3),
    "n_envs": st.integers(2, 10**6),
    "workers": st.just(0),
    "worker_timeout": positive,
    "seed": st.integers(0, 2**31 - 1),
    "total_timesteps": counts,
    "device": st.sampled_from(["cpu", "cuda", "cuda:0"]),
    "compile": st.sampled_from([True, False, "auto"]),
    "threads": st.integers(1, 64),
    "ppo.learning_rate": coefficients,
    "ppo.critic_learning_rate": st.none() | coefficients,
    "ppo.n_steps": st.integers(2, 10**5),
    "ppo.batch_size": st.none() | st.just(2),
    "ppo.n_epochs": st.integers(2, 10**6),
    "ppo.gamma": numbers,
    "ppo.gae_lambda": numbers,
    "ppo.clip_range": coefficients,
    "ppo.clip_range_vf": st.none() | coefficients,
    "ppo.normalize_advantage": st.sampled_from(["rollout", "minibatch", "env", "none"]),
    "ppo.ent_coef": coefficients | st.just("decay(0.1, 0.01, 7)"),
    "ppo.vf_coef": coefficients,
    "ppo.max_grad_norm": st.none() | positive,
    "ppo.target_kl": st.none() | positive,
    "ppo.kl_estimator": st.sampled_from(["k1", "k2", "k3", "exact"]),
    "ppo.adaptive_lr_kl": st.none() | positive,
    "ppo.kl_coef": coefficients,
    "ppo.adaptive_kl_coef": st.just(False),
    "ppo.entropy_floor": st.none(),
    "policy.std_min": st.none() | st.floats(0.01, 0.5),
    "policy.std_max": st.none() | st.floats(10.0, 20.0),
    "ppo.dual_clip": st.none() | st.floats(1.5, 10.0),
    "ppo.log_ratio_bound": st.sampled_from(["clamp", "tanh"]),
    "ppo.logit_penalty": coefficients,
    "ppo.optimizer": st.sampled_from(["adam", "adamw"]),
    "upgd.beta_utility": st.floats(0.0, 0.99),
    "upgd.sigma": positive,
    "upgd.exempt_vectors": st.booleans(),
    "imitation.coef": positive | coefficients.filter(lambda c: c != 0.0),
    "vgs.alpha": positive,
    "vgs.beta": st.floats(0.01, 0.99),
    "ppo.adam_eps": positive,
    "ppo.adam_betas": st.tuples(st.floats(0.0, 0.99), st.floats(0.0, 0.99)),
    "ppo.weight_decay": numbers,
    "ppo.decay_scope": st.sampled_from(["critic", "all"]),
    "ppo.micro_batch_size": st.none() | st.just(1),
    "ppo.max_nonfinite_updates": counts,
    "ppo.normalize_observations": st.booleans(),
    "ppo.normalize_rewards": st.booleans(),
    "ppo.observation_clip": positive,
    "ppo.reward_clip": positive,
    "policy.hidden_sizes": sizes,
    "policy.activation": st.sampled_from(["tanh", "relu", "elu", "silu", "gelu"]),
    "policy.layer_norm": st.booleans(),
    "policy.shared": st.booleans(),
    "policy.ortho_init": st.booleans(),
    "policy.distribution": st.sampled_from(["auto", "gaussian", "tanh_gaussian"]),
    "policy.log_std_init": st.floats(-0.5, 2.0),
    "policy.state_dependent_std": st.booleans(),
    "policy.cnn_channels": sizes,
    "policy.cnn_features": counts,
    "critic.kind": st.just("scalar"),
    "memory.hidden_size": counts,
    "memory.layers": counts,
    "run.checkpoint_every": st.integers(0, 10**9),
    "run.keep_checkpoints": counts,
    "run.log_interval": counts,
    "run.eval_every": st.integers(0, 10**9),
    "run.eval_env": st.text(max_size=8),
    "run.eval_env_kwargs": st.dictionaries(st.text(max_size=8), jsons, max_size=3),
    "run.eval_episodes": counts,
    "run.patience": st.integers(0, 100),
    "run.sinks": st.lists(st.sampled_from(["tensorboard", "wandb", "mlflow"]), unique=True).map(tuple),
}


def sections(flat: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for dotted, value in flat.items():
        section, _, name = dotted.rpartition(".")
        (nested.setdefault(section, {}) if section else nested)[name] = value
    return nested


def consistent(flat: dict[str, Any]) -> dict[str, Any]:
    """Set what other drawn settings need in order to take effect."""
    if "ppo.observation_clip" in flat:
        flat["ppo.normalize_observations"] = True
    if "ppo.reward_clip" in flat:
        flat["ppo.normalize_rewards"] = True
    if "ppo.optimizer" in flat or "ppo.decay_scope" in flat:
        flat["ppo.weight_decay"] = 0.01
    if any(name.startswith("upgd.") for name in flat):
        flat |= {"ppo.optimizer": "adaupgd", "ppo.weight_decay": 0.01}
    if "vgs.beta" in flat:
        flat["vgs.alpha"] = 0.5
    if "worker_timeout" in flat:
        flat["workers"] = 1
    if any(name.startswith("memory.") for name in flat):
        flat |= {"memory.kind": "lstm", "compile": "auto", "ppo.micro_batch_size": None}
    if flat.get("ppo.adaptive_lr_kl") is not None:
        flat["ppo.learning_rate"] = 3e-4
    if any(name in flat for name in ("run.patience", "run.eval_episodes", "run.eval_env", "run.eval_env_kwargs")):
        flat["run.eval_every"] = 1000
    if "run.keep_checkpoints" in flat:
        flat["run.checkpoint_every"] = 1000
    return flat


valid = st.fixed_dictionaries({}, optional=FIELDS).map(consistent).map(sections)


def written(config: Config, path: Path) -> Path:
    path.write_text(to_toml(config), encoding="utf-8")
    return path


def test_the_table_names_no_field_that_is_gone() -> None:
    assert FIELDS.keys() - dict(leaves()).keys() == set()


@given(valid)
@settings(max_examples=60, deadline=None)
def test_any_valid_configuration_is_read_back_equal(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    config = from_dict(data)
    path = written(config, tmp_path_factory.getbasetemp() / "config.toml")
    again = from_dict(from_toml(path))
    assert again == config
    assert config_hash(again) == config_hash(config)


@pytest.mark.parametrize("text", ["é", "😀", "\x7f", '"quoted"', "back\\slash", "two\nlines", "\x00", "a.b", "#", ""])
def test_any_text_is_read_back_equal(tmp_path: Path, text: str) -> None:
    config = from_flat(env_kwargs={text or "empty": text, "inner": {text: [text]}})
    assert from_dict(from_toml(written(config, tmp_path / "c.toml"))) == config


@pytest.mark.parametrize("value", [None, {"inner": None}, [None]])
def test_a_null_that_toml_cannot_hold_is_refused_not_dropped(tmp_path: Path, value: Any) -> None:
    config = from_flat(env_kwargs={"option": value})
    with pytest.raises(ConfigError, match=r"option|None"):
        to_toml(config)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", 1 + 2j])
def test_an_argument_that_no_file_can_hold_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="cannot be written"):
        to_toml(from_flat(env_kwargs={"option": value}))


def test_defaults_are_written_in_full() -> None:
    text = to_toml(Config(env="CartPole-v1"))
    absent_by_default = {name for name, field in leaves() if field.get_default(call_default_factory=True) is None}
    missing = {name for name, _ in leaves() if f"\n{name.rpartition('.')[2]} =" not in f"\n{text}"} - absent_by_default
    assert missing == {"env_kwargs"}


def test_different_settings_have_different_hashes() -> None:
    hashes = {config_hash(from_flat(seed=seed, gamma=gamma)) for seed in range(3) for gamma in (0.9, 0.99)}
    assert len(hashes) == 6


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"[ppo\nn_steps = 8", "not valid TOML"),
        (b"n_envs = ", "not valid TOML"),
        (b"n_envs = 1\nn_envs = 2", "not valid TOML"),
        (b"\xff\xfe\x00", "not valid TOML"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, content: bytes, part: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=part) as caught:
        from_toml(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config file at .*absent\.toml"):
        from_toml(tmp_path / "absent.toml")


def test_a_directory_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the config file"):
        from_toml(tmp_path)


def test_numbers_in_quotes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "quoted.toml"
    path.write_text('n_envs = "2"\n[ppo]\ngamma = "0.9"\n')
    with pytest.raises(ConfigError) as caught:
        from_dict(from_toml(path))
    assert "n_envs = '2'" in str(caught.value)
    assert "ppo.gamma = '0.9'" in str(caught.value)


def test_overrides_win_setting_by_setting() -> None:
    base = {"n_envs": 2, "ppo": {"n_steps": 8, "gamma": 0.9}}
    assert merge(base, {"seed": 3, "ppo": {"gamma": 0.5}}) == {
        "n_envs": 2,
        "seed": 3,
        "ppo": {"n_steps": 8, "gamma": 0.5},
    }
    assert base == {"n_envs": 2, "ppo": {"n_steps": 8, "gamma": 0.9}}


def test_arguments_of_the_env_are_replaced_as_a_whole() -> None:
    assert merge({"env_kwargs": {"a": 1}}, {"env_kwargs": {"b": 2}}) == {"env_kwargs": {"b": 2}}
    run = {"run": {"eval_env_kwargs": {"a": 1}, "eval_every": 3}}
    assert merge(run, {"run": {"eval_env_kwargs": {"b": 2}}})["run"] == {"eval_env_kwargs": {"b": 2}, "eval_every": 3}


def test_an_override_does_not_hide_a_section_of_the_wrong_type() -> None:
    with pytest.raises(ConfigError, match="ppo = 3"):
        from_dict(merge({"ppo": 3}, {"ppo": {"gamma": 0.5}}))
