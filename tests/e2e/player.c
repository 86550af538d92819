/* SPDX-License-Identifier: BSD-3-Clause */
/* A random client. It sends and receives messages without libinferd, so that many requests of any kind can be in
 * flight. It knows its requests without a reply; a reply to any other request fails the test. */
#include "tests/e2e/player.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { N_SLOTS = 6, MAX_IDS = 1 << 17, MAX_OPEN = 48 };

struct player {
	struct e2e *e;
	const struct player_rules *rules;
	struct e2e_raw *raw;
	struct slot {
		uint64_t method, binding, region;
		bool is_dead;
		uint32_t model;
	} slots[N_SLOTS];
	uint8_t *is_open; /* by id: sent and not answered */
	uint32_t n_open;
};

static uint64_t seed;

void player_seed(uint64_t from)
{
	seed = from;
}

uint32_t player_below(uint32_t n)
{
	seed ^= seed << 13; /* xorshift64 */
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % n;
}

uint64_t player_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* --- sending and receiving ------------------------------------------------------------------------ */

static void tell(struct player *p, struct inf_request request)
{
	e2e_raw_send(p->raw, &request, -1);
	p->is_open[p->raw->last_id] = 1;
	p->n_open++;
}

/* False: the daemon hung up. */
static bool take_reply(struct player *p)
{
	struct inf_reply reply;
	if (!e2e_raw_receive(p->raw, &reply))
		return false;
	if (reply.id >= MAX_IDS || !p->is_open[reply.id])
		fail_msg("request %llu was answered twice, or never sent", (unsigned long long)reply.id);
	p->is_open[reply.id] = 0;
	p->n_open--;
	switch (reply.status) {
	case INF_OK:
	case INF_BUSY:
	case INF_CANCELLED:
	case INF_NOT_FOUND:
	case INF_MISSED_DEADLINE:
	case INF_STATE_LOST:
		return true;
	case INF_FAILED_PRECONDITION: /* a reset in a process has begun */
		if (strstr(reply.error, "cannot be cancelled any more"))
			return true;
		fail_msg("request %llu: %s", (unsigned long long)reply.id, reply.error);
		break;
	case INF_UNAVAILABLE:
		if (p->rules->are_unloaded)
			return true;
		__attribute__((fallthrough));
	default:
		fail_msg("request %llu: %s", (unsigned long long)reply.id, reply.error);
	}
	return true;
}

void player_drain(struct player *p)
{
	uint64_t last = p->raw->last_id, first = last > 4 * MAX_OPEN ? last - 4 * MAX_OPEN : 0;
	for (uint64_t id = first; id <= last; id++)
		if (p->is_open[id])
			tell(p, (struct inf_request){ .kind = INF_REQUEST_CANCEL, .cancel = { id } });
	while (p->n_open)
		if (!take_reply(p))
			fail_msg("the daemon hung up");
}

void player_outlive(struct player *p)
{
	while (take_reply(p))
		;
}

static void take_what_is_there(struct player *p)
{
	struct pollfd fd = { .fd = inf_channel_fd(&p->raw->channel), .events = POLLIN };
	while (p->n_open && poll(&fd, 1, 0) == 1)
		if (!take_reply(p))
			fail_msg("the daemon hung up");
	if (p->n_open > MAX_OPEN)
		player_drain(p);
}

/* --- coming and going ----------------------------------------------------------------------------- */

/* Nothing is on its way, so answers come in order. A model that is just being unloaded is asked for again. */
static void bind_slot(struct player *p, struct slot *slot)
{
	slot->model = player_below(p->rules->n_models);
	slot->is_dead = false;
	struct inf_request open = { .kind = INF_REQUEST_METHOD_OPEN,
		.method_open = { p->rules->models[slot->model], "", "", "", false } };
	for (;;) {
		struct inf_reply reply = e2e_raw_call(p->raw, open);
		if (reply.status == INF_UNAVAILABLE && p->rules->are_unloaded)
			continue;
		if (reply.status != INF_OK)
			fail_msg("%s", reply.error);
		slot->method = reply.method_opened.method;
		if (!slot->region) {
			struct inf_request create = { .kind = INF_REQUEST_REGION_CREATE, .region_create = { 4096 } };
			reply = e2e_raw_call(p->raw, create);
			assert_int_equal(reply.status, INF_OK);
			slot->region = reply.region_created.region;
		}
		struct inf_slot in = { .region = slot->region, .byte_size = 16 };
		struct inf_slot out = { .region = slot->region, .offset = 64, .byte_size = 16 };
		struct inf_request bind = { .kind = INF_REQUEST_BIND, .bind = { slot->method, 1, &in, 1, &out } };
		reply = e2e_raw_call(p->raw, bind);
		if (reply.status == INF_OK) {
			slot->binding = reply.bound.binding;
			return;
		}
		if (reply.status != INF_UNAVAILABLE || !p->rules->are_unloaded)
			fail_msg("%s", reply.error);
	}
}

static void join(struct player *p)
{
	p->raw = e2e_raw_new(p->e->socket, false);
	memset(p->is_open, 0, MAX_IDS);
	memset(p->slots, 0, sizeof(p->slots));
	p->n_open = 0;
	for (uint32_t i = 0; i < N_SLOTS; i++)
		bind_slot(p, &p->slots[i]);
}

struct player *player_new(struct e2e *e, const struct player_rules *rules)
{
	struct player *p = calloc(1, sizeof(*p));
	assert_non_null(p);
	p->is_open = calloc(MAX_IDS, 1);
	assert_non_null(p->is_open);
	p->e = e;
	p->rules = rules;
	join(p);
	return p;
}

void player_free(struct player *p)
{
	if (!p)
		return;
	e2e_raw_free(p->raw);
	free(p->is_open);
	free(p);
}

/* --- moves ---------------------------------------------------------------------------------------- */

static void move(struct player *p)
{
	struct slot *slot = &p->slots[player_below(N_SLOTS)];
	uint32_t what = player_below(100);
	uint64_t last = p->raw->last_id;
	if (what < 62) {
		bool is_timed = slot->model + p->rules->n_endless + p->rules->n_timed >= p->rules->n_models;
		uint64_t timeout_us = is_timed || player_below(3) == 0 ? 1 + player_below(2000) : 0;
		tell(p, (struct inf_request){ .kind = INF_REQUEST_INFER,
				.infer = { slot->binding, (enum inf_priority)player_below(4), timeout_us, 0, NULL } });
	} else if (what < 78) {
		tell(p, (struct inf_request){
				.kind = INF_REQUEST_CANCEL, .cancel = { last - player_below(last < 8 ? 1 : 8) } });
	} else if (what < 84) {
		tell(p, (struct inf_request){ .kind = INF_REQUEST_UNBIND, .unbind = { slot->binding } });
		slot->is_dead = true;
	} else if (what < 87) {
		tell(p, (struct inf_request){ .kind = INF_REQUEST_METHOD_CLOSE, .method_close = { slot->method } });
		slot->is_dead = true;
	} else if (what < 92) {
		tell(p, (struct inf_request){ .kind = INF_REQUEST_METHOD_RESET, .method_reset = { slot->method } });
	} else if (what < 94) {
		e2e_raw_free(p->raw);
		join(p);
	} else if (slot->is_dead || p->rules->are_unloaded) {
		player_drain(p);
		bind_slot(p, slot);
	}
}

void player_step(struct player *p)
{
	move(p);
	take_what_is_there(p);
	if (p->raw->last_id > MAX_IDS - 1000) {
		e2e_raw_free(p->raw);
		join(p);
	}
}
