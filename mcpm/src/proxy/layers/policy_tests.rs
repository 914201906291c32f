//! A server that responds immediately, for tests of layers that read messages.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use serde_json::{Value, json};

use super::parse::Parse;
use crate::{
    explain::DenialLog,
    mcp::message::{Message, MessageKind},
    proxy::{
        body::Body,
        layer::{Endpoint, Layer, Next, ResponseFuture},
        messages::RequestMessages,
        respond::{self, EVENT_STREAM, Request, Response},
    },
};

/// The server's result for a message.
type Results = Box<dyn Fn(&Message) -> Option<String> + Send + Sync>;

/// Responds to each request with a result, as JSON or SSE, and records requests.
pub(super) struct Server {
    results: Results,
    events: bool,
    pub(super) got: Mutex<Vec<(String, HeaderMap)>>,
}

impl Server {
    pub(super) fn new(
        events: bool,
        results: impl Fn(&Message) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self { results: Box::new(results), events, got: Mutex::default() }
    }

    /// The received methods, except those that are always the same.
    pub(super) fn methods(&self) -> Vec<String> {
        let got = self.got.lock().expect("a lock");
        got.iter().map(|(body, _)| body.clone()).collect()
    }
}

impl Endpoint for Server {
    fn handle(&self, request: Request) -> ResponseFuture<'_> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect(crate::memory::Account::new).await.expect("a body");
            let text = String::from_utf8(body.to_vec()).expect("text");
            self.got.lock().expect("a lock").push((text, parts.headers.clone()));
            if body.is_empty() {
                return respond::empty(StatusCode::ACCEPTED);
            }
            let asked = RequestMessages::read(&parts.headers, body).expect("messages");
            let answers = asked.messages().iter().filter(|one| one.kind() == MessageKind::Request);
            let answers: Vec<String> = answers
                .map(|one| {
                    let id = String::from_utf8_lossy(one.id_text()).into_owned();
                    let result = (self.results)(one).unwrap_or_else(|| "{}".to_owned());
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
                })
                .collect();
            let text = if asked.is_batch() { format!("[{}]", answers.join(",")) } else { answers.concat() };
            match text.as_str() {
                "" => respond::empty(StatusCode::ACCEPTED),
                _ if self.events => {
                    let text = format!("id: 7\nevent: message\ndata: {}\n\n", text.replace('\n', " "));
                    let mut response = respond::json(StatusCode::OK, text.into());
                    response.headers_mut().insert(header::CONTENT_TYPE, EVENT_STREAM);
                    response
                }
                _ => respond::json(StatusCode::OK, text.into()),
            }
        })
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// A request with this body from a streamable HTTP client.
pub(super) fn post(body: &str) -> Request {
    let mut request = Request::new(Body::from(Bytes::copy_from_slice(body.as_bytes())));
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.insert(header::ACCEPT, "application/json, text/event-stream".parse().expect("a header value"));
    headers.insert(header::CONTENT_LENGTH, body.len().into());
    request
}

/// A request of the stateless era.
pub(super) fn modern(method: &str, mut params: Value) -> Request {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().or(params["uri"].as_str()).map(str::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = post(&body.to_string());
    let headers = request.headers_mut();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().expect("a header value"));
    headers.insert("mcp-method", method.parse().expect("a header value"));
    if let Some(name) = name {
        // Header values have no spaces at their ends.
        let name = if name.trim() == name { name } else { format!("=?base64?{}?=", STANDARD.encode(name)) };
        headers.insert("mcp-name", name.parse().expect("a header value"));
    }
    request
}

/// Runs a request through the layer.
pub(super) async fn run(layer: impl Layer + 'static, request: Request, server: &Server) -> Response {
    let recent = Arc::new(DenialLog::new("server", None));
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Parse::new(true, recent)), Box::new(layer)];
    Next::new(&layers, server).handle(request).await
}

/// The status and text of a response; of an SSE stream, the data of its only event.
pub(super) async fn read(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect(crate::memory::Account::new).await.expect("a body");
    let text = String::from_utf8(body.to_vec()).expect("text");
    let data = text.strip_prefix("id: 7\nevent: message\ndata: ").and_then(|text| text.strip_suffix("\n\n"));
    (status, data.unwrap_or(&text).to_owned())
}

/// The status and the text of a response, parsed as JSON.
pub(super) async fn json_of(response: Response) -> (u16, Value) {
    let (status, text) = read(response).await;
    (status, serde_json::from_str(&text).expect(&text))
}
