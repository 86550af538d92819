/* SPDX-License-Identifier: BSD-3-Clause */
/* A profile: events appended to an array that doubles.
 *
 * A trace cannot fail: without memory, or beyond the limit, events are lost and counted, and the run continues as if
 * it were not measured. The names of instructions are not stored here; the Program has them (etdump.c). */
#include "runtime/profile/profile.h"

#include <string.h>

enum { FIRST_EVENTS = 256, MAX_NAME = 96, NAMES_CHUNK = 8192 };

struct et_profile {
	struct et_allocator allocator;
	struct et_trace trace;
	uint64_t (*now_ns)(void *self);
	void *clock;
	struct et_profile_event *events;
	uint32_t n, n_room, max;
	uint64_t n_lost;
	struct et_pool names;
	uint32_t last; /* the instruction whose operators may follow; none: ET_PROFILE_WHOLE */
	uint64_t part_ns;
};

/* Make room for one more event; false: it is lost. */
static bool make_room(struct et_profile *p)
{
	if (p->n < p->n_room)
		return true;
	uint32_t n_room = p->n_room ? p->n_room * 2 : FIRST_EVENTS;
	n_room = n_room < p->max ? n_room : p->max;
	struct et_profile_event *events = n_room > p->n ? p->allocator.alloc(p->allocator.self, n_room * sizeof *events,
								  _Alignof(struct et_profile_event))
							: NULL;
	if (!events) {
		p->n_lost++;
		return false;
	}
	if (p->n)
		memcpy(events, p->events, p->n * sizeof *events);
	p->allocator.free(p->allocator.self, p->events, p->n_room * sizeof *events);
	p->events = events;
	p->n_room = n_room;
	return true;
}

static void begin(void *self, uint32_t instruction)
{
	struct et_profile *p = self;
	p->last = ET_PROFILE_WHOLE;
	if (!make_room(p))
		return;
	struct et_profile_event *event = &p->events[p->n++];
	*event = (struct et_profile_event){ .instruction = instruction, .kind = ET_PROFILE_INSTRUCTION };
	event->begin_ns = p->now_ns(p->clock); /* read the clock as late as possible */
}

static void end(void *self, uint32_t instruction)
{
	struct et_profile *p = self;
	uint64_t now_ns = p->now_ns(p->clock); /* read the clock as early as possible */
	struct et_profile_event *event = p->n ? &p->events[p->n - 1] : NULL;
	if (!event || event->kind != ET_PROFILE_INSTRUCTION || event->has_ended || event->instruction != instruction)
		return; /* its begin was lost */
	event->end_ns = now_ns;
	event->has_ended = true;
	p->last = p->n - 1;
	p->part_ns = event->begin_ns;
}

/* The last event of the same delegate call with this name, or NULL. */
static const struct et_profile_event *find_part(const struct et_profile *p, const char *name)
{
	for (uint32_t i = p->n; i-- > p->last + 1;)
		if (strncmp(p->events[i].name, name, MAX_NAME) == 0)
			return &p->events[i];
	return NULL;
}

static void part(void *self, const char *name, uint64_t ns)
{
	struct et_profile *p = self;
	if (p->last == ET_PROFILE_WHOLE || !make_room(p)) {
		p->n_lost += p->last == ET_PROFILE_WHOLE;
		return;
	}
	const struct et_profile_event *before = find_part(p, name);
	const char *own = before ? before->name : et_pool_strndup(&p->names, name, strnlen(name, MAX_NAME));
	if (!own) {
		p->n_lost++;
		return;
	}
	p->events[p->n] = (struct et_profile_event){
		.begin_ns = p->part_ns,
		.end_ns = p->part_ns + ns,
		.name = own,
		.instruction = p->events[p->last].instruction,
		.ordinal = before ? before->ordinal + 1 : 1,
		.kind = ET_PROFILE_PART,
		.has_ended = true,
	};
	p->part_ns += ns;
	p->n++;
}

size_t et_profile_max_bytes(uint32_t max_events)
{
	/* the array, the smaller array from which it was copied, and one name per event */
	return sizeof(struct et_profile) + (size_t)max_events * (2 * sizeof(struct et_profile_event) + MAX_NAME + 1) +
	       NAMES_CHUNK;
}

struct et_profile *et_profile_new(const struct et_profile_options *options)
{
	const struct et_allocator *allocator = options->allocator;
	struct et_profile *p = allocator->alloc(allocator->self, sizeof *p, _Alignof(struct et_profile));
	if (!p)
		return NULL;
	*p = (struct et_profile){
		.allocator = *allocator,
		.trace = { .self = p, .begin = begin, .end = end, .part = part },
		.now_ns = options->now_ns,
		.clock = options->clock,
		.max = options->max_events,
		.last = ET_PROFILE_WHOLE,
	};
	et_pool_init(&p->names, allocator);
	return p;
}

struct et_profile *et_profile_free(struct et_profile *p)
{
	if (!p)
		return NULL;
	struct et_allocator allocator = p->allocator;
	et_pool_deinit(&p->names);
	allocator.free(allocator.self, p->events, p->n_room * sizeof *p->events);
	allocator.free(allocator.self, p, sizeof *p);
	return NULL;
}

const struct et_trace *et_profile_trace(const struct et_profile *p)
{
	return &p->trace;
}

void et_profile_span(struct et_profile *p, const char *name, uint64_t begin_ns, uint64_t end_ns)
{
	p->last = ET_PROFILE_WHOLE;
	if (!make_room(p))
		return;
	p->events[p->n++] = (struct et_profile_event){
		.begin_ns = begin_ns,
		.end_ns = end_ns,
		.name = name,
		.instruction = ET_PROFILE_WHOLE,
		.kind = ET_PROFILE_SPAN,
		.has_ended = true,
	};
}

const struct et_profile_event *et_profile_events(const struct et_profile *p, uint32_t *ret_n)
{
	*ret_n = p->n;
	return p->events;
}

uint64_t et_profile_n_lost(const struct et_profile *p)
{
	return p->n_lost;
}
