//! Writes the Python and Swift files; also what maturin runs while it makes a wheel.

fn main() {
    uniffi::uniffi_bindgen_main();
}
