"""Rows about files, settings and reporting."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="Y01",
        name="versions",
        verdict="real",
        holds=(
            "A checkpoint has a format version. Every older version has a tested migration; a newer one is refused "
            "with advice."
        ),
        why="Without a version a checkpoint of last month loads into other meanings, and the agent acts strangely.",
        tests=(
            "tests/store/test_migrations.py::test_every_older_format_has_its_migration",
            "tests/store/test_migrations.py::test_a_newer_format_is_refused_with_the_command_to_upgrade",
            "tests/train/test_old_checkpoints.py::test_an_agent_of_format_1_acts_as_it_did",
        ),
    ),
    Row(
        id="Y02",
        name="exact-resume",
        verdict="real",
        holds=(
            "A run that was cut anywhere and resumed equals one that was not: parameters, optimizer and metrics, bit "
            "for bit, wherever the state of the env can be saved."
        ),
        why=(
            "A resume that loses optimizer, normalizers, schedules or random generators starts a different run. Its "
            "results cannot be repeated or explained."
        ),
        tests=(
            "tests/contract/test_together.py::test_a_continued_run_equals_an_uninterrupted_one",
            "tests/train/test_training_faults.py::test_a_run_cut_in_two_equals_an_uninterrupted_one",
        ),
    ),
    Row(
        id="Y03",
        name="no-code-in-files",
        verdict="real",
        holds="No file that is read is a pickle, and nothing in a file names code that gets run.",
        why="Whoever can send a checkpoint could otherwise run any command on the machine that loads it.",
        tests=(
            "tests/store/test_no_code_in_files.py::test_no_module_of_the_package_can_run_code_from_a_file",
            "tests/cli/test_trust.py::test_a_checkpoint_names_no_code",
        ),
    ),
    Row(
        id="Y04",
        name="strict-config",
        verdict="real",
        holds=(
            "An unknown setting, a wrong type or a value out of range is an error before anything starts, with the "
            "nearest right name."
        ),
        why="A misspelled setting that is ignored leaves the default in force, and the run answers another question.",
        tests=(
            "tests/config/test_strict_settings.py::test_an_unknown_keyword_names_the_nearest_right_one",
            "tests/config/test_strict_settings.py::test_every_field_refuses_a_value_of_a_foreign_type",
            "tests/config/test_strict_settings.py::test_a_number_out_of_range_is_refused_by_name",
        ),
    ),
    Row(
        id="Y05",
        name="fail-loudly",
        verdict="real",
        holds=(
            "Missing data is never replaced by invented data, weights are never loaded with `strict=False`, and no "
            "bare `except` stands around learning."
        ),
        why=(
            "A run that should have stopped goes on with random weights or made-up prices, and its result looks like "
            "any other."
        ),
        tests=(
            "tests/algo/test_learner.py::test_a_missing_tensor_is_an_error",
            "tests/algo/test_learner.py::test_a_tensor_of_another_shape_is_an_error",
            "tests/train/test_env_errors.py::test_raising_in_step_names_env_step_and_action",
        ),
    ),
    Row(
        id="Y06",
        name="diagnostics-are-passive",
        verdict="real",
        holds="With diagnostics on or off the parameters are equal, bit for bit.",
        why=(
            "Diagnostics that draw random numbers, run the policy in another mode or leave gradients behind make the "
            "run that is watched another one than the run that is not."
        ),
        tests=("tests/train/test_no_inert_option.py::test_every_setting_changes_behaviour",),
    ),
    Row(
        id="Y07",
        name="private-code-cache",
        verdict="real",
        holds="Compiled code is loaded only from a directory that belongs to the user and that no one else can write.",
        why="In a shared temporary directory anyone can plant code, and it runs with the rights of whoever trains.",
        tests=("tests/fast/test_code_cache.py::test_nothing_is_built_in_or_loaded_from_a_directory_of_others",),
    ),
    Row(
        id="Y08",
        name="inexact-is-said",
        verdict="real",
        holds="A load or resume that cannot be exact says so, and why.",
        why="Somebody who believes that a run went on exactly will look for the difference in the wrong place.",
        tests=(
            "tests/train/test_loading.py::test_other_envs_of_the_same_spaces_are_gone_on_in_with_new_episodes",
            "tests/train/test_env_states.py::test_a_run_whose_env_cannot_be_kept_goes_on_and_says_why_once",
        ),
    ),
    Row(
        id="Y09",
        name="any-space-saves",
        verdict="real",
        holds="Every observation and action space that trains also saves and resumes.",
        why="A space that the file format refuses ends the run at its first checkpoint, with all that it had learned.",
        tests=("tests/train/test_every_space_saves.py::test_an_agent_of_any_space_goes_on_exactly",),
    ),
)
