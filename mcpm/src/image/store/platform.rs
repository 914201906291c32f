//! Detects the platform of this machine, and decides which images of a multi-platform index it can run.

use std::{env::consts::ARCH, fmt};

use serde::Deserialize;

use super::config::LINUX;
use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// The platform of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(super) struct ImagePlatform {
    #[serde(default)]
    pub(super) os: String,
    #[serde(default)]
    pub(super) architecture: String,
    #[serde(default)]
    pub(super) variant: Option<String>,
}

impl fmt::Display for ImagePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        match &self.variant {
            Some(variant) if !variant.is_empty() => write!(f, "/{variant}"),
            _ => Ok(()),
        }
    }
}

/// An architecture, and its variants that a machine runs, best first; an empty one for images without a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MachinePlatform {
    architecture: &'static str,
    variants: Vec<&'static str>,
}

impl MachinePlatform {
    /// The platform of this machine.
    pub(super) fn current() -> Self {
        let machine = rustix::system::uname();
        Self::of(ARCH, &machine.machine().to_string_lossy())
    }

    /// The platform in the terms of images, for an architecture of Rust and the kernel's name of the machine.
    fn of(arch: &'static str, machine: &str) -> Self {
        let (architecture, variants) = match arch {
            // Programs for v2 and later check the processor, or crash on old ones.
            "x86_64" => ("amd64", vec!["", "v1"]),
            "x86" => ("386", vec![""]),
            "aarch64" => ("arm64", vec!["v8", ""]),
            "arm" if machine.starts_with("armv6") => ("arm", vec!["v6", "v5", ""]),
            "arm" => ("arm", vec!["v7", "v6", "v5", ""]),
            "powerpc64" => ("ppc64le", vec![""]),
            "loongarch64" => ("loong64", vec![""]),
            other => (other, vec![""]),
        };
        Self { architecture, variants }
    }

    /// The architecture, as in the configuration of images.
    pub(super) fn architecture(&self) -> &'static str {
        self.architecture
    }

    /// How well an image suits this machine, from 0 for the best; `None` if the image cannot run here.
    pub(super) fn rank(&self, image: &ImagePlatform) -> Option<usize> {
        if image.os != LINUX || image.architecture != self.architecture {
            return None;
        }
        let variant = image.variant.as_deref().unwrap_or_default();
        self.variants.iter().position(|runs| *runs == variant)
    }

    /// Checks the platform of an image.
    ///
    /// # Errors
    /// `ImageUnavailable` for an image of another platform.
    pub(super) fn check(&self, image: &ImagePlatform) -> Result<()> {
        // Variants are missing or wrong in many configurations. Architectures are missing in very old ones.
        let unknown = ["", self.architecture].contains(&image.architecture.as_str());
        if unknown && ["", LINUX].contains(&image.os.as_str()) {
            return Ok(());
        }
        Err(self.unsuitable(std::slice::from_ref(image)))
    }

    /// The error for an image that is only available for other platforms.
    pub(super) fn unsuitable(&self, found: &[ImagePlatform]) -> Error {
        let mut names: Vec<String> = found.iter().map(ImagePlatform::to_string).collect();
        names.dedup();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = format!("the image is not available for `{self}`");
        Error::new(ErrorKind::ImageUnavailable, message)
            .with("available platforms", names.chars().take(500).collect::<String>().printable())
            .hint("use an image for this platform, or ask its publisher for one")
    }
}

impl fmt::Display for MachinePlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LINUX}/{}", self.architecture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &str) -> ImagePlatform {
        let mut parts = text.split('/').map(str::to_owned);
        ImagePlatform {
            os: parts.next().unwrap(),
            architecture: parts.next().unwrap(),
            variant: parts.next(),
        }
    }

    #[test]
    fn the_best_variant_that_runs_is_preferred() {
        let arm = MachinePlatform::of("arm", "armv7l");
        let all = ["linux/arm/v5", "linux/arm/v7", "linux/arm", "linux/arm/v6", "linux/arm/v8"];
        let mut ranked: Vec<_> =
            all.iter().filter_map(|text| Some((arm.rank(&image(text))?, *text))).collect();
        ranked.sort_unstable();
        let names: Vec<_> = ranked.iter().map(|(_, text)| *text).collect();
        assert_eq!(names, ["linux/arm/v7", "linux/arm/v6", "linux/arm/v5", "linux/arm"]);
        assert_eq!(MachinePlatform::of("arm", "armv6l").rank(&image("linux/arm/v7")), None);
    }

    #[test]
    fn other_platforms_are_rejected_with_those_that_there_are() {
        let amd64 = MachinePlatform::of("x86_64", "x86_64");
        assert_eq!(amd64.rank(&image("linux/amd64")), Some(0));
        for other in ["linux/arm64", "windows/amd64", "linux/amd64/v3", "unknown/unknown"] {
            assert_eq!(amd64.rank(&image(other)), None, "{other}");
        }
        let error = amd64.check(&image("linux/arm64/v8")).unwrap_err().to_string();
        assert!(error.contains("`linux/amd64`") && error.contains("linux/arm64/v8"), "{error}");
        amd64.check(&ImagePlatform::default()).unwrap();
        MachinePlatform::of("aarch64", "aarch64").check(&image("linux/arm64/v8")).unwrap();
    }
}
