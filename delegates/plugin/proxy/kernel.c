/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators that a plug-in brings along, as kernels of the runtime that run in the host process.
 *
 * Each kernel has one instance and a lock. The worker's thread waits for the run: kernels are small. A tenant's
 * backend has kernels of its own. A Plan that uses them holds that backend and its process as long as it exists
 * (kernel_hold), so that no run has to start one. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "delegates/inferd-delegate.h"
#include "runtime/kernel.h"

#include <stdlib.h>
#include <string.h>

struct et_plugin_kernel {
	struct et_backend *backend;
	uint32_t index, n_args, n_outputs;
	pthread_mutex_t lock;
	struct et_instance *instance; /* used by one run at a time */
};

static enum et_status kernel_run(struct et_kernel_ctx *ctx, struct et_evalue *const *args)
{
	struct et_plugin_kernel *k = (struct et_plugin_kernel *)(uintptr_t)ctx->kernel->row;
	struct et_backend *b;
	enum et_status status = et_plugin_tenant_take(k->backend, ctx->tenant, &b, ctx->diag);
	if (status)
		return status;
	k = &b->kernels[k - k->backend->kernels];
	pthread_mutex_lock(&k->lock);
	if (!k->instance)
		status = et_plugin_instance_make(b, NULL, k->index, k->n_args, &k->instance, ctx->diag);
	if (!status)
		status = et_plugin_run_and_wait(k->instance, args, k->n_args - k->n_outputs, 0, ctx->diag);
	pthread_mutex_unlock(&k->lock);
	et_plugin_tenant_put(b);
	return status;
}

static enum et_status kernel_hold(const struct et_kernel *kernel, uint64_t tenant, void **ret_held,
	struct et_diag *diag)
{
	struct et_backend *b;
	uint64_t generation;
	enum et_status status = et_plugin_tenant_take(et_plugin_of_kernel(kernel), tenant, &b, diag);
	if (status)
		return status;
	if (b->parent)
		status = et_plugin_ensure_host(b, &generation, diag);
	if (status) {
		et_plugin_tenant_put(b);
		return status == ET_E_OUT_OF_RESOURCES ? status : ET_E_BACKEND_DOWN; /* as for payloads */
	}
	*ret_held = b;
	return ET_OK;
}

static void kernel_release(void *held)
{
	et_plugin_tenant_put(held);
}

struct et_backend *et_plugin_of_kernel(const struct et_kernel *kernel)
{
	return kernel->run == kernel_run ? ((const struct et_plugin_kernel *)kernel->row)->backend : NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct et_kernel *)a)->name, ((const struct et_kernel *)b)->name);
}

enum et_status et_plugin_kernels_init(struct et_backend *b, struct et_diag *diag)
{
	uint32_t n = b->facts.n_kernels;
	enum { ROOM = 256 };
	if (!n)
		return ET_OK;
	b->kernels = calloc(n, sizeof *b->kernels);
	b->rows = calloc(n, sizeof *b->rows);
	b->kernel_names = calloc(n, 2 * ROOM);
	if (!b->kernels || !b->rows || !b->kernel_names)
		return et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "no memory for a plug-in's operators");
	for (uint32_t i = 0; i < n; i++) {
		struct et_plugin_handle handle = { .header = { ET_PLUGIN_KERNEL, sizeof handle, 0 }, .instance = i };
		struct et_plugin_answer answer;
		struct et_kernel_arg how[ET_KERNEL_MAX_ARGS];
		char *name = b->kernel_names + (size_t)i * 2 * ROOM, *signature = name + ROOM;
		enum et_status status = et_plugin_ask(b, b->generation, &handle, -1, &answer, sizeof answer, NULL,
			diag);
		if (status)
			return status;
		memcpy(name, answer.text, sizeof answer.text - 1);
		memcpy(signature, answer.signature, sizeof answer.signature - 1);
		int n_args = et_kernel_signature(signature, how, ET_KERNEL_MAX_ARGS);
		const char *outputs = strchr(signature, '>');
		if (n_args < 0 || !outputs || answer.result)
			return et_fail(diag, ET_E_NOT_FOUND,
				"kernel '%.64s' of the plug-in has a signature that can't be read", name);
		b->kernels[i] = (struct et_plugin_kernel){
			.backend = b, .index = i, .n_args = (uint32_t)n_args, .n_outputs = (uint32_t)strlen(outputs + 1)
		};
		pthread_mutex_init(&b->kernels[i].lock, NULL);
		b->rows[i] = (struct et_kernel){ .name = name,
			.signature = signature,
			.run = kernel_run,
			.row = &b->kernels[i],
			.is_elsewhere = true,
			.hold = kernel_hold,
			.release = kernel_release };
		b->table.n = i + 1;
	}
	qsort(b->rows, n, sizeof *b->rows, by_name);
	b->table.kernels = b->rows;
	return ET_OK;
}

bool et_plugin_kernels_copy(struct et_backend *b, const struct et_backend *from)
{
	b->kernels = calloc(from->table.n + 1, sizeof *b->kernels);
	for (size_t i = 0; b->kernels && i < from->table.n; i++) {
		/* only what never changes is copied: a worker may be using @k, its lock and its instance */
		const struct et_plugin_kernel *k = &from->kernels[i];
		b->kernels[i] = (struct et_plugin_kernel){
			.backend = b, .index = k->index, .n_args = k->n_args, .n_outputs = k->n_outputs
		};
		pthread_mutex_init(&b->kernels[i].lock, NULL);
		b->table.n = i + 1;
	}
	return b->kernels;
}

void et_plugin_kernels_deinit(struct et_backend *b)
{
	for (size_t i = 0; i < b->table.n; i++) {
		if (b->kernels[i].instance)
			et_plugin_ops.instance_free(b->kernels[i].instance);
		pthread_mutex_destroy(&b->kernels[i].lock);
	}
	free(b->kernels);
	free(b->rows);
	free(b->kernel_names);
}
