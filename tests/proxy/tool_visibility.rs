//! Checks that calls of tools that no list shows are denied, and that calls of listed tools are not, for any
//! combination of filter, overrides and policies, and for any era, page and spelling.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use mcpm::{
    ErrorKind,
    proxy::{Proxy, RunningProxy},
};
use mcpm_tests::harness::{
    http::{Http, Request},
    mcp::Modern,
    upstream::{ReceivedRequest, Upstream, UpstreamResponse},
};
use proptest::{
    collection::{btree_map, btree_set, vec},
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

/// Some names differ from others only in case, one must be encoded in a header, and one is not ASCII.
const NAME: &str = "[abAB]{1,2}|a b|\u{e4}|\u{430}";

/// The tools of a server, and the options of the proxy.
#[derive(Debug)]
struct Scenario {
    /// The server's own names, in pages.
    pages: Vec<Vec<String>>,
    patterns: Vec<String>,
    overrides: BTreeMap<String, String>,
    policies: Option<Policies>,
    /// Whether the server responds with events.
    events: bool,
}

#[derive(Debug)]
struct Policies {
    /// `None` permits everything.
    permitted: Option<BTreeSet<String>>,
    forbidden: BTreeSet<String>,
}

fn scenarios() -> impl Strategy<Value = Scenario> {
    let policies = (proptest::option::of(btree_set(NAME, 0..6)), btree_set(NAME, 0..3))
        .prop_map(|(permitted, forbidden)| Policies { permitted, forbidden });
    let parts = (
        vec(vec(NAME, 0..4), 1..4),
        vec("!?[abAB*?]{1,2}", 0..4),
        btree_map(NAME, NAME, 0..4),
        proptest::option::of(policies),
        any::<bool>(),
    );
    parts.prop_map(|(pages, patterns, overrides, policies, events)| Scenario {
        pages,
        patterns,
        overrides,
        policies,
        events,
    })
}

/// The calls that reached a tool of the server, by the server's own names.
type ReceivedCalls = Arc<Mutex<Vec<Value>>>;

impl Scenario {
    /// The server.
    async fn server(&self) -> (String, ReceivedCalls) {
        let server = Upstream::listen().await;
        let uri = server.uri("/mcp");
        let reached = ReceivedCalls::default();
        let (keeps, pages, events) = (Arc::clone(&reached), self.pages.clone(), self.events);
        server.serve(move |received| answer(received, &pages, events, &keeps));
        (uri, reached)
    }

    /// The proxy; `None` if options contradict each other.
    async fn proxy(&self, uri: &str) -> Option<RunningProxy> {
        let folder = tempfile::tempdir().unwrap();
        let mut proxy = Proxy::builder("server", uri);
        for pattern in &self.patterns {
            proxy = proxy.tools(pattern);
        }
        if !self.overrides.is_empty() {
            let all: BTreeMap<_, _> =
                self.overrides.iter().map(|(own, name)| (own, json!({ "name": name }))).collect();
            let file = folder.path().join("overrides.json");
            std::fs::write(&file, json!({ "toolsOverride": all }).to_string()).unwrap();
            proxy = proxy.tools_override(file);
        }
        if let Some(policies) = &self.policies {
            let file = folder.path().join("policies.json");
            std::fs::write(&file, policies.document().to_string()).unwrap();
            proxy = proxy.authz_config(file);
        }
        let started = match proxy.build() {
            Ok(proxy) => proxy.start().await,
            Err(error) => Err(error),
        };
        match started {
            Ok(running) => Some(running),
            Err(error) if error.kind() == ErrorKind::InvalidOption => None,
            Err(error) => panic!("{error}: {self:?}"),
        }
    }

    /// All names that a client might try: those that the server or the options know, and similar ones.
    fn names(&self) -> BTreeSet<String> {
        let known =
            self.pages.iter().flatten().chain(self.overrides.iter().flat_map(|(own, name)| [own, name]));
        let known: BTreeSet<&String> = known.collect();
        let like = known
            .iter()
            .flat_map(|name| [(*name).clone(), name.to_uppercase(), format!("{name} "), format!("{name}\0")]);
        like.chain(["", "*"].map(str::to_owned)).collect()
    }
}

impl Policies {
    fn document(&self) -> Value {
        let about = |effect: &str, name: &String| {
            format!("{effect}(principal, action == Action::\"call_tool\", resource == Tool::\"{name}\");")
        };
        let forbidden = self.forbidden.iter().map(|name| about("forbid", name));
        let policies: Vec<String> = match &self.permitted {
            None => forbidden.chain(["permit(principal, action, resource);".to_owned()]).collect(),
            Some(names) => forbidden.chain(names.iter().map(|name| about("permit", name))).collect(),
        };
        json!({ "version": "1.0", "type": "cedarv1", "cedar": { "policies": policies } })
    }
}

/// The response of the server. The description of a tool is its own name, which no override changes here.
fn answer(
    received: &ReceivedRequest,
    pages: &[Vec<String>],
    events: bool,
    reached: &ReceivedCalls,
) -> UpstreamResponse {
    let asked: Value = serde_json::from_slice(&received.body).unwrap();
    let one = |message: &Value| {
        let result = match message["method"].as_str().unwrap() {
            "tools/list" => {
                let page = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
                let tools: Vec<Value> = pages[page]
                    .iter()
                    .map(|own| json!({ "name": own, "description": own, "inputSchema": {} }))
                    .collect();
                let next = (page + 1 < pages.len()).then(|| (page + 1).to_string());
                match next {
                    Some(next) => json!({ "tools": tools, "nextCursor": next }),
                    None => json!({ "tools": tools }),
                }
            }
            "tools/call" => {
                let name = &message["params"]["name"];
                if !pages.iter().flatten().any(|own| own == name) {
                    let error = json!({ "code": -32602, "message": "no such tool" });
                    return json!({ "jsonrpc": "2.0", "id": message["id"], "error": error });
                }
                reached.lock().unwrap().push(name.clone());
                json!({ "content": [] })
            }
            _ => json!({}),
        };
        json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })
    };
    let said = match &asked {
        Value::Array(all) => all.iter().map(one).collect(),
        alone => one(alone),
    };
    let (kind, body) = match events {
        true => ("text/event-stream", format!("data: {said}\n\n")),
        false => ("application/json", said.to_string()),
    };
    UpstreamResponse { status: "200 OK".to_owned(), headers: format!("Content-Type: {kind}\r\n"), body }
}

/// A text in JSON, and the same with each letter escaped.
fn spellings(text: &str) -> [String; 2] {
    let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    [json!(text).to_string(), format!("\"{escaped}\"")]
}

/// A call; `members` contains the remaining params.
fn body(members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{{members},"arguments":{{}}}}}}"#)
}

/// The same call in the stateless era, with a name in its header.
fn modern(http: Http, members: &str, header: &str) -> Request {
    let meta = Modern::params(json!({}))["_meta"].to_string();
    let message = body(&format!("{members},\"_meta\":{meta}"));
    let header = format!("=?base64?{}?=", STANDARD.encode(header));
    let request = Modern(http).prepare(1, "tools/call", json!({ "name": "x" })).body(message);
    request.header("Mcp-Name", &header)
}

/// All ways to call a tool by its name.
fn calls(http: Http, name: &str) -> Vec<Request> {
    let mut all = Vec::new();
    for spelling in spellings(name) {
        let members = format!("\"name\":{spelling}");
        all.push(http.post("/mcp", body(&members)));
        all.push(http.post("/mcp", format!("[{}]", body(&members))));
        all.push(modern(http, &members, name));
    }
    all
}

/// All ways to disguise a hidden tool as a listed one, or to hide the call of it.
fn evasions(http: Http, hidden: &str, shown: &str) -> Vec<Request> {
    let [hidden_text, escaped] = spellings(hidden);
    let [shown_text, _] = spellings(shown);
    let call = |members: &str| http.post("/mcp", body(members));
    let (of_hidden, of_shown) = (format!("\"name\":{hidden_text}"), format!("\"name\":{shown_text}"));
    vec![
        call(&format!("{of_shown},{of_hidden}")),
        call(&format!("{of_hidden},{of_shown}")),
        call(&format!("{of_shown},\"n\\u0061me\":{escaped}")),
        call(&format!("{of_shown},\"NAME\":{hidden_text}")),
        call(&format!("\"Name\":{hidden_text},{of_shown}")),
        http.post("/mcp", body(&of_hidden).replace("\"id\":1,", "")),
        modern(http, &of_hidden, shown),
        modern(http, &of_shown, hidden),
        modern(http, &format!("{of_shown},{of_hidden}"), shown),
    ]
}

/// The tools that a client of an era sees, on all pages: the server's own names by the listed names.
async fn shown(http: Http, modern: bool) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut params = json!({});
    loop {
        let list = match modern {
            true => Modern(http).prepare(1, "tools/list", params),
            false => {
                let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params });
                http.post("/mcp", list.to_string())
            }
        };
        let result = list.send().await.answer().await["result"].clone();
        for tool in result["tools"].as_array().unwrap() {
            let text = |field: &str| tool[field].as_str().unwrap().to_owned();
            let before = all.insert(text("name"), text("description"));
            assert!(before.is_none_or(|own| own == text("description")), "two tools have one name");
        }
        match &result["nextCursor"] {
            Value::Null => return all,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
}

/// Returns whether the options were accepted, so that the calls were tried.
async fn only_listed_tools_are_callable(world: &Scenario) -> bool {
    let (uri, reached) = world.server().await;
    let Some(proxy) = world.proxy(&uri).await else { return false };
    let http = Http(proxy.address().unwrap());
    let listed = shown(http, false).await;
    assert_eq!(listed, shown(http, true).await, "both eras are shown the same");
    let taken = || std::mem::take(&mut *reached.lock().unwrap());
    for name in world.names() {
        for call in calls(http, &name) {
            let said = call.clone().send().await.text().await;
            match listed.get(&name) {
                Some(own) => assert_eq!(taken(), [json!(own)], "{name:?} is shown: {call:?} {said}"),
                None => assert!(taken().is_empty(), "{name:?} is hidden: {call:?} {said}"),
            }
            assert_eq!(said.contains("\"error\""), !listed.contains_key(&name), "{call:?} {said}");
        }
        // The server itself rejects tools that it does not have.
        let is_hidden = !listed.contains_key(&name) && world.pages.iter().flatten().any(|own| *own == name);
        let Some((shown, own)) = listed.first_key_value().filter(|_| is_hidden) else { continue };
        for trick in evasions(http, &name, shown) {
            let refused = trick.clone().send().await;
            assert!(taken().is_empty(), "{name:?} is hidden: {trick:?} {}", refused.status);
        }
        // In a batch beside a listed tool, which is called only if it exists: the hidden tool must not be called.
        let both = [shown, &name].map(|name| body(&format!("\"name\":{}", json!(name))));
        http.post("/mcp", format!("[{}]", both.join(","))).send().await;
        let reached = taken();
        assert!(reached.is_empty() || reached == [json!(own)], "{name:?} is hidden: {both:?} {reached:?}");
    }
    proxy.stop().await;
    true
}

#[test]
fn unlisted_tools_cannot_be_called_in_any_era_or_encoding() {
    let nightly = std::env::var_os("MCPM_NIGHTLY").is_some_and(|value| !value.is_empty());
    let cases = if nightly { 300 } else { 12 };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let tried = AtomicU32::new(0);
    let held = runner.run(&scenarios(), |world| {
        tried.fetch_add(
            u32::from(runtime.block_on(only_listed_tools_are_callable(&world))),
            Ordering::Relaxed,
        );
        Ok(())
    });
    held.unwrap_or_else(|error| panic!("{error}"));
    let tried = tried.into_inner();
    assert!(tried >= cases / 2, "only {tried} of {cases} worlds were tried");
}
