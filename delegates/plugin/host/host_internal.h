/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside a host: what it holds. Shared by serve.c (the loop), payload.c (payloads and named data), mapped_memory.c
 * (clients' memory) and run.c. */
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

struct mapping {
	struct mapping *next;
	uint8_t *bytes;
	size_t n_mapped;
	int fd;
};

struct model {
	struct et_list_node node;
	uint64_t id;
	uint32_t n_refs; /* one for itself until destroyed, one an instance */
	struct host *host;
	struct inferd_delegate_model *model;
	struct inferd_delegate_payload payload;
	struct inferd_delegate_pair *pairs; /* specs, then options */
	const struct inferd_delegate_pair **pair_pointers;
	struct mapping *mappings; /* payload and named data */
	uint64_t call;            /* under way: init or probe */
	uint32_t n_cancelling;    /* as an instance's, where the plug-in has none */
	uint32_t device;
	char method[128];
};

/* Memory that inferd has shared, and a part of it that is mapped here. */
struct shared {
	struct et_list_node node, areas;
	uint64_t id, n_bytes;
	int fd;
	uint32_t kind;   /* enum inferd_delegate_memory_kind */
	uint32_t n_refs; /* one until it is forgotten, one an area */
};

struct area {
	struct et_list_node node; /* of its memory */
	struct et_list_node used; /* of the host, used last at the end */
	struct shared *shared;
	uint64_t offset;
	uint32_t device; /* that it was imported for; NO_DEVICE: none */
	bool is_written;
	uint32_t n_runs; /* that use it now */
	struct et_platform_mapping mapping;
	struct inferd_delegate_buffer *buffer;
};
#define NO_DEVICE UINT32_MAX

struct instance {
	struct et_list_node node;
	uint64_t id;
	uint32_t n_refs; /* one for itself until freed, one a run */
	struct host *host;
	struct model *model; /* NULL: for kernels */
	struct inferd_delegate_instance *instance;
	/* the run: one at a time */
	struct area *areas[ET_PLUGIN_MAX_ARGS];
	struct inferd_delegate_run view;
	struct et_plugin_event *events; /* NULL: not asked for */
	uint32_t n_events;
	struct inferd_delegate_arg args[ET_PLUGIN_MAX_ARGS];
	struct inferd_delegate_arg *arg_pointers[ET_PLUGIN_MAX_ARGS];
	uint32_t n_args;
	struct inferd_delegate_completion completion;
	uint64_t run;    /* its number at inferd; 0: none */
	uintptr_t token; /* its number for the plug-in, which may report its end if it was submitted */
	bool is_submitted;
	struct et_list_node running;
	/* Cancelling: of the run that the plug-in works on, and of the one that a cancel came for last, counted by
	 * inferd; 0: none. */
	uint32_t number, cancelled;
	uint32_t n_cancelling; /* calls of the plug-in's cancel that have not returned */
};

struct host {
	struct et_serve_options options;
	struct et_plugin_library library;
	const struct inferd_delegate *table;
	void *self;
	bool is_open;
	unsigned sandbox;
	char cache_dir[512], path[512];
	char *option_text;
	struct inferd_delegate_pair *option_pairs;
	const struct inferd_delegate_pair **option_pointers;
	struct inferd_delegate_host view;
	pthread_mutex_t lock; /* guards the lists and what they hold */
	struct et_list_node models, instances, shared;
	struct et_list_node used_areas;
	uint32_t n_areas;
	pthread_mutex_t asks_lock;
	uint64_t n_asks;
	uint32_t n_ending; /* completions that are being handled; under run.c's lock */
	uint32_t n_threads;
	_Atomic(int) rc;
};

/* A line for inferd's log; @self is the host. Any thread. */
void et_hosted_log(void *self, int level, const char *text);
/* PROBE and INIT: @fd is taken over, @answer filled in. */
void et_hosted_init(struct host *host, const struct et_plugin_init *init, int fd, struct et_plugin_answer *answer);
/* The plug-in's sentence into the answer. */
void et_hosted_text(struct et_plugin_answer *answer, const struct inferd_delegate_message *message);
/* With host->lock: take a reference of @model back; true: the caller frees it, without the lock. */
bool et_hosted_model_put(struct model *model);
void et_hosted_model_free(struct model *model);
/* With host->lock; NULL if there is none. */
struct model *et_hosted_model_find(struct host *host, uint64_t id);

/* --- run.c ---------------------------------------------------------------------------------------- */

void et_hosted_instance_new(struct host *host, const struct et_plugin_handle *handle, struct et_plugin_answer *answer);
void et_hosted_instance_reset(struct host *host, const struct et_plugin_handle *handle,
	struct et_plugin_answer *answer);
void et_hosted_instance_free(struct host *host, uint64_t id);
/* Run it and answer with DONE, perhaps later. */
void et_hosted_run(struct host *host, const struct et_plugin_run *run);
/* Run @number of that instance is to end early, whether it is here yet or not. */
void et_hosted_cancel(struct host *host, uint64_t id, uint32_t number);
/* Waits for completions that are being handled. */
void et_hosted_instances_free(struct host *host);

/* --- mapped_memory.c -------------------------------------------------------------------------------------------- */

/* SHARE: @fd is taken over. */
void et_hosted_share(struct host *host, const struct et_plugin_share *share, int fd, struct et_plugin_answer *answer);
/* FORGET: what no run uses is unmapped now, the rest when it ends. */
void et_hosted_forget(struct host *host, uint64_t id);
/* The pages around [offset, offset + n_bytes) of memory @id, for one run. NULL: there is no such memory, or no room. */
struct area *et_hosted_area_get(struct host *host, uint64_t id, uint64_t offset, uint64_t n_bytes, bool is_written,
	uint32_t device);
/* The run has ended. False: its pages went away meanwhile. */
bool et_hosted_area_put(struct host *host, struct area *area);
/* No run is left. */
void et_hosted_areas_free(struct host *host);

#endif
