/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of /dev/shm.
 *
 * They have no seals, so the daemon rightly refuses them as regions: the gateway copies. It keeps a file mapped while
 * the region is registered, because pread takes 1.6 times as long as a copy from mapped pages. A file may shrink at any
 * time: its size is looked at before each copy, and the platform's SIGBUS guard lets a copy end that has begun.
 *
 * What must always be true: a key is one name in /dev/shm, opened without following links and without waiting (a FIFO),
 * and the file is a regular one of the gateway's own user. Sentences never name a key, which another client might have
 * chosen as a secret.
 *
 * Each region is its client's own: a user of the Unix socket, or all clients over TCP, who are one. Others neither see
 * nor use it, and may give the same name to another. */
#include "clients/http/shared.h"

#include "clients/http/json.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_REGIONS = 256, MAX_OF_CLIENT = 64 };
/* Limits on the bytes of regions: each takes address space, and a hole that is read takes memory. */
static const uint64_t max_bytes = UINT64_C(16) << 30, max_bytes_of_client = UINT64_C(4) << 30;

static struct region {
	char name[HTTP_MAX_NAME], key[256];
	uint64_t offset, n_bytes;
	int fd;
	struct et_platform_mapping mapping; /* from the page where it begins; none after a fault */
	bool is_unix;                       /* the client */
	uid_t uid;                          /* is_unix */
} regions[MAX_REGIONS];
static size_t n_regions;

static bool is_of(const struct region *region, const struct http_connection *c)
{
	return region->is_unix == c->is_unix && (!c->is_unix || region->uid == c->uid);
}

static struct region *find(const struct http_connection *c, const char *name)
{
	for (size_t i = 0; i < n_regions; i++)
		if (is_of(&regions[i], c) && strcmp(regions[i].name, name) == 0)
			return &regions[i];
	return NULL;
}

/* The client's regions, or if @c is NULL all. */
static size_t count(const struct http_connection *c, uint64_t *ret_n_bytes)
{
	size_t n = 0;
	*ret_n_bytes = 0;
	for (size_t i = 0; i < n_regions; i++) {
		if (c && !is_of(&regions[i], c))
			continue;
		n++;
		*ret_n_bytes += regions[i].n_bytes;
	}
	return n;
}

static void drop(struct region *region)
{
	et_platform_unmap(&region->mapping);
	close(region->fd);
	*region = regions[--n_regions];
}

void http_shared_deinit(void)
{
	while (n_regions)
		drop(&regions[n_regions - 1]);
}

/* --- opening ------------------------------------------------------------------------------------------ */

/* -1: *ret_error says why. */
static int open_key(const char *key, uint64_t offset, uint64_t n_bytes, const char **ret_error)
{
	struct stat file;
	int folder = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = folder < 0 ? -1 : openat(folder, key, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	if (folder >= 0)
		close(folder);
	*ret_error = "its key is not a file of /dev/shm that this gateway may read and write";
	if (fd < 0)
		return -1;
	if (fstat(fd, &file) < 0 || !S_ISREG(file.st_mode) || file.st_uid != geteuid()) {
		close(fd);
		return -1;
	}
	*ret_error = "its offset and byte_size lie outside of the file";
	if (file.st_size < 0 || !et_in_range(offset, n_bytes, (uint64_t)file.st_size)) {
		close(fd);
		return -1;
	}
	return fd;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Map the region if it is not mapped. Negative errno on failure. */
static int map(struct region *region)
{
	size_t front = (size_t)(region->offset % page_bytes()), n;
	if (region->mapping.bytes)
		return 0;
	if (region->n_bytes > SIZE_MAX - front || !et_align_up(front + (size_t)region->n_bytes, page_bytes(), &n))
		return -ENOMEM;
	return et_platform_map_part(&region->mapping, region->fd, region->offset - front, n, true);
}

/* shm_open's names begin with one slash. NULL: not one name. */
static const char *name_of(const char *key)
{
	const char *name = key[0] == '/' ? key + 1 : key;
	size_t n = strlen(name);
	return n && n < 256 && !strchr(name, '/') && name[0] != '.' ? name : NULL;
}

static void add(struct http_request *r, const json_t *root)
{
	const char *key = json_string_value(json_object_get(root, "key")), *name = key ? name_of(key) : NULL, *error;
	const json_t *offset = json_object_get(root, "offset"), *n_bytes = json_object_get(root, "byte_size");
	if (!name || !json_is_integer(n_bytes) || json_integer_value(n_bytes) <= 0 ||
		(offset && (!json_is_integer(offset) || json_integer_value(offset) < 0))) {
		http_request_fail(r, 400,
			"failed to register shared memory region '%s': it needs 'key' (a name in /dev/shm), 'byte_size' "
			"and, if it is not 0, 'offset'",
			r->route.region);
		return;
	}
	if (find(r->connection, r->route.region)) {
		http_request_fail(r, 400, "shared memory region '%s' already in manager", r->route.region);
		return;
	}
	uint64_t size = (uint64_t)json_integer_value(n_bytes), n_of_all, n_of_client;
	if (size > max_bytes_of_client) {
		http_request_fail(r, 400,
			"failed to register shared memory region '%s': its byte_size is more than the %" PRIu64
			" bytes that a client's regions may have",
			r->route.region, max_bytes_of_client);
		return;
	}
	if (count(NULL, &n_of_all) == MAX_REGIONS || count(r->connection, &n_of_client) >= MAX_OF_CLIENT) {
		http_request_fail(r, 429, "there are %d shared memory regions; unregister one",
			n_regions == MAX_REGIONS ? MAX_REGIONS : MAX_OF_CLIENT);
		return;
	}
	if (size > max_bytes - n_of_all || size > max_bytes_of_client - n_of_client) {
		http_request_fail(r, 429, "the shared memory regions have %" PRIu64 " bytes; unregister one",
			size > max_bytes - n_of_all ? n_of_all : n_of_client);
		return;
	}
	struct region *region = &regions[n_regions];
	*region = (struct region){ .offset = (uint64_t)(offset ? json_integer_value(offset) : 0), .n_bytes = size };
	region->fd = open_key(name, region->offset, region->n_bytes, &error);
	if (region->fd < 0) {
		http_request_fail(r, 400, "failed to register shared memory region '%s': %s", r->route.region, error);
		return;
	}
	if (map(region) < 0) {
		close(region->fd);
		http_request_fail(r, 503, "shared memory region '%s' can't be mapped", r->route.region);
		return;
	}
	region->is_unix = r->connection->is_unix;
	region->uid = r->connection->uid;
	snprintf(region->name, sizeof(region->name), "%s", r->route.region);
	snprintf(region->key, sizeof(region->key), "%.255s", key);
	n_regions++;
	r->code = 200;
	http_buffer_text(&r->answer, "{}");
}

/* --- requests ----------------------------------------------------------------------------------------- */

static void list(struct http_request *r)
{
	bool is_first = true;
	if (r->route.region[0] && !find(r->connection, r->route.region)) {
		http_request_fail(r, 404, "Unable to find system shared memory region: '%s'", r->route.region);
		return;
	}
	r->code = 200;
	http_buffer_text(&r->answer, "[");
	for (size_t i = 0; i < n_regions; i++) {
		const struct region *region = &regions[i];
		if (!is_of(region, r->connection) || (r->route.region[0] && strcmp(r->route.region, region->name) != 0))
			continue;
		http_buffer_text(&r->answer, is_first ? "{\"name\":" : ",{\"name\":");
		is_first = false;
		http_buffer_quote(&r->answer, region->name, strlen(region->name));
		http_buffer_text(&r->answer, ",\"key\":");
		http_buffer_quote(&r->answer, region->key, strlen(region->key));
		http_buffer_printf(&r->answer, ",\"offset\":%" PRIu64 ",\"byte_size\":%" PRIu64 "}", region->offset,
			region->n_bytes);
	}
	http_buffer_text(&r->answer, "]");
}

static void drop_all(const struct http_connection *c)
{
	for (size_t i = n_regions; i > 0; i--)
		if (is_of(&regions[i - 1], c))
			drop(&regions[i - 1]); /* what takes its place was looked at before */
}

static void answer_cuda(struct http_request *r)
{
	if (r->route.kind == HTTP_ROUTE_MEMORY_REGISTER) {
		http_request_fail(r, 501, "failed to register CUDA shared memory region '%s': inferd has no CUDA",
			r->route.region);
	} else if (r->route.kind == HTTP_ROUTE_MEMORY_STATUS && r->route.region[0]) {
		http_request_fail(r, 404, "Unable to find cuda shared memory region: '%s'", r->route.region);
	} else {
		r->code = 200;
		http_buffer_text(&r->answer, r->route.kind == HTTP_ROUTE_MEMORY_STATUS ? "[]" : "{}");
	}
}

void http_shared_answer(struct http_request *r)
{
	if (r->route.is_cuda) {
		answer_cuda(r);
	} else if (r->route.kind == HTTP_ROUTE_MEMORY_STATUS) {
		list(r);
	} else if (r->route.kind == HTTP_ROUTE_MEMORY_UNREGISTER) {
		struct region *region = r->route.region[0] ? find(r->connection, r->route.region) : NULL;
		if (region)
			drop(region);
		else if (!r->route.region[0])
			drop_all(r->connection);
		r->code = 200;
		http_buffer_text(&r->answer, "{}");
	} else if (!r->server->config.shared_memory) {
		http_request_fail(r, 403,
			"failed to register shared memory region '%s': this gateway has no system shared memory "
			"('shared_memory' in inferd-http.conf)",
			r->route.region);
	} else {
		char error[400];
		json_t *root;
		unsigned code = http_json_parse(&root, r->text.data ? r->text.data : "", r->text.n_bytes, error,
			sizeof(error));
		if (code)
			http_request_fail(r, code, "%s", error);
		else
			add(r, root);
		json_decref(root);
	}
}

/* --- tensors ------------------------------------------------------------------------------------------ */

/* Whether the file has the place now. */
static bool is_there(const struct region *region, const struct http_place *place, size_t n_bytes)
{
	struct stat file;
	return fstat(region->fd, &file) == 0 &&
	       et_in_range(region->offset + place->offset, n_bytes, (uint64_t)file.st_size);
}

/* Find the place in the mapping; its file is large enough now. NULL: a sentence is in @error. */
static char *find_place(struct region *region, const struct http_place *place, size_t n_bytes, char *error,
	size_t error_size)
{
	if (!is_there(region, place, n_bytes)) {
		snprintf(error, error_size, "shared memory region '%s' has become smaller", place->region);
		return NULL;
	}
	if (map(region) < 0) {
		snprintf(error, error_size, "shared memory region '%s' can't be mapped", place->region);
		return NULL;
	}
	return (char *)region->mapping.bytes + region->offset % page_bytes() + place->offset;
}

/* 0, or an HTTP status with a sentence in @error. */
static unsigned copy(const struct http_connection *c, const struct http_place *place, void *to, const void *from,
	size_t n_bytes, char *error, size_t error_size)
{
	struct region *region = find(c, place->region);
	char *mapped = NULL;
	if (!region)
		snprintf(error, error_size, "Unable to find shared memory region: '%s'", place->region);
	else if (n_bytes > place->n_bytes)
		snprintf(error, error_size,
			"the tensor has %zu bytes, but its place in shared memory region '%s' %" PRIu64, n_bytes,
			place->region, place->n_bytes);
	else if (!et_in_range(place->offset, place->n_bytes, region->n_bytes))
		snprintf(error, error_size, "Invalid offset + byte size for shared memory region: '%s'", place->region);
	else
		mapped = find_place(region, place, n_bytes, error, error_size);
	if (!mapped)
		return 400;
	memcpy(to ? to : mapped, from ? from : mapped, n_bytes);
	bool has_faulted = et_platform_mapping_faulted(&region->mapping);
	if (!has_faulted && is_there(region, place, n_bytes)) /* no SIGBUS if it shrank inside its last page */
		return 0;
	if (has_faulted)
		et_platform_unmap(&region->mapping); /* it is zeros of our own now */
	snprintf(error, error_size, "shared memory region '%s' has become smaller meanwhile, or its memory is used up",
		place->region);
	return 400;
}

unsigned http_shared_read(const struct http_connection *c, const struct http_place *place, void *to, size_t n_bytes,
	char *error, size_t error_size)
{
	return copy(c, place, to, NULL, n_bytes, error, error_size);
}

unsigned http_shared_write(const struct http_connection *c, const struct http_place *place, const void *from,
	size_t n_bytes, char *error, size_t error_size)
{
	return copy(c, place, NULL, from, n_bytes, error, error_size);
}
