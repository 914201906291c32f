//! `mcpm help TOPIC`: prints texts about topics that concern several commands.
//!
//! The parser knows only commands, so a topic is looked up after the parser has rejected the word.

use std::ffi::OsString;

use clap::Command;

/// The text about topics in the help of the program.
pub(crate) const HINT: &str = "Topics: `mcpm help forms`, `mcpm help permissions`, `mcpm help transports`";

/// The topics with their texts.
const TOPICS: [(&str, &str); 3] = [
    ("forms", include_str!("topics/forms.txt")),
    ("permissions", include_str!("topics/permissions.txt")),
    ("transports", include_str!("topics/transports.txt")),
];

/// Returns the topics as commands, for completion.
pub(crate) fn commands() -> impl Iterator<Item = Command> {
    TOPICS.into_iter().map(|(name, text)| {
        Command::new(name).about(text.lines().next().unwrap_or_default()).disable_help_flag(true)
    })
}

/// Returns the text of the topic in `mcpm help TOPIC`.
pub(crate) fn text(arguments: &[OsString]) -> Option<&'static str> {
    let [_, help, topic] = arguments else { return None };
    TOPICS.iter().find(|(name, _)| help == "help" && topic == name).map(|(_, text)| *text)
}
