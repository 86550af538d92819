/* SPDX-License-Identifier: BSD-3-Clause */
/* Backends: the registry of the daemon's delegates and kernels, and why each missing backend is missing. */
#ifndef DAEMON_MODEL_BACKENDS_H
#define DAEMON_MODEL_BACKENDS_H

#include "config/config.h"
#include "daemon/model/failure/run_failures.h"
#include "daemon/model/shared_memory.h"
#include "runtime/base/log.h"
#include "runtime/method.h"
#include "runtime/plan.h"

struct inf_backends {
	const struct inf_config *config;
	const struct et_log *log;
	struct et_registry registry; /* of these tables and entries; never changes while the daemon runs */
	struct et_backend_entry entries[INF_BACKENDS_MAX];
	struct inf_run_limit run_limits[INF_BACKENDS_MAX]; /* of the entries */
	uint32_t n_compiled_in;              /* entries that are part of inferd; the entries after them are plug-ins */
	char missing[INF_BACKENDS_MAX][400]; /* "opencl: no platform found" */
	uint32_t n_missing;
	const struct et_kernel_table **tables; /* the compiled-in ones, then those of plug-ins */
	struct inf_shared_pages shared_pages;  /* for activations that the backends can reach */
};

/* At the very beginning of main: returns unless @name (argv[0]) says that this is the process that starts all other
 * processes. */
void inf_backends_run_process(const char *name);
/* Start the process that starts all other processes. Before there are threads or clients. 0 or negative errno. */
int inf_backends_init_processes(void);
/* Open every backend that is compiled in or that @config names. @backends is all zeros; @config and @log must
 * outlive it. 0 even if some backends are missing, or -ENOMEM. */
int inf_backends_open(struct inf_backends *backends, const struct inf_config *config, const struct et_log *log);
/* The device whose queue @queue is. False: it is none's. */
bool inf_backends_find_device(const struct inf_backends *backends, struct et_queue_id queue,
	struct et_device *ret_device);
/* Kill processes of the plug-ins that work for @queue, if they have not answered a call since @before_ns; how many. */
uint32_t inf_backends_end_stuck(const struct inf_backends *backends, struct et_queue_id queue, uint64_t before_ns);
/* Whether a run that ended with @status failed for a reason of its backend: the engine or its device, not the client's
 * arguments or memory, a deadline, a cancellation, a limit or a lack of memory. Then how many may, in *ret_limit. @run:
 * NULL if a worker could not be made ready for it. Any thread. */
bool inf_backends_are_at_fault(const struct inf_backends *backends, const struct et_run *run, enum et_status status,
	struct inf_run_limit *ret_limit);
/* Whether a backend or a kind of device is called @name, with that configuration; the backend may be missing. */
bool inf_backends_has_name(const struct inf_config *config, const char *name);
/* Close them. Nothing may be running or loaded. All zeros is fine, and so is what a failed open left. */
void inf_backends_close(struct inf_backends *backends);

#endif
