"""Actor and critic over one observation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from surefoot.actions.distribution import Family
from surefoot.config import Config, PolicyConfig
from surefoot.config.critic_rules import decided_targets
from surefoot.critics.auxiliary import Auxiliary, WithAuxiliary
from surefoot.critics.base import Critic
from surefoot.critics.build import build_critic, with_auxiliary
from surefoot.nets.init import Initializer
from surefoot.policy.encoder import Encoder
from surefoot.policy.memories import build_memory
from surefoot.policy.memory import Memory, SequenceBatch
from surefoot.policy.output_layer import ActionOutput
from surefoot.policy.own_encoder import EncoderClass, OwnEncoder
from surefoot.policy.side_by_side import SideBySide
from surefoot.spaces import CONTEXT_LEAF, Layout

Observation = Mapping[str, Tensor]


class PolicyOutput(NamedTuple):
    """One step of N envs: action parameters [N, P] and memory state after it [N, n]."""

    parameters: Tensor
    state: Tensor


class Policy(nn.Module):
    """Encoder -> (memory) -> action output, and encoder -> (memory) -> critic, with own or shared trunks."""

    def __init__(
        self,
        encoder: Encoder | OwnEncoder,
        memory: Memory | None,
        output: ActionOutput,
        value_encoder: Encoder | OwnEncoder | SideBySide,
        value_memory: Memory | None,
        critic: Critic,
        context: str | None = None,
        autocast: str | None = None,
    ) -> None:
        """``context`` is the leaf of observations that the critic sees beside the features, ``autocast`` the type of
        device on which encoders compute in bfloat16."""
        super().__init__()
        self._context, self.autocast = context, autocast
        self.encoder, self.memory, self.output = encoder, memory, output
        self.value_encoder, self.value_memory, self.critic = value_encoder, value_memory, critic
        own = 0 if value_memory is None or value_memory is memory else value_memory.state_size
        self.state_size = (0 if memory is None else memory.state_size) + own
        """Numbers of memory state per env; 0 without memory."""
        self.value_hidden = slice(0, 0)
        """Which of these the critic sees next."""
        if value_memory is not None:
            shown, skipped = value_memory.hidden, self.state_size - value_memory.state_size
            self.value_hidden = slice(skipped + shown.start, skipped + shown.stop)

    @property
    def n_context(self) -> int:
        """Columns of the episode's context that the critic sees."""
        return self.critic.spec.n_context if isinstance(self.critic, WithAuxiliary) else 0

    @property
    def shared(self) -> bool:
        """Whether actor and critic have one encoder."""
        return self.value_encoder is self.encoder

    def action_parameters(self, observation: Observation) -> Tensor:
        """Parameters [B, P] of the action distribution, without memory."""
        out: Tensor = self.output(self._features(self.encoder, observation))
        return out

    def parameters_at(self, observation: Observation, sequences: SequenceBatch | None) -> Tensor:
        """Action parameters [B, P] alone, of rows in sequences; without them a memory takes each row for a first
        step."""
        features = self._features(self.encoder, observation)
        if self.memory is not None:
            if sequences is None:
                features, _ = self.memory.step(features, features.new_zeros(features.shape[0], self.memory.state_size))
            else:
                features = self.memory.rows(features, sequences, slice(self.memory.state_size))
        out: Tensor = self.output(features)
        return out

    def prediction(self, observation: Observation, sequences: SequenceBatch | None = None) -> Tensor:
        """Critic's prediction [B, K] alone."""
        features = self._features(self.value_encoder, observation)
        if self.memory is not None and self.value_memory is not None and sequences is not None:
            skipped = 0 if self.value_memory is self.memory else self.memory.state_size
            features = self.value_memory.rows(features, sequences, slice(skipped, None))
        return self._judge(features, observation)

    def prediction_after(self, hidden: Tensor, observation: Observation) -> Tensor:
        """The same with memory, from what the memory gave out [B, H]."""
        assert self.value_memory is not None
        return self._judge(self.value_memory.finish(hidden), observation)

    def step(self, observation: Observation, state: Tensor) -> PolicyOutput:
        """One step of N envs with memory."""
        features, value_features = self._encode(observation)
        if self.memory is None or self.value_memory is None:
            return PolicyOutput(self.output(features), state)
        features, after = self.memory.step(features, state[:, : self.memory.state_size])
        if self.value_memory is not self.memory:
            _, value_after = self.value_memory.step(value_features, state[:, self.memory.state_size :])
            after = torch.cat([after, value_after], 1)
        return PolicyOutput(self.output(features), after)

    def forward(self, observation: Observation, sequences: SequenceBatch | None = None) -> tuple[Tensor, Tensor]:
        """Action parameters and critic predictions of B rows; what is shared runs once."""
        features, value_features = self._encode(observation)
        if self.memory is not None and self.value_memory is not None and sequences is not None:
            split = self.memory.state_size
            remembered = self.memory.rows(features, sequences, slice(split))
            if self.value_memory is self.memory:
                value_features = remembered
            else:
                value_features = self.value_memory.rows(value_features, sequences, slice(split, None))
            features = remembered
        return self.output(features), self._judge(value_features, observation)

    def parts(self) -> dict[str, nn.Module]:
        """The modules whose gradients are reported apart; each parameter is in exactly one (O05)."""
        parts: dict[str, nn.Module] = {"encoder": self.encoder}
        if self.memory is not None:
            parts["memory"] = self.memory
        return parts | {"output": self.output} | self.critic_parts()

    def critic_parts(self) -> dict[str, nn.Module]:
        """The parts that only the value loss trains; weight decay acts on these (O04)."""
        parts: dict[str, nn.Module] = {}
        if not self.shared:
            parts["value_encoder"] = self.value_encoder
        if self.value_memory is not None and self.value_memory is not self.memory:
            parts["value_memory"] = self.value_memory
        return parts | self.critic.parts()

    def _judge(self, features: Tensor, observation: Observation) -> Tensor:
        """The critic's prediction from features, and from the episode's context if it sees that."""
        if self._context is not None:
            features = torch.cat([features, observation[self._context]], 1)
        out: Tensor = self.critic(features)
        return out

    def _encode(self, observation: Observation) -> tuple[Tensor, Tensor]:
        features = self._features(self.encoder, observation)
        return features, features if self.shared else self._features(self.value_encoder, observation)

    def _features(self, encoder: nn.Module, observation: Observation) -> Tensor:
        """Of float32. A memory is not in the block: rounded at every step, its state would not be that of a sequence in
        one call, and the ratios of an update would not start at 1."""
        if self.autocast is None:
            features: Tensor = encoder(observation)
            return features
        with torch.autocast(self.autocast, dtype=torch.bfloat16):
            features = encoder(observation)
        return features.to(torch.float32)


def build_policy(
    layout: Layout,
    family: Family,
    config: Config,
    generator: torch.Generator,
    encoder: EncoderClass | None = None,
    auxiliary: Auxiliary | None = None,
) -> Policy:
    """A freshly initialized policy; equal generators give equal weights, and the global random stream is left alone.

    ``encoder`` makes the encoders in place of `Encoder`; ``auxiliary`` is what the critic predicts beside the return.
    """
    with torch.random.fork_rng(devices=[]):
        if encoder is not None:  # it draws from the global stream, if at all
            torch.manual_seed(int(torch.randint(2**62, (), generator=generator, device="cpu")))
        return _build(layout, family, config, generator, encoder, auxiliary)


def _build(
    layout: Layout,
    family: Family,
    config: Config,
    generator: torch.Generator,
    own: EncoderClass | None,
    auxiliary: Auxiliary | None,
) -> Policy:
    init = Initializer(generator, config.policy.ortho_init)
    encoder = _encoder(layout, config.policy, init, own)
    memory = build_memory(config, encoder.n_outputs, init)
    output = ActionOutput(encoder.n_outputs if memory is None else memory.n_outputs, family, init)
    value_encoder = encoder if config.policy.shared else _value_encoder(layout, config, init, own)
    value_memory = memory if config.memory.shared else build_memory(config, value_encoder.n_outputs, init)
    n_features = value_encoder.n_outputs if value_memory is None else value_memory.n_outputs
    critic = build_critic(decided_targets(config), n_features, init)
    if auxiliary is not None:
        critic = with_auxiliary(critic, auxiliary, config.critic, n_features, init, config.policy.activation)
    context = CONTEXT_LEAF if auxiliary is not None and auxiliary.n_context else None
    autocast = None if config.ppo.autocast is None else torch.device(config.device).type
    return Policy(encoder, memory, output, value_encoder, value_memory, critic, context, autocast)


def _encoder(layout: Layout, policy: PolicyConfig, init: Initializer, own: EncoderClass | None) -> Encoder | OwnEncoder:
    return Encoder(layout, policy, init) if own is None else OwnEncoder(own, layout)


def _value_encoder(
    layout: Layout, config: Config, init: Initializer, own: EncoderClass | None
) -> Encoder | OwnEncoder | SideBySide:
    policy = config.policy
    if policy.critic_hidden_sizes is not None:
        policy = policy.model_copy(update={"hidden_sizes": policy.critic_hidden_sizes})
    if config.critic.twin != "trunks":
        return _encoder(layout, policy, init, own)
    return SideBySide(_encoder(layout, policy, init, own), _encoder(layout, policy, init, own))
