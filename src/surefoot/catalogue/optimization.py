"""Rows about gradients, optimizers and schedules."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="O01",
        name="accumulation",
        verdict="false alarm",
        holds=(
            "The loss of each micro-batch is a sum over its rows, divided by the number of valid rows of the whole "
            "minibatch. Micro-batches of any sizes and with any masks then give the gradient of the whole to 1e-6, "
            "also when one of them is empty."
        ),
        why=(
            "Micro-batches of unequal size look as if they were weighted wrongly. They are only if each takes its own "
            "mean; a common divisor makes the sum exact."
        ),
        formula="∇L = (1 / Σ_i w_i)·Σ_micro Σ_{i in micro} w_i·∇ℓ_i",
        tests=("tests/algo/test_gradient.py::test_pieces_of_any_size_give_the_gradient_of_the_whole",),
    ),
    Row(
        id="O02",
        name="grad-clip",
        verdict="style",
        holds=(
            "`max_grad_norm` is 0.5 by default; 0 and None switch clipping off. The norm that is logged is the one "
            "before clipping, together with the share of gradients that were clipped."
        ),
        why=(
            "A limit of 0 taken literally stops all learning. A norm logged after clipping never exceeds the limit and "
            "hides every explosion."
        ),
        formula="g ← g·min(1, max_grad_norm / ‖g‖)",
        tests=(
            "tests/algo/test_gradient.py::test_a_long_gradient_is_scaled_down_and_its_norm_reported_as_it_was",
            "tests/algo/test_gradient.py::test_a_gradient_within_the_limit_is_left_alone",
        ),
    ),
    Row(
        id="O03",
        name="schedule",
        verdict="real",
        holds=(
            "Schedules span the real total of updates, never restart by themselves and survive a resume. Their value "
            "is written to every parameter group at each update, so that a learning rate which was changed meanwhile "
            "takes effect."
        ),
        why=(
            "A schedule that counts calls, or begins anew with each call of `learn`, jumps back to the large learning "
            "rate. One that is read only when the optimizer is built ignores every change."
        ),
        tests=(
            "tests/train/test_learn.py::test_a_schedule_spans_the_first_training_and_then_keeps_its_end_value",
            "tests/algo/test_coefficients.py::test_the_learning_rate_in_force_is_the_one_of_the_schedule",
            "tests/algo/test_coefficients.py::test_schedules_survive_saving",
        ),
    ),
    Row(
        id="O04",
        name="weight-decay",
        verdict="style",
        holds=(
            "Weight decay acts on the critic's parameters only, by default. The docs say what it does to actors: it "
            "shrinks logits, which raises entropy, and it pulls Gaussian means towards 0."
        ),
        why="Decay on an actor is an entropy bonus, or a pull towards action 0, that nobody asked for.",
        tests=("tests/algo/test_gradient.py::test_weight_decay_acts_on_the_critic_only",),
    ),
    Row(
        id="O05",
        name="gradient-norms",
        verdict="real",
        holds=(
            "Gradient norms by module count each parameter once, are taken before clipping, and are the same under "
            "`torch.compile`."
        ),
        why=(
            "A shared trunk that is counted for the actor and for the critic makes both norms too large. Module names "
            "that the compiler changes make them 0."
        ),
        formula="Σ_modules ‖g_module‖² = ‖g‖²",
        tests=(
            "tests/algo/test_gradient.py::test_norms_by_part_are_those_of_the_parameters_gradients",
            "tests/policy/test_policy.py::test_the_parts_hold_each_parameter_once",
        ),
    ),
    Row(
        id="O06",
        name="vgs",
        verdict="real",
        holds=(
            "Variance-based gradient scaling measures noise to signal for each tensor, from element-wise moments of "
            "the raw gradients, and acts as a multiplier of the learning rate. A constant gradient gives 0; noise of "
            "variance s² around m gives s²/m². Its state is kept by parameter name and survives a reload."
        ),
        why=(
            "The variance of a tensor's mean gradient says nothing about its elements. Computed from gradients that "
            "were scaled already, it measures itself; kept by position, it belongs to another tensor after a reload."
        ),
        formula="noise-to-signal = Σ max(0, v − m²) / (Σ m² + ε),   m, v: running means of g and g²",
        tests=(
            "tests/optim/test_vgs.py::test_it_equals_a_slow_twin",
            "tests/optim/test_vgs.py::test_a_constant_gradient_keeps_its_rate",
            "tests/optim/test_vgs.py::test_noise_around_a_mean_divides_the_rate",
            "tests/optim/test_vgs.py::test_its_state_is_kept_by_the_name_of_the_parameter",
        ),
    ),
    Row(
        id="O07",
        name="upgd",
        verdict="real",
        holds=(
            "UPGD and AdaUPGD are as their authors published them: the running utility is bias-corrected, its global "
            "maximum is not, and the factor 2 of the step stays. The noise ξ comes from a generator of its own, which "
            "is saved."
        ),
        why=(
            "The gate of a weight without utility is ½, so that without the factor 2 every ordinary step has half its "
            "length. Another normalization of the utility protects weights that are of no use."
        ),
        formula="U = −g⊙w,   gate = σ(Û / max U),   w ← w − 2·lr·(g + ξ)⊙(1 − gate)",
        tests=(
            "tests/reference/test_upgd_twin.py::test_a_hundred_steps_equal_the_published_formula",
            "tests/reference/test_upgd_twin.py::test_the_noise_has_its_size_and_comes_from_its_own_generator",
            "tests/contract/test_optimizers.py::test_a_saved_state_goes_on_bit_for_bit",
        ),
    ),
    Row(
        id="O08",
        name="tensor-creation",
        verdict="style",
        holds="One helper makes tensors from arrays, on their device, and never from a list of arrays.",
        why="A tensor from a list of arrays is slow, and one that is made on the CPU and moved costs a copy per step.",
    ),
    Row(
        id="O09",
        name="finite-gate",
        verdict="real",
        holds=(
            "If the loss or a gradient is not finite, the optimizer step is skipped and counted, and its source is "
            "named (env, step, term, head). Schedules do not advance. Three such steps in a row stop the run with a "
            "report."
        ),
        why=(
            "One NaN in a gradient is in all weights and in the optimizer's moments after one step. A skip that "
            "nobody counts lets a dead run go on for days."
        ),
        tests=(
            "tests/algo/test_update.py::test_a_step_that_is_not_finite_is_skipped_and_its_source_named",
            "tests/algo/test_update.py::test_three_in_a_row_stop_the_run_with_their_sources",
        ),
    ),
    Row(
        id="O10",
        name="layernorm-order",
        verdict="style",
        holds="Hidden layers have one order everywhere: linear, LayerNorm, activation.",
        why="With different orders in actor and critic, the same settings make two different networks.",
        formula="h = activation(LayerNorm(W·x + b))",
        tests=("tests/policy/test_encoder.py::test_layer_norm_stands_between_linear_and_activation",),
    ),
)
