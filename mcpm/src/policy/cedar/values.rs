//! Converts JSON values, such as claims and the arguments of calls, to Cedar values.
//!
//! Integers, such as `6` and `6.0`, become `Long`. Other numbers are rounded to a `decimal` with four decimal places.
//! Arrays become sets, objects become records. `null` is omitted. A number that is too large for its type cannot be
//! converted: a call is denied if a policy reads such an argument, and claims with such a number are omitted. A call is
//! also denied if the arguments that policies read are over the limits, because a Cedar value takes many times the size
//! of the JSON text.

use std::collections::HashMap;

use cedar_policy::RestrictedExpression as Expression;
use serde_json::{Map, Value, value::RawValue};

use super::context::ContextAttributes;
use crate::mcp::fields::Fields;

/// Maximum nesting depth.
const MAX_DEPTH: usize = 32;
/// Maximum size of the arguments that policies read, in bytes.
const MAX_ARGUMENT_BYTES: usize = 256 << 10;
/// Maximum number of values in these arguments.
const MAX_VALUES: usize = 10_000;
/// Prefix of the attributes of arguments.
const ARGUMENT_PREFIX: &str = "arg_";
/// Suffix of the attribute that is true if an argument without a comparable value is present.
const PRESENT_SUFFIX: &str = "_present";
/// Integers up to this are exact in a float.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;
/// The largest `decimal`: 64 bits with four decimal places.
const MAX_DECIMAL: f64 = 922_337_203_685_477.0;

/// Why arguments cannot be converted for policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ArgumentsError {
    /// The arguments are ambiguous or malformed.
    Unclear(String),
    /// The arguments have no representation in Cedar, or are over the limits.
    Undecided(String),
}

impl ArgumentsError {
    /// The explanation.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Unclear(reason) | Self::Undecided(reason) => reason,
        }
    }
}

/// The arguments of a call: all names, and the values that policies read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    names: Vec<String>,
    values: Map<String, Value>,
}

impl Arguments {
    /// Parses an object. Duplicate names are rejected, both among the arguments and, at any depth, in the values that
    /// policies read.
    pub(super) fn read(text: &str, read: &ContextAttributes) -> Result<Self, ArgumentsError> {
        let fields = Fields::read(text).ok_or_else(|| unreadable("they are not an object"))?;
        let fields = fields.all_unique().map_err(|ambiguous| unreadable(&ambiguous.to_string()))?;
        let names = fields.iter().map(|(name, _)| name.to_string()).collect();
        let of_policies = |name: &str| {
            read.contains_any(|attribute| {
                let rest = attribute.strip_prefix(ARGUMENT_PREFIX).and_then(|rest| rest.strip_prefix(name));
                rest.is_some_and(|rest| matches!(rest, "" | PRESENT_SUFFIX))
            })
        };
        let fields: Vec<_> = fields.iter().filter(|(name, _)| of_policies(name)).collect();
        if fields.iter().any(|(name, _)| name.ends_with(PRESENT_SUFFIX) && read.contains(&attribute(name))) {
            let reason =
                format!("the name of one argument is the name of another with `{PRESENT_SUFFIX}` appended");
            return Err(ArgumentsError::Unclear(reason));
        }
        if fields.iter().map(|(_, value)| value.get().len()).sum::<usize>() > MAX_ARGUMENT_BYTES {
            let reason =
                format!("the arguments that policies read are larger than {MAX_ARGUMENT_BYTES} bytes");
            return Err(ArgumentsError::Undecided(reason));
        }
        let mut left = MAX_VALUES;
        let values = fields
            .iter()
            .map(|(name, value)| Ok((name.to_string(), parse_value(value.get(), 1, &mut left)?)));
        Ok(Self { names, values: values.collect::<Result<_, _>>()? })
    }

    /// Whether policies read any of the arguments.
    pub(super) fn are_read(&self) -> bool {
        !self.values.is_empty()
    }

    /// The names of all arguments, as a text for messages.
    pub(crate) fn names(&self) -> String {
        self.names.join(", ")
    }
}

/// The context attribute of an argument.
fn attribute(name: &str) -> String {
    format!("{ARGUMENT_PREFIX}{name}")
}

fn unreadable(reason: &str) -> ArgumentsError {
    ArgumentsError::Unclear(format!("the arguments cannot be parsed: {reason}"))
}

fn parse_value(text: &str, depth: usize, left: &mut usize) -> Result<Value, ArgumentsError> {
    if depth > MAX_DEPTH {
        return Err(unreadable("they are nested too deeply"));
    }
    let Some(less) = left.checked_sub(1) else {
        let reason = format!("the arguments that policies read have more than {MAX_VALUES} values");
        return Err(ArgumentsError::Undecided(reason));
    };
    *left = less;
    if text.starts_with('{') {
        let fields = Fields::read(text).ok_or_else(|| unreadable("an object is malformed"))?;
        let fields = fields.all_unique().map_err(|ambiguous| unreadable(&ambiguous.to_string()))?;
        let values = fields
            .iter()
            .map(|(key, value)| Ok((key.to_string(), parse_value(value.get(), depth + 1, left)?)));
        return Ok(Value::Object(values.collect::<Result<_, ArgumentsError>>()?));
    }
    if text.starts_with('[') {
        let items: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| unreadable(&error.to_string()))?;
        let items = items.iter().map(|item| parse_value(item.get(), depth + 1, left));
        return Ok(Value::Array(items.collect::<Result<_, _>>()?));
    }
    serde_json::from_str(text).map_err(|_| unreadable("a value is malformed"))
}

/// Converts a JSON value; `None` for `null`.
pub(super) fn to_cedar(json: &Value) -> Result<Option<Expression>, ArgumentsError> {
    Ok(Some(match json {
        Value::Null => return Ok(None),
        Value::Bool(truth) => Expression::new_bool(*truth),
        Value::String(text) => Expression::new_string(text.clone()),
        Value::Number(number) => return self::number(number).map(Some),
        Value::Array(items) => {
            let items: Vec<Option<Expression>> = items.iter().map(to_cedar).collect::<Result<_, _>>()?;
            Expression::new_set(items.into_iter().flatten())
        }
        Value::Object(fields) => {
            let mut record = Vec::with_capacity(fields.len());
            for (key, field) in fields {
                record.extend(to_cedar(field)?.map(|value| (key.clone(), value)));
            }
            Expression::new_record(record).map_err(|error| ArgumentsError::Undecided(error.to_string()))?
        }
    }))
}

fn number(number: &serde_json::Number) -> Result<Expression, ArgumentsError> {
    if let Some(whole) = number.as_i64() {
        return Ok(Expression::new_long(whole));
    }
    let float = number.as_f64().filter(|float| float.is_finite() && number.as_u64().is_none());
    match float {
        // `6.0` and `6` are the same number in JSON.
        #[expect(clippy::cast_possible_truncation, reason = "it is an integer in range")]
        Some(float) if float.fract() == 0.0 && float.abs() <= MAX_EXACT_INTEGER => {
            Ok(Expression::new_long(float as i64))
        }
        Some(float) if float.abs() < MAX_DECIMAL => Ok(Expression::new_decimal(format!("{float:.4}"))),
        _ => Err(ArgumentsError::Undecided("a number is too large for a policy".to_owned())),
    }
}

/// The context attributes of a call's arguments: `arg_NAME`, and for lists and objects also `arg_NAME_present`.
pub(super) fn context_pairs(
    arguments: Option<&Arguments>,
) -> Result<HashMap<String, Expression>, ArgumentsError> {
    let mut pairs = HashMap::new();
    for (name, argument) in arguments.iter().flat_map(|arguments| &arguments.values) {
        let name = attribute(name);
        if argument.is_array() || argument.is_object() {
            pairs.insert(format!("{name}{PRESENT_SUFFIX}"), Expression::new_bool(true));
        }
        pairs.extend(to_cedar(argument)?.map(|value| (name, value)));
    }
    Ok(pairs)
}
