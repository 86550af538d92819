/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a profile as ETDump: one table per event; equal names are stored once.
 *
 * In a FlatBuffer a table lies before the objects that it refers to, and the file is written back to front. So the
 * code writes names first, then each event's two tables, then the list of events, the run, and the root. */
#include "runtime/profile/etdump.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 160 };

struct writing {
	struct et_fbw *w;
	const struct et_method_spec *method;
	et_fbw_ref *operators; /* names written so far; 0: not yet */
	et_fbw_ref others[ET_OP_FREE + 1];
};

static et_fbw_ref write_text(struct et_fbw *w, const char *text)
{
	return et_fbw_string(w, text, strlen(text));
}

/* "aten::add.out" becomes "native_call_add.out". */
static et_fbw_ref kernel_name(struct writing *writing, uint32_t op)
{
	char text[MAX_TEXT];
	if (writing->operators[op])
		return writing->operators[op];
	const char *name = writing->method->operators[op], *colons = strstr(name, "::");
	snprintf(text, sizeof text, "native_call_%.140s", colons ? colons + 2 : name);
	return writing->operators[op] = write_text(writing->w, text);
}

static et_fbw_ref instruction_name(struct writing *writing, uint32_t instruction)
{
	static const char *const names[] = {
		[ET_OP_DELEGATE] = "DELEGATE_CALL",
		[ET_OP_MOVE] = "MOVE_CALL",
		[ET_OP_JUMP_FALSE] = "JF_CALL",
		[ET_OP_FREE] = "FREE_CALL",
	};
	if (instruction >= writing->method->n_instructions)
		return 0;
	const struct et_instruction_spec *spec = &writing->method->instructions[instruction];
	if (spec->op == ET_OP_KERNEL)
		return kernel_name(writing, spec->index);
	et_fbw_ref *name = &writing->others[spec->op];
	if (!*name)
		*name = write_text(writing->w, names[spec->op]);
	return *name;
}

static et_fbw_ref part_name(struct et_fbw *w, const struct et_profile_event *event)
{
	char text[MAX_TEXT];
	snprintf(text, sizeof text, "%.120s #%" PRIu32, event->name, event->ordinal);
	return write_text(w, text);
}

static et_fbw_ref write_event(struct writing *writing, const struct et_profile_event *event)
{
	struct et_fbw *w = writing->w;
	bool is_part = event->kind == ET_PROFILE_PART, is_whole = event->kind == ET_PROFILE_SPAN;
	et_fbw_ref name = is_part    ? part_name(w, event)
			  : is_whole ? write_text(w, event->name)
				     : instruction_name(writing, event->instruction);
	et_fbw_ref metadata = is_part ? et_fbw_vector_u8(w, NULL, 0) : 0;
	et_fbw_table(w);
	et_fbw_add_u64(w, ET_ETDUMP_PROFILE_END, event->end_ns);
	et_fbw_add_u64(w, ET_ETDUMP_PROFILE_BEGIN, event->begin_ns);
	et_fbw_add_ref(w, ET_ETDUMP_PROFILE_METADATA, metadata);
	et_fbw_add_ref(w, is_part ? ET_ETDUMP_PROFILE_DELEGATE_TEXT : ET_ETDUMP_PROFILE_NAME, name);
	/* -1 means "none" for both */
	et_fbw_add_u32(w, ET_ETDUMP_PROFILE_INSTRUCTION, event->instruction);
	et_fbw_add_u32(w, ET_ETDUMP_PROFILE_CHAIN, is_whole ? UINT32_MAX : 0);
	et_fbw_ref profile = et_fbw_table_end(w);
	et_fbw_table(w);
	et_fbw_add_ref(w, ET_ETDUMP_EVENT_PROFILE, profile);
	return et_fbw_table_end(w);
}

static void write_all(struct writing *writing, const struct et_profile_event *events, uint32_t n, et_fbw_ref *refs,
	const uint8_t **ret_bytes, size_t *ret_n_bytes)
{
	struct et_fbw *w = writing->w;
	uint32_t n_refs = 0;
	for (uint32_t i = 0; i < n; i++)
		if (events[i].has_ended)
			refs[n_refs++] = write_event(writing, &events[i]);
	et_fbw_ref list = et_fbw_vector_refs(w, refs, n_refs);
	et_fbw_ref name = write_text(w, "Execute");
	et_fbw_table(w);
	et_fbw_add_ref(w, ET_ETDUMP_RUN_NAME, name);
	et_fbw_add_ref(w, ET_ETDUMP_RUN_EVENTS, list);
	et_fbw_ref run = et_fbw_table_end(w);
	et_fbw_ref runs = et_fbw_vector_refs(w, &run, 1);
	et_fbw_table(w);
	et_fbw_add_u32(w, ET_ETDUMP_VERSION, 0);
	et_fbw_add_ref(w, ET_ETDUMP_RUNS, runs);
	et_fbw_ref root = et_fbw_table_end(w);
	et_fbw_finish(w, root, "ED00", ret_bytes, ret_n_bytes);
}

size_t et_etdump_max_bytes(uint32_t max_events)
{
	/* Per event: references, a table of 56 bytes, one of 12, an empty vector and a name of its own, in a buffer
	 * that may be twice as large as necessary because it doubled last, next to the buffer from which it was
	 * copied. */
	return (size_t)max_events * (4 + 3 * (56 + 12 + 4 + 4 + MAX_TEXT)) + 65536;
}

enum et_status et_etdump_write(struct et_fbw *w, const struct et_profile *profile, const struct et_method_spec *method,
	const uint8_t **ret_bytes, size_t *ret_n_bytes)
{
	uint32_t n;
	const struct et_profile_event *events = et_profile_events(profile, &n);
	struct writing writing = { .w = w, .method = method };
	struct et_pool scratch;
	et_pool_init(&scratch, &w->allocator);
	writing.operators = ET_POOL_NEW_ARRAY(&scratch, et_fbw_ref, method->n_operators);
	et_fbw_ref *refs = ET_POOL_NEW_ARRAY(&scratch, et_fbw_ref, n);
	if (writing.operators && refs)
		write_all(&writing, events, n, refs, ret_bytes, ret_n_bytes);
	else
		w->status = ET_E_MEMORY_ALLOCATION_FAILED;
	et_pool_deinit(&scratch);
	return w->status;
}
