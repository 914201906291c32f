//! The first process of an isolated container: it relays connections on the container's loopback to mcpm's socket,
//! and starts the server. With the argument `sandbox`, it also creates the container, without an engine.
//!
//! The only network of the container is its loopback. mcpm's socket is mounted at `/.mcpm/link.sock` or, where the
//! engine cannot share sockets with mcpm's machine, a second process of this program (`carry`) relays the connections
//! to mcpm. The first line of each connection states its purpose: `start SLOT` (answered with the configuration),
//! `proxy` (an HTTP proxy follows), `open PORT NAME` (a stream to that host follows), `inbound` (waits until mcpm
//! connects to the server), `looked-up NAME` (an allowed name was looked up) or `refused ...` (a name that is not
//! allowed was looked up, or a program tried to bypass the shim). mcpm itself decides about each connection to the
//! outside, because any program in the container can use the socket.
//!
//! The shim has one thread, and needs no C library and no other file. The server inherits the standard streams of the
//! container; the shim writes only its own errors to standard error.

#![no_std]
#![no_main]
#![no_builtins]

extern crate alloc;

mod allocator;
mod child;
mod config;
mod confinement;
mod dns;
mod event_loop;
mod failure;
mod frames;
mod mounts;
mod names;
mod plan;
mod records;
mod relay;
mod report;
mod reverse_connections;
mod sandbox;
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
///
/// With the argument `sandbox`, the program makes a container; with `landlock`, it prints the kernel's version of
/// Landlock; with `carry`, it is the relay; with `carried SLOT`, it runs the server and connects to mcpm through the
/// relay; with `SLOT` alone, it runs the server and uses the mounted socket.
extern "C" fn entry(stack: *const usize) -> ! {
    let (args, env) = sys::args_and_env(stack);
    let word = |at: usize| args.get(at).and_then(|word| word.strip_suffix(&[0])).unwrap_or(b"0");
    sys::exit(match word(1) {
        b"carry" => exit_code(relay::run()),
        b"sandbox" => sandbox::run(),
        b"landlock" => confinement::print_landlock_version(),
        b"carried" => serve(uplink::RELAYED, word(2), &env, || {}),
        slot => serve(uplink::MOUNTED, slot, &env, || {}),
    })
}

fn exit_code(outcome: Result<i32, &'static [u8]>) -> i32 {
    outcome.unwrap_or_else(|reason| {
        print_error(&[reason]);
        START_FAILED
    })
}

/// Runs the server of a slot until it ends, and returns its exit code; `confine` runs in the server's process first.
fn serve(way: Uplink, slot: &[u8], env: &[&[u8]], confine: impl FnOnce()) -> i32 {
    exit_code(try_serve(way, slot, env, confine))
}

fn try_serve(way: Uplink, slot: &[u8], env: &[&[u8]], confine: impl FnOnce()) -> Result<i32, &'static [u8]> {
    let config = fetch_config(way, slot)
        .ok_or(b"mcpm does not respond: start this workload with `mcpm start`" as &[u8])?;
    let config = Config::parse(&config).ok_or(b"mcpm and the shim have different versions" as &[u8])?;
    event_loop::run(way, config, env, confine)
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
    print_error(&[b"internal error in the shim"]);
    sys::exit(START_FAILED)
}
