//! Configures glibc's allocator to return memory to the system after clients and servers made a proxy allocate it.
//!
//! By default, glibc keeps more and more of what is freed: the size from which a buffer is mapped on its own, and
//! unmapped when it is freed, rises with the buffers that are freed, to 32 MiB, and free pages below a used one stay.
//! See `docs/decisions/0038-allocator.md`.

use std::{fs, time::Duration};

use tokio::time::MissedTickBehavior;

/// Size in bytes from which a buffer is mapped on its own, and from which free memory at the end of the heap is given
/// back. It is the value that glibc begins with.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_THRESHOLD_BYTES: libc::c_int = 128 << 10;
/// Most heaps: the proxy runs on one thread, and few others allocate.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAX_ARENAS: libc::c_int = 2;
/// How often free pages are given back.
const TRIM_INTERVAL: Duration = Duration::from_secs(30);
/// Growth in pages since the last time that is worth it.
const MIN_GROWTH_PAGES: u64 = 64;

/// Sets the limits; must be called before other threads run.
pub(crate) fn configure() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "nothing else sets glibc's allocator")]
    // SAFETY: `mallopt` takes numbers, and reports what it does not know.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MMAP_THRESHOLD_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, MAX_ARENAS);
    }
}

/// Gives free pages back from time to time, if the process has grown.
pub(crate) async fn trim_regularly() {
    let mut ticks = tokio::time::interval(TRIM_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one is due at once.
    ticks.tick().await;
    let mut before = resident_pages();
    loop {
        ticks.tick().await;
        if resident_pages() >= before + MIN_GROWTH_PAGES {
            trim();
        }
        before = resident_pages().min(before);
    }
}

fn trim() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "nothing else gives free pages back")]
    // SAFETY: `malloc_trim` has no precondition.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The resident pages of this process; 0 if they are unknown.
fn resident_pages() -> u64 {
    let counts = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    counts.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
}
