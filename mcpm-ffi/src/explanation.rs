//! Exports explanations of denials to Python and Swift.

use std::collections::HashMap;

use mcpm::Environment;

use crate::McpmError;

/// The explanation of a denial.
#[derive(Debug, uniffi::Record)]
pub struct Explanation {
    /// The id of the reason.
    pub reason: String,
    /// The layer that denies for this reason.
    pub layer: String,
    /// What the reason means.
    pub meaning: String,
    /// What usually helps.
    pub usual_fix: String,
    /// The denial, if the explained id is the id of a denial.
    pub refusal: Option<Refused>,
}

/// A denial.
#[derive(Debug, uniffi::Record)]
pub struct Refused {
    /// The id of the denial.
    pub id: String,
    /// When the request was denied (RFC 3339).
    pub time: String,
    /// The server that the request was for.
    pub server: String,
    /// The rule that applied, if the layer has several.
    pub rule: Option<String>,
    /// What the decision was based on, redacted.
    pub inputs: HashMap<String, String>,
    /// The smallest change that would have allowed the request.
    pub fix: String,
}

impl From<mcpm::Explanation> for Explanation {
    fn from(explanation: mcpm::Explanation) -> Self {
        let mcpm::Explanation { reason, layer, meaning, usual_fix, refusal, .. } = explanation;
        Self { reason, layer, meaning, usual_fix, refusal: refusal.map(Refused::from) }
    }
}

impl From<mcpm::explain::DenialRecord> for Refused {
    fn from(record: mcpm::explain::DenialRecord) -> Self {
        let mcpm::explain::DenialRecord { version: _, id, time, server, reason: _, rule, inputs, fix } =
            record;
        Self { id, time, server, rule, inputs: inputs.into_iter().collect(), fix }
    }
}

/// Explains a reason, such as `tools.not_listed`, or a recorded denial of a workload or of `mcpm proxy`, by its
/// id. The environment variables of this process determine where the records are, as for the command line.
#[uniffi::export]
pub fn explain(id: &str) -> Result<Explanation, McpmError> {
    Ok(mcpm::explain(id, &Environment::from_process())?.into())
}
