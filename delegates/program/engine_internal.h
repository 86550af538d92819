/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs of the engine, for all files of this folder: engine.c (table, models), files.c (programs), threads.c
 * (worker threads), run.c (instances and runs), describe.c. */
#ifndef DELEGATES_PROGRAM_ENGINE_INTERNAL_H
#define DELEGATES_PROGRAM_ENGINE_INTERNAL_H

#include "delegates/inferd-delegate.h"
#include "runtime/base/list.h"
#include "runtime/method.h"
#include "runtime/profile/profile.h"

#include <pthread.h>

enum { ENGINE_MAX_BACKENDS = 8, ENGINE_MAX_WORKERS = 1024, ENGINE_MAX_ARGS = 256 };

struct engine {
	const struct inferd_delegate_host *host;
	struct et_log log;
	const struct et_kernel_table *tables[ET_KERNEL_TABLES_MAX];
	struct et_backend_entry entries[ENGINE_MAX_BACKENDS];
	struct et_registry registry;
	uint32_t n_workers;
	pthread_mutex_t lock;                            /* guards what follows, and the lists of struct use */
	pthread_cond_t changed;                          /* some worker threads are free again */
	struct inferd_delegate_worker_threads **workers; /* n_workers; NULL: the index is free */
	pthread_mutex_t programs_lock;                   /* held while a program is opened */
	struct et_list_node programs;
};

/* An opened program, shared by its models. */
struct program {
	struct et_list_node node;
	uint64_t number;
	uint32_t n_users;
	struct et_program *program;
};

/* That a Plan is prepared for worker threads. */
struct use {
	struct et_list_node in_threads, in_model;
	struct inferd_delegate_worker_threads *threads;
	struct et_plan *plan; /* a reference */
	bool is_orphan;       /* the model was destroyed while the threads were at work */
};

struct inferd_delegate_worker_threads {
	struct engine *engine;
	uint32_t index;                                      /* the Plans' worker index */
	struct et_worker_threads *sets[ENGINE_MAX_BACKENDS]; /* as the registry's backends */
	const struct et_compute *compute;
	struct et_pool scratch;
	/* guarded by engine->lock */
	bool is_at_work;   /* a run computes on them */
	bool is_releasing; /* instances on them are being freed; who wants to work waits */
	struct et_list_node uses;
};

/* An argument of the model's runs: an input or an output of the method. */
struct argument {
	uint32_t index;
	bool is_output;
};

struct inferd_delegate_model {
	struct engine *engine;
	struct program *program;
	struct et_plan *plan;
	struct et_list_node uses; /* guarded by engine->lock */
	uint32_t n_args, n_inputs;
	struct argument args[ENGINE_MAX_ARGS];
};

struct inferd_delegate_instance {
	struct inferd_delegate_model *model;
	struct et_method *method;
	struct et_frame *frame;
	struct et_io *inputs, *outputs;
	struct et_run run;
	struct et_profile *profile; /* NULL: the run is not profiled */
	bool is_under_way;          /* a run answered UNFINISHED */
	_Atomic(bool) is_called;    /* a call works on the instance */
};

/* Get how much private memory this process may have now, in bytes: inferd changes it with what the user has free.
 * UINT64_MAX: any amount. */
uint64_t et_engine_memory_limit(void);
/* Convert @status as et_convert_status does, and say which limit was reached when memory ran out. */
int et_engine_answer(enum et_status status, const struct et_diag *diag, struct inferd_delegate_message *message);

/* The tag that an input or output has in the stand-in: a string that the program may replace is None there. */
static inline uint8_t et_engine_kind_of(const struct et_io_info *info, bool is_output)
{
	return is_output && info->tag == ET_TAG_STRING && !info->text ? ET_TAG_NONE : info->tag;
}

/* --- files.c ------------------------------------------------------------------------------------------------ */

/* Open the program in @payload, with its data files. It keeps nothing of @payload. The caller drops the reference. */
enum et_status et_engine_open_program(const struct inferd_delegate_payload *payload, struct et_program **ret_program,
	struct et_diag *diag);
/* The same, shared by number. */
enum et_status et_engine_program_get(struct engine *engine, const struct inferd_delegate_payload *payload,
	struct program **ret_program, struct et_diag *diag);
void et_engine_program_put(struct engine *engine, struct program *program);

/* --- threads.c -------------------------------------------------------------------------------------------- */

int et_engine_threads_new(void *self, uint32_t device, uint32_t n_threads,
	struct inferd_delegate_worker_threads **ret_threads, struct inferd_delegate_message *message);
void et_engine_threads_free(struct inferd_delegate_worker_threads *threads);
/* Take @threads for one call of execute, until leave. ET_E_INVALID_STATE: another call has them. */
enum et_status et_engine_threads_enter(struct inferd_delegate_worker_threads *threads, struct et_diag *diag);
void et_engine_threads_leave(struct inferd_delegate_worker_threads *threads);
/* Prepare the model's Plan for @threads, which the caller has entered. */
enum et_status et_engine_prepare(struct inferd_delegate_model *model, struct inferd_delegate_worker_threads *threads,
	struct et_diag *diag);
/* Release the model's Plan on all worker threads; those at work do it when they leave. */
void et_engine_release(struct inferd_delegate_model *model);

/* --- run.c ------------------------------------------------------------------------------------------------ */

int et_engine_instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message);
int et_engine_instance_with(struct inferd_delegate_model *model, struct inferd_delegate_instance *other,
	struct inferd_delegate_instance **ret_instance, struct inferd_delegate_message *message);
void et_engine_instance_free(struct inferd_delegate_instance *instance);
int et_engine_instance_reset(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message);
int et_engine_execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message);
void et_engine_cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance);
void et_engine_abandon(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance);

#endif
