//! Implements the device authorization grant, for a login in a browser on another device (RFC 8628).

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use oauth2::{
    DeviceAuthorizationUrl, DeviceCodeErrorResponseType, RequestTokenError, Scope,
    StandardDeviceAuthorizationResponse,
};
use url::Url;

use super::{
    discovery::{AuthorizationServer, failed},
    oauth_client::{OAuthClient, TokenRequestError, TokenSet},
};
use crate::{Error, Result, auth::guarded_client::GuardedClient, explain::Reason, user_prompt::DeviceLogin};

/// Maximum length of the code that the user enters, in characters.
const MAX_USER_CODE_CHARS: usize = 64;
/// The minimum and the maximum interval between polls that a server may request.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(600);

fn unusable(message: &'static str) -> Error {
    failed(message).reason(Reason::LoginResponseUnusable)
}

/// A login that waits for its user.
#[derive(Debug)]
pub(super) struct DeviceGrant<'a> {
    http: &'a GuardedClient,
    oauth: &'a OAuthClient,
    resource: &'a str,
    authorization: StandardDeviceAuthorizationResponse,
    /// Where the user enters the code.
    url: Url,
}

impl<'a> DeviceGrant<'a> {
    /// Requests a code for the user (RFC 8628 section 3.1).
    ///
    /// # Errors
    /// `Upstream` if the server rejects the request, or its response cannot be shown.
    pub(super) async fn begin(
        http: &'a GuardedClient,
        oauth: &'a OAuthClient,
        server: &'a AuthorizationServer,
        scopes: &[String],
    ) -> Result<Self> {
        let endpoint = server.metadata.device_authorization_endpoint.as_deref().unwrap_or_default();
        let endpoint = http.guard().parse_url(endpoint)?;
        let client = oauth.clone().set_device_authorization_url(DeviceAuthorizationUrl::from_url(endpoint));
        let request = client
            .exchange_device_code()
            .add_scopes(scopes.iter().cloned().map(Scope::new))
            .add_extra_param("resource", server.resource.clone());
        let response = request.request_async(http).await;
        let authorization: StandardDeviceAuthorizationResponse =
            response.map_err(|error| TokenRequestError::from(error).into_error())?;
        let code = authorization.user_code().secret();
        if code.is_empty()
            || code.len() > MAX_USER_CODE_CHARS
            || !code.chars().all(|c| matches!(c, ' '..='~'))
        {
            return Err(unusable("the authorization server sent a user code that cannot be typed"));
        }
        if authorization.interval() > MAX_POLL_INTERVAL {
            return Err(unusable("the polling interval of the authorization server is too long"));
        }
        let url = http.guard().parse_url(authorization.verification_uri())?;
        Ok(Self { http, oauth, resource: &server.resource, authorization, url })
    }

    /// The URL where the user logs in, and the code to enter there.
    pub(super) fn login(&self) -> DeviceLogin {
        DeviceLogin { url: self.url.to_string(), code: self.authorization.user_code().secret().clone() }
    }

    /// The URL that already contains the code, or else the URL where the user enters it.
    pub(super) fn complete_url(&self) -> String {
        let complete = self.authorization.verification_uri_complete();
        let complete = complete.and_then(|url| self.http.guard().parse_url(url.secret()).ok());
        complete.unwrap_or_else(|| self.url.clone()).into()
    }

    /// Polls until the user has logged in (RFC 8628 section 3.4); `None` if the user denies access.
    ///
    /// # Errors
    /// `Upstream` if the code expires, or the server rejects the grant.
    pub(super) async fn wait(&self) -> Result<Option<TokenSet>> {
        let request = self
            .oauth
            .exchange_device_access_token(&self.authorization)
            .add_extra_param("resource", self.resource.to_owned());
        // After a failed request, the library would poll more often than the server allows (RFC 8628 section 3.5).
        let slowest = AtomicU64::new(MIN_POLL_INTERVAL.as_secs());
        let sleep = |interval: Duration| {
            let before = slowest.fetch_max(interval.as_secs(), Ordering::Relaxed);
            tokio::time::sleep(interval.max(Duration::from_secs(before)))
        };
        match request.request_async(self.http, sleep, None).await {
            Ok(response) => TokenSet::from_response(&response).map(Some),
            Err(RequestTokenError::ServerResponse(response))
                if *response.error() == DeviceCodeErrorResponseType::AccessDenied =>
            {
                Ok(None)
            }
            Err(error) => Err(TokenRequestError::from(error).into_error()),
        }
    }
}
