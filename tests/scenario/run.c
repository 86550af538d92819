/* Plays a script against the scheduler on a virtual clock and checks what it expects.
 *
 * A file holds scenarios; `#` begins a comment. Times are in milliseconds of the virtual clock.
 *     scenario WORDS                begins one, everything fresh
 *     workers N [wide]              how many cores (default 1); `wide`: a lone request may take all
 *     age T                         (default 1000)
 *     user NAME weight=N            a user with connections
 *     flow NAME [user=U] [weight=N] a connection. Without a user, or not declared, it is that of a user of its own, who
 *                                   weighs as much (default 1)
 *     t=T submit NAME [flow=F] [class=C] [cost=T] [guess=T] [deadline=T] [stream=S] [narrow] [steps=N]
 *                                   cost: how long it runs on one core; guess: what the scheduler is told (default:
 *                                   the cost); deadline: absolute; steps: instructions, of equal length (default 1),
 *                                   between which it makes room as a worker's run does: for a higher class, and for
 *                                   anybody if it has all cores
 *     t=T saturate F [class=C] [cost=T] [guess=T] [n=N] [until=T] [steps=N]
 *                                   client F keeps N requests in flight until then (default 1, 1000)
 *     t=T cancel NAME
 *     expect order NAME...          exactly these ran, begun in this order
 *     expect start NAME T           began then
 *     expect before NAME T          began earlier than that
 *     expect end NAME T
 *     expect missed NAME T          expired: found then, never ran
 *     expect cancelled NAME
 *     expect wide NAME / narrow NAME / widths NAME TEXT   in its first segment; in each: as many w and n
 *     expect share F PERCENT TOLERANCE   of all time used by saturating clients; user=U for all of a user's
 * A scenario may stand for a family of them, one for each combination of values:
 *     each NAME VALUE...            {NAME} in the other lines is one of them; each A,B 1,2 3,4 takes them in pairs
 *     for NAME N LINE               the line once for each {NAME} from 1 to N
 * and {EXPRESSION} of numbers, names, + - * / and parentheses is its value.
 * Every scenario also holds: each request ends exactly once, no core is used twice, the requests of a stream neither
 * overlap nor overtake each other, nothing is left over. */
#include "daemon/scheduler.h"

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
	MAX_SEGMENTS = 24,
	MAX_LINE = 512,
	MAX_LINES = 128,
	MAX_EACH = 8,
	MAX_VARIABLES = 16
};

enum fate { FATE_NONE, FATE_DONE, FATE_MISSED, FATE_CANCELLED };

struct request {
	struct inf_item item;
	char name[MAX_NAME];
	uint64_t at, cost, guess, cancel_at, start, end;
	enum fate fate;
	bool was_wide; /* in its first segment */
	int loop;      /* index of the saturating client, or -1 */
	unsigned order;
	unsigned n_steps, n_done;
	uint64_t begun; /* the segment */
	char widths[MAX_SEGMENTS + 1];
	unsigned n_segments;
};

struct loop {
	unsigned flow;
	enum inf_class class;
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

static const char *file_name;
static unsigned n_failures, line_number;

__attribute__((format(printf, 2, 3))) static void failed(unsigned line, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	printf("%s:%u: [%s] ", file_name, line, play.title);
	vprintf(format, args);
	printf("\n");
	va_end(args);
	n_failures++;
}

__attribute__((noreturn)) static void bad_line(const char *why)
{
	printf("%s:%u: %s\n", file_name, line_number, why);
	exit(2);
}

/* --- reading -------------------------------------------------------------------------------------- */

static unsigned take_name(char (*names)[MAX_NAME], unsigned *n, unsigned max, const char *name, bool *ret_new)
{
	*ret_new = false;
	for (unsigned i = 0; i < *n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	if (*n == max)
		bad_line("too many names");
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

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);
	if (end == text || *end)
		bad_line("not a number");
	return value;
}

static enum inf_class class_of(const char *name)
{
	for (int i = 0; i < INF_N_CLASSES; i++)
		if (strcmp(inf_class_name((enum inf_class)i), name) == 0)
			return (enum inf_class)i;
	bad_line("no such class");
}

static struct request *new_request(unsigned flow, enum inf_class class, uint64_t at, uint64_t cost)
{
	if (play.n_requests == MAX_REQUESTS)
		bad_line("too many requests");
	struct request *r = &play.requests[play.n_requests++];
	memset(r, 0, sizeof(*r));
	r->item.flow = &play.flows[flow];
	r->item.class = class;
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
	struct request *r = new_request(loop->flow, loop->class, at, loop->cost);
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
	bool prefers_narrow = false;
	enum inf_class class = INF_CLASS_INTERACTIVE;
	uint64_t cost = 1, guess = UINT64_MAX, deadline = 0, until = 1000, count = 1, steps = 1;
	if (n < 2)
		bad_line("an event needs a verb and a name");
	if (strcmp(words[0], "cancel") == 0) {
		struct request *r = find_request(words[1]);
		if (!r)
			bad_line("cancels what was never submitted");
		r->cancel_at = at;
		return;
	}
	for (unsigned i = 2; i < n; i++) {
		if ((value = after(words[i], "flow=")))
			flow = value;
		else if ((value = after(words[i], "class=")))
			class = class_of(value);
		else if ((value = after(words[i], "cost=")))
			cost = number(value);
		else if ((value = after(words[i], "guess=")))
			guess = number(value);
		else if ((value = after(words[i], "deadline=")))
			deadline = number(value);
		else if ((value = after(words[i], "stream=")))
			stream = value;
		else if ((value = after(words[i], "until=")))
			until = number(value);
		else if (strcmp(words[i], "narrow") == 0)
			prefers_narrow = true;
		else if ((value = after(words[i], "n=")))
			count = number(value);
		else if ((value = after(words[i], "steps=")))
			steps = number(value);
		else
			bad_line("unknown word");
	}
	if (strcmp(words[0], "submit") == 0) {
		struct request *r = new_request(take_flow(flow, NULL, 1), class, at, cost);
		snprintf(r->name, sizeof(r->name), "%s", words[1]);
		r->item.deadline_ns = deadline;
		r->item.prefers_narrow = prefers_narrow;
		r->item.stream = stream ? take_stream(stream) : NULL;
		r->n_steps = (unsigned)steps;
		if (guess != UINT64_MAX)
			r->guess = guess;
	} else if (strcmp(words[0], "saturate") == 0) {
		struct loop *loop = &play.loops[play.n_loops++];
		guess = guess == UINT64_MAX ? cost : guess;
		*loop = (struct loop){ take_flow(words[1], NULL, 1), class, at, cost, guess, until, 0,
			(unsigned)count, (unsigned)steps };
		for (unsigned i = 0; i < loop->n; i++)
			new_looped((int)play.n_loops - 1, at);
	} else {
		bad_line("unknown verb");
	}
}

/* --- playing -------------------------------------------------------------------------------------- */

static void end(struct request *r, uint64_t now, enum fate fate)
{
	if (r->fate)
		failed(line_number, "%s ended twice", r->name);
	r->fate = fate;
	r->end = now;
	if (r->loop >= 0 && now < play.loops[r->loop].until && fate != FATE_CANCELLED)
		new_looped(r->loop, now);
}

static uint64_t cores_of(const struct request *r)
{
	return r->item.is_wide ? play.options.n_workers : 1;
}

/* When its next step ends. */
static uint64_t end_of_step(const struct request *r, uint64_t now)
{
	uint64_t cores = cores_of(r), cost = r->cost * (r->n_done + 1) / r->n_steps;
	cost -= r->cost * r->n_done / r->n_steps;
	return now + (cost + cores - 1) / cores;
}

/* As a worker's run looks around between two instructions (daemon/worker.c). */
static bool should_yield(const struct request *r)
{
	if (r->item.is_wide && play.sched.n_waiting)
		return true;
	for (int class = 0; class < (int)r->item.class; class ++)
		if (!et_list_is_empty(&play.sched.classes[class]))
			return true;
	return false;
}

static void finish(unsigned worker, uint64_t now)
{
	struct request *r = play.workers[worker];
	bool is_over = ++r->n_done == r->n_steps;
	if (!is_over && !should_yield(r)) {
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

/* Nobody of its stream runs, and none that came before it is still to end. */
static void check_stream(const struct request *r)
{
	for (unsigned i = 0; r->item.stream && i < play.n_requests; i++) {
		const struct request *other = &play.requests[i];
		if (other != r && other->item.stream == r->item.stream && !other->fate &&
			(other->at < r->at || (other->at == r->at && other < r)))
			failed(line_number, "%s runs before %s of the same stream has ended", r->name,
				other->name);
	}
}

static void start(unsigned worker, struct request *r, uint64_t now)
{
	bool is_first = r->start == UINT64_MAX;
	if (r->fate || r->n_done == r->n_steps)
		failed(line_number, "%s runs though it ended", r->name);
	if (r->item.deadline_ns && r->item.deadline_ns <= now)
		failed(line_number, "%s runs after its deadline", r->name);
	if (is_first) {
		r->start = now;
		r->was_wide = r->item.is_wide;
		r->order = play.n_started++;
	}
	r->begun = now;
	r->end = end_of_step(r, now);
	if (r->n_segments < MAX_SEGMENTS)
		r->widths[r->n_segments++] = r->item.is_wide ? 'w' : 'n';
	check_stream(r);
	play.workers[worker] = r;
	unsigned used = 0;
	for (unsigned i = 0; i < play.options.n_workers; i++)
		if (play.workers[i])
			used += (unsigned)cores_of(play.workers[i]);
	if (used > play.options.n_workers)
		failed(line_number, "%u cores in use of %u", used, play.options.n_workers);
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
		failed(line_number, "%u waiting, %u running, %u blocked at the end", play.sched.n_waiting,
			play.sched.n_running, play.sched.n_blocked);
	for (unsigned i = 0; i < play.n_requests; i++)
		if (!play.requests[i].fate)
			failed(line_number, "%s never ended", play.requests[i].name);
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
		failed(line, "%s had %.1f %% of the time, expected %.1f +- %.1f", flow, share, percent,
			tolerance);
}

static void check(unsigned line, char **words, unsigned n)
{
	line_number = line;
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
		bad_line("expects what was never submitted");
	if (strcmp(words[0], "widths") == 0 && n == 3) {
		if (strcmp(r->widths, words[2]))
			failed(line, "%s ran as %s, expected %s", r->name, r->widths, words[2]);
		return;
	}
	uint64_t t = n > 2 ? number(words[2]) : 0;
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
	else if (strcmp(words[0], "wide") == 0)
		is_met = ran && r->was_wide;
	else if (strcmp(words[0], "narrow") == 0)
		is_met = ran && !r->was_wide;
	else
		bad_line("unknown expectation");
	if (!is_met)
		failed(line, "expected %s; %s %s, %lld to %llu%s", play.expects[0].text[0] ? words[0] : "",
			r->name,
			r->fate == FATE_DONE     ? "ran"
			: r->fate == FATE_MISSED ? "missed its deadline"
						 : "was cancelled",
			(long long)r->start, (unsigned long long)r->end, r->was_wide ? ", wide" : "");
}

static unsigned split(char *line, char **words, unsigned max)
{
	unsigned n = 0;
	for (char *save, *word = strtok_r(line, " \t\n", &save); word && *word != '#';
		word = strtok_r(NULL, " \t\n", &save)) {
		if (n == max)
			bad_line("too many words");
		words[n++] = word;
	}
	return n;
}

static unsigned n_scenarios;

/* Run what was read and judge it. */
static void end_scenario(void)
{
	char *words[64];
	unsigned last = line_number;
	if (!play.n_expects)
		bad_line("a scenario that expects nothing");
	run_scenario();
	for (unsigned i = 0; i < play.n_expects; i++) {
		char text[160];
		memcpy(text, play.expects[i].text, sizeof(text));
		check(play.expects[i].line, words, split(text, words, 64));
	}
	line_number = last;
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
			weight = (uint32_t)number(value);
		else
			bad_line("unknown word");
	}
	take_flow(words[1], user, weight);
}

static void read_line(const char *line)
{
	char *words[64], copy[MAX_LINE], whole[MAX_LINE];
	snprintf(copy, sizeof(copy), "%s", line);
	snprintf(whole, sizeof(whole), "%s", line);
	unsigned n = split(copy, words, 64);
	if (!n)
		return;
	if (strcmp(words[0], "scenario") == 0) {
		memset(&play, 0, sizeof(play));
		whole[strcspn(whole, "\n")] = '\0';
		snprintf(play.title, sizeof(play.title), "%.100s", whole + strlen("scenario "));
		play.options = (struct inf_sched_options){ .n_workers = 1, .age_ns = 1000 };
	} else if (strcmp(words[0], "workers") == 0 && n >= 2) {
		play.options.n_workers = (uint32_t)number(words[1]);
		play.options.has_wide = n > 2 && strcmp(words[2], "wide") == 0;
		if (!play.options.n_workers || play.options.n_workers > MAX_WORKERS)
			bad_line("too many workers");
	} else if (strcmp(words[0], "age") == 0 && n == 2) {
		play.options.age_ns = number(words[1]);
	} else if (strcmp(words[0], "user") == 0 && n == 3 && after(words[2], "weight=")) {
		inf_group_set_weight(
			&play.groups[take_group(words[1])], (uint32_t)number(after(words[2], "weight=")));
	} else if (strcmp(words[0], "flow") == 0 && n >= 2) {
		read_flow(words, n);
	} else if (strcmp(words[0], "expect") == 0 && n > 1) {
		if (play.n_expects == MAX_EXPECTS)
			bad_line("too many expectations");
		play.expects[play.n_expects].line = line_number;
		snprintf(play.expects[play.n_expects++].text, 160, "%s",
			strstr(whole, "expect") + strlen("expect "));
	} else if (after(words[0], "t=")) {
		read_event(number(after(words[0], "t=")), words + 1, n - 1);
	} else {
		bad_line("unknown line");
	}
}

/* --- families ------------------------------------------------------------------------------------- */

static struct family {
	struct {
		char text[MAX_LINE];
		unsigned number;
	} lines[MAX_LINES];
	unsigned n_lines;
	struct each {
		char names[MAX_LINE], values[MAX_LINE];
		unsigned n;
	} each[MAX_EACH];
	unsigned n_each;
	struct variable {
		char name[MAX_NAME], value[MAX_NAME];
	} variables[MAX_VARIABLES];
	unsigned n_variables;
} family;

static const char *find_variable(const char *name, size_t n)
{
	for (unsigned i = 0; i < family.n_variables; i++)
		if (strlen(family.variables[i].name) == n && memcmp(family.variables[i].name, name, n) == 0)
			return family.variables[i].value;
	return NULL;
}

static double evaluate_sum(const char **at);

static double evaluate_atom(const char **at)
{
	char *end;
	if (**at == '(') {
		++*at;
		double value = evaluate_sum(at);
		if (*(*at)++ != ')')
			bad_line("')' is missing");
		return value;
	}
	size_t n = strspn(*at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
	const char *text = n ? find_variable(*at, n) : *at;
	double value = text ? strtod(text, &end) : 0;
	if (!text || end == text)
		bad_line("no number");
	*at = n ? *at + n : end;
	return value;
}

static double evaluate_product(const char **at)
{
	double value = evaluate_atom(at);
	while (**at == '*' || **at == '/') {
		char what = *(*at)++;
		double by = evaluate_atom(at);
		value = what == '*' ? value * by : value / by;
	}
	return value;
}

static double evaluate_sum(const char **at)
{
	double value = evaluate_product(at);
	while (**at == '+' || **at == '-') {
		char what = *(*at)++;
		double by = evaluate_product(at);
		value = what == '+' ? value + by : value - by;
	}
	return value;
}

/* @line with what is in braces replaced. */
static void substitute(char *to, const char *line)
{
	size_t n = 0;
	while (*line && n + 2 * MAX_NAME < MAX_LINE) {
		if (*line != '{') {
			to[n++] = *line++;
			continue;
		}
		const char *at = ++line, *text = find_variable(line, strcspn(line, "}"));
		if (text) /* perhaps a word */
			n += (size_t)snprintf(to + n, MAX_LINE - n, "%s", text);
		else
			n += (size_t)snprintf(to + n, MAX_LINE - n, "%.10g", evaluate_sum(&at));
		line += strcspn(line, "}");
		if (!*line || (!text && *at != '}'))
			bad_line("what is in braces is no expression");
		line++;
	}
	to[n] = '\0';
}

static void set_variable(const char *name, const char *value)
{
	if (family.n_variables == MAX_VARIABLES)
		bad_line("too many names");
	struct variable *v = &family.variables[family.n_variables++];
	snprintf(v->name, sizeof(v->name), "%.*s", MAX_NAME - 1, name);
	snprintf(v->value, sizeof(v->value), "%.*s", MAX_NAME - 1, value);
}

static void play_one(void)
{
	char line[MAX_LINE], copy[MAX_LINE], *words[64];
	for (unsigned i = 0; i < family.n_lines; i++) {
		line_number = family.lines[i].number;
		snprintf(copy, sizeof(copy), "%s", family.lines[i].text);
		if (strncmp(copy, "for ", 4)) {
			substitute(line, copy);
			read_line(line);
			continue;
		}
		if (split(copy, words, 64) < 4)
			bad_line("for NAME N LINE");
		substitute(line, words[2]);
		uint64_t n = number(line);
		const char *rest = strstr(family.lines[i].text, words[2]) + strlen(words[2]);
		for (uint64_t k = 1; k <= n; k++) {
			snprintf(copy, sizeof(copy), "%llu", (unsigned long long)k);
			set_variable(words[1], copy);
			substitute(line, rest);
			read_line(line);
			family.n_variables--;
		}
	}
	end_scenario();
}

/* All combinations of the values of the @at-th line of `each` and those after it. */
static void play_each(unsigned at)
{
	char names[MAX_LINE], values[MAX_LINE], *all[64], *save_name, *save_value;
	if (at == family.n_each) {
		play_one();
		return;
	}
	snprintf(values, sizeof(values), "%s", family.each[at].values);
	unsigned n = split(values, all, 64), n_before = family.n_variables;
	for (unsigned i = 0; i < n; i++) {
		snprintf(names, sizeof(names), "%s", family.each[at].names);
		char *value = strtok_r(all[i], ",", &save_value);
		for (char *name = strtok_r(names, ",", &save_name); name;
			name = strtok_r(NULL, ",", &save_name)) {
			if (!value)
				bad_line("as many values as names");
			set_variable(name, value);
			value = strtok_r(NULL, ",", &save_value);
		}
		play_each(at + 1);
		family.n_variables = n_before;
	}
}

static void end_family(void)
{
	if (family.n_lines)
		play_each(0);
	memset(&family, 0, sizeof(family));
}

static void collect_line(const char *line)
{
	char copy[MAX_LINE], *words[64];
	snprintf(copy, sizeof(copy), "%s", line);
	unsigned n = split(copy, words, 64);
	if (!n)
		return;
	if (strcmp(words[0], "scenario") == 0)
		end_family();
	else if (!family.n_lines)
		bad_line("begin with 'scenario WORDS'");
	if (strcmp(words[0], "each") == 0) {
		if (n < 3 || family.n_each == MAX_EACH)
			bad_line("each NAME VALUE...");
		struct each *each = &family.each[family.n_each++];
		snprintf(each->names, sizeof(each->names), "%s", words[1]);
		snprintf(each->values, sizeof(each->values), "%s", strstr(line, words[1]) + strlen(words[1]));
		return;
	}
	if (family.n_lines == MAX_LINES)
		bad_line("too many lines");
	snprintf(family.lines[family.n_lines].text, MAX_LINE, "%s", line);
	family.lines[family.n_lines++].number = line_number;
}

int main(int argc, char **argv)
{
	char line[MAX_LINE];
	FILE *file = argc == 2 ? fopen(argv[1], "re") : NULL;
	unsigned n = 0;
	if (!file) {
		fprintf(stderr, "usage: run FILE\n");
		return 2;
	}
	file_name = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
	while (fgets(line, sizeof(line), file)) {
		line_number = ++n;
		collect_line(line);
	}
	end_family();
	fclose(file);
	printf("%s: %u scenarios, %u failures\n", file_name, n_scenarios, n_failures);
	return n_failures || !n_scenarios;
}
