//! Holds the constants of the library, the command line and the shim against the table of limits in `docs/request.md`.

use std::{path::Path, time::Duration};

use crate::{mcp::lane::Limits, testing::each_source, transport::RestartPolicy};

const PAGE: &str = include_str!("../../docs/request.md");

/// Constants that bound nothing which a client, a server, a container or a caller can make mcpm hold, start or write.
const NO_LIMITS: [&str; 45] = [
    "explain/recent.rs RANDOM",
    "explain/recent.rs VERSION",
    "isolation/carried.rs WORTH_TELLING",
    "isolation/hello.rs HANDSHAKE",
    "isolation/layout.rs PROXY_PORT",
    "mcp/id_scan.rs LONGEST_NAME",
    "mcpm-cli/src/commands/registry.rs SHORT",
    "package/recipe.rs TAG_LENGTH",
    "proxy/last_seen.rs FAILED",
    "proxy/last_seen.rs NONE",
    "runtime/docker/body.rs OOM_SCORE",
    "runtime/docker/connect.rs PLAIN_PORT",
    "runtime/docker/connect.rs TLS_PORT",
    "secrets/sealed.rs KEY",
    "secrets/sealed.rs SALT",
    "shim/carry.rs CARRIED",
    "shim/carry.rs INPUT",
    "shim/carry.rs LISTENER",
    "shim/carry.rs WORTH_TELLING",
    "shim/dns.rs A",
    "shim/dns.rs ANY_CLASS",
    "shim/dns.rs FORMAT_ERROR",
    "shim/dns.rs HEADER",
    "shim/dns.rs INTERNET",
    "shim/dns.rs NOT_IMPLEMENTED",
    "shim/dns.rs NO_SUCH_NAME",
    "shim/frames.rs CLOSE",
    "shim/frames.rs DATA",
    "shim/frames.rs END",
    "shim/frames.rs HEAD",
    "shim/frames.rs OPEN",
    "shim/frames.rs ROOM",
    "shim/memory.rs SMALLEST",
    "shim/names.rs REDIRECTED",
    "shim/server.rs DNS",
    "shim/server.rs DNS_PORT",
    "shim/server.rs JOINED",
    "shim/server.rs PORTS",
    "shim/server.rs PROXY",
    "shim/server.rs SIGNALS",
    "shim/server.rs WATCH",
    "state/document.rs FORMAT_VERSION",
    "state/document.rs SPEC_VERSION",
    "state/status.rs LAST_SECOND",
    "testing.rs LIMIT",
];

/// Files of such constants alone: exit codes, and numbers of the kernel.
const NO_LIMITS_BELOW: [&str; 2] = ["mcpm-cli/src/exit.rs", "shim/sys/"];

/// The rows of the table: the values, and the files that they are in.
fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let table = PAGE.split("\n## ").find(|part| part.starts_with("Limits\n")).expect("a table of limits");
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").collect::<Vec<_>>();
    let rows = table.lines().filter(|line| line.starts_with('|')).map(cells);
    rows.filter(|cells| cells.len() == 3)
        .map(|cells| (cells[1], cells[2].split('`').skip(1).step_by(2).collect()))
        .collect()
}

/// The value of `1 << 20`, `5 * 60` and the like.
fn number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let text = text.trim();
    if let Some((left, right)) = text.split_once("<<") {
        return Some(number(left)? << number(right)?);
    }
    match text.split_once('*') {
        Some((left, right)) => Some(number(left)? * number(right)?),
        None => text.parse().ok(),
    }
}

/// The ways in which the page may write a constant's value.
fn written(value: &str) -> Vec<String> {
    let duration = |unit: &str| value.strip_prefix("Duration::from_")?.strip_prefix(unit)?.strip_suffix(')');
    if let Some(seconds) = duration("secs(").and_then(number) {
        let whole = |unit: u64, name: &str| {
            seconds.is_multiple_of(unit).then(|| format!("{} {name}", seconds / unit))
        };
        let units = [whole(24 * 3600, "days"), whole(3600, "h"), whole(60, "min"), whole(1, "s")];
        return units.into_iter().flatten().collect();
    }
    if let Some(millis) = duration("millis(").and_then(number) {
        if millis.is_multiple_of(1000) {
            return written(&format!("Duration::from_secs({})", millis / 1000));
        }
        let tenths =
            millis.is_multiple_of(100).then(|| format!("{}.{} s", millis / 1000, millis % 1000 / 100));
        return [Some(format!("{millis} ms")), tenths].into_iter().flatten().collect();
    }
    let Some(number) = number(value) else { return Vec::new() };
    let digits = number.to_string();
    let from = digits.len() % 3;
    let mut groups: Vec<&str> = digits.as_bytes()[from..]
        .chunks(3)
        .map(|group| std::str::from_utf8(group).expect("digits"))
        .collect();
    if from > 0 {
        groups.insert(0, &digits[..from]);
    }
    let whole = |unit: u64, name: &str| {
        (number > 0 && number.is_multiple_of(unit)).then(|| format!("{} {name}", number / unit))
    };
    [whole(1 << 20, "MiB"), whole(1 << 10, "KiB"), Some(groups.join(" ")), Some(digits.clone())]
        .into_iter()
        .flatten()
        .collect()
}

/// Whether a cell has a value, and not as a part of another number.
fn has(cell: &str, value: &str) -> bool {
    cell.match_indices(value).any(|(at, _)| {
        let before = cell[..at].chars().next_back();
        let after = cell[at + value.len()..].chars().next();
        !before.is_some_and(|c| c.is_ascii_digit() || c == '.')
            && !after.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}

#[test]
fn every_limit_stands_in_the_table_with_its_value() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (rows, mut seen, mut missing) = (rows(), 0, Vec::new());
    let mut take = |path: &Path, text: &str| {
        let below = path.strip_prefix(package.join("src")).or_else(|_| path.strip_prefix(package));
        let file = below.unwrap_or(path).to_string_lossy().trim_start_matches("../").to_owned();
        if NO_LIMITS_BELOW.iter().any(|place| file.starts_with(place)) {
            return;
        }
        for line in text.lines() {
            let line = line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ");
            let Some((name, rest)) = line.strip_prefix("const ").and_then(|rest| rest.split_once(": "))
            else {
                continue;
            };
            let Some((kind, value)) = rest.strip_suffix(';').and_then(|rest| rest.split_once(" = ")) else {
                continue;
            };
            let limit = format!("{file} {name}");
            if !["usize", "u64", "u32", "u16", "u8", "Duration"].contains(&kind)
                || NO_LIMITS.contains(&&*limit)
            {
                continue;
            }
            seen += 1;
            let cells = rows.iter().filter(|(_, files)| {
                files.iter().any(|named| {
                    file == *named
                        || named.ends_with('/') && file.starts_with(named)
                        || file.ends_with(&format!("/{named}"))
                })
            });
            let values = written(value);
            if !cells.into_iter().any(|(cell, _)| values.iter().any(|value| has(cell, value))) {
                missing.push(format!("{limit} = {value}"));
            }
        }
    };
    for folder in ["src", "shim", "../mcpm-cli/src"] {
        each_source(&package.join(folder), &mut take);
    }
    assert!(missing.is_empty(), "not in the table of docs/request.md:\n{}", missing.join("\n"));
    assert!(seen > 100, "{seen}");
}

#[test]
fn every_default_stands_in_the_table_with_its_value() {
    let table = PAGE.split("\n## ").find(|part| part.starts_with("Limits\n")).expect("a table of limits");
    let stands = |row: &str, values: &[String]| {
        let row = table.lines().find(|line| line.starts_with(&format!("| {row}"))).expect(row);
        let cell = row.trim_matches('|').split(" | ").nth(1).expect("a value");
        assert!(values.iter().any(|value| has(cell, value)), "{row} is {values:?}");
    };
    let time = |row: &str, value: Duration| {
        stands(row, &written(&format!("Duration::from_millis({})", value.as_millis())));
    };
    let number = |row: &str, value: usize| stands(row, &written(&value.to_string()));
    // Each field by its name, so that a new one is not forgotten.
    let Limits {
        idle,
        total,
        session,
        reclaim,
        handshake,
        start,
        lane,
        restart,
        calls,
        sessions,
        of_one,
        processes_of_one,
    } = Limits::default();
    time("A call without a sign of life", idle);
    time("A call in all", total);
    time("A session that nobody uses", session);
    time("Silence after which a process can be taken", reclaim);
    time("The server's answer to a client's `initialize`", handshake);
    time("Wait of a request for a process", start);
    time("A process that nobody uses", lane);
    time("Wait of a request for a restarting server", restart);
    number("Calls in flight, of one process", calls);
    number("Sessions, of one server", sessions);
    number("Sessions, of one server", of_one);
    number("Processes of one stdio server", processes_of_one);
    let RestartPolicy { attempts, first_delay, longest_delay, steady } = RestartPolicy::default();
    number("Restarts in a row", attempts as usize);
    time("Wait before a restart", first_delay);
    time("Wait before a restart", longest_delay);
    time("Time in which a process was ready", steady);
}

#[test]
fn every_file_that_the_table_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (value, files) in rows() {
        for file in files {
            let places = [root.join("src").join(file), root.join(file), root.join("..").join(file)];
            assert!(
                places.iter().any(|place| place.exists()) || !file.contains('/'),
                "`{file}` of `{value}` is not there"
            );
        }
    }
}
