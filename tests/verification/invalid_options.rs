//! Tests verification options that are rejected, or cause a warning, before a registry is queried.

use mcpm::ErrorKind;

use super::fixture::{SMALL, SigningFixture};

/// Options, and their error messages.
type Case<'a> = (&'a [(&'a str, &'a str)], ErrorKind, &'a str);

#[tokio::test]
async fn what_contradicts_itself_or_cannot_be_read_is_one_clear_error() {
    let bench = SigningFixture::new();
    let file = |name: &str, text: &str| {
        std::fs::write(bench.path(name), text).unwrap();
        bench.path(name)
    };
    let garbage = file("garbage", "no key\n");
    let private = bench.path("signing.key");
    let missing = bench.path("missing");
    let key = bench.path("signing.pub");
    let root = bench.path("trusted_root.json");
    let cases: &[Case<'_>] = &[
        (
            &[("image-verification", "enabled")],
            ErrorKind::ImageUnverified,
            "no key or identity of its signer",
        ),
        (&[("image-verification-key", &missing)], ErrorKind::NotFound, "cannot read the public key"),
        (&[("image-verification-key", &garbage)], ErrorKind::InvalidOption, "is not a public key"),
        (&[("image-verification-key", &private)], ErrorKind::InvalidOption, "is not a public key"),
        (
            &[("image-verification-key", &key), ("certificate-identity", "a")],
            ErrorKind::InvalidOption,
            "cannot be used with",
        ),
        (
            &[("image-verification-key", &key), ("image-verification", "disabled")],
            ErrorKind::InvalidOption,
            "has no effect with `image_verification` set to `disabled`",
        ),
        (&[("certificate-identity", "a")], ErrorKind::InvalidOption, "needs `certificate_oidc_issuer`"),
        (
            &[("certificate-oidc-issuer", "https://a.example")],
            ErrorKind::InvalidOption,
            "needs `certificate_identity`",
        ),
        (&[("sigstore-trusted-root", &root)], ErrorKind::InvalidOption, "needs a key or an identity"),
        (
            &[
                ("certificate-identity", "a"),
                ("certificate-oidc-issuer", "https://a.example"),
                ("sigstore-trusted-root", &garbage),
            ],
            ErrorKind::InvalidOption,
            "is not a Sigstore trusted root",
        ),
        (
            &[("image-verification", "enabled"), ("image-verification-key", &key), ("offline", "true")],
            ErrorKind::ImageUnverified,
            "run it without `offline`",
        ),
    ];
    for (options, kind, text) in cases {
        let outcome = bench.resolve(SMALL, options).await;
        let error = outcome.error();
        assert_eq!(error.kind(), *kind, "{options:?}: {error}");
        assert!(error.to_string().contains(text), "{options:?}: {error}");
    }
}

#[tokio::test]
async fn a_package_has_no_signature_and_is_refused_only_where_one_must_be() {
    let bench = SigningFixture::new();
    let outcome = bench.resolve("uvx://mcp-server-time", &[("image-verification", "enabled")]).await;
    assert_eq!(outcome.error().kind(), ErrorKind::ImageUnverified);
    assert!(outcome.error().to_string().contains("is built on this machine"), "{}", outcome.error());
    let key = bench.path("signing.pub");
    let outcome = bench.resolve("uvx://mcp-server-time", &[("image-verification-key", &key)]).await;
    assert_eq!(outcome.error().kind(), ErrorKind::InvalidOption);
}

#[tokio::test]
async fn an_image_whose_signer_nobody_knows_runs_after_a_warning_if_one_was_asked_for() {
    let bench = SigningFixture::new();
    let outcome = bench.resolve(SMALL, &[]).await;
    assert_eq!((outcome.image(), outcome.warnings.len()), (SMALL, 0));
    let outcome = bench.resolve(SMALL, &[("image-verification", "warn")]).await;
    assert_eq!(outcome.image(), SMALL);
    let [warning] = &outcome.warnings[..] else { panic!("{:?}", outcome.warnings) };
    assert!(warning.contains("no key or identity of its signer"), "{warning}");
}
