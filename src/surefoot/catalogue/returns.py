"""Rows about rewards, returns and advantages."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="A01",
        name="truncation-is-not-termination",
        verdict="real",
        holds=(
            "A truncated step bootstraps from the value of its true successor, which is the final observation of the "
            "episode: never the first observation of the next episode, never the step's own observation again. A "
            "terminated step bootstraps from nothing."
        ),
        why=(
            "If a time limit counts as the end, the agent learns that the future is worth nothing shortly before the "
            "limit, and prefers to leave early. If the next episode's start stands in, values leak from an unrelated "
            "state."
        ),
        formula="δ_t = r_t + γ·(1 − terminated_t)·V(true successor of s_t) − V(s_t)",
        tests=(
            "tests/math/test_math_returns.py::test_termination_ends_the_future_and_truncation_bootstraps_it",
            "tests/vector/test_autoreset_modes.py::test_a_rollout_that_ends_with_an_episode_bootstraps_from_its_final_observation",
            "tests/small_worlds/test_small_worlds.py::test_the_corridor_is_walked_beyond_its_truncation",
        ),
    ),
    Row(
        id="A02",
        name="no-leak-across-episodes",
        verdict="real",
        holds=(
            "The sum of GAE ends with the episode, terminated or truncated. Changing episode k + 1 changes no "
            "advantage of episode k, bit for bit."
        ),
        why=(
            "If only termination cuts the sum, every truncated episode is credited with the luck of the episode that "
            "follows it in the same env."
        ),
        formula="A_t = δ_t + γ·λ·(1 − done_t)·A_{t+1},   done = terminated or truncated",
        tests=(
            "tests/reference/test_returns_twin.py::test_nothing_after_an_episode_changes_its_advantages",
            "tests/vector/test_autoreset_modes.py::test_another_next_episode_changes_no_advantage_of_this_one",
        ),
    ),
    Row(
        id="A03",
        name="autoreset-rows",
        verdict="real",
        holds=(
            "The rows in which a Gymnasium vector env of mode NEXT_STEP only resets are no transitions: they are left "
            "out of loss, statistics, normalizers, step count and memory. NEXT_STEP, SAME_STEP and DISABLED give the "
            "same advantages on the same episodes."
        ),
        why=(
            "In a reset row the action is ignored and the reward is 0. Taken for a step, it teaches the policy that "
            "the last observation of an episode leads to the first one of the next."
        ),
        tests=(
            "tests/vector/test_autoreset_modes.py::test_advantages_are_those_of_the_episodes",
            "tests/vector/test_autoreset_modes.py::test_only_transitions_are_counted",
        ),
    ),
    Row(
        id="A04",
        name="zero-spread",
        verdict="real",
        holds=(
            "Advantages are normalized as (A − mean)/std. If the std is no more than rounding, or there is one sample, "
            "the result is zeros and a warning in the metrics."
        ),
        why=(
            "Advantages that differ by rounding alone, divided by their tiny std, become a signal of full size made of "
            "noise."
        ),
        formula="(A − mean(A)) / std(A);   0 if std(A) ≤ 8·eps·max|values involved|",
        tests=(
            "tests/algo/test_estimates.py::test_advantages_that_do_not_vary_become_zeros_and_are_reported",
            "tests/reference/test_advantages_twin.py::test_rounding_around_any_constant_is_never_amplified",
        ),
    ),
    Row(
        id="A05",
        name="group-normalization",
        verdict="real",
        holds=(
            "The mean and std of advantages are those of the whole rollout (or minibatch, or env, as "
            "`normalize_advantage` says), never those of a piece of a minibatch that is only there to save memory."
        ),
        why=(
            "Each piece with its own mean and std has another gradient than the whole, so that the size of the pieces "
            "changes what is learned."
        ),
        tests=(
            "tests/algo/test_gradient.py::test_advantages_are_normalized_over_the_minibatch_not_over_its_pieces",
            "tests/algo/test_estimates.py::test_over_the_rollout_advantages_have_mean_0_and_spread_1",
        ),
    ),
    Row(
        id="A06",
        name="unequal-env-scale",
        verdict="option",
        holds=('`normalize_advantage = "env"` normalizes within each env; the default stays the whole rollout.'),
        why=(
            "Where envs have rewards of different size, the loudest one decides the update. Where they have the same, "
            "normalizing each by itself throws away which of them went better."
        ),
        tests=("tests/algo/test_estimates.py::test_within_each_env_advantages_have_mean_0_and_spread_1",),
    ),
    Row(
        id="A07",
        name="reward-scale",
        verdict="real",
        holds=(
            "The reward normalizer divides by the running std of the discounted return and subtracts no mean. It is "
            "initialized from data, is one number during a rollout, and is saved with the agent. Rewards of ±1e6 or "
            "1e-6 train as well as ±1."
        ),
        why=(
            "With rewards of 1e6 the critic's gradient takes the whole gradient norm; with 1e-6 the untrained critic's "
            "own values drown the advantages. A mean that is subtracted changes the task: it rewards long or short "
            "episodes."
        ),
        formula="r′ = r / std(R),   R_t = γ·R_{t−1} + r_t within an episode",
        tests=(
            "tests/vector/test_normalizers.py::test_rewards_are_divided_by_the_spread_of_the_discounted_return",
            "tests/small_worlds/test_reward_sizes.py::test_one_bit_is_learned_whatever_it_pays",
        ),
    ),
    Row(
        id="A08",
        name="online-needs-gae",
        verdict="real",
        holds=(
            "Updates while the agent is in use work on ordered segments with true successors and GAE, as training "
            "does. Data that is too old for the current policy is refused by its KL."
        ),
        why=(
            "Single transitions out of a shuffled buffer have no advantage beyond one step and no valid ratio. The "
            "agent drifts instead of learning."
        ),
    ),
    Row(
        id="A09",
        name="return-scale-lag",
        verdict="deeper",
        holds=(
            "Statistics of returns are frozen during a rollout, which is right. When they move, the output layer of "
            "the critic is rescaled so that raw predictions stay where they are (PopArt), in every critic and for "
            "every quantile."
        ),
        why=(
            "That the statistics lag is a false alarm. The defect is the jump when they move: without rescaling every "
            "value prediction is suddenly in another unit, and the advantages of the next rollout are wrong."
        ),
        formula="w′ = w·σ / σ′,   b′ = (σ·b + μ − μ′) / σ′",
        tests=(
            "tests/critics/test_popart_and_twin.py::test_the_output_layer_is_rescaled_by_hand",
            "tests/contract/test_all_critics.py::test_raw_predictions_do_not_move_when_statistics_do",
        ),
    ),
    Row(
        id="A10",
        name="late-reward",
        verdict="real",
        holds=(
            "The reward that comes back for an action contains the consequence of that action. An env in which only "
            "the last action pays shows it."
        ),
        why=(
            "A reward that arrives one step late is credited to the next action, and that of the last action to none "
            "at all."
        ),
        tests=(
            "tests/rollout/test_collector.py::test_each_row_holds_the_reward_and_cost_of_its_action",
            "tests/worlds/test_last_action_pays.py::test_only_the_answer_to_the_last_cue_decides_the_return",
        ),
    ),
    Row(
        id="A11",
        name="scale-jump",
        verdict="real",
        holds=(
            "When the scale of the reward normalizer moves, raw value predictions do not jump: the output layer of the "
            "critic is rescaled with it, with PopArt and without."
        ),
        why=(
            "The critic predicts in normalized rewards. If the scale grows by 30, every prediction is suddenly 30 "
            "times too large in raw rewards, and the advantages of the next rollout are made of that error."
        ),
        formula="V_raw = scale·V;   scale → scale′:   w′ = w·scale / scale′,   b′ = b·scale / scale′",
        tests=("tests/critics/test_reward_scale.py::test_raw_values_do_not_move_with_the_scale",),
    ),
)
