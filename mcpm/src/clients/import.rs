//! Converts a user's existing entries in the configuration files of clients into options for workloads.

use std::{collections::BTreeMap, path::Path, slice};

use serde_json::{Map, Value};
use url::Url;

use super::{ImportCandidate, ImportedServer, table::ClientFormat};
use crate::{
    environment::Variables,
    name::WorkloadName,
    options::Secret,
    package::{Ecosystem, PackageReference, additional},
    redact::is_secret_name,
};

/// A result whose error says why an entry cannot be imported.
type Refusal<T> = Result<T, String>;

/// Converts an entry.
pub(super) fn convert(
    client: &ClientFormat,
    entry: &str,
    value: &Value,
    variables: &Variables,
) -> ImportCandidate {
    let name = WorkloadName::sanitized(entry).to_string();
    let mut import =
        Import { client, name: name.clone(), variables, options: Vec::new(), secrets: BTreeMap::new() };
    let server = import.entry(value).map(|()| {
        import.options.push(("name", name.clone()));
        let original = Secret::from(value.to_string());
        ImportedServer { name, options: import.options, secrets: import.secrets, original }
    });
    ImportCandidate { entry: entry.to_owned(), server }
}

struct Import<'a> {
    client: &'a ClientFormat,
    name: String,
    variables: &'a Variables,
    options: Vec<(&'static str, String)>,
    secrets: BTreeMap<String, Secret>,
}

impl Import<'_> {
    fn entry(&mut self, value: &Value) -> Refusal<()> {
        let Value::Object(fields) = value else { return Err("it is not an object".to_owned()) };
        if fields.get("disabled") == Some(&Value::Bool(true))
            || fields.get("enabled") == Some(&Value::Bool(false))
        {
            return Err("it is disabled".to_owned());
        }
        let format = &self.client.command;
        let own = [format.program, format.env, format.args.unwrap_or_default()];
        // A field that restricts tools or the server must not be lost.
        let unknown = |(name, value): &(&String, &Value)| {
            !own.contains(&name.as_str()) && !KNOWN_FIELDS.contains(&name.as_str()) && !is_empty(value)
        };
        if let Some((field, _)) = fields.iter().find(unknown) {
            return Err(format!("mcpm has no equivalent of its field `{field}`"));
        }
        match (fields.get(format.program), self.url(fields)) {
            (Some(program), _) => {
                let mut words = texts(Some(program))?;
                words.extend(texts(format.args.and_then(|args| fields.get(args)))?);
                let env = pairs(fields.get(format.env))?;
                self.command(&words, env)
            }
            (None, Some((url, sse))) => self.remote(&url, sse, fields),
            (None, None) => Err("it has neither a command nor a URL".to_owned()),
        }
    }

    /// The URL of an entry, and whether it speaks SSE.
    fn url(&self, fields: &Map<String, Value>) -> Option<(String, bool)> {
        let own = self.client.http.as_ref().map_or("url", |http| http.url);
        let names = [own, "url", "serverUrl"];
        let name = names.into_iter().find(|name| fields.get(*name).is_some_and(Value::is_string))?;
        let kind = fields.get("type").and_then(Value::as_str);
        // The field `url` of Gemini CLI is for SSE.
        let sse = kind == Some("sse") || own == "httpUrl" && name == "url" && kind != Some("http");
        Some((fields[name].as_str()?.to_owned(), sse))
    }

    fn remote(&mut self, url: &str, sse: bool, fields: &Map<String, Value>) -> Refusal<()> {
        let url = plain(url)?;
        let has_secret = Url::parse(&url).is_ok_and(|url| {
            let is_credential = url.query_pairs().any(|(name, _)| is_secret_name(&name));
            !url.username().is_empty() || url.password().is_some() || is_credential
        });
        if has_secret {
            return Err("its URL seems to contain a secret; put the secret in a header".to_owned());
        }
        self.options.push(("server", url));
        if sse {
            self.options.push(("transport", "sse".to_owned()));
        }
        let headers = fields.get("headers").or_else(|| fields.get("http_headers"));
        for (header, value) in pairs(headers)? {
            let (value, _) = self.resolved(&value)?;
            if value.is_empty() {
                return Err(format!("its header `{header}` is empty"));
            }
            self.secret(&header, format!("header:{header}"), value);
        }
        if let Some(variable) = fields.get("bearer_token_env_var").and_then(Value::as_str) {
            let token = self.variable(variable)?;
            self.secret("Authorization", "header:Authorization".to_owned(), format!("Bearer {token}"));
        }
        Ok(())
    }

    fn command(&mut self, words: &[String], env: Vec<(String, String)>) -> Refusal<()> {
        if let Some(flag) = words.iter().find(|word| word.starts_with("--") && is_secret_name(word)) {
            let flag = flag.split('=').next().unwrap_or_default();
            return Err(format!(
                "its argument `{flag}` seems to be a secret, and mcpm passes secrets only in environment \
                 variables"
            ));
        }
        let Some((program, args)) = words.split_first() else {
            return Err("its command is empty".to_owned());
        };
        if let Some((name, _)) = env.iter().find(|(name, _)| changes_source(name)) {
            return Err(format!(
                "its variable `{name}` selects the source of packages or images, but mcpm reads this setting \
                 only from its own environment"
            ));
        }
        let file = program.rsplit(['/', '\\']).next().unwrap_or(program);
        let file = [".exe", ".cmd"].iter().find_map(|suffix| file.strip_suffix(suffix)).unwrap_or(file);
        let rest = match (file, args) {
            ("npx" | "bunx", args) => {
                self.package("npx", args, &["-y", "--yes", "-q", "--quiet"], &["-p", "--package"])?
            }
            ("uvx", args) => self.package("uvx", args, &["-q", "--quiet"], &["--from"])?,
            ("uv", [tool, run, args @ ..]) if tool == "tool" && run == "run" => {
                self.package("uvx", args, &["-q", "--quiet"], &["--from"])?
            }
            ("docker" | "podman", [run, args @ ..]) if run == "run" => return self.container(args, env),
            ("mcpm", _) => return Err("it already starts mcpm".to_owned()),
            ("node" | "bun" | "deno" | "python" | "python3" | "uv", _) => {
                return Err(format!(
                    "`{file}` runs a local program, but mcpm imports only packages, images and URLs"
                ));
            }
            _ => return Err(format!("mcpm does not know the command `{file}`")),
        };
        for (name, value) in env {
            self.set_variable(&name, &value)?;
        }
        for arg in rest {
            self.options.push(("args", plain(&arg)?));
        }
        Ok(())
    }

    /// Reads the arguments of a program that runs packages; returns those of the server.
    fn package(
        &mut self,
        scheme: &str,
        args: &[String],
        flags: &[&str],
        from: &[&str],
    ) -> Refusal<Vec<String>> {
        let mut args = args.iter();
        let mut package = None;
        while let Some(arg) = args.next() {
            let (flag, value) =
                arg.split_once('=').map_or((arg.as_str(), None), |(flag, value)| (flag, Some(value)));
            if flags.contains(&arg.as_str()) || arg == "--" {
                continue;
            } else if from.contains(&flag) && package.is_some() {
                return Err("its command names several packages".to_owned());
            } else if from.contains(&flag) {
                package = value.or_else(|| args.next().map(String::as_str));
            } else if scheme == "uvx" && matches!(flag, "--with" | "-w") {
                let with = plain(value.or_else(|| args.next().map(String::as_str)).unwrap_or_default())?;
                additional::requirements(Ecosystem::Python, slice::from_ref(&with))
                    .map_err(|_| "its command names an additional package that mcpm cannot install")?;
                self.options.push(("with_package", with));
            } else if arg.starts_with('-') {
                return Err(format!("mcpm has no equivalent of `{}` in its command", shown(flag)));
            } else {
                if package.is_some_and(|package| package != arg) {
                    self.options.push(("package_command", plain(arg)?));
                }
                let package = plain(package.unwrap_or(arg))?;
                let server = format!("{scheme}://{}", package.replace("==", "@"));
                match PackageReference::parse(&server) {
                    // The working folder of the client is not known.
                    Some(Ok(package)) if package.project().is_some_and(Path::is_relative) => {
                        return Err(format!(
                            "`{}` is a relative path, but the working folder of the client is unknown",
                            shown(&server)
                        ));
                    }
                    Some(Ok(_)) => self.options.push(("server", server)),
                    Some(Err(error)) => return Err(error.message().to_owned()),
                    None => return Err(format!("`{server}` is not a package")),
                }
                return Ok(args.cloned().collect());
            }
        }
        Err("its command names no package".to_owned())
    }

    /// Reads the arguments of `docker run`.
    fn container(&mut self, args: &[String], env: Vec<(String, String)>) -> Refusal<()> {
        let given: BTreeMap<String, String> = env.into_iter().collect();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let (flag, value) = match arg.split_once('=') {
                Some((flag, value)) if arg.starts_with("--") => (flag, Some(value.to_owned())),
                _ => (arg.as_str(), None),
            };
            let mut value = || value.clone().or_else(|| args.next().cloned()).unwrap_or_default();
            let Some(name) = flag.strip_prefix("--").or_else(|| flag.strip_prefix('-')) else {
                // With the prefix, the name is not looked up in the registry.
                self.options.push(("server", format!("image:{}", plain(arg)?)));
                for arg in args {
                    self.options.push(("args", plain(arg)?));
                }
                return Ok(());
            };
            match name {
                "i" | "interactive" | "t" | "tty" | "it" | "ti" | "rm" | "init" => {}
                "name" | "pull" => drop(value()),
                "e" | "env" => {
                    let variable = value();
                    match variable.split_once('=') {
                        Some((name, value)) => self.set_variable(name, value)?,
                        None => match given.get(&variable) {
                            Some(value) => self.set_variable(&variable, value)?,
                            None => {
                                let value = self.variable(&variable)?.to_owned();
                                self.secret(&variable, variable.clone(), value);
                            }
                        },
                    }
                }
                "v" | "volume" => {
                    let volume = plain(&value())?;
                    if !Path::new(volume.split(':').next().unwrap_or_default()).is_absolute() {
                        return Err("it uses a named volume, or a folder without an absolute path".to_owned());
                    }
                    self.options.push(("volume", volume));
                }
                _ => {
                    return Err(format!("mcpm has no equivalent of `{}` in its command", shown(flag)));
                }
            }
        }
        Err("its command names no image".to_owned())
    }

    /// Adds a variable for the server, as a secret if it looks like one.
    fn set_variable(&mut self, name: &str, value: &str) -> Refusal<()> {
        let (value, is_reference) = self.resolved(value)?;
        if !value.is_empty() && (is_reference || is_secret_name(name)) {
            self.secret(name, name.to_owned(), value);
        } else {
            self.options.push(("env", format!("{name}={value}")));
        }
        Ok(())
    }

    fn secret(&mut self, name: &str, target: String, value: String) {
        let secret = format!("{}/{name}", self.name);
        self.options.push(("secret", format!("{secret},target={target}")));
        self.secrets.insert(secret, Secret::from(value));
    }

    /// Replaces references to environment variables, as clients write them; also tells whether there were any.
    fn resolved(&self, text: &str) -> Refusal<(String, bool)> {
        if text.contains("{file:") || is_bare_reference(text) {
            return Err("it contains a reference in a form that mcpm does not support".to_owned());
        }
        let (mut out, mut rest, mut any) = (String::new(), text, false);
        loop {
            let starts =
                ["${env:", "{env:", "${"].into_iter().filter_map(|start| Some((rest.find(start)?, start)));
            let Some((at, start)) = starts.min_by_key(|(at, start)| (*at, usize::MAX - start.len())) else {
                return Ok((out + rest, any));
            };
            let Some((name, after)) = rest[at + start.len()..].split_once('}') else {
                return Ok((out + rest, any));
            };
            let (name, default) =
                name.split_once(":-").map_or((name, None), |(name, text)| (name, Some(text)));
            out += &rest[..at];
            match (self.variable(name), default) {
                (Ok(value), _) => out += value,
                (Err(_), Some(default)) => out += default,
                (Err(refusal), None) => return Err(refusal),
            }
            (rest, any) = (after, true);
        }
    }

    fn variable(&self, name: &str) -> Refusal<&str> {
        let missing = || format!("it refers to the variable `{name}`, which is not set");
        self.variables.get(name).ok_or_else(missing)
    }
}

/// Fields that are converted, and fields that do not affect what runs.
const KNOWN_FIELDS: [&str; 13] = [
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "http_headers",
    "bearer_token_env_var",
    "type",
    "name",
    "description",
    "enabled",
    "disabled",
    "title",
    "displayName",
];

/// Whether a field has an empty value, so that it has no effect.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// Whether a variable says from where packages or images are installed, or on which engine a container runs.
fn changes_source(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["NPM_CONFIG_", "UV_", "PIP_", "DOCKER_", "CONTAINER_HOST"].iter().any(|start| name.starts_with(start))
}

/// Returns a text if it refers to no variable: arguments and URLs are shown and stored in plain text.
fn plain(text: &str) -> Refusal<String> {
    if text.contains("${") || text.contains("{env:") || text.contains("{file:") || is_bare_reference(text) {
        let shown =
            "an argument or its URL refers to a variable, and mcpm would store the value in plain text";
        return Err(shown.to_owned());
    }
    Ok(text.to_owned())
}

/// Whether a text is `$NAME`.
fn is_bare_reference(text: &str) -> bool {
    text.strip_prefix('$')
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// A flag without a value that is attached to it, which may be a secret.
fn shown(flag: &str) -> &str {
    if flag.starts_with("--") {
        flag.split('=').next().unwrap_or_default()
    } else {
        flag.get(..2).unwrap_or(flag)
    }
}

/// A text or a list of texts.
fn texts(value: Option<&Value>) -> Refusal<Vec<String>> {
    let text = |value: &Value| {
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| "its command has an argument that is not a string".to_owned())
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(text).collect(),
        Some(value) => Ok(vec![text(value)?]),
    }
}

/// The pairs of an object of texts.
fn pairs(value: Option<&Value>) -> Refusal<Vec<(String, String)>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let Some(object) = value.as_object() else {
        return Err("its variables or headers are not an object".to_owned());
    };
    let text = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Ok((name.clone(), text.clone())),
        Value::Number(_) | Value::Bool(_) => Ok((name.clone(), value.to_string())),
        _ => Err(format!("its field `{name}` is not a string")),
    };
    object.iter().map(text).collect()
}
