//! Tests images with keyless signatures of the test's own Sigstore instance.

use mcpm::ErrorKind;

use super::fixture::{SMALL, SigningFixture};

const NAME: &str = "https://code.example/team/server/.github/workflows/release.yml@refs/heads/main";
const ISSUER: &str = "https://issuer.example";
const SOURCE: &str = "https://code.example/team/server";
const SIGN_ARGS: &[&str] = &["--identity", NAME, "--issuer", ISSUER, "--source", SOURCE];

fn by_identity<'a>(name: &'a str, issuer: &'a str, root: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("image-verification", "enabled"),
        ("certificate-identity", name),
        ("certificate-oidc-issuer", issuer),
        ("sigstore-trusted-root", root),
    ]
}

#[tokio::test]
async fn the_expected_identity_runs_and_any_other_is_refused() {
    let bench = SigningFixture::new();
    let root = bench.path("trusted_root.json");
    for form in ["bundle", "simple"] {
        let repository = format!("team/{form}");
        let (image, digest) = bench.push(SMALL, &format!("{repository}:1"));
        bench.sign(&repository, &digest, &[SIGN_ARGS, &["--form", form]].concat());
        let outcome = bench.resolve(&image, &by_identity(NAME, ISSUER, &root)).await;
        assert!(outcome.image().ends_with(&digest), "{form}: {}", outcome.image());
        let signer = outcome.spec().verified.as_ref().unwrap().signer.to_string();
        assert_eq!(signer, format!("`{NAME}`, as attested by `{ISSUER}`"), "{form}");

        let else_name = NAME.replace("main", "other");
        for (name, issuer) in [(else_name.as_str(), ISSUER), (NAME, "https://other.example")] {
            let outcome = bench.resolve(&image, &by_identity(name, issuer, &root)).await;
            assert_eq!(outcome.error().kind(), ErrorKind::ImageUnverified, "{form}: {}", outcome.error());
        }
        // The public root does not contain these authorities.
        let outcome = bench.resolve(&image, &by_identity(NAME, ISSUER, &root)[..3]).await;
        assert_eq!(outcome.error().kind(), ErrorKind::ImageUnverified, "{form}: {}", outcome.error());
    }
}

#[tokio::test]
async fn a_signature_over_changed_content_is_rejected() {
    let bench = SigningFixture::new();
    let root = bench.path("trusted_root.json");
    for form in ["bundle", "simple"] {
        for change in ["payload", "log", "time", "certificate"] {
            if (form, change) == ("simple", "certificate") {
                continue;
            }
            let repository = format!("team/{form}-{change}");
            let (image, digest) = bench.push(SMALL, &format!("{repository}:1"));
            bench.sign(&repository, &digest, &[SIGN_ARGS, &["--form", form, "--change", change]].concat());
            let outcome = bench.resolve(&image, &by_identity(NAME, ISSUER, &root)).await;
            let error = outcome.error();
            assert_eq!(error.kind(), ErrorKind::ImageUnverified, "{form} {change}: {error}");
            assert!(error.to_string().contains("no valid signature"), "{form} {change}: {error}");
        }
    }
}

#[tokio::test]
async fn the_registry_provenance_defines_the_expected_signer() {
    let bench = SigningFixture::new();
    let (image, digest) = bench.push(SMALL, "team/server:1");
    bench.sign("team/server", &digest, SIGN_ARGS);
    let root = bench.path("trusted_root.json");
    let right = format!(
        r#"{{"cert_issuer": "{ISSUER}", "repository_uri": "{SOURCE}", "runner_environment": "github-hosted",
            "signer_identity": "/.github/workflows/release.yml", "sigstore_url": "tuf.example"}}"#
    );
    let resolve = async |provenance: &str, options: &[(&str, &str)]| {
        let registry = bench.path("registry.json");
        let entry = format!(
            r#"{{"servers": {{"signed": {{"image": "{image}", "transport": "stdio", "provenance": {provenance}}}}}}}"#
        );
        std::fs::write(&registry, entry).unwrap();
        let options = [&[("registry", registry.as_str())], options].concat();
        bench.resolve("signed", &options).await
    };
    let enabled = [("image-verification", "enabled"), ("sigstore-trusted-root", root.as_str())];
    let outcome = resolve(&right, &enabled).await;
    assert!(outcome.image().ends_with(&digest), "{}", outcome.image());

    for (was, is) in [
        (SOURCE, "https://code.example/team/fork"),
        ("release.yml", "test.yml"),
        ("github-hosted", "self-hosted"),
        (ISSUER, "https://other.example"),
    ] {
        let outcome = resolve(&right.replace(was, is), &enabled).await;
        assert_eq!(outcome.error().kind(), ErrorKind::ImageUnverified, "{is}: {}", outcome.error());
    }
    // Without a trusted root, the Sigstore instance is unknown; without an expected identity, every signer is rejected.
    assert_eq!(resolve(&right, &enabled[..1]).await.error().kind(), ErrorKind::Registry);
    // The built-in roots do not contain these authorities.
    for built_in in ["", "tuf-repo-cdn.sigstore.dev", "https://tuf-repo.github.com"] {
        let outcome = resolve(&right.replace("tuf.example", built_in), &enabled[..1]).await;
        assert_eq!(outcome.error().kind(), ErrorKind::ImageUnverified, "{built_in}: {}", outcome.error());
    }
    let vague = r#"{"signer_identity": "/.github/workflows/release.yml"}"#;
    let outcome = resolve(vague, &enabled[..1]).await;
    assert!(outcome.error().to_string().contains("no key or identity of its signer"), "{}", outcome.error());
    // The user's options take precedence.
    let other = bench.path("other.pub");
    let outcome = resolve(&right, &[enabled[0], ("image-verification-key", &other)]).await;
    assert!(outcome.error().to_string().contains("the key SHA256:"), "{}", outcome.error());
}
