use super::*;

/// A certificate authority for tests, whose private key was deleted.
pub(crate) const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBlDCCATmgAwIBAgIUMXrZJDzSt79nKLpudcIAZOaZ/NUwCgYIKoZIzj0EAwIw
HjEcMBoGA1UEAwwTbWNwbSB0ZXN0IGF1dGhvcml0eTAgFw0yNjExMjExNDEwMTFa
GA8yMTI2MTAyODE0MTAxMVowHjEcMBoGA1UEAwwTbWNwbSB0ZXN0IGF1dGhvcml0
eTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJFTUkmJehS68ph4MZpiFUcp1L/q
/G5WOopGoWEW239eXKDD/YJV3lf4fdQXQdVbIK1mTvPYE4JZ4+8nHxLe1CCjUzBR
MB0GA1UdDgQWBBS2FnwbbYjMIgFQ5xpqvR8FbKpfKDAfBgNVHSMEGDAWgBS2Fnwb
bYjMIgFQ5xpqvR8FbKpfKDAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kA
MEYCIQD+OKXubNbYM2qIo9UrHzKwUaXgxp4a4a932WQ+/TWWCwIhAPOzoSH48vlV
X7ptTRrsazvXduoKNlzqBtOrDwm34FgM
-----END CERTIFICATE-----
";

fn read(text: &str) -> Result<Certificates> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Certificates::read(file.path())
}

#[test]
fn certificates_alone_are_taken_from_a_file() {
    let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
    let read = read(&format!("a comment\n{AUTHORITY}{key}\n{AUTHORITY}")).unwrap();
    assert_eq!(read.text(), format!("{AUTHORITY}{AUTHORITY}"));
    assert_eq!(read.files().collect::<Vec<_>>(), [AUTHORITY, AUTHORITY]);
}

#[test]
fn a_file_without_a_valid_certificate_is_rejected() {
    let cut: String = AUTHORITY
        .lines()
        .filter(|line| !line.starts_with("MIIB"))
        .map(|line| line.to_owned() + "\n")
        .collect();
    for text in ["", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", cut.as_str()] {
        let error = read(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{text}");
        assert!(error.to_string().contains("does not contain valid certificates in PEM format"), "{error}");
    }
    let error = Certificates::read(Path::new("/nowhere/ca.pem")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
