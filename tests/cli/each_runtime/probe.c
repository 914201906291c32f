/* Tries one connection, and writes what is received, or why there is nothing. It is static, since the image has no libraries.
 *
 *     probe tcp ADDRESS PORT REQUEST    sends the line REQUEST with an empty one, and reads the response
 *     probe dns ADDRESS PORT NAME       looks NAME up at a server, and writes how many addresses it has
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int fail(const char *what) {
  printf("probe: %s: %s\n", what, strerror(errno));
  return 1;
}

/* Writes a query for the IPv4 addresses of a name; returns its length. */
static size_t write_query(unsigned char *query, size_t size, const char *name) {
  static const unsigned char header[12] = {0, 7, 1, 0, 0, 1};
  static const unsigned char question[5] = {0, 0, 1, 0, 1};
  size_t length = sizeof header;
  if (strlen(name) + 64 > size) exit(2);
  memcpy(query, header, sizeof header);
  while (*name) {
    size_t label = strcspn(name, ".");
    query[length++] = (unsigned char)label;
    memcpy(query + length, name, label);
    length += label;
    name += label + (name[label] == '.');
  }
  memcpy(query + length, question, sizeof question);
  return length + sizeof question;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  int is_dns = strcmp(argv[1], "dns") == 0;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[3]))};
  struct timeval timeout = {.tv_sec = 20};
  unsigned char buffer[4096];
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
  int link = socket(AF_INET, is_dns ? SOCK_DGRAM : SOCK_STREAM, 0);
  if (link < 0) return fail("socket");
  setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(link, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  if (connect(link, (struct sockaddr *)&address, sizeof address) != 0) return fail("connect");
  size_t length = is_dns ? write_query(buffer, sizeof buffer, argv[4])
                         : (size_t)snprintf((char *)buffer, sizeof buffer, "%s\r\n\r\n", argv[4]);
  if (send(link, buffer, length, MSG_NOSIGNAL) < 0) return fail("send");
  ssize_t count = recv(link, buffer, sizeof buffer, 0);
  if (count < 0) return fail("receive");
  if (is_dns) {
    printf("%d addresses\n", count < 12 ? -1 : buffer[6] << 8 | buffer[7]);
    return 0;
  }
  for (; count > 0; count = recv(link, buffer, sizeof buffer, 0)) fwrite(buffer, 1, (size_t)count, stdout);
  return count < 0 ? fail("receive") : 0;
}
