"""Settings: schema, loading, presets. Knows no torch, so that `surefoot --help` is quick."""

from surefoot.config.load import config_hash, from_dict, from_flat, from_toml, merge, nested, to_toml
from surefoot.config.market import MarketConfig
from surefoot.config.schema import (
    Config,
    CriticConfig,
    MemoryConfig,
    PolicyConfig,
    PPOConfig,
    RiskConfig,
    RunConfig,
)
from surefoot.config.section import Section

__all__ = [
    "Config",
    "CriticConfig",
    "MarketConfig",
    "MemoryConfig",
    "PPOConfig",
    "PolicyConfig",
    "RiskConfig",
    "RunConfig",
    "Section",
    "config_hash",
    "from_dict",
    "from_flat",
    "from_toml",
    "merge",
    "nested",
    "to_toml",
]
