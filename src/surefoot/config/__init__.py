"""Settings: schema, loading, presets. Knows no torch, so that `surefoot --help` is quick."""

from surefoot.config.load import config_hash, from_dict, from_flat, from_toml, merge, to_toml
from surefoot.config.schema import Config, CriticConfig, PolicyConfig, PPOConfig, RunConfig, Section

__all__ = [
    "Config",
    "CriticConfig",
    "PPOConfig",
    "PolicyConfig",
    "RunConfig",
    "Section",
    "config_hash",
    "from_dict",
    "from_flat",
    "from_toml",
    "merge",
    "to_toml",
]
