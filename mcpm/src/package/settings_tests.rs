use super::*;

fn settings(variables: &[(&str, &str)]) -> BuildSettings {
    let all: BTreeMap<_, _> = variables.iter().copied().collect();
    BuildSettings::from_lookup(|name| all.get(name).map(|value| (*value).to_owned()))
}

fn map(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_build_gets_proxies_and_the_mirrors_of_its_ecosystem() {
    let given = settings(&[
        ("HTTPS_PROXY", "http://proxy.example:3128"),
        ("no_proxy", "example.com"),
        ("NPM_CONFIG_REGISTRY", "https://npm.example"),
        ("GOPROXY", "https://go.example,direct"),
        ("HOME", "/home/u"),
    ]);
    assert_eq!(
        given.proxies(),
        map(&[("HTTPS_PROXY", "http://proxy.example:3128"), ("no_proxy", "example.com")])
    );
    assert_eq!(given.mirrors(Ecosystem::Node), map(&[("NPM_CONFIG_REGISTRY", "https://npm.example")]));
    assert_eq!(given.mirrors(Ecosystem::Go), map(&[("GOPROXY", "https://go.example,direct")]));
    assert_eq!(given.mirrors(Ecosystem::Python), map(&[]));
}

#[test]
fn an_index_for_pip_is_one_for_uv_and_the_other_way_round() {
    let both = map(&[("PIP_INDEX_URL", "https://i.example"), ("UV_DEFAULT_INDEX", "https://i.example")]);
    for name in ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"] {
        assert_eq!(settings(&[(name, "https://i.example")]).mirrors(Ecosystem::Python), both, "{name}");
    }
    let older = map(&[("PIP_INDEX_URL", "https://i.example"), ("UV_INDEX_URL", "https://i.example")]);
    assert_eq!(settings(&[("UV_INDEX_URL", "https://i.example")]).mirrors(Ecosystem::Python), older);
}

#[test]
fn values_are_not_shown() {
    let shown = format!("{:?}", settings(&[("PIP_INDEX_URL", "https://user:word@i.example")]));
    assert!(shown.contains("PIP_INDEX_URL") && !shown.contains("word"), "{shown}");
}

#[test]
fn a_build_may_connect_to_its_mirrors_and_not_to_a_proxy() {
    let given =
        settings(&[("HTTPS_PROXY", "http://proxy.example:3128"), ("GOPROXY", "https://go.example,direct")]);
    let hosts = given.registry_hosts(Ecosystem::Go).unwrap();
    let hosts: Vec<_> = hosts.iter().filter_map(|rule| rule.name()).collect();
    assert!(hosts.contains(&"go.example") && !hosts.contains(&"proxy.example"), "{hosts:?}");
}
