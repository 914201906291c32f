//! Reads the environment variables `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` (OpenTelemetry, "Environment
//! Variable Specification").
//!
//! Options take precedence. No other OpenTelemetry variable is read here: only options determine the endpoint.

use std::collections::BTreeMap;

use crate::environment::Variables;

const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
const SERVICE_NAME_ATTRIBUTE: &str = "service.name";

/// The attributes of the service.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ServiceVariables {
    pub(super) name: Option<String>,
    pub(super) attributes: BTreeMap<String, String>,
}

impl ServiceVariables {
    /// Reads the variables. A malformed list of attributes is ignored with a warning.
    pub(super) fn from_variables(variables: &Variables) -> Self {
        let text = |name: &str| variables.get(name).filter(|text| !text.is_empty());
        let mut attributes = match text(ATTRIBUTES).map(attributes) {
            Some(Some(attributes)) => attributes,
            Some(None) => {
                tracing::warn!("`{ATTRIBUTES}` is not a list of `key=value`; it is ignored");
                BTreeMap::new()
            }
            None => BTreeMap::new(),
        };
        let in_list = attributes.remove(SERVICE_NAME_ATTRIBUTE).filter(|name| !name.is_empty());
        Self { name: text(SERVICE_NAME).map(str::to_owned).or(in_list), attributes }
    }
}

/// Parses a list of `key=value` with percent-encoded values.
fn attributes(text: &str) -> Option<BTreeMap<String, String>> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| {
            let (key, value) = entry.split_once('=')?;
            let (key, value) = (key.trim(), decoded(value.trim())?);
            (!key.is_empty()).then(|| (key.to_owned(), value))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(part.as_bytes().get(2..)?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, attributes: &str) -> (Option<String>, Vec<(String, String)>) {
        let all = [(SERVICE_NAME, name), (ATTRIBUTES, attributes)];
        let all = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let found = ServiceVariables::from_variables(&all);
        (found.name, found.attributes.into_iter().collect())
    }

    #[test]
    fn otel_service_name_takes_precedence_over_resource_attributes() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read("", ""), (None, Vec::new()));
        assert_eq!(read("a", "service.name=b"), (Some("a".to_owned()), Vec::new()));
        let (name, attributes) = read("", "service.name=b, team=a%2Cb%3D%C3%A4 ,x=1=2,");
        assert_eq!(name.as_deref(), Some("b"));
        assert_eq!(attributes, [pair("team", "a,b=\u{e4}"), pair("x", "1=2")]);
    }

    #[test]
    fn an_unparsable_attribute_list_is_ignored() {
        for text in ["x", "=y", "a=1,x", "a=%", "a=%4", "a=%zz", "a=%ff", "a=%+1"] {
            assert_eq!(read("", text), (None, Vec::new()), "{text}");
        }
        assert_eq!(ServiceVariables::from_variables(&Variables::default()), ServiceVariables::default());
    }
}
