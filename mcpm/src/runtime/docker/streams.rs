//! The standard streams of a container: attached, or read from its log.

use std::time::Duration;

use bollard::{
    container::LogOutput,
    errors::Error as ApiError,
    query_parameters::{AttachContainerOptionsBuilder, LogsOptionsBuilder},
};
use futures_util::{StreamExt, stream::BoxStream};

use super::{
    Docker,
    errors::{EngineFailure, api_error},
};
use crate::{
    Result,
    runtime::{Attachment, ContainerId, LogChunk, LogOptions, LogStream},
};

impl Docker {
    pub(super) async fn attach_container(&self, id: &ContainerId) -> Result<Attachment> {
        let ours = self.require_managed(id).await?;
        let options =
            AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stderr(true).stream(true);
        let attached = self.api.attach_container(&ours.id, Some(options.build())).await;
        let attached =
            attached.map_err(|error| api_error(&error, format!("cannot attach to container `{id}`")))?;
        let operation = format!("cannot read the output of container `{id}`");
        let output = attached.output.filter_map(move |piece| std::future::ready(chunk(piece, &operation)));
        Ok(Attachment { stdin: Box::new(attached.input), output: output.boxed() })
    }

    pub(super) async fn container_logs(
        &self,
        id: &ContainerId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogChunk>>> {
        let ours = self.require_managed(id).await?;
        let tail = options.tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string());
        let query = LogsOptionsBuilder::default()
            .stdout(true)
            .stderr(true)
            .follow(options.follow)
            .tail(&tail)
            .build();
        let operation = format!("cannot read the log of container `{id}`");
        // Podman's response begins with the first chunk, which a quiet server may never write.
        let api =
            if options.follow { self.api.clone().with_timeout(Duration::MAX) } else { self.api.clone() };
        let pieces = api.logs(&ours.id, Some(query));
        Ok(pieces.filter_map(move |piece| std::future::ready(chunk(piece, &operation))).boxed())
    }
}

/// Converts a chunk. Containers have no terminal, so a chunk that belongs to no stream is the rest of a frame from a
/// broken connection.
pub(super) fn chunk(piece: Result<LogOutput, ApiError>, operation: &str) -> Option<Result<LogChunk>> {
    match piece {
        Ok(LogOutput::StdOut { message }) => {
            Some(Ok(LogChunk { stream: LogStream::Stdout, bytes: message, time: None }))
        }
        Ok(LogOutput::StdErr { message }) => {
            Some(Ok(LogChunk { stream: LogStream::Stderr, bytes: message, time: None }))
        }
        Ok(LogOutput::StdIn { .. }) => None,
        Ok(LogOutput::Console { .. }) => {
            Some(Err(EngineFailure::ConnectionLost("in the middle of a message".to_owned())
                .into_error(operation.to_owned())))
        }
        Err(error) => Some(Err(api_error(&error, operation.to_owned()))),
    }
}
