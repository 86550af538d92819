/* SPDX-License-Identifier: BSD-3-Clause */
/* Convert an ETDump to a trace, and write either to a file.
 *
 * Both engines return an ETDump, so there is one conversion. It may come from a daemon, so it is untrusted, like every
 * file.
 *
 * Times in a trace are microseconds, as doubles. They count from the first event, because a double has only 53 bits and
 * would round nanoseconds since the machine's start. */
#include "clients/inferctl/profile.h"

#include "runtime/program/flatbuffer.h"
#include "runtime/profile/etdump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TRACK_REQUEST = 1, TRACK_INSTRUCTIONS, TRACK_PARTS };

struct event {
	struct et_fb_string name, part;
	int32_t instruction;
	uint64_t begin_ns, end_ns;
};

static struct event read_event(struct et_fb *fb, struct et_fb_vector events, uint32_t index)
{
	et_fb_where(fb, "event", index);
	struct et_fb_table table = et_fb_table(fb, et_fb_table_at(fb, events, index), ET_ETDUMP_EVENT_PROFILE);
	return (struct event){
		.name = et_fb_string(fb, table, ET_ETDUMP_PROFILE_NAME),
		.part = et_fb_string(fb, table, ET_ETDUMP_PROFILE_DELEGATE_TEXT),
		.instruction = et_fb_i32(fb, table, ET_ETDUMP_PROFILE_INSTRUCTION, -1),
		.begin_ns = et_fb_u64(fb, table, ET_ETDUMP_PROFILE_BEGIN, 0),
		.end_ns = et_fb_u64(fb, table, ET_ETDUMP_PROFILE_END, 0),
	};
}

static json_t *event_json(const struct event *event, uint64_t first_ns)
{
	struct et_fb_string name = event->part.chars ? event->part : event->name;
	json_t *text = json_stringn(name.chars ? name.chars : "", name.n), *json = json_object();
	json_object_set_new(json, "name", text ? text : json_string("(no UTF-8)"));
	json_object_set_new(json, "cat",
		json_string(event->part.chars         ? "operator"
			    : event->instruction >= 0 ? "instruction"
						      : "request"));
	json_object_set_new(json, "ph", json_string("X"));
	json_object_set_new(json, "ts", json_real((double)(event->begin_ns - first_ns) / 1e3));
	json_object_set_new(json, "dur", json_real((double)(event->end_ns - event->begin_ns) / 1e3));
	json_object_set_new(json, "pid", json_integer(1));
	json_object_set_new(json, "tid",
		json_integer(event->part.chars         ? TRACK_PARTS
			     : event->instruction >= 0 ? TRACK_INSTRUCTIONS
						       : TRACK_REQUEST));
	if (event->instruction >= 0)
		json_object_set_new(json, "args", json_pack("{s:i}", "instruction", event->instruction));
	return json;
}

static void name_track(json_t *list, const char *what, int track, const char *name)
{
	json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "ph", "M", "name", what, "pid", 1, "tid",
					    track, "args", "name", ctl_json_text(name)));
}

json_t *ctl_profile_json(const void *etdump, size_t n_bytes, const char *name, char *ret_error, size_t n_error)
{
	struct et_diag diag = { "" };
	struct et_fb fb;
	uint64_t first_ns = UINT64_MAX;
	bool has_prefix = n_bytes > ET_ETDUMP_PREFIX;
	struct et_fb_table root = et_fb_open(&fb, (const uint8_t *)etdump + (has_prefix ? ET_ETDUMP_PREFIX : 0),
		has_prefix ? n_bytes - ET_ETDUMP_PREFIX : 0, "ED00", &diag);
	struct et_fb_vector runs = et_fb_vector(&fb, root, ET_ETDUMP_RUNS, 4);
	struct et_fb_table run = runs.n ? et_fb_table_at(&fb, runs, 0) : (struct et_fb_table){ 0 };
	struct et_fb_vector events = et_fb_vector(&fb, run, ET_ETDUMP_RUN_EVENTS, 4);
	struct event *all = ctl_alloc(events.n, sizeof(*all));
	for (uint32_t i = 0; i < events.n && et_fb_status(&fb) == ET_OK; i++) {
		all[i] = read_event(&fb, events, i);
		if (all[i].end_ns < all[i].begin_ns)
			et_fb_fail(&fb, ET_E_INVALID_EXTERNAL_DATA, "an event ends before it begins");
		first_ns = all[i].begin_ns < first_ns ? all[i].begin_ns : first_ns;
	}
	if (et_fb_status(&fb) != ET_OK) {
		snprintf(ret_error, n_error, "the profile is not an ETDump: %s", diag.text);
		free(all);
		return NULL;
	}
	json_t *list = json_array();
	name_track(list, "process_name", 0, name);
	name_track(list, "thread_name", TRACK_REQUEST, "request");
	name_track(list, "thread_name", TRACK_INSTRUCTIONS, "instructions");
	name_track(list, "thread_name", TRACK_PARTS, "operators inside of delegates");
	for (uint32_t i = 0; i < events.n; i++)
		json_array_append_new(list, event_json(&all[i], first_ns));
	free(all);
	return json_pack("{s:s, s:o}", "displayTimeUnit", "ns", "traceEvents", list);
}

int ctl_profile_write(const char *path, const void *etdump, size_t n_bytes, const char *name)
{
	char error[400];
	size_t n = strlen(path);
	bool is_json = n > 5 && strcmp(path + n - 5, ".json") == 0, is_whole;
	json_t *json = is_json ? ctl_profile_json(etdump, n_bytes, name, error, sizeof(error)) : NULL;
	if (is_json && !json)
		return ctl_fail("--profile %s: %s", path, error);
	FILE *file = fopen(path, "we");
	is_whole = file && (is_json ? json_dumpf(json, file, JSON_INDENT(1)) == 0 && fputc('\n', file) != EOF
				    : fwrite(etdump, 1, n_bytes, file) == n_bytes);
	if (file && fclose(file) != 0)
		is_whole = false;
	json_decref(json);
	return is_whole ? CTL_OK : ctl_fail("--profile %s: %s", path, strerror(errno));
}
