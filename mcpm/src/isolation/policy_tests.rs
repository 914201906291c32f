//! Tests of decisions about hosts and addresses.

use super::*;

fn policy(outbound: &str, runtime_gateway: bool) -> EgressPolicy {
    let gateway = "172.30.0.1".parse().unwrap();
    EgressPolicy::new(serde_json::from_str(outbound).unwrap(), runtime_gateway, vec![gateway])
}

async fn verdict(policy: &EgressPolicy, host: &str, port: u16) -> Result<Vec<SocketAddr>, Rule> {
    policy.allowed_addresses(&host.parse().unwrap(), port).await.map_err(|no| match no {
        EgressError::Denied(denial) => denial.rule,
        EgressError::Failed(why) => panic!("{host}: {why}"),
    })
}

const ALL: &str = r#"{"insecure_allow_all": true}"#;

#[tokio::test]
async fn insecure_allow_all_covers_public_addresses_only() {
    let policy = policy(ALL, false);
    assert_eq!(verdict(&policy, "1.1.1.1", 443).await, Ok(vec!["1.1.1.1:443".parse().unwrap()]));
    for (host, rule) in [
        ("127.0.0.1", Rule::LoopbackAddress),
        ("localhost", Rule::LoopbackAddress),
        ("2130706433", Rule::LoopbackAddress),
        ("[::1]", Rule::LoopbackAddress),
        ("[::ffff:127.0.0.1]", Rule::LoopbackAddress),
        ("169.254.169.254", Rule::MetadataAddress),
        ("[fe80::1]", Rule::LinkLocalAddress),
        ("10.0.0.1", Rule::PrivateAddress),
        ("172.17.0.2", Rule::PrivateAddress),
        ("172.17.0.1", Rule::RuntimeGateway),
        ("172.30.0.1", Rule::RuntimeGateway),
        ("host.docker.internal", Rule::RuntimeGateway),
        ("Gateway.Docker.Internal.", Rule::RuntimeGateway),
    ] {
        assert_eq!(verdict(&policy, host, 80).await, Err(rule), "{host}");
    }
}

#[tokio::test]
async fn the_gateway_is_allowed_by_its_flag_alone() {
    let named = r#"{"allow_host": ["172.17.0.1", "host.docker.internal"]}"#;
    assert_eq!(verdict(&policy(named, false), "172.17.0.1", 80).await, Err(Rule::RuntimeGateway));
    let flagged = policy("{}", true);
    assert_eq!(verdict(&flagged, "172.17.0.1", 80).await, Ok(vec!["172.17.0.1:80".parse().unwrap()]));
    let found = verdict(&flagged, "host.docker.internal", 80).await.unwrap();
    assert_eq!(found[0], "172.30.0.1:80".parse().unwrap());
    assert_eq!(verdict(&flagged, "1.1.1.1", 80).await, Err(Rule::NoNetwork));
}

#[tokio::test]
async fn an_allowed_name_that_resolves_to_the_gateway_needs_its_flag() {
    let gateways: Vec<IpAddr> = ["127.0.0.1", "::1"].map(|address| address.parse().unwrap()).into();
    // Both the name and its addresses are allowed.
    let outbound = r#"{"allow_host": ["localhost", "127.0.0.0/8", "127.0.0.1:443", "::1"]}"#;
    let policy = |flag| EgressPolicy::new(serde_json::from_str(outbound).unwrap(), flag, gateways.clone());
    assert_eq!(verdict(&policy(false), "localhost", 443).await, Err(Rule::RuntimeGateway));
    let allowed = verdict(&policy(true), "localhost", 443).await.unwrap();
    assert!(allowed.contains(&"127.0.0.1:443".parse().unwrap()), "{allowed:?}");
}

#[tokio::test]
async fn a_name_does_not_allow_a_non_public_address() {
    let by_name = policy(r#"{"allow_host": ["localhost"]}"#, false);
    assert_eq!(verdict(&by_name, "localhost", 443).await, Err(Rule::LoopbackAddress));
    let by_both = policy(r#"{"allow_host": ["localhost", "127.0.0.0/8"]}"#, false);
    assert!(verdict(&by_both, "localhost", 443).await.unwrap().contains(&"127.0.0.1:443".parse().unwrap()));
    let by_port = policy(r#"{"allow_host": ["localhost", "127.0.0.1:443"]}"#, false);
    assert!(verdict(&by_port, "localhost", 443).await.is_ok());
    assert_eq!(verdict(&by_port, "localhost", 80).await, Err(Rule::LoopbackAddress));
}

#[tokio::test]
async fn an_address_rule_without_ports_allows_the_listed_ports_only() {
    let listed = policy(
        r#"{"allow_host": ["localhost:8443", "localhost:443", "127.0.0.0/8"], "allow_port": [443]}"#,
        false,
    );
    assert!(verdict(&listed, "localhost", 443).await.unwrap().contains(&"127.0.0.1:443".parse().unwrap()));
    assert_eq!(verdict(&listed, "localhost", 8443).await, Err(Rule::LoopbackAddress));
    let vendor = "api.vendor.example".parse().unwrap();
    let check = |rules: &str, port| {
        let address = "10.0.0.5".parse().unwrap();
        policy(rules, false).check_address(&vendor, port, address).map_err(|denial| denial.rule)
    };
    let rules = r#"{"allow_host": ["api.vendor.example:8443", "10.0.0.5"], "allow_port": [443]}"#;
    assert_eq!(check(rules, 443), Ok(()));
    assert_eq!(check(rules, 8443), Err(Rule::PrivateAddress));
    let unlisted = r#"{"allow_host": ["api.vendor.example:8443", "10.0.0.5"]}"#;
    assert_eq!(check(unlisted, 8443), Ok(()));
    let all = r#"{"insecure_allow_all": true, "allow_host": ["10.0.0.5"], "allow_port": [443]}"#;
    assert_eq!(check(all, 8443), Ok(()));
}

#[tokio::test]
async fn a_wide_network_does_not_mean_the_private_ones_in_it() {
    let wide = policy(r#"{"allow_host": ["0.0.0.0/0", "169.254.0.0/16"]}"#, false);
    assert!(verdict(&wide, "1.1.1.1", 1).await.is_ok());
    assert_eq!(verdict(&wide, "10.0.0.1", 1).await, Err(Rule::PrivateAddress));
    assert!(verdict(&wide, "169.254.1.1", 1).await.is_ok());
    assert_eq!(verdict(&wide, "169.254.169.254", 1).await, Err(Rule::MetadataAddress));
    let narrow = policy(r#"{"allow_host": ["10.1.0.0/16", "169.254.169.254"]}"#, false);
    assert!(verdict(&narrow, "10.1.2.3", 1).await.is_ok());
    assert_eq!(verdict(&narrow, "10.2.2.3", 1).await, Err(Rule::HostNotAllowed));
    assert!(verdict(&narrow, "169.254.169.254", 80).await.is_ok());
}

#[tokio::test]
async fn a_denial_names_the_fix() {
    let policy = policy(r#"{"allow_host": ["a.example"], "allow_port": [443]}"#, false);
    let denial = |host: &str, port| policy.denial_for_attempt(&host.parse().unwrap(), port).unwrap();
    let text = denial("b.example", Some(443)).to_string();
    assert!(text.contains("`host-not-allowed`") && text.contains("add `b.example:443`"), "{text}");
    assert!(denial("a.example", Some(22)).to_string().contains("add `a.example:22`"));
    assert_eq!(denial("c.example", None).rule, Rule::HostNotAllowed);
    assert!(policy.denial_for_attempt(&"a.example".parse().unwrap(), None).is_none());
    assert!(denial("172.17.0.1", Some(1)).to_string().contains("`allow_runtime_gateway`"));
}

#[tokio::test]
async fn an_abandoned_lookup_holds_its_permit_until_it_ends() {
    let lookups = Arc::new(LookupLimiter(Arc::new(Semaphore::new(1))));
    let (began, begun) = tokio::sync::oneshot::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let stuck = tokio::spawn({
        let lookups = Arc::clone(&lookups);
        async move {
            let lookup = move || {
                began.send(()).unwrap();
                ended.recv().map_err(io::Error::other)
            };
            lookups.run_limited(lookup).await
        }
    });
    begun.await.unwrap();
    stuck.abort();
    assert!(stuck.await.unwrap_err().is_cancelled());
    assert_eq!(lookups.0.available_permits(), 0);
    end.send(()).unwrap();
    assert_eq!(lookups.run_limited(|| Ok(7)).await.unwrap(), 7);
}
