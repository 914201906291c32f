//! Reads the `traceparent` header of a request (W3C Trace Context, section 3.2).

use http::{HeaderMap, HeaderName};

/// The name of the field, both in headers and in `_meta` (SEP-414).
pub(super) const TRACEPARENT: &str = "traceparent";
const HEADER: HeaderName = HeaderName::from_static(TRACEPARENT);

/// The `traceparent` header, unless there are several: such a request has no trace context.
pub(crate) fn traceparent_header(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(HEADER).iter();
    let line = lines.next().filter(|_| lines.next().is_none());
    line.and_then(|line| line.to_str().ok())
}
