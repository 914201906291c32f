/* Shared by the C programs: a minimal HTTP client. */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "checks.h"

static char answer[1 << 20];
static char session[256];

/* Posts to `http://ADDRESS:PORT/PATH`. Returns the HTTP status, or 0 if nothing listens; the response is in `answer`. */
static int post(const char *url, const char *body)
{
    char address[64], path[256];
    int port;
    CHECK(sscanf(url, "http://%63[0-9.]:%d%255s", address, &port, path) == 3);
    struct sockaddr_in place = {0};
    place.sin_family = AF_INET;
    place.sin_port = htons((uint16_t)port);
    CHECK(inet_pton(AF_INET, address, &place.sin_addr) == 1);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(client >= 0);
    if (connect(client, (struct sockaddr *)&place, sizeof place) != 0) {
        CHECK(errno == ECONNREFUSED);
        close(client);
        return 0;
    }
    char request[4096];
    int length = snprintf(request, sizeof request,
                          "POST %s HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\nContent-Type: application/json\r\n"
                          "Accept: application/json, text/event-stream\r\n%s%s%sContent-Length: %zu\r\n\r\n%s",
                          path, address, port, session[0] ? "Mcp-Session-Id: " : "", session, session[0] ? "\r\n" : "",
                          strlen(body), body);
    CHECK(length > 0 && (size_t)length < sizeof request);
    CHECK(write(client, request, (size_t)length) == length);
    size_t have = 0;
    ssize_t got;
    while ((got = read(client, answer + have, sizeof answer - 1 - have)) > 0) {
        have += (size_t)got;
    }
    answer[have] = 0;
    close(client);
    int status = 0;
    CHECK(sscanf(answer, "HTTP/1.1 %d", &status) == 1);
    return status;
}

/* Calls a hidden tool, and returns the id of the denial. */
static const char *refused_call(const char *url, const char *tool)
{
    static char id[21];
    char body[256];
    snprintf(body, sizeof body,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\"}}", tool);
    CHECK(post(url, body) != 0);
    const char *found = strstr(answer, "\"refusal\":\"");
    CHECK(found != NULL && sscanf(found, "\"refusal\":\"%20[0-9a-f]\"", id) == 1);
    return id;
}

/* Opens a session, if the server has sessions, and lists the tools. */
static void use(const char *url)
{
    session[0] = 0;
    CHECK(post(url, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
                    "\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}") == 200);
    CHECK(strstr(answer, "mcp-conformance-test-server") != NULL);
    for (char *line = strchr(answer, '\n'); line != NULL && line[1] != '\r'; line = strchr(line + 1, '\n')) {
        if (strncasecmp(line + 1, "mcp-session-id:", 15) == 0) {
            CHECK(sscanf(line + 16, " %255[^\r\n]", session) == 1);
        }
    }
    CHECK(post(url, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}") == 202);
    CHECK(post(url, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}") == 200);
    CHECK(strstr(answer, "test_simple_text") != NULL);
    session[0] = 0;
}
