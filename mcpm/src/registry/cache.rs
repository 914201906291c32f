//! Caches fetched registry documents on disk. A stale document is revalidated; if that fails, the stale copy is used,
//! with a notice.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use http::{HeaderMap, header};
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    OnNotice,
    fetch::{Fetched, fetch},
};
use crate::{
    Error, ErrorKind, Result, fnv1a::fnv1a, http_client::HttpClient, redact::url::redact_url,
    state::FORMAT_VERSION,
};

/// Lifetime of a document without `Cache-Control`.
const DEFAULT_TTL: Duration = Duration::from_secs(5 * 60);
/// Maximum lifetime of a document.
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Limits of the number and the total size of cached documents.
const MAX_CACHED_DOCUMENTS: usize = 200;
const MAX_CACHE_BYTES: u64 = 256 << 20;

/// A cache in one folder.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
    /// Fetches documents.
    pub(super) client: HttpClient,
}

/// A cached document. A file that cannot be read is fetched again.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CachedDocument {
    version: u32,
    url: String,
    etag: Option<String>,
    /// Seconds since 1970.
    fetched_at: u64,
    holds_seconds: u64,
    /// The document; `None` if there is none.
    body: Option<String>,
}

impl Cache {
    pub(super) fn new(cache_dir: &Path) -> Self {
        Self { folder: cache_dir.join("registry"), client: HttpClient::default() }
    }

    /// Returns a document.
    ///
    /// # Errors
    /// `Registry` when it does not exist, or cannot be fetched and is not cached.
    pub(super) async fn get(&self, url: &Url, on_notice: OnNotice<'_>) -> Result<Vec<u8>> {
        self.find(url, on_notice).await?.ok_or_else(|| {
            Error::new(ErrorKind::Registry, format!("there is no document at `{}`", redact_url(url)))
        })
    }

    /// Returns a document; `None` if it does not exist.
    ///
    /// # Errors
    /// `Registry` when it cannot be fetched and is not cached.
    pub(super) async fn find(&self, url: &Url, on_notice: OnNotice<'_>) -> Result<Option<Vec<u8>>> {
        let path = self.folder.join(format!("{:016x}.json", fnv1a(url.as_str().as_bytes())));
        let copy = read(&path).filter(|copy| copy.url == url.as_str());
        let now = seconds(SystemTime::now());
        if let Some(copy) = &copy
            && now.checked_sub(copy.fetched_at).is_some_and(|age| age < copy.holds_seconds)
        {
            return Ok(copy.body.clone().map(String::into_bytes));
        }
        let etag = copy.as_ref().filter(|copy| copy.body.is_some()).and_then(|copy| copy.etag.clone());
        let fetched = match (fetch(url, etag.as_deref(), &self.client).await, copy) {
            (Ok(Fetched::NotModified(headers)), Some(copy)) => {
                CachedDocument { fetched_at: now, holds_seconds: ttl_seconds(&headers), ..copy }
            }
            (Ok(Fetched::Document(bytes, headers)), _) => {
                let text = String::from_utf8(bytes).map_err(|error| {
                    Error::new(ErrorKind::Registry, "the registry's document is not valid UTF-8")
                        .source(error)
                })?;
                let etag = headers.get(header::ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
                self.new_document(url, now, etag, ttl_seconds(&headers), Some(text))
            }
            (Ok(Fetched::Missing), _) => self.new_document(url, now, None, 0, None),
            (Ok(Fetched::NotModified(_)), None) => {
                return Err(Error::new(
                    ErrorKind::Registry,
                    "the registry responded with 304 (Not Modified), but no copy is cached",
                ));
            }
            (Err(error), Some(copy)) => {
                let at = SystemTime::UNIX_EPOCH + Duration::from_secs(copy.fetched_at);
                let at = humantime::format_rfc3339_seconds(at);
                on_notice(format!("{error}; using the copy that was cached at {at}"));
                return Ok(copy.body.map(String::into_bytes));
            }
            (Err(error), None) => return Err(error),
        };
        if fetched.body.is_some() {
            self.store(&path, &fetched);
        }
        Ok(fetched.body.map(String::into_bytes))
    }

    fn new_document(
        &self,
        url: &Url,
        now: u64,
        etag: Option<String>,
        holds_seconds: u64,
        body: Option<String>,
    ) -> CachedDocument {
        CachedDocument {
            version: FORMAT_VERSION,
            url: url.to_string(),
            etag,
            fetched_at: now,
            holds_seconds,
            body,
        }
    }

    /// Stores a document, and ignores errors.
    fn store(&self, path: &Path, copy: &CachedDocument) {
        let written = serde_json::to_vec(copy).map_err(std::io::Error::other).and_then(|bytes| {
            fs::create_dir_all(&self.folder)?;
            crate::state::replace(path, &bytes)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "a registry document could not be cached");
        }
        self.evict();
    }

    /// Removes the oldest documents beyond the limits.
    fn evict(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let of = |entry: fs::DirEntry| {
            let metadata = entry.metadata().ok()?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        };
        let mut copies: Vec<_> = entries.flatten().filter_map(of).collect();
        copies.sort_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
        let mut bytes = 0;
        for (index, (_, length, path)) in copies.iter().enumerate() {
            bytes += length;
            if index >= MAX_CACHED_DOCUMENTS || bytes > MAX_CACHE_BYTES {
                // Another process may have removed the file.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn read(path: &Path) -> Option<CachedDocument> {
    let copy: CachedDocument = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (copy.version == FORMAT_VERSION).then_some(copy)
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the lifetime of a document in seconds, from `Cache-Control`.
fn ttl_seconds(headers: &HeaderMap) -> u64 {
    let control =
        headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut holds = DEFAULT_TTL;
    for directive in control.split(',').map(|directive| directive.trim().to_ascii_lowercase()) {
        match directive.split_once('=') {
            Some(("max-age", age)) => {
                let age = age.trim_matches('"').parse().map_or(DEFAULT_TTL, Duration::from_secs);
                holds = age;
            }
            None if matches!(directive.as_str(), "no-store" | "no-cache") => return 0,
            _ => {}
        }
    }
    holds.min(MAX_TTL).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ttl_follows_cache_control() {
        for (control, seconds) in [
            (None, 300),
            (Some("max-age=60"), 60),
            (Some("public, max-age=3600"), 3600),
            (Some("max-age=99999999"), 86400),
            (Some("max-age=soon"), 300),
            (Some("no-cache, max-age=60"), 0),
            (Some("no-store"), 0),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(control) = control {
                headers.insert(header::CACHE_CONTROL, control.parse().unwrap());
            }
            assert_eq!(ttl_seconds(&headers), seconds, "{control:?}");
        }
    }
}
