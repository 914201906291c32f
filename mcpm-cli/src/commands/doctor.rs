//! `mcpm doctor`: looks for problems that keep workloads from running, and removes leftover containers if requested.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::{
    Environment, Result,
    workload::{Severity, diagnose, repair},
};

use crate::{
    executor, exit,
    flag_names::with_flags,
    output::{self, JSON, TEXT},
    progress,
};

const FIX: &str = "fix";

pub(crate) fn command() -> Command {
    Command::new("doctor")
        .about("Check for problems that keep workloads from running")
        .long_about(
            "Check for problems that keep workloads from running\n\n\
             Checks the container runtimes, the folders of mcpm, the loopback interface, the clock, the secret store, \
             the keyring, the registry, recorded workloads, leftover containers, and DNS and certificates in the \
             container of a running Python or Node.js package. The exit code is 1 if workloads cannot run.",
        )
        .defer(|command| {
            command
                .arg(
                    Arg::new(FIX)
                        .long(FIX)
                        .action(ArgAction::SetTrue)
                        .help("Remove stopped containers that belong to no workload"),
                )
                .arg(output::arg(&[TEXT, JSON]))
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let environment = Environment::from_process();
    let found = executor::run(async {
        if matches.get_flag(FIX) {
            let (done, failed) = repair(&environment).await;
            for done in done {
                // Standard error may be closed.
                let _ = writeln!(io::stderr(), "{done}");
            }
            if let Some(error) = failed {
                let text = output::escape_text(&with_flags(&error.to_string()));
                let _ = writeln!(io::stderr(), "warning: not everything was fixed: {text}");
            }
        }
        Ok(progress::waiting("checking", None, Box::pin(diagnose(&environment))).await)
    })?;
    if output::format(matches) == JSON {
        output::json(&found)?;
    } else {
        let head = ["CHECK", "RESULT", "FOUND"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        for finding in &found {
            let severity = match finding.severity {
                Severity::Ok => "ok",
                Severity::Warning => "warning",
                Severity::Error => "error",
            };
            rows.push(vec![finding.id.to_owned(), severity.to_owned(), with_flags(&finding.message)]);
            if let Some(fix) = &finding.fix {
                rows.push(vec![String::new(), String::new(), format!("-> {}", with_flags(fix))]);
            }
        }
        output::table(&rows)?;
    }
    let is_broken = found.iter().any(|finding| finding.severity == Severity::Error);
    Ok(if is_broken { ExitCode::from(exit::FAILURE) } else { ExitCode::SUCCESS })
}
