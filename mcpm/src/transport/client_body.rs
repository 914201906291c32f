//! The body of a client's request, which has to go on coming.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::body::BodyError;
use crate::alarm::{Alarm, Alarms};

/// How long a client may send nothing of a body that it has begun.
const PATIENCE: Duration = Duration::from_secs(30);

/// A client's body. It ends with [`TooSlow`] when nothing of it comes for a while.
#[derive(Debug)]
pub(crate) struct ClientBody {
    body: Incoming,
    alarms: Alarms,
    /// Set while the client is waited for; boxed, since nearly always the body is there with its head.
    alarm: Option<Box<Alarm>>,
}

/// Nothing came of a body for too long.
#[derive(Debug)]
pub(crate) struct TooSlow;

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing came of the body for {} s", PATIENCE.as_secs())
    }
}

impl std::error::Error for TooSlow {}

impl ClientBody {
    /// Takes a body as it comes; `alarms` are those of all clients.
    pub(crate) fn new(body: Incoming, alarms: Alarms) -> Self {
        Self { body, alarms, alarm: None }
    }
}

impl HttpBody for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { body, alarms, alarm } = &mut *self;
        if let Poll::Ready(piece) = Pin::new(body).poll_frame(cx) {
            *alarm = None;
            return Poll::Ready(piece.map(|piece| piece.map_err(Into::into)));
        }
        let alarm = alarm.get_or_insert_with(|| Box::new(alarms.after(PATIENCE)));
        Pin::new(&mut **alarm).poll(cx).map(|()| Some(Err(Box::new(TooSlow) as BodyError)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
