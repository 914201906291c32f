//! Tests workloads on an engine, and on the built-in runtime as root and as an ordinary user.
//!
//! Tests of containers that are in no list of `on_each_runtime` run on one or two runtimes, for these reasons:
//!
//! - `tests/cli/{container, recovery, secret_delivery, ..}`: they examine the container with the engine, or compare the
//!   engine's messages. Tests in the list below check the same rules.
//! - `tests/container/isolation`: their servers need images with an interpreter, which take seconds to load, so they
//!   run with an engine, and with the built-in runtime as root (`builtin_runtime.rs`). Tests of an engine at another
//!   address, tests that examine a container in the API of the engine, and tests of containers that outlive their
//!   supervisor run with an engine only.
//! - `tests/cli/builtin.rs`: packages are built without their base image, and a runtime is chosen without an engine,
//!   only on the built-in runtime.

mod files;
mod isolation;
mod lifecycle;
mod secrets;
pub(crate) mod server;
mod verification;

mcpm_tests::on_each_runtime! {
    crate::each_runtime::server::run, "Workloads";
    lifecycle::a_workload_keeps_its_url_from_run_to_rm on [engine builtin builtin_as_user];
    lifecycle::a_killed_server_comes_back_and_its_sessions_go_on on [engine builtin builtin_as_user];
    lifecycle::a_killed_supervisor_is_replaced on [engine builtin builtin_as_user];
    lifecycle::a_supervisor_that_is_told_to_end_stops_its_server on [engine builtin builtin_as_user];
    lifecycle::workloads_that_ran_respond_on_their_urls_after_a_reboot on [engine builtin builtin_as_user];
    lifecycle::a_foreground_run_passes_the_exit_code_on on [engine builtin builtin_as_user];
    lifecycle::logs_are_shown_cut_and_followed on [engine builtin builtin_as_user];
    lifecycle::ports_of_the_machine_are_not_taken_for_those_of_a_server on [engine builtin builtin_as_user];
    lifecycle::an_exported_workload_runs_again on [engine builtin builtin_as_user];
    lifecycle::the_container_of_a_killed_supervisor_runs_on on [engine]
        because "containers of the built-in runtime end with their supervisor; `mcpm restart` starts them again";
    files::volumes_are_mounted_as_asked on [engine builtin builtin_as_user];
    files::a_profile_makes_the_root_read_only on [engine builtin builtin_as_user];
    files::a_server_reads_and_changes_nothing_that_is_ignored on [engine builtin builtin_as_user];
    isolation::a_server_reaches_what_its_profile_names_and_nothing_else on [engine builtin builtin_as_user];
    isolation::the_none_profile_has_no_network on [engine builtin builtin_as_user];
    isolation::a_denied_connection_is_explained_and_its_fix_works on [engine builtin builtin_as_user];
    isolation::a_recorded_profile_allows_what_was_used on [engine builtin builtin_as_user];
    isolation::limits_of_a_profile_hold on [engine builtin]
        because "an ordinary user needs control groups that are delegated to it; another test delegates some";
    isolation::limits_without_control_groups_are_rejected on [builtin_as_user]
        because "root has control groups, and engines have them for their users";
    secrets::a_canary_is_in_the_server_only on [engine builtin builtin_as_user];
    secrets::values_are_read_again_at_each_start_and_kept_through_a_crash on [engine builtin builtin_as_user];
    verification::a_signed_image_runs_and_an_unsigned_one_does_not on [engine builtin builtin_as_user];
}
