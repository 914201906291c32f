//! `mcpm man`: shows the manual page of a command, or writes the pages of all commands.

use std::{
    fs,
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::{self, ExitCode, Stdio},
};

use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use clap_mangen::Man;
use mcpm::{Error, ErrorKind, Result};

use crate::output::{self, escape_control};

const COMMAND: &str = "command";
const FOLDER: &str = "write";

pub(crate) fn command() -> Command {
    Command::new("man").about("Show the manual page of a command, or write all pages").defer(|command| {
        command
            .arg(Arg::new(COMMAND).value_name("COMMAND").num_args(0..).conflicts_with(FOLDER).help(
                "Command whose page is shown, such as `run` or `secret set`; by default, the page of mcpm",
            ))
            .arg(
                Arg::new(FOLDER)
                    .long(FOLDER)
                    .value_name("DIR")
                    .help("Write the pages of all commands to this folder, which is created if missing")
                    .value_hint(ValueHint::DirPath)
                    .value_parser(value_parser!(PathBuf)),
            )
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let pages = pages()
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot render the man pages").source(error))?;
    if let Some(folder) = matches.get_one::<PathBuf>(FOLDER) {
        write_pages(folder, &pages)?;
        return Ok(ExitCode::SUCCESS);
    }
    let words: Vec<&str> =
        matches.get_many::<String>(COMMAND).into_iter().flatten().map(String::as_str).collect();
    let file = [&["mcpm"][..], &words].concat().join("-") + ".1";
    let page = pages.iter().find(|(name, _)| *name == file).ok_or_else(|| {
        let message = format!("there is no command `mcpm {}`", escape_control(&words.join(" ")));
        Error::new(ErrorKind::NotFound, message).hint("`mcpm help` lists the commands")
    })?;
    show(&page.1)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows a page with `man` on a terminal; otherwise, prints the source of the page.
fn show(page: &[u8]) -> Result<()> {
    if io::stdout().is_terminal()
        && let Ok(mut reader) = process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn()
    {
        // The user may close the pager early.
        let _ = reader.stdin.take().map(|mut input| input.write_all(page));
        if reader.wait().is_ok_and(|status| status.success()) {
            return Ok(());
        }
    }
    output::write(page)
}

fn write_pages(folder: &PathBuf, pages: &[(String, Vec<u8>)]) -> Result<()> {
    let failed = |path: &PathBuf, error| {
        Error::new(ErrorKind::Io, format!("cannot write `{}`", path.display())).source(error)
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for (name, page) in pages {
        let path = folder.join(name);
        fs::write(&path, page).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

/// Returns all man pages with their file names; the first one is the page of the program.
fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut top = crate::command();
    top.build();
    let mut pages = Vec::new();
    add_pages(&top, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let man = Man::new(command.clone()).source(concat!("mcpm ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render(&mut page)?;
    pages.push((man.get_filename(), page));
    command
        .get_subcommands()
        .filter(|below| below.get_name() != "help")
        .try_for_each(|below| add_pages(below, pages))
}
