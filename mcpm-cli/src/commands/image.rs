//! `mcpm image`: manages the images of the built-in runtime, which are stored without an engine.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint, value_parser};
use indicatif::DecimalBytes;
use mcpm::{
    Environment, Error, ErrorKind, Result,
    image::{
        ImageReference,
        credentials::CredentialStore,
        store::{ImageStore, PruneScope, StoredImage},
    },
    options::{OptionSet as _, WorkloadOptions},
    runtime::PullProgress,
    workload::{WorkloadEvent, Workloads},
};

use crate::{
    args,
    commands::workload_args,
    executor,
    output::{self, JSON, TEXT},
    progress::Progress,
};

const IMAGE: &str = "image";
const ARCHIVE: &str = "archive";
const ALL: &str = "all";
const CA_BUNDLE: &str = "mcpm_ca_bundle";
/// Number of hex digits of an id in a table.
const SHORT_ID_DIGITS: usize = 12;

pub(crate) fn command() -> Command {
    let ca_bundle = WorkloadOptions::spec(CA_BUNDLE).map(args::arg);
    let images = |help: &'static str| {
        Arg::new(IMAGE).value_name("IMAGE").required(true).action(ArgAction::Append).help(help)
    };
    Command::new("image")
        .about("Manage the images of the built-in runtime")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("list")
                .visible_alias("ls")
                .about("List the images and their sizes")
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("pull")
                .about("Pull images from their registries")
                .arg(images("Names of the images"))
                .args(ca_bundle)
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("load")
                .about("Load the images of a `docker save` archive or an OCI layout")
                .arg(
                    Arg::new(ARCHIVE)
                        .value_name("PATH")
                        .value_parser(value_parser!(PathBuf))
                        .value_hint(ValueHint::AnyPath)
                        .help(
                            "Archive, or folder with an OCI layout; without PATH or with `-`, standard input",
                        ),
                )
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("rm")
                .about("Remove images, unless a workload uses them")
                .arg(images("Names or ids of the images"))
                .arg(output::arg(&[TEXT, JSON])),
            Command::new("prune")
                .about("Remove images without a name, and leftovers of removed images and interrupted pulls")
                .arg(
                    Arg::new(ALL)
                        .long(ALL)
                        .short('a')
                        .action(ArgAction::SetTrue)
                        .help("Remove all images that no workload uses"),
                )
                .arg(output::arg(&[TEXT, JSON])),
        ])
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let environment = Environment::from_process();
    let store = ImageStore::open(&environment.image_store_dir())?;
    let names = |matches: &ArgMatches| -> Vec<String> {
        matches.get_many::<String>(IMAGE).into_iter().flatten().cloned().collect()
    };
    match matches.subcommand() {
        Some(("list", matches)) => list(&store, matches)?,
        Some(("pull", matches)) => {
            let bundle = matches.get_one::<String>(CA_BUNDLE).map(Path::new);
            let credentials = CredentialStore::new(&environment.engine);
            let pull = async |name: String| {
                pull(&store, &name, &credentials, bundle).await?;
                output::name(matches, &name)
            };
            return executor::run(async { Ok(workload_args::for_each_workload(names(matches), pull).await) });
        }
        Some(("load", matches)) => {
            let loaded = match matches.get_one::<PathBuf>(ARCHIVE) {
                Some(path) if path != Path::new("-") => store.load(path)?,
                _ => store.load_stream(io::stdin().lock())?,
            };
            for name in loaded.iter().flat_map(names_of) {
                output::name(matches, &name)?;
            }
        }
        Some(("rm", matches)) => {
            let workloads = Workloads::new(environment);
            let remove = async |name: String| {
                let removed = store.remove(&name, || workloads.images_in_use())?;
                match removed.references.as_slice() {
                    [] => output::name(matches, &name),
                    references => {
                        references.iter().try_for_each(|one| output::name(matches, &one.to_string()))
                    }
                }
            };
            return executor::run(async {
                Ok(workload_args::for_each_workload(names(matches), remove).await)
            });
        }
        Some(("prune", matches)) => prune(&store, &Workloads::new(environment), matches)?,
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "`list`, `pull`, `load`, `rm` or `prune` is missing after `mcpm image`",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(store: &ImageStore, matches: &ArgMatches) -> Result<()> {
    let images = store.list()?;
    if output::format(matches) == JSON {
        return output::json(&images);
    }
    let head = ["NAME", "ID", "SIZE", "CREATED"].map(str::to_owned).to_vec();
    let rows = images.iter().flat_map(|image| {
        let names = match image.references.as_slice() {
            [] => vec!["-".to_owned()],
            _ => names_of(image),
        };
        names.into_iter().map(|name| {
            let id: String = image.id.hex().chars().take(SHORT_ID_DIGITS).collect();
            let created = image.created.clone().unwrap_or_else(|| "-".to_owned());
            vec![name, id, DecimalBytes(image.size).to_string(), created]
        })
    });
    output::list(&std::iter::once(head).chain(rows).collect::<Vec<_>>())?;
    if images.is_empty() {
        output::hint("no images are stored; pull one with `mcpm image pull IMAGE`");
    }
    Ok(())
}

async fn pull(
    store: &ImageStore,
    name: &str,
    credentials: &CredentialStore,
    bundle: Option<&Path>,
) -> Result<()> {
    let reference = ImageReference::parse(name)?;
    let progress = Progress::default();
    let on_progress = |PullProgress { current, total }| {
        progress.show(&WorkloadEvent::Pulling { image: name.to_owned(), current, total });
    };
    let pulled = store.pull(&reference, credentials, bundle, &on_progress).await;
    progress.clear();
    pulled.map(drop)
}

fn prune(store: &ImageStore, workloads: &Workloads, matches: &ArgMatches) -> Result<()> {
    let scope = if matches.get_flag(ALL) { PruneScope::Unused } else { PruneScope::Unnamed };
    let removed = store.prune(scope, || workloads.images_in_use())?;
    if output::format(matches) == JSON {
        return output::json(&removed);
    }
    for id in &removed.images {
        output::line(id.to_string())?;
    }
    let _ = writeln!(io::stderr(), "freed {}", DecimalBytes(removed.freed));
    Ok(())
}

/// Returns the names of an image, or its id if it has none.
fn names_of(image: &StoredImage) -> Vec<String> {
    match image.references.as_slice() {
        [] => vec![image.id.to_string()],
        references => references.iter().map(ImageReference::to_string).collect(),
    }
}
