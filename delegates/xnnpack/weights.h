/* Packed weights: made once for a Program, shared by all of its payloads, lanes and contexts; kept in the Program's store,
 * if it has one, and mapped from there when the Program is loaded again.
 *
 * Also keeps what must stay readable while there are contexts. One object a Program; reference-counted by the
 * backend. Any thread. */
#ifndef DELEGATES_XNNPACK_WEIGHTS_H
#define DELEGATES_XNNPACK_WEIGHTS_H

#include "delegates/xnnpack/packed.h"
#include "clients/inferd-delegate.h"
#include "runtime/base/alloc.h"

#include <stdbool.h>
#include <xnnpack.h>

struct et_xnn_weights;

/* @store: NULL, or where packed weights are looked for; it may be another one of the same program each time. @machine: its
 * key (et_xnn_machine), which outlives the object. NULL if there is no memory. */
struct et_xnn_weights *et_xnn_weights_new(
	const struct et_allocator *allocator, const struct inferd_delegate_store *store, const char *machine);
/* No runtime may use it any more. NULL is fine; returns NULL. */
struct et_xnn_weights *et_xnn_weights_free(
	struct et_xnn_weights *weights, const struct inferd_delegate_store *store);
/* For xnn_create_runtime_v4; lives as long as @weights. */
xnn_weights_cache_t et_xnn_weights_provider(struct et_xnn_weights *weights);

/* Declare that @kernel is packed in the way that @signature tells, all bytes of it. XNNPACK's key is the kernel's and, for
 * some operators, the bias's pointer and a weak seed; it does not say which bias and quantization were packed
 * along, nor what shape the filter had. So a kernel's pointer may be packed in one way only: false in *@ret_fits says
 * that it is taken by another, and the caller takes a copy of the kernel, which is another pointer.
 * @name: the same in a form that outlives the process; without a position nothing is kept of it.
 * False if there is no memory. */
bool et_xnn_weights_claim(struct et_xnn_weights *weights, const void *kernel,
	const struct et_xnn_signature *signature, const struct et_xnn_name *name, bool *ret_fits);

/* Whether a payload with these bytes was compiled and kept before: nothing about it can be new. */
bool et_xnn_weights_is_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes);
/* Note that it was compiled, to be kept too. */
void et_xnn_weights_note_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes);
/* Put everything into the store, if there is one and something is new. Any thread, also while contexts use it. */
enum et_status et_xnn_weights_keep(
	struct et_xnn_weights *weights, const struct inferd_delegate_store *store, struct et_diag *diag);

/* A copy that lives as long as @weights, 64-byte aligned, with 64 readable bytes behind. @is_shared: the same
 * source gives the same copy. NULL if there is no memory. */
const void *et_xnn_weights_copy(
	struct et_xnn_weights *weights, const void *bytes, size_t n_bytes, bool is_shared);

/* A kernel of @n_rows by @n_columns floats with rows and columns changed over; same source, same address. The floats are
 * put there when XNNPACK comes to pack them: where what was packed is kept, it never does, and only the address counts.
 * Lives as long as @weights; the source must, too. NULL if there is no memory. */
const float *et_xnn_weights_transpose(
	struct et_xnn_weights *weights, const float *source, uint32_t n_rows, uint32_t n_columns);

struct et_xnn_weights_stats {
	size_t n_bytes;    /* kept, packed and copied */
	size_t n_packed;   /* packed arrays kept */
	size_t n_packings; /* times that XNNPACK packed something, kept or not */
	size_t n_mapped;   /* bytes in the store's file that take the place of packed arrays */
};
void et_xnn_weights_stats(struct et_xnn_weights *weights, struct et_xnn_weights_stats *ret_stats);

#endif
