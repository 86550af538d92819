/* SPDX-License-Identifier: BSD-3-Clause */
/* Run the real daemon, one for each test, in its own folder.
 *
 * The daemon gets private paths and the test's configuration. It is ready when it says so (NOTIFY_SOCKET), and must
 * exit with status 0 when the test ends it; under a sanitizer this includes the sanitizer's findings. Tests wait for
 * an expected state of the daemon's status, never for time to pass. */
#ifndef TESTS_E2E_HARNESS_H
#define TESTS_E2E_HARNESS_H

#include "clients/inferd.h"
#include "ipc/channel.h"
#include "ipc/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <cmocka.h>

enum { E2E_LARGE = 2 << 20 }; /* of activations */

struct e2e_raw {
	struct inf_channel channel;
	struct inf_codec encoder, decoder;
	uint64_t last_id;
	int fd; /* that came with the last reply, or -1 */
	uint8_t packet[INF_MAX_PACKET];
};

struct e2e {
	char dir[64], socket[96], manager[96], models[96];
	pid_t pid;
	int notify_fd;
	int n_fds;               /* the daemon's descriptors when nobody is there */
	struct e2e_raw *watcher; /* a manager's connection that waits for things to be so */
};

/* argv[1] of the tests: the daemon's binary. */
extern const char *e2e_inferd;

/* A folder with an empty repository. */
void e2e_init(struct e2e *e);
/* Start the daemon and wait until it is ready. @config is the text of its configuration, added to the paths. */
void e2e_start(struct e2e *e, const char *config);
/* Have the daemon read @config instead, and wait until it has. */
void e2e_reload(struct e2e *e, const char *config);
/* The same as e2e_start for a daemon that may have so many descriptors. */
void e2e_start_limited(struct e2e *e, const char *config, const struct rlimit *descriptors);
/* The same with the test plug-in called @plugin (tests/plugins) as backend "test"; @more goes into its section. */
void e2e_start_plugin(struct e2e *e, const char *plugin, const char *more);
/* Make the socket that NOTIFY_SOCKET is to name. Called by e2e_start. */
void e2e_listen_for_readiness(struct e2e *e, char *path, size_t room);
/* Connects the watcher and notes the descriptors. Called by e2e_start. */
void e2e_watch(struct e2e *e);
/* SIGTERM, and it must end with 0. */
void e2e_stop(struct e2e *e);
/* Stops it if it runs; removes the folder. */
void e2e_deinit(struct e2e *e);
/* Wait for it to end, as it does after a signal that the test sent; its exit status. */
int e2e_wait(struct e2e *e);
/* The state of the process's first thread: 'Z' when it has ended, whatever the others are in. */
char e2e_state_of(pid_t pid);
/* SIGSTOP, and wait until none of its threads runs any more: kill returns before they have stopped. */
void e2e_suspend(pid_t pid);

/* Write @bytes to models/NAME. Makes the folders of NAME. */
void e2e_put(struct e2e *e, const char *name, const void *bytes, size_t n_bytes);
/* The same for one of the programs below. */
void e2e_put_program(struct e2e *e, const char *name, uint8_t *(*make)(size_t *ret_n_bytes));
/* Copy a file; false if it is not there. */
bool e2e_put_file(struct e2e *e, const char *name, const char *path);
/* A file's contents, with 16 bytes of nothing after them; NULL if it is not there. Free it. */
void *e2e_read(const char *path, size_t *ret_n_bytes);

/* Programs. All take and give FP32[4]. */
uint8_t *e2e_program_double(size_t *ret_n_bytes);           /* y = x + x */
uint8_t *e2e_program_triple(size_t *ret_n_bytes);           /* y = x + 2 x */
uint8_t *e2e_program_accumulate(size_t *ret_n_bytes);       /* s = s + x, y = s: stateful */
uint8_t *e2e_program_large(size_t *ret_n_bytes);            /* s = s + x + 1, y = s, by way of E2E_LARGE bytes */
uint8_t *e2e_program_hoarder(size_t *ret_n_bytes);          /* y = x + s[0], with 16 MB of state s that nobody writes */
uint8_t *e2e_program_forever(size_t *ret_n_bytes);          /* never ends by itself */
uint8_t *e2e_program_forever_stateful(size_t *ret_n_bytes); /* s = s + x, y = s; never ends by itself */
uint8_t *e2e_program_moody(size_t *ret_n_bytes);            /* y = x + x, again and again until a second input */
uint8_t *e2e_program_foreign(size_t *ret_n_bytes);          /* needs a backend that nobody has */
uint8_t *e2e_program_unknown(size_t *ret_n_bytes);          /* needs an operator that nobody has */

/* A program that is one payload of the test plug-in's, tests/plugins/plugin.c: what it does is what @word says. Also
 * FP32[4]. */
uint8_t *e2e_program_word(const char *word, size_t *ret_n_bytes);
void e2e_put_word_as(struct e2e *e, const char *word, const char *name);
void e2e_put_word(struct e2e *e, const char *word); /* as WORD.pte */

/* Ask for the status until @holds; fails the test after two minutes. The status is valid until the next call. */
void e2e_until(struct e2e *e, bool (*holds)(const struct inf_server_status *status, const void *arg), const void *arg);
/* Until @n clients are there, the watcher not counted. */
void e2e_until_clients(struct e2e *e, size_t n);
/* Until that many requests run, and that many wait. */
void e2e_until_jobs(struct e2e *e, uint32_t n_running, uint32_t n_waiting);
/* Until one request runs and none waits, handling the events of @d: a request may wait in the library until the
 * daemon is done with an earlier one of its binding. */
void e2e_until_runs(struct e2e *e, struct inferd *d);
/* How many requests have been answered so far. */
uint64_t e2e_requests(struct e2e *e);
void e2e_until_requests(struct e2e *e, uint64_t n);
/* What @model takes; 0: it is not loaded. */
uint64_t e2e_memory_of(struct e2e *e, const char *model);
/* Nobody is there, and the daemon has the descriptors it had in the beginning. */
void e2e_check_clean(struct e2e *e);
/* Through the watcher; the answer's status. */
enum inf_status e2e_load(struct e2e *e, const char *model);
enum inf_status e2e_unload(struct e2e *e, const char *model);
enum inf_status e2e_restart_backend(struct e2e *e, const char *backend);
/* What the index says of @model: its state and backend; its reason must have @text in it (NULL: there is none). */
void e2e_expect_index(struct e2e *e, const char *model, const char *model_state, const char *backend, const char *text);
int e2e_count_fds(pid_t pid);

/* A client that speaks the wire itself. Says Hello unless @is_silent. */
struct e2e_raw *e2e_raw_new(const char *path, bool is_silent);
/* The same with a Hello that asks to be told when a run that was given up has ended. */
struct e2e_raw *e2e_raw_new_hearing(const char *path);
void e2e_raw_free(struct e2e_raw *raw);
/* Send; the request gets the next id. @fd: -1, or one to send beside it. */
void e2e_raw_send(struct e2e_raw *raw, struct inf_request *request, int fd);
/* The next reply; valid until the next call. False: the daemon hung up. */
bool e2e_raw_receive(struct e2e_raw *raw, struct inf_reply *ret_reply);
/* Both. The connection must hold. */
struct inf_reply e2e_raw_call(struct e2e_raw *raw, struct inf_request request);
struct inf_reply e2e_raw_call_fd(struct e2e_raw *raw, struct inf_request request, int fd);
/* The status of a call; the connection must hold, and a refusal for want of resources has a sentence. */
enum inf_status e2e_raw_ask(struct e2e_raw *raw, struct inf_request request);
/* One packet of these bytes with @n descriptors beside it, or with @n copies of one. False: the daemon has hung up. */
bool e2e_raw_send_fds(struct e2e_raw *raw, const void *bytes, size_t n_bytes, const int *fds, size_t n);
bool e2e_raw_send_copies(struct e2e_raw *raw, const void *bytes, size_t n_bytes, int fd, size_t n);
/* Wait until the daemon hangs up; what it still sends is dropped. */
void e2e_raw_expect_end(struct e2e_raw *raw);
/* Open @model and bind it to one new region; the method's and the binding's number. */
void e2e_raw_bind(struct e2e_raw *raw, const char *model, uint64_t *ret_method, uint64_t *ret_binding,
	uint64_t *ret_region, float **ret_floats);

/* A connection of libinferd that works, and a bound Method. */
struct inferd *e2e_connect(struct e2e *e);
struct inferd_binding *e2e_bind(struct inferd *d, const char *model, struct inferd_method **ret_method);
/* Put @x into all inputs, infer, and the first output. Negative status otherwise: *ret_status. */
float e2e_infer(struct inferd_binding *b, float x, int *ret_status);
/* The same until it is answered with anything but BACKEND_CRASHED. */
float e2e_infer_until_served(struct inferd_binding *b, float x, int *ret_status);

/* For a child that is to be killed: one request in flight for each binding, without end; the answers are twice the
 * inputs, which begin with 0, 1, …, or the process ends with 3. */
_Noreturn void e2e_ask_forever(struct inferd *d, struct inferd_binding **b, size_t n);

/* Runs the tests; the end of every main. */
int e2e_main(int argc, char **argv, const struct CMUnitTest *tests, size_t n);

#endif
