//! Provides the environment of a server that a team uses: a token issuer, a telemetry collector, policies and an audit
//! log.
//!
//! The issuer and the collector run in one separate process, so that their cost is not part of any figure.

use std::{convert::Infallible, error::Error, fs, path::Path, time::SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use mcpm::{options::Secret, proxy::Proxy};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpListener;

use super::{
    load::Outcome,
    process::{self, Started},
    servers::say,
};

const AUDIENCE: &str = "bench";

/// The layers that are enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Layers {
    Auth,
    Filter,
    Cedar,
    Audit,
    Telemetry,
    Prometheus,
    /// A login to the server itself, with a token that does not expire.
    Login,
    /// All layers except the login.
    All,
}

impl Layers {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Auth => "HTTP, mcpm, authentication",
            Self::Filter => "HTTP, mcpm, tool filter",
            Self::Cedar => "HTTP, mcpm, Cedar",
            Self::Audit => "HTTP, mcpm, audit log",
            Self::Telemetry => "HTTP, mcpm, telemetry at 0.1",
            Self::Prometheus => "HTTP, mcpm, Prometheus alone",
            Self::Login => "HTTP, mcpm, login to the server",
            Self::All => "HTTP, mcpm, all of them",
        }
    }

    fn has(self, other: Self) -> bool {
        self == other || self == Self::All && other != Self::Login
    }
}

/// The configuration of a proxy for a team.
#[derive(Serialize, Deserialize)]
struct Told {
    layers: Layers,
    target: String,
    team: String,
    policies: String,
    audit: String,
}

/// The issuer and the collector.
pub(super) struct Team {
    process: Started,
    token: String,
}

impl Team {
    pub(super) fn start(own: &Path, folder: &Path) -> Outcome<Self> {
        let random = SystemRandom::new();
        let secret = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
            .map_err(|_| "no key could be made")?;
        let key = key(secret.as_ref())?;
        let public = key.public_key().as_ref();
        let part = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        // An uncompressed point (SEC 1 section 2.3.3).
        let (x, y) = (part(&public[1..33]), part(&public[33..]));
        let keys = json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "1", "x": x, "y": y },
        ] });
        let process = process::role(&[], own, "team", &keys.to_string())?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let claims = json!({
            "iss": format!("http://127.0.0.1:{}", process.port), "sub": "248289761001", "aud": AUDIENCE,
            "iat": now, "exp": now + 3600, "scope": "openid profile", "groups": ["staff", "readers"],
            "client_id": "bench", "email": "alice@example.com", "name": "Alice",
        });
        let header = part(br#"{"alg":"ES256","typ":"at+jwt","kid":"1"}"#);
        let message = format!("{header}.{}", part(claims.to_string().as_bytes()));
        let signature = key.sign(&random, message.as_bytes()).map_err(|_| "nothing could be signed")?;
        let token = format!("{message}.{}", part(signature.as_ref()));
        // In the form of the reference; the second policy never applies to a request, like most policies of a team.
        let policies = json!({ "version": "1.0", "type": "cedarv1", "cedar": { "policies": [
            "permit(principal, action == Action::\"call_tool\", resource == Tool::\"echo\");",
            "permit(principal in McpmGroup::\"staff\", action == Action::\"read_resource\", resource);",
            "forbid(principal, action == Action::\"call_tool\", resource == Tool::\"order\")
             when { context.arg_amount > 100 };",
        ] } });
        fs::write(folder.join("policies.json"), policies.to_string())?;
        Ok(Self { process, token })
    }

    /// Returns the token that clients need, if any.
    pub(super) fn token(&self, layers: Layers) -> Option<&str> {
        layers.has(Layers::Auth).then_some(&self.token)
    }

    /// Returns the argument of the role `team-proxy`.
    pub(super) fn argument(&self, layers: Layers, target: &str, folder: &Path) -> Outcome<String> {
        let audit = folder.join("audit.json");
        let log = folder.join("audit.jsonl");
        fs::write(&audit, json!({ "logFile": log }).to_string())?;
        Ok(serde_json::to_string(&Told {
            layers,
            target: target.to_owned(),
            team: format!("http://127.0.0.1:{}", self.process.port),
            policies: folder.join("policies.json").display().to_string(),
            audit: audit.display().to_string(),
        })?)
    }
}

fn key(secret: &[u8]) -> Outcome<EcdsaKeyPair> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, secret, &SystemRandom::new())
        .map_err(|_| "the key cannot be read".into())
}

/// Starts the proxy with this configuration.
pub(super) fn proxy(argument: &str) -> Result<Proxy, Box<dyn Error>> {
    let told: Told = serde_json::from_str(argument)?;
    let mut proxy = Proxy::builder("bench", &told.target);
    if told.layers.has(Layers::Auth) {
        proxy = proxy
            .oidc_issuer(&told.team)
            .oidc_audience(AUDIENCE)
            .oidc_insecure_allow_http(true)
            .jwks_allow_private_ip(true);
    }
    if told.layers.has(Layers::Filter) {
        proxy = proxy.tools("echo").tools("read_*");
    }
    if told.layers.has(Layers::Cedar) {
        proxy = proxy.authz_config(told.policies);
    }
    if told.layers.has(Layers::Audit) {
        proxy = proxy.audit_config(told.audit);
    }
    if told.layers.has(Layers::Telemetry) {
        proxy = proxy.otel_endpoint(&told.team).otel_insecure(true).otel_sampling_rate(0.1);
    }
    if told.layers.has(Layers::Prometheus) {
        proxy = proxy.otel_enable_prometheus_metrics_path(true);
    }
    if told.layers.has(Layers::Login) {
        let client = proxy.remote_auth_issuer(told.team).remote_auth_client_id("bench");
        proxy = client.remote_auth_client_secret(Secret::from("hush"));
    }
    Ok(proxy.build()?)
}

/// Serves the metadata and the keys of the issuer, and accepts exports to the collector.
pub(super) async fn serve(keys: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let issuer = format!("http://127.0.0.1:{port}");
    let metadata = json!({
        "issuer": issuer, "jwks_uri": format!("{issuer}/keys"), "token_endpoint": format!("{issuer}/token"),
        "grant_types_supported": ["client_credentials"],
    })
    .to_string();
    let token =
        json!({ "access_token": "x".repeat(900), "token_type": "Bearer", "expires_in": 86400 }).to_string();
    say(port)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (keys, metadata, token) = (keys.to_owned(), metadata.clone(), token.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let document = match request.uri().path() {
                "/.well-known/openid-configuration" | "/.well-known/oauth-authorization-server" => {
                    Some(metadata.clone())
                }
                "/token" => Some(token.clone()),
                "/keys" => Some(keys.clone()),
                "/v1/traces" | "/v1/metrics" => Some(String::new()),
                _ => None,
            };
            async move {
                let _ = request.into_body().collect().await;
                let mut response =
                    Response::new(Full::new(Bytes::from(document.clone().unwrap_or_default())));
                if document.is_none() {
                    *response.status_mut() = StatusCode::NOT_FOUND;
                }
                Ok::<_, Infallible>(response)
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}
