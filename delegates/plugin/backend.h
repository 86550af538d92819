/* Inside the proxy of a plug-in: its process and the calls to it. Shared by backend.c, process.c and run.c. */
#ifndef DELEGATES_PLUGIN_BACKEND_H
#define DELEGATES_PLUGIN_BACKEND_H

#include "delegates/plugin/plugin.h"
#include "delegates/plugin/wire.h"
#include "runtime/base/list.h"

#include <pthread.h>

/* --- process.c: a host and its sockets ------------------------------------------------------------- */

struct et_plugin_process {
	pid_t pid; /* 0: on a thread */
	pthread_t thread;
	bool is_running;
	int calls, asks, output; /* -1: none */
};

/* 0 or negative errno. */
int et_plugin_process_start(struct et_plugin_process *process, const struct et_plugin_config *config);
/* End it, by force if it has one, and say in @text how it ended ("was killed by signal 11 (Segmentation fault)").
 * False: it is a thread that does not end; it is left behind. */
bool et_plugin_process_end(struct et_plugin_process *process, bool is_stuck, char *text, size_t room);

/* --- backend.c: calls ------------------------------------------------------------------------------ */

struct et_plugin_call {
	struct et_list_node node;
	uint64_t id, deadline_ns;
	struct et_context *run; /* NULL: somebody waits for it */
	bool is_done;
	enum et_status status;
	void *answer; /* room for the packet */
	size_t n_answer;
	const struct et_program *program; /* whose named data may be asked for */
};

enum et_plugin_phase { ET_PLUGIN_DOWN, ET_PLUGIN_UP, ET_PLUGIN_FAILED };

struct et_backend {
	struct et_delegate_ops ops; /* with this plug-in's own names */
	struct et_plugin_config config;
	char *strings; /* what the config points to */
	struct et_plugin_option *options;
	const struct et_log *log;
	struct et_plugin_started facts; /* of the first start */

	pthread_mutex_t starting; /* held while a host is started; taken before lock */
	pthread_mutex_t lock;     /* guards what follows */
	pthread_cond_t changed;
	enum et_plugin_phase phase;
	struct et_plugin_process process;
	uint64_t generation;         /* counts starts */
	struct et_list_node calls;   /* sent */
	struct et_list_node waiting; /* runs beyond max_in_flight */
	uint32_t n_in_flight, n_waiting, max_in_flight;
	uint64_t last_id, last_handle;
	uint64_t crashes_ns[16]; /* a ring */
	uint32_t n_crashes, n_starts;
	uint64_t not_before_ns;
	char reason[320];
	const char *kill_reason; /* the reader is to end the host */
	bool is_closing, is_restarting;
	uint64_t close_by_ns, sleep_until_ns; /* the latter: when the reader looks around by itself */
	uint64_t n_runs, n_copied_bytes;

	pthread_t reader;
	int wake; /* an eventfd */
	char line[400];
	size_t n_line;
	uint64_t lines_since_ns;
	uint32_t n_lines, n_lines_dropped;

	struct et_plugin_kernel *kernels;
	struct et_kernel *rows;
	char *kernel_names;
	struct et_kernel_table table;
};

/* Make sure that there is a host. *ret_generation says which. */
enum et_status et_plugin_up(struct et_backend *backend, uint64_t *ret_generation, struct et_diag *diag);
/* Send @packet (its id is set here) and wait for an answer of exactly @n_answer bytes and type @type. The answer's own
 * result is not looked at. ET_E_BACKEND_CRASHED if the host of @generation is gone. */
enum et_status et_plugin_ask(struct et_backend *backend, uint64_t generation, void *packet, int fd,
	uint32_t type, void *answer, size_t n_answer, const struct et_program *program, struct et_diag *diag);
/* Send something that has no answer. */
void et_plugin_tell(struct et_backend *backend, uint64_t generation, void *packet);
/* Start a run, now or when there is room. ET_PENDING, or ET_E_BACKEND_CRASHED. */
enum et_status et_plugin_start_run(
	struct et_backend *backend, uint64_t generation, struct et_context *context, struct et_diag *diag);
/* As the delegate interface has them. */
enum et_status et_plugin_health(struct et_backend *backend, struct et_diag *diag);
enum et_status et_plugin_restart(struct et_backend *backend, struct et_diag *diag);
uint64_t et_plugin_new_handle(struct et_backend *backend);
/* inferd_delegate_result to status, with the plug-in's text. */
enum et_status et_plugin_status(uint32_t result, const char *text, struct et_diag *diag);

/* --- run.c ------------------------------------------------------------------------------------------ */

/* The packet and the call of a context whose run is to be sent. */
struct et_plugin_run *et_plugin_context_packet(struct et_context *context);
struct et_plugin_call *et_plugin_context_call(struct et_context *context);
/* A run is over: @done is the host's packet, or NULL with why not. Without the lock; calls the completion. */
void et_plugin_run_ended(struct et_context *context, const struct et_plugin_done *done, enum et_status status,
	const char *reason);

extern const struct et_delegate_ops et_plugin_ops; /* names and open are not set */
enum et_status et_plugin_kernels_init(struct et_backend *backend, struct et_diag *diag);
void et_plugin_kernels_deinit(struct et_backend *backend);

#endif
