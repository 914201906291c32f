//! Why something was refused, as Python and Swift are told it.

use std::collections::HashMap;

use mcpm::Environment;

use crate::McpmError;

/// Why something was refused.
#[derive(Debug, uniffi::Record)]
pub struct Explanation {
    /// Id of the reason.
    pub reason: String,
    /// The layer that refuses for it.
    pub layer: String,
    /// What it means.
    pub meaning: String,
    /// What usually helps.
    pub usual_fix: String,
    /// The refusal that was asked about, where it was one.
    pub refusal: Option<Refused>,
}

/// One refusal.
#[derive(Debug, uniffi::Record)]
pub struct Refused {
    /// Its id.
    pub id: String,
    /// When it was refused.
    pub time: String,
    /// The server that it was about.
    pub server: String,
    /// The rule that was gone by, where the layer has several.
    pub rule: Option<String>,
    /// What the layer looked at, without secrets.
    pub inputs: HashMap<String, String>,
    /// The smallest change that would have let it pass.
    pub fix: String,
}

impl From<mcpm::Explanation> for Explanation {
    fn from(explanation: mcpm::Explanation) -> Self {
        let mcpm::Explanation { reason, layer, meaning, usual_fix, refusal, .. } = explanation;
        Self { reason, layer, meaning, usual_fix, refusal: refusal.map(Refused::from) }
    }
}

impl From<mcpm::explain::DenialRecord> for Refused {
    fn from(refused: mcpm::explain::DenialRecord) -> Self {
        let mcpm::explain::DenialRecord { version: _, id, time, server, reason: _, rule, inputs, fix } =
            refused;
        Self { id, time, server, rule, inputs: inputs.into_iter().collect(), fix }
    }
}

/// Explains the id of a reason, such as `tools.not_listed`, or of a refusal that a workload or a `mcpm proxy` has on
/// record. Records are found through the variables of this process, as by the command line.
#[uniffi::export]
pub fn explain(id: &str) -> Result<Explanation, McpmError> {
    Ok(mcpm::explain(id, &Environment::from_process())?.into())
}
