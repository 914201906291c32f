//! Checks and converts the configured headers that the proxy adds to each request to a remote server.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{Error, ErrorKind, Result, auth::is_reserved_header, options::Header, printable::Printable as _};

/// Maximum length of the name of a header in bytes.
const MAX_NAME_BYTES: usize = 256;
/// Maximum length of the value of a header in bytes.
const MAX_VALUE_BYTES: usize = 8 << 10;

/// Converts the headers; their values are marked as sensitive, because they often are credentials.
///
/// # Errors
/// `InvalidOption` for a header that belongs to HTTP or to proxies, is too long, cannot be sent or is given twice. The
/// value is not repeated.
pub(crate) fn header_map(headers: &[Header]) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for Header { name, value } in headers {
        let refused = |why: &str| {
            let message =
                format!("invalid header `{}`: {why}", name.chars().take(64).collect::<String>().printable());
            Error::new(ErrorKind::InvalidOption, message)
        };
        let parsed: HeaderName = name.parse().map_err(|_| refused("this is not a valid header name"))?;
        if is_reserved_header(&parsed) {
            return Err(refused("it is reserved for HTTP, MCP or proxies"));
        }
        if name.len() > MAX_NAME_BYTES || value.expose().len() > MAX_VALUE_BYTES {
            return Err(refused("its name or value is too long"));
        }
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| refused("the value contains a character that is not allowed in headers"))?;
        value.set_sensitive(true);
        if map.insert(parsed, value).is_some() {
            return Err(refused("it is given twice"));
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_protocols_are_refused() {
        let map = |name: &str, value: &str| header_map(&[Header::from((name, value))]);
        assert!(map("X-Tenant", "a").expect("a header")["x-tenant"].is_sensitive());
        assert!(map("Authorization", "Basic x").is_ok());
        for name in
            ["Host", "te", "Transfer-Encoding", "X-Forwarded-For", "X-Real-IP", "Mcp-Session-Id", "a b", ""]
        {
            let error = map(name, "canary").expect_err(name);
            assert!(!error.to_string().contains("canary"), "{error}");
        }
        assert!(map("X-Tenant", "a\r\nb").is_err());
        assert!(map("X-Tenant", &"a".repeat(MAX_VALUE_BYTES + 1)).is_err());
        assert!(map(&"a".repeat(MAX_NAME_BYTES + 1), "a").is_err());
        let twice = [Header::from(("X-A", "1")), Header::from(("x-a", "2"))];
        assert!(header_map(&twice).expect_err("an error").to_string().contains("twice"));
    }
}
