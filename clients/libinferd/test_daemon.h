/* SPDX-License-Identifier: BSD-3-Clause */
/* A fake daemon for the tests of libinferd: a thread of the test on a real socket, which serves one client after the
 * other. The name of a model selects what it does: "double" writes twice its input, "hold" answers three requests in
 * reverse order, "vanish" closes the connection; see infer() in test_daemon.c. */
#ifndef CLIENTS_LIBINFERD_TEST_DAEMON_H
#define CLIENTS_LIBINFERD_TEST_DAEMON_H

#include "clients/inferd.h"
#include "ipc/channel.h"
#include "ipc/message.h"
#include "ipc/region.h"

#include <pthread.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { MAX_THINGS = 64, N_FLOATS = 4 };

struct fake_binding {
	char model[32];
	struct inf_region *region;
	size_t in, out;
};

struct fake_daemon {
	int listener, stop_fd;
	pthread_t thread;
	struct inf_channel channel;
	struct inf_codec in, out;
	/* of one connection */
	struct inf_region *regions[MAX_THINGS]; /* index + 1 is the handle, for these three */
	char models[MAX_THINGS][32];
	struct fake_binding bindings[MAX_THINGS];
	size_t n_regions, n_models, n_bindings;
	struct { /* "hold" */
		uint64_t id;
		size_t binding;
	} held[3];
	size_t n_held;
	uint64_t silent_id;
	uint64_t lingering_id; /* of a request that goes on though it was answered; 0: none */
	size_t n_unregistered, n_unbound, n_closed;

	/* What the test sets while no message is under way. */
	uint32_t protocol; /* that Hello answers with */
	bool has_presence; /* what Hello says of the presence lock */
	_Atomic(uint32_t)
		cut_at; /* the number of the message, counted over all connections, at which one ends; 0: none */
	_Atomic(bool) cuts_late;  /* it ends after the answer, otherwise before */
	_Atomic(bool) is_stopped; /* messages wait until it is false again, as with SIGSTOP */
	_Atomic(bool) is_changed; /* models have another input than before */
	_Atomic(bool)
		is_draining; /* each request is refused as by a daemon that shuts down, and then the connection ends */
	_Atomic(uint32_t) n_drains_at_hello, n_drains_at_infer; /* the same for so many Hellos, or Infers, to come */
	_Atomic(uint32_t)
		n_lingers;      /* so many requests of "linger" miss their deadline and go on until the next reset */
	_Atomic(bool) is_stuck; /* at the next reset, the worker of such a request is found stuck */
	_Atomic(bool) is_old;   /* the daemon does not know Reply.goes_on */
	/* What the test reads. */
	_Atomic(uint32_t) n_messages, n_connections, n_infers, n_hellos;
	uint32_t hello_oldest, hello_newest, hello_weight;
	char hello_name[64];
	bool hears_ends;
};

extern struct fake_daemon fake;
extern struct inferd *d; /* a connection to it, which fake_tear_down closes */
extern char fake_path[128];

/* Around each test. The second also checks that no file descriptor is open that was not open before. */
int fake_set_up(void **state);
int fake_tear_down(void **state);
/* The same without the connection. */
int fake_set_up_alone(void **state);
/* Close the connection and end the daemon. After this it has handled all requests sent before. */
void fake_end(void);
/* Open another connection in the place of d, with these options; the socket is filled in. */
int fake_connect(struct inferd_open_options options);

struct inferd_binding *bind_model(const char *model);
void fill(struct inferd_binding *b, float first);
void assert_doubled(struct inferd_binding *b, float first);

#endif
