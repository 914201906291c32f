//! Tests the container runtimes with real containers: an engine, and the built-in runtime as root and as an ordinary
//! user.
//!
//! `MCPM_TEST_ENGINE` selects another engine than the one at Docker's usual socket, such as Podman.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

mod build;
mod confinement;
mod images;
mod lifecycle;
mod severable_socket;
mod streams;
mod support;

mcpm_tests::on_each_runtime! {
    crate::support::run, "Containers";
    lifecycle::the_exit_code_is_told_while_running_and_afterwards on [engine builtin builtin_as_user];
    lifecycle::stop_asks_first_and_kills_after_the_grace on [engine builtin builtin_as_user];
    lifecycle::remove_ends_a_running_container_and_may_be_repeated on [engine builtin builtin_as_user];
    lifecycle::a_program_that_is_not_there_is_a_failed_start on [engine builtin builtin_as_user];
    lifecycle::our_own_name_is_taken_too_and_found_exactly on [engine builtin builtin_as_user];
    lifecycle::a_container_of_somebody_else_is_never_touched on [engine]
        because "the built-in runtime stores its containers in the state folder, where nobody else creates any";
    streams::a_stdio_server_answers_through_its_attached_streams on [engine builtin builtin_as_user];
    streams::a_line_of_four_megabytes_comes_through_whole on [engine builtin builtin_as_user];
    streams::logs_are_split_by_stream_and_cut_by_tail on [engine builtin builtin_as_user];
    streams::followed_logs_end_with_the_container on [engine builtin builtin_as_user];
    streams::a_running_container_can_be_attached_to on [engine]
        because "the streams of a container of the built-in runtime belong to the process that has started it";
    streams::a_lost_engine_ends_streams_and_waits on [engine]
        because "there is no engine that could be lost: containers end with the process that has started them";
    confinement::mounts_honour_read_only_and_never_create_their_source on [engine builtin builtin_as_user];
    confinement::the_container_is_confined on [engine builtin builtin_as_user];
    confinement::no_more_processes_than_the_limit_are_started on [engine builtin builtin_as_user];
    confinement::memory_is_limited on [engine builtin]
        because "an ordinary user needs control groups that are delegated to it; another test delegates some";
    confinement::the_engine_keeps_limits_of_its_own on [engine]
        because "these are settings of an engine: the restart policy, and the size of its logs";
    confinement::a_published_port_is_on_loopback_and_reported on [engine]
        because "the built-in runtime publishes no ports; mcpm reaches servers through the shim";
    confinement::networks_are_found_by_name on [engine] because "the built-in runtime has no networks";
    images::a_private_image_is_pulled_with_the_stored_login_only on [engine builtin]
        because "the test pushes the image by the engine, which an ordinary user may not use";
    images::a_movable_image_is_used_when_its_registry_went_away on [engine builtin]
        because "the test pushes the image by the engine, which an ordinary user may not use";
    images::a_missing_image_is_named on [engine builtin builtin_as_user];
    images::a_local_image_is_described_and_used_without_its_registry on [engine builtin builtin_as_user];
    build::a_build_tells_its_steps_and_gives_an_image_with_labels on [engine builtin builtin_as_user];
    build::a_failed_step_is_named_with_its_exit_code_and_its_last_words on [engine builtin builtin_as_user];
    build::a_dockerfile_that_is_none_is_refused_in_the_engines_words on [engine builtin builtin_as_user];
}
