/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed weights in a file: its layout.
 *
 * The file is one body in a store (runtime/store.h): a header, a table of blocks, a table of the payloads that were
 * compiled with them, the blocks. A block is what XNNPACK packed for one way of using one filter. Its name says which:
 * where in the program the filter and its bias lie, and everything else that decides how they are packed. */
#ifndef DELEGATES_XNNPACK_WEIGHTS_PACKED_FILE_H
#define DELEGATES_XNNPACK_WEIGHTS_PACKED_FILE_H

#include "delegates/xnnpack/graph/payload.h"

/* How a constant was remade, where XNNPACK wants it otherwise than the file has it. */
enum et_xnn_remade {
	ET_XNN_AS_IT_IS,
	ET_XNN_TRANSPOSED,
	ET_XNN_WIDENED,   /* 4 bits to 8 */
	ET_XNN_FROM_FP16, /* to fp32 */
	ET_XNN_FROM_BF16, /* to fp32 */
};

/* Everything that decides how a filter and its bias are packed. Padding bytes are zero. */
struct et_xnn_signature {
	uint32_t kind; /* a number that is the same for equal kinds */
	uint32_t flags;
	uint32_t numbers[ET_XNN_N_NUMBERS];
	uint16_t remade, remade_bias; /* enum et_xnn_remade: of the filter, of its bias */
	uint64_t bias;                /* its address; in a name, its position in the program */
	struct {
		uint32_t type;
		uint32_t n_dims;
		uint64_t dims[ET_XNN_MAX_DIMS];
		float scale;
		int32_t zero_point;
		uint32_t channel_dim, block_size;
		uint64_t scales; /* a hash; a file that makes it collide spoils only its own results */
	} values[4];             /* input, filter, bias, output */
};

struct et_xnn_name {
	uint64_t position; /* of the filter, from the program's first byte; ET_XNN_NOWHERE: the filter has no name */
	struct et_xnn_signature signature;
};
#define ET_XNN_NOWHERE UINT64_MAX

/* A row of the table of blocks. */
struct et_xnn_row {
	uint64_t offset, n_bytes; /* in the body; ET_STORE_PADDING bytes follow */
	uint32_t seed;            /* of XNNPACK's key; 0 if an override packed the block */
	uint32_t flags;           /* ET_XNN_ROW_… */
	struct et_xnn_name name;
};

enum {
	ET_XNN_ROW_BIAS = 1,     /* packed with a bias */
	ET_XNN_ROW_OVERRIDE = 2, /* packed by an override */
};

struct et_xnn_model_row {
	uint64_t position, n_bytes; /* of the payload */
};

struct et_xnn_packed_header {
	uint32_t magic, version;
	uint32_t n_rows, n_models;
};

/* A file that was checked: every row lies within it. */
struct et_xnn_packed {
	const uint8_t *bytes; /* NULL: none */
	size_t n_bytes;
	const struct et_xnn_row *rows;
	uint32_t n_rows;
	const struct et_xnn_model_row *models;
	uint32_t n_models;
};
/* Fill in magic and version. */
void et_xnn_packed_mark(struct et_xnn_packed_header *header);
/* False: the bytes are no such file. @ret_packed points into @bytes. */
bool et_xnn_packed_open(struct et_xnn_packed *ret_packed, const uint8_t *bytes, size_t n_bytes);
/* The first row of that name at or behind row @from; the search goes around. n_rows if there is none. */
uint32_t et_xnn_packed_find(const struct et_xnn_packed *packed, const struct et_xnn_name *name, uint32_t from);

/* The store's key for packed weights: their format, XNNPACK's build, and the processor. False if the library does
 * not say which build it is: then nothing is persisted. In machine_id.c. */
bool et_xnn_machine(char *ret_text, size_t n);

#endif
