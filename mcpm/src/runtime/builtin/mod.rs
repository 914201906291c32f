//! The built-in runtime: containers without an engine, on Linux.

#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "the runtime that starts sandboxes is not implemented yet")
)]
pub(crate) mod sandbox;
