/* SPDX-License-Identifier: BSD-3-Clause */
/* Program: one `.pte` file, verified once, immutable, shared by everybody.
 *
 * et_program_open walks the whole FlatBuffer and decodes everything that decides an address
 * (values, instructions, memory plan, offsets of constants and payloads) into structs of its own.
 * After that only constant bytes and payload bytes are read from the file, where they lie.
 *
 * Source: ExecuTorch schema/program.fbs (identifier ET12), docs/source/pte-file-format.md. */
#ifndef RUNTIME_PROGRAM_PROGRAM_H
#define RUNTIME_PROGRAM_PROGRAM_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/store.h"
#include "runtime/tensor.h"

/* The bytes of a file, which must not change or go away until release is called. At least
 * ET_SOURCE_PADDING readable bytes follow the last one: delegates read in whole vectors. */
enum { ET_SOURCE_PADDING = 64 };
struct et_source {
	const uint8_t *bytes;
	size_t n_bytes;
	void *owner;
	void (*release)(void *owner); /* may be NULL */
	/* The caller will not read [offset, offset + n) soon: its memory may go. May be NULL. */
	void (*drop)(void *owner, size_t offset, size_t n);
	/* Where delegates keep what they make of these bytes; lives until release. May be NULL. */
	const struct et_store *store;
	/* 0: who runs this process chose it. Else somebody who is less trusted brought it, 1 + whose uid: a delegate that
	 * works in processes of its own lets it into none that others' programs are in. */
	uint64_t tenant;
};

struct et_program;

struct et_tensor_spec;

/* Tensors and blobs that live outside the file (a `.ptd`, see external_data.h), by name. */
struct et_external_data {
	void *self;
	/* @expected: the tensor whose bytes are wanted (type, sizes, dim order, n_bytes), or NULL for a blob. The
	 * bytes live as long as @self. Any thread.
	 * Answers: ET_E_NOT_FOUND; ET_E_INVALID_EXTERNAL_DATA (what is there is not the @expected tensor). */
	enum et_status (*find)(void *self, const char *name, const struct et_tensor_spec *expected,
		const uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag);
	/* The files that the bytes lie in, in the order in which names are looked for; NULL beyond the last. They live as long
	 * as @self. NULL: nobody says which. Any thread. */
	const struct et_source *(*source_at)(void *self, uint32_t index);
};

/* Open a `.pte`; a bundled program (`.bpte`) is opened as the program inside (see bundle.h).
 * @source: taken over on success (released with the last reference), the caller's on failure.
 * @external may be NULL; else it must outlive the program.
 * Any thread. The allocator must be usable from whichever thread drops the last reference.
 * A method that can't run here for itself alone is no failure: see et_method_spec.refusal.
 * Answers: ET_E_INVALID_PROGRAM (not a program, truncated, corrupt; @diag says what and where),
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_program_open(struct et_program **ret_program, const struct et_source *source,
	const struct et_external_data *external, const struct et_allocator *allocator, struct et_diag *diag);
struct et_program *et_program_ref(struct et_program *program);
/* NULL is fine; returns NULL. */
struct et_program *et_program_unref(struct et_program *program);

/* --- what a program holds: for the Plan, and for whoever wants to look inside --------------------
 * Everything below is immutable and lives as long as the program. All indexes have been checked. */

/* Where a tensor's bytes come from. */
enum et_storage {
	ET_STORAGE_NONE,     /* nowhere until somebody binds it: an input, an output, a view */
	ET_STORAGE_CONSTANT, /* the file */
	ET_STORAGE_PLANNED,  /* an arena */
};

struct et_tensor_spec {
	const int32_t *sizes; /* as exported: the upper bound where dynamic */
	const uint8_t *dim_order;
	uint8_t type;     /* enum et_scalar_type */
	uint8_t dynamism; /* enum et_dynamism */
	uint8_t n_dims;
	uint8_t storage;         /* enum et_storage */
	uint32_t arena;          /* PLANNED: index into arena_bytes */
	size_t offset;           /* PLANNED: from the arena's start, in bytes */
	size_t n_bytes;          /* of the whole tensor at its largest */
	const uint8_t *constant; /* CONSTANT: its bytes; PLANNED: its initial value or NULL. Any alignment. */
	const char *name;        /* fully qualified, or NULL */
};

struct et_list_spec {
	uint32_t n;
	union {
		const uint32_t *values; /* lists of slots; ET_NO_VALUE for None in an optional tensor list */
		const double *doubles;
		const uint8_t *bools;
		const char *chars;
	};
};
#define ET_NO_VALUE UINT32_MAX

struct et_value_spec {
	uint8_t tag; /* enum et_tag */
	union {
		int64_t i;
		double d;
		bool b;
		const struct et_tensor_spec *tensor;
		const struct et_list_spec *list;
	};
};

enum et_op {
	ET_OP_KERNEL = 1, /* numbers of the union InstructionArguments */
	ET_OP_DELEGATE,
	ET_OP_MOVE,
	ET_OP_JUMP_FALSE,
	ET_OP_FREE,
};

struct et_instruction_spec {
	uint8_t op; /* enum et_op */
	uint32_t n_args;
	/* KERNEL: operator; DELEGATE: delegate; JUMP_FALSE: destination instruction, n_instructions = the end */
	uint32_t index;
	const uint32_t *args; /* value slots. MOVE: from, to. JUMP_FALSE: condition. FREE: value. */
};

struct et_compile_spec {
	const char *key;
	const uint8_t *value;
	size_t n_bytes;
};

struct et_delegate_spec {
	const char *id; /* "XnnpackBackend" */
	const uint8_t *payload;
	size_t n_bytes;
	const struct et_compile_spec *specs;
	uint32_t n_specs;
	uint32_t n_args; /* of the first call of it; 0: there is none */
};

struct et_method_spec {
	const char *name;
	/* Why the method can't run here, NULL if it may; then nothing is below, and whoever wants it is answered @refusal:
	 * ET_E_NOT_SUPPORTED (DYNAMIC_UNBOUND tensors and the like, by name), ET_E_NOT_FOUND and
	 * ET_E_INVALID_EXTERNAL_DATA (external tensors). */
	const char *why_not;
	enum et_status refusal;
	const struct et_value_spec *values;
	uint32_t n_values;
	const uint32_t *inputs; /* value slots */
	uint32_t n_inputs;
	const uint32_t *outputs;
	uint32_t n_outputs;
	const struct et_instruction_spec *instructions; /* all chains, one after the other */
	uint32_t n_instructions;
	const char *const *operators; /* "aten::add.out": name, and overload where there is one */
	uint32_t n_operators;
	const struct et_delegate_spec *delegates;
	uint32_t n_delegates;
	/* Arena i is non_const_buffer_sizes[i], and a tensor's memory_id names it by that i. Entry 0 is reserved: no
	 * tensor lies there, and its bytes are given as 0. (The original subtracts 1 from memory_id and hides
	 * entry 0 from whoever allocates; that comes to the same.) */
	const size_t *arena_bytes;
	uint32_t n_arenas;
};

uint32_t et_program_n_methods(const struct et_program *program);
const struct et_method_spec *et_program_method_at(const struct et_program *program, uint32_t index);
/* @name NULL: the only one, or "forward". NULL if there is no such method. */
const struct et_method_spec *et_program_find_method(const struct et_program *program, const char *name);

/* Where ExecuTorch's `share_mutable_buffers` plans the mutable buffers of all methods of a program, each buffer at one
 * offset in all of them (exir/passes/memory_planning_pass.py, run_multimethod). */
enum { ET_SHARED_ARENA = 2 };
/* Bytes of that arena; 0 where @program has none or @method has nothing in it. Nothing in a file says so, but that two
 * methods or more have arenas (those that answer a constant have none), that it is the last one of each, after only one
 * other, as large in each, and that no input lies there. An exporter's own memory hierarchy may look the same; each Method
 * that is not made to share then only has more state than it needs. (What a method writes before it reads it may still be
 * read by another one first, so its own instructions tell no more.) *ret_n_initial:
 * bytes of initial values that et_program_begin_shared copies there; more where they overlap, UINT64_MAX at the most. */
size_t et_program_shared_bytes(const struct et_program *program, const struct et_method_spec *method,
	uint64_t *ret_n_initial);
/* Those of all methods' initial values that lie there into @bytes, as many as that; where they are not the same, those of
 * @method. */
void et_program_begin_shared(const struct et_program *program, const struct et_method_spec *method, uint8_t *bytes);

/* A blob of the file's named data, or else of the external data. ET_E_NOT_FOUND if there is none. */
enum et_status et_program_find_named_data(const struct et_program *program, const char *key, const uint8_t **ret_bytes,
	size_t *ret_n_bytes);

const struct et_source *et_program_source(const struct et_program *program);
/* The file that [bytes, bytes + n_bytes) lies in: the program's own is number 0, those of its external data
 * follow. NULL if it is none of them. */
const struct et_source *et_program_find_source(const struct et_program *program, const uint8_t *bytes, size_t n_bytes,
	uint32_t *ret_number);

struct et_program_stats {
	uint32_t version; /* schema version in the file */
	size_t n_file_bytes;
	size_t n_decoded_bytes;  /* memory of the decoded structs */
	size_t n_constant_bytes; /* constants and initial values of tensors, in the file */
	size_t n_payload_bytes;  /* delegates' payloads, in the file */
	size_t n_named_bytes;    /* named data, in the file */
	uint32_t n_named_data;
	uint32_t n_segments;
};
void et_program_stats(const struct et_program *program, struct et_program_stats *ret_stats);

#endif
