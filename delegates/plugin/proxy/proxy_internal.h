/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs of the proxy of a plug-in: the backend with its host process, the calls to the host, models and shared
 * memory; and the functions that the proxy's files share. */
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
	pid_t pid; /* 0: the host is a thread */
	int pidfd; /* -1: none */
	pthread_t thread;
	bool is_running;
	int calls, asks, output; /* -1: none */
};

/* 0 or negative errno. */
int et_plugin_process_start(struct et_plugin_process *process, const struct et_plugin_config *config);
/* From now on the process may have @n_bytes of private memory (RLIMIT_DATA). It was not reaped yet. */
void et_plugin_process_limit_memory(const struct et_plugin_process *process, uint64_t n_bytes);
/* End the host, a process by SIGKILL, and describe in @text how it ended ("was killed by signal 11 (Segmentation
 * fault)"). @is_stuck: do not wait for a thread. False: the host is a thread that has not ended; it is left behind. */
bool et_plugin_process_end(struct et_plugin_process *process, bool is_stuck, char *text, size_t room);

/* --- payload.c and shared_memory.c: what a host is given ------------------------------------------- */

struct et_model {
	struct et_list_node node; /* in backend->models */
	struct et_backend *backend;
	_Atomic(uint32_t) n_refs; /* its Plan's, and the reviver's */
	const struct et_program *program;
	struct et_program *reviving;         /* the reviver's reference on @program */
	struct et_plugin_init init_packet;   /* without the model's number */
	const struct et_client_files *files; /* a client's program; NULL: a payload */
	int fd;                              /* the payload with specs and options, as every host gets it */
	struct et_plugin_answer init_answer; /* the first host's */
	pthread_mutex_t lock;                /* guards what follows; held during INIT */
	uint64_t generation, id;             /* the host that has the model, and the model's number there; 0: none */
	_Atomic(uint64_t) ready;             /* a copy of the generation, for readers without the lock */
};

/* Memory that runs name to the host instead of copying. */
struct et_plugin_shared {
	uintptr_t start;
	size_t n_bytes;
	int fd;                       /* borrowed */
	_Atomic(uint64_t) generation; /* the host that it is shared with; 0: none */
	uint64_t id;                  /* its number there; a new one each time that it is shared again */
	uint32_t n_uses;              /* runs that hold it */
	struct et_list_node shown;    /* in backend->shown */
	/* A tenant's backend has copies, with numbers of their own, of what its runs used. A copy is freed with its
	 * original. An original: the head of its copies, guarded by its backend's shared_lock. A copy: its node in
	 * that list. */
	struct et_list_node copies;
	struct et_backend *owner;
};

/* --- calls.c: calls to a host ---------------------------------------------------------------------- */

struct et_plugin_call {
	struct et_list_node node;
	uint64_t id, sent_ns, deadline_ns;
	struct et_instance *run; /* the instance whose run this is; NULL: another call, whose answer goes to @answer */
	bool is_attended;        /* its sender waits for it (et_plugin_wait), and receives meanwhile */
	bool is_hurried;         /* it was cancelled, and its deadline is that of the cancel */
	bool is_in_vain;         /* nobody waits for what it makes, and its deadline is that of ET_PLUGIN_IN_VAIN_NS */
	bool gives_way;          /* the process has a low priority as long as this run does not return */
	bool is_done;            /* attended: the answer is there, and no other thread touches the call any more */
	enum et_status status;
	void *unsent; /* its packet, while the socket has no room for it */
	int unsent_fd;
	void *answer; /* room for the packet */
	size_t n_answer;
	const struct et_program *program;    /* the program whose named data the host may ask for; NULL: none */
	const struct et_client_files *files; /* or the files that it may ask for, by their numbers */
	pthread_cond_t changed;              /* attended: it is done, or its sender is to receive */
};

enum et_plugin_phase { ET_PLUGIN_DOWN, ET_PLUGIN_UP };

struct et_backend {
	struct et_delegate_ops ops; /* et_plugin_ops with this plug-in's names */
	struct et_plugin_config config;
	char *strings;                    /* what @config points to */
	struct et_plugin_option *options; /* then the variables */
	const struct et_log *log;
	struct et_plugin_started facts; /* what the first host said of the plug-in; a later one must say the same */

	/* tenant.c */
	struct et_backend *parent;       /* NULL: this is the configured backend */
	uint64_t tenant;                 /* with a parent: the user whose programs run here, plus 1 */
	bool runs_programs;              /* clients' programs as a whole, by inferd-program-host */
	_Atomic(uint64_t) memory_limit;  /* of the process, in bytes; 0: none */
	_Atomic(uint64_t) user_memory;   /* what the user may have, shared memory included, in bytes; 0: any amount */
	char *cgroup;                    /* of the configured backend for programs: the delegated cgroup; NULL: none */
	struct et_list_node tenant_node; /* in parent->tenants */
	pthread_mutex_t tenants_lock;    /* guards these two; taken before a tenant's @lock */
	struct et_list_node tenants;
	uint32_t n_tenants;
	_Atomic(uint32_t) n_hosts;                                 /* tenants with a process */
	_Atomic(uint64_t) thread_sets[ET_PLUGIN_MAX_THREADS / 64]; /* a bit for each number that is taken */

	pthread_mutex_t building; /* held while a process compiles */
	pthread_mutex_t starting; /* held while a host is started; taken before @lock */
	char private_cache[64];   /* the folder of a host without a configured one; empty: there is none */
	pthread_mutex_t lock;     /* guards what follows */
	pthread_cond_t changed;   /* phase, process, answering, is_receiving while is_ending */
	enum et_plugin_phase phase;
	struct et_plugin_process process;
	struct et_plugin_restart restart;
	uint64_t generation;         /* counts starts, and names the host of the last one */
	struct et_list_node calls;   /* sent, or unsent for want of room in the socket */
	struct et_list_node waiting; /* runs beyond max_in_flight */
	uint32_t n_in_flight, n_waiting, max_in_flight;
	uint32_t n_giving_way; /* calls that give way */
	bool is_low;           /* the process has a low priority */
	uint32_t n_unattended; /* calls that the watcher has to receive */
	bool is_receiving;     /* a thread receives: it has the socket for reading, and @packet */
	bool is_gone;          /* the socket was found closed, or a packet was malformed */
	bool is_ending;        /* the watcher ends the host: no other thread sends, receives or uses @process */
	bool is_watching;      /* the watcher polls the socket for packets */
	const struct et_plugin_call *answering; /* the watcher reads its program, so the call must not return yet */
	/* Packets without an answer that the socket had no room for, and the number of unsent calls; the watcher sends
	 * them. */
	struct et_plugin_handle *backlog;
	uint32_t n_backlog, backlog_room, n_unsent;
	uint64_t must_read_by_ns; /* with a backlog: when the host must have read something */
	uint64_t last_id, last_handle, last_program;
	struct et_list_node models;
	uint32_t n_starts;
	char reason[320];        /* why the last host crashed */
	const char *kill_reason; /* why the watcher is to end the host; NULL: it is not */
	bool is_closing, is_restarting;
	bool is_retiring;        /* a tenant's idle host was hung up on; a call that comes now waits for another host */
	uint64_t close_by_ns;    /* closing or retiring: when the host must have ended */
	uint64_t sleep_until_ns; /* when the watcher's poll times out */
	uint64_t n_runs, n_copied_bytes;
	uint32_t n_users;       /* a tenant's backend: models and kernels that hold it */
	uint64_t idle_since_ns; /* a tenant's backend: since when it has no users */
	/* revive.c. The thread's handle belongs to the thread that has set is_reviving. */
	bool is_reviving, has_reviver;
	pthread_t reviver;
	enum et_status revived; /* how the last revival ended */
	struct et_diag revive_diag;
	char *packet; /* the receiving thread's, ET_PLUGIN_MAX_PACKET */

	/* Guards what follows. Taken last; a parent's before a tenant's, with the tenant's @lock between. */
	pthread_mutex_t shared_lock;
	struct et_plugin_shared **shared; /* sorted by address */
	uint32_t n_shared, shared_room;
	struct et_list_node shown; /* shared with the host of shown_generation; the last used at the end */
	uint64_t shown_generation;
	uint32_t n_shown;    /* memory files that this host has: those, and stages */
	uint32_t n_payloads; /* payloads whose descriptors this host has */

	/* the watcher's */
	pthread_t watcher;
	int wake;          /* an eventfd */
	char *asks_packet; /* ET_PLUGIN_MAX_PACKET */
	struct et_plugin_lines lines;

	struct et_plugin_kernel *kernels;
	struct et_kernel *rows;
	char *kernel_names;
	struct et_kernel_table table;
};

/* Send @packet (its id is set here), with @fd (-1: none), to the host of @generation, and wait for an answer of exactly
 * @n_answer bytes. The caller checks the answer's result. ET_E_BACKEND_CRASHED: that host is gone. */
enum et_status et_plugin_ask(struct et_backend *backend, uint64_t generation, void *packet, int fd, void *answer,
	size_t n_answer, const struct et_program *program, struct et_diag *diag);
/* As et_plugin_ask, for a call during which the host may ask for @files. */
enum et_status et_plugin_ask_with_files(struct et_backend *backend, uint64_t generation, void *packet, int fd,
	void *answer, size_t n_answer, const struct et_client_files *files, struct et_diag *diag);
/* Send a packet that has no answer, now or when the socket has room. Nothing happens if the host of @generation is
 * gone. */
void et_plugin_tell(struct et_backend *backend, uint64_t generation, struct et_plugin_handle *handle);
/* Called with the lock: whether packets wait for room in the socket; and send those that it has room for. */
bool et_plugin_has_backlog(const struct et_backend *backend);
void et_plugin_send_backlog(struct et_backend *backend);
extern const char et_plugin_not_reading[]; /* the kill_reason when the socket stays full */
extern const char et_plugin_in_vain[];     /* why a process is ended whose call is_in_vain */
/* Start the run of @instance, now or when fewer than max_in_flight are running. ET_PENDING, or ET_E_BACKEND_CRASHED.
 * @is_attended: the caller calls et_plugin_wait next. */
enum et_status et_plugin_start_run(struct et_backend *backend, uint64_t generation, struct et_instance *instance,
	bool is_attended, struct et_diag *diag);
/* Wait until the attended run of @instance is done, and receive for all calls meanwhile. At @cancel_ns (0: never)
 * the run is cancelled. */
void et_plugin_wait(struct et_backend *backend, struct et_instance *instance, uint64_t cancel_ns);
/* The run was cancelled: give it cancel_timeout_ns from now on. Without the lock. */
void et_plugin_hurry(struct et_backend *backend, struct et_instance *instance);
uint64_t et_plugin_new_handle(struct et_backend *backend);
/* Convert an enum inferd_delegate_result, or ET_PLUGIN_RESULT_FAULT, with the plug-in's text. */
enum et_status et_plugin_status(uint32_t result, const char *text, struct et_diag *diag);

/* Called with the lock or without. */
void et_plugin_wake_watcher(struct et_backend *backend);
/* Called with the lock: make this thread the one that receives. False: another thread is, or the host is gone. */
bool et_plugin_begin_receiving(struct et_backend *backend);
/* Called without the lock, between begin and end: receive and handle one packet. False: none came, or the host is
 * gone. */
bool et_plugin_receive_one(struct et_backend *backend, bool may_wait);
/* Called with the lock: let another waiting thread receive. */
void et_plugin_end_receiving(struct et_backend *backend);
/* Called with the lock: move all calls to @taken. Without the lock: end those with ET_E_BACKEND_CRASHED and @reason. */
void et_plugin_take_calls(struct et_backend *backend, struct et_list_node *taken);
void et_plugin_end_calls(struct et_backend *backend, struct et_list_node *taken, const char *reason);

/* Count the bytes that a run copied. @is_lost: the run answered E_LOST, so the host is to be ended. Without the
 * lock. */
void et_plugin_note_run(struct et_backend *backend, uint64_t n_copied, bool is_lost);

/* --- priority.c -------------------------------------------------------------------------------------- */

/* Let the process of the instance's run leave the cores to others until the run returns. Any thread, without the
 * lock. Nothing happens if the run is not under way, or the backend does not run clients' programs. */
void et_plugin_give_way(struct et_instance *instance);
/* Called under the lock: @call has left `calls`, or was cancelled. */
void et_plugin_stop_giving_way(struct et_backend *backend, struct et_plugin_call *call);
/* Called under the lock: the process has ended, or is ended. */
void et_plugin_process_left(struct et_backend *backend);

/* --- watcher.c: the watcher's thread ------------------------------------------------------------------ */

void *et_plugin_watch(void *backend);

/* Handle a LOG packet. */
void et_plugin_lines_take(struct et_plugin_lines *lines, const struct et_plugin_log *log);

/* --- build.c: a process that compiles ------------------------------------------------------------------ */

/* Have the plug-in compile, in a process of its own, what inits have noted in the cache folder, and wait until that has
 * ended. Any thread; one process at a time. ET_E_INTERNAL, or what build answers, with the reason in @diag. */
enum et_status et_plugin_build(struct et_backend *backend, struct et_diag *diag);

/* --- private_cache.c ----------------------------------------------------------------------------------- */

/* Make the private cache folder, if the backend's process needs one and has none. 0 or negative errno. */
int et_plugin_make_private_cache(struct et_backend *backend);
/* Remove it with all that is in it. No process uses it. */
void et_plugin_remove_private_cache(struct et_backend *backend);

/* --- backend.c -------------------------------------------------------------------------------------- */

/* The START packet of a process of @backend, which may have @memory_limit bytes of private memory (0: any number);
 * heap memory. NULL: the options are too long, or there is no memory. */
struct et_plugin_start *et_plugin_make_start(const struct et_backend *backend, uint32_t flags, uint64_t memory_limit);
/* Functions of struct et_delegate_ops. */
enum et_status et_plugin_health(struct et_backend *backend, struct et_diag *diag);
enum et_status et_plugin_restart(struct et_backend *backend, struct et_diag *diag);
void et_plugin_await_restart(struct et_backend *backend);
/* Start a host if there is none. *ret_generation names the host. Answers: ET_E_BACKEND_CRASHED (failed, in a pause
 * after crashes, or can't be started), ET_E_OUT_OF_RESOURCES (too many tenants' processes). */
enum et_status et_plugin_ensure_host(struct et_backend *backend, uint64_t *ret_generation, struct et_diag *diag);

/* Limit the private memory of the host, and of those that are started later, to @n_bytes; 0: any amount. Without the
 * lock. */
void et_plugin_limit_host(struct et_backend *backend, uint64_t n_bytes);

/* Make a backend without a host, and start its watcher; NULL: @diag says why. et_plugin_backend_end ends both, and the
 * host. */
struct et_backend *et_plugin_backend_new(const struct et_plugin_config *config, const struct et_log *log,
	bool is_forgiving, struct et_diag *diag);
void et_plugin_backend_end(struct et_backend *backend);
/* Called with the lock: send no more. The host frees everything and ends; it is killed if that takes more than 5 s. */
void et_plugin_hang_up(struct et_backend *backend);
/* Hang up on the hosts of the backend and of its tenants, so that they end at the same time. */
void et_plugin_begin_ending(struct et_backend *backend);

/* --- tenant.c --------------------------------------------------------------------------------------- */

/* Find or make the backend that runs @tenant's programs: @backend itself for tenant 0, or if tenants run together.
 * The caller puts it back when it uses nothing of it any more. Any thread. After a failure of making it,
 * *ret_backend is NULL. */
enum et_status et_plugin_tenant_take(struct et_backend *backend, uint64_t tenant, struct et_backend **ret_backend,
	struct et_diag *diag);
void et_plugin_tenant_put(struct et_backend *backend);
/* Called with the lock: when a tenant's host is to end because it has no users; UINT64_MAX: not now. */
uint64_t et_plugin_idle_end_ns(const struct et_backend *backend);
/* Count a tenant's process that is about to start: ET_E_OUT_OF_RESOURCES if there are too many. Count one that has
 * ended, or did not start. Both do nothing for a backend without a parent. */
enum et_status et_plugin_tenant_starts(struct et_backend *backend, struct et_diag *diag);
void et_plugin_tenant_ended(struct et_backend *backend);
void et_plugin_tenants_restart(struct et_backend *parent, struct et_diag *diag);
void et_plugin_tenants_await_restart(struct et_backend *parent);
/* et_plugin_end_stuck for each tenant. */
uint32_t et_plugin_tenants_end_stuck(struct et_backend *parent, uint64_t before_ns);
void et_plugin_tenants_begin_ending(struct et_backend *parent);
void et_plugin_tenants_end(struct et_backend *parent);

/* --- payload.c: functions of struct et_delegate_ops, and et_plugin_load ------------------------------- */

enum et_status et_plugin_probe_payload(struct et_backend *backend, const struct et_payload *payload,
	enum et_readiness *ret_readiness, struct et_diag *diag);
enum et_status et_plugin_compile(struct et_backend *backend, const struct et_payload *payload,
	struct et_model **ret_model, struct et_model_info *ret_info, struct et_diag *diag);
void et_plugin_model_free(struct et_model *model);
/* Send INIT to the host of @generation, unless that has the model. *ret_id is the model's number there. */
enum et_status et_plugin_load(struct et_model *model, uint64_t generation, uint64_t *ret_id, struct et_diag *diag);

/* --- revive.c ---------------------------------------------------------------------------------------- */

/* For a client's program, which a run needs: ET_OK with the host that has it. Else a thread starts a host and sends
 * INIT, and the call returns after some milliseconds. ET_E_BACKEND_CRASHED: not ready yet, or as
 * et_plugin_ensure_host; or what INIT failed with. The caller's Plan holds @model. */
enum et_status et_plugin_revive(struct et_model *model, uint64_t *ret_generation, struct et_diag *diag);
/* The backend is closing: wait for that thread. */
void et_plugin_revive_end(struct et_backend *backend);

/* --- shared_memory.c --------------------------------------------------------------------------------- */

enum et_status et_plugin_import_memory(struct et_backend *backend, int fd, void *bytes, size_t n_bytes,
	void **ret_handle);
void et_plugin_release_memory(struct et_backend *backend, void *handle);
/* Find the memory that all of [bytes, bytes + n_bytes) lies in, and hold it until it is put; NULL: there is none. */
struct et_plugin_shared *et_plugin_find_memory(struct et_backend *backend, const void *bytes, size_t n_bytes);
void et_plugin_put_memory(struct et_backend *backend, struct et_plugin_shared *shared);
/* Free a tenant's copies when its backend ends. */
void et_plugin_forget_memory(struct et_backend *backend);
/* Share memory that the caller holds with the host of @generation, unless that has it. */
enum et_status et_plugin_show_memory(struct et_backend *backend, uint64_t generation, struct et_plugin_shared *shared,
	struct et_diag *diag);
/* Send SHARE: give the host of @generation a memory file that runs name @id from now on. If the host has no room, the
 * memory that was used longest ago is forgotten first. Send FORGET: take a memory file back. */
enum et_status et_plugin_show(struct et_backend *backend, uint64_t generation, uint64_t id, int fd, uint64_t n_bytes,
	struct et_diag *diag);
void et_plugin_forget(struct et_backend *backend, uint64_t generation, uint64_t id);
/* Reserve room for the descriptor of a payload in the host of @generation, which has room for few; and give the
 * room back. ET_E_OUT_OF_RESOURCES: the host has too many payloads. */
enum et_status et_plugin_reserve_payload_fd(struct et_backend *backend, uint64_t generation, struct et_diag *diag);
void et_plugin_release_payload_fd(struct et_backend *backend, uint64_t generation);

/* --- run.c ------------------------------------------------------------------------------------------ */

/* The packet and the call of the run of @instance. */
struct et_plugin_run *et_plugin_instance_packet(struct et_instance *instance);
struct et_plugin_call *et_plugin_instance_call(struct et_instance *instance);
struct et_backend *et_plugin_instance_backend(struct et_instance *instance);
/* Ask the run of @instance to end early. Any thread. */
void et_plugin_instance_cancel(struct et_instance *instance);
/* End the run of @instance and call its completion. @done is the host's packet, or NULL with @status and @reason.
 * Without the lock. */
void et_plugin_run_ended(struct et_instance *instance, const struct et_plugin_done *done, enum et_status status,
	const char *reason);

/* Make an instance of @model, or (NULL) for kernel number @kernel. The host gets it with its first run. */
enum et_status et_plugin_instance_make(struct et_backend *backend, struct et_model *model, uint32_t kernel,
	uint32_t n_args, struct et_instance **ret_instance, struct et_diag *diag);
/* Run @instance and wait for the end. @flags: enum inferd_delegate_run_flags. */
enum et_status et_plugin_run_and_wait(struct et_instance *instance, struct et_evalue *const *args, uint32_t n_inputs,
	uint32_t flags, struct et_diag *diag);

extern const struct et_delegate_ops et_plugin_ops; /* without id, name, and the functions of backend.c */

/* --- kernel.c --------------------------------------------------------------------------------------- */

/* Ask the host for its kernels, and make b->table of them. */
enum et_status et_plugin_kernels_init(struct et_backend *backend, struct et_diag *diag);
/* Give a tenant's @backend the kernels of its parent @from. False: no memory. */
bool et_plugin_kernels_copy(struct et_backend *backend, const struct et_backend *from);
void et_plugin_kernels_deinit(struct et_backend *backend);

#endif
