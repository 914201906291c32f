//! Packages as servers (`uvx://`, `npx://`, `go://`), for which images are built.
//!
//! [`PackageReference`] reads what was typed and refuses what no package of its ecosystem can be called. A
//! `Recipe` is everything that goes into the image, and so its name; `build::ensure` finds the image or builds it.
//! `dockerfile` says how, with the fixed scripts in `scripts/`; `project` says which files of a local project go
//! in, `certificates` and `settings` what a build is told of the network it is in, `report` which command of the
//! package is the server.

pub(crate) mod build;
pub(crate) mod certificates;
mod context;
mod dockerfile;
mod grammar;
mod project;
mod recipe;
mod reference;
mod report;
mod settings;

pub(crate) use recipe::{Recipe, RecipeInputs};
pub use reference::{Ecosystem, PackageReference};
pub use settings::BuildSettings;
