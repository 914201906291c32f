//! The order of the layers: the one place that knows it.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use http::StatusCode;

use super::{
    denial::Denial,
    layer::{Endpoint, Layer, Next, NotFound},
    layers::{
        audit::{AuditLayer, AuditPreflight},
        authenticate::{Authenticate, Authenticator},
        authorize::Authorize,
        body_limit::BodyLimit,
        cors::Cors,
        endpoint_guard::EndpointGuard,
        health::Health,
        methods::Methods,
        metrics::Metrics,
        origin::OriginCheck,
        parse::Parse,
        session_owner::SessionOwner,
        telemetry::{PhaseMarker, PropagateContext, TelemetryLayer},
        token_exchange::TokenExchange,
        tools::{ToolFilter, UnknownTools},
        well_known::WellKnown,
    },
    respond::{self, Failure, Request, Response},
    server_check::{Finding, Passed},
    service::ProxyService,
    session_owners::SessionOwners,
    target::MCP_PATH,
};
use crate::{
    explain::DenialLog, mcp::error_code, policy::Policy, rate_limit::LogLimit, telemetry::Telemetry,
};

/// All layers, outermost first, and what they protect.
pub(crate) struct Stack {
    layers: Vec<Box<dyn Layer>>,
    endpoint: Box<dyn Endpoint>,
    recent: Arc<DenialLog>,
    log: LogLimit,
    needs_peer_address: bool,
}

impl Stack {
    /// Arranges the layers that a service needs. There is a gate when callers are authenticated.
    pub(crate) fn new(
        service: ProxyService,
        origin: OriginCheck,
        gate: Option<Arc<Authenticator>>,
        endpoint: Box<dyn Endpoint>,
    ) -> Self {
        let ProxyService { transport, spec, policy, exchange, denials, audit, telemetry, .. } = service;
        let trusted = spec.trust_proxy_headers;
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        if let Some(telemetry) = &telemetry {
            // Sees every outcome, also of what is refused next.
            layers.push(Box::new(TelemetryLayer::new(
                Arc::clone(telemetry),
                transport == "stdio",
                gate.is_some(),
                trusted,
            )));
        }
        if let Some(audit) = &audit {
            // Before anything that refuses: every request is recorded.
            let guarded = gate.is_some();
            layers.push(Box::new(AuditLayer::new(Arc::clone(audit), trusted, guarded)));
        }
        // Before anything reads a body.
        layers.push(Box::new(BodyLimit::default()));
        // Before anything is told: a page of another origin learns nothing, not even from `/health`.
        layers.push(Box::new(origin));
        // Before anybody is asked who they are: nobody may.
        layers.push(Box::new(Methods));
        // Between layers: says which part of a request begins, when that is measured.
        let measured = telemetry.is_some();
        let mark = |layers: &mut Vec<Box<dyn Layer>>, part| {
            if measured {
                layers.push(Box::new(PhaseMarker(part)));
            }
        };
        let owners = Arc::new(SessionOwners::new(["/", MCP_PATH, endpoint.path()]));
        if !spec.allowed_origins.is_empty() || gate.is_some() {
            // Before anything is answered: a page must be able to read refusals too.
            layers.push(Box::new(Cors));
        }
        // For probes of the machine, which are no MCP clients and have no token.
        layers.push(Box::new(Health::new(transport, gate.clone())));
        if let Some(gate) = gate.clone() {
            // Before anybody is asked who they are: it says how they find that out.
            layers.push(Box::new(WellKnown::new(Arc::clone(&gate))));
            mark(&mut layers, "authenticate");
            // Before anything is done for a caller, and takes their token off.
            layers.push(Box::new(Authenticate::new(gate)));
            // Needs to know who is asking; whoever looks into sessions may then trust that they are the caller's.
            layers.push(Box::new(SessionOwner::new(Arc::clone(&owners))));
        }
        if let Some(telemetry) = telemetry.as_ref().filter(|telemetry| telemetry.serves_path()) {
            // For those who were let in: how often which tool is called is nothing for strangers.
            layers.push(Box::new(Metrics::new(Arc::clone(telemetry))));
        }
        let Policy { tools, authorization } = policy;
        let decides = tools.is_some() || authorization.is_some();
        let records = audit.is_some();
        if decides || records || measured {
            mark(&mut layers, "receive");
            // Before whatever looks into messages. Without anything that does, no body is looked into.
            let all = audit.as_ref().is_some_and(|audit| audit.spec().fail_closed);
            layers.push(Box::new(Parse::new(decides || all, Arc::clone(&denials))));
        }
        if let Some(audit) = audit {
            // Before names change and anything is sent on: what a client asks for is recorded in its words.
            layers.push(Box::new(AuditPreflight::new(audit)));
        }
        if decides {
            // Next to those that decide, and once it is known what is a message: about anything else they decide nothing.
            layers.push(Box::new(EndpointGuard::new(owners)));
        }
        let mut unknown_tools = None;
        if let Some(tools) = tools {
            mark(&mut layers, "filter");
            // Before authorization, whose policies know a server's own names.
            unknown_tools = Some(UnknownTools::new(Arc::clone(&tools)));
            layers.push(Box::new(ToolFilter::new(tools)));
        }
        if let Some(authorization) = authorization {
            mark(&mut layers, "authorize");
            // Last of those that decide: what it permits is what reaches the server.
            layers.push(Box::new(Authorize::new(authorization)));
        }
        if let Some(unknown_tools) = unknown_tools {
            // Behind all that leave tools out of lists.
            layers.push(Box::new(unknown_tools));
        }
        if let (Some(exchange), Some(gate)) = (exchange, gate) {
            mark(&mut layers, "exchange");
            // Innermost of all that may refuse: nobody is asked for a token for what is refused, and no layer sees the
            // one that comes, except for the next, which looks at none.
            layers.push(Box::new(TokenExchange::new(exchange, gate)));
        }
        if measured {
            // Next to the server, which it tells where the request stands in its trace.
            layers.push(Box::new(PropagateContext));
        }
        let tells_peers = records || measured;
        Self { layers, endpoint, recent: denials, log: LogLimit::new(), needs_peer_address: tells_peers }
    }

    /// Serves metrics alone, to scrapers of this machine, which have no tokens.
    pub(crate) fn of_metrics(
        telemetry: Arc<Telemetry>,
        origin: OriginCheck,
        denials: Arc<DenialLog>,
    ) -> Self {
        let layers: Vec<Box<dyn Layer>> = vec![Box::new(origin), Box::new(Metrics::new(telemetry))];
        Self {
            layers,
            endpoint: Box::new(NotFound),
            recent: denials,
            log: LogLimit::new(),
            needs_peer_address: false,
        }
    }

    /// Whether the layers want to know who is at the other end of a connection ([`Peer`](super::trail::Peer)).
    pub(crate) fn needs_peer_address(&self) -> bool {
        self.needs_peer_address
    }

    /// Checks with one MCP exchange that the server behind is an MCP server.
    pub(crate) async fn check(&self) -> Result<Passed, Finding> {
        self.endpoint.check().await
    }

    /// Handles a request: runs the layers, turns a panic into a 500, and logs a denial, so that `mcpm explain` finds
    /// the id that the client was given. None of this is a layer, because a layer allocates a future for each request.
    pub(crate) async fn handle(&self, request: Request) -> Response {
        // Calling the first layer runs code too, so the call itself is inside the future.
        let layers = async { Next::new(&self.layers, self.endpoint.as_ref()).handle(request).await };
        let response = AssertUnwindSafe(layers).catch_unwind().await.unwrap_or_else(|_| internal_error());
        if let Some(denial) = response.extensions().get::<Denial>() {
            self.log_denial(denial);
            let refused = denial.to_record(&self.recent);
            // Boxed, since it is rare.
            Box::pin(self.recent.push_and_wait(refused)).await;
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
        tracing::warn!(reason, %refusal, rule = denial.rule, cause, suppressed, "refused a request");
    }
}

/// The response when a layer or the endpoint panics: the panic costs one request, not the connection.
fn internal_error() -> Response {
    tracing::error!("a request met a defect in mcpm");
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    respond::error(status, error_code::INTERNAL_ERROR, "a defect in mcpm", b"")
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stack(..)")
    }
}
