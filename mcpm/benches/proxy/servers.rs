//! Runs the servers and the mcpm proxies of the benchmark. Each of them is this program, started again with a role.

use std::{
    convert::Infallible,
    error::Error,
    io::{BufRead as _, Write as _},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{self, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use mcpm::{
    proxy::{Proxy, StdioProxy},
    stdio::LocalProcess,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

use super::{embedded, team};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Plays a role until it is killed. HTTP servers print their port on the first line of their output.
pub(super) fn play(role: &str, argument: &str) -> Result<(), Box<dyn Error>> {
    if role == "stdio-server" {
        return serve_stdio();
    }
    // One thread, as in the supervisor of a workload.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match role {
            "http-server" => serve_http().await,
            "http-proxy" => {
                let proxy = Proxy::builder("bench", argument).build()?.start().await?;
                say(proxy.address().ok_or("it has no port")?.port())?;
                proxy.wait().await;
                Ok(())
            }
            "stdio-proxy" => {
                let server = LocalProcess::new(std::env::current_exe()?, ["--role", "stdio-server", ""]);
                let running = StdioProxy::new("bench", server).start(|_| ()).await?;
                say(running.proxy().address().ok_or("it has no port")?.port())?;
                running.proxy().wait().await;
                running.stop(Duration::from_secs(1)).await;
                Ok(())
            }
            "embedded" => embedded::play(argument).await.map_err(|error| error.to_string().into()),
            "team" => team::serve(argument).await,
            "team-proxy" => {
                let proxy = team::proxy(argument)?.start().await?;
                say(proxy.address().ok_or("it has no port")?.port())?;
                proxy.wait().await;
                Ok(())
            }
            _ => Err(format!("no role `{role}`").into()),
        }
    })
}

pub(super) fn say(port: u16) -> std::io::Result<()> {
    print(port)
}

pub(super) fn print(figure: impl std::fmt::Display) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{figure}")?;
    out.flush()
}

#[derive(Deserialize)]
struct Message<'a> {
    method: &'a str,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: &'a RawValue,
}

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#;

/// Returns the response to a message; `None` if it needs none.
fn answer(message: &[u8]) -> Option<String> {
    let message: Message<'_> = serde_json::from_slice(message).ok()?;
    let id = message.id?.get();
    let text = message.params.and_then(|params| params.arguments).map(|arguments| arguments.text.get());
    Some(match (message.method, text) {
        ("initialize", _) => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{INITIALIZED}}}"#),
        ("tools/call", Some(text)) => format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{text}}}],"isError":false}}}}"#
        ),
        _ => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#),
    })
}

/// Responds to lines with lines, and writes the responses to all lines that arrived together at once.
fn serve_stdio() -> Result<(), Box<dyn Error>> {
    let mut lines = std::io::BufReader::with_capacity(64 << 10, std::io::stdin());
    let mut out = std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        if let Some(answer) = answer(&line) {
            out.write_all(answer.as_bytes())?;
            out.write_all(b"\n")?;
        }
        line.clear();
        if lines.buffer().is_empty() {
            out.flush()?;
        }
    }
    Ok(())
}

async fn serve_http() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(listener.local_addr()?.port())?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(respond)));
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let session = request.headers().get(SESSION).cloned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut response = Response::new(Full::default());
    match answer(&body) {
        Some(answer) => {
            *response.body_mut() = Full::new(answer.into());
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(SESSION, session.unwrap_or_else(|| HeaderValue::from_static("0123456789abcdef")));
        }
        None => *response.status_mut() = StatusCode::ACCEPTED,
    }
    Ok(response)
}
