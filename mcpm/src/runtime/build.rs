//! The input and the progress of an image build.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;

use crate::permission::HostRule;

/// The input of an image build.
#[derive(Clone, Default)]
pub struct BuildRequest {
    /// A tar archive with a `Dockerfile` and the files that it copies.
    pub context: Bytes,
    /// The name of the image; `None` if only its id is used.
    pub tag: Option<String>,
    /// Variables of the build. They may contain credentials, so they are never shown.
    pub args: BTreeMap<String, String>,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// Whether the build cache is ignored.
    pub no_cache: bool,
    /// Hosts that the programs of the build may connect to; `None` for all. Engines ignore this, since they cannot
    /// restrict builds.
    pub hosts: Option<Vec<HostRule>>,
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
    /// The time of its creation, in seconds since 1970.
    pub created: i64,
    /// The value of the requested label.
    pub label_value: String,
}

/// The progress of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildProgress {
    /// A step of the Dockerfile begins.
    Step {
        /// The number of the step, from 1.
        number: u32,
        /// The number of steps; with Podman, of this stage.
        total: u32,
        /// The instruction.
        instruction: String,
    },
    /// A program of the step wrote a line.
    Line(String),
}
