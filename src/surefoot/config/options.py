"""Sections of options beside plain PPO: optimizers, gradient scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from surefoot.config.section import Decay, Section, changed, changed_fields

if TYPE_CHECKING:
    from surefoot.config.schema import Config


class UPGDConfig(Section):
    """Utility-based perturbed gradient descent, for ppo.optimizer = "upgd" or "adaupgd"."""

    beta_utility: Decay = 0.999
    """Decay of the running utility of each weight."""
    sigma: Annotated[float, Ge(0.0)] = 0.001
    """Standard deviation of the noise that is added to the direction of each step."""
    exempt_vectors: bool = False
    """Leave biases, log standard deviations and LayerNorm without noise and weight decay. The authors exempt none."""


class VGSConfig(Section):
    """Learning rates lowered by the noise of the gradient, tensor by tensor."""

    alpha: Annotated[float, Ge(0.0)] = 0.0
    """Weight of noise/signal in the multiplier 1/(1 + alpha·noise/signal); 0 turns it off."""
    beta: Decay = 0.99
    """Decay of the running moments of the gradient."""


def option_errors(config: Config) -> list[str]:
    """Options that cannot take effect together (P12)."""
    return [*_upgd_errors(config), *_vgs_errors(config)]


def _upgd_errors(config: Config) -> list[str]:
    found = []
    given = changed_fields(config.upgd)
    if given and config.ppo.optimizer not in ("upgd", "adaupgd"):
        found.append(f'upgd.{", upgd.".join(given)} needs ppo.optimizer: "upgd" or "adaupgd"')
    if config.upgd.exempt_vectors and not config.upgd.sigma and not config.ppo.weight_decay:
        found.append("upgd.exempt_vectors has nothing to exempt from: upgd.sigma and ppo.weight_decay are 0")
    inert = [f"ppo.{name}" for name in ("adam_betas", "adam_eps") if changed(config.ppo, name)]
    if inert and config.ppo.optimizer == "upgd":
        found.append(f'{", ".join(inert)} cannot act: ppo.optimizer = "upgd" has no moments; "adaupgd" has')
    return found


def _vgs_errors(config: Config) -> list[str]:
    given = changed_fields(config.vgs, "alpha")
    return [f"vgs.{', vgs.'.join(given)} needs vgs.alpha > 0"] if given and not config.vgs.alpha else []
