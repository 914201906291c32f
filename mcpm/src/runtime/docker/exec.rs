//! Copies a program into a container, and runs programs in a running container.

use bollard::{
    body_full,
    exec::{CreateExecOptions, StartExecOptions, StartExecResults},
    query_parameters::UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::StreamExt as _;

use super::{Docker, errors::api_error, streams::chunk};
use crate::{
    Error, ErrorKind, Result,
    runtime::{Attachment, ContainerId},
};

/// Bytes of a stream that are read at once.
const READ_BUFFER_BYTES: usize = 64 * 1024;

impl Docker {
    pub(super) async fn upload_program(
        &self,
        id: &ContainerId,
        folder: &str,
        name: &str,
        program: &[u8],
    ) -> Result<()> {
        let operation = || format!("cannot copy `{folder}/{name}` into container `{id}`");
        let ours = self.require_managed(id).await?;
        let archive = archive(name, program)
            .map_err(|error| Error::new(ErrorKind::Internal, operation()).source(error))?;
        let options = UploadToContainerOptionsBuilder::default().path(folder).build();
        let uploaded =
            self.api.upload_to_container(&ours.id, Some(options), body_full(Bytes::from(archive))).await;
        uploaded.map_err(|error| api_error(&error, operation()))
    }

    pub(super) async fn execute_in(&self, id: &ContainerId, command: &[String]) -> Result<Attachment> {
        let operation = || format!("cannot run a program in container `{id}`");
        let ours = self.require_managed(id).await?;
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let made = self.api.create_exec(&ours.id, options).await;
        let made = made.map_err(|error| api_error(&error, operation()))?;
        let options =
            StartExecOptions { output_capacity: Some(READ_BUFFER_BYTES), ..StartExecOptions::default() };
        let started = self.api.start_exec(&made.id, Some(options)).await;
        match started.map_err(|error| api_error(&error, operation()))? {
            StartExecResults::Attached { output, input } => {
                let reading = format!("cannot read from a program in container `{id}`");
                let output = output.filter_map(move |piece| std::future::ready(chunk(piece, &reading)));
                Ok(Attachment { stdin: Box::new(input), output: output.boxed() })
            }
            StartExecResults::Detached => Err(Error::new(ErrorKind::Engine, operation())
                .source("the engine did not attach the program's streams")),
        }
    }
}

/// Creates an archive of one program that all users may run.
fn archive(name: &str, program: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(program.len() as u64);
    header.set_mode(0o755);
    archive.append_data(&mut header, name, program)?;
    archive.into_inner()
}
