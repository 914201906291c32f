//! Maps host names to addresses in the container.
//!
//! The first name has the address 127.77.0.1, the next 127.77.0.2, and so on: loopback addresses, on which the shim can
//! listen. Where the shim can redirect connections, programs get 25.77.0.1 and so on instead, since many programs
//! refuse to connect to addresses that are not public. The container has no route to the outside for either network.
//! Names that the configuration lists keep their addresses. Names that get an address when they are looked up lose it,
//! oldest first, when there are too many.

use alloc::vec::Vec;

/// The network of the addresses that the shim listens on.
const LOOPBACK: [u8; 2] = [127, 77];
/// The network of the addresses that programs get: public, but not announced on the internet. It differs from the
/// other one in the first byte only.
const ADVERTISED: [u8; 2] = [25, 77];
/// Most names with an address at once.
const MAX_NAMES: usize = 16_384;

/// Maps addresses to names.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<Vec<u8>>,
    /// Number of names that keep their addresses.
    fixed: usize,
    /// The index of the name that is replaced next, once all addresses are in use.
    oldest: usize,
    parent_domains: Vec<Vec<u8>>,
    any: bool,
    /// The network of the addresses that programs get.
    network: [u8; 2],
}

impl Names {
    /// `redirected` is whether connections to the public addresses are redirected.
    pub(crate) fn new(names: Vec<Vec<u8>>, below: Vec<Vec<u8>>, any: bool, redirected: bool) -> Self {
        let fixed = names.len();
        let network = if redirected { ADVERTISED } else { LOOPBACK };
        Self { names, fixed, oldest: fixed, parent_domains: below, any, network }
    }

    /// Returns the address for a name in lower case, if it may have one.
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

    /// Returns the number of names with an address.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Returns the name for the destination address of a connection.
    pub(crate) fn name(&self, address: [u8; 4]) -> Option<&[u8]> {
        let [first, second, high, low] = address;
        let number = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
        let known = self.names.get(number)?;
        ([first, second] == LOOPBACK).then_some(known)
    }
}

/// Whether an address is one of those that programs get for names.
pub(crate) fn is_public(address: &[u8]) -> bool {
    address.starts_with(&ADVERTISED)
}

/// The first byte of the loopback addresses that replace the public addresses.
pub(crate) const LOOPBACK_FIRST_BYTE: u8 = LOOPBACK[0];

fn is_below(name: &[u8], top: &[u8]) -> bool {
    name.strip_suffix(top).is_some_and(|rest| rest.len() > 1 && rest.last() == Some(&b'.'))
}
