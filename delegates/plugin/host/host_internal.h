/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a host: its plug-in, the plug-in's models and instances, and the memory that inferd has shared. Used by
 * serve.c (the loop), payload.c (payloads and named data), mapped_memory.c (clients' memory) and run.c.
 *
 * Members called plugin_... are the plug-in's own, or given to the plug-in. */
#ifndef DELEGATES_PLUGIN_HOST_HOST_INTERNAL_H
#define DELEGATES_PLUGIN_HOST_HOST_INTERNAL_H

#include "delegates/plugin/host/library.h"
#include "delegates/plugin/host/serve.h"
#include "delegates/plugin/wire.h"
#include "runtime/base/checked.h"
#include "runtime/base/list.h"
#include "runtime/platform/platform.h"

#include <pthread.h>
#include <stdatomic.h>

struct host;

/* A payload or named data, mapped. */
struct mapping {
	struct mapping *next;
	uint8_t *bytes;
	size_t n_mapped;
	int fd; /* -1: closed */
};

struct model {
	struct et_list_node node;
	uint64_t id;     /* inferd's number for it; 0: destroyed, and freed when its last instance is */
	uint32_t n_refs; /* one until it is destroyed, one for each instance */
	struct host *host;
	struct inferd_delegate_model *plugin_model;
	struct inferd_delegate_payload payload;
	struct inferd_delegate_pair *pairs; /* specs, then options */
	const struct inferd_delegate_pair **pair_pointers;
	struct mapping *mappings; /* payload and named data */
	uint64_t call;            /* id of the INIT or PROBE that is under way; 0: none */
	uint32_t n_cancelling;    /* as in struct instance, for a plug-in without instances */
	uint32_t device;
	char method[128];
};

/* A memory file that inferd has shared. */
struct shared {
	struct et_list_node node, areas;
	uint64_t id; /* inferd's number for it; 0: forgotten, and freed when its last area is */
	uint64_t n_bytes;
	int fd;
	uint32_t kind;   /* enum inferd_delegate_memory_kind */
	uint32_t n_refs; /* one until it is forgotten, one for each area */
};

/* A mapped part of a memory file: the pages of one argument. */
struct area {
	struct et_list_node node; /* in shared->areas */
	struct et_list_node used; /* in host->used_areas */
	struct shared *shared;
	uint64_t offset;
	uint32_t device; /* the device that it was imported for; NO_DEVICE: none */
	bool is_written;
	uint32_t n_runs; /* runs that use it now */
	struct et_platform_mapping mapping;
	struct inferd_delegate_buffer *buffer; /* NULL: not imported */
};
#define NO_DEVICE UINT32_MAX

/* An instance, and the one run that it has at a time. */
struct instance {
	struct et_list_node node;
	uint64_t id;     /* inferd's number for it */
	uint32_t n_refs; /* one until it is freed, one for each run */
	struct host *host;
	struct model *model;                              /* NULL: for kernels */
	struct inferd_delegate_instance *plugin_instance; /* NULL: the plug-in has no instances */

	/* the run */
	struct area *areas[ET_PLUGIN_MAX_ARGS];
	struct inferd_delegate_run plugin_run;
	struct et_plugin_event *events; /* NULL: the run is not profiled */
	uint32_t n_events;
	uint64_t busy_ns; /* as the plug-in says */
	struct inferd_delegate_arg args[ET_PLUGIN_MAX_ARGS];
	struct inferd_delegate_arg *arg_pointers[ET_PLUGIN_MAX_ARGS];
	uint32_t n_args;
	struct inferd_delegate_completion completion;
	uint64_t run_id; /* id of a submitted run's packet; 0: none */
	uintptr_t token; /* stands for the run in what the plug-in calls (done, event); never used again */
	bool is_submitted;
	struct et_list_node running; /* in run.c's list */

	/* cancelling; inferd numbers the runs of an instance */
	uint32_t run_number;    /* the run that the plug-in works on; 0: none */
	uint32_t cancelled_run; /* the run that the last CANCEL named; 0: none */
	uint32_t n_cancelling;  /* calls of the plug-in's cancel that have not returned */
	/* The run that answered UNFINISHED, and neither continues nor was abandoned: it keeps its areas. 0: none */
	uint32_t unfinished_run;
	bool is_abandoning; /* a thread is abandoning it; the next run waits for that */
};

/* Worker threads that runs name by a number. */
struct thread_set {
	struct inferd_delegate_worker_threads *threads; /* NULL: not made yet */
	uint32_t n_threads;
};

struct host {
	struct et_serve_options options;
	struct et_plugin_library library;
	const struct inferd_delegate *table; /* library's */
	void *self;                          /* what the plug-in's open returned */
	bool is_open;
	bool is_builder;  /* it calls build, and has no models */
	unsigned sandbox; /* enum et_sandbox_part */
	char cache_dir[512], path[512];
	char *option_text;
	struct inferd_delegate_pair *option_pairs;
	const struct inferd_delegate_pair **option_pointers;
	struct inferd_delegate_host plugin_host;
	pthread_mutex_t lock; /* guards the lists and what they hold */
	struct et_list_node models, instances, shared;
	struct et_list_node used_areas; /* all areas, the last used at the end */
	uint32_t n_areas;
	pthread_mutex_t asks_lock; /* held from a question to its answer */
	uint64_t n_asks;
	uint32_t n_ending; /* completions that are being handled; guarded by run.c's lock */
	uint32_t n_threads;
	pthread_mutex_t thread_sets_lock; /* guards them while one is made */
	struct thread_set thread_sets[ET_PLUGIN_MAX_THREADS];
	_Atomic(int) rc; /* what et_plugin_serve returns */
};

/* Write a line to inferd's log; @self is the host. Any thread. */
void et_hosted_log(void *self, int level, const char *text);
/* Handle PROBE, INIT or DESCRIBE. Consumes @fd; fills in @answer. */
void et_hosted_init(struct host *host, const struct et_plugin_init *init, int fd, struct et_plugin_answer *answer);
/* The same on a thread of low priority, for which this call waits. */
void et_hosted_init_at_low_priority(struct host *host, const struct et_plugin_init *init, int fd,
	struct et_plugin_answer *answer);
/* Copy the plug-in's message into @answer. */
void et_hosted_text(struct et_plugin_answer *answer, const struct inferd_delegate_message *message);
/* Drop a reference to @model, under host->lock. True: it was the last; the caller frees the model, without the lock. */
bool et_hosted_model_put(struct model *model);
void et_hosted_model_free(struct model *model);
/* Find a model by inferd's number, under host->lock; NULL: there is none. */
struct model *et_hosted_model_find(struct host *host, uint64_t id);

/* --- run.c ---------------------------------------------------------------------------------------- */

void et_hosted_instance_new(struct host *host, const struct et_plugin_handle *handle, struct et_plugin_answer *answer);
void et_hosted_instance_reset(struct host *host, const struct et_plugin_handle *handle,
	struct et_plugin_answer *answer);
void et_hosted_instance_free(struct host *host, uint64_t id);
/* Handle RUN: run, and send DONE, now or when the plug-in reports the end. */
void et_hosted_run(struct host *host, const struct et_plugin_run *run);
/* Handle CANCEL: end run @number of instance @id early, also if its RUN has not been read yet. */
void et_hosted_cancel(struct host *host, uint64_t id, uint32_t number);
/* Handle ABANDON: end run @number of instance @id, if that is unfinished. */
void et_hosted_abandon(struct host *host, uint64_t id, uint32_t number);
/* Free all instances, when nothing is received any more. Waits for completions that are being handled. */
void et_hosted_instances_free(struct host *host);

/* --- mapped_memory.c -------------------------------------------------------------------------------------------- */

/* Handle SHARE. Consumes @fd; fills in @answer. */
void et_hosted_share(struct host *host, const struct et_plugin_share *share, int fd, struct et_plugin_answer *answer);
/* Handle FORGET: unmap what no run uses; the rest is unmapped when its runs have ended. */
void et_hosted_forget(struct host *host, uint64_t id);
/* Map the pages around [offset, offset + n_bytes) of memory @id for one run, which puts the area back. NULL: there
 * is no such memory, or no room. */
struct area *et_hosted_area_get(struct host *host, uint64_t id, uint64_t offset, uint64_t n_bytes, bool is_written,
	uint32_t device);
/* The run has ended. False: pages of the area could not be read or written meanwhile (SIGBUS). */
bool et_hosted_area_put(struct host *host, struct area *area);
/* Free all areas, after the last run. */
void et_hosted_areas_free(struct host *host);

#endif
