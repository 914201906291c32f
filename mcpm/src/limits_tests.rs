//! Compares the constants of the library, the command line and the shim with the limits in `docs/request.md`.

use std::{path::Path, time::Duration};

use crate::{
    stdio::{RestartPolicy, mux::MuxLimits},
    testing::each_source,
};

const PAGE: &str = include_str!("../../docs/request.md");

/// Constants that are not limits on what a client, a server, a container or a caller can make mcpm hold, start or
/// write.
const EXEMPT_CONSTANTS: [&str; 83] = [
    "auth/outgoing/kept_login.rs VERSION",
    "auth/outgoing/spec.rs CALLBACK_PORT",
    "clients/edit/yaml.rs INDENT",
    "explain/denial_log.rs ID_BYTES",
    "explain/denial_log.rs FORMAT_VERSION",
    "image/store/catalog.rs CATALOG_VERSION",
    "image/store/flatten.rs COPY_CHUNK_BYTES",
    "image/store/layers.rs FOLDER_NAME_DIGITS",
    "image/store/layers.rs LAYER_VERSION",
    "image/store/tar_reader.rs BLOCK_BYTES",
    "image/store/unpack.rs DEFAULT_FOLDER_MODE",
    "mcpm-cli/src/commands/image.rs SHORT_ID_DIGITS",
    "isolation/relay.rs WINDOW_UPDATE_THRESHOLD",
    "isolation/sniff.rs TLS_HANDSHAKE_RECORD",
    "isolation/host_map.rs PROXY_PORT",
    "stdio/id_scan.rs MAX_FIELD_NAME_BYTES",
    "mcpm-cli/src/commands/registry.rs MAX_DESCRIPTION_CHARS",
    "mcpm-cli/src/supervise.rs CREATE_NEW_PROCESS_GROUP",
    "mcpm-cli/src/supervise.rs DETACHED_PROCESS",
    "package/recipe.rs TAG_HASH_LENGTH",
    "platform/windows.rs FILE_FLAG_BACKUP_SEMANTICS",
    "proxy/last_seen.rs FAILED",
    "proxy/last_seen.rs NO_EXCHANGE",
    "runtime/output_log.rs HEADER_BYTES",
    "runtime/builtin/streams.rs READ_BYTES",
    "runtime/builtin/subordinate_ids.rs SET_USER_ID",
    "mcpm-cli/src/commands/service.rs DELEGATES_SUBGROUPS",
    "runtime/builtin/control_group.rs CPU_PERIOD",
    "runtime/builtin/control_group.rs NANOS_PER_CPU",
    "runtime/builtin/build/run.rs SLOT",
    "runtime/builtin/sandbox/encode.rs CORE_BYTES",
    "runtime/builtin/sandbox/encode.rs FILE_BYTES",
    "runtime/builtin/sandbox/encode.rs NO_DEVICES",
    "runtime/builtin/sandbox/encode.rs NO_EXEC",
    "runtime/builtin/sandbox/encode.rs OPEN_FILES",
    "runtime/builtin/sandbox/encode.rs PROCESSES",
    "runtime/builtin/sandbox/encode.rs READ_ONLY",
    "runtime/docker/create_body.rs OOM_SCORE",
    "runtime/docker/endpoint.rs PLAIN_PORT",
    "runtime/docker/endpoint.rs TLS_PORT",
    "secrets/encrypted_format.rs KEY_BYTES",
    "secrets/encrypted_format.rs SALT_BYTES",
    "shim/relay.rs CONNECTION_TOKENS",
    "shim/relay.rs INPUT_TOKEN",
    "shim/relay.rs LISTENER_TOKEN",
    "shim/relay.rs WINDOW_UPDATE_THRESHOLD",
    "shim/dns.rs A",
    "shim/dns.rs ANY_CLASS",
    "shim/dns.rs FORMAT_ERROR",
    "runtime/builtin/support.rs LANDLOCK_WITH_SCOPES",
    "shim/dns.rs HEADER",
    "shim/dns.rs INTERNET",
    "shim/dns.rs NOT_IMPLEMENTED",
    "shim/dns.rs NO_SUCH_NAME",
    "shim/frames.rs CLOSE",
    "shim/frames.rs DATA",
    "shim/frames.rs END_STREAM",
    "shim/frames.rs FRAME_HEADER_BYTES",
    "shim/frames.rs OPEN",
    "shim/frames.rs WINDOW_UPDATE",
    "shim/allocator.rs MIN_BLOCK_SHIFT",
    "shim/names.rs LOOPBACK_FIRST_BYTE",
    "shim/event_loop.rs DNS_TOKEN",
    "shim/event_loop.rs DNS_PORT",
    "shim/event_loop.rs CONNECTION_TOKENS",
    "shim/event_loop.rs PORT_TOKENS",
    "shim/event_loop.rs PROXY_TOKEN",
    "shim/event_loop.rs SIGNAL_TOKEN",
    "shim/event_loop.rs SECCOMP_TOKEN",
    "shim/mounts.rs USUAL",
    "shim/report.rs FAILED",
    "shim/report.rs PROCESS",
    "shim/report.rs READY",
    "shim/report.rs REPORT_HEADER_BYTES",
    "shim/sandbox.rs GROUPS_ALLOWED",
    "shim/sandbox.rs GROUPS_DENIED",
    "shim/sandbox.rs KILL",
    "shim/sandbox.rs LIFELINES",
    "shim/sandbox.rs SIGNALS",
    "state/document.rs FORMAT_VERSION",
    "state/document.rs SPEC_VERSION",
    "state/status.rs MAX_RFC3339_TIME",
    "testing.rs TEST_TIMEOUT",
];

/// Files that contain only such constants: exit codes, and numbers of the kernel.
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
fn spellings(value: &str) -> Vec<String> {
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
            return spellings(&format!("Duration::from_secs({})", millis / 1000));
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
    [
        whole(1 << 30, "GiB"),
        whole(1 << 20, "MiB"),
        whole(1 << 10, "KiB"),
        Some(groups.join(" ")),
        Some(digits.clone()),
    ]
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
                || EXEMPT_CONSTANTS.contains(&&*limit)
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
            let values = spellings(value);
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
        stands(row, &spellings(&format!("Duration::from_millis({})", value.as_millis())));
    };
    let number = |row: &str, value: usize| stands(row, &spellings(&value.to_string()));
    // Each field is named, so that a new field is not forgotten.
    let MuxLimits {
        call_idle_timeout: idle,
        call_timeout: total,
        session_idle_timeout: session,
        reclaim_after: reclaim,
        handshake_timeout: handshake,
        start_timeout: start,
        process_idle_timeout: process,
        restart_timeout: restart,
        max_calls: calls,
        max_sessions: sessions,
        max_sessions_per_caller: of_one,
        max_processes_per_caller: processes_of_one,
    } = MuxLimits::default();
    time("Idle timeout of a call", idle);
    time("Timeout of a call", total);
    time("Idle timeout of a session", session);
    time("Idle time after which a process can be reassigned", reclaim);
    time("The server's response to a client's `initialize`", handshake);
    time("Wait of a request for a process", start);
    time("Idle timeout of a process", process);
    time("Wait of a request for a restarting server", restart);
    number("Calls in flight, of one process", calls);
    number("Sessions, of one server", sessions);
    number("Sessions, of one server", of_one);
    number("Processes of one stdio server", processes_of_one);
    let RestartPolicy { attempts, first_delay, max_delay: longest_delay, stable_after: steady, .. } =
        RestartPolicy::default();
    number("Restarts in a row", attempts as usize);
    time("Delay before a restart", first_delay);
    time("Delay before a restart", longest_delay);
    time("Uptime after which restarts", steady);
}

#[test]
fn every_file_that_the_table_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (value, files) in rows() {
        for file in files {
            let places = [root.join("src").join(file), root.join(file), root.join("..").join(file)];
            assert!(
                places.iter().any(|place| place.exists()) || !file.contains('/'),
                "`{file}` of `{value}` does not exist"
            );
        }
    }
}
