"""Rows about recurrent policies and what they remember."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="M01",
        name="pre-step-state",
        verdict="real",
        holds=(
            "The recurrent state that is stored with step t is the one before step t. Replaying the rollout from the "
            "stored states gives the old log-probabilities and values to 1e-5."
        ),
        why=(
            "With the state after the step, the update sees each observation twice. The first ratio is not 1, and the "
            "policy gradient is that of another policy."
        ),
        tests=(
            "tests/algo/test_memory.py::test_states_are_those_before_the_step_and_zero_at_each_start",
            "tests/algo/test_memory.py::test_replay_gives_the_old_probabilities",
        ),
    ),
    Row(
        id="M02",
        name="resets",
        verdict="real",
        holds=(
            "At the start of each episode the state of that env is the initial one, in rollout and update, inside a "
            "sequence too. The batch dimension of the state is the number of envs."
        ),
        why=(
            "A state that is not reset carries one episode into the next. One reset of a wrong axis clears the memory "
            "of all envs when one of them ends."
        ),
        tests=(
            "tests/algo/test_memory.py::test_states_are_those_before_the_step_and_zero_at_each_start",
            "tests/rollout/test_sequences.py::test_every_transition_is_in_one_sequence_and_no_sequence_in_two_episodes",
        ),
    ),
    Row(
        id="M03",
        name="bootstrap-state",
        verdict="deeper",
        holds=(
            "The value of a final observation is computed with the state after the last real step of the episode, "
            "advanced once by that observation and then thrown away."
        ),
        why=(
            "With the state of the next episode, or one that has not moved, the bootstrap value is that of another "
            "history. If the advanced state is kept, the next rollout starts one step too late."
        ),
        tests=("tests/algo/test_memory.py::test_values_and_bootstrap_values_are_those_of_the_loop",),
    ),
    Row(
        id="M04",
        name="several-epochs",
        verdict="false alarm",
        holds=(
            "In every epoch the states are computed anew with the current weights, from the stored state at the start "
            "of each sequence. The default number of epochs is that of PPO, with memory and without."
        ),
        why=(
            "Stored states look stale after the first optimizer step, and people cut recurrent PPO down to one epoch. "
            "Only the starts of sequences are old; a sequence that begins with its episode has nothing stale at all."
        ),
        tests=("tests/algo/test_memory.py::test_states_are_recomputed_in_every_epoch",),
    ),
    Row(
        id="M05",
        name="init",
        verdict="style",
        holds="The bias of the forget gate is 1, the weights of each gate are orthogonal, and a LayerNorm follows.",
        why="With a forget gate that starts half open, a millionth is left of what was seen 20 steps ago.",
        tests=("tests/policy/test_memory.py::test_initial_weights",),
    ),
    Row(
        id="M06",
        name="normalizer-drift",
        verdict="false alarm",
        holds=(
            "The statistics that normalize observations are frozen during a rollout and move after the update. How far "
            "they moved is logged."
        ),
        why=(
            "Frozen statistics look as if they were out of date. But if they moved within the rollout, the update "
            "would see other observations than the policy acted on, and the first ratio would not be 1."
        ),
        tests=(
            "tests/vector/test_normalizers.py::test_statistics_are_frozen_until_the_update_is_over",
            "tests/vector/test_normalizers.py::test_drift_is_how_far_the_means_moved_in_old_standard_deviations",
        ),
    ),
)
