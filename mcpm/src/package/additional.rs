//! Parses the additional packages that are installed together with a server (`with_package`).

use super::{
    Ecosystem, PackageReference,
    grammar::{is_python_name, is_python_version, shown},
};
use crate::{Error, ErrorKind, Result};

/// Comparisons of versions, longer ones first.
const COMPARISONS: [&str; 8] = ["===", "==", ">=", "<=", "!=", "~=", "<", ">"];

/// Returns the requirements in the syntax of the ecosystem's tool.
///
/// # Errors
/// `InvalidOption` for an invalid requirement, and for every requirement if the ecosystem is Go or a bundle, since both
/// name all packages that they need.
pub(crate) fn requirements(ecosystem: Ecosystem, packages: &[String]) -> Result<Vec<String>> {
    if matches!(ecosystem, Ecosystem::Go | Ecosystem::Bundle) && !packages.is_empty() {
        let message = "`with_package` is for Python and Node.js packages, projects and scripts";
        return Err(Error::new(ErrorKind::InvalidOption, message).hint(match ecosystem {
            Ecosystem::Go => {
                "leave out `with_package`: a Go program names all modules that it needs in its `go.mod`"
            }
            _ => "leave out `with_package`: a bundle declares all packages that it needs",
        }));
    }
    packages.iter().map(|package| requirement(ecosystem, package)).collect()
}

fn requirement(ecosystem: Ecosystem, package: &str) -> Result<String> {
    if ecosystem == Ecosystem::Python && is_python_requirement(package) {
        return Ok(package.to_owned());
    }
    let reference = PackageReference::parse(&format!("{}://{package}", ecosystem.scheme()));
    if let Some(Ok(reference)) = reference
        && reference.project().is_none()
    {
        return Ok(reference.requirement());
    }
    let message = format!("invalid value `{}` for `with_package`: not a package", shown(package));
    Err(Error::new(ErrorKind::InvalidOption, message).hint(match ecosystem {
        Ecosystem::Python => "write `NAME`, `NAME==1.2`, `NAME>=1,<2` or `NAME[EXTRA]`",
        Ecosystem::Node | Ecosystem::Go | Ecosystem::Bundle => "write `NAME`, `@SCOPE/NAME` or `NAME@1.2`",
    }))
}

/// Tells whether a text is a Python requirement with optional comparisons of versions (PEP 508), without markers and
/// URLs.
fn is_python_requirement(text: &str) -> bool {
    let Some(at) = text.find(['=', '<', '>', '!', '~']) else { return false };
    let (package, versions) = text.split_at(at);
    let (name, extras) = match package.split_once('[') {
        None => (package, None),
        Some((name, extras)) => (name, Some(extras)),
    };
    let are_extras =
        |extras: &str| extras.strip_suffix(']').is_some_and(|all| all.split(',').all(is_python_name));
    let is_comparison = |text: &str| {
        let version = COMPARISONS.iter().find_map(|comparison| text.strip_prefix(comparison));
        version.is_some_and(|version| is_python_version(version.strip_suffix(".*").unwrap_or(version)))
    };
    is_python_name(name) && extras.is_none_or(are_extras) && versions.split(',').all(is_comparison)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_requirements_and_nothing_else() {
        for (ecosystem, package, expected) in [
            (Ecosystem::Python, "httpx", "httpx"),
            (Ecosystem::Python, "httpx[http2]@0.28", "httpx[http2]==0.28"),
            (Ecosystem::Python, "httpx[http2]>=0.27,<1", "httpx[http2]>=0.27,<1"),
            (Ecosystem::Python, "numpy==2.*", "numpy==2.*"),
            (Ecosystem::Node, "@scope/name", "@scope/name@latest"),
            (Ecosystem::Node, "zod@^4", "zod@^4"),
        ] {
            assert_eq!(requirement(ecosystem, package).unwrap(), expected);
        }
        for package in [
            "",
            "-r",
            "--index-url=x",
            "./local",
            "/abs",
            "a b",
            "a;b",
            "a==",
            "a>=1,",
            "a==1 --hash",
            "a @ file:x",
            "a==$(id)",
            "git+https://example.com/a",
            "a\n",
            "a[x]y==1",
        ] {
            for ecosystem in [Ecosystem::Python, Ecosystem::Node] {
                let error = requirement(ecosystem, package).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidOption, "{package:?}");
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
        assert!(requirements(Ecosystem::Go, &["example.com/a".to_owned()]).is_err());
        assert_eq!(requirements(Ecosystem::Go, &[]).unwrap(), Vec::<String>::new());
    }
}
