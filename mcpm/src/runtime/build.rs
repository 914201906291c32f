//! What an image is built from, and what is told meanwhile.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;

/// What an image is built from.
#[derive(Clone, Default)]
pub struct BuildRequest {
    /// A tar archive with a `Dockerfile` in it, and all that it copies.
    pub context: Bytes,
    /// What the image is called; nothing when only its id is wanted.
    pub tag: Option<String>,
    /// Variables of the build. They may hold logins, so they are shown nowhere.
    pub args: BTreeMap<String, String>,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// Whether steps that were done before are done again.
    pub no_cache: bool,
}

impl fmt::Debug for BuildRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<&String> = self.args.keys().collect();
        f.debug_struct("BuildRequest")
            .field("context", &self.context.len())
            .field("tag", &self.tag)
            .field("args", &args)
            .field("labels", &self.labels)
            .field("afresh", &self.no_cache)
            .finish()
    }
}

/// An image without a name that no other image is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntaggedImage {
    /// Its id.
    pub id: String,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// The value of the label that was asked for.
    pub label_value: String,
}

/// What happens in a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildProgress {
    /// A step of the Dockerfile begins.
    Step {
        /// Which one it is, from 1 on.
        number: u32,
        /// How many there are; with Podman in this stage.
        total: u32,
        /// The instruction.
        instruction: String,
    },
    /// A program of the step wrote a line.
    Line(String),
}
