"""What a list of heads says about choosing, as tables: made once, used for every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefoot.actions.conditional import Conditionals, conditionals_of
from surefoot.actions.distribution import Array
from surefoot.actions.head_graph import HeadGraph, depth, head_graph_of
from surefoot.actions.heads import Head
from surefoot.actions.masks import MaskForm
from surefoot.math.segments import Segments


class HeadTables(NamedTuple):
    """Everything about H choice heads with S choices in all that does not change, on one device."""

    segments: Segments
    graph: HeadGraph
    first_flag: Tensor
    """[S] where the flag of each choice stands in a conditional mask, for parent action 0."""
    flag_step: Tensor
    """[S] how much farther it stands for the next parent action."""
    flag_parent: Tensor
    """[S] the head whose choice is the parent action."""
    flag: Tensor
    """[V, S] where the flag of each choice stands, for each parent action."""
    conditionals: Conditionals
    """What a bonus for the joint entropy needs."""
    levels: Tensor
    """[D, H] bool: the heads that choose first, second, …"""
    has_inactive: bool
    """Whether some choice makes a head inactive."""
    conditional: bool
    """Whether masks depend on parent actions."""

    @property
    def has_branches(self) -> bool:
        """Whether some choice changes what other heads can do: the joint entropy is then not the sum of theirs."""
        return self.has_inactive or self.conditional

    def flags(self, mask: Tensor, choice: Tensor) -> Tensor:
        """What of a conditional mask [B, M] is in force once choices [B, H] are made: [B, S]."""
        parent_action = choice.index_select(-1, self.flag_parent)
        return mask.gather(-1, self.first_flag + self.flag_step * parent_action)

    def stuck(self, masks: Array) -> tuple[int, int, dict[int, int]] | None:
        """The first of the masks [N, M] under which legal choices lead to a head that has none: env, head, and the
        choices of the parent heads by head; None if there is no such mask."""
        graph, first = self.graph, self.segments.first.numpy()
        parents, parent_action = graph.parents.numpy(), graph.parent_action.numpy()
        everywhere = masks[:, self.flag.numpy()] if self.conditional else masks[:, None]
        # [N, V, H] and, in each joint choice that can occur, [N, K, H]
        has_choice = np.logical_or.reduceat(everywhere, first, axis=-1)
        has_choice = has_choice[:, parent_action, np.arange(len(first))]
        legal = everywhere[:, parent_action[:, parents], first[parents] + graph.joint.numpy()]
        legal |= ~graph.joint_active.numpy()[:, parents]
        reached = (legal[:, :, None, :] | ~graph.ancestors.numpy()).all(-1)
        stuck = reached & graph.joint_active.numpy()[:, : len(first)] & ~has_choice
        if not stuck.any():
            return None
        env, k, h = (int(i) for i in np.argwhere(stuck)[0])
        return env, h, dict(zip(parents.tolist(), graph.joint[k].tolist(), strict=True))

    def to(self, device: torch.device) -> HeadTables:
        """The same on another device."""
        return HeadTables(*(x if isinstance(x, bool) else x.to(device) for x in self))  # type: ignore[arg-type]  # in order


def head_tables_of(heads: Sequence[Head], conditional: bool) -> HeadTables:
    """The tables of heads, choice heads first, for masks that depend on parent actions or do not."""
    choices = [head for head in heads if head.size is not None]
    form = MaskForm.of_heads(heads)
    sizes, n_rows = np.array(form.sizes), np.array(form.n_parent_actions)
    segments, graph = Segments.of(form.sizes), head_graph_of(heads, conditional)
    owner, n_parent_actions = segments.owner.numpy(), graph.active_given.shape[1]
    begin = np.cumsum(sizes * n_rows) - sizes * n_rows
    first_flag = (begin - (np.cumsum(sizes) - sizes))[owner] + np.arange(len(owner))
    step = np.where(n_rows > 1, sizes, 0)[owner]
    flag = first_flag + step * np.minimum(np.arange(n_parent_actions)[:, None], n_rows[owner] - 1)
    depths = torch.tensor([depth(h, heads) for h in range(len(choices))], dtype=torch.int64)
    everywhere = torch.from_numpy(flag) if conditional else torch.arange(len(owner))[None]
    mask_parents = [head.mask_parent if conditional else None for head in choices]
    flag_parent = np.array([head.mask_parent or 0 for head in choices], dtype=np.int64)[owner]
    return HeadTables(
        segments,
        graph,
        torch.from_numpy(first_flag),
        torch.from_numpy(step),
        torch.from_numpy(flag_parent),
        torch.from_numpy(flag),
        conditionals_of(segments, graph, everywhere, mask_parents),
        depths == torch.arange(int(depths.max()) + 1 if choices else 0)[:, None],
        not bool(graph.active.all()),
        conditional,
    )
