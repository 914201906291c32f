//! Finds and starts the server's program, forwards signals to it, and reaps processes.

use alloc::vec::Vec;

use crate::sys::{self, Errno, Fd, print_error};

/// The default of `PATH`.
const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// The environment: the configured variables take precedence over those of the engine.
pub(crate) fn environment<'a>(engine: &'a [&'a [u8]], given: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
    let name = |variable: &'a [u8]| variable.split(|byte| *byte == b'=').next().unwrap_or_default();
    let replaced = |variable: &&&'a [u8]| !given.iter().any(|given| name(given) == name(variable));
    engine.iter().filter(replaced).copied().chain(given.iter().map(Vec::as_slice)).collect()
}

/// Starts the program; `prepare` runs first, in the new process.
pub(crate) fn start(args: &[Vec<u8>], env: &[&[u8]], prepare: impl FnOnce()) -> sys::Result<i32> {
    sys::fork(|| {
        prepare();
        explain_failure(args.first().map_or(b"", Vec::as_slice), execute(args, env))
    })
}

/// Replaces this process with the program, which is looked up in `PATH`; returns the error if that fails.
pub(crate) fn execute(args: &[Vec<u8>], env: &[&[u8]]) -> Errno {
    let Some(program) = args.first() else { return Errno::NOT_FOUND };
    let mut failure = Errno::NOT_FOUND;
    if program.contains(&b'/') {
        failure = sys::execute(program, args, env);
    } else {
        let path = env.iter().find_map(|variable| variable.strip_prefix(b"PATH="));
        let path = path.and_then(|path| path.strip_suffix(&[0])).unwrap_or(DEFAULT_PATH);
        for folder in path.split(|byte| *byte == b':') {
            let folder = if folder.is_empty() { b"." } else { folder };
            let place = [folder, b"/", program].concat();
            match sys::execute(&place, args, env) {
                Errno::NOT_FOUND | Errno::NOT_A_FOLDER => {}
                // A file in a later folder may be executable.
                Errno::ACCESS => failure = Errno::ACCESS,
                other => {
                    failure = other;
                    break;
                }
            }
        }
    }
    failure
}

/// Prints why a program cannot be run; returns the exit code for that.
pub(crate) fn explain_failure(program: &[u8], failure: Errno) -> i32 {
    let shown = program.strip_suffix(&[0]).unwrap_or(program);
    let (reason, code): (&[u8], i32) = match failure {
        Errno::NOT_FOUND | Errno::NOT_A_FOLDER => (b"not found", NOT_FOUND),
        Errno::ACCESS => (b"permission denied", NOT_RUNNABLE),
        _ => (b"not an executable program for this machine", NOT_RUNNABLE),
    };
    print_error(&[b"cannot run `", shown, b"`: ", reason]);
    code
}

/// Forwards signals and reaps processes; returns the exit code once the child has ended.
pub(crate) fn handle_signals(signals: &Fd, child: i32) -> Option<i32> {
    while let Ok(signal) = sys::read_signal(signals) {
        if signal != sys::SIGCHLD {
            sys::signal(child, signal);
        }
    }
    // One SIGCHLD may stand for several processes that have ended, and orphaned processes are reaped here too.
    let mut ended = None;
    while let Some((process, code)) = sys::reap() {
        if process == child {
            ended = Some(code);
        }
    }
    ended
}
