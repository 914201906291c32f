//! Warns about options that have no effect because another option is not set.

use crate::{
    auth::{exchange, incoming},
    options::OptionSet,
    telemetry,
};

/// Options that have an effect only together with another option.
struct OptionDependency {
    /// Any of these enables them.
    enabled_by: &'static [&'static str],
    dependents: &'static [&'static str],
    /// What the options need, and which option to set.
    advice: &'static str,
}

const DEPENDENCIES: [OptionDependency; 4] = [
    OptionDependency {
        enabled_by: &incoming::ENABLING_OPTIONS,
        dependents: &incoming::DEPENDENT_OPTIONS,
        advice: "incoming authentication; set `oidc_issuer` to turn it on",
    },
    OptionDependency {
        enabled_by: &["token_exchange_url"],
        dependents: &exchange::DEPENDENT_OPTIONS,
        advice: "token exchange; set `token_exchange_url` to turn it on",
    },
    OptionDependency {
        enabled_by: &["otel_endpoint"],
        dependents: &telemetry::OTLP_OPTIONS,
        advice: "a collector; set `otel_endpoint` to name one",
    },
    OptionDependency {
        enabled_by: &["otel_endpoint", "otel_enable_prometheus_metrics_path", "otel_prometheus_port"],
        dependents: &telemetry::SHARED_OPTIONS,
        advice: "telemetry; set `otel_endpoint`, `otel_enable_prometheus_metrics_path` or `otel_prometheus_port` to turn \
                 it on",
    },
];

/// Returns a warning for each option that has no effect, unless it has its default value.
pub(crate) fn warnings<O: OptionSet>(options: &O) -> Vec<String> {
    let mut warnings = Vec::new();
    for needs in DEPENDENCIES.iter().filter(|needs| options.non_default(needs.enabled_by).is_empty()) {
        for option in options.non_default(needs.dependents) {
            warnings.push(format!("`{}` has no effect without {}", option.name, needs.advice));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{ProxyOptions, WorkloadOptions};

    #[test]
    fn every_option_that_is_named_exists() {
        for name in DEPENDENCIES.iter().flat_map(|needs| needs.enabled_by.iter().chain(needs.dependents)) {
            assert!(WorkloadOptions::spec(name).is_some() && ProxyOptions::spec(name).is_some(), "{name}");
        }
    }

    #[test]
    fn what_has_no_effect_is_told_with_what_it_needs() {
        for (given, expected) in [
            (&[("resource-url", "https://a.example")][..], 1),
            (&[("resource-url", "https://a.example"), ("oidc-issuer", "https://id.example")], 0),
            (&[("otel-headers", "a=b"), ("otel-service-name", "s")], 2),
            (&[("otel-headers", "a=b"), ("otel-enable-prometheus-metrics-path", "true")], 1),
            (&[("otel-sampling-rate", "0.1"), ("otel-insecure", "false")], 0),
            (&[("otel-headers", "a=b"), ("otel-endpoint", "c.example")], 0),
            (&[("token-exchange-audience", "a")], 1),
        ] {
            let mut options = ProxyOptions::default();
            for (name, value) in given {
                options.set(name, value).expect("an option");
            }
            let warnings = warnings(&options);
            assert_eq!(warnings.len(), expected, "{given:?}: {warnings:?}");
        }
    }
}
