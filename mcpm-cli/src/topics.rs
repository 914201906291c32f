//! `mcpm help TOPIC`: texts about what several commands have in common.
//!
//! The parser knows commands only, so a topic is looked for after it has rejected one.

use std::ffi::OsString;

use clap::Command;

/// What the help of the program says about topics.
pub(crate) const HINT: &str = "Topics: `mcpm help forms`, `mcpm help permissions`, `mcpm help transports`";

/// The topics with their texts.
const TOPICS: [(&str, &str); 3] = [
    ("forms", include_str!("topics/forms.txt")),
    ("permissions", include_str!("topics/permissions.txt")),
    ("transports", include_str!("topics/transports.txt")),
];

/// The topics as commands, for completion.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    TOPICS.into_iter().map(|(name, text)| {
        Command::new(name).about(text.lines().next().unwrap_or_default()).disable_help_flag(true)
    })
}

/// Returns the text that `mcpm help TOPIC` asks for.
pub(crate) fn text(arguments: &[OsString]) -> Option<&'static str> {
    let [_, help, topic] = arguments else { return None };
    TOPICS.iter().find(|(name, _)| help == "help" && topic == name).map(|(_, text)| *text)
}
