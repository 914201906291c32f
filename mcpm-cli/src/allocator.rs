//! Limits how much freed memory glibc's allocator retains, and returns free pages to the system at intervals, so that a
//! proxy shrinks again after a load peak.
//!
//! By default, glibc retains more and more freed memory. It maps large buffers separately, and unmaps them when they
//! are freed, but each freed buffer can raise the size from which a buffer counts as large, up to 32 MiB. Free pages
//! below a used page are not returned either. See `docs/decisions/0038-allocator.md`.

use std::{fs, time::Duration};

use tokio::time::MissedTickBehavior;

/// Size in bytes from which a buffer is mapped separately, and from which free memory at the end of the heap is
/// returned. It is glibc's initial value.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_THRESHOLD_BYTES: libc::c_int = 128 << 10;
/// Maximum number of heaps: the proxy runs on one thread, and few other threads allocate.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAX_ARENAS: libc::c_int = 2;
/// The interval at which free pages are returned.
const TRIM_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum growth in pages since the last return.
const MIN_GROWTH_PAGES: u64 = 64;

/// Sets the limits; must be called before other threads run.
pub(crate) fn configure() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "nothing else sets glibc's allocator")]
    // SAFETY: `mallopt` takes numbers, and returns an error for unknown ones.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, MMAP_THRESHOLD_BYTES);
        libc::mallopt(libc::M_ARENA_MAX, MAX_ARENAS);
    }
}

/// Returns free pages to the system periodically, if the process has grown.
pub(crate) async fn trim_regularly() {
    let mut ticks = tokio::time::interval(TRIM_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is immediate.
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

/// Returns the number of resident pages of this process; 0 if it is unknown.
fn resident_pages() -> u64 {
    let counts = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    counts.split(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
}
