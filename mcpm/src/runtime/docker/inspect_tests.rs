//! Tests of parsing an engine's descriptions.

use super::*;

fn describe(json: &str) -> Description {
    serde_json::from_str(json).unwrap()
}

#[test]
fn only_the_label_makes_a_container_ours() {
    for (labels, ours) in [
        (r#"{"mcpm":"true"}"#, true),
        (r#"{"mcpm":"false"}"#, false),
        (r#"{"mcpm-name":"x"}"#, false),
        ("null", false),
    ] {
        let found = describe(&format!(r#"{{"Id":"1","Name":"/mcpm","Config":{{"Labels":{labels}}}}}"#));
        assert_eq!(found.is_managed(), ours, "{labels}");
    }
    assert!(!describe(r#"{"Id":"1"}"#).is_managed());
}

#[test]
fn a_container_is_called_by_its_whole_name_or_id() {
    let found = describe(r#"{"Id":"0123456789ab","Name":"/server"}"#);
    assert!(found.matches_name_or_id("server") && found.matches_name_or_id("0123456789ab"));
    assert!(
        !found.matches_name_or_id("0123")
            && !found.matches_name_or_id("/server")
            && !found.matches_name_or_id("serv")
    );
}

#[test]
fn states_of_every_engine_are_known() {
    let exited = ContainerState::Exited(Exit { out_of_memory: true, ..Exit::with_code(137) });
    let cases = [
        ("created", ContainerState::Created),
        ("initialized", ContainerState::Created),
        ("running", ContainerState::Running),
        ("stopping", ContainerState::Running),
        ("paused", ContainerState::Running),
        ("exited", exited),
        ("stopped", exited),
        ("dead", exited),
    ];
    for (status, state) in cases {
        let json = format!(r#"{{"Id":"1","State":{{"Status":"{status}","ExitCode":137,"OOMKilled":true}}}}"#);
        assert_eq!(describe(&json).info(true).unwrap().state, state, "{status}");
    }
    assert_eq!(describe(r#"{"Id":"1"}"#).info(true).unwrap_err().kind(), ErrorKind::Engine);
}

#[test]
fn addresses_and_ports_are_read() {
    let json = r#"{"Id":"1","State":{"Status":"running","Pid":42},"NetworkSettings":{
        "Ports":{"8080/tcp":[{"HostIp":"127.0.0.1","HostPort":"40001"}],"53/udp":[{"HostIp":"","HostPort":"53"}],
                 "9/sctp":[{"HostIp":"","HostPort":"9"}],"80/tcp":null},
        "Networks":{"bridge":{"IPAddress":"172.17.0.2"},"six":{"IPAddress":"","GlobalIPv6Address":"fd00::2"},
                    "host":{"IPAddress":""},"odd":null}}}"#;
    let info = describe(json).info(true).unwrap();
    let addresses: Vec<_> =
        info.addresses.iter().map(|(name, address)| format!("{name} {address}")).collect();
    assert_eq!(addresses, ["bridge 172.17.0.2", "six fd00::2"]);
    let ports: Vec<_> =
        info.ports.iter().map(|p| format!("{}:{}->{}", p.host_ip, p.host_port, p.container_port)).collect();
    assert_eq!(ports, ["0.0.0.0:53->53", "127.0.0.1:40001->8080"]);
    assert_eq!(info.pid, Some(42));
    assert_eq!(describe(json).info(false).unwrap().pid, None);
}
