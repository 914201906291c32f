//! `mcpm explain`: explains why a request or a connection was denied.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use mcpm::{Environment, Explanation, Result};

use crate::{
    flag_names::with_flags,
    output::{self, JSON, TEXT},
};

const ID: &str = "id";

pub(crate) fn command() -> Command {
    Command::new("explain").about("Explain why a request or a connection was denied").defer(|command| {
        let id = Arg::new(ID).required(true).value_name("ID");
        let help = "Reason, such as `tools.not_listed`, or id of a denial, from the `data` of an error or from \
                    `mcpm events`";
        command.arg(id.help(help)).arg(output::arg(&[TEXT, JSON]))
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let id = matches.get_one::<String>(ID).map_or("", String::as_str);
    let explanation = mcpm::explain(id, &Environment::from_process())?;
    match output::format(matches) {
        JSON => output::json(&explanation)?,
        _ => output::table(&rows(explanation))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(explanation: Explanation) -> Vec<Vec<String>> {
    let Explanation { reason, layer, meaning, usual_fix, refusal, .. } = explanation;
    let mut rows = vec![("reason".to_owned(), reason), ("layer".to_owned(), layer)];
    rows.push(("meaning".to_owned(), with_flags(&meaning)));
    match refusal {
        None => rows.push(("usual fix".to_owned(), with_flags(&usual_fix))),
        Some(refused) => {
            rows.push(("server".to_owned(), refused.server));
            rows.push(("time".to_owned(), refused.time));
            rows.extend(refused.rule.map(|rule| ("rule".to_owned(), rule)));
            rows.extend(refused.inputs);
            rows.push(("fix".to_owned(), with_flags(&refused.fix)));
        }
    }
    rows.into_iter().map(|(name, value)| vec![name, value]).collect()
}
