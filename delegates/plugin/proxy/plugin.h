/* SPDX-License-Identifier: BSD-3-Clause */
/* Plugin: a backend from a shared object, as the runtime sees any other.
 *
 * The shared object (see delegates/inferd-delegate.h) is loaded by inferd-delegate-host, a process for each plug-in.
 * When that process dies or does not answer in time, the runs that it had end with ET_E_BACKEND_CRASHED; the next
 * call starts it again, at first at once, after further crashes with growing pauses, and payloads are made ready in
 * the new process when they are next run. After `max_crashes` within `crash_window_ns` the backend counts as failed,
 * and every call says so, until it is restarted.
 *
 * Programs that somebody less trusted brought are run in further processes, one for each such tenant; what happens there
 * is no crash of the backend's. */
#ifndef DELEGATES_PLUGIN_PROXY_PLUGIN_H
#define DELEGATES_PLUGIN_PROXY_PLUGIN_H

#include "runtime/plan.h"

#include <sys/types.h>

enum et_plugin_isolation {
	ET_PLUGIN_IN_PROCESS, /* of its own */
	ET_PLUGIN_IN_THREAD,  /* of this process: nothing is contained */
};

/* Where programs go that a tenant brought (see et_source). In a thread (isolation) they always go together. */
enum et_plugin_tenancy {
	ET_PLUGIN_APART,    /* each tenant's into a process of its own, see tenant.c */
	ET_PLUGIN_TOGETHER, /* into the one that all others are in */
	ET_PLUGIN_REFUSED,
};

struct et_plugin_option {
	const char *key, *value;
};

/* All strings are copied. */
struct et_plugin_config {
	const char *name;      /* as in the configuration; NULL: what the plug-in says */
	const char *path;      /* of the shared object */
	const char *host_path; /* of inferd-delegate-host; NULL: where it was installed */
	const char *cache_dir; /* NULL: none */
	enum et_plugin_isolation isolation;
	uint64_t run_timeout_ns;    /* 0: 30 s */
	uint64_t load_timeout_ns;   /* of everything but runs; 0: 120 s */
	uint64_t cancel_timeout_ns; /* of a run that was asked to end; 0: what is left of run_timeout_ns */
	uint32_t max_crashes;       /* 0: 5 */
	uint64_t crash_window_ns;   /* 0: 60 s */
	const struct et_plugin_option *options;
	uint32_t n_options;
	enum et_plugin_tenancy tenancy;
	uint32_t max_tenants; /* whose processes may be there at a time; 0: 8 */
	uint64_t idle_ns;     /* how long such a process stays when it has nothing to do; 0: 10 s */
};

/* Start the plug-in and ask for its devices. On success ops and backend are the entry's, to be ended with
 * ops->close(backend); @log must outlive it.
 * Answers: ET_E_NOT_FOUND (not available here, not loadable, not a plug-in: @diag has the reason). Loop thread. */
enum et_status et_plugin_open(struct et_backend_entry *ret_entry, const struct et_plugin_config *config,
	const struct et_allocator *allocator, const struct et_log *log, struct et_diag *diag);

/* Kernels that the plug-in brings along; NULL: none. Lives as long as the backend. */
const struct et_kernel_table *et_plugin_kernels(struct et_backend *backend);
/* Whose kernel that is; NULL: no plug-in's. */
struct et_backend *et_plugin_of_kernel(const struct et_kernel *kernel);

struct et_plugin_state {
	pid_t pid; /* 0: none now */
	bool has_failed;
	uint32_t sandbox; /* enum et_sandbox_part */
	uint32_t n_starts, n_crashes;
	uint64_t n_runs, n_copied_bytes;
	uint32_t n_in_flight, n_waiting;
	char version[64];
	char reason[320]; /* of the last crash, or empty */
	uint64_t tenant;  /* 0: the process of the models that were not brought by somebody */
	uint64_t wait_ns; /* it is not started again before that has passed */
};
/* Any thread. */
void et_plugin_state(struct et_backend *backend, struct et_plugin_state *ret_state);
/* The same for the processes of tenants, also those that are not there now; how many there are, of which at most @max
 * are written. */
uint32_t et_plugin_tenant_states(struct et_backend *backend, struct et_plugin_state *ret_states, uint32_t max);

/* Whether the plug-in could run @payload: an enum inferd_delegate_readiness, with the reason in @diag. Any thread. */
enum et_status et_plugin_probe(struct et_backend *backend, const struct et_payload *payload, uint32_t *ret_readiness,
	struct et_diag *diag);

struct et_plugin_stats {
	uint64_t n_runs, busy_ns, memory_bytes; /* of a device, as the plug-in counts */
};
/* For those who try a plug-in: what it says of device @device, and whether it can make memory there (map it, write to
 * it, hand it out). ET_E_NOT_SUPPORTED: it has nothing of the kind. Any thread; waits for the plug-in. */
enum et_status et_plugin_stats(struct et_backend *backend, uint32_t device, struct et_plugin_stats *ret_stats,
	struct et_diag *diag);
enum et_status et_plugin_try_buffers(struct et_backend *backend, uint32_t device, struct et_diag *diag);

#endif
