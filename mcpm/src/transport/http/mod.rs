//! The HTTP/1.1 client of the data path, with a pool of idle connections.
//!
//! The client writes requests and reads responses itself, and parses heads with httparse. With hyper's client, sending
//! a request and reading the head of the response took a third of the instructions of a forwarded call (decision 0024).

mod address;
mod client;
mod connection;
#[cfg(any(fuzzing, test))]
mod differential;
mod error;
mod framing;
mod head;
mod pool;
mod request_body;
mod response_body;
mod stream;
mod upload;

pub(crate) use {
    address::Address,
    client::{Dial, Http1Client},
    error::{BodyError, ConnectionError},
    head::RequestHead,
    request_body::RequestBody,
    response_body::ResponseBody,
};
#[cfg(any(fuzzing, test))]
pub(crate) use {client::parse_response, differential::disagreement};
