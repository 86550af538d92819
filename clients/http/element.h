/* SPDX-License-Identifier: BSD-3-Clause */
/* Elements of tensors: the datatypes of the protocol, from JSON and to JSON, and the order of dimensions in memory. */
#ifndef CLIENTS_HTTP_ELEMENT_H
#define CLIENTS_HTTP_ELEMENT_H

#include "clients/http/memory.h"
#include "clients/inferd.h"

#include <jansson.h>

/* Bytes of an element; 0: not a datatype of numbers ("BYTES", "String"). */
size_t http_element_size(const char *datatype);
/* Whether JSON can carry the datatype: all but FP16 and BF16. */
bool http_element_has_json(const char *datatype);

/* Write all numbers of @data, an array of any depth, to *ret (http_alloc; the caller's). They are @n_elements of
 * @datatype, which http_element_has_json. 0, or an HTTP status with a sentence in @error. */
unsigned http_elements_from_json(const json_t *data, const char *datatype, size_t n_elements, void **ret, char *error,
	size_t error_size);
/* Append "[1,2.5]". False: the buffer is full, or (*ret_is_finite false) JSON has no such number. */
bool http_elements_to_json(struct http_buffer *to, const void *data, const char *datatype, size_t n_elements,
	bool *ret_is_finite);
/* The element at @index as a number, for comparisons. */
double http_element_value(const void *data, const char *datatype, size_t index);

/* Whether @info's memory is row-major: its dim order is 0,1,2 ... */
bool http_is_row_major(const struct inferd_tensor_info *info);
/* Copy a dense tensor of @shape between row-major @rows and memory in the dim order of @info. */
void http_permute(void *to, const void *from, const struct inferd_tensor_info *info, const int64_t *shape,
	size_t element_size, bool to_rows);

#endif
