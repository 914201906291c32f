//! Reports the start of a sandbox to mcpm. A failed step is also printed to standard error.

use alloc::vec::Vec;

use crate::{
    report::{FAILED, PROCESS, READY, REPORT_HEADER_BYTES, STEPS, Step},
    sys::{self, Errno, Fd, print_error},
};

/// A failed step.
#[derive(Debug)]
pub(crate) struct Failure {
    step: Step,
    /// What the step was for, such as a path.
    operand: Vec<u8>,
    errno: Errno,
}

pub(crate) type Result<T> = core::result::Result<T, Failure>;

/// Turns the kernel's error into a failed step.
pub(crate) fn failed(step: Step, operand: &[u8]) -> impl FnOnce(Errno) -> Failure + use<> {
    let operand = operand.strip_suffix(&[0]).unwrap_or(operand).to_vec();
    move |errno| Failure { step, operand, errno }
}

impl Failure {
    /// Prints one line to standard error.
    pub(crate) fn print(&self) {
        let verb = STEPS.iter().find(|(step, _)| *step == self.step).map_or("start", |(_, verb)| *verb);
        let cause = self.errno.text();
        if self.operand.is_empty() {
            print_error(&[b"cannot ", verb.as_bytes(), b": ", cause]);
        } else {
            print_error(&[b"cannot ", verb.as_bytes(), b" `", &self.operand, b"`: ", cause]);
        }
    }

    /// Reports the failed step to mcpm.
    pub(crate) fn report(&self, control: &Fd) {
        send(control, FAILED, [self.step as u32, self.errno.0 as u32], &self.operand);
    }
}

/// Reports the sandbox's first process to mcpm.
pub(crate) fn report_process(control: &Fd, process: i32) {
    send(control, PROCESS, [process as u32, 0], &[]);
}

/// Reports to mcpm that the sandbox is set up.
pub(crate) fn report_ready(control: &Fd, landlock: u32) {
    send(control, READY, [landlock, 0], &[]);
}

/// Sends a report. A failure is ignored: if mcpm is gone, the lifeline shows that.
fn send(control: &Fd, letter: u8, numbers: [u32; 2], operand: &[u8]) {
    let length = (operand.len() as u32).to_le_bytes();
    let [first, second] = numbers.map(u32::to_le_bytes);
    let mut report = Vec::with_capacity(REPORT_HEADER_BYTES + operand.len());
    for part in [&[letter] as &[u8], &first, &second, &length, operand] {
        report.extend_from_slice(part);
    }
    let _ = sys::send(control, &report);
}
