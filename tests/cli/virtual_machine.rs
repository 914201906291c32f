//! Tests, in a virtual machine, what needs another kernel or systemd.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
};

use mcpm_tests::harness::testbed;

use super::{
    each_runtime::server,
    support::{Home, docker},
};

/// The output of the scripts in `virtual_machine/`.
const EXPECTED: &str = "\
session: cannot limit memory or processor time
scope: cannot limit memory or processor time
delegated scope: filled
delegated scope: killed
delegated scope: throttled
delegated scope: can't fork
delegated scope: 0 left
service: filled
service: killed
service: throttled
service: can't fork
service: 0 left
root: filled
root: killed
root: throttled
root: can't fork
root: 0 left
";

#[test]
#[ignore = "nightly: starts a virtual machine"]
fn limits_hold_in_control_groups_of_version_2_that_systemd_delegates() {
    server::make_image();
    let home = Home::without_engine();
    let disk = home.path("disk");
    fs::create_dir(&disk).unwrap();
    for name in ["checks", "limits"] {
        let source = mcpm_tests::root().join("tests/cli/virtual_machine").join(name);
        fs::copy(source, disk.join(name)).unwrap();
    }
    fs::copy(home.program(), disk.join("mcpm")).unwrap();
    docker(&["save", "--output", &home.text("disk/image.tar"), server::IMAGE]);
    fs::set_permissions(disk.join("image.tar"), fs::Permissions::from_mode(0o644)).unwrap();
    let image = home.path("disk.ext4");
    let mut command = Command::new("mke2fs");
    command.args(["-q", "-t", "ext4", "-d"]).arg(&disk).arg(&image).arg("512M");
    assert!(command.status().unwrap().success());

    let machine = testbed::path("MCPM_TEST_MACHINE");
    let output = home.path("output");
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "2G", "-nic", "none", "-display", "none"]);
    command.args(["-no-reboot", "-append", "root=/dev/vda rw console=ttyS0 quiet panic=-1"]);
    command.arg("-kernel").arg(machine.join("kernel")).arg("-initrd").arg(machine.join("initrd"));
    for disk in [machine.join("disk"), image] {
        command.arg("-drive").arg(format!("file={},if=virtio,format=raw,snapshot=on", disk.display()));
    }
    let console = home.path("console");
    for port in [&console, &output] {
        command.arg("-serial").arg(format!("file:{}", port.display()));
    }
    let status = command.stdin(Stdio::null()).status().unwrap();
    let [printed, console] = [output, console].map(|path| fs::read_to_string(path).unwrap_or_default());
    assert_eq!(printed.replace('\r', ""), EXPECTED, "{status}\n{console}");
}
