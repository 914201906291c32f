//! Exports options to Python and Swift as records, whose fields are generated from the option table.

use std::{path::PathBuf, time::Duration};

use mcpm::options::*;

include!("generated/records.rs");
