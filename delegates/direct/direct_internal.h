/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs behind the runtime's backend, model, worker threads and instance, for all files of this folder.
 * Members called delegate_... are the delegate's own counterparts. */
#ifndef DELEGATES_DIRECT_DIRECT_INTERNAL_H
#define DELEGATES_DIRECT_DIRECT_INTERNAL_H

#include "delegates/direct/direct.h"
#include "delegates/convert.h"
#include "delegates/memory_kind.h"
#include "delegates/table_check.h"

#include <pthread.h>
#include <stdatomic.h>

struct et_backend {
	struct et_delegate_ops ops; /* functions that the delegate's table lacks are NULL here, too */
	struct inferd_delegate table;
	struct et_allocator allocator;
	const struct et_log *log;
	struct et_pool pool; /* for what @host points to, and @devices */
	struct inferd_delegate_host host;
	void *self; /* what the delegate's open returned */
	struct inferd_delegate_device *devices;
	uint32_t n_devices;

	/* memory.c, for a delegate with buffer_import */
	pthread_mutex_t memories_lock;      /* guards what follows */
	struct et_direct_memory **memories; /* sorted by address */
	uint32_t n_memories, memories_room;
};

struct et_worker_threads {
	struct et_backend *backend;
	struct inferd_delegate_worker_threads *delegate_threads; /* NULL: the delegate has none for the device */
	struct et_compute compute;
	_Atomic(uint64_t) n_bytes; /* memory of the instances, without what the delegate's threads_bytes counts */
};

struct et_model {
	struct et_backend *backend;
	struct et_pool pool; /* for what @payload points to */
	const struct et_program *program;
	const struct et_store *runtime_store; /* the runtime's store behind @store; NULL: none */
	struct inferd_delegate_store store;
	struct inferd_delegate_payload payload;
	struct inferd_delegate_model *delegate_model;
	uint32_t n_inputs, n_outputs, device;
	uint64_t n_scratch_bytes; /* of each instance */
	bool is_on_threads;       /* the delegate's instances belong to its worker threads */
};

/* An argument of a run. */
struct argument {
	struct inferd_delegate_arg arg; /* as the delegate gets it */
	size_t capacity;                /* of the tensor that arg.n_bytes was computed for; SIZE_MAX: not computed */
	void *stage;                    /* aligned memory for a copy; NULL: never needed so far */
	size_t n_stage;
	void *staged; /* this run's own data, while @arg has the stage instead; NULL: @arg has the data */
};

/* A submitted run; see submit.c. */
struct submission {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	uint64_t number;       /* counts the instance's runs */
	bool is_under_way;     /* begun, and not reported as ended */
	bool is_submitted;     /* submit has returned */
	bool is_cancelled;     /* the runtime asked to cancel it */
	uint32_t n_submitting; /* calls of submit that have not returned */
	uint32_t n_cancelling; /* calls of cancel that have not returned */
	struct et_evalue *const *args;
	struct et_completion completion;       /* the runtime's */
	struct inferd_delegate_completion end; /* what the delegate calls */
};

struct et_instance {
	struct et_backend *backend;
	struct et_model *model;
	struct inferd_delegate_instance *delegate_instance;
	size_t n_bytes; /* of this struct */
	struct et_worker_threads *threads;
	uint64_t n_on_threads; /* bytes that threads->n_bytes counts for this instance */
	uint32_t n_args, n_inputs;
	uint32_t misaligned;            /* address bits that must be 0: the device's alignment - 1 */
	uint64_t n_copied;              /* bytes that the last run copied */
	struct inferd_delegate_run run; /* points to @pointers */
	struct inferd_delegate_arg **pointers;
	struct submission submission; /* for a delegate with submit */
	struct argument args[];
};

/* An array of @n pairs for the delegate, allocated in @pool. Both functions return false when there is no memory. */
struct et_direct_pairs {
	struct inferd_delegate_pair *items;
	const struct inferd_delegate_pair **pointers;
};
bool et_direct_pairs_new(struct et_direct_pairs *ret_pairs, uint32_t n, struct et_pool *pool);
bool et_direct_pair_set(struct et_direct_pairs *pairs, uint32_t i, const char *key, const void *value, size_t n_bytes,
	struct et_pool *pool);

/* Make @message empty. */
static inline void et_direct_message_init(struct inferd_delegate_message *message)
{
	message->struct_size = sizeof *message;
	message->reserved = 0;
	message->text[0] = '\0';
}
/* The status for @result, with the text of @message in @diag. */
enum et_status et_direct_status(int result, struct inferd_delegate_message *message, struct et_diag *diag);

/* --- payload.c and run.c: functions of struct et_delegate_ops --------------------------------------- */

enum et_status et_direct_probe(struct et_backend *backend, const struct et_payload *payload,
	enum et_readiness *ret_readiness, struct et_diag *diag);
enum et_status et_direct_compile(struct et_backend *backend, const struct et_payload *payload,
	struct et_model **ret_model, struct et_model_info *ret_info, struct et_diag *diag);
void et_direct_model_free(struct et_model *model);
enum et_status et_direct_keep(struct et_model *model, struct et_diag *diag);
bool et_direct_preferred_order(const struct et_model *model, uint32_t arg, uint8_t *ret_order, uint32_t n_dims);
enum et_status et_direct_adopt_orders(struct et_model *model, const uint32_t *args, uint32_t n_args,
	struct et_diag *diag);

enum et_status et_direct_instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag);
void et_direct_instance_free(struct et_instance *instance);
enum et_status et_direct_instance_warm(struct et_instance *instance, struct et_diag *diag);
enum et_status et_direct_instance_reset(struct et_instance *instance);
enum et_status et_direct_execute(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag);
uint64_t et_direct_copied_bytes(const struct et_instance *instance);
enum et_status et_direct_profile(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_trace *trace, uint32_t instruction, struct et_diag *diag);
/* Convert a run's arguments for the delegate; take over the sizes and values of the outputs, and copy staged ones. */
enum et_status et_direct_take_args(struct et_instance *instance, struct et_evalue *const *args, struct et_diag *diag);
enum et_status et_direct_give_outputs(struct et_instance *instance, struct et_evalue *const *args,
	struct et_diag *diag);

/* --- memory.c: the first two are functions of struct et_delegate_ops ----------------------------------- */

enum et_status et_direct_import_memory(struct et_backend *backend, int fd, void *bytes, size_t n_bytes,
	void **ret_handle);
void et_direct_release_memory(struct et_backend *backend, void *handle);
/* Find the imported memory that arg->data lies in, and set fd and buffer of @arg with their offsets, for @device. */
void et_direct_find_buffer(struct et_backend *backend, uint32_t device, struct inferd_delegate_arg *arg);

/* --- submit.c ------------------------------------------------------------------------------------------ */

void et_direct_submission_init(struct et_instance *instance);
/* Waits for calls of submit and cancel that have not returned. */
void et_direct_submission_deinit(struct et_instance *instance);
enum et_status et_direct_submit(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag);
void et_direct_cancel(struct et_instance *instance);

#endif
