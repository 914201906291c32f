//! Starts Keycloak in a separate process with a separate database for each test. Keycloak takes long to start, so only
//! nightly runs use it.

mod exchange;
mod guide;
mod tls;
mod tokens;

use std::{net::SocketAddr, os::unix::fs::symlink, path::Path, process::Stdio, time::Duration};

use mcpm_tests::harness::{
    http::{Http, Response},
    mcp::Modern,
    testbed,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// Maximum time for its start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// The Java options that Keycloak's own script sets.
const JAVA_OPENED_PACKAGES: [&str; 4] = ["java.util", "java.util.concurrent", "java.security", "java.lang"];
/// The administrator.
const ADMIN: &str = "admin";

/// The process of the provider.
struct Keycloak {
    http: Http,
    url: String,
    process: Child,
    _home: tempfile::TempDir,
}

impl Keycloak {
    /// Starts Keycloak over plain HTTP.
    async fn start() -> Self {
        let (keycloak, _) = Self::start_with(&[]).await;
        keycloak
    }

    /// Starts Keycloak with additional options, and returns the address that it logs, too.
    async fn start_with(options: &[String]) -> (Self, String) {
        let installed = testbed::path("MCPM_TEST_KEYCLOAK");
        let home = tempfile::tempdir().unwrap();
        for part in ["lib", "conf", "providers", "themes"] {
            symlink(installed.join(part), home.path().join(part)).unwrap();
        }
        // Keycloak is not started with its script, because killing the script would not end the server.
        let mut process = java(home.path())
            .args(["start", "--optimized", "--cache=local", "--http-enabled=true", "--http-host=127.0.0.1"])
            .args(["--http-port=0", "--hostname-strict=false"])
            .args(options)
            .env("KC_BOOTSTRAP_ADMIN_USERNAME", ADMIN)
            .env("KC_BOOTSTRAP_ADMIN_PASSWORD", ADMIN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = async {
            let mut all = String::new();
            while let Some(line) = lines.next_line().await.unwrap() {
                if let Some((_, places)) = line.split_once("Listening on: ") {
                    return places.to_owned();
                }
                all += &(line + "\n");
            }
            panic!("Keycloak ended:\n{all}")
        };
        let places = tokio::time::timeout(START_TIMEOUT, said).await.unwrap();
        // The rest of its output must not fill the pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let url = places.split(' ').find(|place| place.starts_with("http://")).unwrap().to_owned();
        let http = Http(url.strip_prefix("http://").unwrap().parse().unwrap());
        (Self { http, url, process, _home: home }, places)
    }

    /// Creates a realm as described in `realm.json`.
    async fn realm(&self, name: &'static str) -> Realm<'_> {
        let mut realm: Value = serde_json::from_str(include_str!("realm.json")).unwrap();
        realm["realm"] = name.into();
        assert_eq!(self.administer("POST", "/admin/realms", realm).await.status, 201);
        Realm { keycloak: self, name }
    }

    /// Sends a request as the administrator.
    async fn administer(&self, method: &str, path: &str, body: Value) -> Response {
        let form = format!("grant_type=password&client_id=admin-cli&username={ADMIN}&password={ADMIN}");
        let given = self.form("/realms/master/protocol/openid-connect/token", &form).await.json().await;
        let bearer = format!("Bearer {}", given["access_token"].as_str().unwrap());
        let request = self.http.request(method, path).header("Authorization", &bearer);
        let request = request.header("Content-Type", "application/json").body(body.to_string());
        request.send().await
    }

    async fn form(&self, path: &str, form: &str) -> Response {
        let request = self.http.request("POST", path).body(form);
        request.header("Content-Type", "application/x-www-form-urlencoded").send().await
    }

    /// Ends Keycloak, and waits until it has exited.
    async fn end(&mut self) {
        self.process.kill().await.unwrap();
    }
}

/// The Java command that runs Keycloak.
fn java(home: &Path) -> Command {
    let mut java = Command::new("java");
    let property = |name: &str, path: &Path| format!("-D{name}={}", path.display());
    java.args(["-Xms64m", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        .args(JAVA_OPENED_PACKAGES.map(|package| format!("--add-opens=java.base/{package}=ALL-UNNAMED")))
        .arg(property("kc.home.dir", home))
        .arg(property("jboss.server.config.dir", &home.join("conf")))
        .arg("-Djava.util.logging.manager=org.jboss.logmanager.LogManager")
        .arg("-cp")
        .arg(home.join("lib/quarkus-run.jar"))
        .arg("io.quarkus.bootstrap.runner.QuarkusEntryPoint");
    java
}

/// A proxy's response to a caller with a token: the status, and the reason of a denial.
async fn status_and_reason(proxy: SocketAddr, token: &str) -> (u16, Value) {
    let list = Modern(Http(proxy)).prepare(1, "tools/list", json!({}));
    let response = list.header("Authorization", &format!("Bearer {token}")).send().await;
    (response.status, response.answer().await["error"]["data"]["reason"].clone())
}

/// A realm of the provider.
struct Realm<'a> {
    keycloak: &'a Keycloak,
    name: &'static str,
}

impl Realm<'_> {
    fn issuer(&self) -> String {
        format!("{}/realms/{}", self.keycloak.url, self.name)
    }

    fn endpoint(&self, name: &str) -> String {
        format!("{}/protocol/openid-connect/{name}", self.issuer())
    }

    /// Returns the access token of a user who has logged in with a client.
    async fn token(&self, client: &str, user: &str) -> String {
        let form = format!(
            "grant_type=password&scope=openid&client_id={client}&username={user}&password={user}-password"
        );
        let path = format!("/realms/{}/protocol/openid-connect/token", self.name);
        let given = self.keycloak.form(&path, &form).await.json().await;
        given["access_token"].as_str().unwrap_or_else(|| panic!("{given}")).to_owned()
    }

    async fn administer(&self, method: &str, path: &str, body: Value) -> Response {
        self.keycloak.administer(method, &format!("/admin/realms/{}/{path}", self.name), body).await
    }

    /// Returns Keycloak's id of a user.
    async fn user(&self, name: &str) -> String {
        let found = self.administer("GET", &format!("users?exact=true&username={name}"), json!({})).await;
        found.json().await[0]["id"].as_str().unwrap().to_owned()
    }
}
