//! Resolves the inputs that a registry entry declares, to a fixed value, to a default, or to the user's answer.

use std::sync::Mutex;

use crate::{
    Error, ErrorKind, Result, options::Secret, registry::RegistryInput, user_prompt::UserPrompt,
    workload::spec::ValueOrigin,
};

/// How missing values are handled.
pub(in crate::workload) enum InputMode<'a> {
    /// The user is prompted, if there is a prompt.
    Interactive(Option<&'a dyn UserPrompt>),
    /// The user is not prompted; the prompts are recorded instead.
    DryRun(Mutex<Vec<String>>),
}

/// A resolved value.
pub(in crate::workload) struct InputValue {
    pub(in crate::workload) text: String,
    pub(in crate::workload) origin: ValueOrigin,
    pub(in crate::workload) secret: bool,
}

/// Tells whether a name is valid as the target of a secret: a variable or a header.
pub(in crate::workload) fn is_secret_target_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=128).contains(&name.len()) && name.chars().all(fits)
}

/// Tells whether the user would be prompted for a secret.
pub(in crate::workload) fn prompts_for_secret(input: &RegistryInput, required: bool, secret: bool) -> bool {
    let (required, secret) = (required || input.required, secret || input.secret);
    match (&input.value, &input.default) {
        (Some(template), _) => input.variables.iter().any(|(name, part)| {
            template.contains(&format!("{{{name}}}")) && prompts_for_secret(part, required, secret)
        }),
        (None, Some(_)) => false,
        (None, None) => required && secret,
    }
}

/// Adds a hint on the option that supplies an input. The error of an input that cannot be prompted for has a hint
/// already.
pub(in crate::workload) fn hint_at_option(error: Error, option: &str) -> Error {
    match (error.kind(), error.next_step().is_some()) {
        (ErrorKind::InvalidOption, true) => {
            error.hint(format!("{option}, or run in a terminal to be prompted"))
        }
        (ErrorKind::InvalidOption, false) => error.hint(option.to_owned()),
        _ => error,
    }
}

/// Returns the value of an input: the fixed value with its variables expanded, else the default, else the user's
/// input.
pub(in crate::workload) async fn resolve_input(
    input: &RegistryInput,
    input_mode: &InputMode<'_>,
) -> Result<Option<InputValue>> {
    if let Some(template) = &input.value {
        return expand_template(template, input, input_mode).await;
    }
    if let Some(default) = &input.default {
        check_choice(input, default)?;
        return Ok(Some(InputValue { text: default.clone(), origin: ValueOrigin::Registry, secret: false }));
    }
    if input.required { input_mode.prompt(input).await } else { Ok(None) }
}

/// Expands the variables of a template once; their values are not expanded again.
pub(super) async fn expand_template(
    template: &str,
    input: &RegistryInput,
    input_mode: &InputMode<'_>,
) -> Result<Option<InputValue>> {
    let mut value = InputValue { text: String::new(), origin: ValueOrigin::Registry, secret: input.secret };
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        value.text += before;
        let variable =
            after.split_once('}').and_then(|(name, rest)| Some((input.variables.get(name)?, rest)));
        let Some((variable, after)) = variable else {
            // A brace that does not begin a known variable is literal.
            value.text.push('{');
            rest = after;
            continue;
        };
        let mut variable = RegistryInput {
            required: variable.required || input.required,
            // A part of a secret is a secret.
            secret: variable.secret || input.secret,
            ..variable.clone()
        };
        if template.len() == variable.name.len() + 2 {
            // The variable is the whole value, so the prompt uses the name of the input.
            variable.name.clone_from(&input.name);
            variable.description = variable.description.or_else(|| input.description.clone());
        }
        let Some(part) = Box::pin(resolve_input(&variable, input_mode)).await? else { return Ok(None) };
        value.text += &part.text;
        value.secret |= part.secret;
        if part.origin == ValueOrigin::Answered {
            value.origin = ValueOrigin::Answered;
        }
        rest = after;
    }
    value.text += rest;
    Ok(Some(value))
}

impl InputMode<'_> {
    /// Asks the user to allow access to this machine. If the user cannot be prompted, access is denied.
    pub(super) async fn confirm_permissions(&self, opening: &str) -> Result<bool> {
        let prompt = match self {
            Self::DryRun(noted) => {
                let mut noted = noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                noted.push(format!("permission for {opening}"));
                return Ok(true);
            }
            Self::Interactive(Some(prompt)) => prompt,
            Self::Interactive(None) => return Ok(false),
        };
        prompt.approve(&format!("the registry entry requests access to {opening} - allow it?")).await
    }

    /// Returns the recorded prompts of a dry run.
    pub(super) fn noted(&self) -> Vec<String> {
        match self {
            Self::DryRun(noted) => noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone(),
            Self::Interactive(_) => Vec::new(),
        }
    }

    /// Prompts for a value; `None` if the user cannot be prompted. A dry run records the prompt instead.
    pub(super) async fn ask(&self, input: &RegistryInput) -> Result<Option<Secret>> {
        let prompt = match self {
            Self::DryRun(noted) => {
                noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(input.name.clone());
                return Ok(None);
            }
            Self::Interactive(prompt) => *prompt,
        };
        let mut question = input.name.clone();
        if let Some(description) = &input.description {
            question += &format!(" - {description}");
        }
        if !input.choices.is_empty() {
            question += &format!(" [{}]", input.choices.join(", "));
        }
        match prompt {
            Some(prompt) if input.secret => prompt.ask_secret(&question).await,
            Some(prompt) => Ok(prompt.ask_text(&question).await?.map(Secret::from)),
            None => Ok(None),
        }
    }

    async fn prompt(&self, input: &RegistryInput) -> Result<Option<InputValue>> {
        let missing = || {
            let what = input.description.as_ref().map(|what| format!(" ({what})")).unwrap_or_default();
            Error::new(
                ErrorKind::InvalidOption,
                format!("the server needs a value for `{}`{what}", input.name),
            )
        };
        let Some(answer) = self.ask(input).await? else {
            if matches!(self, Self::DryRun(_)) {
                return Ok(None);
            }
            return Err(missing().hint("run in a terminal to be prompted"));
        };
        if answer.expose().is_empty() {
            return Err(missing());
        }
        check_choice(input, answer.expose())?;
        Ok(Some(InputValue {
            text: answer.expose().to_owned(),
            origin: ValueOrigin::Answered,
            secret: input.secret,
        }))
    }
}

fn check_choice(input: &RegistryInput, value: &str) -> Result<()> {
    if input.choices.is_empty() || input.choices.iter().any(|choice| choice == value) {
        return Ok(());
    }
    let message = format!("`{}` must be one of {}", input.name, input.choices.join(", "));
    Err(Error::new(ErrorKind::InvalidOption, message))
}
