/* SPDX-License-Identifier: BSD-3-Clause */
/* Plays a script against the scheduler on a virtual clock and checks what it expects.
 *
 * A file holds scenarios; `#` begins a comment. Times are in milliseconds of the virtual clock.
 *     scenario WORDS                begins a scenario, with an empty queue
 *     workers N [all-cores]         how many cores (default 1); `all-cores`: a lone request may take all
 *     age T                         (default 1000)
 *     user NAME weight=N            a user with connections
 *     flow NAME [user=U] [weight=N] a connection; without user= it has a user of its own, of the same weight (default
 *                                   1); so has a connection that no `flow` declares
 *     t=T submit NAME [flow=F] [class=C] [cost=T] [guess=T] [deadline=T] [stream=S] [single-core] [steps=N]
 *                   [all-cores-cost=T] [all-cores-max=T]
 *                                   cost: how long it runs on one core; guess: what the scheduler is told (default:
 *                                   the cost); deadline: absolute; steps: instructions, of equal length (default 1),
 *                                   between which it yields as a worker's run does: to a higher class, and to any
 *                                   request if it has all cores; all-cores-cost: how long it runs on all cores
 *                                   (default: its cost, shared evenly); all-cores-max: the time after which it gives
 *                                   them up
 *     t=T saturate F [class=C] [cost=T] [guess=T] [n=N] [until=T] [steps=N]
 *                                   client F keeps N requests in flight until then (default 1, 1000)
 *     t=T cancel NAME
 *     expect order NAME...          exactly these ran, and began in this order
 *     expect start NAME T           it began at T
 *     expect before NAME T          it began before T
 *     expect end NAME T
 *     expect missed NAME T          it expired at the next look and never ran
 *     expect cancelled NAME
 *     expect all-cores NAME, expect single-core NAME   in its first segment
 *     expect cores NAME TEXT        a letter for each segment: a (all cores) or s (a single one)
 *     expect share F PERCENT TOLERANCE   of the time used by all saturating clients; user=U: of user U
 * script.c says what `each`, `for` and braces do to these lines.
 * Every scenario also holds: each request ends exactly once, no core is used twice, the requests of a stream neither
 * overlap nor overtake each other, nothing is left over. */
#include "daemon/queue/scheduler.h"
#include "tests/scenario/script.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_REQUESTS = 20000,
	MAX_FLOWS = 64,
	MAX_STREAMS = 64,
	MAX_WORKERS = 64,
	MAX_EXPECTS = 256,
	MAX_NAME = 24,
	MAX_SEGMENTS = 24
};

enum fate { FATE_NONE, FATE_DONE, FATE_MISSED, FATE_CANCELLED };

struct request {
	struct inf_item item;
	char name[MAX_NAME];
	uint64_t at, cost, guess, cancel_at, start, end;
	uint64_t all_cores_cost; /* 0: its cost, shared evenly */
	enum fate fate;
	bool was_all_cores; /* in its first segment */
	int loop;           /* index of the saturating client, or -1 */
	unsigned order;
	unsigned n_steps, n_done;
	uint64_t begun; /* the segment */
	char cores[MAX_SEGMENTS + 1];
	unsigned n_segments;
};

struct loop {
	unsigned flow;
	enum inf_class priority_class;
	uint64_t at, cost, guess, until, used;
	unsigned n, n_steps;
};

static struct play {
	char title[128];
	struct inf_sched_options options;
	struct inf_sched sched;
	struct request requests[MAX_REQUESTS];
	unsigned n_requests, n_started;
	struct inf_group groups[MAX_FLOWS];
	char group_names[MAX_FLOWS][MAX_NAME];
	unsigned n_groups;
	struct inf_flow flows[MAX_FLOWS];
	unsigned flow_groups[MAX_FLOWS];
	char flow_names[MAX_FLOWS][MAX_NAME];
	unsigned n_flows;
	struct inf_stream streams[MAX_STREAMS];
	char stream_names[MAX_STREAMS][MAX_NAME];
	unsigned n_streams;
	struct loop loops[MAX_FLOWS];
	unsigned n_loops;
	struct {
		char text[160];
		unsigned line;
	} expects[MAX_EXPECTS];
	unsigned n_expects;
	struct request *workers[MAX_WORKERS];
	unsigned first_open; /* all requests before it are over */
} play;

static unsigned n_failures;

__attribute__((format(printf, 2, 3))) static void failed(unsigned line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("%s:%u: [%s] ", script_name, line, play.title);
	vprintf(format, args);
	printf("\n");
	va_end(args);
	n_failures++;
}

/* --- reading -------------------------------------------------------------------------------------- */

static unsigned take_name(char (*names)[MAX_NAME], unsigned *n, unsigned max, const char *name, bool *ret_new)
{
	*ret_new = false;
	for (unsigned i = 0; i < *n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	if (*n == max)
		script_bad_line("too many names");
	snprintf(names[*n], MAX_NAME, "%s", name);
	*ret_new = true;
	return (*n)++;
}

static unsigned take_group(const char *name)
{
	bool is_new;
	unsigned i = take_name(play.group_names, &play.n_groups, MAX_FLOWS, name, &is_new);
	if (is_new)
		inf_group_init(&play.groups[i], 1);
	return i;
}

/* @user: NULL for one of its own. */
static unsigned take_flow(const char *name, const char *user, uint32_t weight)
{
	bool is_new;
	unsigned i = take_name(play.flow_names, &play.n_flows, MAX_FLOWS, name, &is_new);
	if (is_new) {
		play.flow_groups[i] = take_group(user ? user : name);
		if (!user)
			inf_group_set_weight(&play.groups[play.flow_groups[i]], weight);
		inf_flow_init(&play.flows[i], &play.groups[play.flow_groups[i]], weight);
	}
	return i;
}

static struct inf_stream *take_stream(const char *name)
{
	bool is_new;
	unsigned i = take_name(play.stream_names, &play.n_streams, MAX_STREAMS, name, &is_new);
	if (is_new)
		inf_stream_init(&play.streams[i]);
	return &play.streams[i];
}

static struct request *find_request(const char *name)
{
	for (unsigned i = 0; i < play.n_requests; i++)
		if (strcmp(play.requests[i].name, name) == 0)
			return &play.requests[i];
	return NULL;
}

static enum inf_class class_of(const char *name)
{
	for (int i = 0; i < INF_N_CLASSES; i++)
		if (strcmp(inf_class_name((enum inf_class)i), name) == 0)
			return (enum inf_class)i;
	script_bad_line("no such class");
}

static struct request *new_request(unsigned flow, enum inf_class priority_class, uint64_t at, uint64_t cost)
{
	if (play.n_requests == MAX_REQUESTS)
		script_bad_line("too many requests");
	struct request *r = &play.requests[play.n_requests++];
	memset(r, 0, sizeof(*r));
	r->item.flow = &play.flows[flow];
	r->item.priority_class = priority_class;
	r->at = at;
	r->cost = r->guess = cost;
	r->cancel_at = UINT64_MAX;
	r->loop = -1;
	r->n_steps = 1;
	return r;
}

static void new_looped(int index, uint64_t at)
{
	const struct loop *loop = &play.loops[index];
	struct request *r = new_request(loop->flow, loop->priority_class, at, loop->cost);
	r->guess = loop->guess;
	r->n_steps = loop->n_steps;
	r->loop = index;
}

static const char *after(const char *word, const char *prefix)
{
	size_t n = strlen(prefix);
	return strncmp(word, prefix, n) == 0 ? word + n : NULL;
}

static void read_event(uint64_t at, char **words, unsigned n)
{
	const char *flow = "a", *stream = NULL, *value;
	bool prefers_single_core = false;
	enum inf_class priority_class = INF_CLASS_INTERACTIVE;
	uint64_t cost = 1, guess = UINT64_MAX, deadline = 0, until = 1000, count = 1, steps = 1;
	uint64_t all_cores_cost = 0, all_cores_max = 0;
	if (n < 2)
		script_bad_line("an event needs a verb and a name");
	if (strcmp(words[0], "cancel") == 0) {
		struct request *r = find_request(words[1]);
		if (!r)
			script_bad_line("cancels what was never submitted");
		r->cancel_at = at;
		return;
	}
	for (unsigned i = 2; i < n; i++) {
		if ((value = after(words[i], "flow=")))
			flow = value;
		else if ((value = after(words[i], "class=")))
			priority_class = class_of(value);
		else if ((value = after(words[i], "cost=")))
			cost = script_number(value);
		else if ((value = after(words[i], "guess=")))
			guess = script_number(value);
		else if ((value = after(words[i], "deadline=")))
			deadline = script_number(value);
		else if ((value = after(words[i], "stream=")))
			stream = value;
		else if ((value = after(words[i], "until=")))
			until = script_number(value);
		else if (strcmp(words[i], "single-core") == 0)
			prefers_single_core = true;
		else if ((value = after(words[i], "all-cores-cost=")))
			all_cores_cost = script_number(value);
		else if ((value = after(words[i], "all-cores-max=")))
			all_cores_max = script_number(value);
		else if ((value = after(words[i], "n=")))
			count = script_number(value);
		else if ((value = after(words[i], "steps=")))
			steps = script_number(value);
		else
			script_bad_line("unknown word");
	}
	if (strcmp(words[0], "submit") == 0) {
		struct request *r = new_request(take_flow(flow, NULL, 1), priority_class, at, cost);
		snprintf(r->name, sizeof(r->name), "%s", words[1]);
		r->item.deadline_ns = deadline;
		r->item.prefers_single_core = prefers_single_core;
		r->item.all_cores_max_ns = all_cores_max;
		r->all_cores_cost = all_cores_cost;
		r->item.stream = stream ? take_stream(stream) : NULL;
		r->n_steps = (unsigned)steps;
		if (guess != UINT64_MAX)
			r->guess = guess;
	} else if (strcmp(words[0], "saturate") == 0) {
		struct loop *loop = &play.loops[play.n_loops++];
		guess = guess == UINT64_MAX ? cost : guess;
		*loop = (struct loop){ take_flow(words[1], NULL, 1), priority_class, at, cost, guess, until, 0,
			(unsigned)count, (unsigned)steps };
		for (unsigned i = 0; i < loop->n; i++)
			new_looped((int)play.n_loops - 1, at);
	} else {
		script_bad_line("unknown verb");
	}
}

/* --- playing -------------------------------------------------------------------------------------- */

static void end(struct request *r, uint64_t now, enum fate fate)
{
	if (r->fate)
		failed(script_line, "%s ended twice", r->name);
	r->fate = fate;
	r->end = now;
	if (r->loop >= 0 && now < play.loops[r->loop].until && fate != FATE_CANCELLED)
		new_looped(r->loop, now);
}

static uint64_t cores_of(const struct request *r)
{
	return r->item.is_all_cores ? play.options.n_workers : 1;
}

/* When its next step ends. */
static uint64_t end_of_step(const struct request *r, uint64_t now)
{
	bool is_slow = r->item.is_all_cores && r->all_cores_cost;
	uint64_t cores = is_slow ? 1 : cores_of(r), whole = is_slow ? r->all_cores_cost : r->cost;
	uint64_t cost = whole * (r->n_done + 1) / r->n_steps - whole * r->n_done / r->n_steps;
	return now + (cost + cores - 1) / cores;
}

/* Like should_yield and should_yield_all_cores in daemon/queue/worker.c. */
static bool should_yield(struct request *r, uint64_t now)
{
	if (r->item.is_all_cores && play.sched.n_waiting)
		return true;
	if (r->item.is_all_cores && r->item.all_cores_max_ns && now - r->begun >= r->item.all_cores_max_ns) {
		r->item.prefers_single_core = true;
		return true;
	}
	for (int priority_class = 0; priority_class < (int)r->item.priority_class; priority_class++)
		if (!et_list_is_empty(&play.sched.classes[priority_class]))
			return true;
	return false;
}

static void finish(unsigned worker, uint64_t now)
{
	struct request *r = play.workers[worker];
	bool is_over = ++r->n_done == r->n_steps;
	if (!is_over && !should_yield(r, now)) {
		r->end = end_of_step(r, now);
		return;
	}
	uint64_t used = (now - r->begun) * cores_of(r);
	play.workers[worker] = NULL;
	if (r->loop >= 0)
		play.loops[r->loop].used += used;
	inf_sched_leave(&play.sched, &r->item, used);
	if (!is_over) {
		inf_sched_resubmit(&play.sched, &r->item, now);
		return;
	}
	inf_sched_end_of_stream_item(&play.sched, &r->item, now);
	end(r, now, FATE_DONE);
}

/* No request of its stream runs, and all that came before it have ended. */
static void check_stream(const struct request *r)
{
	for (unsigned i = 0; r->item.stream && i < play.n_requests; i++) {
		const struct request *other = &play.requests[i];
		if (other != r && other->item.stream == r->item.stream && !other->fate &&
			(other->at < r->at || (other->at == r->at && other < r)))
			failed(script_line, "%s runs before %s of the same stream has ended", r->name, other->name);
	}
}

static void start(unsigned worker, struct request *r, uint64_t now)
{
	bool is_first = r->start == UINT64_MAX;
	if (r->fate || r->n_done == r->n_steps)
		failed(script_line, "%s runs though it ended", r->name);
	if (r->item.deadline_ns && r->item.deadline_ns <= now)
		failed(script_line, "%s runs after its deadline", r->name);
	if (is_first) {
		r->start = now;
		r->was_all_cores = r->item.is_all_cores;
		r->order = play.n_started++;
	}
	r->begun = now;
	r->end = end_of_step(r, now);
	if (r->n_segments < MAX_SEGMENTS)
		r->cores[r->n_segments++] = r->item.is_all_cores ? 'a' : 's';
	check_stream(r);
	play.workers[worker] = r;
	unsigned used = 0;
	for (unsigned i = 0; i < play.options.n_workers; i++)
		if (play.workers[i])
			used += (unsigned)cores_of(play.workers[i]);
	if (used > play.options.n_workers)
		failed(script_line, "%u cores in use of %u", used, play.options.n_workers);
}

static void run_scenario(void)
{
	inf_sched_init(&play.sched, &play.options);
	for (unsigned i = 0; i < play.n_requests; i++)
		play.requests[i].start = UINT64_MAX;
	unsigned n_known = play.n_requests;
	for (uint64_t now = 0;; now++) {
		for (unsigned i = 0; i < play.options.n_workers; i++)
			if (play.workers[i] && play.workers[i]->end <= now)
				finish(i, now);
		for (; n_known < play.n_requests; n_known++)
			play.requests[n_known].start = UINT64_MAX;
		uint64_t next = UINT64_MAX;
		while (play.first_open < play.n_requests && play.requests[play.first_open].fate)
			play.first_open++;
		for (unsigned i = play.first_open; i < play.n_requests; i++) {
			struct request *r = &play.requests[i];
			if (r->fate)
				continue;
			if (r->at == now) {
				r->item.cost_ns = r->guess;
				inf_sched_submit(&play.sched, &r->item, now);
			}
			if (r->at > now && r->at < next)
				next = r->at;
			if (r->cancel_at == now && inf_sched_remove(&play.sched, &r->item, now))
				end(r, now, FATE_CANCELLED);
			if (r->cancel_at > now && r->cancel_at < next)
				next = r->cancel_at;
		}
		struct inf_item *item;
		while ((item = inf_sched_take_expired(&play.sched, now)))
			end(ET_CONTAINER_OF(item, struct request, item), now, FATE_MISSED);
		for (unsigned i = 0; i < play.options.n_workers; i++)
			if (!play.workers[i] && (item = inf_sched_take(&play.sched, i == 0, now)))
				start(i, ET_CONTAINER_OF(item, struct request, item), now);
		for (unsigned i = 0; i < play.options.n_workers; i++)
			if (play.workers[i] && play.workers[i]->end < next)
				next = play.workers[i]->end;
		if (inf_sched_next_deadline(&play.sched) < next)
			next = inf_sched_next_deadline(&play.sched);
		if (n_known < play.n_requests)
			next = now + 1;
		if (next == UINT64_MAX)
			break;
		now = next > now ? next - 1 : now;
	}
	if (play.sched.n_waiting || play.sched.n_running || play.sched.n_blocked)
		failed(script_line, "%u waiting, %u running, %u blocked at the end", play.sched.n_waiting,
			play.sched.n_running, play.sched.n_blocked);
	for (unsigned i = 0; i < play.n_requests; i++)
		if (!play.requests[i].fate)
			failed(script_line, "%s never ended", play.requests[i].name);
}

/* --- judging -------------------------------------------------------------------------------------- */

static void check_order(unsigned line, char **words, unsigned n)
{
	unsigned n_ran = 0;
	for (unsigned i = 0; i < play.n_requests; i++) {
		struct request *r = &play.requests[i];
		if (r->fate != FATE_DONE)
			continue;
		n_ran++;
		if (r->order >= n || strcmp(words[r->order], r->name))
			failed(line, "%s was number %u (at %llu), expected there: %s", r->name, r->order + 1,
				(unsigned long long)r->start, r->order < n ? words[r->order] : "nothing");
	}
	if (n_ran != n)
		failed(line, "%u ran, expected %u", n_ran, n);
}

static void check_share(unsigned line, const char *flow, double percent, double tolerance)
{
	const char *user = after(flow, "user=");
	double used = 0, all = 0;
	for (unsigned i = 0; i < play.n_loops; i++) {
		unsigned at = play.loops[i].flow;
		const char *name = user ? play.group_names[play.flow_groups[at]] : play.flow_names[at];
		all += (double)play.loops[i].used;
		if (strcmp(name, user ? user : flow) == 0)
			used += (double)play.loops[i].used;
	}
	double share = all > 0 ? 100 * used / all : 0;
	if (share < percent - tolerance || share > percent + tolerance)
		failed(line, "%s had %.1f %% of the time, expected %.1f +- %.1f", flow, share, percent, tolerance);
}

static void check(unsigned line, char **words, unsigned n)
{
	script_line = line;
	if (strcmp(words[0], "order") == 0) {
		check_order(line, words + 1, n - 1);
		return;
	}
	if (strcmp(words[0], "share") == 0 && n == 4) {
		check_share(line, words[1], strtod(words[2], NULL), strtod(words[3], NULL));
		return;
	}
	struct request *r = n > 1 ? find_request(words[1]) : NULL;
	if (!r)
		script_bad_line("expects what was never submitted");
	if (strcmp(words[0], "cores") == 0 && n == 3) {
		if (strcmp(r->cores, words[2]))
			failed(line, "%s ran as %s, expected %s", r->name, r->cores, words[2]);
		return;
	}
	uint64_t t = n > 2 ? script_number(words[2]) : 0;
	bool ran = r->fate == FATE_DONE, is_met;
	if (strcmp(words[0], "start") == 0)
		is_met = ran && r->start == t;
	else if (strcmp(words[0], "before") == 0)
		is_met = ran && r->start < t;
	else if (strcmp(words[0], "end") == 0)
		is_met = ran && r->end == t;
	else if (strcmp(words[0], "missed") == 0)
		is_met = r->fate == FATE_MISSED && r->end == t;
	else if (strcmp(words[0], "cancelled") == 0)
		is_met = r->fate == FATE_CANCELLED;
	else if (strcmp(words[0], "all-cores") == 0)
		is_met = ran && r->was_all_cores;
	else if (strcmp(words[0], "single-core") == 0)
		is_met = ran && !r->was_all_cores;
	else
		script_bad_line("unknown expectation");
	if (!is_met)
		failed(line, "expected %s; %s %s, %lld to %llu%s", words[0], r->name,
			r->fate == FATE_DONE     ? "ran"
			: r->fate == FATE_MISSED ? "missed its deadline"
						 : "was cancelled",
			(long long)r->start, (unsigned long long)r->end, r->was_all_cores ? ", on all cores" : "");
}

static unsigned n_scenarios;

/* Run what was read and judge it. */
static void end_scenario(void)
{
	char *words[64];
	unsigned last = script_line;
	if (!play.n_expects)
		script_bad_line("a scenario that expects nothing");
	run_scenario();
	for (unsigned i = 0; i < play.n_expects; i++) {
		char text[160];
		memcpy(text, play.expects[i].text, sizeof(text));
		check(play.expects[i].line, words, script_split(text, words, 64));
	}
	script_line = last;
	n_scenarios++;
}

static void read_flow(char **words, unsigned n)
{
	const char *user = NULL, *value;
	uint32_t weight = 1;
	for (unsigned i = 2; i < n; i++) {
		if ((value = after(words[i], "user=")))
			user = value;
		else if ((value = after(words[i], "weight=")))
			weight = (uint32_t)script_number(value);
		else
			script_bad_line("unknown word");
	}
	take_flow(words[1], user, weight);
}

static void read_line(const char *line)
{
	char *words[64], copy[SCRIPT_MAX_LINE], whole[SCRIPT_MAX_LINE];
	snprintf(copy, sizeof(copy), "%s", line);
	snprintf(whole, sizeof(whole), "%s", line);
	unsigned n = script_split(copy, words, 64);
	if (!n)
		return;
	if (strcmp(words[0], "scenario") == 0) {
		memset(&play, 0, sizeof(play));
		whole[strcspn(whole, "\n")] = '\0';
		snprintf(play.title, sizeof(play.title), "%.100s", whole + strlen("scenario "));
		play.options = (struct inf_sched_options){ .n_workers = 1, .age_ns = 1000 };
	} else if (strcmp(words[0], "workers") == 0 && n >= 2) {
		play.options.n_workers = (uint32_t)script_number(words[1]);
		play.options.has_all_cores = n > 2 && strcmp(words[2], "all-cores") == 0;
		if (!play.options.n_workers || play.options.n_workers > MAX_WORKERS)
			script_bad_line("too many workers");
	} else if (strcmp(words[0], "age") == 0 && n == 2) {
		play.options.age_ns = script_number(words[1]);
	} else if (strcmp(words[0], "user") == 0 && n == 3 && after(words[2], "weight=")) {
		inf_group_set_weight(&play.groups[take_group(words[1])],
			(uint32_t)script_number(after(words[2], "weight=")));
	} else if (strcmp(words[0], "flow") == 0 && n >= 2) {
		read_flow(words, n);
	} else if (strcmp(words[0], "expect") == 0 && n > 1) {
		if (play.n_expects == MAX_EXPECTS)
			script_bad_line("too many expectations");
		play.expects[play.n_expects].line = script_line;
		snprintf(play.expects[play.n_expects++].text, 160, "%s", strstr(whole, "expect") + strlen("expect "));
	} else if (after(words[0], "t=")) {
		read_event(script_number(after(words[0], "t=")), words + 1, n - 1);
	} else {
		script_bad_line("unknown line");
	}
}

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "re") : NULL;
	if (!file) {
		fprintf(stderr, "usage: run FILE\n");
		return 2;
	}
	script_name = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
	script_read(file, &(struct script_events){ .line = read_line, .end = end_scenario });
	fclose(file);
	printf("%s: %u scenarios, %u failures\n", script_name, n_scenarios, n_failures);
	return n_failures || !n_scenarios;
}
