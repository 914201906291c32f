//! Tests the logins of detached workloads and of `mcpm proxy stdio`.

use std::{process::Stdio, sync::Arc};

use mcpm_tests::{
    harness::{
        http::Http,
        mcp::{LEGACY, initialize, request},
        with_timeout,
    },
    root,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};
use url::Url;

use crate::{
    outgoing::{Issuer, issuer, list},
    support::{Home, Program, wait_until},
};

/// The state of the login of a workload.
pub(crate) fn login_state(home: &Home, name: &str) -> Value {
    home.status(name)["login"].clone()
}

/// A detached workload cannot prompt: its status shows the state of its login, and `mcpm login` makes a new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_detached_workload_shows_its_login_and_takes_a_new_one() {
    let (url, issuer) = issuer(|_| {}).await;
    let state = Arc::clone(&issuer);
    let set = move |change: fn(&mut Issuer)| change(&mut state.lock().unwrap());
    let home = Home::without_engine();
    home.set("MCPM_SECRETS_PASSWORD", "a password");
    home.set("BROWSER", root().join("tests/clients/follow_redirects").to_str().unwrap());
    let session = tokio::task::spawn_blocking(move || {
        let name = home.name("far");
        let run = ["run", &url, "--name", &name, "--remote-auth-callback-port", "0"];
        let started = home.run(&run).succeeded();
        let http = Http(Url::parse(&started.url()).unwrap().socket_addrs(|| None).unwrap()[0]);
        let runtime = tokio::runtime::Handle::current();
        let call = || {
            let response = runtime.block_on(list(http));
            let status = response.status;
            let answer = runtime.block_on(response.json());
            (status, answer["error"]["data"]["reason"].as_str().map(str::to_owned))
        };
        let login_required = (503, Some("outgoing.login_required".to_owned()));
        let wait_for = |expected: &str| {
            wait_until(expected, || login_state(&home, &name) == expected);
        };
        assert_eq!(call(), (200, None));
        wait_for("authenticated");

        // The login becomes invalid, and a new one is made.
        set(|issuer| (issuer.valid, issuer.rejects) = (None, true));
        assert_eq!(call(), login_required);
        wait_for("needs_login");
        let shown = home.run(&["list"]).succeeded().stdout;
        assert!(shown.contains("running (needs login)"), "{shown}");
        set(|issuer| issuer.rejects = false);
        home.run(&["login", &name]).succeeded();
        wait_for("authenticated");
        assert_eq!(call(), (200, None));

        // The server requires a scope that the login lacks, and the next login requests it.
        set(|issuer| issuer.scope = Some("extra"));
        assert_eq!(call(), login_required);
        wait_for("needs_login");
        // The authorization server does not know that scope. So this login fails, and the next one does not request the
        // scope.
        set(|issuer| issuer.unknown_scope = Some("extra"));
        let denied = home.run(&["login", &name]);
        assert_ne!(denied.code, Some(0));
        assert!(denied.stderr.contains("outgoing.scope_denied"), "{}", denied.stderr);
        set(|issuer| issuer.unknown_scope = None);
        home.run(&["login", &name]).succeeded();
        wait_for("authenticated");
        assert_eq!(call(), login_required);
        wait_for("needs_login");
        home.run(&["login", &name]).succeeded();
        wait_for("authenticated");
        assert_eq!(call(), (200, None));

        // After a logout, the supervisor must not get a new token from anything that it has in memory.
        let refreshes = issuer.lock().unwrap().refreshes;
        home.run(&["logout", &name]).succeeded();
        wait_for("needs_login");
        set(|issuer| issuer.scope = None);
        assert_eq!(call(), login_required);
        assert_eq!(issuer.lock().unwrap().refreshes, refreshes);
        home.run(&["login", &name]).succeeded();
        wait_for("authenticated");

        // A workload whose server is unreachable at its start gets the stored login later.
        home.run(&["stop", &name]).succeeded();
        set(|issuer| issuer.is_down = true);
        home.run(&["start", &name]).succeeded();
        set(|issuer| issuer.is_down = false);
        let started = home.run(&["status", &name, "-o", "json"]).succeeded().json();
        let http =
            Http(Url::parse(started["url"].as_str().unwrap()).unwrap().socket_addrs(|| None).unwrap()[0]);
        let response = runtime.block_on(list(http));
        let (status, answer) = (response.status, runtime.block_on(response.json()));
        assert_eq!(status, 200, "{answer}");

        // Removing a workload removes its tokens, too.
        assert!(home.run(&["secret", "list"]).succeeded().stdout.contains("login:"));
        home.run(&["rm", &name]).succeeded();
        assert!(!home.run(&["secret", "list"]).succeeded().stdout.contains("login:"));
        home.assert_nothing_left();
    });
    session.await.unwrap();
}

/// `mcpm proxy stdio` for a client that sends one message after the other.
struct Bridge {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Bridge {
    fn start(home: &Home, url: &str) -> Self {
        let mut command = Command::from(home.mcpm(&[
            "proxy",
            "stdio",
            url,
            "--remote-auth",
            "--remote-auth-callback-port",
            "0",
        ]));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output).lines() }
    }

    async fn call(&mut self, message: Value) -> Value {
        let line = format!("{message}\n");
        with_timeout("the bridge to read", self.input.write_all(line.as_bytes())).await.unwrap();
        let line = with_timeout("a response", self.output.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap()).unwrap()
    }

    /// Closes the input, and returns the text on standard error.
    async fn finish(mut self) -> String {
        drop(self.input);
        let rest = with_timeout("the end of the output", self.output.next_line()).await.unwrap();
        assert_eq!(rest, None, "standard output has messages only");
        let output = with_timeout("the bridge to exit", self.child.wait_with_output()).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A user with a browser, for servers that approve every login.
fn home_with_browser() -> Home {
    let home = Home::without_engine();
    home.set("BROWSER", root().join("tests/clients/follow_redirects").to_str().unwrap());
    home.set("MCPM_SECRETS_PASSWORD", "a password");
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stdio_bridge_logs_in_and_another_has_its_login() {
    let (url, issuer) = issuer(|_| {}).await;
    let tokens = || {
        let issuer = issuer.lock().unwrap();
        (issuer.issued, issuer.refreshes)
    };
    let home = home_with_browser();
    let mut bridge = Bridge::start(&home, &url);
    let opened = bridge.call(initialize(LEGACY, json!({}))).await;
    assert_eq!(opened["result"]["protocolVersion"], LEGACY, "{opened}");
    assert!(bridge.call(request(1, "tools/list", json!({}))).await["result"]["tools"].is_array());
    // The server rejects the token, and it is renewed.
    issuer.lock().unwrap().valid = None;
    assert!(bridge.call(request(1, "tools/list", json!({}))).await["result"]["tools"].is_array());
    assert_eq!(tokens(), (2, 1));
    // Closing the session is not a reason for a login.
    issuer.lock().unwrap().valid = None;
    let shown = bridge.finish().await;
    assert!(shown.contains("Log in to"), "{shown}");
    assert_eq!(tokens(), (2, 1));
    issuer.lock().unwrap().valid = Some(2);
    let mut bridge = Bridge::start(&home, &url);
    assert!(bridge.call(request(1, "tools/list", json!({}))).await["result"]["tools"].is_array());
    let shown = bridge.finish().await;
    assert!(!shown.contains("Log in to"), "{shown}");
    assert_eq!(tokens(), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_stdio_bridge_while_its_user_logs_in() {
    let (url, _issuer) = issuer(|_| {}).await;
    let home = home_with_browser();
    let login = ["--remote-auth", "--remote-auth-callback-port", "0", "--remote-auth-skip-browser"];
    let target = ["proxy", "stdio", url.as_str(), "--remote-auth-timeout", "1h"];
    let args = [&target[..], &login].concat();
    let mut command = home.mcpm(&args);
    let outcome = tokio::task::spawn_blocking(move || {
        let mut bridge = Program::start(&mut command);
        bridge.wait_for_stderr("Log in to");
        bridge.signal("TERM");
        bridge.wait()
    });
    let outcome = outcome.await.unwrap();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{outcome:?}");
}
