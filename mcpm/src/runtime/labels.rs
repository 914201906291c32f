//! Labels that mark our containers and say what they are.

/// Set to `true` on every container of ours; a container without it is never touched.
pub const MANAGED: &str = "mcpm";
/// Name of the workload.
pub const NAME: &str = "mcpm-name";
/// Folder in which the workload is recorded: another user of the engine may have one of the same name.
pub const STATE: &str = "mcpm-state";
/// Group of the workload.
pub const GROUP: &str = "mcpm-group";
/// Transport of the server.
pub const TRANSPORT: &str = "mcpm-transport";
/// What the container was made from, as a hash.
pub const SPEC: &str = "mcpm-spec";
/// The package that an image was built for. Other labels of such an image begin with it.
pub const PACKAGE: &str = "mcpm-package";

/// Which build of a package an image is of. Images without a name that have it are removed when a build ends.
pub const BUILD: &str = "mcpm-package-build";

/// Tells whether a label key is ours, and so not the user's to set.
pub fn is_reserved(key: &str) -> bool {
    key == MANAGED || key.starts_with("mcpm-")
}
