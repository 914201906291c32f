//! Tests registries over HTTP: when a cached copy is used instead, redirects, errors, and the pages and searches of the
//! API.

use mcpm::ErrorKind;
use mcpm_tests::harness::upstream::{Connection, ReceivedRequest, Upstream};

use super::{RegistryFixture, sample};

/// Responds to one request, and returns its request line and `If-None-Match`.
async fn answer(server: &Upstream, status: &str, headers: &str, body: &str) -> (String, Option<String>) {
    let (mut connection, received): (Connection, ReceivedRequest) = server.request().await;
    connection.answer(status, &format!("{headers}Connection: close\r\n"), body).await;
    (received.line, received.headers.get("if-none-match").map(str::to_owned))
}

fn document(name: &str) -> String {
    std::fs::read_to_string(sample(&format!("valid/registry/{name}.json"))).unwrap()
}

#[tokio::test]
async fn a_document_is_refetched_only_after_its_ttl() {
    let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
    let url = server.uri("/registry.json");
    let body = document("toolhive");
    let held = "ETag: \"one\"\r\nCache-Control: max-age=0\r\n";
    let (listed, asked) = tokio::join!(asking.list(&url), answer(&server, "200 OK", held, &body));
    assert_eq!((listed.unwrap().len(), asked), (4, ("GET /registry.json HTTP/1.1".to_owned(), None)));

    let fresh = "Cache-Control: max-age=600\r\n";
    let (listed, asked) = tokio::join!(asking.list(&url), answer(&server, "304 Not Modified", fresh, ""));
    assert_eq!((listed.unwrap().len(), asked.1.as_deref()), (4, Some("\"one\"")));

    // The copy is valid, so the registry is not queried.
    assert_eq!(asking.list(&url).await.unwrap().len(), 4);
    assert!(server.try_accept().await.is_none());
}

#[tokio::test]
async fn an_unavailable_registry_falls_back_to_the_cache() {
    let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
    let url = server.uri("/registry.json");
    let stale = "Cache-Control: no-cache\r\n";
    let body = document("toolhive");
    let (listed, _) = tokio::join!(asking.list(&url), answer(&server, "200 OK", stale, &body));
    listed.unwrap();
    drop(server);
    assert_eq!(asking.list(&url).await.unwrap().len(), 4);
    let [notice] = &asking.notices()[..] else { panic!("one notice") };
    assert!(notice.contains("cannot fetch") && notice.contains("using the copy"), "{notice}");
    // Another home has no copy.
    let error = RegistryFixture::new().list(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Registry);
}

#[tokio::test]
async fn http_errors_of_a_registry_are_reported() {
    for (status, headers, words) in [
        ("404 Not Found", "", "there is no document at"),
        ("500 Internal Server Error", "", "the response has status 500"),
        ("302 Found", "", "a redirect has no valid `Location`"),
        ("302 Found", "Location: ftp://127.0.0.1/r.json\r\n", "neither `https` nor `http`"),
        ("302 Found", "Location: http://192.0.2.1/r.json\r\n", "must be `https`"),
        ("200 OK", "", "not a JSON document"),
    ] {
        let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
        let url = server.uri("/r.json?key=s3cret");
        let (listed, _) = tokio::join!(asking.list(&url), answer(&server, status, headers, "<html>"));
        let error = listed.unwrap_err().to_string();
        assert!(error.contains(words) && !error.contains("s3cret"), "{status}: {error}");
    }
}

#[tokio::test]
async fn redirects_are_followed_but_not_for_ever() {
    let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
    let url = server.uri("/r.json");
    let round = async {
        for _ in 0..=5 {
            answer(&server, "302 Found", "Location: /r.json\r\n", "").await;
        }
    };
    let (listed, ()) = tokio::join!(asking.list(&url), round);
    assert!(listed.unwrap_err().to_string().contains("redirects"));
}

#[tokio::test]
async fn the_pages_of_an_api_are_no_larger_together_than_a_document() {
    let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
    let padding = " ".repeat(22 << 20);
    let url = server.uri("/");
    let pages = async {
        for number in 0..3 {
            let page = format!(r#"{{"servers":[],{padding}"metadata":{{"nextCursor":"{number}"}}}}"#);
            answer(&server, "200 OK", "", &page).await;
        }
    };
    let (listed, ()) = tokio::join!(asking.list(&url), pages);
    let error = listed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Registry);
    assert!(error.message().contains("larger than 64 MiB"), "{error}");
    assert!(server.try_accept().await.is_none());
}

#[tokio::test]
async fn an_api_is_read_page_by_page_and_asked_for_one_server_by_its_name() {
    let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
    let base = server.uri("/team");
    let first =
        r#"{"servers":[{"server":{"name":"a/one","description":"1"}}],"metadata":{"nextCursor":"x y"}}"#;
    let last =
        r#"{"servers":[{"server":{"name":"a/two","description":"2"}}],"metadata":{"nextCursor":null}}"#;
    let pages = async {
        let one = answer(&server, "200 OK", "", first).await.0;
        (one, answer(&server, "200 OK", "", last).await.0)
    };
    let (listed, asked) = tokio::join!(asking.list(&base), pages);
    assert_eq!(listed.unwrap().len(), 2);
    let path = "GET /team/v0.1/servers?limit=100&version=latest";
    assert_eq!(asked, (format!("{path} HTTP/1.1"), format!("{path}&cursor=x+y HTTP/1.1")));

    let entry = r#"{"server":{"name":"a/three","description":"3"}}"#;
    let (found, asked) = tokio::join!(asking.find(&base, "a/three"), answer(&server, "200 OK", "", entry));
    assert_eq!(found.unwrap().unwrap().description, "3");
    assert_eq!(asked.0, "GET /team/v0.1/servers/a%2Fthree/versions/latest HTTP/1.1");

    let (found, asked) = tokio::join!(asking.find(&base, "two"), answer(&server, "200 OK", "", last));
    assert_eq!(found.unwrap().unwrap().name, "a/two");
    assert_eq!(asked.0, format!("{path}&search=two HTTP/1.1"));
}

#[tokio::test]
async fn an_api_is_searched_for_the_longest_word_and_its_results_for_all_words() {
    let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
    let base = server.uri("/");
    let found = r#"{"servers":[
        {"server":{"name":"a/forecast","description":"The weather of a week"}},
        {"server":{"name":"b/forecast","description":"Sales"}}
    ],"metadata":{"nextCursor":null}}"#;
    let (searched, asked) =
        tokio::join!(asking.search(&base, "Weather forecast"), answer(&server, "200 OK", "", found));
    let names: Vec<_> = searched.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a/forecast"]);
    assert_eq!(asked.0, "GET /v0.1/servers?limit=100&version=latest&search=forecast HTTP/1.1");
}

#[tokio::test]
async fn an_older_api_is_detected_and_a_non_api_reported() {
    let (asking, server) = (RegistryFixture::new(), Upstream::listen().await);
    let base = server.uri("/");
    let list = document("list");
    let older = async {
        answer(&server, "404 Not Found", "", "").await;
        answer(&server, "200 OK", "", &list).await.0
    };
    let (listed, asked) = tokio::join!(asking.list(&base), older);
    assert_eq!(
        (listed.unwrap().len(), asked.as_str()),
        (4, "GET /v0/servers?limit=100&version=latest HTTP/1.1")
    );
    let other = server.uri("/other");
    let neither = async {
        answer(&server, "404 Not Found", "", "").await;
        answer(&server, "404 Not Found", "", "").await;
    };
    let (listed, ()) = tokio::join!(asking.list(&other), neither);
    assert!(listed.unwrap_err().to_string().contains("there is no MCP registry at"));
}
