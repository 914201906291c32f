//! Serves images on loopback for tests; it can break off responses, send wrong content and require a login.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Barrier,
};

use super::archive_builder::TestImage;
use crate::image::{Digest, ImageReference};

/// What the registry has, and how it behaves.
#[derive(Default)]
pub(super) struct RegistryState {
    /// Manifests by tag or digest, and blobs by digest.
    pub(super) content: HashMap<String, Vec<u8>>,
    /// For the next responses with blobs: the number of bytes after which each breaks off, if it is longer.
    pub(super) breaks: VecDeque<usize>,
    pub(super) has_no_ranges: bool,
    /// The value of the header `Authorization` that is required.
    pub(super) authorization: Option<String>,
    /// Where each request for a blob waits for others before it gets a response, by the digest of the blob.
    pub(super) barriers: HashMap<String, Arc<Barrier>>,
    /// The requests: their paths, and the first byte of their ranges.
    pub(super) requests: Vec<(String, Option<usize>)>,
}

/// A registry that runs until it is dropped.
pub(super) struct RegistryServer {
    address: String,
    pub(super) state: Arc<Mutex<RegistryState>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for RegistryServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RegistryServer {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state: Arc<Mutex<RegistryState>> = Arc::default();
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self { address, state, task }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn reference(&self, rest: &str) -> ImageReference {
        ImageReference::parse(&format!("{}/{rest}", self.address)).unwrap()
    }

    /// Adds content by its digest.
    pub(super) fn add(&self, content: &[u8]) -> Digest {
        let digest = Digest::sha256(content);
        self.change(|state| state.content.insert(digest.to_string(), content.to_vec()));
        digest
    }

    /// Adds an image with its layers as they are sent, and returns its manifest.
    pub(super) fn add_image(&self, image: &TestImage, layers: &[Vec<u8>]) -> Vec<u8> {
        let manifest = image.manifest(layers);
        for content in layers.iter().chain([&image.config, &manifest]) {
            self.add(content);
        }
        manifest
    }

    pub(super) fn tag(&self, tag: &str, manifest: &[u8]) {
        self.change(|state| state.content.insert(tag.to_owned(), manifest.to_vec()));
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut RegistryState) -> T) -> T {
        change(&mut self.state.lock().unwrap())
    }

    /// The digests of all requested blobs.
    pub(super) fn requested_blobs(&self) -> Vec<String> {
        self.change(|state| {
            let blobs = state.requests.iter().filter(|(path, _)| path.contains("/blobs/"));
            blobs.map(|(path, _)| name_of(path).to_owned()).collect()
        })
    }

    /// The first bytes of the ranges of all requests for blobs.
    pub(super) fn blob_ranges(&self) -> Vec<Option<usize>> {
        self.change(|state| {
            let blobs = state.requests.iter().filter(|(path, _)| path.contains("/blobs/"));
            blobs.map(|(_, range)| *range).collect()
        })
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<RegistryState>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            // The first byte of a TLS handshake, which this registry does not speak.
            Ok(0x16) if head.is_empty() => return,
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let barrier = state.lock().unwrap().barriers.get(name_of(path_of(&head))).cloned();
    if let Some(barrier) = barrier {
        barrier.wait().await;
    }
    let (response, cut) = respond(&head, &mut state.lock().unwrap());
    // A client that has left does not matter.
    let _ = stream.write_all(&response[..cut.unwrap_or(response.len()).min(response.len())]).await;
    let _ = stream.shutdown().await;
}

/// The path of a request.
fn path_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// The tag or the digest that a path ends with.
fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The response, and after how many bytes of it to break off.
fn respond(head: &str, state: &mut RegistryState) -> (Vec<u8>, Option<usize>) {
    let path = path_of(head).to_owned();
    let headers: HashMap<String, String> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let range = headers.get("range").and_then(|range| range.strip_prefix("bytes="));
    let range = range.and_then(|range| range.trim_end_matches('-').parse::<usize>().ok());
    state.requests.push((path.clone(), range));
    let plain = |status: &str, more: &str| {
        (
            format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n{more}\r\n").into_bytes(),
            None,
        )
    };
    if state.authorization.is_some() && headers.get("authorization") != state.authorization.as_ref() {
        return plain("401 Unauthorized", "WWW-Authenticate: Basic realm=\"test\"\r\n");
    }
    let Some(content) = state.content.get(name_of(&path)) else { return plain("404 Not Found", "") };
    let range = range.filter(|_| !state.has_no_ranges);
    let body = content.get(range.unwrap_or_default()..).unwrap_or_default();
    let status = match range {
        Some(at) => format!(
            "206 Partial Content\r\nContent-Range: bytes {at}-{}/{}",
            content.len() - 1,
            content.len()
        ),
        None => "200 OK".to_owned(),
    };
    let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let cut = match path.contains("/blobs/") {
        true => state.breaks.pop_front_if(|count| *count < body.len()).map(|count| head.len() + count),
        false => None,
    };
    ([head.as_bytes(), body].concat(), cut)
}
