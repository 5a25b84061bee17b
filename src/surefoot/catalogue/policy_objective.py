"""Rows about the policy loss, KL and entropy."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="P01",
        name="ratio-overflow",
        verdict="real",
        holds=(
            "The log-ratio is bounded at ±20 before it is exponentiated. NaN and Inf are looked for before the bound, "
            "are counted apart, and the optimizer step is skipped with its source named. A rollout whose "
            "log-probabilities are wrong by ±1000 trains on without a NaN."
        ),
        why=(
            "exp(89) is infinite in float32: a single stale sample makes the loss infinite, and one optimizer step "
            "later every weight is NaN. A clamp alone is not enough, because it hides Inf and lets NaN through."
        ),
        formula="ratio = exp(clamp(log π(a|s) − log π_old(a|s), −20, 20))",
        tests=(
            "tests/algo/test_update.py::test_stale_log_probabilities_do_no_harm",
            "tests/algo/test_update.py::test_a_step_that_is_not_finite_is_skipped_and_its_source_named",
        ),
    ),
    Row(
        id="P02",
        name="bound-blocks-gradient",
        verdict="real",
        holds=(
            "The fraction of samples beyond the bound of 20 and the fraction beyond 10 are logged (below 0.1 % is "
            "healthy, above 1 % an alert). `log_ratio_bound` is `clamp` or `tanh`; the tanh form keeps a gradient "
            "everywhere."
        ),
        why=(
            "A clamped sample has no gradient. If many samples are clamped, the policy learns from the few that are "
            "left, and no other metric shows it."
        ),
        formula="tanh: 20·tanh(d / 20)",
        tests=(
            "tests/algo/test_objective.py::test_only_the_tanh_bound_keeps_a_gradient_beyond_twenty",
            "tests/algo/test_objective.py::test_the_shares_of_extreme_and_bounded_ratios_are_reported",
        ),
    ),
    Row(
        id="P03",
        name="kl-nan",
        verdict="real",
        holds=(
            "The KL estimate is k3, computed from the log-ratio d itself in float32; it is never below 0 and never "
            "NaN. Exact KL is offered where the distribution has one. That k1 is biased is a false alarm: the actions "
            "come from the old policy, so that k1 is unbiased, only noisy."
        ),
        why=(
            "KL computed from ratios, or from probabilities that became 0, is NaN or slightly negative. A KL of NaN is "
            "never above the target, so that the stop of an update is off without anybody noticing."
        ),
        formula="k3 = exp(d) − 1 − d,   d = log π(a|s) − log π_old(a|s)",
        tests=(
            "tests/math/test_math_kl.py::test_k3_is_finite_and_not_negative_for_every_finite_log_ratio",
            "tests/math/test_math_kl.py::test_k1_and_k3_are_unbiased_over_the_old_policy",
            "tests/contract/test_distributions.py::test_kl_is_never_negative_and_zero_to_itself",
        ),
    ),
    Row(
        id="P04",
        name="kl-stop",
        verdict="real",
        holds=(
            "With `target_kl` set, an update stops when the KL of a minibatch exceeds 1.5 times the target. It stops "
            "before the optimizer step of that minibatch, and records epoch, minibatch and KL."
        ),
        why=(
            "If the KL is looked at after the step, or only at the end of an epoch, the step that goes too far has "
            "been made already, and the limit limits nothing."
        ),
        formula="stop if KL > 1.5·target_kl",
        tests=(
            "tests/algo/test_update.py::test_the_update_stops_before_the_step_whose_kl_is_too_large",
            "tests/algo/test_update.py::test_a_stop_within_an_epoch_names_the_minibatch",
        ),
    ),
    Row(
        id="P05",
        name="entropy-sign",
        verdict="style",
        holds=(
            "The loss is written exactly as the formula has it: the entropy bonus is subtracted. With zero advantages "
            "and `ent_coef` > 0 the entropy rises."
        ),
        why=(
            "With the sign turned the bonus becomes a penalty and the policy collapses early. When the entropy is "
            "negated in one place and the term in another, the next edit breaks it."
        ),
        formula="loss = policy_loss + vf_coef·value_loss − ent_coef·entropy",
        tests=(
            "tests/algo/test_objective.py::test_entropy_rises_when_nothing_else_is_to_be_had",
            "tests/algo/test_objective.py::test_the_loss_is_the_sum_of_its_terms",
        ),
    ),
    Row(
        id="P06",
        name="entropy-counted-once",
        verdict="real",
        holds=(
            "`entropy()` has shape [B]: it is summed over the dimensions of the action, once. Twice as many equal "
            "dimensions have twice the entropy; a larger batch has the same."
        ),
        why=(
            "Entropy that is summed twice, or averaged over dimensions, changes the meaning of `ent_coef` with the "
            "size of the action space."
        ),
        formula="H(π(·|s)) = Σ_d H_d,   shape [B]",
        tests=(
            "tests/contract/test_distributions.py::test_entropy_counts_each_dimension_once",
            "tests/algo/test_objective.py::test_entropy_does_not_depend_on_the_size_of_the_batch",
        ),
    ),
    Row(
        id="P07",
        name="entropy-schedule",
        verdict="false alarm",
        holds=(
            "The entropy coefficient decays linearly in updates; while the return is on a plateau the decay waits; the "
            "floor holds at every update. A plateau only delays: it never raises the coefficient, and at most a given "
            "number of updates are delayed."
        ),
        why=(
            "Decay, plateau and floor look as if they work against each other. They do not as long as the plateau "
            "changes the clock and not the coefficient."
        ),
        formula="c = max(floor, start + (floor − start)·(updates − delayed) / decay_updates)",
        tests=(
            "tests/math/test_math_schedules.py::test_a_plateau_delays_the_decay_and_progress_resumes_it",
            "tests/math/test_math_schedules.py::test_plateaus_never_raise_the_coefficient_nor_break_the_floor",
        ),
    ),
    Row(
        id="P08",
        name="exploration-collapse",
        verdict="real",
        holds=(
            "The output layer of the policy is initialized with gain 0.01, so that the first policy is nearly uniform. "
            "Logits beyond a bound may be pulled back by a soft penalty that has a gradient everywhere beyond it. "
            "Logits are not squashed by tanh. A collapse is detected by the entropy fraction and by the share of the "
            "most frequent action."
        ),
        why=(
            "A large first logit makes a policy that never tries anything else. A tanh that saturates has no gradient, "
            "so that the collapse could never be undone."
        ),
        formula="penalty = logit_penalty·Σ max(0, |logit| − 10)²",
        tests=(
            "tests/policy/test_policy.py::test_the_first_policy_is_nearly_uniform",
            "tests/algo/test_objective.py::test_logits_beyond_ten_are_pulled_back",
        ),
        planned="detection of a collapse",
    ),
    Row(
        id="P09",
        name="dual-clip",
        verdict="option",
        holds=(
            "For negative advantages a second clip bounds the objective from below (Ye et al. 2020, arXiv:1912.09729), "
            "with c about 3. It is off by default."
        ),
        why=(
            "With A < 0 the clipped objective has no lower bound: a bad action that became far more likely dominates "
            "the batch. Rollouts that are collected far from the current policy need the second clip."
        ),
        formula="A < 0:   objective = max(min(r·A, clip(r, 1 − ε, 1 + ε)·A), c·A)",
        tests=(
            "tests/algo/test_objective.py::test_the_second_clip_acts_on_bad_actions_that_became_much_more_likely",
            "tests/math/test_math_surrogate.py::test_dual_clip_bounds_the_loss_of_bad_actions_only",
        ),
    ),
    Row(
        id="P10",
        name="epochs-are-real",
        verdict="real",
        holds=(
            "In the first minibatch of the first epoch every ratio is 1 to within 1e-5, also with memory, masks and "
            "padding. In later epochs ratios differ from 1. An update whose ratios can never leave 1 is reported: it "
            "is A2C."
        ),
        why=(
            "A first ratio other than 1 means that rollout and update compute different policies, and the gradient is "
            "that of neither. If ratios never move, then clip range, KL stop and every alarm about them are dead."
        ),
        formula="first minibatch: |log π(a|s) − log π_old(a|s)| ≤ 1e-5",
        tests=(
            "tests/algo/test_update.py::test_ratios_begin_at_one_and_do_not_stay_there",
            "tests/contract/test_together.py::test_replaying_a_rollout_gives_the_old_probabilities",
            "tests/train/test_learn.py::test_an_update_of_one_gradient_step_is_called_a2c_once",
        ),
    ),
    Row(
        id="P11",
        name="awr-overflow",
        verdict="real",
        holds=(
            "The weights of an imitation term (advantage-weighted regression) are bounded before the exponential and "
            "detached. Its coefficient has a schedule. It works on the agent's own rollout and on demonstrations."
        ),
        why=(
            "exp(A/β) overflows for one large advantage. A bound after the exponential is too late: the gradient of "
            "Inf is NaN."
        ),
        formula="w = exp(min(A / β, ln w_max))",
        tests=(
            "tests/algo/test_imitation.py::test_weights_are_bounded_before_exp_and_have_no_gradient",
            "tests/algo/test_imitation.py::test_the_own_term_is_minus_the_weighted_log_probability",
            "tests/algo/test_imitation.py::test_demonstrations_teach_the_policy",
        ),
    ),
    Row(
        id="P12",
        name="no-inert-option",
        verdict="real",
        holds=(
            "Every setting changes behaviour, and a test shows it. A setting that cannot take effect in the chosen "
            "combination is an error, not silence."
        ),
        why=(
            "Settings that nothing reads are tuned for weeks, and conclusions are drawn from runs that were all the "
            "same."
        ),
        tests=(
            "tests/train/test_no_inert_option.py::test_every_setting_changes_behaviour",
            "tests/config/test_strict_settings.py::test_settings_without_effect_together_are_refused",
        ),
    ),
    Row(
        id="P13",
        name="joint-entropy",
        verdict="real",
        holds=(
            "With factored actions the bonus raises the joint entropy, the choice of the operation included. With zero "
            "reward and `ent_coef` > 0 training ends at the largest joint entropy that the legal combinations allow, "
            "and never below where it began."
        ),
        why=(
            "A bonus on the entropies of the active heads alone does not see that the operation decides which heads "
            "are active. It can lower the joint entropy, and with it exploration."
        ),
        formula="H(joint) = Σ_h P(head h is active)·E[H(head h) | active]",
        tests=(
            "tests/small_worlds/test_joint_entropy.py::test_without_reward_the_joint_entropy_rises_to_its_largest_value",
            "tests/algo/test_heads.py::test_the_bonus_is_for_the_joint_entropy",
        ),
    ),
    Row(
        id="P14",
        name="action-scale",
        verdict="real",
        holds=(
            "A bounded Box of any place and size ([100, 200], [0, 1e-3]) is learned as well as [−1, 1]: the "
            "distribution works in units of the box. Actions that are stuck at a bound are counted."
        ),
        why=(
            "A Gaussian of mean 0 and standard deviation 1 in the units of the env never reaches [100, 200] and always "
            "overshoots [0, 1e-3]. Every action is clipped to a bound, so that all of them look alike."
        ),
        formula="env action = centre + half-width·a",
        tests=(
            "tests/small_worlds/test_action_boxes.py::test_the_target_is_found_in_a_box_of_any_place_and_size",
            "tests/actions/test_env_actions.py::test_gaussian_actions_are_half_widths_from_the_centre",
        ),
        planned="the count of actions at a bound",
    ),
)
