//! The first process of an isolated container: it relays connections on the container's loopback to mcpm's socket,
//! and starts the server.
//!
//! The container has no network. mcpm's socket is mounted at `/.mcpm/link.sock` or, where engines share no sockets, a
//! second process of this program (`carry`) relays to mcpm. The first line of each connection states its purpose:
//! `start SLOT` (answered with the configuration), `proxy` (an HTTP proxy follows), `open PORT NAME` (a stream to
//! that host follows), `inbound` (waits until mcpm connects to the server), `looked-up NAME` (an allowed name was
//! looked up) or `refused ...` (an attempt that bypassed the proxy). Only mcpm decides what is allowed, because any
//! program in the container can use the socket itself.
//!
//! The shim has one thread, needs no C library and no other file, and copies nothing of the server's standard
//! streams, which the server inherits.

#![no_std]
#![no_main]
#![no_builtins]

extern crate alloc;

mod allocator;
mod child;
mod config;
mod dns;
mod event_loop;
mod frames;
mod names;
mod records;
mod relay;
mod reverse_connections;
mod splice;
mod sys;
mod uplink;

use alloc::vec::Vec;
use core::panic::PanicInfo;

use config::Config;
use sys::print_error;
use uplink::Uplink;

/// The exit code if the server could not be started, as container engines use it.
const START_FAILED: i32 = 125;

/// The entry point, with the kernel's stack: count, arguments, null, variables, null.
extern "C" fn entry(stack: *const usize) -> ! {
    let (args, env) = sys::args_and_env(stack);
    match begin(&args, &env) {
        Ok(code) => sys::exit(code),
        Err(reason) => {
            print_error(&[reason]);
            sys::exit(START_FAILED)
        }
    }
}

/// With `carry` it is the relay; with `carried SLOT` it uses the relay; with `SLOT` alone it uses the mounted socket.
fn begin(args: &[&[u8]], env: &[&[u8]]) -> Result<i32, &'static [u8]> {
    let word = |at: usize| args.get(at).and_then(|word| word.strip_suffix(&[0])).unwrap_or(b"0");
    let (way, slot) = match word(1) {
        b"carry" => return relay::run(),
        b"carried" => (uplink::RELAYED, word(2)),
        slot => (uplink::MOUNTED, slot),
    };
    let config = fetch_config(way, slot)
        .ok_or(b"mcpm does not answer: start this workload with `mcpm start`" as &[u8])?;
    let config = Config::parse(&config).ok_or(b"mcpm's configuration is of another version" as &[u8])?;
    event_loop::run(way, config, env)
}

/// Requests the configuration from mcpm.
fn fetch_config(way: Uplink, slot: &[u8]) -> Option<Vec<u8>> {
    let link = way.connect_first().ok()?;
    sys::send(&link, &[b"start ", slot, b"\n"].concat()).ok()?;
    let mut config = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match sys::read(&link, &mut buffer) {
            Ok(0) => return Some(config).filter(|config| !config.is_empty()),
            Ok(count) => config.extend_from_slice(&buffer[..count]),
            Err(sys::Errno::INTERRUPTED) => {}
            Err(_) => return None,
        }
    }
}

#[panic_handler]
fn panicked(_: &PanicInfo<'_>) -> ! {
    print_error(&[b"a defect in the shim"]);
    sys::exit(START_FAILED)
}
