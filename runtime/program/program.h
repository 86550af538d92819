/* SPDX-License-Identifier: BSD-3-Clause */
/* Program: one `.pte` file, verified once, immutable, shared by all its users.
 *
 * et_program_open walks the whole FlatBuffer. It decodes everything that decides an address (values, instructions,
 * memory plan, offsets of constants and payloads) into structs of its own. Afterwards only the bytes of constants and
 * payloads are read, directly in the file.
 *
 * Source: ExecuTorch schema/program.fbs (identifier ET12), docs/source/pte-file-format.md. */
#ifndef RUNTIME_PROGRAM_PROGRAM_H
#define RUNTIME_PROGRAM_PROGRAM_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/store.h"
#include "runtime/tensor.h"

/* The bytes of a file. They must not change or go away until release is called. At least ET_SOURCE_PADDING readable
 * bytes follow the last one, because delegates read whole vectors. */
enum { ET_SOURCE_PADDING = 64 };

/* A program that a client brought, and its data files, in the order in which they are searched: files that nobody can
 * change any more. */
enum { ET_CLIENT_FILES_MAX = 16 };
struct et_client_files {
	uint32_t n; /* the program is the first */
	struct {
		int fd;
		uint64_t n_bytes;
	} items[ET_CLIENT_FILES_MAX];
};

struct et_source {
	const uint8_t *bytes;
	size_t n_bytes;
	void *owner;
	void (*release)(void *owner); /* may be NULL */
	/* The caller will not read [offset, offset + n) soon, so its memory may be freed. May be NULL. */
	void (*drop)(void *owner, size_t offset, size_t n);
	/* The store where delegates save what they make from these bytes; valid until release. May be NULL. */
	const struct et_store *store;
	/* The user who brought the program. 0: the administrator chose it. Otherwise 1 + the uid of a less trusted
	 * user; a delegate that works in processes of its own then keeps the program out of processes that run other
	 * tenants' programs. */
	uint64_t tenant;
	/* Set if the bytes only stand in for a client's program, which a delegate runs elsewhere; live until release.
	 * NULL otherwise. */
	const struct et_client_files *client_files;
};

struct et_program;

struct et_tensor_spec;

/* Tensors and blobs outside the file (a `.ptd`, see external_data.h), by name. */
struct et_external_data {
	void *self;
	/* Find @name. @expected: the tensor whose bytes are wanted (type, sizes, dim order, n_bytes), or NULL for a
	 * blob. The bytes live as long as @self. Any thread.
	 * Answers: ET_E_NOT_FOUND; ET_E_INVALID_EXTERNAL_DATA (the data is not the @expected tensor). */
	enum et_status (*find)(void *self, const char *name, const struct et_tensor_spec *expected,
		const uint8_t **ret_bytes, size_t *ret_n_bytes, struct et_diag *diag);
	/* The files with the data, in the order in which names are searched; NULL beyond the last. They live as long
	 * as @self. May be NULL: the files are unknown. Any thread. */
	const struct et_source *(*source_at)(void *self, uint32_t index);
};

/* Open a `.pte`, or the program inside a bundled program (`.bpte`, see bundle.h). @source: taken over on success
 * (released with the last reference), the caller's on failure. @external may be NULL; else it must outlive the
 * program. Any thread. The allocator must work on the thread that drops the last reference. If only some methods
 * cannot run here, opening succeeds: see et_method_spec.refusal.
 * Answers: ET_E_INVALID_PROGRAM (not a program, truncated, corrupt; @diag says what and where),
 * ET_E_MEMORY_ALLOCATION_FAILED. */
enum et_status et_program_open(struct et_program **ret_program, const struct et_source *source,
	const struct et_external_data *external, const struct et_allocator *allocator, struct et_diag *diag);
struct et_program *et_program_ref(struct et_program *program);
/* NULL is fine; returns NULL. */
struct et_program *et_program_unref(struct et_program *program);

/* --- the contents of a program, for the Plan and for tools ----------------------------------------
 * Everything below is immutable and lives as long as the program. All indexes have been checked. */

/* The place of a tensor's bytes. */
enum et_storage {
	ET_STORAGE_NONE,     /* no memory until a run sets it: an input, an output, a view */
	ET_STORAGE_CONSTANT, /* the file */
	ET_STORAGE_PLANNED,  /* a planned arena */
};

struct et_tensor_spec {
	const int32_t *sizes; /* as exported: the upper bound if dynamic */
	const uint8_t *dim_order;
	uint8_t type;     /* enum et_scalar_type */
	uint8_t dynamism; /* enum et_dynamism */
	uint8_t n_dims;
	uint8_t storage;         /* enum et_storage */
	uint32_t arena;          /* PLANNED: index into arena_bytes */
	size_t offset;           /* PLANNED: from the arena's start, in bytes */
	size_t n_bytes;          /* at the largest sizes */
	const uint8_t *constant; /* CONSTANT: its bytes; PLANNED: its initial value or NULL. Any alignment. */
	const char *name;        /* fully qualified name, or NULL */
};

struct et_list_spec {
	uint32_t n;
	union {
		/* items of value lists: value indices; ET_NO_VALUE for None in an optional tensor list */
		const uint32_t *values;
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
	/* KERNEL: operator; DELEGATE: delegate; JUMP_FALSE: destination instruction, n_instructions for the end */
	uint32_t index;
	const uint32_t *args; /* value indices. MOVE: from, to. JUMP_FALSE: condition. FREE: value. */
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
	uint32_t n_args; /* number of arguments of the first call; 0: no instruction calls it */
};

struct et_method_spec {
	const char *name;
	/* Why the method cannot run here; NULL: it can. If it cannot, the members below are empty, and et_plan_new
	 * answers @refusal: ET_E_NOT_SUPPORTED (DYNAMIC_UNBOUND tensors and the like; the text names them), or
	 * ET_E_NOT_FOUND and ET_E_INVALID_EXTERNAL_DATA (external tensors). */
	const char *why_not;
	enum et_status refusal;
	const struct et_value_spec *values;
	uint32_t n_values;
	const uint32_t *inputs; /* value indices */
	uint32_t n_inputs;
	const uint32_t *outputs;
	uint32_t n_outputs;
	const struct et_instruction_spec *instructions; /* all chains, one after the other */
	uint32_t n_instructions;
	const char *const *operators; /* "aten::add.out": the name, and the overload if there is one */
	uint32_t n_operators;
	const struct et_delegate_spec *delegates;
	uint32_t n_delegates;
	/* Arena i has size non_const_buffer_sizes[i]; a tensor's memory_id is that i. Entry 0 is reserved: no tensor
	 * lies there, and its size is 0 here. (ExecuTorch subtracts 1 from memory_id and hides entry 0 from the
	 * allocating code; the result is the same.) */
	const size_t *arena_bytes;
	uint32_t n_arenas;
};

/* How many bytes a `.pte` file has that begins with @bytes, by its extended header; 0: that does not tell. A file may
 * have more, which nobody reads. */
enum { ET_PROGRAM_HEAD = 40 }; /* so many bytes suffice */
uint64_t et_program_extent(const uint8_t *bytes, size_t n_bytes);

uint32_t et_program_n_methods(const struct et_program *program);
const struct et_method_spec *et_program_method_at(const struct et_program *program, uint32_t index);
/* @name NULL: the only method, or "forward". NULL: no such method. */
const struct et_method_spec *et_program_find_method(const struct et_program *program, const char *name);

/* The arena in which ExecuTorch's `share_mutable_buffers` plans the mutable buffers of all methods of a program,
 * each buffer at the same offset in all methods (exir/passes/memory_planning_pass.py, run_multimethod). */
enum { ET_SHARED_ARENA = 2 };
/* Size of that arena; 0 if @program has none or @method has nothing in it. The file does not mark it, so it is
 * recognized by its form. Two or more methods have arenas (methods that return a constant have none). In each of
 * them the arena is the last one, comes after exactly one other, has the same size, and holds no input. An
 * exporter's own memory hierarchy may have the same form; a Method that is not made to share then only has more
 * state than it needs. (Instructions of one method cannot decide it: a buffer that one method writes before it reads
 * may be read first by another method.) *ret_n_initial: bytes of initial values that et_program_begin_shared copies;
 * overlaps count twice; at most UINT64_MAX. */
size_t et_program_shared_bytes(const struct et_program *program, const struct et_method_spec *method,
	uint64_t *ret_n_initial);
/* Copy the initial values of all methods' tensors in that arena to @bytes, which has the arena's size. Where methods
 * differ, those of @method win. */
void et_program_begin_shared(const struct et_program *program, const struct et_method_spec *method, uint8_t *bytes);

/* Find a blob by its key, in the file's named data, then in the external data. Answers: ET_E_NOT_FOUND. */
enum et_status et_program_find_named_data(const struct et_program *program, const char *key, const uint8_t **ret_bytes,
	size_t *ret_n_bytes);

const struct et_source *et_program_source(const struct et_program *program);
/* The file in which [bytes, bytes + n_bytes) lies. The program's own file is number 0, the files of its external
 * data follow. NULL: none of them. */
const struct et_source *et_program_find_source(const struct et_program *program, const uint8_t *bytes, size_t n_bytes,
	uint32_t *ret_number);

struct et_program_stats {
	uint32_t version; /* the schema's version */
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
