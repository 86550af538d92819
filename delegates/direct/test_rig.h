/* SPDX-License-Identifier: BSD-3-Clause */
/* For the tests of this folder: a delegate that does what its payload says, and one instance of it with its arguments.
 *
 *     double   out = 2 * in, on the calling thread   stretch  the same, with one row more
 *     inside   submitted, ends before submit returns refuse   submit refuses
 *     thread   submitted, ends on another thread     wait     submitted, ends when it is cancelled
 *     slow     as wait, but submit returns only when the gate is open */
#ifndef DELEGATES_DIRECT_TEST_RIG_H
#define DELEGATES_DIRECT_TEST_RIG_H

#include "delegates/direct/direct.h"

#include "delegates/inferd-delegate.h"
#include "tests/support/counting_alloc.h"

#include <pthread.h>

enum { ROWS = 2, COLUMNS = 4, N = 16, ALIGNMENT = 64 };

extern const struct inferd_delegate rig_delegate;
/* Its execute. */
int rig_execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message);
/* The gate at which `slow` waits, guarded by the lock. */
extern pthread_mutex_t rig_gate_lock;
extern pthread_cond_t rig_gate_changed;
extern bool rig_is_at_gate, rig_is_gate_open;

struct subject {
	struct counting_alloc counting;
	struct et_allocator allocator;
	struct et_backend_entry entry;
	struct et_model *model;
	struct et_model_info info;
	struct et_worker_threads *threads;
	struct et_instance *instance;
	struct et_diag diag;
	_Alignas(ALIGNMENT) float in[N + 1], out[N + 1];
	struct et_tensor tensors[2];
	struct et_evalue values[2], *args[2];
	int32_t sizes[2][2], strides[2][2];
	/* the end */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool is_done;
	enum et_status status;
	char reason[300];
};

/* Make two tensors of ROWS by COLUMNS, with nothing open. rig_tear_down undoes it. */
void rig_set_up(struct subject *s);
/* Open @table, compile the payload @word with the other members of @payload (may be NULL), make worker threads and an
 * instance. */
enum et_status rig_begin(struct subject *s, const struct inferd_delegate *table, const char *word,
	const struct et_payload *payload);
/* Free all that there is, and check that no memory is left. */
void rig_tear_down(struct subject *s);
/* Enqueue a run; wait for the end of the pending run; both. */
enum et_status rig_start(struct subject *s);
enum et_status rig_end(struct subject *s);
enum et_status rig_run(struct subject *s);
/* Check that @out is @factor times @in. */
void rig_expect(const float *in, const float *out, float factor, int n);

#endif
