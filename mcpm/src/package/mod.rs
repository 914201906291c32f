//! Packages as servers: `uvx://`, `npx://` and `go://`, each run in an image that is built for it.
//!
//! [`PackageReference`] reads what was typed and refuses what no package of its ecosystem can be called.

mod grammar;
mod reference;

pub use reference::{Ecosystem, PackageReference};
