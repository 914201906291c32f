//! Lists the MCP methods that are labels of metrics. Requests of tasks (`tasks/*`) are not among them.

/// Methods of both eras, sorted.
const METHODS: [&str; 29] = [
    "completion/complete",
    "elicitation/create",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/elicitation/complete",
    "notifications/initialized",
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/tasks/status",
    "notifications/tools/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// Returns the method, if MCP defines it.
pub(crate) fn known_method(method: &str) -> Option<&'static str> {
    METHODS.binary_search(&method).ok().map(|place| METHODS[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_is_found() {
        assert!(METHODS.is_sorted());
        for method in METHODS {
            assert_eq!(known_method(method), Some(method));
        }
        assert_eq!((known_method(""), known_method("tools")), (None, None));
    }
}
