/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels: one function an operator, found by name in a table.
 *
 * Adding an operator is one row in a table of runtime/kernels/ and, if no existing function serves,
 * one function. The row's signature is checked against the program when the Plan is made, so that a
 * kernel may rely on the kind of each argument; sizes, dtypes and values it checks itself, since they
 * can change from run to run.
 *
 * Signature: one letter an argument, in schema order, '>' before the outputs:
 *     T tensor            L tensor list       S number (Int, Double or Bool)
 *     t tensor or None    l list whose items are tensors or None (None: an EValue with that tag)
 *     I int               V int list          s, i, v, d, f, b, c: the same, or None
 *     D double            F double list       N a number written by the kernel (only after '>')
 *     B bool              C string            X anything
 * In front of a letter: '=' the argument is written, all of it; '&' it is read and then written;
 * '*' (on an output T) the kernel points its data at the memory of the first argument, a view.
 * Every other tensor that is passed has memory behind it unless it has no elements.
 * After the outputs a program repeats them as return values; those are neither checked nor passed.
 *     aten::add.out     "TTS>T"        aten::copy_       "=TTB"
 *     aten::topk.values "TIIBB>TT"     executorch_prim::add.Scalar "SS>N"
 *     executorch_prim::et_view.default "TV>*T"
 * The data flow analysis that finds a Method's state reads from here what is read and what is written. */
#ifndef RUNTIME_KERNEL_H
#define RUNTIME_KERNEL_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/compute.h"
#include "runtime/tensor.h"

struct et_kernel;

/* What a kernel sees of the run it is part of. */
struct et_kernel_ctx {
	const struct et_kernel *kernel;
	const struct et_compute *compute; /* may be NULL */
	struct et_pool *scratch;          /* emptied after each instruction */
	struct et_diag *diag;             /* for et_fail */
	uint64_t tenant;                  /* whose program it is, see et_source */
};

/* @args: as many as the signature has letters. Returns ET_OK with the outputs written and resized, or
 * a status with a sentence in ctx->diag; never touches memory outside the arguments' data. */
typedef enum et_status (*et_kernel_fn)(struct et_kernel_ctx *ctx, struct et_evalue *const *args);

struct et_kernel {
	const char *name; /* "aten::add.out" */
	const char *signature;
	et_kernel_fn run;
	const void *row;   /* what a function shared by many operators needs to know: the operator's own table row */
	bool is_elsewhere; /* another process computes it, for as long as that likes */
	bool is_orderless; /* only moves elements, and all tensors may be in one dim order as well as in another */
	/* Or NULL: have there what runs for @tenant need, until it is let go. A Plan does it for each of its operators. */
	enum et_status (*hold)(const struct et_kernel *kernel, uint64_t tenant, void **ret_held, struct et_diag *diag);
	void (*release)(void *held);
};

/* Sorted by name (strcmp), which a test checks. */
struct et_kernel_table {
	const struct et_kernel *kernels;
	size_t n;
};

/* NULL if there is none. */
const struct et_kernel *et_kernel_table_find(const struct et_kernel_table *table, const char *name);

/* How a signature sees one argument. */
struct et_kernel_arg {
	char letter;
	bool is_read;
	bool is_written;
	bool is_view; /* '*' */
};
enum { ET_KERNEL_MAX_ARGS = 64 };
/* Decode a signature into @ret_args (room for @max); the number of arguments, or -1 if it is malformed. */
int et_kernel_signature(const char *signature, struct et_kernel_arg *ret_args, size_t max);
/* Whether an EValue of @tag may stand where the signature has @letter. */
bool et_kernel_letter_takes(char letter, enum et_tag tag);

/* Scratch memory until the kernel returns; NULL (and a sentence) when there is none. Not zeroed. */
void *et_kernel_scratch(struct et_kernel_ctx *ctx, size_t n_bytes);

/* All kernels compiled in: portable, quantized, prim (runtime/kernels/). */
extern const struct et_kernel_table *const et_kernel_tables[];
extern const size_t et_n_kernel_tables;
enum { ET_KERNEL_TABLES_MAX = 40 }; /* there are no more than that */

#endif
