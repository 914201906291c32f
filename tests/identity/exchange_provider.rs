//! Starts an identity provider that supports token exchange: the third-party program mock-oauth2-server.

use std::{fs, process::Stdio};

use mcpm_tests::harness::{http::Http, poll, testbed};
use serde_json::Value;
use tokio::process::{Child, Command};

/// The process of the provider.
pub(crate) struct ExchangeProvider {
    pub(crate) url: String,
    http: Http,
    _process: Child,
}

impl ExchangeProvider {
    pub(crate) async fn start() -> Self {
        let jars = testbed::path("MCPM_TEST_JARS").join("*");
        let mut process = Command::new("java")
            .args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"])
            .arg(jars)
            .arg("no.nav.security.mock.oauth2.StandaloneMockOAuth2ServerKt")
            .env("SERVER_PORT", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let pid = process.id().unwrap();
        // The provider does not print its port, so the test looks it up in `/proc`.
        let port = poll::wait_for_async("the provider to listen", async || {
            assert!(process.try_wait().unwrap().is_none(), "the provider ended");
            listening(pid)
        });
        let port = port.await;
        let http = Http(([127, 0, 0, 1], port).into());
        Self { url: format!("http://127.0.0.1:{port}/team"), http, _process: process }
    }

    /// The URL of the token exchange endpoint.
    pub(crate) fn endpoint(&self) -> String {
        format!("{}/token", self.url)
    }

    /// Returns a token of a client for an audience.
    pub(crate) async fn token(&self, client: &str, audience: &str) -> String {
        let form =
            format!("grant_type=client_credentials&client_id={client}&client_secret=any&scope={audience}");
        let request = self.http.request("POST", "/team/token").body(form);
        let request = request.header("Content-Type", "application/x-www-form-urlencoded");
        let answer: Value = request.send().await.json().await;
        answer["access_token"].as_str().unwrap().to_owned()
    }
}

/// Returns the port on which a process listens.
fn listening(pid: u32) -> Option<u16> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    let sockets: Vec<String> = links
        .filter_map(|link| {
            let text = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            Some(text.to_owned())
        })
        .collect();
    ["tcp", "tcp6"].iter().find_map(|table| {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok()?;
        table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
            let is_it = *state == "0A" && sockets.iter().any(|socket| socket == inode);
            u16::from_str_radix(local.rsplit(':').next()?, 16).ok().filter(|_| is_it)
        })
    })
}
