"""Heads as data: what may be declared, how it is matched with an action space, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import surefoot
from contract.dead_heads import legal_flags
from surefoot.actions.heads import HeadSpec, assemble, choices_first, heads_of, parts_of
from surefoot.actions.masks import MaskForm
from surefoot.errors import ConfigError, UnsupportedSpaceError

OP = HeadSpec("op", ("WAIT", "GERMINATE", "PRUNE"))
SLOT = HeadSpec("slot", 3, relevant_when={"op": ("GERMINATE", "PRUNE")})
untyped: Any = HeadSpec


def test_it_is_a_public_name() -> None:
    assert surefoot.HeadSpec is HeadSpec


def test_names_and_indices_of_choices_mean_the_same() -> None:
    by_name, by_index = SLOT, HeadSpec("slot", 3, relevant_when={"op": (1, 2)})
    space = spaces.MultiDiscrete([3, 3])
    assert heads_of(space, (OP, by_name)) == heads_of(space, (OP, by_index))
    assert heads_of(space, (OP, by_name))[1].conditions == ((0, (1, 2)),)
    assert OP.size == 3
    assert SLOT.size == 3


def test_a_lone_choice_needs_no_list_and_numbers_may_be_numpys() -> None:
    lone = untyped("slot", np.int64(3), relevant_when={"op": "PRUNE"})
    listed = untyped("slot", 3, relevant_when={"op": [np.int64(2)]})
    space = spaces.MultiDiscrete([3, 3])
    assert heads_of(space, (OP, lone)) == heads_of(space, (OP, listed))


def test_heads_can_be_sent_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(SLOT)) == SLOT


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: untyped("", 3), "name must be a text"),
        (lambda: untyped("a", 0), "at least 1 choice, got 0"),
        (lambda: untyped("a", True), "n must be a number of choices or a sequence of their names, got True"),
        (lambda: untyped("a", "WAIT"), "n must be a number"),
        (lambda: untyped("a", 2.0), "n must be a number"),
        (lambda: untyped("a", ()), "distinct names"),
        (lambda: untyped("a", ("X", "X")), "distinct names of choices, got"),
        (lambda: untyped("a", ("X", 1)), "distinct names"),
        (lambda: untyped("a", 2, relevant_when=("op",)), "relevant_when of the head 'a' must be like"),
        (lambda: untyped("a", 2, relevant_when={"op": ()}), "must hold names or indices"),
        (lambda: untyped("a", 2, relevant_when={"op": 1.5}), "must hold names or indices"),
    ],
)
def test_a_head_that_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((HeadSpec("a", 2), HeadSpec("a", 2)), "two heads are called 'a'"),
        ((HeadSpec("a", 2), HeadSpec("b", 2, {"b": 0})), "the head 'b' depends on itself"),
        ((OP, HeadSpec("b", 2, {"opp": 0})), "depends on 'opp', which is no head.*did you mean 'op'"),
        (
            (OP, HeadSpec("b", 2, {"op": "PRUNED"})),
            "relevant_when of the head 'b'.*no choice 'PRUNED'.*did you mean 'PRUNE'",
        ),
        ((OP, HeadSpec("b", 2, {"op": 3})), "no choice 3: it has 3, counted from 0"),
        ((OP, HeadSpec("b", 2, {"op": -1})), "no choice -1"),
        ((HeadSpec("a", 2), HeadSpec("b", 2, {"a": "X"})), "no choice 'X': it has no names"),
        ((HeadSpec("a", 2, {"b": 0}), HeadSpec("b", 2, {"a": 0})), "'a', 'b' depend on each other in a circle"),
        ((OP,), "has 1 heads, the action space .* has 2 parts"),
        ((OP, HeadSpec("b", 4)), "the head 'b' has 4 choices, but has 2 there"),
        ((OP, "slot"), "must hold surefoot.HeadSpec, found 'slot'"),
    ],
)
def test_heads_that_do_not_fit_together_are_refused(heads: Any, message: str) -> None:
    first = 3 if heads[0] == OP else 2
    with pytest.raises(ConfigError, match=message):
        heads_of(spaces.MultiDiscrete([first, 2]), heads)


MIXED = spaces.Dict({"op": spaces.Discrete(3), "amount": spaces.Box(-1, 1, (2,)), "pair": spaces.MultiDiscrete([2, 4])})


def test_a_dict_is_matched_by_name_and_keeps_what_is_not_declared() -> None:
    found = heads_of(MIXED, (OP, HeadSpec("amount", relevant_when={"op": 1})))
    assert [(head.name, head.size) for head in found] == [("op", 3), ("amount", None), ("pair/0", 2), ("pair/1", 4)]
    assert found[1].conditions == ((0, (1,)),)
    assert [head.path for head in found] == [("op",), ("amount",), ("pair",), ("pair",)]
    assert [head.position for head in found] == [0, 0, 0, 1]


def test_heads_of_other_spaces_are_matched_by_position() -> None:
    space = spaces.Tuple((spaces.Discrete(3), spaces.Box(-1, 1, (1,))))
    assert [head.name for head in heads_of(space, (OP, HeadSpec("amount")))] == ["op", "amount"]
    assert [head.name for head in heads_of(space)] == ["0", "1"]
    assert [head.name for head in heads_of(spaces.MultiDiscrete([2, 2]))] == ["0", "1"]
    assert [head.name for head in heads_of(spaces.Discrete(3), (OP,))] == ["op"]


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ((HeadSpec("amont"),), "'amont' is not in the action space.*did you mean 'amount'"),
        ((HeadSpec("amount", 2),), "the head 'amount' has 2 choices, but is no choice among n there"),
        ((HeadSpec("op"), HeadSpec("pair/0", relevant_when={"amount": 0})), "'amount', which is no choice among n"),
    ],
)
def test_heads_that_a_dict_does_not_have_are_refused(heads: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        heads_of(MIXED, heads)


def test_a_space_that_no_head_can_have_is_named_with_its_place() -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"Text.* at 'a/1'"):
        heads_of(spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), spaces.Text(3)))}))


def test_parts_and_assembling_are_inverse() -> None:
    space = spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), spaces.MultiBinary(2))), "b": spaces.Box(-1, 1, (1,))})
    paths = [path for path, _ in parts_of(space)]
    assert paths == [("a", 0), ("a", 1), ("b",)]
    assert assemble(space, {path: i for i, path in enumerate(paths)}) == {"a": (0, 1), "b": 2}


def test_choices_come_first_and_references_follow_them() -> None:
    heads = heads_of(
        MIXED, (HeadSpec("amount", relevant_when={"op": 1}), OP, HeadSpec("pair/1", relevant_when={"op": 2}))
    )
    found = choices_first(heads)
    assert [head.name for head in found] == ["op", "pair/1", "pair/0", "amount"]
    assert [head.conditions for head in found] == [(), ((0, (2,)),), (), ((0, (1,)),)]


def test_the_mask_of_a_head_may_depend_on_the_first_head_that_it_names_or_else_on_the_operation() -> None:
    heads = heads_of(
        spaces.MultiDiscrete([2, 3, 4, 5]),
        (
            HeadSpec("late", 2, relevant_when={"mid": 0, "op": 0}),
            HeadSpec("op", 3),
            HeadSpec("mid", 4, relevant_when={"op": 1}),
            HeadSpec("free", 5),
        ),
    )
    assert [head.mask_parent for head in heads] == [2, None, 1, 1]
    form = MaskForm.of_heads(heads)
    assert form.n_parent_actions == (4, 1, 3, 3)
    assert form.flat_width == 2 + 3 + 4 + 5
    assert form.conditional_width == 4 * 2 + 3 + 3 * 4 + 3 * 5


def test_a_mask_by_head_is_read_head_after_head() -> None:
    form = MaskForm.of(spaces.MultiDiscrete([3, 2]), (OP, HeadSpec("way", 2, relevant_when={"op": 1})))
    flat = form.read({"way": np.array([[True, False]])}, 1, "")
    assert flat.astype(int).tolist() == [[1, 1, 1, 1, 0]]
    conditional = form.read({"way": np.array([[[True, False], [False, True], [True, True]]])}, 1, "")
    assert conditional.astype(int).tolist() == [[1, 1, 1, 1, 0, 0, 1, 1, 1]]
    assert flat[:, form.flat_columns].astype(int).tolist() == [[1, 1, 1, 1, 0, 1, 0, 1, 0]]
    assert [legal_flags(form, conditional[0], 1, parent_action).tolist() for parent_action in range(3)] == [
        [True, False],
        [False, True],
        [True, True],
    ]
    assert legal_flags(form, flat[0], 1, 2).tolist() == [True, False]


def test_masks_of_a_plain_space_depend_on_nothing() -> None:
    form = MaskForm.of(spaces.MultiDiscrete([3, 2]))
    assert form.conditional_width == form.flat_width == 5
