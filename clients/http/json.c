/* SPDX-License-Identifier: BSD-3-Clause */
/* The one way to jansson's parser.
 *
 * Its lexer ignores an append for which it got no memory, and reads and writes past its buffers then. So it always gets
 * memory (memory.c), and its input ends where the memory that is counted reaches the limit. jansson asks for at most
 * 1024 bytes of input at a time, so what it takes beyond the limit is what these bytes become. */
#include "clients/http/json.h"

#include "clients/http/memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct input {
	const char *at;
	size_t n_left;
	bool is_cut; /* it ended before its end */
};

static size_t give(void *to, size_t room, void *userdata)
{
	struct input *input = userdata;
	size_t n = room < input->n_left ? room : input->n_left;
	if (!http_memory_has_json_room()) {
		input->is_cut = true;
		return 0;
	}
	memcpy(to, input->at, n);
	input->at += n;
	input->n_left -= n;
	return n;
}

unsigned http_json_parse(json_t **ret, const char *text, size_t n_bytes, char *error, size_t error_size)
{
	struct input input = { text, n_bytes, false };
	json_error_t why = { .position = 0 };
	http_memory_start_json();
	*ret = json_load_callback(give, &input, 0, &why);
	if (input.is_cut || (*ret && !http_memory_has_json_room())) {
		json_decref(*ret);
		*ret = NULL;
		snprintf(error, error_size,
			"the gateway has no memory left for this JSON; send tensors as binary data");
		return 503;
	}
	if (!*ret) {
		snprintf(error, error_size, "failed to parse the request JSON: %s at byte %d", why.text, why.position);
		return 400;
	}
	return 0;
}
