"""docs/security.md promises nothing that no test holds.

Each statement of the page (a paragraph, a point of a list, a row of the table) has its tests here,
found by its first words. A statement that is new or begins anew is without one, and fails.
"""

# ruff: noqa: E501 - names of tests are long
from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.places import ROOT

PAGE = ROOT / "docs" / "security.md"
NOTHING = ""
"""For statements that say who is trusted, or what is not protected: they promise nothing."""

RUNNERS, SITES = "runners/run/", "sites/"
TRUST = RUNNERS + "directory/test_trust.py::"
URLS = SITES + "transfers/hostile/test_url_inputs.py::"
TREE = SITES + "transfers/hostile/test_clean_tree.py::"
USERS = SITES + "remote/test_two_users.py::"
DIRECT = SITES + "transfers/direct/test_direct.py::"
HANDSHAKE = SITES + "channels/test_handshake.py::"
CHANNELS = SITES + "launchers/test_channels.py::"
ENCRYPTION = SITES + "launchers/test_encryption.py::"
RELAY = SITES + "remote/test_relay.py::"
TEXT = "runners/cli/test_hostile_text.py::"
LIMITS = "parsers/test_limits.py::"
CONTAINERS = "parsers/test_containers.py::"

# Beginning of the statement, and the tests that hold it.
PROOFS: dict[str, str | tuple[str, ...]] = {
    "wfrun runs other people's": NOTHING,
    # What is trusted
    "| a document": (
        RUNNERS + "prepare/test_no_code_here.py::test_documents_are_no_code_here",
        RUNNERS
        + "prepare/test_no_code_here.py::test_documents_for_remote_sites_start_nothing_here",
    ),
    "| other users": (
        USERS + "test_it_is_found_again_and_nobody_else_can_enter_it",
        SITES + "channels/test_two_users.py::test_other_users_see_no_secret_and_reach_no_file",
        "integration/test_two_users.py::test_jobs_of_the_same_name_stay_apart",
    ),
    "| a site": (
        SITES + "transfers/hostile/test_contained.py::test_no_transfer_writes_beside_the_outputs",
        SITES + "local/test_hostile_launcher.py::test_attempts_of_others_are_left_alone",
    ),
    "| the catalog": NOTHING,
    "A local site runs tasks": NOTHING,
    "wfrun does not protect": NOTHING,
    # Documents
    "Ids of tasks": (
        LIMITS + "test_ids_in_all_formats_of_workflows_are_checked",
        LIMITS + "test_names_of_files_that_cannot_be_used_are_refused",
        LIMITS + "test_formats_do_not_lead_out",
        LIMITS + "test_huge_numbers_in_workflows_are_refused",
    ),
    "Emulated tasks have": (
        RUNNERS + "prepare/test_no_code_here.py::test_documents_are_no_code_here",
        RUNNERS + "prepare/test_environments.py::test_emulated_tasks_have_no_container",
    ),
    "A document can read files": (
        RUNNERS + "prepare/test_no_code_here.py::test_inputs_are_read_from_files_only",
        RUNNERS + "prepare/test_no_code_here.py::test_values_come_from_files_only",
    ),
    "wfrun fetches files only": (
        URLS + "test_a_url_has_one_host",
        URLS + "test_all_find_the_same_host",
        URLS + "test_redirects_stay_at_allowed_hosts",
        URLS + "test_certificates_are_verified",
        URLS + "test_parts_of_different_files_are_never_joined",
        RUNNERS + "files/test_url_inputs.py::test_other_urls_are_refused",
        RUNNERS + "files/test_url_inputs.py::test_it_is_fetched_from_an_allowed_host",
    ),
    "A document may say that a site": (
        RUNNERS
        + "files/test_input_catalog.py::test_a_file_that_a_site_has_is_copied_from_there_and_stays",
    ),
    "Names of images and mounts": (
        CONTAINERS + "test_images_that_a_runtime_could_misread",
        CONTAINERS + "test_containers_that_are_refused",
        CONTAINERS + "test_names_of_variables",
    ),
    "A container is no protection": SITES + "local/test_environments.py",
    "Of XPath in JSDL": "parsers/bags/test_bags_jsdl.py::test_paths_that_could_run_for_hours_are_refused",
    "Files come to the submit host": (
        SITES + "transfers/hostile/test_contained.py::test_names_that_leave_are_refused",
        SITES + "transfers/hostile/test_contained.py::test_links_inside_are_refused",
    ),
    # Files that sites send
    "Sites do not name files": SITES
    + "transfers/hostile/test_contained.py::test_no_transfer_writes_beside_the_outputs",
    "A file that is longer": (
        SITES + "transfers/relay/test_relay_copies.py::test_a_site_that_sends_more_than_it_said",
        SITES + "transfers/hostile/test_hostile_site.py::test_a_file_without_end_is_stopped",
        SITES + "transfers/hostile/test_hostile_site.py::test_a_hostile_directory_leaves_nothing",
        TREE + "test_what_could_leave_is_refused",
        TREE + "test_links_of_the_users_own_directory_may_leave_it",
    ),
    "A GridFTP server is one": (
        SITES
        + "transfers/gridftp/test_gridftp.py::test_a_file_is_not_longer_here_than_its_site_said",
        SITES
        + "transfers/gridftp/test_gridftp.py::test_names_that_the_client_garbles_are_left_to_others",
    ),
    "`wfrun sites check --write`": "runners/admin/test_link_figures.py",
    # Directories at sites
    "The run's directory at a site": (
        USERS + "test_what_another_user_made_first_is_refused",
        USERS + "test_an_own_directory_is_closed_or_refused",
    ),
    "Its parent belongs": USERS + "test_a_parent_in_which_others_can_rename_is_refused",
    "No directory above": (
        USERS + "test_a_parent_in_which_others_can_rename_is_refused",
        USERS + "test_links_in_a_circle_are_refused",
    ),
    "Below a directory that nobody": USERS + "test_own_and_shared_directories_can_be_used",
    "Its name, ": (
        USERS + "test_it_is_found_again_and_nobody_else_can_enter_it",
        "integration/test_two_users.py::test_a_directory_that_another_user_made_stops_the_site",
    ),
    "The cache of images": (
        RUNNERS + "files/test_image_cache.py::test_a_cache_that_others_can_write_is_not_used",
        RUNNERS + "files/test_image_cache.py::test_a_damaged_image_is_sent_again",
    ),
    # Jobs at sites
    "Jobs in a queue": (
        SITES + "cluster/test_whose_jobs.py::test_a_job_of_another_user_is_not_taken_for_ours",
        "integration/test_two_users.py::test_jobs_of_the_same_name_stay_apart",
    ),
    "What a site answers": (
        SITES + "batch/test_numbers.py::test_each_number_of_an_answer",
        "parsers/test_foreign.py::test_a_planted_reader_is_found",
        RUNNERS + "test_dispatch.py::test_an_unexpected_answer_fails_the_copy",
        SITES + "remote/test_hostile_agent.py::test_what_is_no_frame_ends_it",
        SITES + "cluster/test_hostile_answers.py::test_impossible_answers_are_no_answer",
        SITES + "launchers/test_hostile_launchers.py::test_invalid_messages_harm_nobody",
        SITES + "local/test_hostile_launcher.py::test_what_is_no_message_ends_the_launcher",
    ),
    "A copy is given up": SITES
    + "transfers/hostile/test_hostile_site.py::test_a_site_that_stops_sending_is_given_up",
    "Secrets of launchers": (
        "integration/test_two_users.py::test_no_process_shows_a_secret",
        USERS + "test_sockets_are_not_put_where_another_user_waits",
    ),
    # Copies through an object store
    "With `rclone`": (
        SITES + "transfers/direct/test_rclone.py::test_storage_that_sends_something_else",
        SITES + "transfers/direct/test_rclone.py::test_a_cancelled_copy_leaves_no_object",
        "parsers/catalog/test_catalog.py::test_mistakes_in_keys_of_transfers",
    ),
    # Copies from site to site
    "Without `direct`": RUNNERS
    + "files/test_emulated_methods.py::test_clusters_that_are_emulated_here_use_no_methods_between_clusters",
    "`direct: forward`": "integration/suites/test_conformance_direct.py",
    "Either way the source": SITES + "transfers/test_checksums.py",
    "Host keys are checked": "integration/suites/test_conformance_direct.py::test_the_key_of_the_destination_is_checked",
    "Names reach no shell": DIRECT
    + "test_names_that_an_old_client_would_hand_to_a_shell_are_not_carried",
    "The client at the source": DIRECT + "test_the_script_leaves_nothing_and_ends_with_its_input",
    # Channels of launchers
    "Anybody on the cluster": (
        SITES + "launchers/test_strangers.py::test_strangers_keep_no_launcher_out",
        SITES + "channels/test_two_users.py::test_calls_of_another_user_keep_no_launcher_out",
    ),
    "**Admission.**": (
        HANDSHAKE + "test_a_hello_is_accepted_once_in_a_session",
        HANDSHAKE + "test_separators_in_fields_do_not_matter",
        CHANNELS + "test_a_hello_of_an_earlier_session_is_refused",
        RELAY + "test_little_is_passed_on_of_a_connection_that_is_not_admitted",
    ),
    "**Limit on callers.**": (
        RELAY + "test_many_silent_strangers_keep_nobody_out",
        RELAY + "test_one_host_does_not_keep_another_out",
        SITES
        + "launchers/test_strangers.py::test_few_warnings_are_written_and_the_others_are_counted",
    ),
    "**Where ports are open.**": (
        RELAY + "test_addresses_in_private_networks_face_the_cluster",
        RELAY + "test_no_port_is_open_at_other_addresses",
    ),
    "**Eavesdropping.**": (
        ENCRYPTION + "test_a_listener_sees_no_message",
        ENCRYPTION + "test_a_man_in_the_middle_gets_nothing",
        ENCRYPTION + "test_without_encryption_a_listener_sees_messages",
    ),
    "**What each end accepts.**": (
        HANDSHAKE + "test_a_launcher_that_calls_another_launcher_is_no_engine",
        CHANNELS + "test_a_replayed_proof_is_refused",
        SITES
        + "launchers/test_hostile_launchers.py::test_a_launcher_ends_no_attempt_that_it_does_not_have",
    ),
    "**Commands on other nodes.**": (
        SITES + "launchers/test_command_relay.py::test_others_get_no_command_started",
        SITES
        + "launchers/test_command_relay.py::test_only_its_node_tells_the_end_of_a_command_and_only_its_asker_ends_it",
        SITES + "launchers/test_command_relay.py::test_a_run_has_a_bounded_number_of_commands",
    ),
    "**Where secrets are.**": (
        SITES + "channels/test_two_users.py::test_other_users_see_no_secret_and_reach_no_file",
        SITES + "channels/test_two_users.py::test_a_launcher_believes_no_file_of_another_user",
    ),
    # Runs on the submit host
    "To resume a run": TRUST + "test_a_run_of_another_user_is_not_driven",
    "**Whose run.**": (
        TRUST + "test_a_path_that_another_user_exchanges",
        TRUST + "test_a_folder_of_runs_of_another_user",
        TRUST + "test_what_is_opened_is_judged",
        TRUST + "test_a_file_of_another_user_in_a_run",
        TRUST + "test_a_run_that_others_may_write_is_not_driven",
        TRUST + "test_modes_inside_a_private_directory_do_not_matter",
        "runners/cli/inspect/test_any_run.py::test_runs_of_another_user",
    ),
    "**The index of runs.**": (
        RUNNERS + "directory/test_run_index.py::test_an_index_of_others_is_not_used",
        RUNNERS + "directory/test_run_index.py::test_a_directory_of_another_user_in_the_index",
        RUNNERS + "directory/test_run_index.py::test_a_log_of_another_user_in_the_index",
    ),
    "**Whose outputs.**": RUNNERS
    + "history/test_reuse.py::test_a_run_of_another_user_is_not_reused",
    "**Where new runs are.**": (
        TRUST + "test_a_folder_of_runs_that_others_control",
        TRUST + "test_a_folder_of_runs_is_closed_to_the_group",
        TRUST + "test_a_given_directory_of_another_user",
    ),
    "**What commands write.**": (
        "parsers/test_atomic.py::test_a_link_of_another_user_in_a_directory_of_a_group",
        "runners/cli/test_drafts.py::test_no_command_writes_through_a_link",
        "runners/cli/test_drafts.py::test_the_metrics_file",
    ),
    "**What others read.**": (
        TRUST + "test_modes_of_a_run",
        TRUST + "test_another_user_reads_only_what_is_shown",
        RUNNERS + "files/test_url_inputs.py::test_what_was_fetched_is_the_users_alone",
        "runners/experiments/test_export_ro_crate.py::test_urls_keep_their_secrets",
    ),
    "**Requests.**": (
        RUNNERS + "additions/test_user_requests.py::test_a_request_of_another_user_is_refused",
        RUNNERS + "additions/test_user_requests.py::test_a_file_that_is_no_request_stops_nothing",
    ),
    "**Checkpoints**": (
        RUNNERS + "store/test_checkpoints.py::test_only_what_this_user_has_frozen_is_thawed",
        RUNNERS + "store/test_checkpoints.py::test_the_key_is_the_users_alone",
    ),
    "**What the log may hold.**": (
        RUNNERS + "store/test_damaged_log.py::test_hostile_contents",
        RUNNERS + "store/test_damaged_log.py::test_a_log_that_is_cut",
    ),
    "**Notifications.**": (
        RUNNERS + "notices/test_notifications.py::test_foreign_text_is_no_command",
        RUNNERS
        + "notices/test_notifications.py::test_json_is_posted_and_the_secret_in_the_url_is_nowhere",
    ),
    "**What `wfrun clean` removes.**": (
        "integration/files/test_clean.py::test_a_run_leaves_its_sites",
        TRUST + "test_a_folder_of_runs_of_another_user",
    ),
    "**Races.**": RUNNERS + "resumes/test_races.py::test_a_pair_of_commands",
    # The terminal and tables
    "Ids, names, messages": TEXT + "test_commands",
    "All output of `wfrun`": "runners/display/test_console.py::test_every_way_of_printing",
    "Text is escaped on pipes": TEXT + "test_pipes_get_data_unchanged_and_messages_escaped",
    "In the page of `wfrun report`": (
        "runners/experiments/test_report_html.py::test_only_the_scripts_of_the_page_run",
        "runners/display/test_results.py",
    ),
    "Names take one line": (
        "engine/explain/test_visible.py::test_names_are_one_short_line",
        "engine/explain/test_visible.py::test_lines_of_an_error_cannot_pass_for_other_messages",
    ),
    "Titles of `wfrun logs`": TEXT + "test_logs_have_titles_that_no_output_can_forge",
    "Commands that a message": (
        TEXT + "test_commands_to_copy_are_quoted",
        TEXT + "test_completions_are_names_that_a_shell_takes_as_they_are",
    ),
    "Entries that `wfrun sites init`": "runners/admin/test_sites_entry.py::test_a_host_cannot_write_lines_of_the_catalog",
    "Errors of the Python API": "engine/explain/test_visible.py::test_lines_of_an_error_cannot_pass_for_other_messages",
    "Letters of scripts": NOTHING,
    # Attempts on nodes
    "An attempt that was given up": (
        SITES + "node/tasks/test_commit.py::test_an_attempt_that_wakes_up_replaces_nothing",
        SITES + "node/test_two_users.py::test_another_user_brings_about_no_late_commit",
    ),
    "A directory output": (
        SITES + "node/tasks/test_outputs.py::test_a_file_outside_is_copied",
        SITES + "node/tasks/test_outputs.py::test_what_cannot_be_copied_is_refused",
        SITES + "node/tasks/test_outputs.py::test_an_output_behind_a_link_stays_with_its_owner",
    ),
    "A damaged journal": (
        SITES
        + "node/tasks/test_damaged_journals.py::test_what_launchers_read_in_a_damaged_journal_is_true",
        SITES
        + "node/tasks/test_damaged_journals.py::test_a_line_that_no_launcher_writes_is_skipped",
        SITES + "local/test_hostile_launcher.py::test_an_invalid_outcome_is_that_of_a_lost_attempt",
        RUNNERS + "sites/test_hostile_journals.py::test_the_site_goes_on",
    ),
    "A job that finds no Python": SITES
    + "node/jobs/test_job_without_python.py::test_a_damaged_request_claims_nothing",
}


def statements() -> Iterator[str]:
    """Paragraphs, points and rows of the page, up to the section on how it is tested."""
    text = PAGE.read_text(encoding="utf-8").partition("## How this is tested")[0]
    rows = re.sub(r"^\| who or what .*\n\|[-|]+\n", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=- |\| )", rows):
        lines = [line.strip() for line in block.strip().splitlines() if not line.startswith("#")]
        if lines:
            yield " ".join(lines).removeprefix("- ")


@cache
def names_in(path: str) -> frozenset[str]:
    """Names of the tests of a module."""
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_each_statement_has_its_tests() -> None:
    for statement in statements():
        found = [begin for begin in PROOFS if statement.startswith(begin)]
        assert len(found) == 1, f"{statement[:60]!r} has the tests of {found}"


@pytest.mark.parametrize("begin", PROOFS)
def test_the_tests_are_there(begin: str) -> None:
    assert any(statement.startswith(begin) for statement in statements())
    proofs = PROOFS[begin]
    for proof in (proofs,) if isinstance(proofs, str) else proofs:
        path, _, name = proof.partition("::")
        assert not path or (ROOT / "tests" / path).is_file()
        assert not name or name in names_in(path), proof
