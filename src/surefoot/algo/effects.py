"""Options that have no effect on the env at hand are refused (P12)."""

from __future__ import annotations

from surefoot.config import Config
from surefoot.config.section import changed
from surefoot.errors import ConfigError
from surefoot.spaces import Layout


def require_effective(config: Config, layout: Layout) -> None:
    """Raise if an option for images, numbers or hidden layers is set and there are none; ``layout`` is what is seen."""
    policy = config.policy
    has_layers = policy.hidden_sizes or policy.critic_hidden_sizes or policy.encoder
    if config.ppo.autocast and not has_layers and not any(leaf.is_image for leaf in layout.leaves):
        raise ConfigError("ppo.autocast is for hidden layers and convolutions: policy.hidden_sizes is empty")
    if not any(leaf.is_image for leaf in layout.leaves):
        for name in ("cnn_channels", "cnn_features"):
            if changed(policy, name):
                raise ConfigError(
                    f"policy.{name} is for images, uint8 with three axes: the env gives none; leave it out"
                )
    if config.ppo.normalize_observations and not any(leaf.is_continuous for leaf in layout.leaves):
        raise ConfigError(
            "ppo.normalize_observations scales float numbers, and the env's observations hold none; leave it out"
        )
