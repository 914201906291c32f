//! Stores images without an engine: pulls, loads, unpacks, removes and flattens them.
//!
//! ```text
//! FOLDER/images.json           the images: ids, digests, names and layers; replaced atomically
//! FOLDER/images.lock           held while that file is changed
//! FOLDER/blobs/sha256/HEX      configurations, manifests and indexes
//! FOLDER/layers/CHAIN          a complete layer in the format of overlayfs
//! FOLDER/layers/CHAIN.json     its digests and its size
//! FOLDER/drafts/RANDOM/        content that is being downloaded, unpacked or built
//! FOLDER/lock                  shared lock to add images, exclusive lock to remove images
//! FOLDER/host.key              the key that proves which image consists of the system folders of this machine
//! ```
//!
//! In a layer, a character device with the number 0 hides a file of the layers below, and a folder with the attribute
//! `user.overlay.opaque` hides the content of the same folder in the layers below; overlayfs mounts layers with the
//! option `userxattr`. Archives of layers are untrusted (`unpack.rs`), and the resources that an image may use are
//! limited (`limits.rs`).

mod archive;
#[cfg(test)]
mod archive_builder;
mod beneath;
mod catalog;
mod commit;
mod config;
mod decompress;
mod draft;
mod entry_path;
mod flatten;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod garbage;
mod image_store;
mod layers;
mod limits;
mod load;
mod manifest;
mod pax;
mod platform;
mod pull;
#[cfg(test)]
mod registry_server;
mod store_lock;
mod stored_image;
mod tar_reader;
mod unpack;

pub(crate) use commit::{ArchiveFile, add_to_layer};
pub use draft::Draft;
pub use flatten::flatten;
pub(crate) use flatten::{flatten_into_layer, is_whole_root};
pub use image_store::ImageStore;
pub use stored_image::{ImageConfig, ImagesInUse, PruneScope, RemovedImages, StoredImage};
