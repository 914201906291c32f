//! Fetches registry entries through the REST API of the MCP registry.

use std::time::Duration;

use url::Url;

use super::{OnNotice, RegistryEntry, cache::Cache, document, fetch::MAX_DOCUMENT_BYTES};
use crate::{Error, ErrorKind, Result, redact::url::redact_url};

/// The versions of the API, newest first. A base URL that ends in a version is used unchanged.
const API_VERSIONS: &[&str] = &["v0.1", "v0"];
/// Entries per page, and the maximum number of pages.
const PAGE_SIZE: &str = "100";
const MAX_PAGES: usize = 100;
/// Timeout of all pages together. Their total size is limited like that of one document.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns all entries, or those that the registry finds for a query.
///
/// # Errors
/// `Registry` when there is no registry at the URL, or when all pages exceed the time limit or the size limit.
pub(super) async fn search(
    base: &Url,
    query: Option<&str>,
    cache: &Cache,
    on_notice: OnNotice<'_>,
) -> Result<Vec<RegistryEntry>> {
    tokio::time::timeout(SEARCH_TIMEOUT, pages(base, query, cache, on_notice)).await.unwrap_or_else(|_| {
        let message =
            format!("fetching the pages of the registry took more than {} s", SEARCH_TIMEOUT.as_secs());
        Err(Error::new(ErrorKind::Registry, message)
            .hint("try again, or set `registry` to the URL of a JSON document instead of an API"))
    })
}

async fn pages(
    base: &Url,
    query: Option<&str>,
    cache: &Cache,
    on_notice: OnNotice<'_>,
) -> Result<Vec<RegistryEntry>> {
    for version in versions(base) {
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        let mut left = MAX_DOCUMENT_BYTES;
        for number in 0.. {
            let mut url = endpoint_url(base, version, &["servers"])?;
            {
                let mut pairs = url.query_pairs_mut();
                pairs.append_pair("limit", PAGE_SIZE).append_pair("version", "latest");
                if let Some(query) = query {
                    pairs.append_pair("search", query);
                }
                if let Some(cursor) = &cursor {
                    pairs.append_pair("cursor", cursor);
                }
            }
            let Some(bytes) = cache.find(&url, on_notice).await? else {
                if number == 0 {
                    break;
                }
                return Err(Error::new(
                    ErrorKind::Registry,
                    "the registry did not find the next page of its list of servers",
                ));
            };
            left = left.checked_sub(bytes.len()).ok_or_else(|| {
                let message = format!(
                    "all pages of the registry's list of servers are together larger than {} MiB",
                    MAX_DOCUMENT_BYTES >> 20
                );
                Error::new(ErrorKind::Registry, message)
                    .hint("search for a more specific word with `mcpm search WORD`")
            })?;
            let page = document::page(&bytes, on_notice)
                .map_err(|error| error.with("registry", redact_url(base)))?;
            entries.extend(page.entries);
            if page.next.is_none() || page.next == cursor {
                return Ok(entries);
            }
            cursor = page.next;
            if number + 1 == MAX_PAGES {
                on_notice(format!("only the first {MAX_PAGES} pages of the registry are read"));
                return Ok(entries);
            }
        }
    }
    Err(Error::new(ErrorKind::Registry, format!("there is no MCP registry at `{}`", redact_url(base)))
        .hint("check the URL, and omit `/v0.1/servers` at its end"))
}

/// Returns the candidates for a name.
pub(super) async fn candidates(
    base: &Url,
    name: &str,
    cache: &Cache,
    on_notice: OnNotice<'_>,
) -> Result<Vec<RegistryEntry>> {
    if name.contains('/') {
        let url = endpoint_url(base, versions(base)[0], &["servers", name, "versions", "latest"])?;
        if let Some(bytes) = cache.find(&url, on_notice).await? {
            return document::entries(&bytes, on_notice)
                .map_err(|error| error.with("registry", redact_url(base)));
        }
    }
    // Older registries find entries by id only, so the last part of the name is searched for.
    search(base, Some(name.rsplit('/').next().unwrap_or(name)), cache, on_notice).await
}

/// The versions to try at a base URL; only the empty version if the URL contains one.
fn versions(base: &Url) -> &'static [&'static str] {
    let last = base.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if API_VERSIONS.contains(&last) { &[""] } else { API_VERSIONS }
}

fn endpoint_url(base: &Url, version: &str, parts: &[&str]) -> Result<Url> {
    let mut url = base.clone();
    url.path_segments_mut()
        .map_err(|()| {
            Error::new(
                ErrorKind::Registry,
                format!("`{}` is not a valid base URL of a registry", redact_url(base)),
            )
        })?
        .pop_if_empty()
        .extend((!version.is_empty()).then_some(version))
        .extend(parts);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_part_of_the_path() {
        let base = Url::parse("https://registry.example.com/team/").unwrap();
        let url = endpoint_url(&base, "v0.1", &["servers", "io.github.a/b c", "versions", "latest"]).unwrap();
        assert_eq!(
            url.as_str(),
            "https://registry.example.com/team/v0.1/servers/io.github.a%2Fb%20c/versions/latest"
        );
        assert_eq!(versions(&Url::parse("https://r.example.com/v0/").unwrap()), [""]);
    }
}
