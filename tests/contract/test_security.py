"""Each promise of SECURITY.md has tests that hold it, and no module reads pickles.

A sentence that is new or changed in the table of SECURITY.md needs a line in
``PROMISES``. A test that is named there may be moved, but not removed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfagents_batch

ROOT = Path(tfagents_batch.__file__).parents[1]
API = "tests/test_api.py"
HERE = "tests/contract/test_security.py"
CHECKPOINT = "tests/training/run_folder/test_checkpoint.py"
APP = "tests/serving/test_app.py"
BUILD = "tests/envs/native/test_build.py"
# Sentences of the column "how", with the tests that fail if the promise is broken.
PROMISES: dict[str, tuple[str, ...]] = {
    # environments
    "The processes protect training from crashes, not from hostile code": (
        "tests/faults/test_restart.py::"
        "test_a_worker_that_crashes_loses_its_rows_until_it_is_replaced",
    ),
    # run folders
    "config, metrics, checkpoints and replay are text and arrays with hashes": (
        f"{CHECKPOINT}::test_manifest_is_strict_json_and_describes_the_variables",
        f"{CHECKPOINT}::test_any_damage_is_reported_and_the_older_one_is_loaded",
        f"{CHECKPOINT}::"
        "test_a_manifest_that_is_malformed_or_leads_out_of_its_folder_is_damage",
        "tests/training/run_folder/test_replay_file.py::"
        "test_a_damaged_replay_is_refused_and_nothing_is_assigned",
    ),
    "Nothing is unpickled": (
        f"{HERE}::test_no_module_executes_what_it_reads_from_a_file",
        f"{HERE}::test_unsafe_calls_are_found",
    ),
    "What could run code counts only if you pass it again: modules and files of code, "
    "the values of `worker_variables`, text in `env_kwargs` that an environment might "
    "execute, and the address of a cluster": (
        f"{API}::test_a_run_folder_cannot_make_the_program_import_code",
        f"{API}::test_worker_variables_of_a_folder_are_ignored_until_passed_again",
        f"{API}::test_env_kwargs_with_text_have_to_be_passed_again",
        f"{API}::test_env_kwargs_with_text_are_not_passed_to_another_environment",
        f"{API}::test_a_run_folder_does_not_choose_the_cluster",
        "tests/algorithms/shared/test_entries_of_runs.py::"
        "test_the_folder_of_a_teacher_starts_nothing",
        "tests/configs/test_named.py::test_a_config_that_cannot_be_used_is_refused",
    ),
    # exports
    "only regular files inside the folder are read, and every entry of `export.json` "
    "is checked": (
        "tests/serving/test_reading.py::test_a_hostile_export_is_an_error_of_one_line",
        "tests/serving/test_reading.py::"
        "test_the_server_refuses_a_hostile_export_and_goes_on",
        "tests/serving/test_reading.py::test_an_export_is_not_written_over_a_pipe",
    ),
    "A manifest has the hash of every file, which finds damage": (
        "tests/serving/test_predictor.py::test_a_spoilt_export_is_refused",
    ),
    # logged rows
    "they are read as data; `.pkl`, `.pt` and `.npy` files are refused": (
        "tests/offline/test_reader.py::test_data_that_cannot_be_read_is_one_line",
    ),
    # compiled programs and the native library
    "They are not used if another user can write to them or to a folder above": (
        f"{BUILD}::test_a_library_that_others_can_write_is_neither_built_nor_loaded",
        f"{BUILD}::test_a_library_of_another_user_is_not_loaded",
        "tests/training/compilation/test_compile_cache.py::"
        "test_a_folder_that_others_may_write_to_is_not_used",
    ),
    # the server
    "the server listens on 127.0.0.1; another address needs a token": (
        "tests/serving/test_server.py::test_another_address_needs_a_token",
        f"{APP}::test_a_token_is_needed_for_all_but_health",
        f"{APP}::test_without_a_token_the_host_is_of_this_machine",
        f"{APP}::test_web_pages_may_not_send_requests_without_a_token",
    ),
    "Changing the export needs a token of its own": (
        f"{APP}::test_changing_the_export_is_a_right_of_its_own",
        f"{APP}::test_errors_do_not_tell_which_paths_exist",
    ),
    "Size, time and memory of requests are bounded (limits)": (
        "tests/serving/test_server.py::test_a_slow_body_is_408_and_holds_up_no_other",
        "tests/serving/test_server.py::test_a_slow_head_ends_its_connection",
        "tests/serving/test_server.py::test_a_body_of_ten_megabytes_is_413",
        "tests/serving/test_attacks.py::test_an_attack_takes_no_memory_and_no_answers",
    ),
    # pools
    "Ray and Spark on one machine listen on 127.0.0.1": (
        "tests/distribute/test_loopback.py::"
        "test_engines_on_one_machine_listen_on_the_loopback_address",
    ),
    # below the table
    "`worker_variables`, which may have secrets, are never saved or sent": (
        f"{API}::test_worker_variables_reach_every_worker_and_no_file",
        "tests/training/log/test_hyperparameters.py::"
        "test_the_text_has_all_settings_by_their_flags_and_no_secrets",
    ),
}
# Sentences that tell users what to do, and promise nothing.
ADVICE = {
    "`--env=module:Class`, `--env=./file.py:Class`, `--algorithm=...` and functions "
    "are your code, and are imported",
    "they run in worker processes as your user",
    "they are machine code",
    "Whoever can change the folder can change the hash too",
    "ONNX Runtime, TensorFlow or LiteRT reads the model, so load models of strangers "
    "only as far as you trust these readers",
    "In a network, use TLS, its own or a proxy's (more)",
    "both engines pickle what they carry, which runs code of the sender in both "
    "directions",
    "Use them in a network of your own",
    "TensorBoard, Weights & Biases and MLflow are other programs",
    "`--track` sends the settings of a run to them",
}
# Calls that execute what they read.
UNSAFE = {
    *("eval", "exec", "pickle.load", "pickle.loads", "pickle.Unpickler"),
    *("cloudpickle.load", "cloudpickle.loads", "marshal.loads", "marshal.load"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "shelve.open", "joblib.load"),
    *("dill.load", "dill.loads", "runpy.run_path"),
    *("keras.models.load_model", "keras.saving.load_model"),
}
# Modules that may call them: all read what this user's own processes have written.
READERS = {
    "envs/recipe.py": {"cloudpickle.loads"},  # sent to a worker
    # Values of flags, copied in this process; entry points that the learner sends.
    "envs/worker/inherited.py": {"cloudpickle.loads", "pickle.loads"},
    "envs/worker/serving.py": {"pickle.Unpickler"},  # constructors of the learner
    "devices/cuda.py": {"runpy.run_path"},  # a module of TensorFlow
    "distribute/wire.py": {"cloudpickle.loads"},  # jobs in workers of Ray and Spark
}


def sentences() -> Iterator[str]:
    """Yield the sentences of the table's last column, and of the text below it."""
    _, _, text = (ROOT / "SECURITY.md").read_text().partition("| what | trusted |")
    *rows, below = re.split(r"\n(?=\| )|\n\n", text)
    for cell in (*(row.rpartition(" | ")[2] for row in rows[1:]), below):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(cell.split()))
        for each in re.split(r"(?<=[^.])\. |(?<=them); ", plain):
            yield each.rstrip(" |.")


def test_every_promise_of_the_table_is_held_by_tests():
    assert set(sentences()) == PROMISES.keys() | ADVICE


@pytest.mark.parametrize("promise", PROMISES)
def test_the_tests_of_a_promise_exist(promise):
    assert PROMISES[promise]
    for test in PROMISES[promise]:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text())
        found = [x for x in tree.body if getattr(x, "name", None) == name]
        assert found, f"{test} is gone; move it instead"
        assert not [x for x in found[0].decorator_list if "skip" in ast.unparse(x)]


def test_no_module_executes_what_it_reads_from_a_file():
    found = {}
    for path in (ROOT / "tfagents_batch").rglob("*.py"):
        calls = set(unsafe_calls(ast.parse(path.read_text())))
        if calls:
            name = path.relative_to(ROOT / "tfagents_batch").as_posix()
            found[name] = calls
    assert found == READERS


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pickle\npickle.load(f)", {"pickle.load"}),
        ("from pickle import loads as read\nread(x)", {"pickle.loads"}),
        ("import cloudpickle as c\nf = c.loads", {"cloudpickle.loads"}),
        ("import yaml\nyaml.load(x)", {"yaml.load"}),
        ("import keras\nkeras.models.load_model(x)", {"keras.models.load_model"}),
        ("import numpy as np\nnp.load(x)", {"np.load"}),
        ("import numpy as np\nnp.load(x, allow_pickle=True)", {"np.load"}),
        ("import numpy as np\nnp.load(x, allow_pickle=False)", set()),
        ("eval(x)", {"eval"}),
        ("model.eval(x)", set()),
    ],
)
def test_unsafe_calls_are_found(source, found):
    assert set(unsafe_calls(ast.parse(source))) == found


def unsafe_calls(tree: ast.AST) -> Iterator[str]:
    """Yield the names of unsafe functions that a module uses."""
    names = {}  # of this module: dotted names of what they are
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            head, dot, rest = ast.unparse(node).partition(".")
            name = names.get(head, head) + dot + rest
            if name in UNSAFE:
                yield name
        if isinstance(node, ast.Call) and ast.unparse(node.func) in (
            "np.load",
            "numpy.load",
        ):
            allowed = {x.arg: ast.unparse(x.value) for x in node.keywords}
            if allowed.get("allow_pickle") != "False":
                yield "np.load"
