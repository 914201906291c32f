/* The functions of a browser that a login needs. */

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "checks.h"

/* Gets a page of this machine, and returns where it redirects to; an empty string for nowhere. */
static inline void get(const char *url, char *location, size_t size)
{
    char path[4096], request[8192], page[8192];
    int port;
    CHECK(sscanf(url, "http://%*[a-z0-9.]:%d%4095s", &port, path) == 2);
    struct sockaddr_in place = {0};
    place.sin_family = AF_INET;
    place.sin_port = htons((uint16_t)port);
    CHECK(inet_pton(AF_INET, "127.0.0.1", &place.sin_addr) == 1);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(client >= 0 && connect(client, (struct sockaddr *)&place, sizeof place) == 0);
    int length = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost:%d\r\n\r\n", path, port);
    CHECK(length > 0 && (size_t)length < sizeof request);
    CHECK(write(client, request, (size_t)length) == length);
    size_t have = 0;
    ssize_t got;
    page[0] = 0;
    while (strstr(page, "\r\n\r\n") == NULL && (got = read(client, page + have, sizeof page - 1 - have)) > 0) {
        have += (size_t)got;
        page[have] = 0;
    }
    close(client);
    CHECK(strncmp(page, "HTTP/1.1 ", 9) == 0);
    const char *line = strstr(page, "\r\nLocation: ");
    snprintf(location, size, "%.*s", line == NULL ? 0 : (int)strcspn(line + 12, "\r"), line == NULL ? "" : line + 12);
}

/* Gets a page, and the page that it redirects to. */
static inline void follow_redirect(const char *url)
{
    char location[4096], nowhere[4096];
    get(url, location, sizeof location);
    get(location, nowhere, sizeof nowhere);
}
