/* SPDX-License-Identifier: BSD-3-Clause */
/* Host processes for the programs of clients.
 *
 * All models of the repository share one host process: the administrator who put them there has tried them. A
 * program that a client brings may crash the library with its payload, or take it over. So it runs in a host of
 * that client's user (the tenant), which is started when it is first needed, and ended when the user has had no
 * program there for a while. Such a host belongs to a backend of its own, whose parent is the configured backend.
 * Its crashes, its pauses and its shared memory are its own; parent and tenants share the device's queue.
 *
 * What must always be true: a tenant's host is given only memory that the tenant's own runs use, and a cache folder of
 * its own, which no other process reads and which goes when the tenant's last program does. Its crashes count for no
 * other tenant, nor for the parent. It never fails for good, since no administrator would notice and restart it:
 * max_crashes cost a pause of crash_window.
 *
 * Models and kernels that use a tenant's backend hold it (n_users). A backend without users keeps its crash
 * history, so that a tenant can't clear it by coming back, until its slot is needed for another tenant. */
#include "delegates/plugin/proxy/proxy_internal.h"

#include "runtime/platform/platform.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TENANTS = 64, MAX_HOSTS = 8 };

/* --- taking and putting ----------------------------------------------------------------------------- */

/* Called with tenants_lock: find an unused backend to free, with the shortest pause left; NULL: all are used. */
static struct et_backend *find_unused(struct et_backend *parent)
{
	struct et_backend *best = NULL;
	struct et_list_node *node, *after;
	uint64_t now_ns = et_platform_now_ns(NULL), best_ns = UINT64_MAX;
	ET_LIST_FOR_EACH(node, after, &parent->tenants) {
		struct et_backend *b = ET_CONTAINER_OF(node, struct et_backend, tenant_node);
		pthread_mutex_lock(&b->lock);
		uint64_t wait_ns = et_plugin_restart_wait_ns(&b->restart, now_ns);
		bool is_unused = !b->n_users && !b->process.is_running;
		pthread_mutex_unlock(&b->lock);
		if (!is_unused || wait_ns >= best_ns)
			continue;
		best = b;
		best_ns = wait_ns;
	}
	return best;
}

static void release(struct et_backend *b)
{
	et_list_remove(&b->tenant_node);
	b->parent->n_tenants--;
	et_plugin_backend_end(b);
}

/* Called with tenants_lock: make a backend for @tenant, in place of an unused one if there are too many. */
static struct et_backend *make(struct et_backend *parent, uint64_t tenant, struct et_diag *diag)
{
	char name[80];
	struct et_plugin_config config = parent->config;
	struct et_backend *b = parent->n_tenants < MAX_TENANTS ? NULL : find_unused(parent);
	if (b)
		release(b);
	if (parent->n_tenants >= MAX_TENANTS) {
		et_fail(diag, ET_E_OUT_OF_RESOURCES, "programs of %d users are on backend '%.60s' already", MAX_TENANTS,
			parent->ops.name);
		return NULL;
	}
	snprintf(name, sizeof name, "%.40s for user %" PRIu64, parent->ops.name, tenant - 1);
	config.name = name;
	config.cache_dir = NULL;
	b = et_plugin_backend_new(&config, parent->log, true, diag);
	if (!b)
		return NULL;
	b->parent = parent;
	b->tenant = tenant;
	b->runs_programs = parent->runs_programs;
	b->facts = parent->facts;
	b->max_in_flight = parent->max_in_flight;
	b->ops.id = b->facts.id;
	if (!et_plugin_kernels_copy(b, parent)) {
		et_plugin_backend_end(b);
		et_fail(diag, ET_E_MEMORY_ALLOCATION_FAILED, "out of memory");
		return NULL;
	}
	et_list_append(&parent->tenants, &b->tenant_node);
	parent->n_tenants++;
	return b;
}

enum et_status et_plugin_tenant_take(struct et_backend *b, uint64_t tenant, struct et_backend **ret_backend,
	struct et_diag *diag)
{
	struct et_backend *found = NULL;
	struct et_list_node *node, *after;
	*ret_backend = b;
	if (!tenant || b->config.isolation == ET_PLUGIN_IN_THREAD || b->config.tenancy == ET_PLUGIN_TOGETHER)
		return ET_OK;
	if (b->config.tenancy == ET_PLUGIN_REFUSED)
		return et_fail(diag, ET_E_NOT_SUPPORTED,
			"backend '%.60s' runs no programs that clients bring along (own_programs = refused)",
			b->ops.name);
	pthread_mutex_lock(&b->tenants_lock);
	ET_LIST_FOR_EACH(node, after, &b->tenants) {
		struct et_backend *other = ET_CONTAINER_OF(node, struct et_backend, tenant_node);
		if (other->tenant == tenant)
			found = other;
	}
	if (!found)
		found = make(b, tenant, diag);
	if (found) {
		pthread_mutex_lock(&found->lock);
		found->n_users++;
		pthread_mutex_unlock(&found->lock);
	}
	pthread_mutex_unlock(&b->tenants_lock);
	*ret_backend = found;
	return found ? ET_OK : ET_E_OUT_OF_RESOURCES;
}

void et_plugin_limit_tenant(struct et_backend *parent, uint64_t tenant, uint64_t n_bytes)
{
	struct et_list_node *node, *after;
	pthread_mutex_lock(&parent->tenants_lock);
	ET_LIST_FOR_EACH(node, after, &parent->tenants) {
		struct et_backend *b = ET_CONTAINER_OF(node, struct et_backend, tenant_node);
		if (b->tenant == tenant)
			et_plugin_limit_host(b, n_bytes);
	}
	pthread_mutex_unlock(&parent->tenants_lock);
}

uint64_t et_plugin_idle_end_ns(const struct et_backend *b)
{
	uint64_t idle_ns = b->config.idle_ns ? b->config.idle_ns : UINT64_C(10000000000);
	return b->parent && !b->n_users && b->phase == ET_PLUGIN_UP ? b->idle_since_ns + idle_ns : UINT64_MAX;
}

void et_plugin_tenant_put(struct et_backend *b)
{
	if (!b->parent)
		return;
	pthread_mutex_lock(&b->lock);
	if (--b->n_users == 0) {
		b->idle_since_ns = et_platform_now_ns(NULL);
		if (et_plugin_idle_end_ns(b) < b->sleep_until_ns) /* else the watcher wakes up before that */
			et_plugin_wake_watcher(b);
	}
	pthread_mutex_unlock(&b->lock);
}

/* --- how many --------------------------------------------------------------------------------------- */

enum et_status et_plugin_tenant_starts(struct et_backend *b, struct et_diag *diag)
{
	if (!b->parent)
		return ET_OK;
	uint32_t max = b->config.max_tenants ? b->config.max_tenants : MAX_HOSTS;
	if (atomic_fetch_add_explicit(&b->parent->n_hosts, 1, memory_order_relaxed) < max)
		return ET_OK;
	et_plugin_tenant_ended(b);
	return et_fail(diag, ET_E_OUT_OF_RESOURCES,
		"backend '%.60s' has processes for programs of %u users already (own_processes)", b->parent->ops.name,
		max);
}

void et_plugin_tenant_ended(struct et_backend *b)
{
	if (b->parent)
		atomic_fetch_sub_explicit(&b->parent->n_hosts, 1, memory_order_relaxed);
}

/* --- all of them ------------------------------------------------------------------------------------- */

void et_plugin_tenants_restart(struct et_backend *parent, struct et_diag *diag)
{
	struct et_list_node *node, *after;
	pthread_mutex_lock(&parent->tenants_lock);
	ET_LIST_FOR_EACH(node, after, &parent->tenants)
		et_plugin_restart(ET_CONTAINER_OF(node, struct et_backend, tenant_node), diag);
	pthread_mutex_unlock(&parent->tenants_lock);
}

/* Hold a tenant whose process is to end for a restart; NULL: there is none. */
static struct et_backend *hold_restarting(struct et_backend *parent)
{
	struct et_backend *found = NULL;
	struct et_list_node *node, *after;
	pthread_mutex_lock(&parent->tenants_lock);
	ET_LIST_FOR_EACH(node, after, &parent->tenants) {
		struct et_backend *b = ET_CONTAINER_OF(node, struct et_backend, tenant_node);
		pthread_mutex_lock(&b->lock);
		if (!found && b->is_restarting) {
			found = b;
			b->n_users++;
		}
		pthread_mutex_unlock(&b->lock);
	}
	pthread_mutex_unlock(&parent->tenants_lock);
	return found;
}

void et_plugin_tenants_await_restart(struct et_backend *parent)
{
	struct et_backend *b;
	while ((b = hold_restarting(parent)) != NULL) {
		et_plugin_await_restart(b);
		et_plugin_tenant_put(b);
	}
}

uint32_t et_plugin_tenants_end_stuck(struct et_backend *parent, uint64_t before_ns)
{
	struct et_list_node *node, *after;
	uint32_t n = 0;
	pthread_mutex_lock(&parent->tenants_lock);
	ET_LIST_FOR_EACH(node, after, &parent->tenants)
		n += et_plugin_end_stuck(ET_CONTAINER_OF(node, struct et_backend, tenant_node), before_ns);
	pthread_mutex_unlock(&parent->tenants_lock);
	return n;
}

void et_plugin_tenants_begin_ending(struct et_backend *parent)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &parent->tenants)
		et_plugin_begin_ending(ET_CONTAINER_OF(node, struct et_backend, tenant_node));
}

void et_plugin_tenants_end(struct et_backend *parent)
{
	struct et_list_node *node, *after;
	ET_LIST_FOR_EACH(node, after, &parent->tenants)
		release(ET_CONTAINER_OF(node, struct et_backend, tenant_node));
}

uint32_t et_plugin_tenant_states(struct et_backend *parent, struct et_plugin_state *ret_states, uint32_t max)
{
	struct et_list_node *node, *after;
	uint32_t n = 0;
	pthread_mutex_lock(&parent->tenants_lock);
	ET_LIST_FOR_EACH(node, after, &parent->tenants) {
		if (n < max)
			et_plugin_state(ET_CONTAINER_OF(node, struct et_backend, tenant_node), &ret_states[n]);
		n++;
	}
	pthread_mutex_unlock(&parent->tenants_lock);
	return n;
}
