//! Tests images that are signed with a key.

use mcpm::{ErrorKind, workload::Workloads};
use mcpm_tests::harness::{
    certificate_authority::CertificateAuthority, tls_terminator::TlsTerminator, with_timeout,
};

use super::fixture::{OTHER, SERVER, SMALL, SigningFixture};

fn by_key<'a>(mode: &'a str, key: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![("image-verification", mode), ("image-verification-key", key)]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_image_runs_by_the_digest_that_was_signed_and_that_is_on_record() {
    let bench = SigningFixture::new();
    let (image, digest) = bench.push(SERVER, "team/server:1");
    bench.sign("team/server", &digest, &["--key", "signing"]);
    let key = bench.path("signing.pub");
    let mut options = by_key("enabled", &key);
    let name = format!("verified-{}", std::process::id());
    options.push(("name", &name));

    let plan = Box::pin(bench.workload(&image, &options).unwrap().plan()).await.unwrap().to_string();
    assert!(
        plan.contains("signed by the key SHA256:") && plan.contains("otherwise it is rejected"),
        "{plan}"
    );

    let starting = Box::pin(bench.workload(&image, &options).unwrap().start());
    let running = with_timeout("a start", starting).await.unwrap();
    let pinned = format!("{}@{digest}", image.trim_end_matches(":1"));
    assert_eq!(running.spec().container().unwrap().image, pinned);
    let info = Workloads::new(bench.environment()).info(&name).await.unwrap();
    assert_eq!(info.image.as_deref(), Some(pinned.as_str()));
    let verified = info.verified.unwrap();
    assert_eq!(verified.digest, digest);
    assert!(verified.signer.to_string().starts_with("the key SHA256:"), "{}", verified.signer);
    running.stop(std::time::Duration::ZERO).await.unwrap();
    Workloads::new(bench.environment()).remove(&name, std::time::Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn both_forms_of_signatures_are_found_among_others() {
    let bench = SigningFixture::new();
    let key = bench.path("signing.pub");
    for form in ["simple", "bundle"] {
        let repository = format!("team/{form}");
        let (image, digest) = bench.push(SMALL, &format!("{repository}:1"));
        for key in ["other", "signing", "other"] {
            bench.sign(&repository, &digest, &["--form", form, "--key", key]);
        }
        let outcome = bench.resolve(&image, &by_key("enabled", &key)).await;
        assert!(outcome.image().ends_with(&digest), "{form}: {}", outcome.image());
        assert_eq!(outcome.warnings, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_of_a_private_authority_is_read_with_the_bundle_that_names_it() {
    let bench = SigningFixture::new();
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (image, digest) = bench.push(SMALL, "team/private:1");
    bench.sign("team/private", &digest, &["--key", "signing"]);
    let plain = bench.registry.address();
    let front = TlsTerminator::start(&authority, plain);
    bench.registry.log_in(&[plain, &front.address()]);
    bench.remove_at_end(format!("{}/team/private@{digest}", front.address()));
    let (image, key) = (image.replace(plain, &front.address()), bench.path("signing.pub"));
    for bundle in [None, Some(&other.certificate)] {
        let mut options = by_key("enabled", &key);
        options.extend(bundle.map(|bundle| ("mcpm-ca-bundle", bundle.as_str())));
        let outcome = bench.resolve(&image, &options).await;
        let error = outcome.error();
        assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
        assert!(error.to_string().contains("`mcpm_ca_bundle`"), "{error}");
    }
    let mut options = by_key("enabled", &key);
    options.push(("mcpm-ca-bundle", &authority.certificate));
    let outcome = bench.resolve(&image, &options).await;
    assert!(outcome.image().ends_with(&digest), "{}", outcome.image());
    assert_eq!(outcome.warnings, Vec::<String>::new());
}

#[tokio::test]
async fn the_referrers_api_is_used_when_available() {
    let bench = SigningFixture::new().with_referrers();
    let key = bench.path("signing.pub");
    let (image, digest) = bench.push(SMALL, "team/referred:1");
    let outcome = bench.resolve(&image, &by_key("enabled", &key)).await;
    assert_eq!(outcome.error().kind(), ErrorKind::ImageUnverified, "{}", outcome.error());
    bench.sign("team/referred", &digest, &["--key", "signing"]);
    let outcome = bench.resolve(&image, &by_key("enabled", &key)).await;
    assert!(outcome.image().ends_with(&digest), "{}", outcome.image());
}

#[tokio::test]
async fn an_invalid_signature_is_rejected_warned_about_or_ignored_by_mode() {
    let bench = SigningFixture::new();
    let other = bench.push(OTHER, "team/other:1").1;
    let another = ["--subject", other.as_str()];
    let cases: &[(&str, &[&str], &str)] = &[
        ("unsigned", &[], "has no signature ("),
        ("wrong-key", &["--key", "other"], "by another key"),
        ("wrong-key-simple", &["--form", "simple", "--key", "other"], "by another key"),
        ("another", &["--key", "signing", another[0], another[1]], "names another image"),
        (
            "another-simple",
            &["--form", "simple", "--key", "signing", another[0], another[1]],
            "names another image",
        ),
        ("changed", &["--key", "signing", "--change", "payload"], "was changed"),
        ("changed-simple", &["--form", "simple", "--key", "signing", "--change", "payload"], "was changed"),
        (
            "flaws",
            &["--key", "signing", "--predicate", "https://cosign.sigstore.dev/attestation/vuln/v1"],
            "is not an image signature",
        ),
    ];
    let key = bench.path("signing.pub");
    for (name, how, why) in cases {
        let repository = format!("team/{name}");
        let (image, digest) = bench.push(SMALL, &format!("{repository}:1"));
        if !how.is_empty() {
            bench.sign(&repository, &digest, how);
        }
        let outcome = bench.resolve(&image, &by_key("enabled", &key)).await;
        let error = outcome.error();
        assert_eq!(error.kind(), ErrorKind::ImageUnverified, "{name}: {error}");
        let text = error.to_string();
        assert!(
            text.contains(why) && text.contains(&digest) && text.contains("the key SHA256:"),
            "{name}: {text}"
        );

        let outcome = bench.resolve(&image, &by_key("warn", &key)).await;
        assert_eq!((outcome.image(), &outcome.spec().verified), (image.as_str(), &None), "{name}");
        let [warning] = &outcome.warnings[..] else { panic!("{name}: {:?}", outcome.warnings) };
        assert!(warning.contains("runs unverified") && warning.contains(why), "{name}: {warning}");

        let outcome = bench.resolve(&image, &[("image-verification", "disabled")]).await;
        assert_eq!((outcome.image(), outcome.warnings.len()), (image.as_str(), 0), "{name}");
    }
}

#[tokio::test]
async fn a_tag_that_moves_after_the_signature_changes_nothing_and_a_new_image_needs_its_own() {
    let bench = SigningFixture::new();
    let (image, signed) = bench.push(SMALL, "team/moves:1");
    bench.sign("team/moves", &signed, &["--key", "signing"]);
    let key = bench.path("signing.pub");
    let before = bench.resolve(&image, &by_key("enabled", &key)).await;

    let (_, moved) = bench.push(OTHER, "team/moves:1");
    assert_ne!(signed, moved);
    assert!(before.image().ends_with(&signed), "{}", before.image());
    let after = bench.resolve(&image, &by_key("enabled", &key)).await;
    assert_eq!(after.error().kind(), ErrorKind::ImageUnverified);
    assert!(after.error().to_string().contains(&moved), "{}", after.error());

    // A workload with the digest gets the signed image, wherever the tag points.
    let by_digest = format!("{}@{signed}", image.trim_end_matches(":1"));
    let pinned = bench.resolve(&by_digest, &by_key("enabled", &key)).await;
    assert_eq!((pinned.image(), pinned.spec().verified.is_some()), (by_digest.as_str(), true));

    bench.sign("team/moves", &moved, &["--form", "simple", "--key", "signing"]);
    let after = bench.resolve(&image, &by_key("warn", &key)).await;
    assert!(after.image().ends_with(&moved) && after.warnings.is_empty(), "{}", after.image());
}
