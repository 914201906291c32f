//! Reads the file of `--authz-config`, which contains Cedar policies and their settings.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind, Result,
    config_file::{self, invalid},
};

/// Cedar policies, and how entities are derived from callers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizationSpec {
    /// Cedar policies, one per string.
    pub policies: Vec<String>,
    /// Entities that policies refer to, in Cedar's JSON format.
    #[serde(default, rename = "entities_json", skip_serializing_if = "Option::is_none")]
    pub entities: Option<String>,
    /// The claim that contains the groups of a caller, instead of the default ones.
    #[serde(default, rename = "group_claim_name", skip_serializing_if = "Option::is_none")]
    pub group_claim: Option<String>,
    /// The claim that contains roles of a caller, which are treated as groups.
    #[serde(default, rename = "role_claim_name", skip_serializing_if = "Option::is_none")]
    pub role_claim: Option<String>,
    /// The Cedar entity type of groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_entity_type: Option<String>,
    /// Claims that are a list, or a string of values separated by spaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub multi_valued_claims: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AuthorizationDocument {
    version: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    cedar: Option<Section>,
    /// The section of another authorization type; accepted only to return a specific error.
    #[serde(default)]
    pdp: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    policies: Vec<String>,
    #[serde(default)]
    entities_json: Option<String>,
    #[serde(default)]
    primary_upstream_provider: Option<String>,
    #[serde(default)]
    group_claim_name: Option<String>,
    #[serde(default)]
    role_claim_name: Option<String>,
    #[serde(default)]
    group_entity_type: Option<String>,
    #[serde(default)]
    multi_valued_claims: Vec<String>,
}

/// Reads the file. The policies in it are not parsed.
pub(super) fn read(path: &Path) -> Result<AuthorizationSpec> {
    let document: AuthorizationDocument = config_file::json_or_yaml(path, "authorization configuration")?;
    spec(document).map_err(|error| error.with("file", path.display()))
}

fn spec(document: AuthorizationDocument) -> Result<AuthorizationSpec> {
    if document.version.is_empty() {
        return Err(invalid("`version` is empty".to_owned()));
    }
    if document.kind == "httpv1" || document.pdp.is_some() {
        let message = "external policy decision points (`httpv1`) are not supported yet";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    if document.kind != "cedarv1" {
        return Err(invalid(format!("the type `{}` is unknown", document.kind)).hint("use `cedarv1`"));
    }
    let section = document.cedar.ok_or_else(|| invalid("the section `cedar` is missing".to_owned()))?;
    if section.primary_upstream_provider.is_some_and(|name| !name.is_empty()) {
        let message =
            "`primary_upstream_provider` is not supported: claims are read only from the caller's token";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
    Ok(AuthorizationSpec {
        policies: section.policies,
        entities: non_empty(section.entities_json),
        group_claim: non_empty(section.group_claim_name),
        role_claim: non_empty(section.role_claim_name),
        group_entity_type: non_empty(section.group_entity_type),
        multi_valued_claims: section.multi_valued_claims,
    })
}
