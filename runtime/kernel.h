/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels: one function per operator, found by name in a table.
 *
 * To add an operator, add a row to a table of runtime/kernels/ and, if no existing function fits, a function. When a
 * Plan is made, the row's signature is checked against the program, so a kernel may rely on the kind of each argument.
 * It must check sizes, dtypes and values itself, because they can change from run to run.
 *
 * A signature has one letter per argument, in schema order, with '>' before the outputs:
 *     T tensor            L tensor list       S number (Int, Double or Bool)
 *     t tensor or None    l list whose items are tensors or None (None: an EValue with that tag)
 *     I int               V int list          s, i, v, d, f, b, c: the same, or None
 *     D double            F double list       N a number that the kernel writes (only after '>')
 *     B bool              C string            X anything
 * A sign in front of a letter: '=' the kernel writes all of the argument; '&' it reads the argument, then writes it;
 * '*' (on an output T) the kernel points the output's data at the memory of the first argument: a view. Every other
 * tensor argument has memory, unless it has no elements. A program repeats the outputs as return values after them;
 * these are neither checked nor passed.
 *     aten::add.out     "TTS>T"        aten::copy_       "=TTB"
 *     aten::topk.values "TIIBB>TT"     executorch_prim::add.Scalar "SS>N"
 *     executorch_prim::et_view.default "TV>*T"
 * The data flow analysis that finds a Method's state (dataflow.c) takes reads and writes from the signature. */
#ifndef RUNTIME_KERNEL_H
#define RUNTIME_KERNEL_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/compute.h"
#include "runtime/tensor.h"

struct et_kernel;

/* The parts of a run that its kernels may use. */
struct et_kernel_ctx {
	const struct et_kernel *kernel;
	const struct et_compute *compute; /* may be NULL */
	struct et_pool *scratch;          /* emptied after each instruction */
	struct et_diag *diag;             /* for et_fail */
	uint64_t tenant;                  /* the user who brought the program, see et_source */
};

/* Run the kernel. @args: one per letter of the signature. Returns ET_OK with the outputs resized and wholly written,
 * since their memory may hold another client's data, or a status with a sentence in ctx->diag. Never touches memory
 * outside the arguments' data. */
typedef enum et_status (*et_kernel_fn)(struct et_kernel_ctx *ctx, struct et_evalue *const *args);

/* Instructions that follow each other and that one function can compute together. */
enum { ET_SEQUENCE_MAX = 6 };
struct et_kernel_sequence {
	uint32_t n;
	/* The names of their kernels. The first and the last are where they are here; of the others, those with the
	 * same name are in this order. */
	const char *names[ET_SEQUENCE_MAX];
	/* Run all of them; @args has an array of arguments for each name. Only the output of the last one is needed:
	 * each other output is read by one call, and the function checks that this is the one it expects.
	 * *@ret_is_done false: nothing was done, and each runs by itself, as is right if one of them might refuse its
	 * arguments. */
	enum et_status (*run)(struct et_kernel_ctx *ctx, struct et_evalue *const *const *args, bool *ret_is_done);
};

struct et_kernel {
	const char *name; /* "aten::add.out" */
	const char *signature;
	et_kernel_fn run;
	/* a function that several operators share finds here its own table's row for this operator */
	const void *row;
	bool is_elsewhere; /* another process computes it, may take any time and may leave an output unwritten */
	bool multiplies;   /* each of three tensors is a product of two of three sizes: matrices, convolutions */
	/* How many steps an element of the output may take for some values of the inputs; 0: one. */
	uint32_t element_steps;
	bool is_orderless; /* only moves elements, so works in any dim order that all its tensors share */
	/* The output gets the elements of the first argument, in the same order if both are row-major and have as many.
	 * May find both at the same place (copy_elision.c). */
	bool only_copies;
	/* The same for some elements. Whether those of all outputs, one output after another, follow each other in a
	 * row-major first argument: *@ret_n elements after the first *@ret_first. Looks at sizes, integers and None,
	 * which need not make sense; at no list, and at no data. May find outputs at their elements' place. NULL:
	 * never. */
	bool (*find_part)(struct et_evalue *const *args, size_t *ret_first, size_t *ret_n);
	/* Prepare what runs for @tenant need, until release. May be NULL. A Plan calls it for each of its operators. */
	enum et_status (*hold)(const struct et_kernel *kernel, uint64_t tenant, void **ret_held, struct et_diag *diag);
	void (*release)(void *held);
	const struct et_kernel_sequence *sequence; /* one that begins with this kernel; NULL: none is known */
};

/* Sorted by name (strcmp); a test checks this. */
struct et_kernel_table {
	const struct et_kernel *kernels;
	size_t n;
};

/* NULL: the table has no such kernel. */
const struct et_kernel *et_kernel_table_find(const struct et_kernel_table *table, const char *name);

/* One argument of a signature. */
struct et_kernel_arg {
	char letter;
	bool is_read;
	bool is_written;
	bool is_view; /* '*' */
};
enum { ET_KERNEL_MAX_ARGS = 64 };
/* Decode a signature into @ret_args, which has room for @max. Returns the number of arguments, or -1 if malformed. */
int et_kernel_signature(const char *signature, struct et_kernel_arg *ret_args, size_t max);
/* Whether a signature's @letter accepts an EValue of @tag. */
bool et_kernel_letter_takes(char letter, enum et_tag tag);

/* Scratch memory, valid until the kernel returns. It is not zeroed and may hold another client's data, so no output may
 * depend on it (tests/support/hostile.c checks that). NULL: none left; ctx->diag has a sentence. */
void *et_kernel_scratch(struct et_kernel_ctx *ctx, size_t n_bytes);

/* The tables of all kernels that are compiled in: portable, quantized, prim and others (runtime/kernels/). */
extern const struct et_kernel_table *const et_kernel_tables[];
extern const size_t et_n_kernel_tables;
enum { ET_KERNEL_TABLES_MAX = 40 }; /* room for more tables than there are */

#endif
