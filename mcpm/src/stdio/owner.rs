//! Whose a session, a call or a task is, where callers are asked who they are.

use std::sync::Arc;

use crate::memory::{Account, Payer};

/// One who calls. Where nobody is asked who they are, there are none.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// Issuer, subject and client; empty where nobody is asked.
    key: Arc<str>,
    /// Issuer and subject.
    caller_key: Arc<str>,
}

impl Owner {
    pub(crate) fn new(issuer: &str, subject: &str, client: &str) -> Self {
        let whole = serde_json::json!([issuer, subject, client]);
        let person = serde_json::json!([issuer, subject]);
        Self { key: whole.to_string().into(), caller_key: person.to_string().into() }
    }

    /// Who calls where nobody is asked who they are, for what needs an owner.
    pub(crate) fn anonymous() -> Self {
        Self { key: Arc::default(), caller_key: Arc::default() }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.key.is_empty()
    }

    /// Issuer, subject and client, for people.
    pub(crate) fn as_str(&self) -> &str {
        &self.key
    }

    /// Issuer and subject, whatever client they come with: where clients register themselves, anybody has many.
    pub(crate) fn caller_key(&self) -> &Arc<str> {
        &self.caller_key
    }
}

/// The account that is charged for what is kept for a caller; where callers are not told apart, each session and each
/// stateless call has its own.
pub(crate) fn account_of(owner: Option<&Owner>) -> Arc<Account> {
    owner.map_or_else(Account::new, |owner| Account::of(Payer::Person(Arc::clone(owner.caller_key()))))
}

/// For whom a server's process has worked since it was started. One that has ever worked for several may say
/// something about any of them at any time, also when only one is there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ProcessOwners {
    #[default]
    None,
    /// `None` where nobody is asked who they are.
    One(Option<Owner>),
    /// Several clients of one person.
    OnePerson(Arc<str>),
    Several,
}

impl ProcessOwners {
    /// Notes for whom it works.
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

    /// Whether it has worked for several owners, be they one person's.
    pub(crate) fn is_several(&self) -> bool {
        matches!(self, Self::OnePerson(_) | Self::Several)
    }

    /// Whether it has worked for this person alone, whatever clients they come with.
    pub(crate) fn is_of_person(&self, owner: &Owner) -> bool {
        match self {
            Self::One(Some(one)) => one.caller_key() == owner.caller_key(),
            Self::OnePerson(person) => person == owner.caller_key(),
            Self::One(None) | Self::None | Self::Several => false,
        }
    }

    /// Whether it has worked for nobody else.
    pub(crate) fn is_exclusive_to(&self, owner: Option<&Owner>) -> bool {
        match self {
            Self::None => true,
            Self::One(one) => one.as_ref() == owner,
            Self::OnePerson(_) | Self::Several => false,
        }
    }
}
