/* SPDX-License-Identifier: BSD-3-Clause */
/* Profile: how long each instruction of one run took, and each operator inside delegates.
 *
 * A profile is made for a request that asks for one, given to its run as a trace, and written as ETDump (etdump.h)
 * afterwards. Its memory grows during the run, up to a number of events; later events are only counted. One thread
 * at a time. */
#ifndef RUNTIME_PROFILE_PROFILE_H
#define RUNTIME_PROFILE_PROFILE_H

#include "runtime/base/alloc.h"
#include "runtime/trace.h"

#include <stdbool.h>

#define ET_PROFILE_WHOLE UINT32_MAX

enum et_profile_kind {
	ET_PROFILE_INSTRUCTION,
	ET_PROFILE_PART, /* part of the instruction: one operator inside a delegate */
	ET_PROFILE_SPAN, /* part of the whole request; `instruction` is ET_PROFILE_WHOLE */
};

struct et_profile_event {
	uint64_t begin_ns, end_ns; /* on the profile's clock. Parts follow each other from the instruction's begin. */
	const char *name;          /* NULL for an instruction */
	uint32_t instruction;
	uint32_t ordinal; /* of a part: the nth part of that name within its delegate call, from 1 */
	uint8_t kind;
	bool has_ended;
};

struct et_profile_options {
	const struct et_allocator *allocator;
	uint64_t (*now_ns)(void *self); /* a monotonic clock */
	void *clock;
	uint32_t max_events;
};

struct et_profile;

/* The most memory that a profile with @max_events takes, everything included. */
size_t et_profile_max_bytes(uint32_t max_events);

/* NULL: no memory. */
struct et_profile *et_profile_new(const struct et_profile_options *options);
/* NULL is fine; returns NULL. */
struct et_profile *et_profile_free(struct et_profile *profile);
/* The trace for et_run.trace; lives as long as @profile. */
const struct et_trace *et_profile_trace(const struct et_profile *profile);
/* Add an event about the request as a whole, e.g. "Method::execute". @name must outlive @profile. */
void et_profile_span(struct et_profile *profile, const char *name, uint64_t begin_ns, uint64_t end_ns);

/* The events, in order; and how many events there was no room for. */
const struct et_profile_event *et_profile_events(const struct et_profile *profile, uint32_t *ret_n);
uint64_t et_profile_n_lost(const struct et_profile *profile);

#endif
