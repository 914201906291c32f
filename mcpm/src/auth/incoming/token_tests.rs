use std::time::{Duration, SystemTime};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair as _,
    },
};
use serde_json::{Value, json};

use super::{
    Principal, TokenError,
    claims::{self, ExpectedClaims},
    jwks::JwkSet,
    jwt,
};

const ISSUER: &str = "https://id.example";
const EXPECTED: ExpectedClaims<'static> = ExpectedClaims { issuer: Some(ISSUER), id_tokens: false };
const NOW: Duration = Duration::from_secs(1_800_000_000);

enum Pair {
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
}

impl Pair {
    fn ed25519() -> Self {
        let written = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).expect("a key");
        Self::Ed25519(Ed25519KeyPair::from_pkcs8(written.as_ref()).expect("a key"))
    }

    fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> Self {
        let random = SystemRandom::new();
        let written = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
        Self::Ecdsa(EcdsaKeyPair::from_pkcs8(algorithm, written.as_ref(), &random).expect("a key"))
    }

    fn public(&self) -> &[u8] {
        match self {
            Self::Ed25519(pair) => pair.public_key().as_ref(),
            Self::Ecdsa(pair) => pair.public_key().as_ref(),
        }
    }

    fn jwk(&self, id: &str) -> Value {
        match (self, self.public()) {
            (Self::Ed25519(_), public) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": encode(public) })
            }
            (Self::Ecdsa(_), point) => {
                let (x, y) = point[1..].split_at(point.len() / 2);
                let curve = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({ "kty": "EC", "crv": curve, "kid": id, "x": encode(x), "y": encode(y), "use": "sig" })
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = match self {
            Self::Ed25519(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Self::Ecdsa(pair) => {
                let signature = pair.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
                signature.as_ref().to_vec()
            }
        };
        format!("{message}.{}", encode(&signature))
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encode(header.to_string().as_bytes()), encode(claims.to_string().as_bytes()))
}

fn good() -> Value {
    let now = NOW.as_secs();
    json!({ "iss": ISSUER, "sub": "ann", "aud": ["a", "b"], "exp": now + 60, "iat": now, "scope": "read write",
            "azp": "app", "tenant": 7 })
}

fn check(keys: &Value, token: &str) -> Result<Principal, TokenError> {
    let keys = JwkSet::read(keys.to_string().as_bytes()).expect("a set of keys");
    let signed = jwt::read(token).expect("a signed token")?;
    keys.verify(&signed)?;
    claims::principal_from_claims(signed.claims()?, token, EXPECTED, None, SystemTime::UNIX_EPOCH + NOW)
}

#[test]
fn a_token_of_the_issuer_is_taken_and_all_of_it_is_kept() {
    for (pair, algorithm) in [
        (Pair::ed25519(), "EdDSA"),
        (Pair::ed25519(), "Ed25519"),
        (Pair::ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING), "ES256"),
        (Pair::ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING), "ES384"),
    ] {
        let keys = json!({ "keys": [{ "kty": "oct", "k": "x" }, { "kty": "new" }, 7, pair.jwk("1")] });
        for header in [
            json!({ "alg": algorithm, "kid": "1", "typ": "at+jwt" }),
            json!({ "alg": algorithm, "typ": "JWT" }),
        ] {
            let principal = check(&keys, &pair.sign(&header, &good())).expect("a principal");
            assert_eq!((&principal.issuer[..], &principal.subject[..]), (ISSUER, "ann"));
            assert_eq!(
                (principal.audience, principal.scopes),
                (vec!["a".into(), "b".into()], vec!["read".to_owned(), "write".to_owned()])
            );
            assert_eq!(principal.client_id.as_deref(), Some("app"));
            assert_eq!(principal.claims["tenant"], 7);
        }
    }
}

#[test]
fn a_signature_counts_only_with_the_issuers_key_of_the_right_kind() {
    let (pair, other) = (Pair::ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING), Pair::ed25519());
    let keys = json!({ "keys": [pair.jwk("1"), other.jwk("2")] });
    let signed = |pair: &Pair, header: Value| check(&keys, &pair.sign(&header, &good())).map(drop);
    let other = Pair::ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING);
    assert_eq!(signed(&pair, json!({ "alg": "ES256", "kid": "1" })), Ok(()));
    assert_eq!(signed(&other, json!({ "alg": "ES256", "kid": "1" })), Err(TokenError::BadSignature));
    assert_eq!(signed(&other, json!({ "alg": "ES256", "kid": "3" })), Err(TokenError::UnknownKey));
    assert_eq!(signed(&other, json!({ "alg": "ES256" })), Err(TokenError::UnknownKey));
    let own = json!({ "alg": "ES256", "kid": "1", "jwk": other.jwk("1"), "jku": "https://evil.example" });
    assert_eq!(signed(&other, own), Err(TokenError::BadSignature), "a key of its own");
    // The correct key, with an algorithm that it must not be used with.
    for algorithm in ["ES384", "EdDSA", "RS256", "PS512"] {
        let header = json!({ "alg": algorithm, "kid": "1" });
        assert_eq!(signed(&pair, header), Err(TokenError::AlgorithmNotAllowed), "{algorithm}");
    }
    for algorithm in ["none", "NONE", "", "HS256", "HS512", "ES256K", "dir"] {
        let header = json!({ "alg": algorithm, "kid": "1" });
        assert_eq!(signed(&pair, header), Err(TokenError::AlgorithmNotAllowed), "{algorithm}");
    }
    for header in [
        json!({ "alg": "ES256", "kid": "1", "crit": ["b64"], "b64": false }),
        json!({ "alg": "ES256", "kid": "1", "typ": "logout+jwt" }),
    ] {
        assert_eq!(signed(&pair, header), Err(TokenError::Malformed));
    }
    for (name, value) in [("use", json!("enc")), ("key_ops", json!(["sign"])), ("alg", json!("ES384"))] {
        let mut key = pair.jwk("1");
        key[name] = value;
        let token = pair.sign(&json!({ "alg": "ES256", "kid": "1" }), &good());
        assert!(check(&json!({ "keys": [key, other.jwk("2")] }), &token).is_err(), "{name}");
    }
}

#[test]
fn unsigned_and_public_key_signed_tokens_are_rejected() {
    let pair = Pair::ed25519();
    let keys = json!({ "keys": [pair.jwk("1")] });
    let none = format!("{}.", message(&json!({ "alg": "none", "kid": "1" }), &good()));
    assert_eq!(check(&keys, &none).map(drop), Err(TokenError::AlgorithmNotAllowed));
    let text = message(&json!({ "alg": "HS256", "kid": "1" }), &good());
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, pair.public()), text.as_bytes());
    let confused = format!("{text}.{}", encode(tag.as_ref()));
    assert_eq!(check(&keys, &confused).map(drop), Err(TokenError::AlgorithmNotAllowed));
    let unsigned = format!("{}.", message(&json!({ "alg": "EdDSA", "kid": "1" }), &good()));
    assert_eq!(check(&keys, &unsigned).map(drop), Err(TokenError::BadSignature));
}

#[test]
fn claims_must_be_valid_now_and_for_this_audience() {
    let pair = Pair::ed25519();
    let keys = json!({ "keys": [pair.jwk("1")] });
    let now = NOW.as_secs();
    let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let issuer = |said: &str| Some(TokenError::WrongIssuer(Some(said.to_owned())));
    for (name, value, expected) in [
        ("exp", json!(now - 59), None),
        ("exp", json!(now - 61), Some(TokenError::Expired(Some(at(now - 61))))),
        ("exp", Value::Null, Some(TokenError::Expired(None))),
        ("exp", json!("soon"), Some(TokenError::Malformed)),
        ("exp", json!(-1), Some(TokenError::Malformed)),
        ("exp", json!(1e300), None),
        ("exp", json!(f64::from(u32::MAX) + 0.5), None),
        ("nbf", json!(now + 59), None),
        ("nbf", json!(now + 61), Some(TokenError::NotYetValid(at(now + 61)))),
        ("iat", json!(now + 61), Some(TokenError::NotYetValid(at(now + 61)))),
        ("iss", json!("https://id.example/"), issuer("https://id.example/")),
        ("iss", json!("https://ID.example"), issuer("https://ID.example")),
        ("iss", Value::Null, Some(TokenError::WrongIssuer(None))),
        ("iss", json!([ISSUER]), Some(TokenError::WrongIssuer(None))),
        ("sub", json!(""), Some(TokenError::MissingSubject)),
        ("sub", Value::Null, Some(TokenError::MissingSubject)),
    ] {
        let mut claims = good();
        claims[name] = value;
        let token = pair.sign(&json!({ "alg": "EdDSA", "kid": "1" }), &claims);
        assert_eq!(check(&keys, &token).err(), expected, "{name} {}", claims[name]);
    }
}

#[test]
fn introspection_may_omit_claims_a_jwt_must_have() {
    let now = SystemTime::UNIX_EPOCH + NOW;
    let introspected = |claims: Value| {
        let Value::Object(claims) = claims else { panic!("an object") };
        claims::principal_from_claims(claims, "opaque", EXPECTED, Some(ISSUER), now)
    };
    let principal = introspected(json!({ "client_id": "app" })).expect("a principal");
    assert_eq!((&principal.issuer[..], &principal.subject[..]), (ISSUER, "app"));
    assert!(principal.expires > now);
    assert!(matches!(
        introspected(json!({ "sub": "a", "iss": "https://other.example" })),
        Err(TokenError::WrongIssuer(_))
    ));
    assert!(matches!(
        introspected(json!({ "sub": "a", "exp": NOW.as_secs() - 61 })),
        Err(TokenError::Expired(_))
    ));
    assert!(matches!(introspected(json!({})), Err(TokenError::MissingSubject)));
    // The users of one client are different principals.
    let user = introspected(json!({ "client_id": "app", "username": "ann" })).expect("a principal");
    assert_eq!((&user.subject[..], user.client_id.as_deref()), ("ann", Some("app")));
    let both =
        introspected(json!({ "client_id": "app", "username": "ann", "sub": "7" })).expect("a principal");
    assert_eq!(both.subject, "7");
    for (kind, expected) in [
        ("Bearer", None),
        ("bearer", None),
        ("access_token", None),
        ("DPoP", Some(TokenError::SenderConstrained)),
        ("refresh_token", Some(TokenError::NotAnAccessToken)),
        ("N_A", Some(TokenError::NotAnAccessToken)),
    ] {
        assert_eq!(introspected(json!({ "sub": "a", "token_type": kind })).err(), expected, "{kind}");
    }
}

#[test]
fn only_an_access_token_lets_its_bearer_in() {
    let pair = Pair::ed25519();
    let keys = json!({ "keys": [pair.jwk("1")] });
    let (kind, bound) = (|| Some(TokenError::NotAnAccessToken), || Some(TokenError::SenderConstrained));
    for (changes, expected) in [
        (json!({ "nonce": "x" }), kind()),
        (json!({ "nonce": "x", "typ": "ID" }), kind()),
        (json!({ "nonce": "x", "typ": "Bearer" }), None),
        (json!({ "at_hash": "x", "typ": "Bearer" }), kind()),
        (json!({ "c_hash": "x" }), kind()),
        (json!({ "typ": "ID" }), kind()),
        (json!({ "typ": "Refresh" }), kind()),
        (json!({ "token_use": "id" }), kind()),
        (json!({ "token_use": "access" }), None),
        (json!({ "events": { "http://schemas.openid.net/event/backchannel-logout": {} } }), kind()),
        (json!({ "cnf": { "jkt": "x" } }), bound()),
    ] {
        let mut claims = good();
        for (name, value) in changes.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        let token = pair.sign(&json!({ "alg": "EdDSA", "kid": "1" }), &claims);
        assert_eq!(check(&keys, &token).err(), expected, "{changes}");
    }
}

#[test]
fn id_tokens_are_taken_where_they_are_exchanged_and_nothing_else_is() {
    let now = SystemTime::UNIX_EPOCH + NOW;
    let expected = ExpectedClaims { id_tokens: true, ..EXPECTED };
    for (name, value, error) in [
        ("nonce", json!("x"), None),
        ("at_hash", json!("x"), None),
        ("typ", json!("ID"), None),
        ("token_use", json!("id"), None),
        ("typ", json!("Refresh"), Some(TokenError::NotAnAccessToken)),
        (
            "events",
            json!({ "http://schemas.openid.net/event/backchannel-logout": {} }),
            Some(TokenError::NotAnAccessToken),
        ),
        ("cnf", json!({ "jkt": "x" }), Some(TokenError::SenderConstrained)),
    ] {
        let Value::Object(mut claims) = good() else { panic!("an object") };
        claims.insert(name.to_owned(), value);
        assert_eq!(
            claims::principal_from_claims(claims, "token", expected, None, now).err(),
            error,
            "{name}"
        );
    }
}

#[test]
fn opaque_tokens_are_left_to_introspection() {
    for token in ["opaque", "a.b.c", "a.b", "..", "", "W10.e30.e30", "a.b.c.d.e", "eyJ.b.c.d.e"] {
        assert!(jwt::read(token).is_none(), "{token}");
    }
    // A malformed JWT is rejected; it is not an opaque token.
    let header = |text: &str| format!("{}.e30.e30", encode(text.as_bytes()));
    for token in [
        header("{}"),
        header(r#"{"alg":["ES256"]}"#),
        header(r#"{"alg":"none","alg":"ES256"}"#),
        header(r#" {"alg":"ES256","kid":7}"#),
        header(r#"{"alg":"#),
        format!("{}=.e30.e30", encode(br#"{"alg":"ES256"}"#)),
    ] {
        assert_eq!(jwt::read(&token).map(|read| read.map(drop)), Some(Err(TokenError::Malformed)), "{token}");
    }
}

#[test]
fn a_set_of_keys_is_bounded() {
    let set = |count: usize| json!({ "keys": vec![Pair::ed25519().jwk("1"); count] }).to_string();
    assert!(JwkSet::read(set(100).as_bytes()).is_ok());
    assert!(JwkSet::read(set(101).as_bytes()).is_err());
    assert!(JwkSet::read(b"{}").is_err());
    for useless in [r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","k":"x"}, 7]}"#] {
        assert!(JwkSet::read(useless.as_bytes()).is_err(), "{useless}");
    }
    assert!(JwkSet::read(b"<html>").is_err());
}
