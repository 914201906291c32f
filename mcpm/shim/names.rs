//! Addresses that stand for host names in the container.
//!
//! The name with number 0 has 127.77.0.1, the next 127.77.0.2, and so on: loopback addresses, on which the shim can
//! listen. Programs are told 25.77.0.1 and so on in their place, where the shim can redirect their connections: many
//! refuse to connect to addresses that are not public. Nothing leaves the container for either network. Names that
//! are allowed one by one keep their address; those that came up later give way, the oldest first, when there are too
//! many.

use alloc::vec::Vec;

/// The network of the addresses that are connected to.
const LOOPBACK: [u8; 2] = [127, 77];
/// The network of the addresses that programs are told: public, but announced nowhere on the internet. It differs from
/// the other one in the first byte only.
const ADVERTISED: [u8; 2] = [25, 77];
/// Most names at once.
const MAX_NAMES: usize = 16_384;

/// Which name an address stands for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<Vec<u8>>,
    /// How many of them stay.
    fixed: usize,
    /// The next one to give way, once all places are taken.
    oldest: usize,
    parent_domains: Vec<Vec<u8>>,
    any: bool,
    /// The network of the addresses that programs are told.
    network: [u8; 2],
}

impl Names {
    /// `redirected` says whether connections to the public addresses are redirected.
    pub(crate) fn new(names: Vec<Vec<u8>>, below: Vec<Vec<u8>>, any: bool, redirected: bool) -> Self {
        let fixed = names.len();
        let network = if redirected { ADVERTISED } else { LOOPBACK };
        Self { names, fixed, oldest: fixed, parent_domains: below, any, network }
    }

    /// The address that programs are told for a name in lower case, if it is allowed one.
    pub(crate) fn address(&mut self, name: &[u8]) -> Option<[u8; 4]> {
        let number = self.number(name)?;
        let [high, low] = u16::try_from(number + 1).ok()?.to_be_bytes();
        Some([self.network[0], self.network[1], high, low])
    }

    fn number(&mut self, name: &[u8]) -> Option<usize> {
        if let Some(number) = self.names.iter().position(|known| known == name) {
            return Some(number);
        }
        if !self.any && !self.parent_domains.iter().any(|top| is_below(name, top)) {
            return None;
        }
        if self.names.len() < MAX_NAMES {
            self.names.push(name.to_vec());
            return Some(self.names.len() - 1);
        }
        let number = self.oldest;
        *self.names.get_mut(number)? = name.to_vec();
        self.oldest = if number + 1 < MAX_NAMES { number + 1 } else { self.fixed };
        Some(number)
    }

    /// How many names have an address.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// The name that an address stands for that was connected to.
    pub(crate) fn name(&self, address: [u8; 4]) -> Option<&[u8]> {
        let [first, second, high, low] = address;
        let number = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
        let known = self.names.get(number)?;
        ([first, second] == LOOPBACK).then_some(known)
    }
}

/// Tells whether an address is one that programs are told for a name.
pub(crate) fn is_public(address: &[u8]) -> bool {
    address.starts_with(&ADVERTISED)
}

/// The first byte of the address to connect to in place of such a one.
pub(crate) const LOOPBACK_FIRST_BYTE: u8 = LOOPBACK[0];

fn is_below(name: &[u8], top: &[u8]) -> bool {
    name.strip_suffix(top).is_some_and(|rest| rest.len() > 1 && rest.last() == Some(&b'.'))
}
