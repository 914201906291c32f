//! Connections to HTTP servers: the HTTP/1.1 client of the data path, and TLS.

pub(crate) mod http;
pub(crate) mod tls;
