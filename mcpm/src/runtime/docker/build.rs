//! Builds images with the classic builder, which every engine has: Docker of any version, and Podman behind the
//! same API.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bollard::{body_full, models::BuildInfo, query_parameters::BuildImageOptionsBuilder};
use futures_util::StreamExt;

use super::{Docker, errors::EngineFailure};
use crate::{
    Error, ErrorKind, Result,
    runtime::{BuildProgress, BuildRequest, build_log::BuildLog},
};

impl Docker {
    pub(super) async fn build_image(
        &self,
        request: BuildRequest,
        progress: &(dyn Fn(BuildProgress) + Send + Sync),
    ) -> Result<String> {
        let args: HashMap<String, String> = request.args.into_iter().collect();
        let labels: HashMap<String, String> = request.labels.into_iter().collect();
        let mut options = BuildImageOptionsBuilder::default()
            .dockerfile("Dockerfile")
            .buildargs(&args)
            .labels(&labels)
            .nocache(request.no_cache)
            .rm(true)
            .forcerm(true);
        if let Some(tag) = &request.tag {
            options = options.t(tag);
        }
        let mut log = BuildLog::new(args.values());
        // Some engines only state the id of the image in the output.
        let built = Mutex::new(None);
        let observe = |step: BuildProgress| {
            if let BuildProgress::Line(line) = &step
                && let Some(id) = line.strip_prefix("Successfully built ")
            {
                // No code panics while it holds the lock.
                *built.lock().unwrap_or_else(PoisonError::into_inner) = Some(id.to_owned());
            }
            progress(step);
        };
        let mut id = None;
        let mut pieces =
            Box::pin(self.api.build_image(options.build(), None, Some(body_full(request.context))));
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(|error| match EngineFailure::from_api(&error) {
                EngineFailure::ErrorStatus(_, why) => log.build_error(&why),
                failure => failure.into_error("cannot build an image"),
            })?;
            if let Some(detail) = piece.error_detail.as_ref() {
                return Err(log.build_error(detail.message.as_deref().unwrap_or_default()));
            }
            id = id_of(&piece).or(id);
            log.push(piece.stream.as_deref().unwrap_or_default(), &observe);
        }
        log.push("\n", &observe);
        let id = id.or(built.into_inner().unwrap_or_else(PoisonError::into_inner));
        id.ok_or_else(|| {
            Error::new(ErrorKind::Engine, "the engine built an image, but did not return its id")
        })
    }
}

fn id_of(piece: &BuildInfo) -> Option<String> {
    piece.aux.as_ref().and_then(|aux| aux.id.clone())
}
