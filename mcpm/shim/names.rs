//! Loopback addresses that stand for host names.
//!
//! The name with number 0 is 127.77.0.1, the next 127.77.0.2, and so on. Names that are allowed one by one keep
//! theirs; those that came up later give way, the oldest first, when there are too many.

use alloc::vec::Vec;

/// The network of the addresses.
pub(crate) const NETWORK: [u8; 2] = [127, 77];
/// Most names at once.
const LIMIT: usize = 16_384;

/// Which name an address stands for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    names: Vec<Vec<u8>>,
    /// How many of them stay.
    fixed: usize,
    /// The next one to give way, once all places are taken.
    oldest: usize,
    below: Vec<Vec<u8>>,
    any: bool,
}

impl Names {
    pub(crate) fn new(names: Vec<Vec<u8>>, below: Vec<Vec<u8>>, any: bool) -> Self {
        let fixed = names.len();
        Self { names, fixed, oldest: fixed, below, any }
    }

    /// The address of a name in lower case, if it is allowed one.
    pub(crate) fn address(&mut self, name: &[u8]) -> Option<[u8; 4]> {
        if let Some(number) = self.names.iter().position(|known| known == name) {
            return address_of(number);
        }
        if !self.any && !self.below.iter().any(|top| is_below(name, top)) {
            return None;
        }
        if self.names.len() < LIMIT {
            self.names.push(name.to_vec());
            return address_of(self.names.len() - 1);
        }
        let number = self.oldest;
        *self.names.get_mut(number)? = name.to_vec();
        self.oldest = if number + 1 < LIMIT { number + 1 } else { self.fixed };
        address_of(number)
    }

    /// The name that an address stands for.
    pub(crate) fn name(&self, address: [u8; 4]) -> Option<&[u8]> {
        let [first, second, high, low] = address;
        let number = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
        let known = self.names.get(number)?;
        ([first, second] == NETWORK).then_some(known)
    }
}

fn address_of(number: usize) -> Option<[u8; 4]> {
    let [high, low] = u16::try_from(number + 1).ok()?.to_be_bytes();
    Some([NETWORK[0], NETWORK[1], high, low])
}

fn is_below(name: &[u8], top: &[u8]) -> bool {
    name.strip_suffix(top).is_some_and(|rest| rest.len() > 1 && rest.last() == Some(&b'.'))
}
