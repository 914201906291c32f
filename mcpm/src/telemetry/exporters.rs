//! Exports spans and metrics to a collector, by OTLP over HTTP or gRPC.
//!
//! Exports do not run on the threads of the proxy: the threads of the SDK block until an export is complete, and the
//! connections run on another thread. Only headers that an option names are sent. The SDK's own exporters would also
//! send all headers in `OTEL_EXPORTER_OTLP_HEADERS`, which may be meant for another collector.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use opentelemetry_http::{HttpClient as OtelHttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, SpanExporter as OtlpSpanExporter, WithExportConfig as _,
    WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    metrics::{Temporality, data::ResourceMetrics, exporter::PushMetricExporter},
    trace::{SpanData, SpanExporter as SendSpans},
};
use tokio::{net::TcpStream, runtime::Handle};
use tokio_util::context::TokioContext;
use tonic::{
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};
use tower_service::Service;
use url::Url;

use super::{
    OtlpSpec,
    span_encoding::{encode_resource, encode_spans},
};
use crate::{
    Error, ErrorKind, Result,
    http_client::{self, HttpClient, http2, request_for_url},
    options::{Header, OtlpProtocol},
    transport::tls::TrustStore,
};

/// Timeout of one export.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Creates the exporters for one collector.
pub(super) struct ExporterFactory<'a> {
    spec: &'a OtlpSpec,
    trust: TrustStore,
    /// Shared by the exporters of spans and metrics.
    client: HttpClient,
    headers: HeaderMap,
    runtime: Handle,
    status: Arc<ExportStatus>,
}

impl<'a> ExporterFactory<'a> {
    /// Creates a factory with the values of headers; a missing value is omitted with a warning.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid header, and for certificates that cannot be read.
    pub(super) fn new(spec: &'a OtlpSpec, headers: &[Header], runtime: Handle) -> Result<Self> {
        let mut values = HeaderMap::new();
        for header in headers {
            let bad =
                || Error::new(ErrorKind::InvalidOption, format!("`{}` is not a valid header", header.name));
            let name: HeaderName = header.name.parse().map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(header.value.expose()).map_err(|_| bad())?;
            value.set_sensitive(true);
            if spec.headers.iter().any(|known| name == known.as_str()) {
                values.insert(name, value);
            }
        }
        let missing: Vec<&str> =
            spec.headers.iter().map(String::as_str).filter(|name| !values.contains_key(*name)).collect();
        if !missing.is_empty() {
            tracing::warn!(
                headers = missing.join(", "),
                "telemetry is sent without these headers, because their values are not stored; set them in \
                 `OTEL_EXPORTER_OTLP_HEADERS`"
            );
        }
        let trust = TrustStore::with_bundle(spec.ca_bundle.as_deref())?;
        if spec.endpoint.starts_with("https:") {
            // Fails here on a machine without certificates, so that the start fails and not each export.
            trust.connector()?;
        }
        let said = Arc::new(ExportStatus { endpoint: spec.endpoint.clone(), ..ExportStatus::default() });
        Ok(Self {
            spec,
            client: HttpClient::new(trust.clone()),
            trust,
            headers: values,
            runtime,
            status: said,
        })
    }

    /// Creates the exporter of spans.
    pub(super) fn spans(&self) -> Result<TimedExporter<SpanExporter>> {
        // The exporter captures the current runtime.
        let _entered = self.runtime.enter();
        let exporter = match self.spec.protocol {
            OtlpProtocol::Http => {
                let endpoint = format!("{}/v1/traces", self.spec.endpoint);
                // The exporter of the crate is created only to check variables such as
                // `OTEL_EXPORTER_OTLP_COMPRESSION`, and is not used.
                let unused = OtlpSpanExporter::builder().with_http().with_endpoint(&endpoint);
                let unused = unused.with_protocol(opentelemetry_otlp::Protocol::HttpBinary);
                let unused = unused.with_timeout(EXPORT_TIMEOUT);
                let unused = unused.with_http_client(OtlpHttpClient::new(self)).build();
                unused.map_err(|error| exporter_error(&error))?;
                let endpoint = endpoint.parse().map_err(|error| no_endpoint(&endpoint, error))?;
                let (client, resource) = (OtlpHttpClient::new(self), Vec::new());
                SpanExporter::Http(HttpSpanExporter { client, endpoint, resource })
            }
            OtlpProtocol::Grpc => {
                let builder = OtlpSpanExporter::builder().with_tonic().with_channel(self.channel()?);
                let builder = builder.with_interceptor(self.metadata()).with_timeout(EXPORT_TIMEOUT);
                SpanExporter::Grpc(builder.build().map_err(|error| exporter_error(&error))?)
            }
        };
        Ok(self.sender(exporter))
    }

    /// Creates the exporter of metrics.
    pub(super) fn metrics(&self) -> Result<TimedExporter<MetricExporter>> {
        let _entered = self.runtime.enter();
        let builder = MetricExporter::builder().with_temporality(Temporality::Cumulative);
        let built = match self.spec.protocol {
            OtlpProtocol::Http => builder
                .with_http()
                .with_http_client(OtlpHttpClient::new(self))
                .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                .with_endpoint(format!("{}/v1/metrics", self.spec.endpoint))
                .with_timeout(EXPORT_TIMEOUT)
                .build(),
            OtlpProtocol::Grpc => builder
                .with_tonic()
                .with_channel(self.channel()?)
                .with_interceptor(self.metadata())
                .with_timeout(EXPORT_TIMEOUT)
                .build(),
        };
        Ok(self.sender(built.map_err(|error| exporter_error(&error))?))
    }

    fn sender<E>(&self, inner: E) -> TimedExporter<E> {
        TimedExporter { inner, runtime: self.runtime.clone(), status: Arc::clone(&self.status) }
    }

    fn channel(&self) -> Result<Channel> {
        let text = &self.spec.endpoint;
        let endpoint = Endpoint::from_shared(text.clone()).map_err(|error| no_endpoint(text, error))?;
        let connector = ReportingConnector { trust: self.trust.clone(), status: Arc::clone(&self.status) };
        Ok(endpoint.timeout(EXPORT_TIMEOUT).connect_with_connector_lazy(connector))
    }

    /// An interceptor that adds the configured headers, and no others, to each call.
    fn metadata(&self) -> impl tonic::service::Interceptor + Clone + use<> {
        let ours = MetadataMap::from_headers(self.headers.clone());
        move |mut call: tonic::Request<()>| {
            *call.metadata_mut() = ours.clone();
            Ok(call)
        }
    }
}

fn no_endpoint(text: &str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("`{text}` is not a valid OTLP endpoint")).source(error)
}

fn exporter_error(error: &ExporterBuildError) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("cannot create the OTLP exporter: {error}"))
}

/// Opens connections for gRPC, and stores why a connection could not be opened, because the exporter does not report
/// the cause.
#[derive(Clone)]
struct ReportingConnector {
    trust: TrustStore,
    status: Arc<ExportStatus>,
}

impl Service<Uri> for ReportingConnector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { trust, status } = self.clone();
        Box::pin(async move {
            http2::connect_http2(&trust, uri).await.inspect_err(|error| status.set_cause(error))
        })
    }
}

/// Sends OTLP over HTTP.
struct OtlpHttpClient {
    client: HttpClient,
    headers: HeaderMap,
    status: Arc<ExportStatus>,
}

impl OtlpHttpClient {
    fn new(collector: &ExporterFactory<'_>) -> Self {
        let (headers, status) = (collector.headers.clone(), Arc::clone(&collector.status));
        Self { client: collector.client.clone(), headers, status }
    }
}

impl fmt::Debug for OtlpHttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OtlpHttpClient").field(&self.client).finish()
    }
}

#[async_trait]
impl OtelHttpClient for OtlpHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> std::result::Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let mut headers = self.headers.clone();
        for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING] {
            if let Some(value) = parts.headers.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        let url = Url::parse(&parts.uri.to_string())?;
        let request = request_for_url(parts.method, &url, headers, body)?;
        let sent = self.client.send(request).await.inspect_err(|error| self.status.set_cause(error));
        let (parts, body) = sent?.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
}

/// Exports spans by the collector's protocol.
#[derive(Debug)]
pub(super) enum SpanExporter {
    Http(HttpSpanExporter),
    Grpc(OtlpSpanExporter),
}

/// Exports spans over HTTP.
#[derive(Debug)]
pub(super) struct HttpSpanExporter {
    client: OtlpHttpClient,
    endpoint: Uri,
    /// The encoded resource of the spans.
    resource: Vec<u8>,
}

impl HttpSpanExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let mut request = Request::new(Bytes::from(encode_spans(&self.resource, &batch)));
        drop(batch);
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, self.endpoint.clone());
        request.headers_mut().insert(header::CONTENT_TYPE, PROTOBUF);
        let failed = |reason: String| OTelSdkError::InternalFailure(reason);
        let response = self.client.send_bytes(request).await.map_err(|error| failed(error.to_string()))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(failed(format!("HTTP export failed with status code: {}", status.as_u16()))),
        }
    }
}

impl SendSpans for SpanExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        match self {
            Self::Http(exporter) => exporter.export(batch).await,
            Self::Grpc(exporter) => exporter.export(batch).await,
        }
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        match self {
            Self::Http(_) => Ok(()),
            Self::Grpc(exporter) => exporter.shutdown_with_timeout(timeout),
        }
    }

    fn set_resource(&mut self, resource: &Resource) {
        match self {
            Self::Http(exporter) => exporter.resource = encode_resource(resource),
            Self::Grpc(exporter) => exporter.set_resource(resource),
        }
    }
}

/// An exporter with a timeout that logs failures once.
#[derive(Debug)]
pub(super) struct TimedExporter<E> {
    inner: E,
    runtime: Handle,
    status: Arc<ExportStatus>,
}

impl<E> TimedExporter<E> {
    /// Waits for an export to complete. It blocks the caller's thread, which has no runtime.
    async fn export_with_timeout(&self, sending: impl Future<Output = OTelSdkResult>) -> OTelSdkResult {
        let in_time = async { tokio::time::timeout(EXPORT_TIMEOUT, sending).await };
        let outcome = TokioContext::new(in_time, self.runtime.clone()).await;
        let outcome = outcome.unwrap_or(Err(OTelSdkError::Timeout(EXPORT_TIMEOUT)));
        self.status.report(&outcome);
        outcome
    }
}

impl SendSpans for TimedExporter<SpanExporter> {
    fn export(&self, batch: Vec<SpanData>) -> impl Future<Output = OTelSdkResult> + Send {
        self.export_with_timeout(async { self.inner.export(batch).await })
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl PushMetricExporter for TimedExporter<MetricExporter> {
    fn export(&self, metrics: &ResourceMetrics) -> impl Future<Output = OTelSdkResult> + Send {
        self.export_with_timeout(self.inner.export(metrics))
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        PushMetricExporter::shutdown_with_timeout(&self.inner, timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}

/// The state of exports to a collector: a failure is logged once, until an export succeeds again.
#[derive(Debug, Default)]
struct ExportStatus {
    endpoint: String,
    failing: AtomicBool,
    /// The cause of the last failure, because the exporters do not report it.
    cause: Mutex<Option<String>>,
}

impl ExportStatus {
    fn set_cause(&self, error: &Error) {
        let hint = match http_client::is_untrusted_issuer(error) {
            true => "; set `mcpm_ca_bundle` to a file with the certificate of the issuing authority",
            false => "",
        };
        *self.cause.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{error}{hint}"));
    }

    fn report(&self, outcome: &OTelSdkResult) {
        let cause = self.cause.lock().unwrap_or_else(PoisonError::into_inner).take();
        match outcome {
            Ok(()) if self.failing.swap(false, Ordering::Relaxed) => {
                tracing::info!(endpoint = self.endpoint, "the collector accepts telemetry again");
            }
            Err(error) if !self.failing.swap(true, Ordering::Relaxed) => {
                tracing::warn!(
                    endpoint = self.endpoint,
                    error = cause.unwrap_or_else(|| error.to_string()),
                    "the collector does not accept telemetry; telemetry is dropped until the collector \
                     accepts it"
                );
            }
            _ => {}
        }
    }
}

/// Parses a list of headers, as a command or a variable contains it: `a=1,b=2` with percent-encoded values (OTLP
/// exporter specification, "Specifying headers via environment variables").
pub(super) fn parse_header_list(text: &str) -> HashMap<String, String> {
    let entries = text.split(',').filter_map(|entry| entry.split_once('='));
    entries
        .map(|(name, value)| {
            let decoded =
                url::form_urlencoded::parse(format!("v={}", value.trim().replace('+', "%2B")).as_bytes())
                    .next()
                    .map_or_else(String::new, |(_, value)| value.into_owned());
            (name.trim().to_ascii_lowercase(), decoded)
        })
        .collect()
}
