//! Reports notices: problems in a registry that do not prevent its use.

use super::entry::RegistryEntry;
use crate::Result;

/// Called with notices for the user.
pub type OnNotice<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Skips invalid entries, with a notice about their number and the first error.
pub(super) fn collect_readable(
    entries: impl Iterator<Item = Result<RegistryEntry>>,
    on_notice: OnNotice<'_>,
) -> Vec<RegistryEntry> {
    let (mut good, mut bad, mut first) = (Vec::new(), 0_usize, None);
    for entry in entries {
        match entry {
            Ok(entry) => good.push(entry),
            Err(error) => {
                bad += 1;
                first.get_or_insert(error);
            }
        }
    }
    if let Some(error) = first {
        let several = if bad == 1 { "entry" } else { "entries" };
        on_notice(format!("{bad} {several} of the registry cannot be read; first error: {error}"));
    }
    good
}
