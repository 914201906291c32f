//! Tests the man pages and completion scripts that the program generates: they are complete, and man and the shells
//! accept them. Also tests completions in real shells.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use super::support::{Home, Outcome, PseudoTerminal};

/// All commands below a command, including that command, each with the words that select it.
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

/// Requests completions as the script of fish does, which shows the help beside each.
#[track_caller]
pub(crate) fn completions(home: &Home, words: &[&str]) -> Vec<String> {
    completions_in("fish", home, words)
}

#[track_caller]
fn completions_in(shell: &str, home: &Home, words: &[&str]) -> Vec<String> {
    let mut asked = home.mcpm(&["--", "mcpm"]);
    asked.args(words).env("MCPM_COMPLETE", shell);
    let outcome = Outcome::of(asked.output().unwrap());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{words:?}");
    outcome.stdout.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

#[test]
fn all_commands_and_options_are_completed() {
    let home = Home::without_engine();
    for (path, command) in all_commands() {
        let path: Vec<&str> = path.iter().skip(1).map(String::as_str).collect();
        let found = completions(&home, &[&path[..], &["--"]].concat());
        for option in visible_options(&command) {
            assert!(found.contains(&format!("--{option}")), "{path:?} --{option}: {found:?}");
        }
        let found = completions(&home, &[&path[..], &[""]].concat());
        for below in command.get_subcommands() {
            assert!(found.iter().any(|word| word == below.get_name()), "{path:?} {}", below.get_name());
        }
    }
}

#[test]
fn each_shell_has_a_script_that_asks_this_program() {
    let home = Home::without_engine();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = home.run(&["completion", shell]).succeeded().stdout;
        assert!(script.contains("MCPM_COMPLETE") && script.contains("mcpm"), "{shell}: {script}");
        // The script is read whenever a shell starts.
        assert!(script.len() < 4096, "{shell}: {}", script.len());
    }
}

#[test]
fn only_the_variable_of_mcpm_with_the_name_of_a_shell_asks_for_completions() {
    let home = Home::without_engine();
    let removal = |variable: &str, value: &str| {
        Outcome::of(home.mcpm(&["rm", "no-such-workload"]).env(variable, value).output().unwrap())
    };
    let unknown = removal("MCPM_COMPLETE", "1");
    assert_eq!((unknown.code, unknown.stdout.as_str()), (Some(2), ""), "{unknown:?}");
    assert!(unknown.stderr.contains("unknown shell `1`"), "{unknown:?}");
    let other = removal("COMPLETE", "1");
    assert_eq!(other.code, Some(4), "{other:?}");
}

/// A home with names of each kind.
fn home_with_names() -> Home {
    let home = Home::without_engine();
    home.run(&["group", "create", "team-a"]).succeeded();
    home.set("MCPM_SECRET_TEAM_KEY", "hush");
    // Nothing reads this file: listing its secrets would fail.
    home.write("state/mcpm/secrets/store.json", "damaged");
    home.write(
        "state/mcpm/workloads/team-web/tools.json",
        r#"{"version": 1, "names": ["team_list", "team;id", "other"]}"#,
    );
    fs::create_dir_all(home.path("state/mcpm/workloads/unlisted")).unwrap();
    home.write("tea.py", "");
    home
}

#[test]
fn names_are_completed() {
    let home = home_with_names();
    for (words, expected) in [
        (&["status", "te"][..], &["team-web"][..]),
        (&["rm", "team-web", "te"], &["team-web"]),
        (&["call", "te"], &["team-web"]),
        (&["stop", "--group", ""], &["default", "team-a"]),
        (&["run", "--group", "t"], &["team-a"]),
        (&["group", "rm", "te"], &["team-a"]),
        (&["run", "fetc"], &["fetch"]),
        (&["run", "./te"], &["./tea.py"]),
        (&["registry", "info", "git"], &["git", "github"]),
        (&["client", "add", "claude-c"], &["claude-code"]),
        (&["client", "add", "claude-code", "t"], &["team-web"]),
        (&["call", "team-web", "team"], &["team_list"]),
        (&["call", "--transport", "sse", "team-web", "o"], &["other"]),
        (&["call", "unlisted", "t"], &[]),
        (&["call", "http://127.0.0.1:9/mcp", "t"], &[]),
        (&["secret", "get", "TEAM"], &["TEAM_KEY"]),
        (&["run", "--secret", "TEAM"], &["TEAM_KEY"]),
        (&["help", "fo"], &["forms"]),
    ] {
        assert_eq!(completions(&home, words), expected, "{words:?}");
    }
}

#[test]
fn powershell_which_quotes_nothing_gets_only_plain_names_of_files() {
    let home = home_with_names();
    home.write("team;id.py", "");
    home.write("tea $(id).py", "");
    assert_eq!(completions_in("powershell", &home, &["run", "./te"]), ["./tea.py"]);
}

/// Runs a shell with this program on its path.
fn shell(home: &Home, program: &str, args: &[&str]) -> Command {
    fs::create_dir_all(home.path("bin")).unwrap();
    // A link from an earlier call.
    let _ = std::os::unix::fs::symlink(home.program(), home.path("bin/mcpm"));
    let mut command = home.command(program);
    command.args(args).env("PATH", format!("{}:{}", home.text("bin"), std::env::var("PATH").unwrap()));
    command
}

const IN_SHELLS: [(&str, &str); 5] = [
    ("mcpm expl", "explain"),
    ("mcpm run --isolate", "--isolate-network"),
    ("mcpm group cr", "create"),
    ("mcpm completion elv", "elvish"),
    ("mcpm status tea", "team-web"),
];

#[test]
fn bash_completes_commands_options_and_names() {
    let home = home_with_names();
    let script = home.run(&["completion", "bash"]).succeeded().stdout;
    let script = home.write("mcpm.bash", &script);
    for (line, expected) in IN_SHELLS {
        let words: Vec<&str> = line.split(' ').collect();
        let [.., previous, current] = words[..] else { panic!("{words:?}") };
        let complete = format!(
            ". {script}; COMP_WORDS=({line}); COMP_CWORD={}; COMP_TYPE=9; \
             _clap_complete_mcpm mcpm '{current}' '{previous}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let bash = Outcome::of(shell(&home, "bash", &["--norc", "-c", &complete]).output().unwrap());
        assert_eq!(bash.stdout.trim_end(), expected, "{line}: {bash:?}");
    }
}

#[test]
fn a_file_name_that_readline_inserts_stays_one_word() {
    let home = home_with_names();
    for name in ["semi;touch pwned", "two words.py", "$(touch pwned).py", "two wires.py"] {
        home.write(name, "");
    }
    // A command is not a folder, even if a folder has its name.
    fs::create_dir(home.path("explain")).unwrap();
    let script = home.run(&["completion", "bash"]).succeeded().stdout;
    // The function prints the line as bash has read it.
    let function = "mcpm() {\n    if [ -n \"$MCPM_COMPLETE\" ]; then command mcpm \"$@\"; return; fi\n    \
                    printf '%s\\n' \"$@\" >words; exit\n}\nPS1='ready> '\n";
    let setup = home.write("bashrc", &(script + function));
    for (line, expected) in [
        ("mcpm run ./sem", &["run", "./semi;touch pwned"][..]),
        ("mcpm run --from-config sem", &["run", "--from-config", "semi;touch pwned"]),
        ("mcpm run './sem", &["run", "./semi;touch pwned"]),
        ("mcpm run ./two\\ wo", &["run", "./two words.py"]),
        ("mcpm run ./two", &["run", "./two w"]),
        ("mcpm run ./\\$", &["run", "./$(touch pwned).py"]),
        ("mcpm run ./te", &["run", "./tea.py"]),
        ("mcpm expl", &["explain"]),
    ] {
        let bash = shell(&home, "script", &[]);
        let mut terminal = PseudoTerminal::spawn(bash, &format!("bash --rcfile {setup} -i"));
        terminal.expect_then_type("ready> ", &format!("{line}\t\r"));
        let (_, shown) = terminal.wait();
        let words = fs::read_to_string(home.path("words")).unwrap_or_else(|error| panic!("{error}: {shown}"));
        assert_eq!(words.lines().collect::<Vec<_>>(), expected, "{line}: {shown}");
        assert!(!home.path("pwned").exists(), "{line}: {shown}");
        fs::remove_file(home.path("words")).unwrap();
    }
}

#[test]
fn fish_completes_commands_options_and_names() {
    let home = home_with_names();
    let script = home.run(&["completion", "fish"]).succeeded().stdout;
    let script = home.write("mcpm.fish", &script);
    for (line, expected) in IN_SHELLS {
        let complete = format!("source {script}; complete --do-complete '{line}'");
        let fish = Outcome::of(shell(&home, "fish", &["--no-config", "-c", &complete]).output().unwrap());
        let found: Vec<&str> = fish.stdout.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert_eq!(found, [expected], "{line}: {fish:?}");
    }
}

#[test]
fn zsh_completes_commands_options_and_names() {
    let home = home_with_names();
    let script = home.run(&["completion", "zsh"]).succeeded().stdout;
    home.write("functions/_mcpm", &script);
    for (line, expected) in IN_SHELLS {
        // Completion needs a terminal, and its widget puts the line into a file.
        let setup = format!(
            "fpath=({1} $fpath); autoload -U compinit; compinit -u -D; shown() {{ print -r -- \"$BUFFER\" >{0}; exit }}; \
             zle -N shown; bindkey '^X' shown; PS1='ready> '\n",
            home.text("line"),
            home.text("functions")
        );
        home.write("home/.zshrc", &setup);
        let zsh = shell(&home, "script", &[]);
        let mut terminal = PseudoTerminal::spawn(zsh, "zsh -i");
        terminal.expect_then_type("ready> ", &format!("{line}\t\u{18}"));
        let (_, shown) = terminal.wait();
        let completed =
            fs::read_to_string(home.path("line")).unwrap_or_else(|error| panic!("{error}: {shown}"));
        assert_eq!(completed.split_whitespace().last(), Some(expected), "{line}: {shown}");
        fs::remove_file(home.path("line")).unwrap();
    }
}
