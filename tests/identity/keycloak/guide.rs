//! Runs the commands in `docs/guides/protecting-a-server.md` as they are written, and checks their described effects.

use std::{fs, net::SocketAddr};

use mcpm_tests::{harness::testbed, root};
use serde_json::{Value, json};

use super::{ADMIN, Keycloak, Realm, status_and_reason};
use crate::{
    login::log_in_with_mcp_remote,
    protected_server::ProtectedServer,
    support::{Home, Program},
};

/// Records the programs that the guide would start, so that the test can start them.
const MCPM: &str = r#"
count=0
mcpm() {
  count=$((count + 1))
  printf '%s\n' "$@" >"arguments-$count"
  { env | grep ^MCPM_ || true; } >"environment-$count"
}
"#;

/// The commands below a heading.
fn commands(heading: &str) -> String {
    let guide = fs::read_to_string(root().join("docs/guides/protecting-a-server.md")).unwrap();
    let (_, section) = guide.split_once(&format!("\n{heading}\n")).unwrap();
    let section = section.split("\n#").next().unwrap();
    let blocks = section.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).map(|line| line.strip_prefix("$ ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// The user who follows the guide.
struct GuideRunner<'a> {
    home: Home,
    keycloak: &'a Keycloak,
}

impl GuideRunner<'_> {
    /// Runs the commands below some headings, for a server at `target`, and returns the proxies that they start.
    fn follow(&self, headings: &[&str], target: &str) -> Vec<(Program, SocketAddr)> {
        let text = headings.iter().map(|heading| commands(heading)).collect::<Vec<_>>().join("\n");
        let text = text
            .replace("https://notes.example/mcp", target)
            .replace("https://id.example", &self.keycloak.url);
        let path = std::env::var("PATH").unwrap();
        let tools = testbed::path("MCPM_TEST_KEYCLOAK").join("bin");
        let mut bash = self.home.command("bash");
        bash.env("PATH", format!("{}:{path}", tools.display())).env("KC_CLI_PASSWORD", ADMIN);
        let output = bash.args(["-euo", "pipefail", "-c", &format!("{MCPM}\n{text}")]).output().unwrap();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        let count = text.matches("mcpm proxy").count();
        assert!(count > 0, "{text}");
        (1..=count).map(|number| self.start(number)).collect()
    }

    fn start(&self, number: usize) -> (Program, SocketAddr) {
        let kept = |what: &str| fs::read_to_string(self.home.path(&format!("{what}-{number}"))).unwrap();
        let (arguments, environment) = (kept("arguments"), kept("environment"));
        let mut command = self.home.mcpm(&arguments.lines().collect::<Vec<_>>());
        command.envs(environment.lines().filter_map(|line| line.split_once('=')));
        // In the guide, Keycloak has a public address.
        let mut program = Program::start(command.arg("--jwks-allow-private-ip"));
        let line = program.read_line();
        let address = line.rsplit("http://").next().unwrap().trim_end_matches("/mcp");
        (program, address.parse().unwrap())
    }
}

/// A realm as the guide expects it.
async fn realm(keycloak: &Keycloak) -> Realm<'_> {
    // The realm of the previous section.
    keycloak.administer("DELETE", "/admin/realms/team", json!({})).await;
    let client =
        |name: &str| json!({ "clientId": name, "publicClient": true, "directAccessGrantsEnabled": true });
    let clients = [client("desktop"), client("elsewhere")];
    let realm = json!({ "realm": "team", "enabled": true, "clients": clients });
    assert_eq!(keycloak.administer("POST", "/admin/realms", realm).await.status, 201);
    let ann = json!({
        "username": "ann", "firstName": "Ann", "lastName": "Lee", "email": "ann@team.example", "enabled": true,
        "credentials": [{ "type": "password", "value": "ann-password" }],
    });
    assert_eq!(keycloak.administer("POST", "/admin/realms/team/users", ann).await.status, 201);
    Realm { keycloak, name: "team" }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: Keycloak takes a minute to start"]
async fn the_guide_protects_a_server_with_keycloak() {
    let keycloak = Keycloak::start().await;
    let team = realm(&keycloak).await;
    let server = ProtectedServer::start(|proxy| proxy.jwks_allow_private_ip(false)).await;
    let reader = GuideRunner { home: Home::without_engine(), keycloak: &keycloak };
    let started = reader.follow(&["## Keycloak", "### Logging out"], server.proxy.url());
    let [(_signed, signed), (_asks, asks)] = &started[..] else { panic!("{}", started.len()) };
    let token = team.token("desktop", "ann").await;
    let elsewhere = team.token("elsewhere", "ann").await;
    for (at, reason) in [(signed, "auth.wrong_audience"), (asks, "auth.token_inactive")] {
        assert_eq!(status_and_reason(*at, &token).await, (200, Value::Null));
        assert_eq!(status_and_reason(*at, &elsewhere).await, (401, json!(reason)));
    }
    let late = team.token("desktop", "ann").await;
    let path = format!("users/{}/logout", team.user("ann").await);
    assert_eq!(team.administer("POST", &path, json!({})).await.status, 204);
    assert_eq!(status_and_reason(*asks, &late).await, (401, json!("auth.token_inactive")));
    let tools = log_in_with_mcp_remote(&format!("http://{signed}/mcp")).await;
    assert!(tools.iter().any(|tool| tool["name"] == "test_simple_text"), "{tools:?}");

    let team = realm(&keycloak).await;
    let issuer = team.issuer();
    let server = ProtectedServer::start(|proxy| proxy.oidc_issuer(issuer).oidc_audience("notes")).await;
    let started = reader.follow(&["### With Keycloak"], server.proxy.url());
    let [(_front, front)] = &started[..] else { panic!("{}", started.len()) };
    let token = team.token("desktop", "ann").await;
    assert_eq!(
        status_and_reason(server.proxy.address().unwrap(), &token).await,
        (401, json!("auth.wrong_audience"))
    );
    assert_eq!(status_and_reason(*front, &token).await, (200, Value::Null));
}
