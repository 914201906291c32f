//! Maps the users and groups of a sandbox to users and groups of this machine.

use std::{fs, io, path::PathBuf};

/// The first id inside, the first id on this machine, and the number of ids.
type IdRange = (u32, u32, u32);

/// A map that needs the privileges of a program, such as `newuidmap`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrivilegedMap {
    pub(crate) program: PathBuf,
    pub(crate) ranges: Vec<IdRange>,
}

/// The users and groups of a sandbox. Other users and groups do not exist in it, and their files appear to belong to
/// `nobody`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdMap {
    pub(crate) users: Vec<IdRange>,
    pub(crate) groups: Vec<IdRange>,
    /// A larger map of users that is tried first.
    pub(crate) privileged_users: Option<PrivilegedMap>,
    pub(crate) privileged_groups: Option<PrivilegedMap>,
}

impl IdMap {
    /// Maps one user and one group, which must be those of this process. Ordinary users may do that.
    pub(crate) fn single(user_inside: u32, user_outside: u32, group_inside: u32, group_outside: u32) -> Self {
        Self::of_ranges(vec![(user_inside, user_outside, 1)], vec![(group_inside, group_outside, 1)])
    }

    /// Maps every user and group of this process's namespace to itself, which only root may do.
    pub(crate) fn identity() -> io::Result<Self> {
        let read = |path| fs::read_to_string(path).map(|map| identity_of(&map));
        Ok(Self::of_ranges(read("/proc/self/uid_map")?, read("/proc/self/gid_map")?))
    }

    fn of_ranges(users: Vec<IdRange>, groups: Vec<IdRange>) -> Self {
        Self { users, groups, privileged_users: None, privileged_groups: None }
    }

    /// Returns ranges in the format of the kernel.
    pub(super) fn format(ranges: &[IdRange]) -> String {
        let lines = ranges.iter().map(|(inside, outside, count)| format!("{inside} {outside} {count}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Maps to itself each id that a map of the kernel has inside.
fn identity_of(map: &str) -> Vec<IdRange> {
    let range = |line: &str| {
        let mut words = line.split_whitespace();
        let first = words.next()?.parse().ok()?;
        Some((first, first, words.nth(1)?.parse().ok()?))
    };
    map.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_of_a_namespace_is_mapped_to_itself() {
        assert_eq!(identity_of("         0          0 4294967295\n"), [(0, 0, u32::MAX)]);
        assert_eq!(identity_of("0 1000 1\n1 100000 65536\n"), [(0, 0, 1), (1, 1, 65536)]);
        assert_eq!(IdMap::format(&[(0, 0, 1), (1, 1, 65536)]), "0 0 1\n1 1 65536");
    }
}
