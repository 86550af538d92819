/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed weights: made once for a Program, shared by all of its payloads, lanes and contexts; kept in the Program's store,
 * if it has one, and mapped from there when the Program is loaded again.
 *
 * Also keeps what must stay readable while there are contexts. One object a Program; reference-counted by the
 * backend. Any thread. */
#ifndef DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_H
#define DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_H

#include "delegates/xnnpack/weights/packed_file.h"
#include "delegates/inferd-delegate.h"
#include "runtime/base/alloc.h"

#include <stdbool.h>
#include <xnnpack.h>

struct et_xnn_weights;

/* @store: NULL, or where packed weights are looked for; it may be another one of the same program each time. @machine: its
 * key (et_xnn_machine), which outlives the object. NULL if there is no memory. */
struct et_xnn_weights *et_xnn_weights_new(const struct et_allocator *allocator,
	const struct inferd_delegate_store *store, const char *machine);
/* No runtime may use it any more. NULL is fine; returns NULL. */
struct et_xnn_weights *et_xnn_weights_free(struct et_xnn_weights *weights, const struct inferd_delegate_store *store);
/* For xnn_create_runtime_v4; lives as long as @weights. */
xnn_weights_cache_t et_xnn_weights_provider(struct et_xnn_weights *weights);

/* One way of packing a filter, all bytes of it. */
struct et_xnn_use {
	const void *kernel;
	size_t n_bytes;
	bool is_beside;  /* it lies in no payload, but in named data or a file of data, whose places don't overlap */
	bool is_mapped;  /* @kernel is a place of the Program's files, nobody's copy */
	bool is_by_bias; /* each key for it has the address of its bias, which @signature has, too */
	const struct et_xnn_signature *signature;
	const struct et_xnn_name
		*name; /* the same in a form that outlives the process; without a position nothing is kept */
};

/* What comes to be packed is @source's, or another payload's of the same Program: whose compilation began last counts. As
 * large filters are packed, the memory of their bytes is let go, so that a Program never is there twice. Until the end,
 * which must come before @source goes. */
void et_xnn_weights_begin(struct et_xnn_weights *weights, const struct inferd_delegate_payload *source);
void et_xnn_weights_end(struct et_xnn_weights *weights, const struct inferd_delegate_payload *source);

/* Under which pointer @use is packed. XNNPACK's key is the kernel's and, for some operators, the bias's pointer and a
 * weak seed; it does not say which bias and quantization were packed along, nor what shape the filter had. So a
 * kernel's pointer may be packed in one way only, or in one for each bias that is in the key: the first way has it,
 * others get a copy each; the same one for the same use. ET_E_MEMORY_ALLOCATION_FAILED; ET_E_OUT_OF_RESOURCES: more is
 * to be packed, in other ways or of places that overlap, than the Program's size accounts for. */
enum et_status et_xnn_weights_claim(struct et_xnn_weights *weights, const struct et_xnn_use *use,
	const void **ret_kernel, struct et_diag *diag);

/* Whether a payload with these bytes was compiled and kept before: nothing about it can be new. */
bool et_xnn_weights_is_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes);
/* Note that it was compiled, to be kept too. */
void et_xnn_weights_note_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes);
/* Put everything into the store, if there is one and something is new. Any thread, also while contexts use it. */
enum et_status et_xnn_weights_persist(struct et_xnn_weights *weights, const struct inferd_delegate_store *store,
	struct et_diag *diag);

/* What our own nodes packed of @kernel and @bias, which may be NULL: found, or taken, @n_bytes of it, to be filled by @pack, which
 * may also be called in vain. Where @kernel was claimed it is found as XNNPACK's is, and kept. Lives as long as @weights. NULL
 * if there is no memory. */
const void *et_xnn_weights_pack(struct et_xnn_weights *weights, const void *kernel, const void *bias, size_t n_bytes,
	void (*pack)(void *arg, void *to), void *arg);

/* A copy that lives as long as @weights, 64-byte aligned, with 64 readable bytes behind; the same source gives the same
 * one. Refusals as et_xnn_weights_claim's: copies count, too. */
enum et_status et_xnn_weights_copy(struct et_xnn_weights *weights, const void *bytes, size_t n_bytes,
	const void **ret_copy, struct et_diag *diag);

/* A kernel of @n_rows by @n_columns floats with rows and columns changed over; same source, same address. The floats are
 * put there when XNNPACK comes to pack them: where what was packed is kept, it never does, and only the address counts.
 * Lives as long as @weights; the source must, too. NULL if there is no memory. */
const float *et_xnn_weights_transpose(struct et_xnn_weights *weights, const float *source, uint32_t n_rows,
	uint32_t n_columns);

/* The same with a kernel of @n_bytes in which each holds two numbers of 4 bits: a byte for each of them. */
const int8_t *et_xnn_weights_widen(struct et_xnn_weights *weights, const uint8_t *source, size_t n_bytes);

/* @n half floats or bfloats (@remade: ET_XNN_FROM_…) as floats, otherwise as et_xnn_weights_copy does. @is_late: they are put there when XNNPACK comes to pack them,
 * as with the two above. */
enum et_status et_xnn_weights_to_floats(struct et_xnn_weights *weights, const void *source, size_t n,
	enum et_xnn_remade remade, bool is_late, const void **ret_floats, struct et_diag *diag);

struct et_xnn_weights_stats {
	size_t n_bytes;    /* kept, packed and copied */
	size_t n_packed;   /* packed arrays kept */
	size_t n_packings; /* times that XNNPACK packed something, kept or not */
	size_t n_mapped;   /* bytes in the store's file that take the place of packed arrays */
};
void et_xnn_weights_stats(struct et_xnn_weights *weights, struct et_xnn_weights_stats *ret_stats);

#endif
