//! Connections to servers that speak HTTP: the HTTP/1.1 client of the data path, its bodies, and TLS.

pub(crate) mod body;
pub(crate) mod client_body;
pub(crate) mod http;
pub(crate) mod tls;
