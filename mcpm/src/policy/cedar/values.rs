//! Cedar's values of JSON.
//!
//! Whole numbers are `Long`, others `decimal` with four places; arrays are sets and objects records. `null` has no
//! value and is left out. A number that has no place in either is refused, so that a policy does not miss it.

use std::{collections::HashMap, fmt};

use cedar_policy::RestrictedExpression as Expression;
use serde_json::{Map, Value, value::RawValue};

use crate::mcp::fields::Fields;

/// Deepest nesting.
const DEEPEST: usize = 32;
/// Whole numbers up to here are exact in a float.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// A decimal has four places in 64 bits.
const LARGEST_DECIMAL: f64 = 922_337_203_685_477.0;

/// A value that cannot be shown to policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfit(String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads an object in which nothing can be read in two ways, however deep.
pub(crate) fn strict(text: &str) -> Result<Map<String, Value>, Unfit> {
    match deep(text, 0)? {
        Value::Object(map) => Ok(map),
        _ => Err(Unfit("the arguments are no object".to_owned())),
    }
}

fn deep(text: &str, depth: usize) -> Result<Value, Unfit> {
    let bad = |reason: String| Unfit(format!("the arguments cannot be read: {reason}"));
    if depth > DEEPEST {
        return Err(bad("they are nested too deep".to_owned()));
    }
    if text.starts_with('{') {
        let fields = Fields::read(text).ok_or_else(|| bad("an object is broken".to_owned()))?;
        let fields = fields.all().map_err(|ambiguous| bad(ambiguous.to_string()))?;
        let values = fields.iter().map(|(key, value)| Ok((key.to_string(), deep(value.get(), depth + 1)?)));
        return Ok(Value::Object(values.collect::<Result<_, Unfit>>()?));
    }
    if text.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
        let items = items.iter().map(|item| deep(item.get(), depth + 1));
        return Ok(Value::Array(items.collect::<Result<_, _>>()?));
    }
    serde_json::from_str(text).map_err(|_| bad("a value is broken".to_owned()))
}

/// The value of a JSON value; `None` for `null`.
pub(super) fn value(json: &Value) -> Result<Option<Expression>, Unfit> {
    Ok(Some(match json {
        Value::Null => return Ok(None),
        Value::Bool(truth) => Expression::new_bool(*truth),
        Value::String(text) => Expression::new_string(text.clone()),
        Value::Number(number) => return self::number(number).map(Some),
        Value::Array(items) => {
            let items: Vec<Option<Expression>> = items.iter().map(value).collect::<Result<_, _>>()?;
            Expression::new_set(items.into_iter().flatten())
        }
        Value::Object(fields) => {
            let mut record = Vec::with_capacity(fields.len());
            for (key, field) in fields {
                record.extend(value(field)?.map(|value| (key.clone(), value)));
            }
            Expression::new_record(record).map_err(|error| Unfit(error.to_string()))?
        }
    }))
}

fn number(number: &serde_json::Number) -> Result<Expression, Unfit> {
    if let Some(whole) = number.as_i64() {
        return Ok(Expression::new_long(whole));
    }
    let float = number.as_f64().filter(|float| float.is_finite() && number.as_u64().is_none());
    match float {
        // 6.0 is 6: senders write it in both ways.
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT => Ok(Expression::new_long(float as i64)),
        Some(float) if float.abs() < LARGEST_DECIMAL => Ok(Expression::new_decimal(format!("{float:.4}"))),
        _ => Err(Unfit("a number is too large for a policy".to_owned())),
    }
}

/// What policies see of a call's arguments: `arg_NAME`, and for lists and objects `arg_NAME_present` as well.
pub(super) fn arguments(
    arguments: Option<&Map<String, Value>>,
) -> Result<HashMap<String, Expression>, Unfit> {
    let mut pairs = HashMap::new();
    for (name, argument) in arguments.into_iter().flatten() {
        pairs.extend(value(argument)?.map(|value| (format!("arg_{name}"), value)));
    }
    // After the arguments themselves, so that none of them pretends to be this.
    for (name, argument) in arguments.into_iter().flatten() {
        if argument.is_array() || argument.is_object() {
            pairs.insert(format!("arg_{name}_present"), Expression::new_bool(true));
        }
    }
    Ok(pairs)
}
