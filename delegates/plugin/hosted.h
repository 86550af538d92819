/* Inside a host: what it holds. Shared by serve.c (the loop and the runs) and hosted.c (payloads and named data). */
#ifndef DELEGATES_PLUGIN_HOSTED_H
#define DELEGATES_PLUGIN_HOSTED_H

#include "delegates/plugin/library.h"
#include "delegates/plugin/serve.h"
#include "delegates/plugin/wire.h"
#include "runtime/base/checked.h"
#include "runtime/base/list.h"

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
	struct inferd_delegate_pair *specs;
	const struct inferd_delegate_pair **spec_pointers;
	struct mapping *mappings; /* payload and named data */
	uint64_t call;            /* under way: init or probe */
	char method[128];
};

struct area {
	uint64_t offset, n_bytes;
	uint8_t *bytes;
	bool is_written;
};

struct instance {
	struct et_list_node node;
	uint64_t id;
	uint32_t n_refs; /* one for itself until freed, one a run */
	struct host *host;
	struct model *model; /* NULL: only a stage, for kernels */
	struct inferd_delegate_instance *instance;
	/* the stage */
	int fd;
	uint8_t *base;
	size_t n_mapped;
	uint32_t n_areas;
	struct area *areas;
	/* the run: one at a time */
	struct inferd_delegate_arg args[ET_PLUGIN_MAX_ARGS];
	struct inferd_delegate_arg *arg_pointers[ET_PLUGIN_MAX_ARGS];
	uint32_t n_args;
	struct inferd_delegate_completion completion;
	uint64_t run;   /* its number at inferd; 0: none */
	uint64_t token; /* its number for the completion */
	struct et_list_node pending;
	/* Cancelling. Packets are read by several threads, so a cancel may be here before its run, or while the run is
	 * being submitted; it is kept until the plug-in can know what it is meant for. Under pending_lock. */
	uint32_t
		number; /* of the run that the plug-in has accepted or executes, counted by inferd; 0: none */
	uint32_t cancelled; /* of the run that a cancel came for last */
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
	struct et_list_node models, instances;
	pthread_mutex_t asks_lock;
	uint64_t n_asks;
	uint32_t n_ending; /* completions that are being handled; under pending_lock */
	uint32_t n_threads;
	_Atomic(int) rc;
};

/* A line for inferd's log; @self is the host. Any thread. */
void et_hosted_log(void *self, int level, const char *text);
/* PROBE and INIT: @fd is taken over, @answer filled in. */
void et_hosted_init(
	struct host *host, const struct et_plugin_init *init, int fd, struct et_plugin_answer *answer);
/* The plug-in's sentence into the answer. */
void et_hosted_text(struct et_plugin_answer *answer, const struct inferd_delegate_message *message);
/* With host->lock: take a reference of @model back; true: the caller frees it, without the lock. */
bool et_hosted_model_put(struct model *model);
void et_hosted_model_free(struct model *model);
/* With host->lock; NULL if there is none. */
struct model *et_hosted_model_find(struct host *host, uint64_t id);

#endif
