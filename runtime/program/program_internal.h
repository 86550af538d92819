/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the parts of the program reader: the Program itself, the state of one opening, and the field numbers of
 * the schema. Only program*.c and the tests that write programs include this. */
#ifndef RUNTIME_PROGRAM_PROGRAM_INTERNAL_H
#define RUNTIME_PROGRAM_PROGRAM_INTERNAL_H

#include "runtime/base/ref.h"
#include "runtime/base/names.h"
#include "runtime/program/flatbuffer.h"
#include "runtime/program/program.h"

/* A part of the file behind the FlatBuffer; checked to lie within the file. */
struct et_segment {
	size_t offset; /* from the program's first byte */
	size_t n_bytes;
	bool has_constants, has_payload, has_named_data; /* kinds of data that refer to it, for the statistics */
};

struct et_program {
	struct et_ref ref;
	struct et_pool pool; /* everything decoded, this struct too */
	struct et_source source;
	const struct et_external_data *external;
	const uint8_t *bytes; /* the program's own bytes, within the source */
	size_t n_bytes;
	struct et_method_spec *methods;
	uint32_t n_methods;
	struct et_segment *segments;
	uint32_t n_segments;
	struct et_name *named; /* keys of the named data, sorted; index: the segment */
	uint32_t n_named;
	struct et_program_stats stats;
};

/* The state of one opening. Every failure sticks to fb. */
struct et_program_reader {
	struct et_fb fb;
	struct et_diag diag;  /* fb's diagnosis */
	struct et_pool *pool; /* the program's pool */
	struct et_program *program;
	struct et_delegate_spec *delegates; /* delegates of the method in progress */
	size_t n_payload_bytes;             /* sum over all delegates; a shared payload counts for each */
	/* Constant i lies in one segment at offsets[i], or (deprecated) inline in buffers[i]. */
	struct et_fb_vector constant_offsets;
	uint32_t constant_segment;
	struct et_fb_vector constant_buffers;
	struct et_fb_vector mutable_segments; /* SubsegmentOffsets */
	struct et_fb_vector inline_payloads;
};

/* Decode the values of @method. Its name and arenas are set already. */
void et_program_read_values(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method);
/* Decode one whole method, values included. */
void et_program_read_method(struct et_program_reader *reader, struct et_fb_table plan, struct et_method_spec *method);

/* The segment with this index, or NULL after a failure of the reader. */
struct et_segment *et_program_segment(struct et_program_reader *reader, uint32_t index);
/* A copy that outlives the file's bytes; NULL for an absent string, or after a failure of the reader. */
const char *et_program_string(struct et_program_reader *reader, struct et_fb_string string);
/* Check that @value_index is below @n_values. False: the reader fails, and the text names entry @number of a list of
 * @what ("argument"). */
bool et_program_value_index(struct et_program_reader *reader, int64_t value_index, uint32_t n_values, const char *what,
	uint32_t number, uint32_t *ret_slot);
/* Read value indices and check that all are below @n_values. @what: "argument". */
const uint32_t *et_program_value_indices(struct et_program_reader *reader, struct et_fb_vector vector,
	uint32_t n_values, const char *what);

#define READER_NEW_ARRAY(reader, type, n) ET_FB_NEW_ARRAY(&(reader)->fb, (reader)->pool, type, n)

enum {
	/* Program */
	PROGRAM_VERSION = 0,
	PROGRAM_EXECUTION_PLAN,
	PROGRAM_CONSTANT_BUFFER,
	PROGRAM_BACKEND_DELEGATE_DATA,
	PROGRAM_SEGMENTS,
	PROGRAM_CONSTANT_SEGMENT,
	PROGRAM_MUTABLE_DATA_SEGMENTS,
	PROGRAM_NAMED_DATA,
	/* DataSegment */
	SEGMENT_OFFSET = 0,
	SEGMENT_SIZE,
	/* SubsegmentOffsets */
	SUBSEGMENT_INDEX = 0,
	SUBSEGMENT_OFFSETS,
	/* NamedData */
	NAMED_KEY = 0,
	NAMED_SEGMENT,
	/* Buffer, BackendDelegateInlineData */
	BUFFER_BYTES = 0,
	/* ExecutionPlan */
	PLAN_NAME = 0,
	PLAN_VALUES = 2,
	PLAN_INPUTS,
	PLAN_OUTPUTS,
	PLAN_CHAINS,
	PLAN_OPERATORS,
	PLAN_DELEGATES,
	PLAN_ARENA_SIZES,
	PLAN_ARENA_DEVICES,
	/* NonConstBufferDevice */
	ARENA_DEVICE_INDEX = 0,
	ARENA_DEVICE_TYPE,
	/* EValue: a union has two fields */
	EVALUE_TYPE = 0,
	EVALUE_VALUE,
	/* Int, Bool, Double, String, and all lists */
	VALUE_ITSELF = 0,
	/* Tensor */
	TENSOR_SCALAR_TYPE = 0,
	TENSOR_STORAGE_OFFSET,
	TENSOR_SIZES,
	TENSOR_DIM_ORDER,
	TENSOR_REQUIRES_GRAD,
	TENSOR_DATA_BUFFER_IDX,
	TENSOR_ALLOCATION_INFO,
	TENSOR_LAYOUT,
	TENSOR_SHAPE_DYNAMISM,
	TENSOR_EXTRA_INFO,
	/* AllocationDetails */
	ALLOCATION_MEMORY_ID = 0,
	ALLOCATION_OFFSET_LOW,
	ALLOCATION_OFFSET_HIGH,
	/* ExtraTensorInfo */
	EXTRA_MUTABLE_SEGMENT = 0,
	EXTRA_NAME,
	EXTRA_LOCATION,
	EXTRA_DEVICE_TYPE,
	/* Chain */
	CHAIN_INSTRUCTIONS = 2,
	/* Instruction */
	INSTRUCTION_TYPE = 0,
	INSTRUCTION_VALUE,
	/* KernelCall, DelegateCall */
	CALL_INDEX = 0,
	CALL_ARGS,
	/* MoveCall */
	MOVE_FROM = 0,
	MOVE_TO,
	/* JumpFalseCall */
	JUMP_CONDITION = 0,
	JUMP_DESTINATION,
	/* FreeCall */
	FREE_VALUE = 0,
	/* Operator */
	OPERATOR_NAME = 0,
	OPERATOR_OVERLOAD,
	/* BackendDelegate */
	DELEGATE_ID = 0,
	DELEGATE_PROCESSED,
	DELEGATE_COMPILE_SPECS,
	/* BackendDelegateDataReference */
	PROCESSED_LOCATION = 0,
	PROCESSED_INDEX,
	/* CompileSpec */
	COMPILE_SPEC_KEY = 0,
	COMPILE_SPEC_VALUE,
};

#endif
