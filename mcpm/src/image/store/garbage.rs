//! Removes images, and the layers and blobs that no image needs any more.
//!
//! The callback `in_use` reads the records of workloads and containers while the store is locked against new images and
//! against new containers: a runtime holds the shared lock of the store from its last look-up of an image until the
//! container is recorded. An image that was removed before that look-up is not found, and the container is not created.

use std::{collections::BTreeSet, fs};

use super::{
    catalog::{Catalog, ImageRecord},
    draft::{self, Draft},
    image_store::ImageStore,
    layers::chain_ids,
    store_lock,
    stored_image::{ImagesInUse, PruneScope, RemovedImages},
};
use crate::{
    Error, ErrorKind, Result,
    image::{Digest, ImageReference},
    printable::Printable as _,
    state::file::file_error,
};

impl ImageStore {
    /// Removes a name, or an image with all its names if `name` is an id (`sha256:…`, or at least 12 of its hex
    /// digits). An image without a name is removed, with the layers that no other image has.
    ///
    /// # Errors
    /// `NotFound`; `NameTaken` for an image that is in use; `InvalidOption` for digits with which the ids of several
    /// images begin; `Io`; those of `in_use`.
    pub fn remove(&self, name: &str, in_use: impl FnOnce() -> Result<ImagesInUse>) -> Result<RemovedImages> {
        let draft = self.lock_out_others()?;
        let in_use = in_use()?;
        let mut removed = RemovedImages::default();
        Catalog::change(&self.catalog_path(), |catalog| {
            let (id, reference) = resolve(catalog, name)?;
            let image =
                catalog.images.iter_mut().find(|image| image.id == id).ok_or_else(|| unknown(name))?;
            let references: Vec<ImageReference> = match reference {
                Some(reference) => {
                    image.references.iter().filter(|other| **other == reference).cloned().collect()
                }
                None => image.references.clone(),
            };
            let is_last = references.len() == image.references.len();
            // If the image has other names, only this name is removed, so only the name must not be in use.
            let used = match is_last {
                true => is_used(image, &in_use),
                false => references.iter().any(|reference| in_use.references.contains(reference)),
            };
            if used {
                return Err(Error::new(
                    ErrorKind::NameTaken,
                    format!("the image `{name}` is in use by a workload"),
                )
                .hint("remove the workload first; `mcpm list` shows all workloads"));
            }
            image.references.retain(|other| !references.contains(other));
            if is_last {
                catalog.images.retain(|image| image.id != id);
                removed.images.push(id);
            }
            removed.references = references;
            Ok(())
        })?;
        removed.freed = self.collect_garbage(&draft)?;
        Ok(removed)
    }

    /// Removes images that are not in use, layers and blobs that no image has, and abandoned drafts.
    ///
    /// # Errors
    /// `Io`; `NameTaken` while another process pulls an image; those of `in_use`.
    pub fn prune(
        &self,
        scope: PruneScope,
        in_use: impl FnOnce() -> Result<ImagesInUse>,
    ) -> Result<RemovedImages> {
        let draft = self.lock_out_others()?;
        let in_use = in_use()?;
        let mut removed = RemovedImages::default();
        Catalog::change(&self.catalog_path(), |catalog| {
            let is_kept = |image: &ImageRecord| {
                is_used(image, &in_use) || scope == PruneScope::Unnamed && !image.references.is_empty()
            };
            let (kept, garbage) = std::mem::take(&mut catalog.images).into_iter().partition(is_kept);
            catalog.images = kept;
            for image in garbage {
                removed.images.push(image.id);
                removed.references.extend(image.references);
            }
            Ok(())
        })?;
        removed.freed = self.collect_garbage(&draft)?;
        draft::remove_abandoned(&self.drafts(), usize::MAX);
        Ok(removed)
    }

    /// Creates a draft while no other process has one, so that no other process adds layers or blobs.
    fn lock_out_others(&self) -> Result<Draft> {
        Draft::create(&self.drafts(), store_lock::exclusive(&self.lock_path())?)
    }

    /// Removes layers and blobs that no image in the catalog has, and returns their size.
    fn collect_garbage(&self, draft: &Draft) -> Result<u64> {
        let catalog = self.catalog()?;
        let chains: Vec<Digest> =
            catalog.images.iter().flat_map(|image| chain_ids(&image.diff_ids)).collect();
        let mut freed = self.layers.retain(&chains, draft.path())?;
        let blobs: BTreeSet<&str> = catalog
            .images
            .iter()
            .flat_map(|image| image.digests.iter().chain([&image.id]))
            .map(Digest::hex)
            .collect();
        let failed = |error| file_error("read", &self.blobs(), error);
        for entry in fs::read_dir(self.blobs()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if !entry.file_name().to_str().is_some_and(|name| blobs.contains(name)) {
                freed += entry.metadata().map_err(failed)?.len();
                fs::remove_file(entry.path()).map_err(|error| file_error("remove", &entry.path(), error))?;
            }
        }
        Ok(freed)
    }
}

/// Finds the image that a name or an id means, and the name.
fn resolve(catalog: &Catalog, name: &str) -> Result<(Digest, Option<ImageReference>)> {
    let digits = name.strip_prefix("sha256:").unwrap_or(name);
    if (12..=64).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let mut found = catalog.images.iter().filter(|image| image.id.hex().starts_with(digits));
        match (found.next(), found.next()) {
            (Some(image), None) => return Ok((image.id.clone(), None)),
            (Some(_), Some(_)) => {
                let message = format!("several images have ids that begin with `{name}`");
                return Err(Error::new(ErrorKind::InvalidOption, message).hint("enter more digits of the id"));
            }
            _ => {}
        }
    }
    // 12 digits may be a name as well.
    let reference = ImageReference::parse(name).map_err(|_| unknown(name))?;
    let image = catalog.images.iter().find(|image| image.references.contains(&reference));
    Ok((image.ok_or_else(|| unknown(name))?.id.clone(), Some(reference)))
}

/// A reference with a digest names the images of its repository that have the digest.
fn is_used(image: &ImageRecord, in_use: &ImagesInUse) -> bool {
    let names = |used: &ImageReference| {
        let has_digest = || image.digests.iter().any(|digest| used.digest() == Some(&digest.to_string()));
        image.references.contains(used)
            || has_digest() && image.references.iter().any(|reference| reference.same_repository(used))
    };
    in_use.ids.contains(&image.id) || in_use.references.iter().any(names)
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no image `{}` in the store", name.printable()))
        .hint("list the images with `mcpm image list`")
}

#[cfg(test)]
#[path = "garbage_tests.rs"]
mod tests;
