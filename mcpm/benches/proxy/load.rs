//! Generates the load: each session calls one tool, one call after another, and checks each response.

use std::{
    error::Error,
    process::Stdio,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
    task::JoinSet,
};

pub(super) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// The condition on which a session stops calling: the first that is met.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) until: Instant,
    /// Number of calls in one session.
    pub(super) calls: u64,
}

impl Bound {
    pub(super) fn time(time: Duration) -> Self {
        Self { until: Instant::now() + time, calls: u64::MAX }
    }

    pub(super) fn calls(calls: u64) -> Self {
        Self { until: Instant::now() + Duration::from_secs(300), calls }
    }

    pub(super) fn allows(&self, made: u64) -> bool {
        made < self.calls && Instant::now() < self.until
    }
}

/// Returns the text of a call; it names the session, so that a response to another session is detected.
fn text(session: usize, call: u64) -> String {
    format!("{session:04}-{call:011}")
}

fn request(id: u64, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    )
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[derive(Deserialize)]
struct Answer<'a> {
    id: u64,
    #[serde(borrow)]
    result: Echo<'a>,
}

#[derive(Deserialize)]
struct Echo<'a> {
    #[serde(borrow)]
    content: [Content<'a>; 1],
}

#[derive(Deserialize)]
struct Content<'a> {
    text: &'a str,
}

/// Reads the id and the text of a response.
fn read(body: &[u8]) -> Outcome<(u64, &str)> {
    let answer: Answer<'_> = serde_json::from_slice(body)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(body)))?;
    Ok((answer.id, answer.result.content[0].text))
}

/// A client that makes one call at a time.
pub(super) struct Session {
    wire: Wire,
    number: usize,
    made: u64,
}

enum Wire {
    Http(Http),
    Pipe(Box<Pipe>),
}

impl Session {
    /// Connects and makes the handshake.
    pub(super) async fn open(port: u16, number: usize, token: Option<&str>) -> Outcome<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let mut head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        if let Some(token) = token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        let mut http = Http { stream, buffer: Vec::with_capacity(8192), head };
        let (session, _) = http.exchange(INITIALIZE, 200).await?;
        let id = session.ok_or("no session id")?;
        http.head += &format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        http.exchange(INITIALIZED, 202).await?;
        Ok(Self { wire: Wire::Http(http), number, made: 0 })
    }

    /// Starts a separate server.
    fn start(number: usize) -> Outcome<Self> {
        let mut server = Command::new(std::env::current_exe()?)
            .args(["--role", "stdio-server", ""])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = server.stdin.take().ok_or("no input")?;
        let output = server.stdout.take().ok_or("no output")?;
        let pipe = Pipe::new(Some(server), input, output);
        Ok(Self { wire: Wire::Pipe(Box::new(pipe)), number, made: 0 })
    }

    /// Makes the handshake over a stream.
    pub(super) async fn of_lines(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Outcome<Self> {
        let (output, input) = tokio::io::split(stream);
        let mut pipe = Pipe::new(None, input, output);
        pipe.exchange(INITIALIZE.to_owned()).await?;
        pipe.input.write_all(format!("{INITIALIZED}\n").as_bytes()).await?;
        Ok(Self { wire: Wire::Pipe(Box::new(pipe)), number: 0, made: 0 })
    }

    /// The process of a separate server.
    pub(super) fn server(&self) -> Option<u32> {
        match &self.wire {
            Wire::Http(_) => None,
            Wire::Pipe(pipe) => pipe.server.as_ref().and_then(Child::id),
        }
    }

    /// Makes one call and checks the response.
    pub(super) async fn call(&mut self) -> Outcome<()> {
        self.made += 1;
        let text = text(self.number, self.made);
        let made = self.made;
        let request = request(made, &text);
        let answer = match &mut self.wire {
            Wire::Http(http) => http.exchange(&request, 200).await?.1,
            Wire::Pipe(pipe) => pipe.exchange(request).await?,
        };
        match read(answer)? {
            (id, echoed) if id == made && echoed == text => Ok(()),
            (id, echoed) => Err(format!("call {made} with `{text}` was answered as {id} `{echoed}`").into()),
        }
    }
}

/// A connection.
struct Http {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// The head of a request, up to the length.
    head: String,
}

impl Http {
    /// Sends a body, and returns the session id and the body of the response.
    async fn exchange(&mut self, body: &str, status: u16) -> Outcome<(Option<String>, &[u8])> {
        let message = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.write_all(message.as_bytes()).await?;
        self.buffer.clear();
        let end = loop {
            if let Some(at) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                break at;
            }
            self.more().await?;
        };
        let head = std::str::from_utf8(&self.buffer[..end])?;
        if head.get(9..12).and_then(|code| code.parse().ok()) != Some(status) {
            return Err(format!("answered with `{head}`").into());
        }
        let field = |name: &str| {
            let mut fields = head.lines().filter_map(|line| line.split_once(": "));
            fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
        };
        let session = field("mcp-session-id");
        if field("transfer-encoding").is_some() {
            return Err("an answer without a length".into());
        }
        let length: usize = field("content-length").map_or(Ok(0), |length| length.parse())?;
        while self.buffer.len() < end + 4 + length {
            self.more().await?;
        }
        Ok((session, &self.buffer[end + 4..end + 4 + length]))
    }

    async fn more(&mut self) -> Outcome<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the connection ended".into()),
            _ => Ok(()),
        }
    }
}

/// A byte stream with one message per line, and the server process if the stream is its pipe.
struct Pipe {
    server: Option<Child>,
    input: Box<dyn AsyncWrite + Send + Unpin>,
    output: Box<dyn AsyncRead + Send + Unpin>,
    buffer: Vec<u8>,
}

impl Pipe {
    fn new(
        server: Option<Child>,
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
    ) -> Self {
        let (input, output) = (Box::new(input), Box::new(output));
        Self { server, input, output, buffer: Vec::with_capacity(8192) }
    }

    async fn exchange(&mut self, mut line: String) -> Outcome<&[u8]> {
        line.push('\n');
        self.input.write_all(line.as_bytes()).await?;
        self.buffer.clear();
        while self.buffer.last() != Some(&b'\n') {
            if self.output.read_buf(&mut self.buffer).await? == 0 {
                return Err("the pipe ended".into());
            }
        }
        Ok(&self.buffer)
    }
}

/// Starts this number of servers, each with a client.
pub(super) fn start(count: usize) -> Outcome<Vec<Session>> {
    (0..count).map(Session::start).collect()
}

/// Opens this number of sessions of a caller.
pub(super) async fn open(port: u16, count: usize, token: Option<&str>) -> Outcome<Vec<Session>> {
    let mut sessions = Vec::new();
    for number in 0..count {
        sessions.push(Session::open(port, number, token).await?);
    }
    Ok(sessions)
}

/// Makes calls in all sessions at once, and returns the duration of each call.
pub(super) async fn call(sessions: &mut Vec<Session>, bound: Bound) -> Outcome<Vec<Duration>> {
    let mut tasks = JoinSet::new();
    for mut session in sessions.drain(..) {
        tasks.spawn(async move {
            let mut times = Vec::new();
            while bound.allows(times.len() as u64) {
                let begin = Instant::now();
                session.call().await?;
                times.push(begin.elapsed());
            }
            Outcome::Ok((session, times))
        });
    }
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        let (session, times) = done??;
        sessions.push(session);
        all.extend(times);
    }
    Ok(all)
}
