//! Manages the login of a workload to its remote server.

use std::{sync::Arc, time::Duration};

use http::header;
use url::Url;

use super::{Placement, RemoteSpec, WorkloadName, WorkloadSpec, record::Record};
use crate::{
    Environment, Error, ErrorKind, Result,
    auth::outgoing::{OutgoingAuth, OutgoingSpec},
    options::{SecretTarget, SharedOptions},
    proxy::ProxySecrets,
    state::LoginState,
};

/// Interval at which a workload checks whether another process has stored or removed its login.
const LOGIN_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Returns the client that logs in to a remote server and authenticates requests to it.
///
/// # Errors
/// As for [`OutgoingAuth::new`].
pub(super) fn outgoing(
    spec: &WorkloadSpec,
    remote: &RemoteSpec,
    environment: &Environment,
) -> Result<OutgoingAuth> {
    let url = Url::parse(&remote.url).map_err(|error| {
        let message = format!("the record of `{}` contains an invalid URL of the remote server", spec.name);
        Error::new(ErrorKind::CorruptState, message).source(error)
    })?;
    let given = ProxySecrets::from(&SharedOptions::from(&spec.asked));
    let secrets = given.or_from(environment, &spec.proxy).outgoing;
    let configured = spec.proxy.outgoing.clone().unwrap_or_default();
    let bundle = spec.asked.mcpm_ca_bundle.clone();
    OutgoingAuth::new(configured, secrets, url, bundle, Some(environment.clone()))
}

/// Returns the client that logs in to the remote server of a workload.
///
/// # Errors
/// `InvalidOption` for a workload in a container, and for one whose options authenticate its requests.
pub(super) fn of_workload(spec: &WorkloadSpec, environment: &Environment) -> Result<OutgoingAuth> {
    let name = &spec.name;
    let message = match &spec.place {
        Placement::Container(_) => {
            format!("`{name}` runs in a container; only remote servers have logins")
        }
        Placement::Remote(remote) if uses_given_credentials(spec, remote) => {
            format!("`{name}` authenticates with a configured token, so it has no login")
        }
        Placement::Remote(remote) => return outgoing(spec, remote, environment),
    };
    Err(Error::new(ErrorKind::InvalidOption, message))
}

/// Whether requests are authenticated by options, so that there is no login.
fn uses_given_credentials(spec: &WorkloadSpec, remote: &RemoteSpec) -> bool {
    let proxy = &spec.proxy;
    let of_secrets = spec.secrets.iter().filter_map(|secret| match secret.destination() {
        SecretTarget::Header(name) => Some(name),
        _ => None,
    });
    let names = proxy.forward_headers.iter().chain(remote.headers.keys()).map(String::as_str);
    proxy.exchange.is_some()
        || proxy.outgoing.as_ref().is_some_and(OutgoingSpec::has_bearer_token)
        || names.chain(of_secrets).any(|name| header::AUTHORIZATION.as_str().eq_ignore_ascii_case(name))
}

/// Removes and revokes the login of a workload that is removed, unless one of `others` uses the same login. A failure
/// is logged.
pub(super) async fn forget(
    spec: &WorkloadSpec,
    environment: &Environment,
    others: impl IntoIterator<Item = WorkloadSpec>,
) {
    let Ok(outgoing) = of_workload(spec, environment) else { return };
    let has_same = |other: WorkloadSpec| {
        of_workload(&other, environment).is_ok_and(|other| other.login_name() == outgoing.login_name())
    };
    if !outgoing.may_be_kept() || others.into_iter().any(has_same) {
        return;
    }
    match outgoing.log_out().await {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            tracing::warn!(%error, "cannot remove the login to the remote server");
        }
        _ => {}
    }
}

/// Records the state of the login to the remote server, until the workload ends. After the first login, also checks
/// whether another process has stored or removed a login.
pub(super) fn watch(
    outgoing: &Arc<OutgoingAuth>,
    record: Arc<Record>,
    name: WorkloadName,
) -> impl Future<Output = ()> + use<> {
    let (mut states, outgoing) = (outgoing.states(), Arc::downgrade(outgoing));
    async move {
        loop {
            let state = *states.borrow_and_update();
            record.set_login(state);
            if state == Some(LoginState::NeedsLogin) {
                record.warn(format!("the remote server requires a login: run `mcpm login {name}`"));
            }
            loop {
                let look = tokio::time::sleep(LOGIN_CHECK_INTERVAL);
                tokio::select! {
                    changed = states.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    () = look, if state.is_some() => {
                        let Some(outgoing) = outgoing.upgrade() else { return };
                        outgoing.take_changed_login().await;
                    }
                }
            }
        }
    }
}
