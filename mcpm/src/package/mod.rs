//! Builds the images of servers that are packages, local projects, local scripts or bundles (`uvx://`, `npx://`,
//! `go://`, `mcpb://`).
//!
//! [`PackageReference`] parses references and rejects invalid names. A `Recipe` holds everything that an image is
//! built from; the tag of the image is a hash of the recipe, without the proxies. `build::ensure` returns the image
//! with that tag, or builds the image.
//!
//! `dockerfile` renders the Dockerfile, which runs the fixed scripts in `scripts/`. `local` determines whether a path
//! is a script, a bundle or a project. `project` selects the files of a local project; `exclusions` decides which files
//! are left out. `bundle` reads MCP bundles. `additional` parses the packages that are installed together with the
//! server. `certificates` and `settings` read the certificates, proxies and mirrors for the build. `report` selects the
//! command that starts the server.

pub(crate) mod additional;
pub(crate) mod build;
pub(crate) mod bundle;
pub(crate) mod certificates;
#[cfg_attr(not(feature = "containers"), path = "context_off.rs")]
mod context;
mod dockerfile;
#[cfg(feature = "containers")]
mod exclusions;
mod grammar;
pub(crate) mod local;
#[cfg_attr(not(feature = "containers"), path = "project_off.rs")]
mod project;
mod recipe;
mod reference;
#[cfg(feature = "containers")]
mod regular_file;
mod report;
mod settings;

pub(crate) use recipe::{Recipe, RecipeInputs};
pub(crate) use reference::local_path;
pub use reference::{Ecosystem, PackageReference};
pub use settings::BuildSettings;
