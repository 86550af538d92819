/* SPDX-License-Identifier: BSD-3-Clause */
/* Counted memory.
 *
 * Each piece has a header with its size, so that freeing needs none, as jansson's functions have it. What must always
 * be true: the count is raised before malloc is called, so that no request makes the process larger than the limit.
 * jansson alone is never refused, because its lexer does not survive that; its input ends at the limit (json.c). */
#include "clients/http/memory.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t limit = UINT64_MAX, used;
static size_t largest_for_json; /* bytes of the largest piece that jansson took for this JSON */

struct header {
	size_t n_bytes;
	size_t padding; /* what malloc aligns for stays aligned */
};

bool http_memory_charge(size_t n_bytes)
{
	if (n_bytes > limit || used > limit - n_bytes)
		return false;
	used += n_bytes;
	return true;
}

void http_memory_release(size_t n_bytes)
{
	used -= n_bytes;
}

uint64_t http_memory_used(void)
{
	return used;
}

/* @n_all bytes with the header are charged already. */
static void *take_charged(size_t n_all, bool is_zeroed)
{
	struct header *header = is_zeroed ? calloc(1, n_all) : malloc(n_all);
	if (!header) {
		http_memory_release(n_all);
		return NULL;
	}
	header->n_bytes = n_all;
	return header + 1;
}

static void *take(size_t n_bytes, bool is_zeroed)
{
	size_t n_all;
	if (__builtin_add_overflow(n_bytes, sizeof(struct header), &n_all) || !http_memory_charge(n_all))
		return NULL;
	return take_charged(n_all, is_zeroed);
}

void *http_alloc(size_t n_bytes)
{
	return take(n_bytes, true);
}

void http_free(void *memory)
{
	struct header *header = memory;
	if (!memory)
		return;
	http_memory_release(header[-1].n_bytes);
	free(header - 1);
}

char *http_strdup(const char *text)
{
	size_t n = text ? strlen(text) + 1 : 0;
	char *copy = text ? take(n, false) : NULL;
	if (copy)
		memcpy(copy, text, n);
	return copy;
}

/* Counted beyond the limit too. Without memory for it the process ends, before jansson writes past a buffer. */
static void *take_for_json(size_t n_bytes)
{
	size_t n_all;
	if (__builtin_add_overflow(n_bytes, sizeof(struct header), &n_all))
		abort();
	largest_for_json = n_all > largest_for_json ? n_all : largest_for_json;
	used += n_all;
	void *memory = take_charged(n_all, false);
	if (!memory)
		abort();
	return memory;
}

void http_memory_start_json(void)
{
	largest_for_json = 0;
}

bool http_memory_has_json_room(void)
{
	return used <= limit && largest_for_json <= (limit - used) / 2;
}

void http_memory_init(uint64_t max_bytes)
{
	limit = max_bytes;
	json_set_alloc_funcs(take_for_json, http_free);
}

bool http_buffer_add(struct http_buffer *buffer, const void *bytes, size_t n_bytes)
{
	if (buffer->is_failed || n_bytes > buffer->max_bytes || buffer->n_bytes > buffer->max_bytes - n_bytes) {
		buffer->is_failed = true;
		return false;
	}
	size_t n_wanted = buffer->n_bytes + n_bytes;
	if (n_wanted > buffer->n_room || !buffer->data) {
		size_t n_room = buffer->n_room ? buffer->n_room : 256;
		while (n_room < n_wanted)
			n_room *= 2;
		char *bigger = take(n_room, false);
		if (!bigger) {
			buffer->is_failed = true;
			return false;
		}
		if (buffer->n_bytes)
			memcpy(bigger, buffer->data, buffer->n_bytes);
		http_free(buffer->data);
		buffer->data = bigger;
		buffer->n_room = n_room;
	}
	if (n_bytes)
		memcpy(buffer->data + buffer->n_bytes, bytes, n_bytes);
	buffer->n_bytes = n_wanted;
	return true;
}

bool http_buffer_text(struct http_buffer *buffer, const char *text)
{
	return http_buffer_add(buffer, text, strlen(text));
}

bool http_buffer_printf(struct http_buffer *buffer, const char *format, ...)
{
	char text[1400];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(text)) {
		buffer->is_failed = true;
		return false;
	}
	return http_buffer_add(buffer, text, (size_t)n);
}

bool http_buffer_quote(struct http_buffer *buffer, const char *text, size_t n_bytes)
{
	http_buffer_text(buffer, "\"");
	for (size_t i = 0, first = 0; i <= n_bytes; i++) {
		unsigned char c = i < n_bytes ? (unsigned char)text[i] : 0;
		if (i < n_bytes && c >= 0x20 && c != '"' && c != '\\')
			continue;
		http_buffer_add(buffer, text + first, i - first);
		first = i + 1;
		if (i == n_bytes)
			break;
		if (c == '"' || c == '\\')
			http_buffer_printf(buffer, "\\%c", c);
		else
			http_buffer_printf(buffer, "\\u%04x", c);
	}
	return http_buffer_text(buffer, "\"");
}

void http_buffer_deinit(struct http_buffer *buffer)
{
	http_free(buffer->data);
	*buffer = (struct http_buffer){ .max_bytes = buffer->max_bytes };
}
