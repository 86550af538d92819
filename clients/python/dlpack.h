/* SPDX-License-Identifier: BSD-3-Clause */
/* The structs of DLPack 1.0, https://dmlc.github.io/dlpack/latest/c_api.html, as much as the CPU needs of them. */
#ifndef CLIENTS_PYTHON_DLPACK_H
#define CLIENTS_PYTHON_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1 };                                                                      /* DLDeviceType */
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BF16 = 4, DL_COMPLEX = 5, DL_BOOL = 6 }; /* DLDataTypeCode */
enum { DL_READ_ONLY = 1, DL_COPIED = 2 };                                                 /* of flags */

struct dl_device {
	int32_t type, id;
};
struct dl_datatype {
	uint8_t code, bits; /* of one lane */
	uint16_t n_lanes;
};
struct dl_tensor {
	void *data;
	struct dl_device device;
	int32_t n_dims;
	struct dl_datatype datatype;
	int64_t *shape, *strides; /* in elements; strides NULL: row-major */
	uint64_t offset;          /* bytes from data to the first element */
};

/* The content of a capsule "dltensor". */
struct dl_managed {
	struct dl_tensor tensor;
	void *context;
	void (*free)(struct dl_managed *self);
};
/* The content of a capsule "dltensor_versioned". */
struct dl_versioned {
	uint32_t major, minor;
	void *context;
	void (*free)(struct dl_versioned *self);
	uint64_t flags;
	struct dl_tensor tensor;
};
#endif
