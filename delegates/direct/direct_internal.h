/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the direct adapter: what direct.c, payload.c and run.c share. */
#ifndef DELEGATES_DIRECT_DIRECT_INTERNAL_H
#define DELEGATES_DIRECT_DIRECT_INTERNAL_H

#include "delegates/direct/direct.h"
#include "delegates/interface.h"

#include <pthread.h>
#include <stdatomic.h>

struct et_backend {
	struct et_delegate_ops ops; /* with what this table has */
	struct inferd_delegate table;
	struct et_allocator allocator;
	const struct et_log *log;
	struct et_pool pool; /* what the host table points to, and the devices */
	struct inferd_delegate_host host;
	void *self;
	struct inferd_delegate_device *devices;
	uint32_t n_devices;
	pthread_mutex_t memories_lock;      /* guards these; of a delegate that imports */
	struct et_direct_memory **memories; /* by their start */
	uint32_t n_memories, memories_room;
};

struct et_worker_threads {
	struct et_backend *backend;
	struct inferd_delegate_worker_threads *threads; /* NULL: the delegate has none for this device */
	struct et_compute compute;
	_Atomic(uint64_t) n_bytes; /* of contexts, but for what the delegate tells itself */
};

struct et_model {
	struct et_backend *backend;
	struct et_pool pool; /* what the payload points to */
	const struct et_program *program;
	const struct et_store *kept;
	struct inferd_delegate_store store;
	struct inferd_delegate_payload payload;
	struct inferd_delegate_model *delegate_model;
	uint32_t n_inputs, n_outputs, device;
	uint64_t n_scratch_bytes; /* of each instance */
	bool is_on_threads;
};

/* An argument as the delegate sees it. */
struct argument {
	struct inferd_delegate_arg arg;
	size_t capacity; /* of the tensor that arg.n_bytes was computed for, SIZE_MAX: to be computed */
	void *stage;     /* a copy, if it ever lay where the device can't use it */
	size_t n_stage;
	void *staged; /* where it does lie, this time; NULL: arg has it */
};

/* A submitted run; see submit.c. */
struct flight {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	uint64_t number;       /* counts runs */
	bool is_under_way;     /* and has not been reported as ended */
	bool is_submitted;     /* submit has returned */
	bool is_cancelled;     /* somebody asked for it */
	uint32_t n_submitting; /* calls of submit, and of cancel, that have not returned */
	uint32_t n_cancelling;
	struct et_evalue *const *args;
	struct et_completion completion;
	struct inferd_delegate_completion end;
};

struct et_instance {
	struct et_backend *backend;
	struct et_model *model;
	struct inferd_delegate_instance *delegate_instance;
	size_t n_bytes; /* of this */
	struct et_worker_threads *threads;
	uint64_t n_on_threads; /* bytes counted there */
	uint32_t n_args, n_inputs;
	uint32_t misaligned; /* bits that no argument's address may have */
	uint64_t n_copied;   /* by the last run */
	struct inferd_delegate_run run;
	struct inferd_delegate_arg **pointers;
	struct flight flight; /* if the delegate has submit */
	struct argument args[];
};

/* Pairs as the interface has them, in @pool; NULL: no memory. */
struct et_direct_pairs {
	struct inferd_delegate_pair *items;
	const struct inferd_delegate_pair **pointers;
};
bool et_direct_pairs_new(struct et_direct_pairs *ret_pairs, uint32_t n, struct et_pool *pool);
bool et_direct_pair_set(struct et_direct_pairs *pairs, uint32_t i, const char *key, const void *value, size_t n_bytes,
	struct et_pool *pool);

/* An empty message. */
static inline void et_direct_message_init(struct inferd_delegate_message *message)
{
	message->struct_size = sizeof *message;
	message->reserved = 0;
	message->text[0] = '\0';
}
/* What it says about @result. */
enum et_status et_direct_status(int result, struct inferd_delegate_message *message, struct et_diag *diag);

/* --- payload.c and run.c, as the delegate interface of the runtime has them -------------------------- */

enum et_status et_direct_probe(struct et_backend *backend, const struct et_payload *payload,
	enum et_readiness *ret_readiness, struct et_diag *diag);
enum et_status et_direct_compile(struct et_backend *backend, const struct et_payload *payload,
	struct et_model **ret_model, struct et_model_info *ret_info, struct et_diag *diag);
void et_direct_model_free(struct et_model *model);
enum et_status et_direct_keep(struct et_model *model, struct et_diag *diag);
bool et_direct_find_order(const struct et_model *model, uint32_t arg, uint8_t *ret_order, uint32_t n_dims);
enum et_status et_direct_take_orders(struct et_model *model, const uint32_t *args, uint32_t n_args,
	struct et_diag *diag);

enum et_status et_direct_instance_new(struct et_model *model, struct et_worker_threads *threads,
	struct et_instance **ret_instance, struct et_diag *diag);
void et_direct_instance_free(struct et_instance *instance);
void et_direct_instance_warm(struct et_instance *instance);
enum et_status et_direct_instance_reset(struct et_instance *instance);
enum et_status et_direct_execute(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag);
uint64_t et_direct_copied_bytes(const struct et_instance *instance);
enum et_status et_direct_profile(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_trace *trace, uint32_t instruction, struct et_diag *diag);
/* A run's arguments for the delegate, and what it made of the outputs. */
enum et_status et_direct_take_args(struct et_instance *instance, struct et_evalue *const *args, struct et_diag *diag);
enum et_status et_direct_give_outputs(struct et_instance *instance, struct et_evalue *const *args,
	struct et_diag *diag);

/* --- memory.c, the first two as the delegate interface of the runtime has them ------------------------ */

enum et_status et_direct_import_memory(struct et_backend *backend, int fd, void *bytes, size_t n_bytes,
	void **ret_handle);
void et_direct_release_memory(struct et_backend *backend, void *handle);
/* Where @arg lies besides its address: in a file, and in a buffer of the delegate's for @device. */
void et_direct_place(struct et_backend *backend, uint32_t device, struct inferd_delegate_arg *arg);

/* --- submit.c ------------------------------------------------------------------------------------------ */

void et_direct_flight_init(struct et_instance *instance);
/* Waits for calls that have not returned. */
void et_direct_flight_deinit(struct et_instance *instance);
enum et_status et_direct_submit(struct et_instance *instance, struct et_evalue *const *args,
	const struct et_completion *completion, struct et_diag *diag);
void et_direct_cancel(struct et_instance *instance);

#endif
