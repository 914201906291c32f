//! Tests stored logins if the user types the password of the secret store, or if the store cannot be written.

use std::sync::Arc;

use mcpm_tests::{
    harness::{http::Http, with_timeout},
    root,
};
use tokio::runtime::Handle;
use url::Url;

use crate::{
    outgoing::{issuer, list},
    outgoing_commands::login_state,
    support::{Home, PseudoTerminal, wait_until},
};

/// A user with a browser, for servers that approve every login.
fn home() -> Home {
    let home = Home::without_engine();
    home.set("BROWSER", root().join("tests/clients/follow_redirects").to_str().unwrap());
    home
}

/// The status of a request to a workload.
fn call(home: &Home, name: &str) -> u16 {
    let url = home.status(name)["url"].as_str().unwrap().to_owned();
    let address = Url::parse(&url).unwrap().socket_addrs(|| None).unwrap()[0];
    Handle::current().block_on(list(Http(address))).status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_typed_once_and_keeps_what_the_supervisor_renews() {
    let (url, issuer) = issuer(|_| {}).await;
    let issuer = Arc::clone(&issuer);
    let home = home();
    let session = tokio::task::spawn_blocking(move || {
        let name = home.name("far");
        let program = home.program();
        let line = format!("{program} run {url} --name {name} --remote-auth-callback-port 0");
        let mut typing = PseudoTerminal::spawn(home.command("script"), &line);
        typing.expect_then_type("New password", "hush\r");
        typing.expect_then_type("Repeat", "hush\r");
        let (code, shown) = typing.wait();
        assert_eq!(code, Some(0), "{shown}");
        assert_eq!(shown.matches("assword").count(), 2, "{shown}");

        // The supervisor renews the token twice: each renewal needs the refresh token of the previous one.
        for _ in 0..2 {
            issuer.lock().unwrap().valid = None;
            assert_eq!(call(&home, &name), 200);
        }
        let mut typing = PseudoTerminal::spawn(home.command("script"), &format!("{program} restart {name}"));
        typing.expect_then_type("Password", "hush\r");
        let (code, shown) = typing.wait();
        assert_eq!(code, Some(0), "{shown}");
        issuer.lock().unwrap().valid = None;
        assert_eq!(call(&home, &name), 200);
        let issuer = issuer.lock().unwrap();
        assert_eq!((issuer.issued, issuer.refreshes), (4, 3), "no second login");
        drop(issuer);
        home.set("MCPM_SECRETS_PASSWORD", "hush");
        home.run(&["rm", &name]).succeeded();
        home.assert_nothing_left();
    });
    with_timeout("the session", session).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_cannot_be_kept_is_handed_over_by_a_restart() {
    let (url, issuer) = issuer(|_| {}).await;
    let issuer = Arc::clone(&issuer);
    let home = home();
    home.set("MCPM_SECRETS_PROVIDER", "environment");
    let session = tokio::task::spawn_blocking(move || {
        let name = home.name("far");
        home.run(&["run", &url, "--name", &name, "--remote-auth-callback-port", "0"]).succeeded();
        assert_eq!(call(&home, &name), 200);
        issuer.lock().unwrap().valid = None;
        issuer.lock().unwrap().rejects = true;
        assert_eq!(call(&home, &name), 503);
        wait_until("the login to end", || login_state(&home, &name) == "needs_login");
        issuer.lock().unwrap().rejects = false;
        let login = home.run(&["login", &name]);
        assert_ne!(login.code, Some(0));
        assert!(
            login.stderr.contains("was not stored") && login.stderr.contains("mcpm restart"),
            "{}",
            login.stderr
        );
        home.run(&["restart", &name]).succeeded();
        assert_eq!(call(&home, &name), 200);
        home.run(&["rm", &name]).succeeded();
        home.assert_nothing_left();
    });
    with_timeout("the session", session).await.unwrap();
}
