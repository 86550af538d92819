/* SPDX-License-Identifier: BSD-3-Clause */
/* The victim: asks ten times a second, and compares each answer to the bit with the first one.
 *
 *     victim SOCKET_FD REGION_FD OFFSET N_BYTES PACKET
 *
 * Its parent has made the session and the binding (tests/hostile/daemon.py) and had one answer; PACKET is the Infer
 * message in hexadecimal, its id below 128. Each request is a line "BEGAN_NS LATENCY_NS WORD" on standard output; WORD
 * is ok, wrong, or the status that was answered. CLOCK_MONOTONIC. It goes on until it is killed, or the daemon or its
 * parent has gone. A process of its own, in C, so that nothing of the attacks' own delays what it measures. */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD_MS = 100, PACKET_MAX = 512, REPLY_MAX = 4096 };

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static size_t from_hex(const char *text, uint8_t *ret)
{
	size_t n = strlen(text) / 2;
	if (n > PACKET_MAX)
		return 0;
	for (size_t i = 0; i < n; i++) {
		char two[3] = { text[2 * i], text[2 * i + 1], '\0' };
		ret[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return n;
}

/* Reply: field 1 is the id, field 2 the status, which is absent if it is OK. */
static unsigned status_of(const uint8_t *reply, ssize_t n, uint8_t id)
{
	if (n < 2 || reply[0] != 0x08 || reply[1] != id)
		return 999;
	return n >= 4 && reply[2] == 0x10 ? reply[3] : 0;
}

int main(int argc, char **argv)
{
	uint8_t packet[PACKET_MAX], reply[REPLY_MAX];
	struct stat st;
	if (argc != 6)
		return 2;
	int fd = (int)strtol(argv[1], NULL, 10), region = (int)strtol(argv[2], NULL, 10);
	size_t offset = strtoul(argv[3], NULL, 10), n_out = strtoul(argv[4], NULL, 10);
	size_t n_packet = from_hex(argv[5], packet);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!n_packet || fstat(region, &st) < 0 || offset > (size_t)st.st_size || n_out > (size_t)st.st_size - offset)
		return 2;
	uint8_t *memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, region, 0);
	uint8_t *expected = malloc(n_out);
	if (memory == MAP_FAILED || !expected)
		return 2;
	memcpy(expected, memory + offset, n_out);

	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	struct itimerspec period = { { 0, PERIOD_MS * 1000000L }, { 0, 1 } };
	if (timer < 0 || timerfd_settime(timer, 0, &period, NULL) < 0)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (;;) {
		uint64_t n_passed;
		if (read(timer, &n_passed, sizeof(n_passed)) != sizeof(n_passed))
			return 1;
		memset(memory + offset, 0xa5, n_out);
		uint64_t began = now_ns();
		if (send(fd, packet, n_packet, MSG_NOSIGNAL) < 0)
			return 1;
		ssize_t n = recv(fd, reply, sizeof(reply), 0);
		if (n <= 0)
			return 1;
		uint64_t latency = now_ns() - began;
		unsigned status = status_of(reply, n, packet[1]);
		bool is_right = !memcmp(memory + offset, expected, n_out);
		if (status)
			printf("%llu %llu %u\n", (unsigned long long)began, (unsigned long long)latency, status);
		else
			printf("%llu %llu %s\n", (unsigned long long)began, (unsigned long long)latency,
				is_right ? "ok" : "wrong");
	}
}
