use std::time::SystemTime;

use super::*;
use crate::state::ProcessId;

use ContainerView as C;
use Phase as P;
use WorkloadState as S;

const RECORDED: &str = "as recorded";

fn reconcile_phase(phase: Phase, alive: bool, container: &ContainerView) -> Reconciled {
    let mut recorded = Status::starting(SystemTime::UNIX_EPOCH);
    recorded.supervisor = Some(ProcessId { pid: 7, start_time: None });
    recorded.container = (*container != C::NotUsed).then(|| "mcpm-time".to_owned());
    recorded.enter(phase, Some(RECORDED.to_owned()), SystemTime::UNIX_EPOCH);
    reconcile(&"time".parse().unwrap(), &recorded, alive, container)
}

/// Every phase, with and without a supervisor, and every view of the container, in the order of `views` below.
const TABLE: &[(Phase, bool, [WorkloadState; 5])] = &[
    // phase, supervisor lives: no container, running, exited, gone, unreachable
    (P::Starting, true, [S::Starting, S::Starting, S::Starting, S::Starting, S::Unknown]),
    (P::Starting, false, [S::Failed, S::Orphaned, S::Failed, S::Failed, S::Unknown]),
    (P::Running, true, [S::Running, S::Running, S::Restarting, S::Restarting, S::Unknown]),
    (P::Running, false, [S::Failed, S::Orphaned, S::Failed, S::Failed, S::Unknown]),
    (P::Restarting, true, [S::Restarting, S::Restarting, S::Restarting, S::Restarting, S::Unknown]),
    (P::Restarting, false, [S::Failed, S::Orphaned, S::Failed, S::Failed, S::Unknown]),
    (P::Stopping, true, [S::Stopping, S::Stopping, S::Stopping, S::Stopping, S::Unknown]),
    (P::Stopping, false, [S::Stopped, S::Orphaned, S::Stopped, S::Stopped, S::Unknown]),
    (P::Stopped, true, [S::Stopped, S::Stopping, S::Stopped, S::Stopped, S::Stopped]),
    (P::Stopped, false, [S::Stopped, S::Orphaned, S::Stopped, S::Stopped, S::Stopped]),
    (P::Failed, true, [S::Failed, S::Failed, S::Failed, S::Failed, S::Failed]),
    (P::Failed, false, [S::Failed, S::Orphaned, S::Failed, S::Failed, S::Failed]),
];

fn views() -> [ContainerView; 5] {
    [C::NotUsed, C::Running, C::Exited(Some(137)), C::Gone, C::Unreachable("no socket".to_owned())]
}

#[test]
fn every_combination_is_reconciled() {
    for (phase, alive, shown) in TABLE {
        for (container, shown) in views().iter().zip(shown) {
            let reconciled = reconcile_phase(*phase, *alive, container);
            assert_eq!(reconciled.state, *shown, "{phase:?}, supervisor {alive}, {container:?}");
            // A state that was observed now is never reported with an older, recorded reason.
            let kept = reconciled.reason.as_deref() == Some(RECORDED);
            let same_word = reconciled.state.as_str() == phase.as_str();
            assert!(kept || reconciled.reason.is_some());
            assert!(!kept || same_word || *phase == P::Stopped, "{phase:?}, {alive}, {container:?}");
        }
    }
}

#[test]
fn reasons_say_what_happened_and_what_to_do() {
    for (phase, alive, container, reason) in [
        (P::Running, false, C::NotUsed, "its supervisor ended (pid 7); run `mcpm restart time`"),
        (
            P::Running,
            false,
            C::Running,
            "its supervisor ended (pid 7), but its container is still running; run `mcpm restart time`",
        ),
        (
            P::Running,
            false,
            C::Exited(Some(1)),
            "its supervisor ended (pid 7), and its container exited (exit code 1); run `mcpm restart time`",
        ),
        (
            P::Starting,
            false,
            C::Gone,
            "its supervisor ended (pid 7) before the workload was ready, and its container no longer exists; \
             run `mcpm restart time`",
        ),
        (
            P::Stopping,
            false,
            C::Running,
            "its supervisor ended (pid 7) before the workload was stopped, but its container is still running; \
             run `mcpm stop time`",
        ),
        (P::Stopping, false, C::Gone, "its supervisor ended (pid 7) before the workload was stopped"),
        (P::Running, true, C::Exited(None), "its container exited"),
        (P::Running, true, C::Gone, "its container no longer exists"),
        (P::Running, true, C::Running, RECORDED),
        (
            P::Running,
            true,
            C::Unreachable("no socket".to_owned()),
            "the engine does not respond (no socket); last known state: running",
        ),
    ] {
        assert_eq!(reconcile_phase(phase, alive, &container).reason.as_deref(), Some(reason));
    }
}

#[test]
fn shown_words_are_the_same_in_json_and_text() {
    for shown in
        [S::Starting, S::Running, S::Restarting, S::Stopping, S::Stopped, S::Failed, S::Orphaned, S::Unknown]
    {
        assert_eq!(serde_json::to_value(shown).unwrap(), shown.as_str());
    }
}
