/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: what strangers send to the HTTP gateway. The first byte chooses: 'p' a path, 'h' a Host header, 'o'
 * an Origin and a Host header, 'j' the JSON of an inference request, 'z' a compressed body. A model's name and version
 * are valid ones, refusals have a sentence, the numbers of a tensor are as many as its shape says, and all memory that
 * was counted is given back. */
#include "clients/http/body.h"
#include "clients/http/element.h"
#include "clients/http/head.h"
#include "clients/http/host.h"
#include "clients/http/route.h"
#include "config/model_name.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MEMORY = 16 << 20, MAX_BODY = 1 << 20 };

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_path(const char *text)
{
	struct http_route route;
	http_route_parse(&route, text);
	require(route.kind ? !route.refusal : route.refusal && *route.refusal);
	require(memchr(route.model, 0, sizeof(route.model)) && memchr(route.version, 0, sizeof(route.version)) &&
		memchr(route.region, 0, sizeof(route.region)));
	require(!route.model[0] || inf_model_name_is_valid(route.model));
	require(!route.version[0] || inf_version_is_valid(route.version));
	require(!strchr(route.region, '/'));
	require(!http_route_is_of_page(&route) || (!route.model[0] && route.is_get && !route.is_post));
}

static void check_host(const char *text)
{
	static const struct inf_config_names names = { "gateway.example other" };
	if (http_host_is_fine(text, &names))
		require(strlen(text) < 300 && !strchr(text, '/') && !strchr(text, ' '));
}

/* @text is an Origin and a Host with a line's end between them. One's own origin ends in a Host that is fine. */
static void check_origin(char *text)
{
	static const struct inf_config_names names = { "gateway.example other" };
	char *end = strchr(text, '\n');
	if (!end)
		return;
	*end = '\0';
	if (http_host_is_own_origin(text, end + 1, &names))
		require(http_host_is_fine(end + 1, &names) && strncmp(text, "http", 4) == 0 &&
			strlen(text) > strlen(end + 1) &&
			strcasecmp(text + strlen(text) - strlen(end + 1), end + 1) == 0);
}

static void check_head(const char *text, size_t n_bytes)
{
	char error[600] = "";
	struct http_head *head = NULL;
	unsigned code = http_head_parse(&head, text, n_bytes, error, sizeof(error));
	require(code ? !head && error[0] && memchr(error, 0, sizeof(error)) : head != NULL);
	for (size_t i = 0; head && i < head->n_inputs; i++) {
		const struct http_head_input *in = &head->inputs[i];
		size_t size = http_element_size(in->datatype);
		require(size && in->n_bytes == in->n_elements * size && in->n_dims <= INFERD_MAX_DIMS);
		require((in->data != NULL) + in->is_binary + (in->place.region[0] != 0) == 1);
		if (in->data && in->n_elements)
			http_element_value(in->data, in->datatype, in->n_elements - 1);
	}
	require(!head || head->n_outputs <= HTTP_MAX_TENSORS);
	http_head_free(head);
}

static unsigned count(void *userdata, const char *data, size_t n_bytes)
{
	size_t *n = userdata;
	require(n_bytes > 0 && data);
	*n += n_bytes;
	return 0;
}

/* In pieces whose sizes come from the bytes themselves. */
static void check_body(const uint8_t *bytes, size_t n_bytes)
{
	size_t n_out = 0;
	const char *error = NULL;
	struct http_body body = { .sink = count, .userdata = &n_out };
	require(http_body_init(&body, "gzip", MAX_BODY, &error) == 0);
	for (size_t at = 0; at < n_bytes;) {
		size_t n = 1 + bytes[at] % 97, n_taken = 0;
		n = n < n_bytes - at ? n : n_bytes - at;
		error = NULL;
		unsigned code = http_body_feed(&body, (const char *)bytes + at, n, &n_taken, &error);
		require(n_taken <= n && (!code || error));
		at += n_taken ? n_taken : n;
	}
	require(n_out <= MAX_BODY && n_out == body.n_bytes);
	http_body_end(&body, &error);
	http_body_deinit(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	static bool is_ready;
	if (!is_ready)
		http_memory_init(MEMORY);
	is_ready = true;
	char *text = n_bytes ? calloc(1, n_bytes) : NULL;
	if (!text)
		return 0;
	memcpy(text, bytes + 1, n_bytes - 1);
	if (bytes[0] == 'p')
		check_path(text);
	else if (bytes[0] == 'h')
		check_host(text);
	else if (bytes[0] == 'o')
		check_origin(text);
	else if (bytes[0] == 'j')
		check_head(text, n_bytes - 1);
	else if (bytes[0] == 'z')
		check_body(bytes + 1, n_bytes - 1);
	free(text);
	require(http_memory_used() == 0);
	return 0;
}
