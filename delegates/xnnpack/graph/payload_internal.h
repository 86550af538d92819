/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a payload's FlatBuffer, shared by payload_read.c (frame, nodes) and payload_values.c (values,
 * scales). */
#ifndef DELEGATES_XNNPACK_GRAPH_PAYLOAD_INTERNAL_H
#define DELEGATES_XNNPACK_GRAPH_PAYLOAD_INTERNAL_H

#include "delegates/xnnpack/graph/kind.h"
#include "runtime/program/flatbuffer.h"

/* A map from an id in the file to an index in the payload: open addressing, the number of slots is a power of two. */
struct et_xnn_id_map {
	struct {
		uint32_t id;
		uint32_t index; /* NONE = free */
	} *slots;
	size_t mask;
};

/* The pieces of named data that hold scales: open addressing, as many slots as the id map has. */
struct et_xnn_piece_set {
	const uint8_t **slots; /* a slot is NULL: free. The array is NULL: no piece was noted yet */
	uint64_t n_bytes;      /* of all pieces together */
};

struct et_xnn_constant {
	const uint8_t *bytes;
	size_t n_bytes; /* all bytes that the file has there */
	bool in_payload;
};

struct et_xnn_reader {
	const struct inferd_delegate_payload *source;
	struct et_pool *pool;
	struct et_diag *diag;
	struct et_fb fb;
	struct et_fb_table graph;
	bool has_header;
	const uint8_t *constants; /* behind the FlatBuffer */
	uint64_t n_constant_bytes;
	struct et_fb_vector table; /* of constants: ConstantDataOffset, or Buffer without a header */
	struct et_xnn_id_map ids;
	struct et_xnn_payload *payload;
	struct et_xnn_piece_set pieces;
	uint64_t n_scale_bytes, n_named_scale_bytes; /* copied from the payload, and from the Program's named data */
};

/* Room for @n_values ids. False if there is no memory. */
bool et_xnn_reader_init_ids(struct et_xnn_reader *r, uint32_t n_values);
/* The index of the value with @id, or ET_XNN_NONE. */
uint32_t et_xnn_reader_find_id(const struct et_xnn_reader *r, uint32_t id);
/* Constant @index. ET_E_INVALID_PROGRAM: it has fewer than @n_bytes; ET_E_NOT_FOUND: no such named data. */
enum et_status et_xnn_reader_find_constant(struct et_xnn_reader *r, uint32_t index, size_t n_bytes,
	struct et_xnn_constant *ret_constant);
/* Decode one value, and append it to the payload. */
enum et_status et_xnn_reader_read_value(struct et_xnn_reader *r, struct et_fb_table outer);
enum et_status et_xnn_reader_no_memory(const struct et_xnn_reader *r);

#endif
