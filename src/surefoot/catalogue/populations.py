"""Rows about population-based training and adversarial robustness."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="B01",
        name="pbt-applies",
        verdict="real",
        holds=(
            "After exploit and explore every changed hyper-parameter is in force at the next update. The optimizer is "
            "`reset` or `copy`; if its state is missing, it is reset with a warning."
        ),
        why=(
            "A learning rate that is written into the configuration and not into the optimizer changes nothing. The "
            "population then searches among copies of one agent."
        ),
    ),
    Row(
        id="B02",
        name="full-copy",
        verdict="real",
        holds=(
            "Exploit copies the whole trainer state: weights, optimizer, normalizers, multipliers, schedules; the two "
            "are compared and must be equal. Identity, random generators and envs stay those of the member."
        ),
        why=(
            "Weights without their normalizers see observations in another unit: the copied member is worse than the "
            "one that it came from, and for a reason that no log shows."
        ),
    ),
    Row(
        id="B03",
        name="explore-after-exploit",
        verdict="real",
        holds=(
            "Only members that were replaced explore. At least one member moves in each round, and members that tie do "
            "not. The state of the scheduler is saved and goes on."
        ),
        why=(
            "If the best members explore too, the best settings are lost. If small populations round to nobody, the "
            "search never happens."
        ),
    ),
    Row(
        id="S01",
        name="robust-kl",
        verdict="real",
        holds=(
            "State-adversarial PPO has the surrogate on clean states and adds the largest KL between the policy there "
            "and at perturbed states. The term has a gradient, uses the same rows, starts at random, ramps ε up, "
            "leaves out features that cannot be attacked, and works with memory."
        ),
        why=(
            "A term computed from detached log-probabilities has no gradient and changes nothing. A surrogate on "
            "perturbed states makes ratios of a policy that did not act."
        ),
        formula="L = L_PPO(s) + κ·max_{‖ŝ − s‖ ≤ ε} KL(π(·|s) ‖ π(·|ŝ))",
        tests=(
            "tests/algo/test_robust.py::test_value_and_gradient_are_those_of_a_brute_force_maximum",
            "tests/algo/test_robust.py::test_as_many_steps_as_there_are_reach_every_corner",
            "tests/algo/test_robust.py::test_the_search_leaves_no_gradient_behind",
            "tests/algo/test_robust.py::test_it_goes_with_memory_heads_masks_and_pieces",
        ),
    ),
)
