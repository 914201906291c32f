//! The FNV-1a hash, for names and labels that need no protection against collisions.

/// The 64-bit FNV-1a hash: the same in every build, which the standard library's hasher does not promise.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
