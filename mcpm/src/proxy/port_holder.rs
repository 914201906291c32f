//! Finds the process that listens on a port, for error messages. This works only on Linux.

use std::{fs, net::SocketAddr};

/// State of a listening socket in `/proc/net/tcp` (proc_net_tcp, kernel documentation).
const LISTENING: &str = "0A";

/// Names the process that listens on an address's port, if this user may see it.
pub(super) fn find(address: SocketAddr) -> Option<String> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| listeners(&table, address.port()))
        .collect();
    let sockets: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = fs::read_dir("/proc").ok()?;
    processes.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        let open = fs::read_dir(process.path().join("fd")).ok()?;
        let is_holder = open
            .flatten()
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|link| link.to_str().is_some_and(|link| sockets.iter().any(|socket| socket == link)));
        is_holder.then(|| {
            let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            format!("`{}` (pid {pid})", name.trim())
        })
    })
}

/// Inodes of the sockets in a table that listen on a port.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 9 && row[1].ends_with(&suffix) && row[3] == LISTENING)
        .map(|row| row[9].to_owned())
        .collect()
}
