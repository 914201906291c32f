//! Tests of the version of Landlock, and of sandboxes on a kernel without it.

use std::thread;

use super::{sandbox_tests::*, *};
use crate::testing::with_timeout;

#[tokio::test]
async fn the_version_is_that_of_sandboxes() {
    let bed = TestBed::new();
    let process = with_timeout(bed.spawn(&bed.plan(&["true"]))).await.unwrap();
    // Sandboxes do not use version 1.
    assert_eq!(landlock_version().ok().filter(|version| *version > 1), process.landlock_version());
    run_as_ordinary_user("landlock_tests::the_version_is_that_of_sandboxes");
}

#[test]
fn without_landlock_the_error_is_that_of_the_kernel_and_sandboxes_start() {
    for errno in [libc::ENOSYS, libc::EOPNOTSUPP] {
        let bed = TestBed::new();
        let test = async || {
            assert_eq!(landlock_version().unwrap_err().raw_os_error(), Some(errno));
            let mut process = bed.spawn(&bed.plan(&["true"])).await.unwrap();
            assert_eq!(process.landlock_version(), None);
            assert_eq!(with_timeout(process.wait()).await.unwrap().code, 0);
        };
        // The filter applies to a thread of its own, and to the processes that this thread starts.
        let run = || {
            deny_system_call(libc::SYS_landlock_create_ruleset, errno);
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
        };
        thread::scope(|scope| scope.spawn(run).join()).unwrap();
    }
    run_as_ordinary_user(
        "landlock_tests::without_landlock_the_error_is_that_of_the_kernel_and_sandboxes_start",
    );
}
