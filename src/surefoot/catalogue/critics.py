"""Rows about value functions."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="C01",
        name="clip-predictions",
        verdict="real",
        holds=(
            "Value clipping takes, for each sample, the larger of the two losses of the prediction and of the clipped "
            "prediction. Targets are never clipped. The range is a setting of its own (`clip_range_vf`), in the unit "
            "in which the critic predicts, and off by default."
        ),
        why=(
            "Clipped targets teach a wrong value for ever. The smaller loss, or a maximum of means instead of a mean "
            "of maxima, lets clipping make an error look better than it is."
        ),
        formula="mean_i max(ℓ(v_i, y_i), ℓ(clip(v_i, v_old_i ± c), y_i))",
        tests=(
            "tests/critics/test_scalar_critic.py::test_predictions_are_clipped_around_the_old_ones_per_sample",
            "tests/critics/test_scalar_critic.py::test_targets_far_beyond_the_range_are_not_clipped",
        ),
    ),
    Row(
        id="C02",
        name="twin-clip",
        verdict="real",
        holds=(
            "With two critics each is clipped around its own old prediction, each takes its own maximum per sample, "
            "and then the two losses are averaged. Padding and masks index old and new predictions alike."
        ),
        why=(
            "Clipped around the smaller of the two old values, the other critic is pulled to a value that it never "
            "predicted, and the two become one."
        ),
        formula="loss = ½·Σ_k max(ℓ(v_k, y), ℓ(clip(v_k, v_old_k ± c), y)),   k = 1, 2",
        tests=(
            "tests/critics/test_popart_and_twin.py::test_a_twin_is_clipped_around_its_own_old_prediction",
            "tests/contract/test_all_critics.py::test_twins_are_two_critics_with_their_own_old_predictions_averaged",
        ),
    ),
    Row(
        id="C03",
        name="categorical-targets",
        verdict="real",
        holds=(
            "Support and targets of a categorical critic are in the same unit. Targets are cut only at the ends of the "
            "support, and the fraction that lies outside is logged. A two-hot target has mass 1 and inside the support "
            "exactly the mean of the return, at the edges too."
        ),
        why=(
            "Raw returns on a support for normalized ones all fall on the last atom: the critic predicts a constant, "
            "and its loss looks fine."
        ),
        formula="z_i ≤ y ≤ z_{i+1}:   p_{i+1} = (y − z_i) / (z_{i+1} − z_i),   p_i = 1 − p_{i+1}",
        tests=(
            "tests/reference/test_critic_distributions_twin.py::test_two_hot_has_mass_one_and_the_exact_mean_inside",
            "tests/critics/test_categorical_critic.py::test_returns_beyond_a_fixed_support_are_counted_and_the_support_stays",
        ),
    ),
    Row(
        id="C04",
        name="quantile-loss",
        verdict="real",
        holds=(
            "Quantiles stand at the midpoints of N equal shares of probability. The Huber threshold κ is small against "
            "the std of the targets. The fitted quantiles of a normal and of a skewed distribution are right to within "
            "2 %."
        ),
        why=(
            "κ = 1 on targets of variance 1 learns expectiles, which lie nearer to the middle: CVaR at 5 % of N(0, 1) "
            "reads −1.62 instead of −2.06. A sign or level turned around learns the upper tail for the lower one."
        ),
        formula="τ_i = (i + ½) / N,   u = y − q_i,   ρ = |τ_i − 1{u < 0}|·Huber_κ(u) / κ",
        tests=(
            "tests/critics/test_quantile_critic.py::test_quantiles_of_a_normal_distribution_are_found",
            "tests/critics/test_quantile_critic.py::test_a_kappa_of_one_learns_expectiles_with_thin_tails",
        ),
    ),
    Row(
        id="C05",
        name="crossing",
        verdict="real",
        holds="Quantiles are sorted, or monotone by construction, before any tail is read from them.",
        why=(
            "Learned quantiles cross. The first k outputs of the network are then not the k lowest values, and a CVaR "
            "from them is too high."
        ),
        tests=(
            "tests/critics/test_quantile_critic.py::test_tails_are_read_from_sorted_quantiles",
            "tests/math/test_math_risk.py::test_quantiles_are_sorted_first_and_batches_are_independent",
        ),
    ),
    Row(
        id="C06",
        name="clip-modes",
        verdict="option",
        holds=(
            "A distributional critic is clipped in one of four ways: `none`; `mean_only` shifts the distribution and "
            "keeps its shape; `mean_and_variance` also caps its std at a multiple of the old one; `per_quantile` "
            "clips each quantile. Each works for quantile and categorical critics and keeps its bound."
        ),
        why=(
            "Clipping of a distribution has no single meaning. A mode that is applied to the mean only, while the loss "
            "is of all quantiles, bounds nothing that the loss sees."
        ),
        formula="mean_only:   q + clip(m, m_old ± c) − m,   m = mean(q)",
        tests=(
            "tests/math/test_math_value_clip.py::test_mean_only_keeps_the_shape_and_the_variance_mode_caps_it",
            "tests/critics/test_quantile_critic.py::test_the_clipped_loss_is_that_of_a_prediction_within_bounds",
            "tests/critics/test_categorical_critic.py::test_the_clipped_loss_is_that_of_a_distribution_within_bounds",
        ),
    ),
    Row(
        id="C07",
        name="ce-normalizer",
        verdict="style",
        holds=(
            "The cross-entropy of a categorical critic is divided by ln N, and the docs say so: a uniform prediction "
            "costs 1 whatever N is."
        ),
        why="The factor only rescales `vf_coef`. Undocumented, it makes published coefficients mean something else.",
        formula="ℓ = −Σ_i p_i·ln q_i / ln N",
        tests=("tests/critics/test_categorical_critic.py::test_the_loss_is_the_cross_entropy_in_units_of_ln_n",),
    ),
    Row(
        id="C08",
        name="twin-health",
        verdict="real",
        holds=(
            "GAE uses the smaller of the two critics' means. The gradient norm of each critic is taken before "
            "clipping, from its declared parameters and not by matching names. A ratio of the norms above 100 or below "
            "0.01, or a norm below 1e-8, is a warning; the mean distance of the two values is logged."
        ),
        why=(
            "One of two critics can stop learning unseen, because the minimum hides it. A monitor that looks for names "
            "which no parameter has reports that all is well."
        ),
        formula="V = min(V¹, V²)",
        tests=(
            "tests/critics/test_popart_and_twin.py::test_the_lower_twin_is_believed_and_their_gap_is_measured",
            "tests/critics/test_critics_in_training.py::test_unequal_and_vanishing_twins_raise_a_warning",
        ),
    ),
    Row(
        id="C09",
        name="critic-learns",
        verdict="real",
        holds=(
            "Every group of parameters gets a non-zero gradient from its own loss term, the trunk included. No value "
            "travels through attributes of a module between the forward pass and the loss."
        ),
        why=(
            "A critic whose trunk is detached, or whose loss is computed from a stored prediction of another forward "
            "pass, learns a constant. Its explained variance stays near 0, and everyone blames the task."
        ),
        tests=(
            "tests/critics/test_critics_in_training.py::test_the_value_loss_reaches_every_part_of_the_critic_and_nothing_of_the_actor",
            "tests/contract/test_all_critics.py::test_every_parameter_learns_and_old_predictions_do_not",
        ),
    ),
    Row(
        id="C10",
        name="dtype",
        verdict="false alarm",
        holds=(
            "Tensors are float32, and one place converts what envs give. `torch.tensor` of a Python float is float32 "
            "already and needs no cast."
        ),
        why=(
            "Python floats are doubles, so that such a line looks as if it made the loss float64. Torch converts them "
            "to its default dtype."
        ),
        tests=(
            "tests/contract/test_distributions.py::test_shapes_and_dtypes",
            "tests/policy/test_encoder.py::test_features_are_a_matrix_of_float32",
        ),
    ),
    Row(
        id="C11",
        name="explained-variance",
        verdict="real",
        holds=(
            "Explained variance is computed once over the whole rollout, from the predictions before the update and "
            "without clipping. It is NaN if the targets do not vary. It never steers training silently."
        ),
        why=(
            "A mean over minibatches, or over clipped predictions, is another number. A rule that switches parts of "
            "the loss by it fights the critic that it measures."
        ),
        formula="EV = 1 − Var(y − V) / Var(y)",
        tests=(
            "tests/algo/test_estimates.py::test_explained_variance_is_of_the_whole_rollout_before_the_update",
            "tests/algo/test_estimates.py::test_explained_variance_of_constant_returns_is_not_a_number",
        ),
    ),
)
