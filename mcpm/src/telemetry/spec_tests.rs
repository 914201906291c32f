use super::*;

fn parse(options: &[(&str, &str)]) -> Result<Option<TelemetrySpec>> {
    parse_with_variables(options, &[])
}

fn parse_with_variables(
    options: &[(&str, &str)],
    variables: &[(&str, &str)],
) -> Result<Option<TelemetrySpec>> {
    let mut all = ProxyOptions::default();
    for (name, value) in options {
        all.set(name, value)?;
    }
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    TelemetrySpec::read(&SharedOptions::from(&all), "server", Path::new("/work"), &variables.collect())
}

fn otlp(options: &[(&str, &str)]) -> OtlpSpec {
    parse(options).expect("fine").expect("on").otlp.expect("an endpoint")
}

const ENDPOINT: (&str, &str) = ("otel-endpoint", "https://otel.example:4318");

#[test]
fn an_endpoint_or_a_path_turns_it_on_and_nothing_else_has_an_effect_alone() {
    assert_eq!(parse(&[]).expect("fine"), None);
    for off in [("otel-sampling-rate", "0.10"), ("otel-tracing-enabled", "true"), ("otel-insecure", "false")]
    {
        assert_eq!(parse(&[off]).expect("fine"), None, "{off:?}");
    }
    let given = otlp(&[ENDPOINT]);
    assert!(given.tracing && given.metrics && given.protocol == OtlpProtocol::Http);
    assert_eq!((given.sampling_rate, given.endpoint.as_str()), (0.1, "https://otel.example:4318"));
    let path = parse(&[("otel-enable-prometheus-metrics-path", "true")]).expect("fine").expect("on");
    assert_eq!((path.service_name.as_str(), path.legacy, path.otlp.clone()), ("mcpm-server", true, None));
    for (name, value) in [
        ("otel-insecure", "true"),
        ("otel-headers", "x-key=hush"),
        ("otel-env-vars", "LANG"),
        ("otel-tracing-enabled", "false"),
        ("otel-metrics-enabled", "false"),
        ("otel-sampling-rate", "1"),
        ("otel-protocol", "grpc"),
        ("otel-service-name", "x"),
        ("otel-custom-attributes", "a=b"),
        ("otel-use-legacy-attributes", "false"),
    ] {
        assert_eq!(parse(&[(name, value)]).expect(name), None, "it is warned of");
        // A path for Prometheus is not a collector.
        let scraped = parse(&[(name, value), ("otel-enable-prometheus-metrics-path", "true")]);
        let is_of_all = SHARED_OPTIONS.contains(&name.replace('-', "_").as_str());
        let changes = scraped.expect(name).expect("on") != path;
        assert_eq!(changes, is_of_all, "{name}");
    }
}

#[test]
fn an_endpoint_is_https_unless_insecure_or_loopback() {
    for (text, insecure, expected) in [
        ("otel.example:4318", false, "https://otel.example:4318"),
        ("otel.example", true, "http://otel.example"),
        ("https://otel.example/base/", true, "http://otel.example/base"),
        ("http://otel.example:80", true, "http://otel.example"),
        ("http://127.0.0.1:4318", false, "http://127.0.0.1:4318"),
        ("http://localhost:4318/x", false, "http://localhost:4318/x"),
        ("https://[::1]:4318", false, "https://[::1]:4318"),
    ] {
        let insecure = ("otel-insecure", if insecure { "true" } else { "false" });
        assert_eq!(otlp(&[("otel-endpoint", text), insecure]).endpoint, expected, "{text}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (options, said) in [
        (&[("otel-endpoint", "http://otel.example:4318")][..], "`otel_insecure`"),
        (&[("otel-endpoint", "https://u:hush@otel.example")], "credentials"),
        (&[("otel-endpoint", "https://otel.example/?key=hush2")], "query"),
        (&[("otel-endpoint", "ftp://otel.example")], "neither"),
        (&[("otel-endpoint", "https://")], "not a valid OTLP endpoint"),
        (&[("otel-endpoint", "")], "not a valid OTLP endpoint"),
        (&[("otel-endpoint", "https://otel.example:4317/x"), ("otel-protocol", "grpc")], "path"),
        (&[ENDPOINT, ("otel-headers", "content-type=x")], "reserved for HTTP or OTLP"),
        (&[ENDPOINT, ("otel-headers", "x-bin=x")], "binary"),
        (&[ENDPOINT, ("otel-headers", "X-a=x"), ("otel-headers", "x-A=y")], "is set twice"),
        (&[ENDPOINT, ("otel-env-vars", "MCPM_SECRETS_PASSWORD")], "secrets"),
        (&[ENDPOINT, ("otel-env-vars", "A=B")], "not a valid name"),
        (&[ENDPOINT, ("otel-service-name", "")], "empty"),
        (&[ENDPOINT, ("otel-custom-attributes", "a=1,a=2")], "twice"),
        (&[ENDPOINT, ("otel-tracing-enabled", "false"), ("otel-metrics-enabled", "false")], "neither"),
    ] {
        let error = parse(options).expect_err(said);
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        let text = format!("{error}");
        assert!(text.contains(said) && !text.contains("u:hush"), "{said}: {text}");
    }
}

#[test]
fn the_ca_bundle_is_used_for_https_collectors_only() {
    let bundle = ("mcpm-ca-bundle", "ca.pem");
    assert_eq!(otlp(&[ENDPOINT, bundle]).ca_bundle.as_deref(), Some(Path::new("/work/ca.pem")));
    assert_eq!(otlp(&[("otel-endpoint", "http://127.0.0.1:4318"), bundle]).ca_bundle, None);
}

#[test]
fn options_go_before_variables_and_those_before_what_is_derived() {
    let variables = [
        ("OTEL_SERVICE_NAME", "mine"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=a,zone=z"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://elsewhere.example"),
    ];
    // The variables do not turn on telemetry, and set no endpoint.
    assert_eq!(parse_with_variables(&[], &variables).expect("fine"), None);
    let spec = |options: &[(&str, &str)], variables| {
        let spec = parse_with_variables(options, variables).expect("fine").expect("on");
        let attributes = spec.attributes.iter().map(|(key, value)| format!("{key}={value}"));
        (spec.service_name.clone(), attributes.collect::<Vec<_>>().join(","))
    };
    let named = |name: &str, attributes: &str| (name.to_owned(), attributes.to_owned());
    assert_eq!(spec(&[ENDPOINT], &variables), named("mine", "team=a,zone=z"));
    assert_eq!(spec(&[ENDPOINT], &variables[1..]), named("other", "team=a,zone=z"));
    assert_eq!(spec(&[ENDPOINT], &[]), named("mcpm-server", ""));
    let given = [ENDPOINT, ("otel-service-name", "given"), ("otel-custom-attributes", "team=b")];
    assert_eq!(spec(&given, &variables), named("given", "team=b,zone=z"));
}

#[test]
fn lists_are_deduplicated_in_order() {
    let given = otlp(&[ENDPOINT, ("otel-env-vars", "LANG,HOME"), ("otel-env-vars", "LANG")]);
    assert_eq!(given.variables, ["LANG", "HOME"]);
    let spec = parse(&[ENDPOINT, ("otel-custom-attributes", "b=2, a=1=x")]).expect("fine").expect("on");
    let attributes: Vec<_> = spec.attributes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(attributes, [("a", "1=x"), ("b", "2")]);
}
