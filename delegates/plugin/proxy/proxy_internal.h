/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the proxy of a plug-in: its process, the calls to it, who listens. Shared by the proxy's files. */
#ifndef DELEGATES_PLUGIN_PROXY_PROXY_INTERNAL_H
#define DELEGATES_PLUGIN_PROXY_PROXY_INTERNAL_H

#include "delegates/plugin/proxy/log_lines.h"
#include "delegates/plugin/proxy/plugin.h"
#include "delegates/plugin/proxy/restart.h"
#include "delegates/plugin/wire.h"
#include "runtime/base/list.h"

#include <pthread.h>
#include <stdatomic.h>

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

/* --- payload.c and shared_memory.c: what a host is given ----------------------------------------------------- */

struct et_model {
	struct et_list_node node; /* of the backend */
	struct et_backend *backend;
	const struct et_program *program;
	struct et_plugin_init init;
	int fd;
	struct et_plugin_answer facts; /* of the first time */
	pthread_mutex_t lock;          /* guards what follows; held while it is made ready */
	uint64_t generation, id;
};

struct et_plugin_shared {
	uintptr_t start;
	size_t n_bytes;
	int fd;                       /* borrowed */
	_Atomic(uint64_t) generation; /* of the host that knows it; 0: none */
	uint64_t id;                  /* there; another each time that it was let go */
	uint32_t n_uses;              /* runs that hold it */
	struct et_list_node shown;    /* of the backend */
	/* A tenant's backend knows what its runs used under a number of its own; it goes with the original. */
	struct et_list_node copies; /* of the original, guarded by its backend's shared_lock; of a copy: its place */
	struct et_backend *owner;
};

/* --- calls.c: what was asked of a host ------------------------------------------------------------- */

struct et_plugin_call {
	struct et_list_node node;
	uint64_t id, deadline_ns;
	struct et_instance *run; /* NULL: a question, whose answer goes to @answer */
	bool is_attended;        /* who sent it waits for it (et_plugin_wait) and receives meanwhile */
	bool is_hurried;         /* it was asked to end early, and has little time left */
	bool is_done;            /* attended: handed over, nobody else touches it any more */
	enum et_status status;
	void *unsent; /* its packet, while the socket has no room for it */
	int unsent_fd;
	void *answer; /* room for the packet */
	size_t n_answer;
	const struct et_program *program; /* whose named data may be asked for */
	pthread_cond_t changed;           /* attended: it is done, or there is nobody who receives */
};

enum et_plugin_phase { ET_PLUGIN_DOWN, ET_PLUGIN_UP };

struct et_backend {
	struct et_delegate_ops ops; /* with this plug-in's own names */
	struct et_plugin_config config;
	char *strings; /* what the config points to */
	struct et_plugin_option *options;
	const struct et_log *log;
	struct et_plugin_started facts; /* of the first start */

	/* tenant.c */
	struct et_backend *parent;       /* NULL: this is the configured one */
	uint64_t tenant;                 /* with a parent: whose programs are run here */
	struct et_list_node tenant_node; /* of the parent */
	pthread_mutex_t tenants_lock;    /* guards these two; taken before the tenants' lock */
	struct et_list_node tenants;
	uint32_t n_tenants;
	_Atomic(uint32_t) n_hosts; /* of tenants, with a process */

	pthread_mutex_t starting; /* held while a host is started; taken before lock */
	pthread_mutex_t lock;     /* guards what follows */
	pthread_cond_t changed;   /* phase, process, answering, is_receiving while is_ending */
	enum et_plugin_phase phase;
	struct et_plugin_process process;
	struct et_plugin_restart restart;
	uint64_t generation;         /* counts starts */
	struct et_list_node calls;   /* sent */
	struct et_list_node waiting; /* runs beyond max_in_flight */
	uint32_t n_in_flight, n_waiting, max_in_flight;
	uint32_t n_unattended; /* calls that the watcher has to receive */
	bool is_receiving;     /* somebody is at the socket and has the packet buffer */
	bool is_gone;          /* the socket was found closed, or what came could not be read */
	bool is_ending;        /* the watcher ends the host: nobody else sends, receives or has its process */
	bool is_watching;      /* the watcher looks for packets */
	const struct et_plugin_call *answering; /* the watcher reads its program; it does not return */
	/* What the socket has no room for; the watcher sends it: what has no answer, and how many calls are unsent. */
	struct et_plugin_handle *backlog;
	uint32_t n_backlog, backlog_room, n_unsent;
	uint64_t deaf_by_ns; /* when the host has read nothing for too long */
	uint64_t last_id, last_handle, last_program;
	struct et_list_node model;
	uint32_t n_starts;
	char reason[320];
	const char *kill_reason; /* the watcher is to end the host */
	bool is_closing, is_restarting;
	bool is_leaving;         /* nobody needs the host now: it was hung up on, and whoever comes waits for another */
	uint64_t close_by_ns;    /* when it must have ended, closing or leaving */
	uint64_t sleep_until_ns; /* when the watcher looks around by itself */
	uint64_t n_runs, n_copied_bytes;
	uint32_t n_users;       /* of a tenant's backend */
	uint64_t idle_since_ns; /* it has had none since */
	char *packet;           /* whoever receives, ET_PLUGIN_MAX_PACKET */

	/* guards these; taken last, but the parent's before a tenant's, with the latter's lock between */
	pthread_mutex_t shared_lock;
	struct et_plugin_shared **shared; /* by their start */
	uint32_t n_shared, shared_room;
	struct et_list_node shown; /* what the host of shown_generation knows, used last at the end */
	uint64_t shown_generation;
	uint32_t n_shown;    /* those, and stages */
	uint32_t n_payloads; /* whose descriptors it has */

	/* the watcher's */
	pthread_t watcher;
	int wake;  /* an eventfd */
	char *ask; /* ET_PLUGIN_MAX_PACKET */
	struct et_plugin_lines lines;

	struct et_plugin_kernel *kernels;
	struct et_kernel *rows;
	char *kernel_names;
	struct et_kernel_table table;
};

/* Send @packet (its id is set here) and wait for an answer of exactly @n_answer bytes. The answer's own result is not
 * looked at. ET_E_BACKEND_CRASHED if the host of @generation is gone. */
enum et_status et_plugin_ask(struct et_backend *backend, uint64_t generation, void *packet, int fd, void *answer,
	size_t n_answer, const struct et_program *program, struct et_diag *diag);
/* Send something that has no answer, now or when there is room. */
void et_plugin_tell(struct et_backend *backend, uint64_t generation, struct et_plugin_handle *handle);
/* With the lock: whether something waits for room, and send what there is room for. */
bool et_plugin_has_backlog(const struct et_backend *backend);
void et_plugin_send_backlog(struct et_backend *backend);
extern const char et_plugin_deaf[]; /* the reason when there never is room */
/* Start a run, now or when there is room. ET_PENDING, or ET_E_BACKEND_CRASHED. @is_attended: the caller will wait. */
enum et_status et_plugin_start_run(struct et_backend *backend, uint64_t generation, struct et_instance *instance,
	bool is_attended, struct et_diag *diag);
/* Until the attended run of @context is done, receiving for everybody meanwhile. At @cancel_ns (0: never) it is asked
 * to end early. */
void et_plugin_wait(struct et_backend *backend, struct et_instance *instance, uint64_t cancel_ns);
/* The run was asked to end early: from now on it has so long. Under no lock. */
void et_plugin_hurry(struct et_backend *backend, struct et_instance *instance);
uint64_t et_plugin_new_handle(struct et_backend *backend);
/* inferd_delegate_result to status, with the plug-in's text. */
enum et_status et_plugin_status(uint32_t result, const char *text, struct et_diag *diag);

/* With the lock. */
void et_plugin_wake_watcher(struct et_backend *backend);
/* With the lock: make this thread the one that receives. False: another is. */
bool et_plugin_begin_receiving(struct et_backend *backend);
/* Without the lock, after that: one packet. False: nothing came now. What can't go on is noted in is_gone. */
bool et_plugin_receive_one(struct et_backend *backend, bool may_wait);
/* With the lock: give the place to somebody else who waits. */
void et_plugin_end_receiving(struct et_backend *backend);
/* With the lock: all calls into @taken. Without it: end them with ET_E_BACKEND_CRASHED. */
void et_plugin_take_calls(struct et_backend *backend, struct et_list_node *taken);
void et_plugin_end_calls(struct et_backend *backend, struct et_list_node *taken, const char *reason);

/* A run came back that copied so much; @is_lost: its device was lost. */
void et_plugin_note_run(struct et_backend *backend, uint64_t n_copied, bool is_lost);

/* --- watcher.c: the watcher's thread ------------------------------------------------------------------ */

void *et_plugin_watch(void *backend);

/* --- backend.c -------------------------------------------------------------------------------------- */

/* As the delegate interface has them. */
enum et_status et_plugin_health(struct et_backend *backend, struct et_diag *diag);
enum et_status et_plugin_restart(struct et_backend *backend, struct et_diag *diag);
/* Make sure that there is a host. *ret_generation says which. */
enum et_status et_plugin_up(struct et_backend *backend, uint64_t *ret_generation, struct et_diag *diag);

/* A backend without a process, its watcher started; NULL: no memory. It is ended, with its process, by the other. */
struct et_backend *et_plugin_backend_new(const struct et_plugin_config *config, const struct et_log *log,
	bool is_forgiving, struct et_diag *diag);
void et_plugin_backend_end(struct et_backend *backend);
/* With the lock: no more is sent to the host, which ends when it has destroyed what it has, or is ended in 5 s. */
void et_plugin_hang_up(struct et_backend *backend);
/* Have its host and those of its tenants begin to end, before one after the other is waited for. */
void et_plugin_begin_ending(struct et_backend *backend);

/* --- tenant.c --------------------------------------------------------------------------------------- */

/* The backend that runs what @tenant brought: @backend itself for tenant 0, and where they go together. To be put when
 * nothing of it is used any more; any thread. *ret_backend is NULL after a failure. */
enum et_status et_plugin_tenant_take(struct et_backend *backend, uint64_t tenant, struct et_backend **ret_backend,
	struct et_diag *diag);
void et_plugin_tenant_put(struct et_backend *backend);
/* With the lock: when its process is to end, for want of users; UINT64_MAX: not now. */
uint64_t et_plugin_idle_end_ns(const struct et_backend *backend);
/* A process is about to start: ET_E_OUT_OF_RESOURCES if there are too many. It has ended, or did not start. */
enum et_status et_plugin_tenant_starts(struct et_backend *backend, struct et_diag *diag);
void et_plugin_tenant_ended(struct et_backend *backend);
void et_plugin_tenants_restart(struct et_backend *parent, struct et_diag *diag);
void et_plugin_tenants_begin_ending(struct et_backend *parent);
void et_plugin_tenants_end(struct et_backend *parent);

/* --- payload.c, as the delegate interface has them ---------------------------------------------------- */

enum et_status et_plugin_probe_payload(struct et_backend *backend, const struct et_payload *payload,
	enum et_readiness *ret_readiness, struct et_diag *diag);
enum et_status et_plugin_compile(struct et_backend *backend, const struct et_payload *payload,
	struct et_model **ret_model, struct et_model_info *ret_info, struct et_diag *diag);
void et_plugin_model_free(struct et_model *model);
/* Make it ready in the host of @generation, if it is not. *ret_id: its number there. */
enum et_status et_plugin_load(struct et_model *model, uint64_t generation, uint64_t *ret_id, struct et_diag *diag);

/* --- shared_memory.c ----------------------------------------------------------------------------------------- */

enum et_status et_plugin_import_memory(struct et_backend *backend, int fd, void *bytes, size_t n_bytes,
	void **ret_handle);
void et_plugin_release_memory(struct et_backend *backend, void *handle);
/* The one that all of [bytes, bytes + n_bytes) lies in, held until it is put; NULL: none. */
struct et_plugin_shared *et_plugin_find_memory(struct et_backend *backend, const void *bytes, size_t n_bytes);
void et_plugin_put_memory(struct et_backend *backend, struct et_plugin_shared *shared);
/* All that is left: a tenant's backend ends. */
void et_plugin_forget_memory(struct et_backend *backend);
/* Have the host of @generation know what is held. */
enum et_status et_plugin_show_memory(struct et_backend *backend, uint64_t generation, struct et_plugin_shared *shared,
	struct et_diag *diag);
/* Give the host of @generation memory that runs may name @id from now on, and take that back. What nobody has used for
 * longest makes room for it. */
enum et_status et_plugin_show(struct et_backend *backend, uint64_t generation, uint64_t id, int fd, uint64_t n_bytes,
	struct et_diag *diag);
void et_plugin_forget(struct et_backend *backend, uint64_t generation, uint64_t id);
/* The host of @generation is about to be given the descriptor of a payload, which costs as much room.
 * ET_E_OUT_OF_RESOURCES: it has too many. The other gives the room back. */
enum et_status et_plugin_hold_payload(struct et_backend *backend, uint64_t generation, struct et_diag *diag);
void et_plugin_drop_payload(struct et_backend *backend, uint64_t generation);

/* --- run.c ------------------------------------------------------------------------------------------ */

/* The packet and the call of a context whose run is to be sent. */
struct et_plugin_run *et_plugin_instance_packet(struct et_instance *instance);
struct et_plugin_call *et_plugin_instance_call(struct et_instance *instance);
/* Ask its run to end early. Any thread. */
void et_plugin_instance_cancel(struct et_instance *instance);
/* A run is over: @done is the host's packet, or NULL with why not. Without the lock; calls the completion. */
void et_plugin_run_ended(struct et_instance *instance, const struct et_plugin_done *done, enum et_status status,
	const char *reason);

/* @compiled NULL: for kernel number @kernel. */
enum et_status et_plugin_instance_make(struct et_backend *backend, struct et_model *model, uint32_t kernel,
	uint32_t n_args, struct et_instance **ret_instance, struct et_diag *diag);
/* With enum inferd_delegate_run_flags. */
enum et_status et_plugin_run_and_wait(struct et_instance *instance, struct et_evalue *const *args, uint32_t n_inputs,
	uint32_t flags, struct et_diag *diag);

extern const struct et_delegate_ops et_plugin_ops; /* names and open are not set */
enum et_status et_plugin_kernels_init(struct et_backend *backend, struct et_diag *diag);
/* Those of @from, run by @backend. False: no memory. */
bool et_plugin_kernels_copy(struct et_backend *backend, const struct et_backend *from);
void et_plugin_kernels_deinit(struct et_backend *backend);

#endif
