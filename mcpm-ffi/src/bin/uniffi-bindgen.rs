//! Generates the Python and Swift sources; maturin runs it as well when it builds a wheel.

fn main() {
    uniffi::uniffi_bindgen_main();
}
