//! The FNV-1a hash, for file names and labels that need no protection against collisions.

/// Returns the 64-bit FNV-1a hash, which is the same in every build, unlike that of the standard library.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
