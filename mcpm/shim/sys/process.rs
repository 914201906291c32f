//! Child processes and signals.

use alloc::vec::Vec;

use super::{Errno, Fd, Result, call, exit, number, opened};

pub(crate) const SIGCHLD: u32 = 17;
/// Signals that are read from a file: hangup, interrupt, quit, user 1 and 2, terminate, child, window.
const HANDLED_SIGNALS: u64 = bit(1) | bit(2) | bit(3) | bit(10) | bit(12) | bit(15) | bit(SIGCHLD) | bit(28);
const MASK_SIZE: usize = size_of::<u64>();

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Returns a file that signals are read from.
pub(crate) fn signals() -> Result<Fd> {
    const CLOEXEC_NONBLOCK: usize = 0x8_0800;
    block(HANDLED_SIGNALS)?;
    let mask = HANDLED_SIGNALS;
    // SAFETY: the kernel reads a mask of that size there.
    unsafe {
        call(number::SIGNALFD4, [usize::MAX, &raw const mask as usize, MASK_SIZE, CLOEXEC_NONBLOCK, 0, 0])
    }
    .map(opened)
}

/// Blocks exactly these signals.
fn block(mask: u64) -> Result<()> {
    const SET: usize = 2;
    // SAFETY: the kernel reads a mask of that size there.
    unsafe { call(number::RT_SIGPROCMASK, [SET, &raw const mask as usize, 0, MASK_SIZE, 0, 0]) }.map(drop)
}

/// Ends this process, or the program that it executes, after that time.
pub(crate) fn end_after(seconds: u64) -> Result<()> {
    const REAL_TIME: usize = 0;
    // The interval in seconds and microseconds, and the time until the first signal.
    let timer = [0, 0, seconds, 0];
    // SAFETY: the kernel reads four numbers there.
    unsafe { call(number::SETITIMER, [REAL_TIME, &raw const timer as usize, 0, 0, 0, 0]) }.map(drop)
}

/// Reads a signal.
pub(crate) fn read_signal(fd: &Fd) -> Result<u32> {
    // The size of the kernel's description of a signal, which begins with the signal's number.
    let mut info = [0_u8; 128];
    super::read(fd, &mut info)?;
    Ok(u32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
}

/// Sends a signal, and ignores that the process may be gone.
pub(crate) fn signal(process: i32, signal: u32) {
    // SAFETY: the call takes no pointer.
    let _ = unsafe { call(number::KILL, [process as usize, signal as usize, 0, 0, 0, 0]) };
}

/// Reaps an ended process; its exit code is 128 + n after signal n.
pub(crate) fn reap() -> Option<(i32, i32)> {
    const ANY: usize = usize::MAX;
    const NO_WAIT: usize = 1;
    wait4(ANY, NO_WAIT).ok().filter(|(process, _)| *process != 0)
}

/// Waits for the end of a process; returns its exit code, which is 128 + n after signal n.
pub(crate) fn wait(process: i32) -> Result<i32> {
    loop {
        match wait4(process as usize, 0) {
            Err(Errno::INTERRUPTED) => {}
            ended => return ended.map(|(_, code)| code),
        }
    }
}

fn wait4(process: usize, options: usize) -> Result<(i32, i32)> {
    let mut status = 0_i32;
    // SAFETY: the kernel writes four bytes there.
    let process = unsafe { call(number::WAIT4, [process, &raw mut status as usize, options, 0, 0, 0]) }?;
    let signal = status & 0x7f;
    Ok((process as i32, if signal == 0 { status >> 8 & 0xff } else { 128 + signal }))
}

/// Forks a process that runs `work`, which returns its exit code.
pub(crate) fn fork(work: impl FnOnce() -> i32) -> Result<i32> {
    // SAFETY: the call passes no stack and shares no memory, so the child continues with a copy of this process.
    match unsafe { call(number::CLONE, [SIGCHLD as usize, 0, 0, 0, 0, 0]) }? {
        0 => exit(work()),
        process => Ok(process as i32),
    }
}

/// Replaces this process with a program, with all signals unblocked. Texts end with a zero byte.
pub(crate) fn execute(program: &[u8], args: &[Vec<u8>], env: &[&[u8]]) -> Errno {
    let args = pointers(args.iter().map(Vec::as_slice));
    let env = pointers(env.iter().copied());
    if let Err(error) = block(0) {
        return error;
    }
    // SAFETY: all texts end with a zero byte and the lists with a null pointer; `pointers` ensures both, and the caller
    // ensures it for the program's name.
    let outcome = unsafe {
        call(
            number::EXECVE,
            [program.as_ptr() as usize, args.as_ptr() as usize, env.as_ptr() as usize, 0, 0, 0],
        )
    };
    outcome.err().unwrap_or(Errno(0))
}

/// Pointers to texts that end with a zero byte; others are left out.
fn pointers<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Vec<*const u8> {
    let ended = texts.filter(|text| text.last() == Some(&0));
    ended.map(<[u8]>::as_ptr).chain([core::ptr::null()]).collect()
}

/// Closes a file of the process, such as standard input.
pub(crate) fn close_standard_stream(number: i32) {
    drop(Fd(number));
}

/// Returns a file that this process inherited when it was forked. Only the parent drops the original.
pub(crate) fn take_copy(file: &Fd) -> Fd {
    Fd(file.0)
}

/// Returns the arguments and variables of the program, each with its zero byte.
pub(crate) fn args_and_env(stack: *const usize) -> (Vec<&'static [u8]>, Vec<&'static [u8]>) {
    let list = |at: usize| {
        let mut texts = Vec::new();
        // SAFETY: the kernel ends both lists with a null pointer, and `entry` hands over the kernel's stack.
        let pointers = (at..).map(|at| unsafe { stack.add(at).read() } as *const core::ffi::c_char);
        for pointer in pointers.take_while(|pointer| !pointer.is_null()) {
            // SAFETY: each text ends with a zero byte and stays for as long as the process.
            texts.push(unsafe { core::ffi::CStr::from_ptr(pointer) }.to_bytes_with_nul());
        }
        texts
    };
    let args = list(1);
    let env = list(args.len() + 2);
    (args, env)
}
