//! Telemetry of a proxy: traces and metrics, exported by OTLP or scraped by Prometheus.
//!
//! [`spec`] is the configuration. [`Telemetry`] contains the tracer, the instruments and the exporters, and ends with
//! its proxy. No state is global to the process: two proxies in one program measure separately, and neither replaces
//! the program's own telemetry providers. [`proxy::observe`](crate::proxy) decides what is measured for a request.

mod cut;
mod export_runtime;
mod exporters;
mod instruments;
mod label_sets;
mod labels;
mod otel_variables;
mod span_encoding;
mod spec;
mod trace_context;
mod traceparent;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use opentelemetry::{KeyValue, metrics::MeterProvider as _, trace::TracerProvider as _};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    resource::TelemetryResourceDetector,
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider},
};
use prometheus::{Registry, TextEncoder};

pub(crate) use cut::cut;
pub(crate) use instruments::{HttpLabels, Instruments, Legacy, LegacyLabels, OperationLabels};
pub(crate) use labels::{OTHER, http_method, mcp_version, rpc_code};
pub(crate) use spec::{OTLP_OPTIONS, SHARED_OPTIONS};
pub use spec::{OtlpSpec, TelemetrySpec};
pub(crate) use trace_context::{TraceContext, parent_and_link};
pub(crate) use traceparent::traceparent_header;

use export_runtime::ExportRuntime;
use exporters::ExporterFactory;

use crate::{Error, ErrorKind, Result, environment::Variables, options::Header};

/// The instrumentation scope.
const SCOPE: &str = "mcpm";
/// Maximum number of queued spans; further ones are dropped.
const MAX_QUEUED_SPANS: usize = 2048;
/// Maximum number of spans in one export request.
const MAX_BATCH_SPANS: usize = 512;
/// Interval of span exports.
const SPAN_EXPORT_INTERVAL: Duration = Duration::from_secs(5);
/// Interval of metric exports.
const METRIC_EXPORT_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout for exporting pending telemetry when the proxy stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The telemetry of a proxy. Dropping it exports pending telemetry, without blocking.
#[derive(Debug)]
pub(crate) struct Telemetry {
    /// Creates spans, if they are exported.
    pub(crate) tracer: Option<SdkTracer>,
    /// The metrics, if they are exported or scraped.
    pub(crate) instruments: Option<Instruments>,
    /// The name of the server.
    pub(crate) server: String,
    /// Whether legacy attribute names are recorded in addition to the current ones.
    pub(crate) legacy: bool,
    /// Attributes of each request span from environment variables.
    pub(crate) variables: Vec<KeyValue>,
    registry: Option<Registry>,
    serves_path: bool,
    providers: Mutex<Option<Providers>>,
}

/// The providers to shut down.
#[derive(Debug)]
struct Providers {
    tracer: Option<SdkTracerProvider>,
    meter: Option<SdkMeterProvider>,
    /// Dropped last, because the exporters use it.
    engine: Option<Arc<ExportRuntime>>,
}

impl Telemetry {
    /// Starts the telemetry of a server that is reached by `transport`.
    ///
    /// # Errors
    /// `InvalidOption` if the export cannot be configured; `Io` if no thread can be started.
    pub(crate) fn start(
        spec: &TelemetrySpec,
        headers: &[Header],
        variables: &Variables,
        server: &str,
        transport: &'static str,
    ) -> Result<Self> {
        let resource = resource(spec);
        let engine = match &spec.otlp {
            Some(_) => Some(Arc::new(ExportRuntime::start()?)),
            None => None,
        };
        let collector = match (&spec.otlp, &engine) {
            (Some(otlp), Some(engine)) => Some((otlp, ExporterFactory::new(otlp, headers, engine.handle())?)),
            _ => None,
        };
        let tracer = match &collector {
            Some((otlp, collector)) if otlp.tracing => {
                let config = BatchConfigBuilder::default()
                    .with_max_queue_size(MAX_QUEUED_SPANS)
                    .with_max_export_batch_size(MAX_BATCH_SPANS)
                    .with_scheduled_delay(SPAN_EXPORT_INTERVAL)
                    .build();
                let processor =
                    BatchSpanProcessor::builder(collector.spans()?).with_batch_config(config).build();
                let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(otlp.sampling_rate)));
                let provider = SdkTracerProvider::builder()
                    .with_span_processor(processor)
                    .with_sampler(sampler)
                    .with_resource(resource.clone())
                    .build();
                Some(provider)
            }
            _ => None,
        };
        let is_scraped = spec.prometheus || spec.prometheus_port.is_some();
        let registry = is_scraped.then(Registry::new);
        let sends_metrics = collector.as_ref().filter(|(otlp, _)| otlp.metrics);
        let meter = if registry.is_some() || sends_metrics.is_some() {
            let mut builder = SdkMeterProvider::builder().with_resource(resource);
            if let Some((_, collector)) = sends_metrics {
                let reader = PeriodicReader::builder(collector.metrics()?)
                    .with_interval(METRIC_EXPORT_INTERVAL)
                    .build();
                builder = builder.with_reader(reader);
            }
            if let Some(registry) = &registry {
                let unfit = |error| {
                    Error::new(ErrorKind::Internal, "cannot set up the Prometheus exporter").source(error)
                };
                let reader = opentelemetry_prometheus::exporter()
                    .with_registry(registry.clone())
                    .scope_info_enabled(false)
                    .build()
                    .map_err(unfit)?;
                builder = builder.with_reader(reader);
            }
            Some(builder.build())
        } else {
            None
        };
        let instruments = meter
            .as_ref()
            .map(|provider| Instruments::new(&provider.meter(SCOPE), spec.legacy, server, transport));
        Ok(Self {
            tracer: tracer.as_ref().map(|provider| provider.tracer(SCOPE)),
            instruments,
            server: server.to_owned(),
            legacy: spec.legacy,
            variables: spec
                .otlp
                .as_ref()
                .map(|otlp| environment(&otlp.variables, variables))
                .unwrap_or_default(),
            registry,
            serves_path: spec.prometheus,
            providers: Mutex::new(Some(Providers { tracer, meter, engine })),
        })
    }

    /// Whether requests are traced.
    pub(crate) fn traces(&self) -> bool {
        self.tracer.is_some()
    }

    /// The metrics in Prometheus' text format, if they are enabled.
    pub(crate) fn prometheus_text(&self) -> Option<Result<String>> {
        let registry = self.registry.as_ref()?;
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        Some(text.map_err(|error| Error::new(ErrorKind::Internal, "cannot format metrics").source(error)))
    }

    /// Whether `/metrics` is served on the port of the proxy.
    pub(crate) fn serves_path(&self) -> bool {
        self.serves_path
    }

    /// Ends open sessions, exports pending telemetry, and waits for the export for a limited time.
    pub(crate) async fn stop(&self) {
        let Some(ending) = self.end() else { return };
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, ending).await.is_err() {
            tracing::warn!("exporting the last telemetry to the collector timed out");
        }
    }

    /// Shuts the providers down on their own threads. The receiver resolves when they have ended.
    fn end(&self) -> Option<tokio::sync::oneshot::Receiver<()>> {
        let providers = self.providers.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        if let Some(instruments) = &self.instruments {
            instruments.end_sessions();
        }
        let Providers { tracer, meter, engine } = providers;
        let (done, ended) = tokio::sync::oneshot::channel();
        // Both providers are shut down concurrently, so that neither delays the other.
        let metrics = export_runtime::spawn_thread("mcpm-metrics-end", {
            let engine = engine.clone();
            move || {
                let _ = meter.map(|provider| provider.shutdown());
                drop(engine);
            }
        });
        let spans = export_runtime::spawn_thread("mcpm-spans-end", move || {
            let _ = tracer.map(|provider| provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT));
            if let Some(metrics) = metrics {
                let _ = metrics.join();
            }
            drop(engine);
            let _ = done.send(());
        });
        spans.map(|_| ended)
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.end();
    }
}

/// The resource attributes of the service.
fn resource(spec: &TelemetrySpec) -> Resource {
    let more = spec.attributes.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(more)
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_service_name(spec.service_name.clone())
        .build()
}

/// Attributes from environment variables.
fn environment(names: &[String], variables: &Variables) -> Vec<KeyValue> {
    let lookup = |name: &String| match variables.get(name) {
        Some(value) => Some(KeyValue::new(format!("environment.{name}"), cut(value).to_owned())),
        None => {
            tracing::warn!(variable = name, "an environment variable that spans should include is not set");
            None
        }
    };
    names.iter().filter_map(lookup).collect()
}

/// Values of OTLP headers by name, as `OTEL_EXPORTER_OTLP_HEADERS` lists them, restricted to the names in `known`.
pub fn listed_headers(text: &str, known: &[String]) -> Vec<Header> {
    let mut values = exporters::parse_header_list(text);
    known
        .iter()
        .filter_map(|name| values.remove(name).map(|value| Header::from((name.clone(), value))))
        .collect()
}
