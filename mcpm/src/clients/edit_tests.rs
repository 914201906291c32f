//! Tests edits of sample files and of randomly generated files.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn fields() -> Fields {
    vec![
        ("type", FieldValue::Text("http".to_owned())),
        ("url", FieldValue::Text("http://127.0.0.1:1/mcp".to_owned())),
    ]
}

fn all_kinds() -> Fields {
    vec![
        ("command", FieldValue::Text("/opt/a \"b\"\\c".to_owned())),
        ("args", FieldValue::List(vec!["proxy".to_owned(), "stdio".to_owned()])),
        ("enabled", FieldValue::Flag(true)),
        ("env", FieldValue::Map(BTreeMap::from([("A".to_owned(), "b: #c".to_owned())]))),
    ]
}

/// Whether an entry has these fields, among others.
fn has_fields(entry: &Value, fields: &Fields) -> bool {
    fields.iter().all(|(key, value)| entry.get(key) == Some(&plain(value)))
}

const JSON: &[&str] = &["mcpServers"];
const TOML: &[&str] = &["mcp_servers"];
const YAML: &[&str] = &["extensions"];

fn map(syntax: Syntax) -> &'static [&'static str] {
    match syntax {
        Syntax::Json => JSON,
        Syntax::Toml => TOML,
        Syntax::Yaml => YAML,
    }
}

/// Adds an entry and removes it again; returns the text with the entry.
#[track_caller]
fn round(syntax: Syntax, text: &str) -> String {
    let path = EntryPath { map: map(syntax), name: "time" };
    for fields in [all_kinds(), fields()] {
        let (added, origin) =
            add(syntax, text, path, &fields).unwrap_or_else(|error| panic!("{error}: {text:?}"));
        assert!(has_fields(&entry(syntax, &added, path).unwrap().unwrap(), &fields));
        assert_eq!(remove(syntax, &added, path, Some(&origin)).unwrap(), text, "{added}");
        let parsed: Origin = serde_json::from_str(&serde_json::to_string(&origin).unwrap()).unwrap();
        assert_eq!(parsed, origin);
    }
    let (added, origin) = add(syntax, text, path, &fields()).unwrap();
    let url = ("url", FieldValue::Text("http://127.0.0.1:22/mcp".to_owned()));
    let moved = update(syntax, &added, path, &vec![url]).unwrap();
    assert_eq!(moved, added.replace("127.0.0.1:1/", "127.0.0.1:22/"));
    let other = EntryPath { name: "other one", ..path };
    let (swapped, earlier) = swap(syntax, &added, path, other, &all_kinds()).unwrap();
    assert!(has_fields(&entry(syntax, &swapped, other).unwrap().unwrap(), &all_kinds()));
    assert_eq!(swap_back(syntax, &swapped, other, path, &earlier).unwrap(), added, "{swapped}");
    // In another order of removal, the file is the same again.
    let (both, _) = add(syntax, &added, other, &all_kinds()).unwrap();
    let one = remove(syntax, &both, path, None).unwrap();
    assert_eq!(remove(syntax, &one, other, Some(&origin)).unwrap(), text, "{both}");
    let one = remove(syntax, &both, other, None).unwrap();
    assert_eq!(one, added);
    added
}

#[test]
fn json_keeps_its_form() {
    for (before, after) in [
        (
            "",
            "{\n  \"mcpServers\": {\n    \"time\": {\n      \"type\": \"http\",\n      \"url\": \"U\"\n    }\n  }\n}\n",
        ),
        (
            "{}",
            "{\n  \"mcpServers\": {\n    \"time\": {\n      \"type\": \"http\",\n      \"url\": \"U\"\n    }\n  }\n}",
        ),
        (
            "{\"a\":1,\"mcpServers\":{\"x\":{}}}",
            "{\"a\":1,\"mcpServers\":{\"x\":{}, \"time\": {\"type\": \"http\", \"url\": \"U\"}}}",
        ),
        (
            "{\r\n\t// keep\r\n\t\"mcpServers\": {\r\n\t\t\"x\": 1 // last\r\n\t}\r\n}\r\n",
            "{\r\n\t// keep\r\n\t\"mcpServers\": {\r\n\t\t\"x\": 1, // last\r\n\t\t\"time\": {\r\n\t\t\t\"type\": \"http\",\r\n\t\t\t\"url\": \"U\"\r\n\t\t}\r\n\t}\r\n}\r\n",
        ),
        (
            "{\n    \"mcpServers\": {\n        \"x\": {}, /* a */ // b\n    }, // c\n}\n",
            "{\n    \"mcpServers\": {\n        \"x\": {}, /* a */ // b\n        \"time\": {\n            \"type\": \"http\",\n            \"url\": \"U\"\n        },\n    }, // c\n}\n",
        ),
        (
            "\u{feff}{\n \"mcpServers\": {},\n \"z\": [1, 2.50, 1e3]\n}",
            "\u{feff}{\n \"mcpServers\": {\n  \"time\": {\n   \"type\": \"http\",\n   \"url\": \"U\"\n  }\n },\n \"z\": [1, 2.50, 1e3]\n}",
        ),
    ] {
        assert_eq!(round(Syntax::Json, before).replace("http://127.0.0.1:1/mcp", "U"), after);
    }
    for text in [
        "{ }",
        "\n",
        "{\n}\n",
        "{\n  // empty\n}\n",
        "{\"mcpServers\": { }}",
        "{\"mcpServers\": {\n  // none\n  }\n}",
        "{ \"mcpServers\" : { \"x\" : { } } , }",
        "// head\n{\n  \"mcpServers\": {\"x\": {}, /* y */ }\n}\n// tail",
        "{\n  \"a\": {\"b\": \"}\"},\n\n  \"c\": \"// no comment\"\n\n}\n\n",
        "{\n  \"mcpServers\": {\n    \"x\": {}\n\n    // trailing\n  }\n}",
        "{\"mcpServers\": {\"x\": {} /* 1 */ , /* 2 */}}",
    ] {
        round(Syntax::Json, text);
    }
}

#[test]
fn what_others_have_added_stays() {
    let path = EntryPath { map: JSON, name: "time" };
    let (added, origin) = add(Syntax::Json, "{\n  \"a\": 1\n}\n", path, &fields()).unwrap();
    let more = added.replace("  \"mcpServers\": {", "  \"b\": 2,\n  \"mcpServers\": { // mine");
    let removed = remove(Syntax::Json, &more, path, Some(&origin)).unwrap();
    assert_eq!(removed, "{\n  \"a\": 1,\n  \"b\": 2,\n  \"mcpServers\": { // mine\n  }\n}\n");
    let path = EntryPath { map: TOML, name: "time" };
    let (added, _) = add(Syntax::Toml, "a = 1\n", path, &fields()).unwrap();
    let more = format!("{added}\n[mcp_servers.time.env]\nB = \"c\" # d\n\n# e\n[f]\ng = 1");
    assert_eq!(remove(Syntax::Toml, &more, path, None).unwrap(), "a = 1\n\n# e\n[f]\ng = 1");
    let path = EntryPath { map: YAML, name: "time" };
    let (added, origin) = add(Syntax::Yaml, "a: 1\n", path, &fields()).unwrap();
    let more = added.replace("extensions:\n", "extensions:\n  # mine\n") + "# end\nb: 2\n";
    let removed = remove(Syntax::Yaml, &more, path, Some(&origin)).unwrap();
    assert_eq!(removed, "a: 1\nextensions: {}\n  # mine\n# end\nb: 2\n");
}

#[test]
fn toml_keeps_its_form() {
    let entry = "[mcp_servers.time]\ntype = \"http\"\nurl = \"http://127.0.0.1:1/mcp\"";
    for (before, after) in [
        (String::new(), format!("{entry}\n")),
        ("a = 1 # b".to_owned(), format!("a = 1 # b\n\n{entry}")),
        ("a = 1\r\n".to_owned(), format!("a = 1\r\n\r\n{}\r\n", entry.replace('\n', "\r\n"))),
        ("[mcp_servers.x]\nb = 1\n\n".to_owned(), format!("[mcp_servers.x]\nb = 1\n\n\n{entry}\n")),
    ] {
        assert_eq!(round(Syntax::Toml, &before), after);
    }
    for text in [
        "\n",
        "# only\n",
        "[mcp_servers]\n",
        "[mcp_servers.\"a.b\"]\nargs = [\n  'c', # d\n]\n[z]\n",
        "mcp_servers.x.url = \"y\"\n",
        "[[list]]\na = 1\n[[list]]\na = 2",
        "\u{feff}date = 1979-05-27T07:32:00Z\nf = 1.50\n",
    ] {
        round(Syntax::Toml, text);
    }
}

#[test]
fn yaml_keeps_its_form() {
    let entry = "  time:\n    type: http\n    url: \"http://127.0.0.1:1/mcp\"";
    for (before, after) in [
        (String::new(), format!("extensions:\n{entry}\n")),
        ("a: 1 # b".to_owned(), format!("a: 1 # b\nextensions:\n{entry}")),
        ("extensions: {} # c\nb: 2\n".to_owned(), format!("extensions: # c\n{entry}\nb: 2\n")),
        (
            "extensions:\r\n  # first\r\n  x:\r\n    a: b\r\n".to_owned(),
            format!("extensions:\r\n{}\r\n  # first\r\n  x:\r\n    a: b\r\n", entry.replace('\n', "\r\n")),
        ),
    ] {
        assert_eq!(round(Syntax::Yaml, &before), after);
    }
    for text in [
        "\n",
        "# only\n",
        "---\na: 1\n",
        "extensions:",
        "extensions: ~\n",
        "extensions:\n    x: {a: [1, 'b']}\n    'y z': &anchor\n        c: |\n          text\n\nlast: *anchor\n",
        "extensions:\nb: 1\n",
        "extensions: # none\n\nb: \"2\"",
        "a: |\n  text\nextensions:\n  x: 1",
        "\u{feff}extensions:\n  x: ä\n",
    ] {
        round(Syntax::Yaml, text);
    }
}

#[test]
fn what_cannot_be_edited_is_refused() {
    for (syntax, text, problem) in [
        (Syntax::Json, "{\"a\": }", "is not valid JSON"),
        (Syntax::Json, "{'a': 1}", "is not valid JSON"),
        (Syntax::Json, "[]", "has no map of servers at `mcpServers`"),
        (Syntax::Json, "{\"mcpServers\": []}", "that is not a map of servers"),
        (Syntax::Json, "{\"mcpServers\": {\"time\": {}}}", "has an entry `time` already"),
        (Syntax::Json, "{\"a\": 1, \"a\": 2}", "has the key `a` twice"),
        (Syntax::Json, "// nothing", "contains only comments"),
        (Syntax::Toml, "a = ", "is not valid TOML"),
        (Syntax::Toml, "mcp_servers = {}", "is not a table with a header"),
        (Syntax::Yaml, "a: [", "is not valid YAML"),
        (Syntax::Yaml, "a: 1\n---\nb: 1\n", "has several YAML documents"),
        (Syntax::Yaml, "{a: 1}", "is not a YAML mapping in block style"),
        (Syntax::Yaml, "extensions: {a: 1}", "is not a mapping in block style"),
        (Syntax::Yaml, "a: 1\na: 2\n", "has the key `a` twice"),
    ] {
        let error = add(syntax, text, EntryPath { map: map(syntax), name: "time" }, &fields()).unwrap_err();
        assert!(error.contains(problem), "{text}: {error}");
    }
    let deep = "[".repeat(100_000);
    for syntax in [Syntax::Json, Syntax::Toml, Syntax::Yaml] {
        value(syntax, &format!("a: {deep}")).unwrap_err();
        value(syntax, &format!("a = {deep}")).map(drop).unwrap_or_default();
        value(syntax, &deep).unwrap_err();
    }
}

/// White space and comments between two tokens of JSON.
fn json_trivia() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec!["", " ", "\n", "\n  ", "\t", "\r\n", "/* c */", " // d\n", "/*\n*/"]),
        0..3,
    )
    .prop_map(|parts| parts.concat())
}

/// A random JSON value.
fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "-2.50",
        "1E3",
        "true",
        "null",
        "\"x\"",
        "\"}//\\\"\"",
        "\"\\u00e4ä\"",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![json_object(inner.clone(), prop::bool::ANY.prop_map(|_| None).boxed()), json_array(inner)]
    })
}

fn json_array(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (prop::collection::vec((json_trivia(), inner, json_trivia()), 0..4), json_trivia()).prop_map(
        |(items, end)| {
            let items: Vec<String> =
                items.into_iter().map(|(a, value, b)| format!("{a}{value}{b}")).collect();
            format!("[{}{end}]", items.join(","))
        },
    )
}

/// An object with keys `k0`, `k1` and so on, and perhaps the map of servers.
fn json_object(
    inner: impl Strategy<Value = String>,
    servers: impl Strategy<Value = Option<String>>,
) -> impl Strategy<Value = String> {
    let property = (json_trivia(), json_trivia(), json_trivia(), inner, json_trivia());
    (
        prop::collection::vec(property, 0..4),
        servers,
        any::<prop::sample::Index>(),
        any::<bool>(),
        json_trivia(),
    )
        .prop_map(|(properties, servers, at, comma, end)| {
            let named = |(at, (a, b, c, value, d)): (usize, (String, String, String, String, String))| {
                format!("{a}\"k{at}\"{b}:{c}{value}{d}")
            };
            let mut properties: Vec<String> = properties.into_iter().enumerate().map(named).collect();
            if let Some(servers) = servers {
                properties.insert(at.index(properties.len() + 1), format!("\"mcpServers\": {servers}"));
            }
            let comma = if comma && !properties.is_empty() { "," } else { "" };
            format!("{{{}{comma}{end}}}", properties.join(","))
        })
}

fn json_file() -> impl Strategy<Value = String> {
    let none = || Just(None).boxed();
    let servers = prop_oneof![none(), json_object(json_value(), none()).prop_map(Some)];
    (any::<bool>(), json_trivia(), json_object(json_value(), servers), json_trivia())
        .prop_map(|(bom, a, root, b)| format!("{}{a}{root}{b}", if bom { "\u{feff}" } else { "" }))
}

fn toml_file() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "",
        "# c",
        "  # d",
        "a.b.c{} = 1 # e",
        "x{} = [ 1,\n  2, # f\n]",
        "'y {}' = \"\"\"\ng\n\"\"\"",
        "z{} = {{ a = 1 }}",
    ]);
    let header = prop::sample::select(vec![
        "[t{}]",
        "[[l]]",
        "[mcp_servers.s{}] # h",
        "[mcp_servers.'q {}'.env]",
        "[u.v.w{}]",
    ]);
    let block = (prop::option::of(header), prop::collection::vec(line, 0..4));
    (prop::collection::vec(block, 0..4), any::<bool>(), any::<bool>()).prop_map(|(blocks, crlf, end)| {
        let mut lines: Vec<String> = Vec::new();
        let mut number = 0;
        for (header, more) in blocks {
            for line in header.into_iter().chain(more) {
                number += 1;
                lines.push(line.replace("{}", &number.to_string()).replace("{{", "{").replace("}}", "}"));
            }
        }
        let text = lines.join("\n") + if end { "\n" } else { "" };
        if crlf { text.replace('\n', "\r\n") } else { text }
    })
}

fn yaml_file() -> impl Strategy<Value = String> {
    let comment = prop::sample::select(vec!["", "# c", "  # d"]);
    let value = prop::sample::select(vec![
        " 1",
        " 'a: b' # e",
        " [x, {y: z}]",
        " |\n{}  text\n{}   more",
        " \"q\"",
        "",
        "\n{}  inner: 1\n{}  # f\n{}  two: {a: 1}",
    ]);
    let pair = move |indent: &'static str| {
        (comment.clone(), value.clone())
            .prop_map(move |(comment, value)| (comment, value.replace("{}", indent)))
    };
    let pairs = |indent| prop::collection::vec(pair(indent), 0..4);
    let servers = prop_oneof![
        Just(None),
        Just(Some((String::new(), Vec::new()))),
        Just(Some((" {}".to_owned(), Vec::new()))),
        pair("    ").prop_map(|_| Some((" # g".to_owned(), Vec::new()))),
        pairs("    ").prop_map(|pairs| Some((String::new(), pairs))),
    ];
    (pairs(""), servers, pairs(""), any::<bool>(), any::<bool>()).prop_map(
        |(before, servers, after, crlf, end)| {
            let mut lines = Vec::new();
            let mut push = |indent: &str, key: String, (comment, value): (&str, String)| {
                if !comment.is_empty() {
                    lines.push(format!("{indent}{comment}"));
                }
                lines.push(format!("{indent}{key}:{value}"));
            };
            for (at, pair) in before.into_iter().enumerate() {
                push("", format!("a{at}"), pair);
            }
            if let Some((value, pairs)) = servers {
                push("", "extensions".to_owned(), ("", value));
                for (at, pair) in pairs.into_iter().enumerate() {
                    push("    ", format!("s{at}"), pair);
                }
            }
            for (at, pair) in after.into_iter().enumerate() {
                push("", format!("z{at}"), pair);
            }
            let text = lines.join("\n") + if end { "\n" } else { "" };
            if crlf { text.replace('\n', "\r\n") } else { text }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn json_is_the_same_after_adding_and_removing(text in json_file()) {
        round(Syntax::Json, &text);
    }

    #[test]
    fn toml_is_the_same_after_adding_and_removing(text in toml_file()) {
        // Some combinations define a table twice.
        if value(Syntax::Toml, &text).is_ok() {
            round(Syntax::Toml, &text);
        }
    }

    #[test]
    fn yaml_is_the_same_after_adding_and_removing(text in yaml_file()) {
        round(Syntax::Yaml, &text);
    }

    #[test]
    fn any_text_is_kept_or_refused(text in "[\\[\\]{}:,\"a# \n/*=-]{0,40}") {
        for syntax in [Syntax::Json, Syntax::Toml, Syntax::Yaml] {
            let path = EntryPath { map: map(syntax), name: "time" };
            if let Ok((added, origin)) = add(syntax, &text, path, &fields()) {
                prop_assert_eq!(remove(syntax, &added, path, Some(&origin)).unwrap(), text.as_str(), "{}", added);
            }
        }
    }
}
