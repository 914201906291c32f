//! Defines the order of the layers.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use http::StatusCode;

use super::{
    check_outcome::{Finding, Passed},
    denial::Denial,
    external_url::ExternalUrlConfig,
    layer::{Endpoint, Layer, Next, NotFound},
    layers::{
        authenticate::{Authenticate, Authenticator},
        authorize::Authorize,
        body_limit::BodyLimit,
        cors::Cors,
        endpoint_guard::EndpointGuard,
        health::{self, Health},
        methods::Methods,
        metrics_endpoint::{self, MetricsEndpoint},
        origin::OriginCheck,
        parse::Parse,
        session_owner::SessionOwner,
        token_exchange::TokenExchange,
        tools::{ToolFilter, UnknownTools},
        well_known::WellKnown,
    },
    observe::{AuditPreflight, ObserveLayer, PhaseMarker, PropagateContext, SsePendingRequests},
    respond::{self, Failure, Request, Response},
    service::ProxyService,
    session_owners::SessionOwners,
    target::MCP_PATH,
};
use crate::{
    explain::DenialLog, mcp::error_code, policy::Policy, rate_limit::LogLimit, telemetry::Telemetry,
};

/// All layers, outermost first, and the endpoint.
pub(crate) struct Stack {
    layers: Vec<Box<dyn Layer>>,
    endpoint: Box<dyn Endpoint>,
    recent: Arc<DenialLog>,
    log: LogLimit,
    needs_peer: bool,
}

impl Stack {
    /// Builds the layers that a service needs. There is a `gate` if callers are authenticated.
    pub(crate) fn new(
        service: ProxyService,
        origin: OriginCheck,
        gate: Option<Arc<Authenticator>>,
        endpoint: Box<dyn Endpoint>,
    ) -> Self {
        let ProxyService { transport, spec, policy, exchange, denials, audit, telemetry, .. } = service;
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        let is_stdio = transport == "stdio";
        if audit.is_some() || telemetry.is_some() {
            // Before all layers that deny: every request is recorded and counted.
            let serves_metrics = telemetry.as_ref().is_some_and(|telemetry| telemetry.serves_path());
            let unmeasured = [Some(health::PATH), serves_metrics.then_some(metrics_endpoint::PATH)];
            layers.push(Box::new(ObserveLayer {
                audit: audit.clone(),
                telemetry: telemetry.clone(),
                unmeasured_paths: unmeasured.into_iter().flatten().collect(),
                is_stdio,
                requires_auth: gate.is_some(),
                external_url: ExternalUrlConfig {
                    prefix: None,
                    trust_proxy_headers: spec.trust_proxy_headers,
                },
                sse_pending: SsePendingRequests::default(),
            }));
        }
        // Before any layer reads a body.
        layers.push(Box::new(BodyLimit::default()));
        // Before any layer that responds: a page of another origin learns nothing, not even from `/health`.
        layers.push(Box::new(origin));
        // Before authentication, because no caller may use the rejected methods.
        layers.push(Box::new(Methods));
        // Between layers: records that a phase of the request begins, if requests are measured.
        let measured = telemetry.is_some();
        let mark = |layers: &mut Vec<Box<dyn Layer>>, part| {
            if measured {
                layers.push(Box::new(PhaseMarker(part)));
            }
        };
        let owners = Arc::new(SessionOwners::new(["/", MCP_PATH, endpoint.path()]));
        if !spec.allowed_origins.is_empty() || gate.is_some() {
            // Before all other layers that respond: a page must be able to read denials too.
            layers.push(Box::new(Cors));
        }
        // Before authentication: probes have no token.
        layers.push(Box::new(Health::new(transport, gate.clone())));
        if let Some(gate) = gate.clone() {
            // Before authentication: clients without a token read here how to get one.
            layers.push(Box::new(WellKnown::new(Arc::clone(&gate))));
            mark(&mut layers, "authenticate");
            // Before any work is done for a caller. Removes the token from the request.
            layers.push(Box::new(Authenticate::new(gate)));
            // After authentication; later layers can rely on sessions being the caller's.
            layers.push(Box::new(SessionOwner::new(Arc::clone(&owners))));
        }
        if let Some(telemetry) = telemetry.as_ref().filter(|telemetry| telemetry.serves_path()) {
            // After authentication: unauthenticated callers must not learn how often each tool is called.
            layers.push(Box::new(MetricsEndpoint::new(Arc::clone(telemetry))));
        }
        let Policy { tools, authorization } = policy;
        let decides = tools.is_some() || authorization.is_some();
        let records = audit.is_some();
        let fails_closed = audit.as_ref().is_some_and(|audit| audit.spec().fail_closed);
        if decides || records || measured {
            mark(&mut layers, "receive");
            // Before all layers that read messages, and before names change: tools are recorded by the names that
            // clients use. Without such layers, no body is parsed.
            layers.push(Box::new(Parse::new(decides || fails_closed, Arc::clone(&denials))));
        }
        if fails_closed {
            // Before anything is forwarded.
            layers.push(Box::new(AuditPreflight));
        }
        if decides {
            // Directly before the policy layers, which only see JSON-RPC messages.
            layers.push(Box::new(EndpointGuard::new(owners)));
        }
        let mut unknown_tools = None;
        if let Some(tools) = tools {
            mark(&mut layers, "filter");
            // Before authorization, whose policies use the server's own names.
            unknown_tools = Some(UnknownTools::new(Arc::clone(&tools)));
            layers.push(Box::new(ToolFilter::new(tools)));
        }
        if let Some(authorization) = authorization {
            mark(&mut layers, "authorize");
            // Last of the policy layers, so that the permitted requests are those that the server gets.
            layers.push(Box::new(Authorize::new(authorization)));
        }
        if let Some(unknown_tools) = unknown_tools {
            // Behind all layers that remove tools from lists.
            layers.push(Box::new(unknown_tools));
        }
        if let (Some(exchange), Some(gate)) = (exchange, gate) {
            mark(&mut layers, "exchange");
            // Innermost of the layers that deny: no token is requested for denied requests, and only the last layer,
            // which does not read tokens, sees the exchanged token.
            layers.push(Box::new(TokenExchange::new(exchange, gate)));
        }
        if measured {
            // Innermost: the server gets the context of the last span.
            layers.push(Box::new(PropagateContext { is_stdio }));
        }
        let tells_peers = records || measured;
        Self { layers, endpoint, recent: denials, log: LogLimit::new(), needs_peer: tells_peers }
    }

    /// Serves only metrics, to scrapers on this machine, which have no tokens.
    pub(crate) fn of_metrics(
        telemetry: Arc<Telemetry>,
        origin: OriginCheck,
        denials: Arc<DenialLog>,
    ) -> Self {
        let layers: Vec<Box<dyn Layer>> = vec![Box::new(origin), Box::new(MetricsEndpoint::new(telemetry))];
        Self {
            layers,
            endpoint: Box::new(NotFound),
            recent: denials,
            log: LogLimit::new(),
            needs_peer: false,
        }
    }

    /// Whether requests need their [`Peer`](super::observe::Peer).
    pub(crate) fn needs_peer(&self) -> bool {
        self.needs_peer
    }

    /// Checks with one MCP exchange that the server is an MCP server.
    pub(crate) async fn check(&self) -> Result<Passed, Finding> {
        self.endpoint.check().await
    }

    /// Handles a request: runs the layers, turns a panic into a 500, and logs a denial, so that `mcpm explain` finds
    /// the id that the client received. None of this is a layer, because a layer allocates a future for each request.
    pub(crate) async fn handle(&self, request: Request) -> Response {
        // Calling the first layer runs code too, so the call itself is inside the future.
        let layers = async { Next::new(&self.layers, self.endpoint.as_ref()).handle(request).await };
        let response = AssertUnwindSafe(layers).catch_unwind().await.unwrap_or_else(|_| internal_error());
        if let Some(denial) = response.extensions().get::<Denial>() {
            self.log_denial(denial);
            let record = denial.to_record(&self.recent);
            // Boxed, because denials are rare.
            Box::pin(self.recent.push_and_wait(record)).await;
        } else if let Some(failure) = response.extensions().get::<Failure>()
            && let Some(suppressed) = self.log.admit(failure.kind)
        {
            tracing::warn!(kind = failure.kind, suppressed, "a request failed: {}", failure.message);
        }
        response
    }

    fn log_denial(&self, denial: &Denial) {
        let Some(suppressed) = self.log.admit(denial.reason.id()) else { return };
        let (reason, refusal) = (denial.reason.id(), &denial.id);
        let cause = denial.inputs.iter().find(|(name, _)| *name == "cause").map(|(_, value)| value);
        tracing::warn!(reason, %refusal, rule = denial.rule, cause, suppressed, "denied a request");
    }
}

/// The response when a layer or the endpoint panics: the panic costs one request, not the connection.
fn internal_error() -> Response {
    tracing::error!("a request failed because of a defect in mcpm");
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    respond::error(status, error_code::INTERNAL_ERROR, "a defect in mcpm", b"")
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stack(..)")
    }
}
