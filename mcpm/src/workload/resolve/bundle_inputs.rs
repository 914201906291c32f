//! Resolves the values that an MCP bundle needs: from options, else from the bundle's defaults, else from prompts.
//!
//! Values become variables, arguments and mounts of the workload. Secrets become variables only. Only the user may
//! choose paths on this machine, so a default that is a path is never used.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use super::{
    input_values::{InputMode, is_secret_target_name},
    registry_values::RegistryValues,
    request::WorkloadRequest,
    variables::requested_variables,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    config_file::read_error_kind,
    options::{EnvVar, Secret, Transport, VolumeSpec, WorkloadOptions},
    package::bundle::{Bundle, ConfigField, ConfigKind, Manifest, Template, TemplatePart},
    printable::Printable as _,
    registry::{RegistryInput, RunMethod},
    workload::{ValueOrigin, spec::SecretFormat},
};

/// The most values of one key.
const MAX_VALUES: usize = 100;

/// The values of a key.
#[derive(Debug, Default)]
struct Values {
    texts: Vec<String>,
    answered: bool,
}

/// The variables and arguments that other options set.
struct Supplied {
    variables: BTreeSet<String>,
    secrets: BTreeSet<String>,
    has_args: bool,
}

impl Supplied {
    fn new(request: &WorkloadRequest) -> Result<Self> {
        Ok(Self {
            variables: requested_variables(request)?.into_keys().collect(),
            secrets: request.options.secret.iter().map(|secret| secret.target.clone()).collect(),
            has_args: !request.options.args.is_empty(),
        })
    }

    /// Tells whether the value of a key is used, but only where other options take its place.
    fn contains(&self, manifest: &Manifest, key: &String) -> bool {
        let mut variables = variables_of(manifest, key).peekable();
        let in_args = manifest.args.iter().any(|arg| arg.keys().any(|used| used == key));
        let is_used = in_args || variables.peek().is_some();
        let is_set = |(name, template)| self.sets(manifest, name, template, key);
        is_used && variables.all(is_set) && (!in_args || self.has_args)
    }

    /// Tells whether an option sets a variable, or the value of a key in it.
    fn sets(&self, manifest: &Manifest, name: &String, template: &Template, key: &String) -> bool {
        let is_secret = || manifest.only_secret(template).is_none_or(|secret| secret == key);
        self.variables.contains(name) || self.secrets.contains(name) && is_secret()
    }
}

/// Resolves the values of the bundle at a path.
///
/// # Errors
/// `InvalidOption` for a value that is invalid, unknown, or missing and cannot be prompted for; `Interrupted`; those of
/// the bundle.
pub(in crate::workload) async fn resolve(
    request: &WorkloadRequest,
    path: &Path,
    environment: &Environment,
    input_mode: &InputMode<'_>,
) -> Result<WorkloadRequest> {
    let bundle = Arc::new(Bundle::open(path)?);
    let manifest = &bundle.manifest;
    let mut request = request.clone();
    let supplied = Supplied::new(&request)?;
    let given = given(manifest, &request.options, &supplied)?;
    reject_secret_arguments(manifest, &request.options)?;
    let (mut values, mut missing) = (BTreeMap::new(), Vec::new());
    for (key, field) in &manifest.config {
        // A given path is mounted, whatever the arguments are.
        if supplied.contains(manifest, key) && !given.contains_key(key) {
            continue;
        }
        let mut found = match given.get(key) {
            Some(texts) => Values { texts: texts.clone(), answered: false },
            None if !is_path(field) && !field.default.is_empty() => {
                Values { texts: field.default.clone(), answered: false }
            }
            None if !field.required => continue,
            None => match input_mode.ask(&question(key, field)).await? {
                Some(answer) => Values { texts: split(field, answer.expose()), answered: true },
                None => {
                    missing.push((key, field));
                    continue;
                }
            },
        };
        check(key, field, &found.texts)?;
        if is_path(field) {
            found.texts = found.texts.iter().map(|text| absolute(&environment.working_dir, text)).collect();
            for text in &found.texts {
                check_path(key, field.kind, text, is_mounted(&request.options, text))?;
            }
        }
        values.insert(key.clone(), found);
    }
    if !missing.is_empty() && !matches!(input_mode, InputMode::DryRun(_)) {
        return Err(missing_values(manifest, &missing, &supplied));
    }
    let mut resolved = RegistryValues {
        run_method: RunMethod { transport: Some(Transport::Stdio), ..RunMethod::default() },
        prompts: input_mode.noted(),
        ..RegistryValues::default()
    };
    for (name, template) in manifest.env.iter().filter(|(name, _)| !supplied.variables.contains(*name)) {
        if supplied.secrets.contains(name) {
            if manifest.only_secret(template).is_some() {
                resolved.secret_formats.extend(secret_format(name, template, manifest, &values));
            }
        } else {
            let is_chosen =
                |key: &String| given.contains_key(key) || values.get(key).is_some_and(|value| value.answered);
            let is_missing = |key: &String| !values.contains_key(key);
            // A dry run lacks values that a start prompts for, and a secret may be supplied to another variable.
            let is_indispensable = |key: &String| {
                let mut variables = variables_of(manifest, key);
                let field = &manifest.config[key];
                let is_set = |(name, template)| supplied.sets(manifest, name, template, key);
                field.required || field.sensitive && variables.any(is_set)
            };
            let is_unset = match template.keys().any(is_chosen) {
                true => template.keys().any(|key| is_missing(key) && is_indispensable(key)),
                false => template.keys().any(is_missing),
            };
            if !is_unset {
                set_variable(name, template, manifest, &values, &mut resolved)?;
            }
        }
    }
    for template in &manifest.args {
        resolved.options.args.extend(expand_argument(template, &values));
    }
    request.options.config.clear();
    // A profile that mounts a path decides how.
    let profile_mounts = request.files.profile()?.map(|profile| profile.mounts.clone()).unwrap_or_default();
    let profile_targets: Vec<String> =
        profile_mounts.iter().map(|mount| mount.paths(&environment.working_dir).1).collect();
    for (key, value) in &values {
        let field = &manifest.config[key];
        if !field.sensitive && (value.answered || given.contains_key(key)) {
            // Answers are exported like given values, so that an import needs no prompt.
            request
                .options
                .config
                .extend(value.texts.iter().map(|text| (key.as_str(), text.as_str()).into()));
        }
        for text in value.texts.iter().filter(|_| is_path(field)) {
            if !is_mounted(&request.options, text) && !profile_targets.contains(text) {
                request.options.volume.push(VolumeSpec::new(text, text));
            }
        }
    }
    request.registry_values = Some(Box::new(resolved));
    request.bundle = Some(bundle);
    Ok(request)
}

/// Returns the values that were given as options.
fn given(
    manifest: &Manifest,
    options: &WorkloadOptions,
    supplied: &Supplied,
) -> Result<BTreeMap<String, Vec<String>>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pair in &options.config {
        let Some(field) = manifest.config.get(&pair.key) else {
            let known: Vec<String> = manifest.config.keys().map(|key| format!("`{key}`")).collect();
            let message = format!("the bundle has no value `{}`", pair.key.printable());
            return Err(Error::new(ErrorKind::InvalidOption, message).hint(match &known[..] {
                [] => "it needs no values".to_owned(),
                _ => format!("it has {}", known.join(", ")),
            }));
        };
        if field.sensitive {
            let message =
                format!("`{}` is a secret, which must not be an argument that other users can see", pair.key);
            let hint = secret_hint(manifest, &pair.key, supplied);
            return Err(Error::new(ErrorKind::InvalidOption, message).hint(hint));
        }
        all.entry(pair.key.clone()).or_default().push(pair.value.clone());
    }
    Ok(all)
}

/// Returns the variables that contain a value.
fn variables_of<'a>(
    manifest: &'a Manifest,
    key: &'a String,
) -> impl Iterator<Item = (&'a String, &'a Template)> {
    manifest.env.iter().filter(move |(_, template)| template.keys().any(|used| used == key))
}

/// Rejects secrets in arguments, which every process of the machine, the engine and the record can read.
fn reject_secret_arguments(manifest: &Manifest, options: &WorkloadOptions) -> Result<()> {
    let mut keys = manifest.args.iter().flat_map(Template::keys).filter(|_| options.args.is_empty());
    match keys.find(|key| manifest.config[*key].sensitive) {
        None => Ok(()),
        Some(key) => {
            let message = format!(
                "the bundle passes the secret `{key}` as an argument, where other users could read it"
            );
            Err(Error::new(ErrorKind::Unsupported, message)
                .hint("pass the server's arguments yourself, with `args`"))
        }
    }
}

const fn is_path(field: &ConfigField) -> bool {
    matches!(field.kind, ConfigKind::Directory | ConfigKind::File)
}

/// Returns an absolute path, which is also the path in the container.
fn absolute(folder: &Path, text: &str) -> String {
    folder.join(text).components().collect::<PathBuf>().to_string_lossy().into_owned()
}

/// Tells whether an option mounts something at a path of the container.
fn is_mounted(options: &WorkloadOptions, path: &str) -> bool {
    options.volume.iter().any(|volume| Path::new(&volume.container_path) == Path::new(path))
}

/// Returns the question for a value.
fn question(key: &str, field: &ConfigField) -> RegistryInput {
    let mut description = field.description.clone();
    if is_path(field) {
        let several = if field.multiple { "one or more paths, separated by `:`" } else { "a path" };
        description += &format!(" ({several})");
    }
    RegistryInput {
        name: key.to_owned(),
        description: Some(description.trim().to_owned()).filter(|text| !text.is_empty()),
        required: true,
        secret: field.sensitive,
        choices: match field.kind {
            ConfigKind::Boolean => vec!["true".to_owned(), "false".to_owned()],
            _ => Vec::new(),
        },
        ..RegistryInput::default()
    }
}

/// Splits an answer into the values of a key.
fn split(field: &ConfigField, answer: &str) -> Vec<String> {
    if field.multiple && is_path(field) {
        return answer.split(':').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    }
    vec![answer.to_owned()]
}

/// Checks the values of a key. Values of secrets are not repeated.
fn check(key: &str, field: &ConfigField, texts: &[String]) -> Result<()> {
    let bad = |what: &str| Err(Error::new(ErrorKind::InvalidOption, format!("the value of `{key}` {what}")));
    if texts.is_empty() || texts.iter().any(String::is_empty) {
        return bad("is empty");
    }
    let max = if field.multiple { MAX_VALUES } else { 1 };
    if texts.len() > max {
        let message = format!("`{key}` has {} values, but the bundle allows at most {max}", texts.len());
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    for text in texts {
        match field.kind {
            ConfigKind::String | ConfigKind::Directory | ConfigKind::File => {}
            ConfigKind::Boolean if text == "true" || text == "false" => {}
            ConfigKind::Boolean => return bad("is neither `true` nor `false`"),
            ConfigKind::Number => {
                let Some(number) = text.parse::<f64>().ok().filter(|number| number.is_finite()) else {
                    return bad("is not a number");
                };
                let (low, high) = field.range;
                if low.is_some_and(|low| number < low) || high.is_some_and(|high| number > high) {
                    let allowed = match (low, high) {
                        (Some(low), Some(high)) => format!("from {low} to {high}"),
                        (Some(low), None) => format!("at least {low}"),
                        (None, high) => format!("at most {}", high.unwrap_or(f64::INFINITY)),
                    };
                    return bad(&format!("must be {allowed}"));
                }
            }
        }
    }
    Ok(())
}

/// Checks an absolute path. If another option mounts something at this path, nothing of this machine has to be there.
fn check_path(key: &str, kind: ConfigKind, text: &str, is_mounted: bool) -> Result<()> {
    let path = Path::new(text);
    let bad = |what: &str| Err(Error::new(ErrorKind::InvalidOption, format!("the value of `{key}` {what}")));
    let climbs = path.components().any(|part| part == Component::ParentDir);
    if climbs || path == Path::new("/") || text.contains([':', '\0']) {
        return bad("is a path that cannot be mounted: it must not be `/`, and must not contain `..` or `:`");
    }
    if is_mounted {
        return Ok(());
    }
    let found = std::fs::metadata(path).map_err(|error| {
        let message = format!("cannot mount `{text}`, the value of `{key}`");
        Error::new(read_error_kind(&error), message).source(error)
    })?;
    match (kind, found.is_dir()) {
        (ConfigKind::Directory, false) => bad("is not a folder"),
        (ConfigKind::File, true) => bad("is a folder, but the bundle needs a file"),
        _ => Ok(()),
    }
}

/// Sets a variable. A value that is not known is empty.
fn set_variable(
    name: &str,
    template: &Template,
    manifest: &Manifest,
    values: &BTreeMap<String, Values>,
    resolved: &mut RegistryValues,
) -> Result<()> {
    let is_answered = |key: &String| values.get(key).is_some_and(|value| value.answered);
    // A default is public, whatever the manifest calls it.
    let is_secret = template.keys().any(|key| manifest.config[key].sensitive && is_answered(key));
    // The name comes from the bundle, so it is checked like one that is typed.
    let fits = !name.contains('=') && format!("{name}=").parse::<EnvVar>().is_ok();
    if !fits || is_secret && !is_secret_target_name(name) {
        let message = format!("`{}` is not a valid name of an environment variable", name.printable());
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    if is_secret {
        let typed = match manifest.only_secret(template) {
            Some(key) => values[key].texts.concat(),
            None => expand(&template.0, values),
        };
        resolved.secret_formats.extend(secret_format(name, template, manifest, values));
        resolved.secrets.insert(name.to_owned(), Secret::from(typed));
    } else {
        let text = expand(&template.0, values);
        let origin =
            if template.keys().any(is_answered) { ValueOrigin::Answered } else { ValueOrigin::Bundle };
        resolved.env.insert(name.to_owned(), (text, origin));
    }
    Ok(())
}

/// Returns how a variable contains its secret; `None` if the value is the secret, or if required parts of it are not
/// known. Other parts that are not known are empty.
fn secret_format(
    name: &str,
    template: &Template,
    manifest: &Manifest,
    values: &BTreeMap<String, Values>,
) -> Option<(String, SecretFormat)> {
    let format = match manifest.only_secret(template) {
        None => SecretFormat::Whole,
        Some(secret) => {
            let at = template.0.iter().position(|part| *part == TemplatePart::Key(secret.clone()))?;
            let is_known =
                |key: &String| key == secret || values.contains_key(key) || !manifest.config[key].required;
            if template.0.len() == 1 || !template.keys().all(is_known) {
                return None;
            }
            let (before, after) = (&template.0[..at], &template.0[at + 1..]);
            SecretFormat::Part { before: expand(before, values), after: expand(after, values) }
        }
    };
    Some((name.to_owned(), format))
}

/// Expands an argument. If the argument consists only of one value, it becomes as many arguments as the value has
/// parts. A value that is not known is empty.
fn expand_argument(template: &Template, values: &BTreeMap<String, Values>) -> Vec<String> {
    match &template.0[..] {
        [TemplatePart::Key(key)] => values.get(key).map(|value| value.texts.clone()).unwrap_or_default(),
        parts => vec![expand(parts, values)],
    }
}

fn expand(parts: &[TemplatePart], values: &BTreeMap<String, Values>) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => text.clone(),
        TemplatePart::Key(key) => values.get(key).map(|value| value.texts.join(",")).unwrap_or_default(),
    };
    parts.iter().map(part).collect()
}

/// Returns the error for values that are missing.
fn missing_values(manifest: &Manifest, missing: &[(&String, &ConfigField)], supplied: &Supplied) -> Error {
    let shown = |(key, field): &(&String, &ConfigField)| match field.description.as_str() {
        "" => format!("`{key}`"),
        what => format!("`{key}` ({what})"),
    };
    let names: Vec<String> = missing.iter().map(shown).collect();
    let mut how = Vec::new();
    if missing.iter().any(|(_, field)| !field.sensitive) {
        how.push("set `config` to `KEY=VALUE`".to_owned());
    }
    how.extend(
        missing
            .iter()
            .filter(|(_, field)| field.sensitive)
            .map(|(key, _)| secret_hint(manifest, key, supplied)),
    );
    how.dedup();
    how.push("run in a terminal to be prompted".to_owned());
    let message = format!("the bundle needs values for {}", names.join(", "));
    Error::new(ErrorKind::InvalidOption, message).hint(how.join(", or "))
}

/// Returns how a secret is given to all variables that lack it.
fn secret_hint(manifest: &Manifest, key: &String, supplied: &Supplied) -> String {
    let lacking =
        variables_of(manifest, key).filter(|(name, template)| !supplied.sets(manifest, name, template, key));
    let options: Vec<String> = lacking
        .map(|(name, template)| match manifest.only_secret(template) {
            Some(_) => format!("set `secret` to `NAME,target={name}`"),
            None => format!("set `secret` to `NAME,target={name}` (the whole value of the variable)"),
        })
        .collect();
    if options.is_empty() { "run in a terminal to be prompted".to_owned() } else { options.join(" and ") }
}

#[cfg(test)]
#[path = "bundle_inputs_tests.rs"]
mod tests;
