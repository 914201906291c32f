//! Tests the unit of the service that starts workloads with the machine. `each_runtime/lifecycle.rs` tests what it
//! starts.

use super::support::Home;

#[test]
fn the_unit_is_one_that_systemd_accepts() {
    let home = Home::without_engine();
    home.set("XDG_CONFIG_HOME", &home.text("with a space and 100%"));
    let unit = home.run(&["service", "install", "--print"]).succeeded().stdout;
    assert!(unit.contains("with a space and 100%%\""), "{unit}");
    let file = home.write("mcpm.service", &unit);
    let checked = home.command("systemd-analyze").args(["verify", "--user", &file]).output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && said.is_empty(), "{said}\n{unit}");

    // No user manager of systemd runs here, and nothing is left behind.
    let refused = home.run(&["service", "install"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(3), ""), "{refused:?}");
    assert!(refused.stderr.contains("`systemctl --user daemon-reload` failed"), "{refused:?}");
    let path = home.path("with a space and 100%/systemd/user/mcpm.service");
    assert!(!path.exists());
    assert_eq!(
        home.run(&["service", "status"]).succeeded().stdout,
        format!("{}  not installed\n", path.display())
    );
    assert_eq!(home.run(&["service", "uninstall"]).code, Some(4));
}
