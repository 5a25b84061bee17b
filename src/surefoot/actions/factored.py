"""Several heads at once, some of which matter only for some choices of others (F02, F05).

The joint distribution is that of choosing head by head, in the order in which they depend on each other:

    p(a) = Π_h p_h(a_h | the choice on which its mask depends), over the heads that are relevant in a

An irrelevant head takes a fixed action (a choice head: 0) with probability 1. It adds nothing to log-probability,
entropy and divergence, and gets no gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from surefoot.actions.categorical import log_exponential
from surefoot.actions.conditional import conditional_terms
from surefoot.actions.distribution import (
    Array,
    Distribution,
    Family,
    HeadStatistics,
    HeadTerms,
    OutputUnits,
    refuse_mask,
)
from surefoot.actions.head_tables import Plan, plan_of
from surefoot.actions.heads import Head, Path, assemble, choices_first, parts_of
from surefoot.actions.masks import MaskForm
from surefoot.math import segments as segmented
from surefoot.math.segments import Categoricals


class Factored(Distribution):
    """Choice heads bound to logits [B, S] and a flat or wide mask, and the distributions of the other heads.

    Stored actions are the choices [B, H], followed by the stored actions of the other heads.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None, others: Sequence[Other], plan: Plan) -> None:
        self._logits, self._mask, self._others, self._plan = logits, mask, others, plan
        self._kept: Categoricals | None = None

    def sample(self, generator: torch.Generator | None) -> Tensor:
        shape = (*self._logits.shape[:-1], *self._plan.segments.padded.shape)
        choice = self._choose(log_exponential(shape, generator, self._logits.device))
        return self._joined(choice, [other.distribution.sample(generator) for other in self._others])

    def mode(self) -> Tensor:
        """The most likely choice of each head, given the choices of those before it.

        The most likely *joint* action would be another one: it prefers an operation without further choices to a more
        likely one that has many.
        """
        return self._joined(self._choose(None), [other.distribution.mode() for other in self._others])

    def log_prob(self, action: Tensor) -> Tensor:
        """The entries of irrelevant heads are not read."""
        return self.head_log_prob(action).sum(-1)

    def head_log_prob(self, action: Tensor) -> Tensor:
        choice = self._choices_in(action)
        found = segmented.log_prob(self._given(choice), choice, self._plan.segments)
        if self._others:
            others = [other.distribution.log_prob(action[..., other.columns]) for other in self._others]
            found = torch.cat([found, torch.stack(others, -1)], -1)
        return torch.where(self._plan.dependence.relevance(choice), found, 0.0) if self._plan.has_irrelevant else found

    def heads(self, action: Tensor | None, packed_masks: Tensor, joint_entropy: bool = True) -> HeadTerms:
        plan = self._plan
        is_joint = joint_entropy and plan.has_branches
        segments = plan.conditionals.segments if is_joint else plan.segments
        width = segments.place.shape[0]
        status, others, relevant = packed_masks[:width], None, None
        if self._others:
            relevant = packed_masks[width : width + len(self._others)] > 0
            others = torch.stack([other.distribution.entropy() for other in self._others])
        if is_joint:
            log_prob, entropy, expected = conditional_terms(self._logits, status, plan.conditionals, others)
        else:
            log_prob, entropy = segmented.chosen(self._logits, status, segments, joint_entropy)
        if others is not None and relevant is not None:
            assert action is not None, "the packed_masks say nothing of heads that are no choices"
            log_probs = torch.stack([other.distribution.log_prob(action[..., other.columns]) for other in self._others])
            log_prob = torch.cat([log_prob, torch.where(relevant, log_probs, 0.0)])
            entropy = torch.cat([entropy, torch.where(relevant, others, 0.0)])
        return HeadTerms(log_prob, entropy, expected if is_joint else entropy)

    def entropy(self) -> Tensor:
        """H(a) = Σ_k p(k) Σ_h relevant(h, k)·H(h | k), over the joint choices k of the heads on which others depend.

        Exact by the chain rule: the entropy of a joint distribution is that of each head given those before it, in the
        mean over what those choose.
        """
        distributions = self._everywhere()
        others = [other.distribution.entropy() for other in self._others]
        return self._expected(distributions, segmented.entropy(distributions, self._plan.segments), others)

    def kl(self, new: Self) -> Tensor:
        """KL(a ‖ a′) = Σ_k p(k) Σ_h relevant(h, k)·KL(h | k), exact by the same chain rule."""
        distributions = self._everywhere()
        others = [a.distribution.kl(b.distribution) for a, b in zip(self._others, new._others, strict=True)]
        return self._expected(
            distributions, segmented.kl(distributions, new._everywhere(), self._plan.segments), others
        )

    def _choices_in(self, action: Tensor) -> Tensor:
        return action[..., : self._plan.segments.first.shape[0]].long() if self._others else action

    @property
    def _distributions(self) -> Categoricals | None:
        """If no choice changes them: the distributions of the choice heads, normalized once."""
        if self._kept is None and not self._plan.wide:
            self._kept = segmented.normalize(self._logits, self._mask, self._plan.segments)
        return self._kept

    def _given(self, choice: Tensor) -> Categoricals:
        """The distributions of the choice heads once the choices before them are made."""
        if (distributions := self._distributions) is not None:
            return distributions
        assert self._mask is not None, "a wide plan is made for wide masks"
        return segmented.normalize(self._logits, self._plan.flags(self._mask, choice), self._plan.segments)

    def _everywhere(self) -> Categoricals:
        """The distributions of the choice heads in every context, [B, V, S]."""
        if (distributions := self._distributions) is not None:
            return Categoricals(*(x.unsqueeze(-2) for x in distributions))
        assert self._mask is not None, "a wide plan is made for wide masks"
        return segmented.normalize(self._logits.unsqueeze(-2), self._mask[..., self._plan.flag], self._plan.segments)

    def _choose(self, log_noise: Tensor | None) -> Tensor:
        """Choices [B, H], in the order of dependence; irrelevant heads choose 0."""
        plan = self._plan
        if (distributions := self._distributions) is not None:
            choice = segmented.draw(distributions, plan.segments, log_noise)
        else:
            shape = (*self._logits.shape[:-1], plan.segments.first.shape[0])
            choice = torch.zeros(shape, dtype=torch.int64, device=self._logits.device)
            for chooses_now in plan.levels:
                drawn = segmented.draw(self._given(choice), plan.segments, log_noise)
                choice = torch.where(chooses_now, drawn, choice)
        if not plan.has_irrelevant:
            return choice
        return torch.where(plan.dependence.relevance(choice)[..., : choice.shape[-1]], choice, 0)

    def _joined(self, choice: Tensor, others: list[Tensor]) -> Tensor:
        if not others:
            return choice
        relevant = self._plan.dependence.relevance(choice)[..., choice.shape[-1] :]
        kept = [
            torch.where(relevant[..., i : i + 1], x.to(torch.float32), other.neutral)
            for i, (x, other) in enumerate(zip(others, self._others, strict=True))
        ]
        return torch.cat([choice.to(torch.float32), *kept], -1)

    def _expected(self, distributions: Categoricals, each: Tensor, others: list[Tensor]) -> Tensor:
        """Σ_k p(k)·(Σ over the relevant heads) of terms [B, V, H] of the choice heads, and [B] of each other head."""
        dependence = self._plan.dependence
        entries = segmented.log_probs(distributions, self._plan.segments).flatten(-2)
        entry = self._plan.entry
        log_p = entries.index_select(-1, entry.flatten()).reshape(*entries.shape[:-1], *entry.shape)
        p = torch.where(dependence.matters.index_select(1, dependence.controls), log_p, 0.0).sum(-1).exp()
        total = ((p @ dependence.reach.flatten(1).to(p.dtype)) * each.flatten(-2)).sum(-1)
        if others:
            n_choices = each.shape[-1]
            total = total + ((p @ dependence.matters[:, n_choices:].to(p.dtype)) * torch.stack(others, -1)).sum(-1)
        return total


class Other(NamedTuple):
    """A head that is no choice among n: its distribution, where its stored action stands, and what that is if it does
    not matter."""

    distribution: Distribution
    columns: slice
    neutral: float


class Part(NamedTuple):
    """A leaf of the action space: its own family, and where its stored action, outputs and free parameters stand."""

    path: Path
    family: Family
    columns: list[int]
    outputs: slice
    free: slice
    is_choice: bool


class FactoredFamily(Family):
    """Heads over the leaves of an action space.

    Network outputs are the logits of the choice heads one after another, then the outputs of the other heads; masks are
    in the same order (`MaskForm`). Stored actions are int64, or float32 if some head is continuous.
    """

    def __init__(
        self, space: spaces.Space[Any], heads: Sequence[Head], leaf_family: Callable[[spaces.Space[Any]], Family]
    ) -> None:
        self._space = space
        self._heads = choices_first(heads)
        self.form = MaskForm.of_heads(self._heads)
        self._plans: dict[tuple[bool, torch.device], Plan] = {}
        self._group_starts = {wide: self.form.group_starts(wide) for wide in (False, True)}
        self.head_names = tuple(head.name for head in self._heads)
        self._parts = self._lay_out(leaf_family)
        self._is_one_part = [part.columns for part in self._parts] == [list(range(len(self._heads)))]
        others = [part for part in self._parts if not part.is_choice]
        self.n_outputs = self.n_logits + sum(part.family.n_outputs for part in others)
        frees = [part.family.free for part in others if part.family.free is not None]
        self.free = torch.cat(frees) if frees else None
        self.action_shape = (len(self.form.sizes) + sum(len(part.columns) for part in others),)
        self.action_dtype = torch.float32 if others else torch.int64
        self.mask_width = self.n_logits
        ends = np.cumsum(self.form.sizes).tolist()
        choices = [slice(end - size, end) for end, size in zip(ends, self.form.sizes, strict=True)]
        self.head_outputs = (*choices, *(part.outputs for part in others))
        self.plan(wide=False, device=torch.device("cpu"))

    @property
    def n_logits(self) -> int:
        return self.form.flat_width

    def head_statistics(self, action: Tensor, mask: Tensor | None, joint_entropy: bool = True) -> HeadStatistics:
        """The packed_masks say of each choice head which choices were legal and which was made, and of each other head
        whether it mattered. A choice head that did not is noted as one with a single legal choice; for a joint entropy
        with all its legal choices and none made, in each context in which it can matter."""
        n_choices = len(self.form.sizes)
        choice = action[:, :n_choices].long()
        plan = self.plan(self.is_conditional(mask), action.device)
        segments, relevant = plan.segments, plan.dependence.relevance(choice)
        if mask is None:
            legal = torch.ones(len(action), self.form.flat_width, device=action.device)
        else:
            legal = (plan.flags(mask, choice) if plan.wide else mask).to(torch.float32)
        n_legal = torch.nn.functional.pad(legal @ segments.members, (0, len(self._heads) - n_choices))
        matters = relevant.to(torch.float32)
        if joint_entropy and plan.has_branches:
            segments, chosen = plan.conditionals.segments, plan.conditionals.entries_of(choice)
            whole = mask.to(torch.float32) if mask is not None and plan.wide else legal
            status = whole.index_select(1, plan.conditionals.flag)
            made = torch.where(status.gather(1, chosen) > 0, 1.0, -2.0) * matters[:, :n_choices]
            status.scatter_add_(1, chosen, made)
        else:
            status, chosen = legal * matters.index_select(1, segments.owner), choice + segments.first
            as_if_legal = (legal.gather(1, chosen) > 0) | ~relevant[:, :n_choices]
            status.scatter_(1, chosen, torch.where(as_if_legal, 2.0, -2.0))
        placed = torch.where(segments.is_place, status.index_select(1, segments.place), 0.0)
        packed_masks = torch.cat([placed, matters[:, n_choices:]], 1)
        rest = None if n_choices == len(self._heads) else action
        return HeadStatistics(
            relevant.t().contiguous(),
            n_legal.t().contiguous(),
            packed_masks.t().contiguous(),
            rest,
            mask if joint_entropy and plan.wide else None,
        )

    def bound_std(self, low: float, high: float) -> bool:
        bounded = [part.family.bound_std(low, high) for part in self._parts]
        return any(bounded)

    def bind(self, params: Tensor, mask: Tensor | None = None) -> Factored:
        if not self.form.names:
            refuse_mask(self, mask)
        wide = self.is_conditional(mask)
        others = tuple(
            Other(
                part.family.bind(torch.cat([params[..., part.outputs], params[..., part.free]], -1)),
                slice(part.columns[0], part.columns[-1] + 1),
                part.family.neutral,
            )
            for part in self._parts
            if not part.is_choice
        )
        logits = params[..., : self.n_logits] if others else params
        return Factored(logits, None if mask is None else mask.bool(), others, self.plan(wide, params.device))

    def output_units(self) -> OutputUnits:
        units = super().output_units()
        for part in (part for part in self._parts if not part.is_choice):
            of_part = part.family.output_units()
            units.scale[part.outputs], units.shift[part.outputs] = of_part.scale, of_part.shift
            units.free_shift[part.free.start - self.n_outputs : part.free.stop - self.n_outputs] = of_part.free_shift
        return units

    def mask_groups(self) -> dict[str, slice]:
        return dict(zip(self.form.names, self.head_outputs, strict=False))

    def dead_end(self, masks: np.ndarray[Any, Any]) -> tuple[int, str] | None:
        """A head needs a legal choice wherever legal choices of the others make it relevant, and nowhere else."""
        wide = masks.shape[-1] != self.form.flat_width
        if np.logical_and.reduce(np.logical_or.reduceat(masks, self._group_starts[wide], axis=1), None):
            return None
        plan = self.plan(wide, torch.device("cpu"))
        found = plan.stuck(masks)
        if found is None:
            return None
        env, h, choice = found
        return env, self._described(h, choice)

    def to_env(self, action: Array) -> Any:
        """Env actions of N rows: one array, or a dict or tuple of such arrays as the space has it."""
        if self._is_one_part and isinstance(self._space, spaces.MultiDiscrete):
            return self._parts[0].family.to_env(action)
        found: dict[Path, Any] = {}
        for part in self._parts:
            stored = (
                action
                if self._is_one_part
                else action[:, part.columns].astype(torch.empty(0, dtype=part.family.action_dtype).numpy().dtype)
            )
            found[part.path] = part.family.to_env(stored.reshape(-1, *part.family.action_shape))
        return assemble(self._space, found)

    def _described(self, h: int, choice: dict[int, int]) -> str:
        """A head, and what was chosen by those that make it relevant."""
        head = self._heads[h]
        by = [c for c, _ in head.conditions] or ([head.given] if head.given in choice else [])
        given = ", ".join(f"{self._heads[c].name} = {self._heads[c].says(choice[c])}" for c in by if c is not None)
        return f"{head.name!r} given {given}" if given else repr(head.name)

    def _lay_out(self, leaf_family: Callable[[spaces.Space[Any]], Family]) -> tuple[Part, ...]:
        """The parts of the space, those that are no choices in the order of their heads."""
        leaves = dict(parts_of(self._space))
        column, output, free = len(self.form.sizes), self.form.flat_width, 0
        found = []
        for path in dict.fromkeys(head.path for head in self._heads):
            family = leaf_family(leaves[path])
            own = sorted((head.position, i) for i, head in enumerate(self._heads) if head.path == path)
            if self._heads[own[0][1]].size is not None:
                found.append(Part(path, family, [i for _, i in own], slice(0, 0), slice(0, 0), True))
                continue
            width = int(np.prod(family.action_shape))
            n_state_independent = 0 if family.free is None else family.free.numel()
            columns, outputs = list(range(column, column + width)), slice(output, output + family.n_outputs)
            found.append(Part(path, family, columns, outputs, slice(free, free + n_state_independent), False))
            column, output, free = column + width, output + family.n_outputs, free + n_state_independent
        # Free parameters follow all outputs.
        return tuple(part._replace(free=slice(part.free.start + output, part.free.stop + output)) for part in found)

    def is_conditional(self, mask: Tensor | Array | None) -> bool:
        """Whether a mask [..., M] depends on parent actions."""
        return mask is not None and mask.shape[-1] != self.form.flat_width

    def plan(self, wide: bool, device: torch.device) -> Plan:
        """The tables of the heads, for masks that depend on parent actions or do not."""
        plan = self._plans.get((wide, device))
        if plan is None:
            with torch.inference_mode(False):  # a rollout asks first, and an update must be able to use the tables
                plan = plan_of(self._heads, wide).to(device)
            self._plans[wide, device] = plan
        return plan
