//! The option records of Python and Swift; their fields are generated from the option table.

use std::{path::PathBuf, time::Duration};

use mcpm::options::*;

include!("generated/records.rs");
