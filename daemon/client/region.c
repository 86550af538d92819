/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions of clients: making one, registering a client's own, listing, naming and dropping them.
 *
 * A region costs its user a region, a descriptor and its bytes. They are charged before the region is made, and
 * discharged when its memory is free: not when the client drops it, since a running request may still read it. Ids
 * and names belong to one connection. ipc/region.c decides whether memory that a client passes can be shared, and
 * binding.c checks the slots that lie in it. */
#include "daemon/client/region.h"

#include "daemon/context.h"
#include "daemon/client/session.h"
#include "daemon/base/text.h"
#include "runtime/platform/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { N_CHARGES = 3 };

static void set_charges(struct inf_charge charges[N_CHARGES], uint64_t n_bytes)
{
	charges[0] = (struct inf_charge){ INF_QUOTA_REGIONS, 1 };
	charges[1] = (struct inf_charge){ INF_QUOTA_FDS, 1 };
	charges[2] = (struct inf_charge){ INF_QUOTA_BYTES, n_bytes };
}

static bool charge(struct inf_session *s, uint64_t id, uint64_t n_bytes)
{
	struct inf_charge charges[N_CHARGES];
	char why[400];
	set_charges(charges, n_bytes);
	bool fits = inf_quota_charge_all(s->user, charges, N_CHARGES, why, sizeof(why));
	if (!fits)
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "%s", why);
	return fits;
}

static void discharge(struct inf_quota_user *user, uint64_t n_bytes)
{
	struct inf_charge charges[N_CHARGES];
	set_charges(charges, n_bytes);
	inf_quota_discharge_all(user, charges, N_CHARGES);
}

/* The memory is free: discharge it. */
static void gone(void *arg)
{
	struct inf_client_region *c = arg;
	discharge(c->user, c->n_bytes);
	inf_quota_user_unref(c->user);
	free(c);
}

struct inf_client_region *inf_client_region_unref(struct inf_client_region *c)
{
	if (!c || --c->n_refs)
		return NULL;
	inf_shared_remove(&c->shared, &c->context->backends.registry);
	inf_repository_release_async_region(c->context->repository, c->region, gone, c);
	return NULL;
}

static void refuse(struct inf_session *s, uint64_t id, uint64_t n_bytes, int rc)
{
	discharge(s->user, n_bytes);
	if (rc < 0)
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "can't make a region of %" PRIu64 " bytes: %s",
			n_bytes, strerror(-rc));
	else
		inf_session_refuse(s, id,
			rc == INF_REGION_E_SIZE || rc == INF_REGION_E_TYPE ? INF_INVALID_ARGUMENT
									   : INF_FAILED_PRECONDITION,
			"%s", inf_region_error_text(rc));
}

/* Hand the new region and its charge to the session. NULL: both were given back, and the request was refused. */
static struct inf_client_region *keep(struct inf_session *s, uint64_t id, struct inf_region *region, uint64_t n_bytes,
	const char *name)
{
	struct inf_client_region *c = calloc(1, sizeof(*c));
	if (!c) {
		inf_region_unref(region);
		discharge(s->user, n_bytes);
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return NULL;
	}
	c->n_refs = 1;
	c->n_bytes = n_bytes;
	c->region = region;
	c->context = s->context;
	c->user = s->user;
	c->user->n_refs++;
	inf_text(c->name, sizeof(c->name), "%s", name);
	c->id = inf_table_add(&s->regions, c);
	if (!c->id) {
		inf_client_region_unref(c);
		inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return NULL;
	}
	s->region_bytes += n_bytes;
	inf_shared_add(&c->shared, &s->context->backends.registry, region->fd, region->mapping.bytes,
		region->mapping.n_bytes);
	return c;
}

void inf_client_region_create(struct inf_session *s, const struct inf_request *r)
{
	uint64_t n_bytes = r->region_create.byte_size;
	struct inf_region *region;
	if (!charge(s, r->id, n_bytes))
		return;
	int rc = inf_region_create(&region, n_bytes, et_platform_allocator());
	if (rc) {
		refuse(s, r->id, n_bytes, rc);
		return;
	}
	struct inf_client_region *c = keep(s, r->id, region, n_bytes, "");
	if (!c)
		return;
	struct inf_reply reply = { .id = r->id, .kind = INF_REPLY_REGION_CREATED };
	reply.region_created = (struct inf_region_created){ c->id, n_bytes };
	inf_session_reply_fd(s, &reply, region->fd);
}

struct inf_client_region *inf_client_region_find(const struct inf_session *s, uint64_t id)
{
	return inf_table_find(&s->regions, id);
}

static struct inf_client_region *find_by_name(struct inf_session *s, const char *name)
{
	struct inf_client_region *c;
	for (uint32_t at = 0; name[0] && (c = inf_table_next(&s->regions, &at));)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

void inf_client_region_register(struct inf_session *s, const struct inf_request *r, int fd)
{
	const struct inf_region_register *m = &r->region_register;
	struct inf_region *region;
	if (m->offset || find_by_name(s, m->name)) {
		inf_session_close_fds(s, &fd, 1);
		if (m->offset)
			inf_session_refuse(s, r->id, INF_INVALID_ARGUMENT,
				"offset must be 0: a region is a whole memory file; give offsets when "
				"binding");
		else
			inf_session_refuse(s, r->id, INF_INVALID_ARGUMENT, "there is a region '%s' already", m->name);
		return;
	}
	if (!charge(s, r->id, m->byte_size)) {
		inf_session_close_fds(s, &fd, 1);
		return;
	}
	int rc = inf_region_import(&region, fd, m->byte_size, et_platform_allocator());
	if (rc) {
		inf_session_close_fds(s, &fd, 1);
		refuse(s, r->id, m->byte_size, rc);
		return;
	}
	struct inf_client_region *c = keep(s, r->id, region, m->byte_size, m->name);
	if (!c)
		return;
	struct inf_reply reply = { .id = r->id, .kind = INF_REPLY_REGION_CREATED };
	reply.region_created = (struct inf_region_created){ c->id, m->byte_size };
	inf_session_reply(s, &reply);
}

static void drop(struct inf_session *s, struct inf_client_region *c)
{
	inf_table_remove(&s->regions, c->id);
	s->region_bytes -= c->n_bytes;
	inf_client_region_unref(c);
}

void inf_client_region_drop_all(struct inf_session *s)
{
	struct inf_client_region *c;
	for (uint32_t at = 0; (c = inf_table_next(&s->regions, &at));)
		drop(s, c);
}

void inf_client_region_unregister(struct inf_session *s, const struct inf_request *r)
{
	const struct inf_region_unregister *m = &r->region_unregister;
	struct inf_client_region *c = m->region ? inf_client_region_find(s, m->region) : find_by_name(s, m->name);
	if (!c && (m->region || m->name[0])) {
		inf_session_refuse(s, r->id, INF_NOT_FOUND, "no region %" PRIu64 " '%s' on this connection", m->region,
			m->name);
		return;
	}
	if (c)
		drop(s, c);
	else
		inf_client_region_drop_all(s);
	inf_session_ok(s, r->id);
}

void inf_client_region_status(struct inf_session *s, const struct inf_request *r)
{
	struct inf_reply reply = { .id = r->id, .kind = INF_REPLY_REGION_STATUS };
	struct inf_region_info *infos = calloc(s->regions.n_used + 1, sizeof(*infos));
	struct inf_client_region *c;
	size_t n = 0;
	if (!infos) {
		inf_session_refuse(s, r->id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
		return;
	}
	for (uint32_t at = 0; (c = inf_table_next(&s->regions, &at));)
		if (!r->region_status.name[0] || strcmp(c->name, r->region_status.name) == 0)
			infos[n++] = (struct inf_region_info){
				.name = c->name, .key = "", .byte_size = c->n_bytes, .region = c->id
			};
	reply.region_status = (struct inf_region_status){ n, infos };
	inf_session_reply(s, &reply);
	free(infos);
}
