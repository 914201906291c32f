//! Creates the entry of a workload in the format of each client.

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;

use super::{
    ClientTarget,
    edit::{FieldValue, Fields},
    table::{ClientFormat, Fixed, TokenReference},
};
use crate::{Error, ErrorKind, Result, options::ProxyMode};

/// How the client starts `mcpm proxy stdio`.
#[derive(Debug, Clone)]
pub(super) struct BridgeCommand {
    pub(super) program: String,
    pub(super) env: BTreeMap<String, String>,
}

/// Returns the fields of an entry, and its URL unless it is a command.
pub(super) fn entry<'a>(
    client: &ClientFormat,
    target: &'a ClientTarget,
    token_variable: Option<&str>,
    bridge: &BridgeCommand,
) -> Result<(Fields, Option<&'a str>)> {
    let http = client.http.as_ref().filter(|_| target.transport == ProxyMode::StreamableHttp);
    let fixed = |fixed: &[(&'static str, Fixed)]| -> Fields {
        let value = |value: &Fixed| match value {
            Fixed::Text(text) => FieldValue::Text((*text).to_owned()),
            Fixed::Flag(flag) => FieldValue::Flag(*flag),
            Fixed::Name => FieldValue::Text(target.name.clone()),
        };
        fixed.iter().map(|(name, field)| (*name, value(field))).collect()
    };
    if let Some(http) = http {
        let mut fields = fixed(http.fixed);
        fields.push((http.url, FieldValue::Text(target.url.clone())));
        if let Some(variable) = token_variable {
            fields.push(token(client, http.token, variable)?);
        }
        return Ok((fields, Some(&target.url)));
    }
    if token_variable.is_some() {
        let message = format!("the entry for {} is a command, and this command sends no token", client.name);
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let format = &client.command;
    let mut fields = fixed(format.fixed);
    let args = ["proxy", "stdio", &target.name].map(str::to_owned);
    match format.args {
        Some(name) => {
            fields.push((format.program, FieldValue::Text(bridge.program.clone())));
            fields.push((name, FieldValue::List(args.to_vec())));
        }
        None => {
            let list = std::iter::once(bridge.program.clone()).chain(args).collect();
            fields.push((format.program, FieldValue::List(list)));
        }
    }
    if !bridge.env.is_empty() {
        fields.push((format.env, FieldValue::Map(bridge.env.clone())));
    }
    Ok((fields, None))
}

/// The field that refers to a bearer token in a variable.
fn token(
    client: &ClientFormat,
    reference: TokenReference,
    variable: &str,
) -> Result<(&'static str, FieldValue)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if variable.is_empty()
        || variable.starts_with(|c: char| c.is_ascii_digit())
        || !variable.chars().all(is_name)
    {
        // It may be the token.
        let message = "the name of the variable for the token may have only ASCII letters, digits and `_`";
        return Err(Error::new(ErrorKind::InvalidOption, message)
            .hint("pass the name of the variable, not the token"));
    }
    match reference {
        TokenReference::Header(before, after) => {
            let value = format!("Bearer {before}{variable}{after}");
            Ok(("headers", FieldValue::Map(BTreeMap::from([("Authorization".to_owned(), value)]))))
        }
        TokenReference::Field(field) => Ok((field, FieldValue::Text(variable.to_owned()))),
        TokenReference::Unsupported => {
            let message = format!(
                "{} cannot read a token from an environment variable, and mcpm never writes a token into a file",
                client.name
            );
            Err(Error::new(ErrorKind::Unsupported, message)
                .hint("leave out the variable: a client that supports OAuth logs in by itself"))
        }
    }
}

/// Whether a program is mcpm, rather than one that starts it.
fn is_mcpm(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"mcpm"))
}

/// Leaves out the fields that say how the client treats an entry, where the entry has them: the user may have changed
/// them.
pub(super) fn without_fixed(client: &ClientFormat, mut fields: Fields, entry: &Value) -> Fields {
    let fixed = client.http.iter().flat_map(|http| http.fixed).chain(client.command.fixed);
    let fixed: Vec<&str> = fixed.map(|(name, _)| *name).filter(|name| entry.get(name).is_some()).collect();
    fields.retain(|(name, _)| !fixed.contains(name));
    fields
}

/// Whether an entry in a file is the one that mcpm wrote for a workload. Fields that the user has added do not matter.
pub(super) fn is_own(client: &ClientFormat, name: &str, url: Option<&str>, entry: &Value) -> bool {
    match (url, &client.http) {
        (Some(url), Some(http)) => entry.get(http.url).and_then(Value::as_str) == Some(url),
        _ => {
            let program = entry.get(client.command.program);
            let program = program.and_then(|program| program.as_str().or_else(|| program.get(0)?.as_str()));
            let args =
                entry.get(client.command.args.unwrap_or(client.command.program)).and_then(Value::as_array);
            let bridge = ["proxy", "stdio", name].map(Value::from);
            program.is_some_and(is_mcpm) && args.is_some_and(|args| args.ends_with(&bridge))
        }
    }
}
