//! The labels of the containers and images that mcpm creates.

/// Set to `true` on every container that mcpm created; a container without it is never touched.
pub const MANAGED: &str = "mcpm";
/// Name of the workload.
pub const NAME: &str = "mcpm-name";
/// Folder of the workload's record: another user of the engine may have a workload with the same name.
pub const STATE: &str = "mcpm-state";
/// Group of the workload.
pub const GROUP: &str = "mcpm-group";
/// Transport of the server.
pub const TRANSPORT: &str = "mcpm-transport";
/// A hash of the container's specification.
pub const SPEC: &str = "mcpm-spec";
/// The package that an image was built for. It is the prefix of the other labels of such an image.
pub const PACKAGE: &str = "mcpm-package";

/// The build of a package. Unnamed images with this label are removed after a build.
pub const BUILD: &str = "mcpm-package-build";

/// Whether a label belongs to mcpm, so that users cannot set it.
pub fn is_reserved(key: &str) -> bool {
    key == MANAGED || key.starts_with("mcpm-")
}
