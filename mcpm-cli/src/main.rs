//! Runs the `mcpm` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcpm_cli::main(std::env::args_os())
}
