"""Rows about factored actions and masks of legal ones."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="F01",
        name="masked-categorical",
        verdict="real",
        holds=(
            "An illegal action has probability 0 and no gradient. No legal action is an error that names env and step. "
            "One legal action has entropy 0. All is finite in float16 and bfloat16. The normalized entropy divides by "
            "the logarithm of the number of legal actions."
        ),
        why=(
            "Logits set to −inf make NaN in entropy and gradient; logits set to −1e8 overflow in half precision. "
            "Without legal actions softmax makes NaN, or all actions equally likely."
        ),
        formula="π(a|s) = mask_a·exp(l_a) / Σ_b mask_b·exp(l_b),   normalized entropy = H / ln(n_legal)",
        tests=(
            "tests/actions/test_masked_actions.py::test_illegal_logits_get_no_gradient_and_legal_ones_a_finite_one",
            "tests/math/test_math_masking.py::test_values_and_gradients_are_finite_in_every_precision",
            "tests/vector/test_masks.py::test_no_legal_action_is_named_with_env_step_and_head",
        ),
    ),
    Row(
        id="F02",
        name="causal-heads",
        verdict="real",
        holds=(
            "A head that the chosen operation makes inactive adds nothing to policy loss, sampled KL and clip "
            "fraction. The entropy bonus counts it with its probability of being active (P13). The heads and what they "
            "depend on are data, not code."
        ),
        why=(
            "The choice of an inactive head had no effect, so that its advantage is noise. Trained on it, the head "
            "unlearns what it knew, and the joint ratio is clipped because of actions that nobody took."
        ),
        formula="log π(a|s) = Σ_h active_h(a)·log π_h(a_h|s)",
        tests=(
            "tests/algo/test_heads.py::test_a_head_that_the_action_makes_inactive_gets_no_gradient",
            "tests/actions/test_factored.py::test_an_inactive_head_gets_exactly_no_gradient",
        ),
    ),
    Row(
        id="F03",
        name="empty-head",
        verdict="real",
        holds='A head that was active in no step of an update reports "no data" and its count, not 0.0.',
        why="A KL or entropy of 0.0 reads as a head that has settled. In truth it was never asked.",
        tests=("tests/algo/test_heads.py::test_a_head_without_data_says_so",),
    ),
    Row(
        id="F04",
        name="per-head-metrics",
        verdict="real",
        holds="Ratio, KL, clip fraction, entropy, gradient norm and count are logged for each head and jointly.",
        why="In joint metrics a head that collapsed is hidden behind those that did not.",
        tests=(
            "tests/algo/test_heads.py::test_every_head_reports_itself",
            "tests/algo/test_heads.py::test_gradient_norms_of_the_heads_are_those_of_their_rows",
        ),
    ),
    Row(
        id="F05",
        name="conditional-masks",
        verdict="real",
        holds=(
            "The operation is drawn first, and then the other heads under the masks that belong to that operation. The "
            "update uses the masks of the rollout."
        ),
        why=(
            "A mask that does not depend on the operation forbids legal combinations or allows illegal ones. Other "
            "masks in the update than in the rollout make first ratios that are not 1."
        ),
        tests=(
            "tests/contract/test_together.py::test_stored_masks_forbid_what_was_not_done",
            "tests/vector/test_masks.py::test_a_mask_that_changes_between_rollout_and_update_is_named",
        ),
    ),
    Row(
        id="F06",
        name="joint-kl",
        verdict="real",
        holds=(
            "The joint KL is the sum over active heads, averaged over all rows; never a mean of the heads' own means. "
            "Terms by head are weighted so that their sum has the gradient of the joint objective."
        ),
        why=(
            "A head that is active in one row of a hundred counts a hundred times in a mean of means. The KL stop then "
            "acts on a number that is no KL."
        ),
        formula="KL = (1/N)·Σ_t Σ_h active_{t,h}·k3(d_{t,h})",
        tests=(
            "tests/algo/test_heads.py::test_the_joint_divergence_is_the_sum_over_active_heads",
            "tests/actions/test_factored.py::test_terms_by_head_add_up_to_the_joint_ones",
        ),
    ),
    Row(
        id="F07",
        name="reward-ignores-dead-heads",
        verdict="real",
        holds=(
            "In an env with factored actions, changing the choice of an inactive head changes neither reward nor "
            "successor. It is a contract of the env, and a check runs it."
        ),
        why=(
            "If the env reads a head that it calls inactive, part of the return depends on choices that the policy "
            "gets no gradient for."
        ),
        tests=(
            "tests/contract/test_dead_heads.py::test_an_inactive_head_changes_nothing",
            "tests/contract/test_dead_heads.py::test_a_leak_is_found_and_named",
        ),
    ),
)
