/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads in a host: map them, describe them to the plug-in, free them; and fetch the named data that the plug-in
 * asks for meanwhile.
 *
 * Specs and options lie behind the payload in the memory file that inferd sent. They are checked like untrusted
 * input, and used where they lie. Named data stays mapped as long as the payload, but its descriptor is closed at
 * once: a process can have few descriptors, and inferd counts only those of payloads. */
#include "delegates/plugin/host/host_internal.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- asking inferd --------------------------------------------------------------------------------------- */

void et_hosted_log(void *self, int level, const char *text)
{
	struct host *host = self;
	struct et_plugin_log log = { .header = { ET_PLUGIN_LOG, sizeof log, 0 },
		.level = level >= 3 && level <= 7 ? (uint32_t)level : 6 };
	snprintf(log.text, sizeof log.text, "%s", text ? text : "");
	pthread_mutex_lock(&host->asks_lock);
	et_plugin_send(host->options.asks, &log, -1, 1);
	pthread_mutex_unlock(&host->asks_lock);
}

static struct mapping *map_file(int fd, uint64_t n_bytes)
{
	struct mapping *mapping = calloc(1, sizeof *mapping);
	size_t n_mapped;
	if (!mapping || n_bytes > SIZE_MAX - 2 * ET_PLUGIN_PAGE) {
		free(mapping);
		return NULL;
	}
	long page = sysconf(_SC_PAGESIZE);
	if (!et_align_up((size_t)n_bytes + 1, (size_t)page, &n_mapped))
		n_mapped = 0;
	n_mapped += (size_t)page; /* so that bytes behind the end can be read, whatever the size */
	uint8_t *bytes = mmap(NULL, n_mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED) {
		free(mapping);
		return NULL;
	}
	if (n_bytes && mmap(bytes, (size_t)n_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		munmap(bytes, n_mapped);
		free(mapping);
		return NULL;
	}
	*mapping = (struct mapping){ .bytes = bytes, .n_mapped = n_mapped, .fd = fd };
	return mapping;
}

static void free_mappings(struct mapping *mapping)
{
	while (mapping) {
		struct mapping *next = mapping->next;
		munmap(mapping->bytes, mapping->n_mapped);
		if (mapping->fd >= 0)
			close(mapping->fd);
		free(mapping);
		mapping = next;
	}
}

static int named_data(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes)
{
	struct model *model = self;
	struct host *host = model->host;
	struct et_plugin_named ask = { .header = { ET_PLUGIN_NAMED, sizeof ask, 0 }, .call = model->call };
	struct et_plugin_named answer;
	int fd = -1, n;
	if (!key || strlen(key) >= sizeof ask.key || !model->call)
		return INFERD_DELEGATE_E_INVALID;
	memcpy(ask.key, key, strlen(key));
	pthread_mutex_lock(&host->asks_lock);
	ask.header.id = ++host->n_asks;
	n = et_plugin_send(host->options.asks, &ask, -1, 1);
	if (n == 0)
		n = et_plugin_receive(host->options.asks, &answer, sizeof answer, &fd, 1);
	pthread_mutex_unlock(&host->asks_lock);
	if (n != (int)sizeof answer || answer.header.type != ET_PLUGIN_NAMED_ANSWER || answer.result || fd < 0) {
		if (fd >= 0)
			close(fd);
		if (n != (int)sizeof answer)
			return INFERD_DELEGATE_E_INTERNAL;
		return answer.result ? INFERD_DELEGATE_E_NOT_FOUND : INFERD_DELEGATE_E_MEMORY;
	}
	struct mapping *mapping = map_file(fd, answer.n_bytes);
	close(fd);
	if (!mapping)
		return INFERD_DELEGATE_E_MEMORY;
	mapping->fd = -1;
	mapping->next = model->mappings;
	model->mappings = mapping;
	*ret_bytes = mapping->bytes;
	*ret_n_bytes = answer.n_bytes;
	return INFERD_DELEGATE_OK;
}

/* --- models ---------------------------------------------------------------------------------------------- */

/* What is free goes back to the kernel where a user's programs come and go: each is made on a thread of its own, so
 * the C library would keep some of every one. */
void et_hosted_model_free(struct model *model)
{
	bool is_strict = model->host->options.is_strict;
	if (model->plugin_model)
		model->host->table->destroy(model->plugin_model);
	free_mappings(model->mappings);
	free(model->pairs);
	free(model->pair_pointers);
	free(model);
	if (is_strict)
		malloc_trim(0);
}

bool et_hosted_model_put(struct model *model)
{
	if (--model->n_refs)
		return false;
	et_list_remove(&model->node);
	return true;
}

struct model *et_hosted_model_find(struct host *host, uint64_t id)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &host->models) {
		struct model *model = ET_CONTAINER_OF(node, struct model, node);
		if (model->id == id)
			return model;
	}
	return NULL;
}

/* Read the @n specs and options behind the payload. False: they are malformed, or there is no memory. */
static bool take_pairs(struct model *model, const uint8_t *bytes, uint64_t n_bytes, uint64_t n)
{
	uint64_t at = 0;
	if (n > n_bytes / 16)
		return false;
	model->pairs = calloc(n + 1, sizeof *model->pairs);
	model->pair_pointers = calloc(n + 1, sizeof *model->pair_pointers);
	if (!model->pairs || !model->pair_pointers)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t lengths[2];
		if (!et_in_range(at, sizeof lengths, n_bytes))
			return false;
		memcpy(lengths, bytes + at, sizeof lengths);
		at += sizeof lengths;
		uint64_t n_both = (uint64_t)lengths[0] + lengths[1] + 2;
		if (!et_in_range(at, n_both, n_bytes) || bytes[at + lengths[0]] || bytes[at + n_both - 1])
			return false;
		model->pairs[i] = (struct inferd_delegate_pair){ .struct_size = sizeof model->pairs[i],
			.key = (const char *)bytes + at,
			.value = bytes + at + lengths[0] + 1,
			.n_bytes = lengths[1] };
		model->pair_pointers[i] = &model->pairs[i];
		at += (n_both + 7) & ~UINT64_C(7);
	}
	return true;
}

/* Consumes @fd. NULL: @answer says why. */
static struct model *model_new(struct host *host, const struct et_plugin_init *init, int fd,
	struct et_plugin_answer *answer)
{
	struct model *model = calloc(1, sizeof *model);
	size_t payload, at, n_bytes;
	struct stat st;
	bool fits = et_align_up(init->n_payload_bytes, ET_PLUGIN_PAGE, &at) &&
		    et_add(init->n_pair_bytes ? at : init->n_payload_bytes, init->n_pair_bytes, &n_bytes) && fd >= 0 &&
		    fstat(fd, &st) == 0 && (uint64_t)st.st_size >= n_bytes;
	struct mapping *mapping = model && fits ? map_file(fd, n_bytes) : NULL;
	if (!mapping) {
		if (fd >= 0)
			close(fd);
		free(model);
		snprintf(answer->text, sizeof answer->text, "no memory for a payload of %llu bytes",
			(unsigned long long)init->n_payload_bytes);
		answer->result = INFERD_DELEGATE_E_MEMORY;
		return NULL;
	}
	payload = (size_t)init->n_payload_bytes;
	et_list_init(&model->node);
	model->id = init->model;
	model->n_refs = 1;
	model->host = host;
	model->mappings = mapping;
	model->call = init->header.id;
	memcpy(model->method, init->method, sizeof model->method - 1);
	if (!take_pairs(model, mapping->bytes + at, init->n_pair_bytes, (uint64_t)init->n_specs + init->n_options)) {
		snprintf(answer->text, sizeof answer->text, "compile specs or options did not arrive complete");
		answer->result = INFERD_DELEGATE_E_INTERNAL;
		et_hosted_model_free(model);
		return NULL;
	}
	model->payload = (struct inferd_delegate_payload){
		.struct_size = sizeof model->payload,
		.n_args = init->n_args,
		.bytes = mapping->bytes,
		.n_bytes = payload,
		.fd = mapping->fd,
		.n_specs = init->n_specs,
		.specs = model->pair_pointers,
		.method = model->method,
		.self = model,
		.named_data = named_data,
		.program = init->program,
		.options = model->pair_pointers + init->n_specs,
		.n_options = init->n_options,
	};
	return model;
}

void et_hosted_text(struct et_plugin_answer *answer, const struct inferd_delegate_message *message)
{
	memcpy(answer->text, message->text, sizeof answer->text);
	answer->text[sizeof answer->text - 1] = '\0';
}

/* Write the description of the program in @model into memory file @memory. */
static void describe(struct host *host, struct model *model, uint64_t memory, struct et_plugin_answer *answer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	uint8_t *bytes = NULL;
	size_t n_bytes = 0;
	answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
	if (host->options.describe)
		answer->result = (uint32_t)host->options.describe(host->self, &model->payload, &bytes, &n_bytes,
			&message);
	et_hosted_text(answer, &message);
	struct area *area = answer->result ? NULL : et_hosted_area_get(host, memory, 0, n_bytes, true, NO_DEVICE);
	if (!answer->result && !area)
		answer->result = INFERD_DELEGATE_E_LIMIT;
	if (area) {
		memcpy(area->mapping.bytes, bytes, n_bytes);
		answer->n_bytes = n_bytes;
		if (!et_hosted_area_put(host, area))
			answer->result = INFERD_DELEGATE_E_MEMORY;
	}
	free(bytes);
}

static void init_model(struct host *host, const struct et_plugin_init *init, int fd, struct et_plugin_answer *answer)
{
	struct inferd_delegate_message message = { .struct_size = sizeof message };
	struct inferd_delegate_model_info info = { .struct_size = sizeof info };
	struct model *model = model_new(host, init, fd, answer);
	if (!model)
		return;
	if (init->header.type == ET_PLUGIN_PROBE) {
		answer->result = (uint32_t)host->table->probe(host->self, &model->payload, &answer->readiness,
			&message);
		et_hosted_text(answer, &message);
		et_hosted_model_free(model);
		return;
	}
	if (init->header.type == ET_PLUGIN_DESCRIBE) {
		describe(host, model, init->model, answer);
		et_hosted_model_free(model);
		return;
	}
	answer->result = (uint32_t)host->table->init(host->self, &model->payload, &model->plugin_model, &info,
		&message);
	et_hosted_text(answer, &message);
	if (answer->result) {
		model->plugin_model = NULL;
		et_hosted_model_free(model);
		return;
	}
	if (info.flags & INFERD_DELEGATE_ON_THREADS) {
		answer->result = INFERD_DELEGATE_E_UNSUPPORTED;
		snprintf(answer->text, sizeof answer->text,
			"its instances need worker threads, which a host process does not have");
		et_hosted_model_free(model);
		return;
	}
	model->call = 0;
	answer->n_inputs = info.n_inputs;
	answer->n_outputs = info.n_outputs;
	answer->flags = info.flags;
	answer->device = model->device = info.device;
	answer->n_bytes = info.n_bytes;
	answer->scratch_bytes = info.scratch_bytes;
	answer->state_bytes = info.state_bytes;
	answer->shared_state_bytes = info.shared_state_bytes;
	if ((info.flags & INFERD_DELEGATE_DROPS_PAYLOAD)) {
		free_mappings(model->mappings);
		model->mappings = NULL;
		model->payload = (struct inferd_delegate_payload){ .struct_size = sizeof model->payload, .fd = -1 };
	}
	pthread_mutex_lock(&host->lock);
	et_list_append(&host->models, &model->node);
	pthread_mutex_unlock(&host->lock);
}

/* The engine of clients' programs takes all memory that it keeps from et_platform_allocator. */
void et_hosted_init(struct host *host, const struct et_plugin_init *init, int fd, struct et_plugin_answer *answer)
{
	if (host->options.is_strict && init->max_kib)
		et_platform_limit_heap((uint64_t)init->max_kib << 10);
	init_model(host, init, fd, answer);
	if (!et_platform_limit_heap(UINT64_MAX) || !answer->result || init->header.type == ET_PLUGIN_PROBE)
		return;
	answer->result = INFERD_DELEGATE_E_LIMIT;
	snprintf(answer->text, sizeof answer->text,
		"what is made of it takes more than the %lu KiB that are free for it", (unsigned long)init->max_kib);
}
