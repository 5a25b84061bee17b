"""Rows about tail risk, costs and constraints."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="R01",
        name="cvar-exact",
        verdict="real",
        holds=(
            "CVaR_α is the mean of the worst share α, of which the last value counts in part. α·N < 1 warns and is "
            "still defined. A rule that interpolates the tail may be the default only if it is nearer to the truth in "
            "the error table (normal, Student-t(3) and skewed distributions, several N and α)."
        ),
        why=(
            "A mean over the lowest ⌊αN⌋ quantiles ignores the part of a quantile that is left, and is 0/0 for small "
            "α. The tail is then reported thinner or thicker than it is, by 10 % and more."
        ),
        formula=(
            "quantiles:   CVaR_α = (1 / (α·N))·[Σ_{i<k} q_(i) + (α·N − k)·q_(k)],   k = ⌊α·N⌋, sorted, i from 0\n"
            "atoms:   CVaR_α = (1 / α)·[Σ_{i<k} p_i·z_i + (α − F_{k−1})·z_k]"
        ),
        tests=(
            "tests/math/test_math_risk.py::test_step_rule_by_hand",
            "tests/math/test_math_risk.py::test_atoms_by_hand_in_any_order",
            "tests/math/test_risk_docs.py::test_the_default_rule_wins_every_cell",
        ),
    ),
    Row(
        id="R02",
        name="risk-reaches-the-policy",
        verdict="deeper",
        holds=(
            "A risk term acts on the advantages: by the policy gradient of CVaR, or by a cost advantage. It changes "
            "what the actor learns and nothing of what the critic learns. A world with a safe and a risky arm, whose "
            "answer is known, shows that the policy moves."
        ),
        why=(
            "A CVaR of the critic's prediction that is added to the loss and differentiated only teaches the critic to "
            "report nicer tails. The policy takes the same risks as before."
        ),
        formula="∇CVaR_α(G) = E[min(G − VaR_α, 0) / α · Σ_t ∇ log π(a_t|s_t)]",
        tests=(
            "tests/risk/test_risk_reaches_the_policy.py::test_the_actor_gets_another_gradient_and_the_critic_the_same",
            "tests/small_worlds/test_limits.py::test_the_policy_is_about_the_best_one_without_a_limit_and_under_two",
        ),
    ),
    Row(
        id="R03",
        name="dual",
        verdict="real",
        holds=(
            "The multiplier λ rises with the violation and falls while there is room, never below 0. It has no upper "
            "bound, and no clamp that makes the largest violation count as none. The unit of the limit is in the name "
            "of the setting (per step, per episode, discounted). λ and the violation are logged and saved."
        ),
        why=(
            "A λ that is capped at 1 cannot enforce a limit that costs more than that. A limit without its unit is "
            "compared with another quantity: a sum with a mean, a day with a year."
        ),
        formula="λ ← max(0, λ + η·(limit − CVaR_α))",
        tests=(
            "tests/risk/test_multiplier.py::test_plain_dual_ascent_by_hand",
            "tests/risk/test_multiplier.py::test_there_is_no_upper_bound",
            "tests/risk/test_cvar_terms.py::test_the_limit_is_of_the_quantity_in_its_name",
        ),
    ),
    Row(
        id="R04",
        name="cost-finite",
        verdict="real",
        holds="A cost from `info` that is not a finite number is an error that names env, step and key.",
        why="One NaN among the costs makes the multiplier NaN, and from there every advantage.",
        tests=("tests/vector/test_guard.py::test_a_cost_that_is_not_finite_is_named_by_key_env_and_step",),
    ),
    Row(
        id="R05",
        name="unit-honesty",
        verdict="real",
        holds=(
            "Predicted and empirical CVaR are of the same quantity: the CVaR of the mixture over starting states, not "
            "the mean of the CVaRs of each. Their gap is logged as calibration, and is 0 for a critic that is right."
        ),
        why=(
            "The mean of conditional CVaRs is higher than the CVaR of the mixture. A perfect critic then shows a large "
            "gap, and nobody can tell a bad critic from a bad comparison."
        ),
        formula="gap = CVaR_α(mixture over s₀ of Z(s₀)) − CVaR_α(returns of episodes)",
        tests=(
            "tests/risk/test_calibration.py::test_a_right_critic_has_no_gap_although_starting_states_differ",
            "tests/math/test_math_risk.py::test_the_cvar_of_a_mixture_is_that_of_pooled_samples",
        ),
    ),
    Row(
        id="R06",
        name="cost-present",
        verdict="real",
        holds="If a limit rests on a cost and the cost is missing from `info`, it is an error that names env and step.",
        why="A missing cost that counts as 0 makes the constraint look satisfied while nothing is measured.",
        tests=("tests/vector/test_guard.py::test_a_cost_that_vanishes_stops_a_run_that_limits_it",),
    ),
    Row(
        id="R07",
        name="multiplier-keeps-integrating",
        verdict="real",
        holds=(
            "A violation that lasts moves λ without end, however slowly the violation shrinks. Damping never freezes "
            "the integral."
        ),
        why=(
            "If the integral rests while the violation shrinks, a violation of 1 + 1/t never moves it, and the limit "
            "stays broken for ever."
        ),
        formula="I ← max(0, I + η·violation) at every update",
        tests=(
            "tests/risk/test_multiplier.py::test_a_violation_that_shrinks_forever_moves_it_as_plain_ascent_does",
            "tests/risk/test_multiplier.py::test_the_default_rate_never_ends_at_zero",
        ),
    ),
    Row(
        id="R08",
        name="credit-at-any-horizon",
        verdict="real",
        holds=(
            "The risk term reaches every step, whatever the ratio of episode length to rollout length. The log says on "
            "how many tail episodes an update rests and what the standard error of its CVaR is."
        ),
        why=(
            "If only episodes that end within the rollout are credited, the steps of all others silently learn to be "
            "risk-neutral. Long episodes are then never made safe."
        ),
        formula="r_t = u(x_{t+1}) − u(x_t),  u(x) = min(0, x − VaR_α)/α,  x the return of the episode so far",
        tests=(
            "tests/risk/test_cvar_terms.py::test_signals_telescope_to_the_shortfall_wherever_rollouts_cut_an_episode",
            "tests/risk/test_cvar_terms.py::test_steps_are_credited_in_rollouts_in_which_no_episode_ends",
            "tests/small_worlds/test_limits.py::test_a_tail_is_learned_from_rollouts_shorter_than_an_episode",
        ),
    ),
)
