//! Pulls images from registries.
//!
//! Layers that are not in the store are downloaded, a few at a time, and unpacked in their order while others are still
//! being downloaded.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{
    FutureExt as _, StreamExt as _, TryStreamExt as _,
    future::{BoxFuture, try_join},
    stream,
};
use tokio::sync::mpsc;

use super::{
    catalog::ImageRecord,
    config::ConfigFile,
    decompress::StopFlag,
    draft::Draft,
    image_store::ImageStore,
    layers::chain_ids,
    limits::MAX_CONFIG_BYTES,
    manifest::{Document, Manifest},
    platform::{ImagePlatform, MachinePlatform},
    stored_image::StoredImage,
};
use crate::{
    Error, ErrorKind, Result,
    blocking::run_blocking,
    image::{
        Digest, ImageReference,
        credentials::CredentialStore,
        distribution::{ImageRepository, download::BlobDescriptor},
    },
    runtime::PullProgress,
    state::file::file_error,
    transport::tls::TrustStore,
};

/// How many layers are downloaded at the same time, as engines do.
const MAX_PARALLEL_DOWNLOADS: usize = 3;
/// How many indexes may lead to a manifest.
const MAX_INDEX_DEPTH: usize = 3;

/// An image in its registry.
struct RemoteImage {
    /// The digest of the document that the name leads to.
    digest: Digest,
    /// The manifest for this machine.
    manifest: Manifest,
    diff_ids: Vec<Digest>,
    /// The documents, to be stored.
    documents: Vec<Bytes>,
}

/// A layer that is not in the store.
struct MissingLayer {
    /// Its place among the layers.
    index: usize,
    blob: BlobDescriptor,
}

/// Stops blocking work when the future that waits for it is dropped.
struct StopOnDrop(StopFlag);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl ImageStore {
    /// Pulls an image for this machine, with the certificate authorities of a PEM file in addition to those of this
    /// machine. `progress` is called with the amount of the layers that has been downloaded.
    ///
    /// Dropping the future cancels the pull; layers that are complete stay in the store.
    ///
    /// # Errors
    /// `ImageUnavailable`, with the reason, for an image that the registry does not have or that cannot be used; `Io`;
    /// `InvalidOption` for an invalid PEM file; `NameTaken` while images are being removed.
    pub async fn pull(
        &self,
        reference: &ImageReference,
        credentials: &CredentialStore,
        ca_bundle: Option<&Path>,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<StoredImage> {
        let trust = TrustStore::with_bundle(ca_bundle)?;
        self.pull_with_trust(reference, credentials, &trust, progress).await
    }

    /// Pulls an image, with the certificate authorities of `trust`.
    ///
    /// # Errors
    /// As for [`pull`](Self::pull).
    pub(crate) async fn pull_with_trust(
        &self,
        reference: &ImageReference,
        credentials: &CredentialStore,
        trust: &TrustStore,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<StoredImage> {
        let in_context = |error: Error| match error.kind() {
            ErrorKind::ImageUnavailable => error.with("image", reference),
            _ => error,
        };
        Box::pin(self.pull_unnamed(reference, credentials, trust, progress)).await.map_err(in_context)
    }

    async fn pull_unnamed(
        &self,
        reference: &ImageReference,
        credentials: &CredentialStore,
        trust: &TrustStore,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<StoredImage> {
        let store = self.clone();
        let draft = Arc::new(run_blocking(move || store.draft()).await?);
        let repository = ImageRepository::for_image(reference, credentials, trust).await?;
        let image = RemoteImage::find(&repository, reference, &MachinePlatform::current()).await?;
        self.add_layers(&repository, &image, &draft, progress).await?;
        let manifest_digest = image.documents.last().map(|bytes| Digest::sha256(bytes));
        let mut digests = vec![image.digest];
        digests.extend(manifest_digest.filter(|digest| *digest != digests[0]));
        let record = ImageRecord {
            id: image.manifest.config.digest,
            digests,
            references: vec![reference.clone()],
            diff_ids: image.diff_ids,
        };
        let (store, documents) = (self.clone(), image.documents);
        run_blocking(move || {
            let documents: Vec<&[u8]> = documents.iter().map(|bytes| &bytes[..]).collect();
            store.add(record, &documents)
        })
        .await
    }

    /// Downloads and unpacks the layers that are not in the store.
    async fn add_layers(
        &self,
        repository: &ImageRepository,
        image: &RemoteImage,
        draft: &Arc<Draft>,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<()> {
        let chain = chain_ids(&image.diff_ids);
        let mut missing = Vec::new();
        for (index, blob) in image.manifest.layers.iter().enumerate() {
            if self.layers.get(&chain[index])?.is_none() {
                missing.push(MissingLayer { index, blob: blob.clone() });
            }
        }
        let mut budget = self.remaining_budget(&chain)?;
        let total = missing.iter().map(|layer| layer.blob.size).sum();
        let received: Vec<AtomicU64> = missing.iter().map(|_| AtomicU64::new(0)).collect();
        progress(PullProgress { current: 0, total });
        let report = |index: usize, count: u64| {
            received[index].store(count, Ordering::Relaxed);
            let current = received.iter().map(|count| count.load(Ordering::Relaxed)).sum();
            progress(PullProgress { current, total });
        };
        let (ready, mut downloaded) = mpsc::unbounded_channel();
        let downloads = async {
            // The sender is dropped with this block, which ends the unpacking.
            let ready = ready;
            // Boxed, since otherwise the compiler cannot prove that the futures are `Send`.
            let files = missing.iter().enumerate().map(
                |(number, layer)| -> BoxFuture<'_, Result<(usize, PathBuf)>> {
                    let report = &report;
                    let download = async move {
                        let path = draft.path().join(format!("blob-{}", layer.index));
                        let file =
                            File::create_new(&path).map_err(|error| file_error("create", &path, error))?;
                        repository.download(&layer.blob, file, &|count| report(number, count)).await?;
                        Ok((layer.index, path))
                    };
                    download.boxed()
                },
            );
            stream::iter(files.collect::<Vec<_>>())
                .buffered(MAX_PARALLEL_DOWNLOADS)
                // The receiver only ends early with an error of its own, which is then reported.
                .try_for_each(async |file| ready.send(file).map_err(|_| cancelled()))
                .await
        };
        let stop = StopFlag::default();
        let _stop_on_drop = StopOnDrop(stop.clone());
        let unpacking = async {
            while let Some((index, path)) = downloaded.recv().await {
                let (layers, draft, stop) = (self.layers.clone(), Arc::clone(draft), stop.clone());
                let (diff_id, chain) = (image.diff_ids[index].clone(), chain[..=index].to_vec());
                let mut left = budget.clone();
                budget = run_blocking(move || {
                    let file = File::open(&path).map_err(|error| file_error("open", &path, error))?;
                    layers.unpack(file, &diff_id, &chain, draft.path(), &mut left, &stop)?;
                    // The blob is not needed any more, and the draft is removed in any case.
                    let _ = std::fs::remove_file(&path);
                    Ok(left)
                })
                .await?;
            }
            Ok(())
        };
        try_join(downloads, unpacking).await.map(|_| ())
    }
}

impl RemoteImage {
    /// Fetches the manifest and the configuration of an image for a machine.
    async fn find(
        repository: &ImageRepository,
        reference: &ImageReference,
        machine: &MachinePlatform,
    ) -> Result<Self> {
        let mut name = match reference.digest() {
            Some(digest) => Digest::parse(digest)
                .ok_or_else(|| {
                    let message = format!("the algorithm of the digest `{digest}` is not supported");
                    Error::new(ErrorKind::ImageUnavailable, message).hint("use the image's `sha256:` digest")
                })?
                .to_string(),
            None => reference.tag().unwrap_or("latest").to_owned(),
        };
        let mut found = None;
        let mut documents = Vec::new();
        for _ in 0..=MAX_INDEX_DEPTH {
            let (digest, bytes) =
                repository.manifest(&name).await?.ok_or_else(|| missing(reference, &name))?;
            let document = Document::parse(&bytes)?;
            documents.push(bytes);
            let digest = found.get_or_insert(digest).clone();
            match document {
                Document::Index(index) => {
                    name = index.select(machine)?.blob(MAX_CONFIG_BYTES)?.digest.to_string()
                }
                Document::Manifest(manifest) => {
                    return Self::read(repository, machine, digest, manifest, documents).await;
                }
            }
        }
        Err(Error::new(ErrorKind::ImageUnavailable, "the indexes of the image are nested too deeply"))
    }

    async fn read(
        repository: &ImageRepository,
        machine: &MachinePlatform,
        digest: Digest,
        manifest: Manifest,
        mut documents: Vec<Bytes>,
    ) -> Result<Self> {
        let text = repository.blob(&manifest.config.digest).await?;
        let config = ConfigFile::parse(&text)?;
        machine.check(&ImagePlatform {
            os: config.os.clone(),
            architecture: config.architecture.clone(),
            variant: config.variant.clone(),
        })?;
        let diff_ids = config.diff_ids()?;
        if diff_ids.len() != manifest.layers.len() {
            let why = format!(
                "the image cannot be used: its manifest has {} layers, but its configuration has {}",
                manifest.layers.len(),
                diff_ids.len()
            );
            return Err(Error::new(ErrorKind::ImageUnavailable, why));
        }
        // The manifest stays the last document.
        documents.insert(0, text);
        Ok(Self { digest, manifest, diff_ids, documents })
    }
}

fn missing(reference: &ImageReference, name: &str) -> Error {
    let message = format!("image `{reference}` does not exist in its registry");
    Error::new(ErrorKind::ImageUnavailable, message)
        .source(io::Error::new(io::ErrorKind::NotFound, "it responded with 404 Not Found"))
        .with("registry", reference.registry())
        .with("tag or digest", name)
        .hint("check its name and tag")
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Interrupted, "the pull was cancelled")
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
