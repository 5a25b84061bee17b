"""Several heads at once, some of which are active only after some choices of others (F02, F05).

The joint distribution is that of choosing head by head, parents before those that depend on them:

    p(a) = Π_h p_h(a_h | the parent action on which its mask depends), over the heads that are active in a

An inactive head takes a fixed action (a choice head: 0) with probability 1. It adds nothing to log-probability, entropy
and divergence, and gets no gradient. Heads without parents are independent: Discrete is one such head, MultiDiscrete is
K of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from surefoot.actions.categorical import Categoricals, log_exponential
from surefoot.actions.choice_codec import ChoiceCodec
from surefoot.actions.conditional import conditional_terms
from surefoot.actions.distribution import (
    Array,
    Distribution,
    Family,
    HeadStatistics,
    HeadTerms,
    OutputUnits,
    PackedHeads,
    refuse_mask,
)
from surefoot.actions.head_tables import HeadTables, head_tables_of
from surefoot.actions.heads import Head, Path, assemble, choices_first, parts_of
from surefoot.actions.masks import MaskForm
from surefoot.math import segments as math_segments


class Factored(Distribution):
    """Choice heads bound to logits [B, S] and a flat or conditional mask, and the distributions of the other heads.

    Stored actions are the choices [B, H], followed by the stored actions of the other heads.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None, others: Sequence[Other], tables: HeadTables) -> None:
        self._logits, self._mask, self._others, self._tables = logits, mask, others, tables
        self._kept: Categoricals | None = None

    def sample(self, generator: torch.Generator | None) -> Tensor:
        shape = (*self._logits.shape[:-1], *self._tables.segments.padded.shape)
        choice = self._choose(log_exponential(shape, generator, self._logits.device))
        return self._joined(choice, [other.distribution.sample(generator) for other in self._others])

    def mode(self) -> Tensor:
        """The most likely choice of each head, given the choices of those before it.

        The most likely *joint* action would be another one: it prefers an operation without further choices to a more
        likely one that has many.
        """
        return self._joined(self._choose(None), [other.distribution.mode() for other in self._others])

    def log_prob(self, action: Tensor) -> Tensor:
        """The entries of inactive heads are not read."""
        return _total(self.head_log_prob(action))

    def head_log_prob(self, action: Tensor) -> Tensor:
        choice = self._choices_in(action)
        found = self._given(choice).log_prob(choice)
        if self._others:
            others = [other.distribution.log_prob(action[..., other.columns]) for other in self._others]
            found = torch.cat([found, torch.stack(others, -1)], -1)
        return torch.where(self._tables.graph.is_active(choice), found, 0.0) if self._tables.has_inactive else found

    def heads(self, action: Tensor | None, packed: PackedHeads, joint_entropy: bool = True) -> HeadTerms:
        tables, others = self._tables, None
        is_joint = joint_entropy and tables.has_branches
        if self._others:
            others = torch.stack([other.distribution.entropy() for other in self._others])
        if is_joint:
            log_prob, entropy, expected = conditional_terms(self._logits, packed.status, tables.conditionals, others)
        else:
            log_prob, entropy = math_segments.chosen(self._logits, packed.status, tables.segments, joint_entropy)
        if others is not None:
            assert action is not None, "what is packed says nothing of heads that are no choices"
            log_probs = torch.stack([other.distribution.log_prob(action[..., other.columns]) for other in self._others])
            active = packed.active > 0
            log_prob = torch.cat([log_prob, torch.where(active, log_probs, 0.0)])
            entropy = torch.cat([entropy, torch.where(active, others, 0.0)])
        return HeadTerms(log_prob, entropy, expected if is_joint else entropy)

    def entropy(self) -> Tensor:
        """H(a) = Σ_k p(k) Σ_h active(h, k)·H(h | k), over the joint choices k of the parent heads.

        Exact by the chain rule: the entropy of a joint distribution is that of each head given those before it, in the
        mean over what those choose.
        """
        choices = self._everywhere()
        return self._expected(choices, choices.entropy(), [other.distribution.entropy() for other in self._others])

    def kl(self, new: Self) -> Tensor:
        """KL(a ‖ a′) = Σ_k p(k) Σ_h active(h, k)·KL(h | k), exact by the same chain rule."""
        choices = self._everywhere()
        others = [a.distribution.kl(b.distribution) for a, b in zip(self._others, new._others, strict=True)]
        return self._expected(choices, choices.kl(new._everywhere()), others)

    def _choices_in(self, action: Tensor) -> Tensor:
        return action[..., : self._tables.segments.first.shape[0]].long() if self._others else action

    def _bound(self, logits: Tensor, mask: Tensor | None) -> Categoricals:
        segments = self._tables.segments
        return Categoricals(segments.pad(logits), segments.pad_mask(mask))

    def _given(self, choice: Tensor) -> Categoricals:
        """The distributions [B, H] of the choice heads once the choices before them are made."""
        if not self._tables.conditional:
            return self._unconditional()
        assert self._mask is not None, "these tables are made for conditional masks"
        return self._bound(self._logits, self._tables.flags(self._mask, choice))

    def _unconditional(self) -> Categoricals:
        """The same where no choice changes them; normalized once."""
        if self._kept is None:
            # The first to ask may want no gradient (an entropy that is only logged), and the next one may.
            with torch.set_grad_enabled(self._logits.requires_grad):
                self._kept = self._bound(self._logits, self._mask)
        return self._kept

    def _everywhere(self) -> Categoricals:
        """The distributions of the choice heads: [B, H], or after each parent action [B, V, H]."""
        if not self._tables.conditional:
            return self._unconditional()
        assert self._mask is not None, "these tables are made for conditional masks"
        return self._bound(self._logits.unsqueeze(-2), self._mask[..., self._tables.flag])

    def _choose(self, log_noise: Tensor | None) -> Tensor:
        """Choices [B, H], parents first; inactive heads choose 0."""
        tables = self._tables
        if not tables.conditional:
            choice = self._unconditional().draw(log_noise)
        else:
            shape = (*self._logits.shape[:-1], tables.segments.first.shape[0])
            choice = torch.zeros(shape, dtype=torch.int64, device=self._logits.device)
            for chooses_now in tables.levels:
                choice = torch.where(chooses_now, self._given(choice).draw(log_noise), choice)
        if not tables.has_inactive:
            return choice
        return torch.where(tables.graph.is_active(choice)[..., : choice.shape[-1]], choice, 0)

    def _joined(self, choice: Tensor, others: list[Tensor]) -> Tensor:
        if not others:
            return choice
        active = self._tables.graph.is_active(choice)[..., choice.shape[-1] :]
        kept = [
            torch.where(active[..., i : i + 1], x.to(torch.float32), other.inactive_action)
            for i, (x, other) in enumerate(zip(others, self._others, strict=True))
        ]
        return torch.cat([choice.to(torch.float32), *kept], -1)

    def _expected(self, choices: Categoricals, each: Tensor, others: list[Tensor]) -> Tensor:
        """Σ_k p(k)·(Σ over the active heads) of terms [B, H] or [B, V, H] of the choice heads, and [B] of each other
        head."""
        graph = self._tables.graph
        if not self._tables.has_branches:
            return sum(others, _total(each))
        if not self._tables.conditional:
            each, log_p = each.unsqueeze(-2), choices.log_probs[..., graph.parents, graph.joint]
        else:
            log_p = choices.log_probs[..., graph.parent_action[:, graph.parents], graph.parents, graph.joint]
        p = torch.where(graph.joint_active.index_select(1, graph.parents), log_p, 0.0).sum(-1).exp()
        total = ((p @ graph.active_given.flatten(1).to(p.dtype)) * each.flatten(-2)).sum(-1)
        if others:
            active = graph.joint_active[:, each.shape[-1] :].to(p.dtype)
            total = total + ((p @ active) * torch.stack(others, -1)).sum(-1)
        return total


def _total(by_head: Tensor) -> Tensor:
    """[..., A] -> [...]; of one head without an operation that autograd would have to follow."""
    return by_head.squeeze(-1) if by_head.shape[-1] == 1 else by_head.sum(-1)


class Other(NamedTuple):
    """A head that is no choice among n: its distribution, where its stored action stands, and what that is while the
    head is inactive."""

    distribution: Distribution
    columns: slice
    inactive_action: float


class ChoicePart(NamedTuple):
    """A Discrete or MultiDiscrete leaf of the action space, and where its choices stand in the stored action."""

    path: Path
    codec: ChoiceCodec
    columns: list[int] | slice


class OtherPart(NamedTuple):
    """Any other leaf: its own family, and where its stored action, outputs and state-independent parameters stand."""

    path: Path
    family: Family
    columns: slice
    outputs: slice
    state_independent: slice


class FactoredFamily(Family):
    """Heads over the leaves of an action space.

    Network outputs are the logits of the choice heads one after another, then the outputs of the other heads; masks are
    in the same order (`MaskForm`). Stored actions are int64, or float32 if some head is continuous.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        heads: Sequence[Head],
        leaf_family: Callable[[spaces.Space[Any]], Family],
        by_head: bool = True,
    ) -> None:
        """``leaf_family`` is that of leaves which are no choices; without ``by_head`` the heads have no names and are
        measured as one."""
        self._space = space
        self._heads = choices_first(heads)
        self.form = MaskForm.of_heads(self._heads)
        self._tables: dict[tuple[bool, torch.device], HeadTables] = {}
        self._group_starts = {conditional: self.form.group_starts(conditional) for conditional in (False, True)}
        self._choices, self._others = self._lay_out(leaf_family)
        whole = [part.codec for part in self._choices if part.path == () and part.columns == slice(None)]
        self._codec = whole[0] if whole else None
        """Of an action that is one leaf, whose heads stand in the order of the space."""
        self.n_outputs = self.n_logits + sum(part.family.n_outputs for part in self._others)
        rest = [x for part in self._others if (x := part.family.state_independent) is not None]
        self.state_independent = torch.cat(rest) if rest else None
        self.action_shape = (self._others[-1].columns.stop if self._others else len(self.form.sizes),)
        self.action_dtype = torch.float32 if self._others else torch.int64
        self.mask_width = self.n_logits
        if by_head:
            ends = np.cumsum(self.form.sizes).tolist()
            choices = [slice(end - size, end) for end, size in zip(ends, self.form.sizes, strict=True)]
            self.head_names = tuple(head.name for head in self._heads)
            self.head_outputs = (*choices, *(part.outputs for part in self._others))
        self.tables(conditional=False, device=torch.device("cpu"))

    @property
    def n_logits(self) -> int:
        return self.form.flat_width

    def head_statistics(
        self, action: Tensor, mask: Tensor | None, log_prob: Tensor, joint_entropy: bool = True
    ) -> HeadStatistics:
        """An inactive choice head is packed as one with a single legal choice; for a joint entropy with all its legal
        choices and none made, after each parent action with which it can be active."""
        n_choices = len(self.form.sizes)
        choice = action[:, :n_choices].long()
        tables = self.tables(self.is_conditional(mask), action.device)
        segments, active = tables.segments, tables.graph.is_active(choice)
        if mask is None:
            legal = torch.ones(len(action), self.form.flat_width, device=action.device)
        else:
            legal = (tables.flags(mask, choice) if tables.conditional else mask).to(torch.float32)
        n_legal = torch.where(segments.is_real, segments.pad(legal), 0.0).sum(-1)
        is_active = active.to(torch.float32)
        if joint_entropy and tables.has_branches:
            segments, chosen = tables.conditionals.segments, tables.conditionals.entries_of(choice)
            whole = mask.to(torch.float32) if mask is not None and tables.conditional else legal
            status = whole.index_select(1, tables.conditionals.flag)
            made = torch.where(status.gather(1, chosen) > 0, 1.0, -2.0) * is_active[:, :n_choices]
            status.scatter_add_(1, chosen, made)
        else:
            status, chosen = legal * is_active.index_select(1, segments.owner), choice + segments.first
            as_if_legal = (legal.gather(1, chosen) > 0) | ~active[:, :n_choices]
            status.scatter_(1, chosen, torch.where(as_if_legal, 2.0, -2.0))
        status = torch.where(segments.is_bucketed_real, status.index_select(1, segments.bucketed), 0.0)
        packed = PackedHeads(*(x.t().contiguous() for x in (status, is_active[:, n_choices:], log_prob)))
        return HeadStatistics(
            active.t().contiguous(),
            torch.nn.functional.pad(n_legal, (0, len(self._heads) - n_choices)).t().contiguous(),
            packed,
            action if self._others else None,
            mask if joint_entropy and tables.conditional else None,
        )

    def received(self, params: Tensor) -> Tensor:
        parts = params.clone()
        for part in self._others:
            own = part.family.received(torch.cat([params[..., part.outputs], params[..., part.state_independent]], -1))
            n_outputs = part.family.n_outputs
            parts[..., part.outputs] = own[..., :n_outputs]
            parts[..., part.state_independent] = own[..., n_outputs:]
        return parts

    def bound_std(self, low: float, high: float) -> bool:
        bounded = [part.family.bound_std(low, high) for part in self._others]
        return any(bounded)

    @property
    def max_entropy(self) -> float:
        """As if all heads could be active at once; one that adds less than nothing might be inactive."""
        choices = sum(math.log(size) for size in self.form.sizes)
        return choices + sum(max(part.family.max_entropy, 0.0) for part in self._others)

    def bind(self, params: Tensor, mask: Tensor | None = None) -> Factored:
        if not self.form.names:
            refuse_mask(self, mask)
        tables = self.tables(self.is_conditional(mask), params.device)
        others = [
            Other(
                part.family.bind(torch.cat([params[..., part.outputs], params[..., part.state_independent]], -1)),
                part.columns,
                part.family.inactive_action,
            )
            for part in self._others
        ]
        logits = params[..., : self.n_logits] if others else params
        return Factored(logits, None if mask is None else mask.bool(), others, tables)

    def output_units(self) -> OutputUnits:
        units = super().output_units()
        shift = torch.cat([units.shift, units.state_independent_shift])
        for part in self._others:
            of_part = part.family.output_units()
            units.scale[part.outputs], shift[part.outputs] = of_part.scale, of_part.shift
            shift[part.state_independent] = of_part.state_independent_shift
        return OutputUnits(units.scale, shift[: self.n_outputs], shift[self.n_outputs :])

    def dead_end(self, masks: Array) -> tuple[int, str] | None:
        """A head needs a legal choice wherever legal choices of the others make it active, and nowhere else."""
        conditional = masks.shape[-1] != self.form.flat_width
        if np.logical_and.reduce(np.logical_or.reduceat(masks, self._group_starts[conditional], axis=1), None):
            return None
        found = self.tables(conditional, torch.device("cpu")).stuck(masks)
        if found is None:
            return None
        env, h, choice = found
        return env, self._described(h, choice) if self.head_names else ""

    def to_env(self, action: Array) -> Any:
        """Env actions of N rows: one array, or a dict or tuple of such arrays as the space has it."""
        if self._codec is not None:
            return self._codec.to_env(action)
        found: dict[Path, Any] = {}
        for part in self._choices:
            found[part.path] = part.codec.to_env(action[:, part.columns])
        for other in self._others:
            family = other.family
            stored = action[:, other.columns].astype(torch.empty(0, dtype=family.action_dtype).numpy().dtype)
            found[other.path] = family.to_env(stored.reshape(-1, *family.action_shape))
        return assemble(self._space, found)

    def _described(self, h: int, choice: dict[int, int]) -> str:
        """A head, and what was chosen by those that make it active."""
        head = self._heads[h]
        by = [c for c, _ in head.conditions] or ([head.mask_parent] if head.mask_parent in choice else [])
        given = ", ".join(f"{self._heads[c].name} = {self._heads[c].says(choice[c])}" for c in by if c is not None)
        return f"{head.name!r} given {given}" if given else repr(head.name)

    def _lay_out(
        self, leaf_family: Callable[[spaces.Space[Any]], Family]
    ) -> tuple[tuple[ChoicePart, ...], tuple[OtherPart, ...]]:
        """The parts of the space, those that are no choices in the order of their heads."""
        leaves = dict(parts_of(self._space))
        column, output, rest = len(self.form.sizes), self.form.flat_width, 0
        choices, others = [], []
        for path in dict.fromkeys(head.path for head in self._heads):
            own = sorted((head.position, i) for i, head in enumerate(self._heads) if head.path == path)
            leaf = leaves[path]
            if isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete):
                columns = [i for _, i in own]
                is_all = columns == list(range(len(self._heads)))
                choices.append(ChoicePart(path, ChoiceCodec(leaf), slice(None) if is_all else columns))
                continue
            family = leaf_family(leaf)
            ends = column + int(np.prod(family.action_shape)), output + family.n_outputs
            after = rest + family.n_parameters - family.n_outputs
            others.append(OtherPart(path, family, slice(column, ends[0]), slice(output, ends[1]), slice(rest, after)))
            (column, output), rest = ends, after
        # State-independent parameters follow all outputs.
        moved = (slice(x.state_independent.start + output, x.state_independent.stop + output) for x in others)
        return tuple(choices), tuple(x._replace(state_independent=s) for x, s in zip(others, moved, strict=True))

    def is_conditional(self, mask: Tensor | Array | None) -> bool:
        """Whether a mask [..., M] depends on parent actions."""
        return mask is not None and mask.shape[-1] != self.form.flat_width

    def tables(self, conditional: bool, device: torch.device) -> HeadTables:
        """The tables of the heads, for masks that depend on parent actions or do not."""
        tables = self._tables.get((conditional, device))
        if tables is None:
            with torch.inference_mode(False):  # a rollout asks first, and an update must be able to use the tables
                tables = head_tables_of(self._heads, conditional).to(device)
            self._tables[conditional, device] = tables
        return tables
