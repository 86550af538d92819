/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients of the HTTP gateway that keep it busy, as load.c has them for the daemon.
 *
 *     http_load PORT SECONDS CONNECTIONS <REQUEST
 *
 * Each connection, of 4096 at most, is a thread that sends the bytes of REQUEST (64 MiB at most) and reads the answer.
 * An answer that is not 200, has not the size of the connection's first one, or takes a minute ends the program with
 * status 1. Prints {"requests_per_s": N}. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAX_CLIENTS = 4096, MAX_REQUEST = 64 << 20 };

struct client {
	pthread_t thread;
	int fd;
	size_t n_done;
};

static struct sockaddr_in address = { .sin_family = AF_INET };
static pthread_barrier_t barrier;
static char *request;
static size_t n_request;
static double end_s;

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void send_request(const struct client *c)
{
	for (size_t n = 0; n < n_request;) {
		ssize_t rc = send(c->fd, request + n, n_request - n, MSG_NOSIGNAL);
		if (rc <= 0)
			fail("http_load: send");
		n += (size_t)rc;
	}
}

static size_t receive(const struct client *c, char *to, size_t room)
{
	ssize_t rc = recv(c->fd, to, room, 0);
	if (rc <= 0)
		fail("http_load: recv");
	return (size_t)rc;
}

/* Send the request and read its answer. Returns the answer's size, with its head. */
static size_t ask(const struct client *c)
{
	static _Thread_local char text[64 << 10];
	size_t n = 0, n_all = 0;
	send_request(c);
	while (!n_all) {
		n += receive(c, text + n, sizeof text - 1 - n);
		text[n] = '\0';
		const char *end = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\nContent-Length: ");
		if (!end && n < sizeof text - 1)
			continue;
		if (!end || strncmp(text, "HTTP/1.1 200 ", 13) != 0 || !length || length > end) {
			fprintf(stderr, "http_load: %s\n", text);
			exit(1);
		}
		n_all = (size_t)(end + 4 - text) + strtoul(length + 18, NULL, 10);
	}
	while (n < n_all)
		n += receive(c, text, sizeof text);
	if (n > n_all) {
		fprintf(stderr, "http_load: %zu bytes follow an answer\n", n - n_all);
		exit(1);
	}
	return n_all;
}

static void *client_main(void *arg)
{
	struct client *c = arg;
	const struct timeval minute = { .tv_sec = 60 };
	int one = 1;
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&address, sizeof address) < 0)
		fail("http_load: connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
	size_t n_answer = ask(c);
	pthread_barrier_wait(&barrier); /* all are there */
	pthread_barrier_wait(&barrier); /* end_s is set */
	while (now_s() < end_s) {
		size_t n = ask(c);
		if (n != n_answer) {
			fprintf(stderr, "http_load: an answer has %zu bytes, the first one %zu\n", n, n_answer);
			exit(1);
		}
		c->n_done += now_s() < end_s;
	}
	close(c->fd);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct client clients[MAX_CLIENTS];
	unsigned n_clients = argc == 4 ? (unsigned)strtoul(argv[3], NULL, 10) : 0;
	char *end = NULL;
	double seconds = argc == 4 ? strtod(argv[2], &end) : 0;
	if (!n_clients || n_clients > MAX_CLIENTS || *end || !(seconds > 0 && seconds < 1e6)) {
		fprintf(stderr, "usage: http_load PORT SECONDS CONNECTIONS <REQUEST\n");
		return 2;
	}
	request = malloc(MAX_REQUEST + 1);
	if (!request)
		fail("http_load: malloc");
	n_request = fread(request, 1, MAX_REQUEST + 1, stdin);
	if (!n_request || n_request > MAX_REQUEST) {
		fprintf(stderr, "http_load: standard input is empty or larger than %d bytes\n", MAX_REQUEST);
		return 2;
	}
	address.sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10));
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pthread_barrier_init(&barrier, NULL, n_clients + 1);
	for (unsigned i = 0; i < n_clients; i++)
		if (pthread_create(&clients[i].thread, NULL, client_main, &clients[i]) != 0)
			fail("http_load: pthread_create");
	pthread_barrier_wait(&barrier);
	end_s = now_s() + seconds;
	pthread_barrier_wait(&barrier);
	size_t n_done = 0;
	for (unsigned i = 0; i < n_clients; i++) {
		pthread_join(clients[i].thread, NULL);
		n_done += clients[i].n_done;
	}
	printf("{\"requests_per_s\": %.2f}\n", (double)n_done / seconds);
	free(request);
	return 0;
}
