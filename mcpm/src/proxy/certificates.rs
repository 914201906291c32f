//! Who reads the certificates of `--mcpm-ca-bundle`: one that nobody reads is refused, since whoever names it expects
//! something of it.

use crate::{
    Error, ErrorKind, Result, auth::incoming::IncomingSpec, options::OptionSet, telemetry::TelemetrySpec,
};

/// The option.
const BUNDLE: &str = "mcpm_ca_bundle";

/// Refuses certificates that nothing would read.
///
/// # Errors
/// `InvalidOption` says what would.
pub(crate) fn check_bundle<O: OptionSet>(
    options: &O,
    incoming: Option<&IncomingSpec>,
    telemetry: Option<&TelemetrySpec>,
) -> Result<()> {
    if incoming.is_some() || telemetry.is_some_and(TelemetrySpec::reads_certificates) {
        return Ok(());
    }
    let Some(option) = O::spec(BUNDLE).filter(|_| options.is_given(BUNDLE)) else { return Ok(()) };
    let message =
        format!("`{}` means nothing while nobody is asked or told anything over TLS", option.shown());
    Err(Error::new(ErrorKind::InvalidOption, message).hint(
        "it is for the provider of `--oidc-issuer`, and for a collector at an `https` `--otel-endpoint`",
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        auth::incoming::AskedOfCallers as _, environment::Variables, options::ProxyOptions,
        telemetry::AskedOfTelemetry as _,
    };

    #[test]
    fn certificates_are_for_the_issuer_or_for_a_collector_with_tls() {
        let issuer = &[("oidc-issuer", "https://id.example")][..];
        let collector = &[("otel-endpoint", "collector.example")][..];
        let grpc = &[("otel-endpoint", "https://collector.example"), ("otel-protocol", "grpc")][..];
        let plain = &[("otel-endpoint", "http://127.0.0.1:4318")][..];
        let insecure = &[("otel-endpoint", "https://collector.example"), ("otel-insecure", "true")][..];
        let scraped = &[("otel-enable-prometheus-metrics-path", "true")][..];
        for (more, is_read) in [
            (issuer, true),
            (collector, true),
            (grpc, true),
            (&[], false),
            (plain, false),
            (insecure, false),
            (scraped, false),
        ] {
            let mut options = ProxyOptions::default();
            for (name, value) in more.iter().chain(&[("mcpm-ca-bundle", "f")]) {
                options.set(name, value).expect("an option");
            }
            let (incoming, telemetry) = (
                options.incoming(Path::new("/work")).expect("fine"),
                options.telemetry("server", Path::new("/work"), &Variables::default()).expect("fine"),
            );
            let checked = check_bundle(&options, incoming.as_ref(), telemetry.as_ref());
            assert_eq!(checked.is_ok(), is_read, "{more:?}");
            if let Err(error) = checked {
                let text = error.to_string();
                assert!(text.contains("--mcpm-ca-bundle") && text.contains("--otel-endpoint"), "{text}");
            }
            assert!(check_bundle(&ProxyOptions::default(), None, None).is_ok());
        }
    }
}
