//! Generates the Python and Swift sources. maturin also runs this program when it builds a wheel.

fn main() {
    uniffi::uniffi_bindgen_main();
}
