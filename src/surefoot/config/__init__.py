"""Settings: schema, loading, presets. Knows no torch, so that `surefoot --help` is quick."""

from surefoot.config.load import config_hash, from_dict, from_flat, from_toml, merge, nested, to_toml
from surefoot.config.market import MarketConfig
from surefoot.config.options import ImitationConfig, RobustConfig, UPGDConfig, VGSConfig
from surefoot.config.schema import (
    Config,
    CriticConfig,
    MemoryConfig,
    PolicyConfig,
    PPOConfig,
    RiskConfig,
    RunConfig,
)
from surefoot.config.section import Section, accept_names_of

__all__ = [
    "Config",
    "CriticConfig",
    "ImitationConfig",
    "MarketConfig",
    "MemoryConfig",
    "PPOConfig",
    "PolicyConfig",
    "RiskConfig",
    "RobustConfig",
    "RunConfig",
    "Section",
    "UPGDConfig",
    "VGSConfig",
    "accept_names_of",
    "config_hash",
    "from_dict",
    "from_flat",
    "from_toml",
    "merge",
    "nested",
    "to_toml",
]
