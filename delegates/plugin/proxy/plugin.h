/* SPDX-License-Identifier: BSD-3-Clause */
/* Plugin: make a plug-in a backend of the runtime.
 *
 * inferd-delegate-host loads the plug-in's shared object (see delegates/inferd-delegate.h); each plug-in has such a
 * host process of its own. When the process dies or does not answer in time, its runs end with
 * ET_E_BACKEND_CRASHED. The next call starts another: at once after a first crash, with growing pauses after
 * further ones. Payloads are made ready in the new process when they are next run. After `max_crashes` within
 * `crash_window_ns` the backend has failed, and every call says so, until it is restarted.
 *
 * Programs that clients brought run in further processes, one for each user (the tenant). A crash there does not
 * count as the backend's. */
#ifndef DELEGATES_PLUGIN_PROXY_PLUGIN_H
#define DELEGATES_PLUGIN_PROXY_PLUGIN_H

#include "runtime/plan.h"

#include <sys/types.h>

enum et_plugin_isolation {
	ET_PLUGIN_IN_PROCESS, /* in a host process */
	ET_PLUGIN_IN_THREAD,  /* on a thread of this process: a crash is not contained */
};

/* Where the programs of tenants run (see et_source). With ET_PLUGIN_IN_THREAD always together. */
enum et_plugin_tenancy {
	ET_PLUGIN_APART,    /* in a process for each tenant, see tenant.c */
	ET_PLUGIN_TOGETHER, /* in the process of all other programs */
	ET_PLUGIN_REFUSED,  /* nowhere */
};

struct et_plugin_option {
	const char *key, *value;
};

/* All strings are copied. */
struct et_plugin_config {
	const char *name;      /* the name in the configuration; NULL: the plug-in's own name */
	const char *path;      /* of the shared object */
	const char *host_path; /* of inferd-delegate-host; NULL: where it was installed */
	const char *cache_dir; /* NULL: a process gets a private one, which goes when the backend or the tenant does */
	enum et_plugin_isolation isolation;
	uint64_t run_timeout_ns;    /* 0: 30 s */
	uint64_t load_timeout_ns;   /* for every call but runs; 0: 120 s */
	uint64_t cancel_timeout_ns; /* for a run from its cancel on; 0: what is left of run_timeout_ns */
	uint32_t max_crashes;       /* 0: 5 */
	uint64_t crash_window_ns;   /* 0: 60 s */
	const struct et_plugin_option *options;
	uint32_t n_options;
	const struct et_plugin_option *variables; /* of the environment of the process */
	uint32_t n_variables;
	bool has_build_tools; /* the process that compiles may start a linker */
	enum et_plugin_tenancy tenancy;
	uint32_t max_tenants; /* tenants that may have a process at the same time; 0: 8 */
	uint64_t idle_ns;     /* how long a tenant's process stays when nothing uses it; 0: 10 s */
};

/* Start a host with the plug-in and ask for its devices. On success *ret_entry holds the backend, which
 * ops->close(backend) ends; @log must outlive it. Answers, with the reason in @diag: ET_E_NOT_FOUND (can't be
 * loaded, is not a plug-in, or not available on this machine), ET_E_INVALID_ARGUMENT (a path is too long),
 * ET_E_MEMORY_ALLOCATION_FAILED. Loop thread. */
enum et_status et_plugin_open(struct et_backend_entry *ret_entry, const struct et_plugin_config *config,
	const struct et_allocator *allocator, const struct et_log *log, struct et_diag *diag);

/* Make the backend for the programs that clients bring: inferd-program-host runs them whole, one process for each
 * tenant, started when it is first needed. @config: with host_path, without path and cache_dir. As et_plugin_open. */
enum et_status et_plugin_open_programs(struct et_backend_entry *ret_entry, const struct et_plugin_config *config,
	const struct et_log *log, struct et_diag *diag);
/* How much memory a tenant's process may have, in bytes; 0: any amount. */
struct et_plugin_room {
	uint64_t n_private; /* RLIMIT_DATA from now on */
	uint64_t n_all;     /* shared memory included; for the cgroup of the next process */
};
/* Have @tenant's process, which may have @memory, describe the program in @files: a small program of the same
 * methods, whose one delegate is this backend (delegates/program/stand_in.h). What the process and this call make
 * takes at most what et_platform_limit_heap left to the thread; the same holds when the stand-in's payload is
 * compiled. At most ET_PLUGIN_MAX_DESCRIPTION bytes are written into @room, and *ret_n_bytes tells how many. The
 * bytes are as little to be trusted as the program. Any thread; waits for the process. Answers: what the runtime
 * answers for the program, with the reason in @diag; ET_E_BACKEND_DOWN (the process can't be started now);
 * ET_E_BACKEND_CRASHED. */
enum { ET_PLUGIN_MAX_DESCRIPTION = 1 << 20 };
enum et_status et_plugin_describe(struct et_backend *backend, uint64_t tenant, const struct et_plugin_room *memory,
	const struct et_client_files *files, uint8_t *room, size_t *ret_n_bytes, struct et_diag *diag);

#define ET_PLUGIN_IN_VAIN_NS UINT64_C(2000000000)
/* What this thread makes with the processes of tenants from now on is made for somebody who may go: @is_in_vain(@arg)
 * tells whether nobody waits for it any more, and is asked several times a second, on this thread. A process that is
 * not done ET_PLUGIN_IN_VAIN_NS later is ended, and the call answers ET_E_BACKEND_CRASHED; that is no crash of the
 * plug-in's. @is_in_vain NULL: it is wanted in any case. @arg stays the caller's. Any thread. */
void et_plugin_make_for(bool (*is_in_vain)(void *arg), void *arg);

/* Limit the private memory of @tenant's process to @n_bytes from now on (0: any amount). Nothing happens if there is
 * none. Any thread. */
void et_plugin_limit_tenant(struct et_backend *backend, uint64_t tenant, uint64_t n_bytes);

/* The kernels that the plug-in brings along; NULL: none. They live as long as the backend. */
const struct et_kernel_table *et_plugin_kernels(struct et_backend *backend);
/* The backend that brought @kernel; NULL: it is not a plug-in's. */
struct et_backend *et_plugin_of_kernel(const struct et_kernel *kernel);

struct et_plugin_state {
	pid_t pid; /* 0: no process now */
	bool has_failed;
	uint32_t sandbox; /* enum et_sandbox_part */
	uint32_t n_starts, n_crashes;
	uint64_t n_runs, n_copied_bytes;
	uint32_t n_in_flight, n_waiting;
	char version[64];
	char reason[320]; /* of the last crash, or empty */
	uint64_t tenant;  /* 0: the process of the repository's models */
	uint64_t wait_ns; /* how long it is not started again */
};
/* Any thread. */
void et_plugin_state(struct et_backend *backend, struct et_plugin_state *ret_state);
/* The states of all tenants, also of those without a process now. Writes at most @max of them, and returns how many
 * there are. Any thread. */
uint32_t et_plugin_tenant_states(struct et_backend *backend, struct et_plugin_state *ret_states, uint32_t max);

/* Kill the processes of the backend, those of tenants too, that have not answered a call since @before_ns: their runs
 * end with ET_E_BACKEND_CRASHED, as after a crash. How many there are; 0 with ET_PLUGIN_IN_THREAD. Any thread. */
uint32_t et_plugin_end_stuck(struct et_backend *backend, uint64_t before_ns);

/* Ask the plug-in whether it could run @payload: *ret_readiness is an enum inferd_delegate_readiness, with the
 * reason in @diag. Any thread; waits for the plug-in. */
enum et_status et_plugin_probe(struct et_backend *backend, const struct et_payload *payload, uint32_t *ret_readiness,
	struct et_diag *diag);

struct et_plugin_stats {
	uint64_t n_runs, busy_ns, memory_bytes; /* of a device, as the plug-in counts */
};
/* For inferd-delegate-check: ask the plug-in for the statistics of device @device; try to allocate, map, write and
 * export buffers there. ET_E_NOT_SUPPORTED: the plug-in lacks these functions. Any thread; waits for the plug-in. */
enum et_status et_plugin_stats(struct et_backend *backend, uint32_t device, struct et_plugin_stats *ret_stats,
	struct et_diag *diag);
enum et_status et_plugin_try_buffers(struct et_backend *backend, uint32_t device, struct et_diag *diag);

#endif
