"""What a list of heads says about choosing, as tables: made once, used for every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefoot.actions.conditional import Conditionals, conditionals_of
from surefoot.actions.distribution import Array
from surefoot.actions.head_graph import Dependence, dependence_of, depth
from surefoot.actions.heads import Head
from surefoot.actions.masks import MaskForm
from surefoot.math.segments import Segments


class Plan(NamedTuple):
    """Everything about H choice heads with S choices in all that does not change: tables on one device."""

    segments: Segments
    dependence: Dependence
    first_flag: Tensor
    """[S] where the flag of each choice stands in a wide mask, in context 0."""
    context_step: Tensor
    """[S] how much farther it stands in the next context."""
    context_head: Tensor
    """[S] the head that decides the context."""
    flag: Tensor
    """[V, S] where the flag of each choice stands, in each context."""
    entry: Tensor
    """[K, C] where, in a row [V·S], the choice of each control in each joint choice stands."""
    conditionals: Conditionals
    """What a bonus for the joint entropy needs."""
    levels: Tensor
    """[D, H] bool: the heads that choose first, second, …"""
    has_irrelevant: bool
    wide: bool

    @property
    def has_branches(self) -> bool:
        """Whether some choice changes what other heads can do: the joint entropy is then not the sum of theirs."""
        return self.has_irrelevant or self.wide

    def flags(self, mask: Tensor, choice: Tensor) -> Tensor:
        """What of a wide mask [B, M] is in force once choices [B, H] are made: [B, S]."""
        context = choice.index_select(-1, self.context_head)
        return mask.gather(-1, self.first_flag + self.context_step * context)

    def stuck(self, masks: Array) -> tuple[int, int, dict[int, int]] | None:
        """The first of the masks [N, M] under which legal choices lead to a head that has none: env, head, and the
        choices of the controls by head; None if there is no such mask."""
        dependence = self.dependence
        everywhere = masks[:, self.flag.numpy()] if self.wide else masks[:, None]
        # [N, V, H] and, in each joint choice that can occur, [N, K, H]
        has_choice = np.logical_or.reduceat(everywhere, self.segments.first.numpy(), axis=-1)
        row = np.arange(dependence.context.shape[1])
        has_choice = has_choice[:, dependence.context.numpy(), row]
        legal = everywhere.reshape(len(masks), -1)[:, self.entry.numpy()]
        legal |= ~dependence.matters.numpy()[:, dependence.controls.numpy()]
        reached = (legal[:, :, None, :] | ~dependence.above.numpy()).all(-1)
        stuck = reached & dependence.matters.numpy()[:, : len(row)] & ~has_choice
        if not stuck.any():
            return None
        env, k, h = (int(i) for i in np.argwhere(stuck)[0])
        return env, h, dict(zip(dependence.controls.tolist(), dependence.joint[k].tolist(), strict=True))

    def to(self, device: torch.device) -> Plan:
        """The same on another device."""
        return Plan(*(x if isinstance(x, bool) else x.to(device) for x in self))  # type: ignore[arg-type]  # in order


def plan_of(heads: Sequence[Head], wide: bool) -> Plan:
    """The tables of heads, choice heads first."""
    choices = [head for head in heads if head.size is not None]
    form = MaskForm.of_heads(heads)
    sizes = np.array(form.sizes)
    segments, dependence = Segments.of(form.sizes), dependence_of(heads, wide)
    owner, n_parent_actions = segments.owner.numpy(), dependence.reach.shape[1]
    begin = np.cumsum(sizes * form.contexts) - sizes * form.contexts
    first_flag = (begin - (np.cumsum(sizes) - sizes))[owner] + np.arange(len(owner))
    step = np.where(np.array(form.contexts) > 1, sizes, 0)[owner]
    last = np.array(form.contexts)[owner] - 1
    flag = first_flag + step * np.minimum(np.arange(n_parent_actions)[:, None], last)
    controls = dependence.controls
    entry = dependence.context[:, controls] * len(owner) + segments.first[controls] + dependence.joint
    depths = torch.tensor([depth(h, heads) for h in range(len(choices))], dtype=torch.int64)
    everywhere = torch.from_numpy(flag) if wide else torch.arange(len(owner))[None]
    parents = [head.given if wide else None for head in choices]
    levels = depths == torch.arange(int(depths.max()) + 1 if choices else 0)[:, None]
    given = np.array([head.given or 0 for head in choices], dtype=np.int64)
    return Plan(
        segments,
        dependence,
        torch.from_numpy(first_flag),
        torch.from_numpy(step),
        torch.from_numpy(given[owner]),
        torch.from_numpy(flag),
        entry,
        conditionals_of(segments, dependence, everywhere, parents),
        levels,
        not bool(dependence.relevant.all()),
        wide,
    )
