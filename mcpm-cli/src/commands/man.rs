//! `mcpm man`: prints the man page, or writes one page per command.

use std::{fs, io, path::PathBuf, process::ExitCode};

use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use clap_mangen::Man;
use mcpm::{Error, ErrorKind, Result};

use crate::output;

const FOLDER: &str = "folder";

pub(crate) fn command() -> Command {
    Command::new("man").about("Print the manual page, or write one page per command").defer(|command| {
        command.arg(
            Arg::new(FOLDER)
                .value_name("DIR")
                .help("Folder to write the pages to; created if missing")
                .value_hint(ValueHint::DirPath)
                .value_parser(value_parser!(PathBuf)),
        )
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let pages = pages()
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot render the man pages").source(error))?;
    match matches.get_one::<PathBuf>(FOLDER) {
        Some(folder) => write_pages(folder, &pages)?,
        None => pages.first().map_or(Ok(()), |(_, page)| output::write(page))?,
    }
    Ok(ExitCode::SUCCESS)
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

/// Returns all man pages with their file names, the page of the program first.
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
