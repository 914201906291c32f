//! The owners of sessions, calls and tasks, if callers are authenticated.

use std::sync::Arc;

use crate::memory::{Account, Payer};

/// An authenticated caller. Without authentication, sessions and calls have no owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// Issuer, subject and client; empty without authentication.
    key: Arc<str>,
    /// Issuer and subject.
    caller_key: Arc<str>,
}

impl Owner {
    pub(crate) fn new(issuer: &str, subject: &str, client: &str) -> Self {
        // The key is JSON, so that different owners have different keys. Serializing strings to memory does not fail.
        let key = serde_json::to_string(&[issuer, subject, client]).unwrap_or_default();
        let caller_key = serde_json::to_string(&[issuer, subject]).unwrap_or_default();
        Self { key: key.into(), caller_key: caller_key.into() }
    }

    /// The owner without authentication, for code that needs one.
    pub(crate) fn anonymous() -> Self {
        Self { key: Arc::default(), caller_key: Arc::default() }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.key.is_empty()
    }

    /// Returns issuer, subject and client as a text for messages.
    pub(crate) fn as_str(&self) -> &str {
        &self.key
    }

    /// Returns issuer and subject without the client, because callers may be able to register any number of clients.
    pub(crate) fn caller_key(&self) -> &Arc<str> {
        &self.caller_key
    }
}

/// Returns the account that is charged for a caller; without authentication, each session and each stateless call has
/// an account of its own.
pub(crate) fn account_of(owner: Option<&Owner>) -> Arc<Account> {
    owner.map_or_else(Account::new, |owner| Account::of(Payer::Person(Arc::clone(owner.caller_key()))))
}

/// The owners that a process has served since it was started. A process that has served several owners may send a
/// message about any of them at any time, even when only one of them still uses it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessOwners {
    #[default]
    None,
    /// One owner; `None` without authentication.
    One(Option<Owner>),
    /// Several clients of one caller.
    OnePerson(Arc<str>),
    Several,
}

impl ProcessOwners {
    /// Records an owner that the process serves.
    pub(crate) fn add(&mut self, owner: Option<&Owner>) {
        match self {
            Self::None => *self = Self::One(owner.cloned()),
            Self::One(one) if one.as_ref() == owner => {}
            Self::One(_) | Self::OnePerson(_) => {
                *self = match owner {
                    Some(owner) if self.is_of_person(owner) => {
                        Self::OnePerson(Arc::clone(owner.caller_key()))
                    }
                    _ => Self::Several,
                }
            }
            Self::Several => {}
        }
    }

    /// Whether the process has served several owners, which may be clients of one caller.
    pub(crate) fn is_several(&self) -> bool {
        matches!(self, Self::OnePerson(_) | Self::Several)
    }

    /// Whether the process has served only this caller, through any of its clients.
    pub(crate) fn is_of_person(&self, owner: &Owner) -> bool {
        match self {
            Self::One(Some(one)) => one.caller_key() == owner.caller_key(),
            Self::OnePerson(person) => person == owner.caller_key(),
            Self::One(None) | Self::None | Self::Several => false,
        }
    }

    /// Whether the process has served no other owner.
    pub(crate) fn is_exclusive_to(&self, owner: Option<&Owner>) -> bool {
        match self {
            Self::None => true,
            Self::One(one) => one.as_ref() == owner,
            Self::OnePerson(_) | Self::Several => false,
        }
    }
}
