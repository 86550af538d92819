/* SPDX-License-Identifier: BSD-3-Clause */
/* Read and write .npy files.
 *
 * The header is a Python dictionary as text: {'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }. The reader
 * accepts what NumPy writes for plain arrays, and refuses records, objects and big-endian numbers. A file is
 * untrusted: memory grows with the data that is really there, not with the size that the header claims. */
#include "clients/inferctl/npy.h"

#include "runtime/base/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 65536 };

static const struct {
	const char *descr;
	enum et_scalar_type type;
} descrs[] = {
	{ "<f4", ET_FLOAT32 },
	{ "<f8", ET_FLOAT64 },
	{ "<f2", ET_FLOAT16 },
	{ "<i8", ET_INT64 },
	{ "<i4", ET_INT32 },
	{ "<i2", ET_INT16 },
	{ "|i1", ET_INT8 },
	{ "|u1", ET_UINT8 },
	{ "|b1", ET_BOOL },
	{ "<u2", ET_UINT16 },
	{ "<u4", ET_UINT32 },
	{ "<u8", ET_UINT64 },
	{ "<c8", ET_COMPLEX64 },
	{ "<c16", ET_COMPLEX128 },
	{ "<u2", ET_BFLOAT16 }, /* from here on for writing only: a reader takes the first row of a descr */
	{ "<u2", ET_BITS16 },
	{ "|i1", ET_QINT8 },
	{ "|u1", ET_QUINT8 },
	{ "|u1", ET_QUINT4X2 },
	{ "|u1", ET_QUINT2X4 },
	{ "|u1", ET_BITS1X8 },
	{ "|u1", ET_BITS2X4 },
	{ "|u1", ET_BITS4X2 },
	{ "|u1", ET_BITS8 },
	{ "<i4", ET_QINT32 },
};

/* The value of 'key' in the header, or NULL. */
static const char *find_key(const char *header, const char *key)
{
	size_t n = strlen(key);
	for (const char *at = header; (at = strchr(at, '\'')); at++) {
		if (strncmp(at + 1, key, n) != 0 || at[n + 1] != '\'')
			continue;
		at += n + 2;
		at += strspn(at, " ");
		if (*at != ':')
			return NULL;
		at++;
		return at + strspn(at, " ");
	}
	return NULL;
}

static bool parse_shape(const char *text, struct ctl_value *value)
{
	if (!text || *text++ != '(')
		return false;
	for (value->n_dims = 0;;) {
		char *end;
		long long n;
		text += strspn(text, " ,");
		if (*text == ')')
			return true;
		errno = 0;
		n = strtoll(text, &end, 10);
		if (errno || end == text || n < 0 || n > INT32_MAX || value->n_dims == ET_MAX_DIMS)
			return false;
		value->sizes[value->n_dims++] = (int32_t)n;
		text = end;
	}
}

static int parse_header(const char *header, struct ctl_value *value, char *error, size_t error_size)
{
	const char *descr = find_key(header, "descr"), *order = find_key(header, "fortran_order"),
		   *shape = find_key(header, "shape");
	bool is_fortran;
	size_t i, n = 1;

	if (!descr || !order || !shape || *descr != '\'') {
		snprintf(error, error_size, "the header lacks descr, fortran_order or shape");
		return -1;
	}
	for (i = 0; i < ET_ARRAY_LEN(descrs); i++)
		if (strncmp(descr + 1, descrs[i].descr, strlen(descrs[i].descr)) == 0 &&
			descr[1 + strlen(descrs[i].descr)] == '\'')
			break;
	if (i == ET_ARRAY_LEN(descrs)) {
		snprintf(error, error_size, "dtype %.12s is not supported", descr);
		return -1;
	}
	value->tag = ET_TAG_TENSOR;
	value->type = (uint8_t)descrs[i].type;
	if (!parse_shape(shape, value)) {
		snprintf(error, error_size, "the shape is malformed, or has more than %d dimensions", ET_MAX_DIMS);
		return -1;
	}
	is_fortran = strncmp(order, "True", 4) == 0;
	for (unsigned d = 0; d < value->n_dims; d++) {
		value->dim_order[d] = (uint8_t)(is_fortran ? value->n_dims - 1 - d : d);
		if (!et_mul(n, (size_t)value->sizes[d], &n))
			n = SIZE_MAX;
	}
	if (!et_mul(n, et_scalar_size(value->type), &value->n_bytes)) {
		snprintf(error, error_size, "the shape is too large");
		return -1;
	}
	return 0;
}

int ctl_npy_read(FILE *file, struct ctl_value *ret, void **ret_memory, char *error, size_t error_size)
{
	struct ctl_value value = { 0 };
	uint8_t start[12];
	size_t n_header, n_done = 0, n_room = 0;
	char *header;
	uint8_t *memory = NULL;

	if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0 || start[6] < 1 || start[6] > 3) {
		snprintf(error, error_size, "it is not a .npy file");
		return -1;
	}
	n_header = start[8] | (size_t)start[9] << 8;
	if (start[6] > 1) { /* a length of four bytes */
		if (fread(start + 10, 1, 2, file) != 2 || start[10] || start[11])
			n_header = MAX_HEADER;
	}
	header = n_header < MAX_HEADER ? calloc(1, n_header + 1) : NULL;
	if (!header || fread(header, 1, n_header, file) != n_header) {
		snprintf(error, error_size, "the header is truncated or too long");
		free(header);
		return -1;
	}
	if (parse_header(header, &value, error, error_size) < 0) {
		free(header);
		return -1;
	}
	free(header);
	/* Memory grows with the data, so that a header cannot claim memory for data that is not there. */
	do {
		size_t want = value.n_bytes - n_done, got;
		if (want > ((size_t)1 << 20))
			want = (size_t)1 << 20;
		if (n_done + want >= n_room) {
			uint8_t *more = realloc(memory, n_room = 2 * (n_done + want) + 1);
			if (!more) {
				snprintf(error, error_size, "out of memory");
				free(memory);
				return -1;
			}
			memory = more;
		}
		got = fread(memory + n_done, 1, want, file);
		n_done += got;
		if (got < want) {
			snprintf(error, error_size, "the file ends after %zu of %zu bytes of data", n_done,
				value.n_bytes);
			free(memory);
			return -1;
		}
	} while (n_done < value.n_bytes);
	value.data = memory;
	*ret_memory = memory;
	*ret = value;
	return 0;
}

static bool is_fortran(const struct ctl_value *value)
{
	for (unsigned d = 0; d < value->n_dims; d++)
		if (value->dim_order[d] != value->n_dims - 1 - d)
			return false;
	return value->n_dims > 1;
}

static int write_header(FILE *file, const char *descr, bool fortran, const struct ctl_value *value)
{
	char header[512];
	size_t n, padded;
	uint8_t start[10] = "\x93NUMPY\x01";
	n = (size_t)snprintf(header, sizeof(header), "{'descr': '%s', 'fortran_order': %s, 'shape': (", descr,
		fortran ? "True" : "False");
	for (unsigned d = 0; d < value->n_dims; d++)
		n += (size_t)snprintf(header + n, sizeof(header) - n, "%d%s", value->sizes[d],
			value->n_dims == 1 || d + 1 < value->n_dims ? ", " : "");
	n += (size_t)snprintf(header + n, sizeof(header) - n, "), }");
	padded = ((10 + n + 1 + 63) & ~(size_t)63) - 10;
	memset(header + n, ' ', padded - n);
	header[padded - 1] = '\n';
	start[8] = (uint8_t)padded;
	start[9] = (uint8_t)(padded >> 8);
	return fwrite(start, 1, 10, file) == 10 && fwrite(header, 1, padded, file) == padded ? 0 : -1;
}

int ctl_npy_write(FILE *file, const struct ctl_value *value)
{
	struct ctl_value flat = *value;
	size_t size, n;
	bool fortran;

	if (value->tag != ET_TAG_TENSOR) {
		bool is_real = value->tag == ET_TAG_DOUBLE;
		flat.n_dims = 0;
		if (write_header(file, is_real ? "<f8" : "<i8", false, &flat) < 0)
			return -1;
		return fwrite(is_real ? (const void *)&value->d : (const void *)&value->i, 1, 8, file) == 8 ? 0 : -1;
	}
	size = et_scalar_size(value->type);
	n = ctl_value_numel(value);
	if (size && n > value->n_bytes / size) {
		errno = EINVAL;
		return -1;
	}
	fortran = is_fortran(value);
	for (size_t i = 0; i < ET_ARRAY_LEN(descrs); i++) {
		if ((uint8_t)descrs[i].type != value->type)
			continue;
		if (write_header(file, descrs[i].descr, fortran, value) < 0)
			return -1;
		if (fortran || et_dim_order_is_contiguous(value->dim_order, value->n_dims))
			return fwrite(value->data, size, n, file) == n ? 0 : -1;
		/* .npy has only C and Fortran order: other dim orders are written row-major, one element at a time. */
		for (size_t k = 0; k < n; k++)
			if (fwrite(value->data + ctl_value_place(value, k) * size, size, 1, file) != 1)
				return -1;
		return 0;
	}
	errno = ENOTSUP;
	return -1;
}
