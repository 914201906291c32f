//! Man pages and completion scripts, which a package generates with the program: they are complete, and their readers
//! accept them.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::support::{Home, Outcome};

/// All commands below a command, itself included, each with the words that select it.
fn with_subcommands(command: &clap::Command, path: &[&str], all: &mut Vec<(Vec<String>, clap::Command)>) {
    let path = [path, &[command.get_name()]].concat();
    all.push((path.iter().map(ToString::to_string).collect(), command.clone()));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        with_subcommands(below, &path, all);
    }
}

fn all_commands() -> Vec<(Vec<String>, clap::Command)> {
    let mut top = mcpm_cli::command();
    top.build();
    let mut all = Vec::new();
    with_subcommands(&top, &[], &mut all);
    assert!(all.len() > 20, "{}", all.len());
    all
}

fn visible_options(command: &clap::Command) -> impl Iterator<Item = &str> {
    command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(clap::Arg::get_long)
}

/// Returns the text of a man page on one wide line for each paragraph, and fails if groff warns about the page.
#[track_caller]
fn rendered(page: &Path) -> String {
    let groff = Command::new("groff")
        .args(["-man", "-ww", "-rLL=2000n", "-rHY=0", "-Tascii", "-P-cbou"])
        .arg(page)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let warnings = String::from_utf8(groff.stderr).unwrap();
    assert!(groff.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
    String::from_utf8(groff.stdout).unwrap()
}

#[test]
fn each_command_has_a_man_page_with_all_its_options_and_subcommands() {
    let home = Home::without_engine();
    home.run(&["man", "--write", "pages/new"]).succeeded();
    let mut files = BTreeSet::new();
    for (path, command) in all_commands() {
        let file = format!("{}.1", path.join("-"));
        let text = rendered(&home.path("pages/new").join(&file));
        let words: BTreeSet<&str> = text.split([' ', '\n', ',', '[', ']', '=']).collect();
        for option in visible_options(&command) {
            assert!(words.contains(&*format!("--{option}")), "{file} lacks --{option}:\n{text}");
        }
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            let page = format!("{}-{}(1)", path.join("-"), below.get_name());
            assert!(words.contains(&*page), "{file} lacks {page}:\n{text}");
        }
        let about = command.get_about().unwrap().to_string();
        assert!(text.contains(&about), "{file} lacks `{about}`:\n{text}");
        files.insert(file);
    }
    let written = fs::read_dir(home.path("pages/new")).unwrap();
    assert_eq!(
        written.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<BTreeSet<_>>(),
        files
    );
    // Without a folder, the page of the program itself is printed.
    let top = fs::read_to_string(home.path("pages/new/mcpm.1")).unwrap();
    assert_eq!(home.run(&["man"]).succeeded().stdout, top);
    let of_secret = fs::read_to_string(home.path("pages/new/mcpm-secret-set.1")).unwrap();
    assert_eq!(home.run(&["man", "secret", "set"]).succeeded().stdout, of_secret);
    let unknown = home.run(&["man", "nope"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(4), ""));
    assert_eq!(unknown.stderr, "error: there is no command `mcpm nope`; `mcpm help` lists the commands\n");
    assert!(!home.path("nope").exists());
}

#[test]
fn each_completion_script_has_all_commands_and_options() {
    let home = Home::without_engine();
    // How the shells write a long option.
    for (shell, prefix) in
        [("bash", "--"), ("zsh", "--"), ("fish", "-l "), ("powershell", "--"), ("elvish", "--")]
    {
        let script = home.run(&["completion", shell]).succeeded().stdout;
        for (path, command) in all_commands() {
            assert!(path.iter().all(|word| script.contains(&**word)), "{shell}: {path:?}");
            for option in visible_options(&command) {
                assert!(script.contains(&format!("{prefix}{option}")), "{shell}: {path:?} --{option}");
            }
        }
    }
}

#[test]
fn bash_completes_commands_options_and_values() {
    let home = Home::without_engine();
    let script = home.run(&["completion", "bash"]).succeeded().stdout;
    let script = home.write("mcpm.bash", &script);
    for (words, expected) in [
        (&["mcpm", "expl"][..], "explain"),
        (&["mcpm", "run", "--isolate"], "--isolate-network"),
        (&["mcpm", "group", "cr"], "create"),
        (&["mcpm", "completion", "elv"], "elvish"),
    ] {
        let [.., previous, current] = words else { panic!("{words:?}") };
        let complete = format!(
            ". {script}; COMP_WORDS=({}); COMP_CWORD={}; _mcpm mcpm '{current}' '{previous}'; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1
        );
        let bash = Outcome::of(Command::new("bash").args(["--norc", "-c", &complete]).output().unwrap());
        assert_eq!((bash.stdout.trim_end(), bash.stderr.as_str()), (expected, ""), "{words:?}");
    }
}
