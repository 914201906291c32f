//! Finds the user and group ids that an administrator has reserved for containers of an ordinary user, in `/etc/subuid`
//! and `/etc/subgid`, and the privileged programs that map them: `newuidmap` and `newgidmap`.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::sandbox::PrivilegedMap;

/// Folders with the machine's programs. The variable `PATH` could lead to programs of other users.
pub(super) const PROGRAM_FOLDERS: [&str; 5] =
    ["/usr/bin", "/usr/local/bin", "/bin", "/run/wrappers/bin", "/run/current-system/sw/bin"];
/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Most ids of a container: images use ids up to this number.
const MAX_IDS: u32 = 1 << 16;
const SET_USER_ID: u32 = 0o4000;

/// The ids that are reserved for this user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubordinateIds {
    pub(super) users: Reserved,
    pub(super) groups: Reserved,
}

/// Reserved ids, and the program that maps them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reserved {
    first: u32,
    count: u32,
    program: PathBuf,
}

impl SubordinateIds {
    /// Returns the reserved ids of this user.
    ///
    /// # Errors
    /// A clause that says what is missing.
    pub(super) fn find() -> Result<Self, String> {
        if read("/proc/self/status").lines().any(|line| line.split_whitespace().eq(["NoNewPrivs:", "1"])) {
            return Err("programs that mcpm starts cannot gain privileges (`NoNewPrivileges`)".to_owned());
        }
        let user = rustix::process::geteuid().as_raw();
        let name = user_name(&read("/etc/passwd"), user);
        let find = |file: &str, program: &str| {
            let (first, count) = largest(&read(file), name.as_deref(), user)
                .ok_or_else(|| format!("`{file}` has no entry for this user"))?;
            Ok::<_, String>(Reserved { first, count, program: find_program(program)? })
        };
        Ok(Self { users: find("/etc/subuid", "newuidmap")?, groups: find("/etc/subgid", "newgidmap")? })
    }
}

impl Reserved {
    /// Maps the id `inside` to `own`, and the ids below and above it to the reserved ids.
    pub(super) fn map_around(self, inside: u32, own: u32) -> PrivilegedMap {
        let count = self.count.min(MAX_IDS - 1);
        let below = inside.min(count);
        // The reserved ids for the upper range continue where those for the lower range end.
        let ranges =
            [(0, self.first, below), (inside, own, 1), (below + 1, self.first + below, count - below)];
        let ranges = ranges.into_iter().filter(|(_, _, count)| *count > 0).collect();
        PrivilegedMap { program: self.program, ranges }
    }
}

fn read(path: &str) -> String {
    let is_small = fs::metadata(path).is_ok_and(|found| found.len() <= MAX_FILE_BYTES);
    if is_small { fs::read_to_string(path).unwrap_or_default() } else { String::new() }
}

/// Returns the name of a user, from the content of `/etc/passwd`.
fn user_name(passwd: &str, user: u32) -> Option<String> {
    let mut entries = passwd.lines().map(|line| line.split(':'));
    entries.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then(|| name.to_owned())
    })
}

/// Returns the first id and the number of ids of the largest range that a file has for a user.
fn largest(file: &str, name: Option<&str>, user: u32) -> Option<(u32, u32)> {
    let ranges = file.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let owner = fields.next()?;
        let is_own = Some(owner) == name || owner.parse() == Ok(user);
        let (first, count): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (is_own && count > 0 && first.checked_add(count).is_some()).then_some((first, count))
    });
    ranges.max_by_key(|(_, count)| *count)
}

/// Returns the path of a program that can map ids.
fn find_program(name: &str) -> Result<PathBuf, String> {
    let paths = PROGRAM_FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    for path in paths {
        match fs::metadata(&path) {
            Ok(found) if found.is_file() && found.mode() & 0o111 != 0 => {
                return match found.mode() & SET_USER_ID != 0 || has_capabilities(&path) {
                    true => Ok(path),
                    false => {
                        Err(format!("`{}` has neither the set-user-ID bit nor capabilities", path.display()))
                    }
                };
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("`{name}`: {error}"));
            }
            _ => {}
        }
    }
    Err(format!("`{name}` is not installed"))
}

/// Whether a program gets capabilities when it is executed, which some distributions use in place of the set-user-id
/// bit.
fn has_capabilities(program: &Path) -> bool {
    rustix::fs::getxattr(program, "security.capability", &mut [0_u8; 64][..]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    type IdRange = (u32, u32, u32);

    fn reserved(first: u32, count: u32) -> Reserved {
        Reserved { first, count, program: "/usr/bin/newuidmap".into() }
    }

    #[test]
    fn every_other_id_is_a_reserved_one() {
        let map = |inside| reserved(100_000, 65536).map_around(inside, 1000).ranges;
        assert_eq!(map(0), [(0, 1000, 1), (1, 100_000, 65535)]);
        assert_eq!(map(5), [(0, 100_000, 5), (5, 1000, 1), (6, 100_005, 65530)]);
        assert_eq!(map(70_000), [(0, 100_000, 65535), (70_000, 1000, 1)]);
    }

    #[test]
    fn no_id_is_mapped_twice() {
        for count in [1, 2, 5, 6, 1000, 65536, u32::MAX - 100_000] {
            for inside in [0, 1, 5, 6, 999, 1000, 1001, 65535, 65536, u32::MAX - 1] {
                let mut map = reserved(100_000, count).map_around(inside, 1000).ranges;
                for side in [|range: &IdRange| range.0, |range: &IdRange| range.1] {
                    map.sort_by_key(side);
                    let ends = map.iter().map(|range| side(range) + range.2);
                    assert!(ends.zip(map.iter().skip(1)).all(|(end, next)| end <= side(next)), "{map:?}");
                }
                assert!(map.contains(&(inside, 1000, 1)), "{map:?}");
                let last = map.iter().filter(|range| range.1 != 1000).map(|range| range.1 + range.2).max();
                assert!(last <= Some(100_000 + count), "{map:?}");
            }
        }
    }

    #[test]
    fn the_largest_range_of_a_user_is_found_by_name_and_number() {
        let passwd = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(user_name(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(user_name(passwd, 1001), None);
        let file = "bob:1:9\nann:100000:10\n1000:200000:65536\nann:x:3\nann:4294967295:10\n";
        assert_eq!(largest(file, Some("ann"), 1000), Some((200_000, 65536)));
        assert_eq!(largest(file, Some("bob"), 7), Some((1, 9)));
        assert_eq!(largest(file, None, 7), None);
    }
}
