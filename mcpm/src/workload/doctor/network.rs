//! Checks the clock of this machine, and the network from inside the container of a server.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt as _;
use http::{HeaderMap, Method, header};
use url::Url;

use super::finding::{Finding, Severity};
use crate::{
    Environment, Error, ErrorKind, Result,
    http_client::{HttpClient, request_for_url},
    runtime::Runtime,
    state::WorkloadState,
    workload::{Workloads, engine},
};

/// The server that the clock is compared with, which package builds need in any case.
const CLOCK_URL: &str = "https://pypi.org/";
/// The largest accepted difference between the clocks. Servers often accept tokens for some minutes after their expiry.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);
const SET_CLOCK: &str = "set the clock (`timedatectl set-ntp true`): tokens and certificates depend on it";
/// The most bytes that are read of what a program in a container writes.
const MAX_OUTPUT_BYTES: usize = 4096;

/// Looks a name up and opens a TLS connection; prints `dns` and `tls`, each with `ok` or what went wrong.
const PYTHON: &str = "\
import socket, ssl, sys
try:
    socket.getaddrinfo(sys.argv[1], 443)
    print('dns ok')
    with socket.create_connection((sys.argv[1], 443), 8) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname=sys.argv[1]).close()
    print('tls ok')
except ssl.SSLCertVerificationError as error:
    print('tls untrusted', error.verify_message)
except socket.gaierror as error:
    print('dns', error)
except OSError as error:
    print('tls', error)
";
const NODE: &str = "\
const host = process.argv[1];
require('dns').lookup(host, (error) => {
  console.log(error ? 'dns ' + error.code : 'dns ok');
  if (error) return;
  const socket = require('tls').connect({ host, port: 443, servername: host, timeout: 8000 });
  const end = (text) => { console.log(text); process.exit(); };
  socket.on('secureConnect', () => end('tls ok'));
  socket.on('timeout', () => end('tls timeout'));
  const untrusted = /CERT|ISSUER|SIGNED/;
  socket.on('error', (e) => end((untrusted.test(e.code) ? 'tls untrusted ' : 'tls ') + e.code));
});
";

/// Compares the clock of this machine with that of a server.
pub(super) async fn clock() -> Finding {
    const ID: &str = "clock";
    match server_time().await {
        Ok(Some(server)) => {
            let now = SystemTime::now();
            let ahead = now.duration_since(server).unwrap_or_default();
            let difference = ahead.max(server.duration_since(now).unwrap_or_default());
            if difference <= MAX_CLOCK_DIFFERENCE {
                return Finding::ok(ID, "the clock agrees with the clocks of other machines");
            }
            let direction = if ahead.is_zero() { "behind" } else { "ahead" };
            let message = format!("the clock is {} s {direction}", difference.as_secs());
            Finding::warning(ID, message, SET_CLOCK)
        }
        Ok(None) => Finding::ok(ID, "not checked: the response of pypi.org has no valid `Date` header"),
        // If the clock of this machine is wrong, the certificates of all servers appear to be invalid.
        Err(error) if is_of_time(&error) => {
            Finding::warning(ID, format!("the clock may be wrong: {error}"), SET_CLOCK)
        }
        Err(error) => Finding::ok(ID, format!("not checked: {error}")),
    }
}

/// Whether a certificate was rejected because it was expired or not valid yet.
fn is_of_time(error: &Error) -> bool {
    let text = error.to_string();
    ["certificate expired", "certificate not valid yet"].iter().any(|problem| text.contains(problem))
}

async fn server_time() -> Result<Option<SystemTime>> {
    let url = Url::parse(CLOCK_URL)
        .map_err(|error| Error::new(ErrorKind::Internal, "the URL for the clock is invalid").source(error))?;
    let request = request_for_url(Method::HEAD, &url, HeaderMap::new(), "")?;
    let response = HttpClient::default().send(request).await?;
    let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok());
    Ok(date.and_then(parse_date))
}

/// Parses the date of a response, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn parse_date(date: &str) -> Option<SystemTime> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = date.split(' ').collect();
    let [_, day, month, year, time, "GMT"] = words[..] else { return None };
    let month = MONTHS.find(month).filter(|_| month.len() == 3)? / 3 + 1;
    humantime::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}

/// Checks the network inside of a container: whether names resolve, and whether the certificates of public servers are
/// trusted, which they are not behind a proxy that inspects TLS.
pub(super) async fn containers(environment: &Environment) -> Vec<Finding> {
    match probe(environment).await {
        Ok(Some((name, host, output))) => findings(&name, host, &output),
        Ok(None) => {
            let reason =
                "not checked: no server from a Python or Node.js package is running without isolation";
            vec![Finding::ok("containers.dns", reason), Finding::ok("containers.ca", reason)]
        }
        Err(error) => vec![Finding::of_error("containers.dns", Severity::Warning, &error)],
    }
}

/// Runs the check in the container of a workload; returns the name of the workload, the host, and the output.
async fn probe(environment: &Environment) -> Result<Option<(String, &'static str, String)>> {
    let workloads = Workloads::new(environment.clone());
    for info in workloads.list().await? {
        let reference = info.package.as_ref().map_or("", |package| package.reference.as_str());
        let (program, flag, script, host) = match reference.split_once("://") {
            Some(("uvx", _)) => ("python3", "-c", PYTHON, "pypi.org"),
            Some(("npx", _)) => ("node", "-e", NODE, "registry.npmjs.org"),
            _ => continue,
        };
        let spec = workloads.spec(&info.name)?;
        let Some(container) = spec.container().filter(|_| spec.isolation.is_none()) else { continue };
        if info.status != WorkloadState::Running {
            continue;
        }
        let runtime = engine::runtime_of(environment, &spec).await?;
        if runtime.engine().await?.connects_through_mcpm {
            continue;
        }
        let command = [program, flag, script, host].map(str::to_owned);
        let output = execute(&*runtime, &container.name, &command).await?;
        return Ok(output.map(|output| (info.name, host, output)));
    }
    Ok(None)
}

/// Runs a program in a container and returns what it writes; `None` if the container is gone.
async fn execute(runtime: &dyn Runtime, container: &str, command: &[String]) -> Result<Option<String>> {
    let Some(found) = runtime.inspect(container).await? else { return Ok(None) };
    let mut attached = runtime.execute(&found.id, command).await?;
    let mut output = Vec::new();
    while let Some(chunk) = attached.output.next().await {
        output.extend_from_slice(&chunk?.bytes);
        if output.len() > MAX_OUTPUT_BYTES {
            break;
        }
    }
    output.truncate(MAX_OUTPUT_BYTES);
    Ok(Some(String::from_utf8_lossy(&output).into_owned()))
}

fn findings(name: &str, host: &str, output: &str) -> Vec<Finding> {
    let said = |word: &str| output.lines().find_map(|line| line.strip_prefix(word)).map(str::trim);
    let mut found = vec![match said("dns ") {
        Some("ok") => Finding::ok("containers.dns", format!("names resolve in the container of `{name}`")),
        problem => Finding::warning(
            "containers.dns",
            format!("`{host}` does not resolve in the container of `{name}`: {}", problem.unwrap_or(output)),
            "check the DNS settings of the container engine",
        ),
    }];
    match said("tls ") {
        Some("ok") => {
            let message = format!("certificates of public servers are trusted in the container of `{name}`");
            found.push(Finding::ok("containers.ca", message));
        }
        Some(problem) => {
            let message = format!("no TLS connection to `{host}` from the container of `{name}`: {problem}");
            let fix = match problem.starts_with("untrusted") {
                true => "set `ca_cert` to the certificate of the proxy that inspects TLS",
                false => "check the network of the container engine",
            };
            found.push(Finding::warning("containers.ca", message, fix));
        }
        // Names do not resolve, which is already reported.
        None => {}
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_responses_are_parsed() {
        let parsed = parse_date("Sun, 06 Nov 1994 08:49:37 GMT").expect("a date");
        assert_eq!(humantime::format_rfc3339(parsed).to_string(), "1994-11-06T08:49:37Z");
        for bad in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Xyz 1994 08:49:37 GMT",
            "Sun, 06 ov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_a_program_in_a_container_says_becomes_findings() {
        for (output, expected) in [
            (
                "dns ok\ntls ok\n",
                [("containers.dns", Severity::Ok), ("containers.ca", Severity::Ok)].as_slice(),
            ),
            (
                "dns ok\ntls untrusted self-signed certificate in certificate chain\n",
                &[("containers.dns", Severity::Ok), ("containers.ca", Severity::Warning)],
            ),
            ("dns [Errno -3] Temporary failure\n", &[("containers.dns", Severity::Warning)]),
            ("exec failed: python3 not found", &[("containers.dns", Severity::Warning)]),
        ] {
            let found = findings("time", "pypi.org", output);
            let shown: Vec<_> = found.iter().map(|one| (one.id, one.severity)).collect();
            assert_eq!(shown, expected, "{output}");
            let untrusted = output.contains("untrusted");
            let names_option =
                found.iter().any(|one| one.fix.as_ref().is_some_and(|fix| fix.contains("`ca_cert`")));
            assert_eq!(names_option, untrusted, "{found:?}");
        }
    }
}
