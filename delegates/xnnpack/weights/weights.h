/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed weights: made once for a Program, shared by all of its payloads, worker threads and instances. If the
 * Program has a store they are persisted there, and mapped from there when the Program is loaded again.
 *
 * The object also owns the copies of constants that must stay readable while there are instances. There is one for
 * each Program; the backend counts references. Any thread. */
#ifndef DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_H
#define DELEGATES_XNNPACK_WEIGHTS_WEIGHTS_H

#include "delegates/xnnpack/weights/packed_file.h"
#include "delegates/inferd-delegate.h"
#include "runtime/base/alloc.h"

#include <stdbool.h>
#include <xnnpack.h>

struct et_xnn_weights;

/* @store: where packed weights are looked for; NULL: nowhere. Each call with a store may have another one of the
 * same program. @machine: the store's key (et_xnn_machine), which outlives the object. NULL if there is no memory. */
struct et_xnn_weights *et_xnn_weights_new(const struct et_allocator *allocator,
	const struct inferd_delegate_store *store, const char *machine);
/* No runtime may use @weights any more. Takes NULL; returns NULL. */
struct et_xnn_weights *et_xnn_weights_free(struct et_xnn_weights *weights, const struct inferd_delegate_store *store);
/* The weights cache for xnn_create_runtime_v4; lives as long as @weights. */
xnn_weights_cache_t et_xnn_weights_provider(struct et_xnn_weights *weights);

/* One way of packing a whole filter. */
struct et_xnn_use {
	const void *kernel;
	size_t n_bytes;
	bool is_beside;  /* it lies in named data or a data file, not in a payload: constants do not overlap there */
	bool is_mapped;  /* @kernel lies in the Program's files; it is no copy */
	bool is_by_bias; /* each key for it has the address of its bias, which @signature has, too */
	const struct et_xnn_signature *signature;
	/* The signature in a form that outlives the process; without a position the packed weights are not
	 * persisted. */
	const struct et_xnn_name *name;
};

/* Begin to compile @source: until et_xnn_weights_end, the pages of each large filter are let go when it was packed,
 * so that a Program's weights are never in memory twice. If several payloads of the Program are compiled at once,
 * the one that began last counts. The end must come before @source goes. */
void et_xnn_weights_begin(struct et_xnn_weights *weights, const struct inferd_delegate_payload *source);
void et_xnn_weights_end(struct et_xnn_weights *weights, const struct inferd_delegate_payload *source);

/* Find the pointer under which @use is packed. XNNPACK's key is the kernel's pointer, for some operators the bias's
 * pointer, and a weak seed. It does not say which bias and quantization were packed along, nor what shape the filter
 * had. So a kernel's pointer may be packed in one way only, or in one way for each bias that is in the key. The
 * first way keeps the pointer, each other way gets a copy; the same use gets the same pointer. *@ret_kernel belongs
 * to @weights or the file. ET_E_MEMORY_ALLOCATION_FAILED; ET_E_OUT_OF_RESOURCES: the file has filters packed in
 * other ways, or filters that overlap, of more bytes than the Program's size accounts for. */
enum et_status et_xnn_weights_claim(struct et_xnn_weights *weights, const struct et_xnn_use *use,
	const void **ret_kernel, struct et_diag *diag);

/* Whether a payload at this place of the Program was compiled before, and its packed weights persisted: then XNNPACK
 * takes all its nodes, and there is nothing to pack. */
bool et_xnn_weights_is_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes);
/* Note that the payload was compiled; the note is persisted with the weights. */
void et_xnn_weights_note_compiled(struct et_xnn_weights *weights, uint64_t position, uint64_t n_bytes);
/* Put everything into the store, if there is a store and something is new. Any thread, also while instances use the
 * weights. ET_E_MEMORY_ALLOCATION_FAILED; ET_E_ACCESS_FAILED: the store refused, with its message. */
enum et_status et_xnn_weights_persist(struct et_xnn_weights *weights, const struct inferd_delegate_store *store,
	struct et_diag *diag);

/* The weights that an override packed from @kernel and @bias (which may be NULL): found, or @n_bytes of new memory
 * that @pack fills. @pack may be called in vain. If @kernel was claimed, the weights are found and persisted as
 * XNNPACK's are. They live as long as @weights. NULL if there is no memory. */
const void *et_xnn_weights_pack(struct et_xnn_weights *weights, const void *kernel, const void *bias, size_t n_bytes,
	void (*pack)(void *arg, void *to), void *arg);

/* Copy a constant. The copy lives as long as @weights, is 64-byte aligned and has 64 readable bytes behind; the same
 * source gives the same copy. Refusals as et_xnn_weights_claim's: copies count, too. */
enum et_status et_xnn_weights_copy(struct et_xnn_weights *weights, const void *bytes, size_t n_bytes,
	const void **ret_copy, struct et_diag *diag);

/* A transposed copy of a kernel of @n_rows by @n_columns floats; the same source gives the same address. The copy is
 * filled when XNNPACK comes to pack it: if the packed weights were persisted, that never happens, and only the
 * address counts. The copy lives as long as @weights; the source must, too. NULL if there is no memory. */
const float *et_xnn_weights_transpose(struct et_xnn_weights *weights, const float *source, uint32_t n_rows,
	uint32_t n_columns);

/* A widened copy of a kernel of @n_bytes, each of two 4-bit numbers: a byte for each number. Otherwise like the
 * above. */
const int8_t *et_xnn_weights_widen(struct et_xnn_weights *weights, const uint8_t *source, size_t n_bytes);

/* A copy of @n fp16 or bf16 numbers (@remade: ET_XNN_FROM_…) as fp32. @is_late: it is filled when XNNPACK comes to
 * pack it, as the two above. Otherwise like et_xnn_weights_copy. */
enum et_status et_xnn_weights_to_floats(struct et_xnn_weights *weights, const void *source, size_t n,
	enum et_xnn_remade remade, bool is_late, const void **ret_floats, struct et_diag *diag);

struct et_xnn_weights_stats {
	size_t n_bytes;    /* of memory: packed weights and copies */
	size_t n_packed;   /* packed blocks in memory */
	size_t n_packings; /* times that XNNPACK or an override packed something, also in vain */
	size_t n_mapped;   /* bytes of the store's file that take the place of packed blocks */
};
void et_xnn_weights_stats(struct et_xnn_weights *weights, struct et_xnn_weights_stats *ret_stats);

#endif
