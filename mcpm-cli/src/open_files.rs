//! Raises the limit of open files, which also limits the connections of a proxy.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for the 2048 connections of clients, one connection to the server for each of them, and all other files.
/// macOS has no higher limit (`OPEN_MAX`).
const MAX_OPEN_FILES: u64 = 10_240;

/// Raises the limit of this process as far as the system allows. The default is 256 on macOS and 1024 on Linux.
pub(crate) fn raise_limit() {
    if let Some(limit) = raised(getrlimit(Resource::Nofile)) {
        // With a lower limit, further connections wait.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// Returns the limit to set; `None` if the current one is high enough.
fn raised(limit: Rlimit) -> Option<Rlimit> {
    let wanted = limit.maximum.map_or(MAX_OPEN_FILES, |maximum| maximum.min(MAX_OPEN_FILES));
    let is_lower = limit.current.is_some_and(|current| current < wanted);
    is_lower.then_some(Rlimit { current: Some(wanted), maximum: limit.maximum })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_raised_up_to_the_maximum() {
        for (current, maximum, expected) in [
            (Some(256), None, Some(10_240)),
            (Some(1024), Some(524_288), Some(10_240)),
            (Some(1024), Some(4096), Some(4096)),
            (Some(4096), Some(4096), None),
            (Some(65_536), Some(524_288), None),
            (None, None, None),
        ] {
            let found = raised(Rlimit { current, maximum });
            assert_eq!(found.as_ref().and_then(|limit| limit.current), expected, "{current:?}");
            assert!(found.is_none_or(|limit| limit.maximum == maximum));
        }
    }
}
