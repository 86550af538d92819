/* SPDX-License-Identifier: BSD-3-Clause */
/* inferctl status: show the daemon's loaded programs, clients, users, queues and plug-in processes.
 *
 * One request gets all of it. The text shows the same as the JSON, whose keys scripts rely on: they never change. */
#include "clients/inferctl/ask.h"
#include "clients/inferctl/ctl.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *texts_json(const char *const *texts, size_t n)
{
	json_t *array = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(array, json_string(texts[i]));
	return array;
}

/* NULL if this machine does not know the user. */
static const char *user_name(uint32_t uid)
{
	const struct passwd *user = getpwuid(uid);
	return user ? user->pw_name : NULL;
}

static json_t *users_json(const struct inf_server_status *s)
{
	json_t *users = json_array();
	for (size_t i = 0; i < s->n_users; i++) {
		const struct inf_user_status *u = &s->users[i];
		const char *name = user_name(u->uid);
		json_t *limits = json_object();
		for (size_t k = 0; k < u->n_limits; k++)
			json_object_set_new(limits, u->limits[k].name,
				json_pack("{s:I, s:I}", "used", (json_int_t)u->limits[k].used, "limit",
					(json_int_t)u->limits[k].limit));
		json_array_append_new(users, json_pack("{s:I, s:o, s:I, s:s, s:o}", "uid", (json_int_t)u->uid, "name",
						     name ? ctl_json_text(name) : json_null(), "weight",
						     (json_int_t)u->weight, "priority", u->priority, "limits", limits));
	}
	return users;
}

static int print_json(const struct inf_server_status *s)
{
	json_t *programs = json_array(), *clients = json_array(), *queues = json_array(), *hosts = json_array();
	for (size_t i = 0; i < s->n_programs; i++) {
		const struct inf_program_status *p = &s->programs[i];
		json_array_append_new(programs,
			json_pack(
				"{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s}",
				"name", p->name, "version", p->version, "backend", p->backend, "methods",
				(json_int_t)p->methods, "file_bytes", (json_int_t)p->file_bytes, "plan_bytes",
				(json_int_t)p->plan_bytes, "state_bytes", (json_int_t)p->state_bytes, "frame_bytes",
				(json_int_t)p->frame_bytes, "requests", (json_int_t)p->requests, "copied_bytes",
				(json_int_t)p->copied_bytes, "median_ns", (json_int_t)p->median_ns, "context_bytes",
				(json_int_t)p->instance_bytes, "cores", (json_int_t)p->cores, "cores_reason",
				p->cores_reason, "file", p->file, "digest", p->digest, "note", p->note));
	}
	for (size_t i = 0; i < s->n_clients; i++) {
		const struct inf_client_status *c = &s->clients[i];
		json_array_append_new(clients,
			json_pack("{s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I}", "session", (json_int_t)c->session,
				"pid", (json_int_t)c->pid, "uid", (json_int_t)c->uid, "name", c->name, "methods",
				(json_int_t)c->methods, "regions", (json_int_t)c->regions, "region_bytes",
				(json_int_t)c->region_bytes, "requests", (json_int_t)c->requests, "in_flight",
				(json_int_t)c->in_flight));
	}
	for (size_t i = 0; i < s->n_queues; i++) {
		const struct inf_queue_status *q = &s->queues[i];
		json_array_append_new(queues,
			json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:I}", "name", q->name,
				"workers", (json_int_t)q->workers, "running", (json_int_t)q->running, "waiting",
				(json_int_t)q->waiting, "busy_ns", (json_int_t)q->busy_ns, "completed",
				(json_int_t)q->completed, "stuck", (json_int_t)q->stuck, "spares",
				(json_int_t)q->spares, "device", q->device, "driver", q->driver, "features",
				q->features, "device_bytes", (json_int_t)q->device_bytes));
	}
	for (size_t i = 0; i < s->n_hosts; i++) {
		const struct inf_host_status *h = &s->hosts[i];
		json_t *host = json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:s}", "backend", h->backend, "pid",
			(json_int_t)h->pid, "starts", (json_int_t)h->starts, "crashes", (json_int_t)h->crashes,
			"requests", (json_int_t)h->requests, "pause_ns", (json_int_t)h->pause_ns, "reason", h->reason);
		if (h->own)
			json_object_set_new(host, "uid", json_integer((json_int_t)h->uid));
		json_array_append_new(hosts, host);
	}
	return ctl_print_json(
		json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
			s->version, "uptime_ns", (json_int_t)s->uptime_ns, "resident_bytes",
			(json_int_t)s->resident_bytes, "requests", (json_int_t)s->requests, "failed",
			(json_int_t)s->failed, "copied_bytes", (json_int_t)s->copied_bytes, "memory_used",
			(json_int_t)s->memory_used, "memory_budget", (json_int_t)s->memory_budget, "programs", programs,
			"clients", clients, "queues", queues, "backends", texts_json(s->backends, s->n_backends),
			"backends_missing", texts_json(s->backends_missing, s->n_backends_missing), "warnings",
			texts_json(s->warnings, s->n_warnings), "hosts", hosts, "users", users_json(s)));
}

static void print_heading(const struct ctl *ctl, size_t n, const char *one, const char *many)
{
	printf("\n%s%zu %s%s\n", ctl_bold(ctl), n, n == 1 ? one : many, ctl_plain(ctl));
}

static void print_programs(const struct ctl *ctl, const struct inf_server_status *s)
{
	static const char *const headings[] = { "model", "version", "backend", "methods", "requests", "median", "file",
		"plan", "instances", "state", "frames", "copied", "cores", "because" };
	struct ctl_table table;
	print_heading(ctl, s->n_programs, "loaded program", "loaded programs");
	ctl_table_init(&table, "lllrrrrrrrrrrl");
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		ctl_table_cell(&table, "%s", headings[i]);
	for (size_t i = 0; i < s->n_programs; i++) {
		const struct inf_program_status *p = &s->programs[i];
		ctl_table_cell(&table, "%s", p->name);
		ctl_table_cell(&table, "%s", p->version);
		ctl_table_cell(&table, "%s", p->backend);
		ctl_table_cell(&table, "%" PRIu32, p->methods);
		ctl_table_cell(&table, "%" PRIu64, p->requests);
		ctl_table_cell(&table, "%s", p->median_ns ? ctl_duration(p->median_ns) : "-");
		ctl_table_cell(&table, "%s", ctl_bytes(p->file_bytes));
		ctl_table_cell(&table, "%s", ctl_bytes(p->plan_bytes));
		ctl_table_cell(&table, "%s", ctl_bytes(p->instance_bytes));
		ctl_table_cell(&table, "%s", ctl_bytes(p->state_bytes));
		ctl_table_cell(&table, "%s", ctl_bytes(p->frame_bytes));
		ctl_table_cell(&table, "%s", ctl_bytes(p->copied_bytes));
		ctl_table_cell(&table, "%" PRIu32, p->cores);
		ctl_table_cell(&table, "%s", p->cores_reason);
	}
	if (s->n_programs)
		ctl_table_print(ctl, &table, 2);
	ctl_table_deinit(&table);
	for (size_t i = 0; i < s->n_programs; i++)
		if (s->programs[i].file[0])
			printf("  %s/%s is %s, SHA-256 %.13s\n", ctl_safe(s->programs[i].name),
				ctl_safe(s->programs[i].version), ctl_safe(s->programs[i].file),
				s->programs[i].digest[0] ? s->programs[i].digest : "not known yet");
}

static void print_clients(const struct ctl *ctl, const struct inf_server_status *s)
{
	static const char *const headings[] = { "session", "client", "pid", "uid", "methods", "regions", "shared",
		"requests", "in flight" };
	struct ctl_table table;
	print_heading(ctl, s->n_clients, "client", "clients");
	ctl_table_init(&table, "rlrrrrrrr");
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		ctl_table_cell(&table, "%s", headings[i]);
	for (size_t i = 0; i < s->n_clients; i++) {
		const struct inf_client_status *c = &s->clients[i];
		ctl_table_cell(&table, "%" PRIu64, c->session);
		ctl_table_cell(&table, "%s", c->name);
		ctl_table_cell(&table, "%" PRIu32, c->pid);
		ctl_table_cell(&table, "%" PRIu32, c->uid);
		ctl_table_cell(&table, "%" PRIu32, c->methods);
		ctl_table_cell(&table, "%" PRIu32, c->regions);
		ctl_table_cell(&table, "%s", ctl_bytes(c->region_bytes));
		ctl_table_cell(&table, "%" PRIu64, c->requests);
		ctl_table_cell(&table, "%" PRIu32, c->in_flight);
	}
	if (s->n_clients)
		ctl_table_print(ctl, &table, 2);
	ctl_table_deinit(&table);
}

/* A row for each user, with "used/limit" for each limit. */
static void print_users(const struct ctl *ctl, const struct inf_server_status *s)
{
	size_t n = s->n_users ? s->users[0].n_limits : 0; /* every user has the same limits */
	char *align = ctl_alloc(n + 4, 1);
	struct ctl_table table;
	print_heading(ctl, s->n_users, "user, with used/limit", "users, with used/limit");
	snprintf(align, 4, "lrl");
	memset(align + 3, 'r', n);
	align[n + 3] = '\0';
	ctl_table_init(&table, align);
	ctl_table_cell(&table, "user");
	ctl_table_cell(&table, "weight");
	ctl_table_cell(&table, "priority");
	for (size_t k = 0; k < n; k++)
		ctl_table_cell(&table, "%s", s->users[0].limits[k].name);
	for (size_t i = 0; i < s->n_users; i++) {
		const struct inf_user_status *u = &s->users[i];
		const char *name = user_name(u->uid);
		if (name)
			ctl_table_cell(&table, "%s", name);
		else
			ctl_table_cell(&table, "%" PRIu32, u->uid);
		ctl_table_cell(&table, "%" PRIu32, u->weight);
		ctl_table_cell(&table, "%s", u->priority);
		for (size_t k = 0; k < n; k++) {
			const struct inf_limit_status none = { .name = "" };
			const struct inf_limit_status *l = k < u->n_limits ? &u->limits[k] : &none;
			if (strcmp(l->name, "bytes") == 0)
				ctl_table_cell(&table, "%s/%s", ctl_bytes(l->used), ctl_bytes(l->limit));
			else
				ctl_table_cell(&table, "%" PRIu64 "/%" PRIu64, l->used, l->limit);
		}
	}
	if (s->n_users)
		ctl_table_print(ctl, &table, 2);
	ctl_table_deinit(&table);
	free(align);
}

static void print_queues(const struct ctl *ctl, const struct inf_server_status *s)
{
	static const char *const headings[] = { "queue", "workers", "spares", "running", "waiting", "completed",
		"busy" };
	struct ctl_table table;
	print_heading(ctl, s->n_queues, "queue", "queues");
	ctl_table_init(&table, "lrrrrrr");
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		ctl_table_cell(&table, "%s", headings[i]);
	for (size_t i = 0; i < s->n_queues; i++) {
		const struct inf_queue_status *q = &s->queues[i];
		ctl_table_cell(&table, "%s", q->name);
		ctl_table_cell(&table, "%" PRIu32, q->workers);
		ctl_table_cell(&table, "%" PRIu32, q->spares);
		ctl_table_cell(&table, "%" PRIu32, q->running);
		ctl_table_cell(&table, "%" PRIu32, q->waiting);
		ctl_table_cell(&table, "%" PRIu64, q->completed);
		ctl_table_cell(&table, "%s", ctl_duration(q->busy_ns));
	}
	if (s->n_queues)
		ctl_table_print(ctl, &table, 2);
	ctl_table_deinit(&table);
	for (size_t i = 0; i < s->n_queues; i++) {
		const struct inf_queue_status *q = &s->queues[i];
		if (!q->device[0])
			continue;
		printf("  %s: %s", q->name, ctl_safe(q->device));
		if (q->driver[0])
			printf(", driver %s", ctl_safe(q->driver));
		if (q->device_bytes)
			printf(", %s", ctl_bytes(q->device_bytes));
		printf("%s%s\n", q->features[0] ? ", " : "", ctl_safe(q->features));
	}
}

static void print_hosts(const struct ctl *ctl, const struct inf_server_status *s)
{
	static const char *const headings[] = { "plug-in", "for", "pid", "starts", "crashes", "requests",
		"last crash" };
	struct ctl_table table;
	if (!s->n_hosts)
		return;
	print_heading(ctl, s->n_hosts, "process of a plug-in", "processes of plug-ins");
	ctl_table_init(&table, "llrrrrl");
	for (size_t i = 0; i < sizeof(headings) / sizeof(headings[0]); i++)
		ctl_table_cell(&table, "%s", headings[i]);
	for (size_t i = 0; i < s->n_hosts; i++) {
		const struct inf_host_status *h = &s->hosts[i];
		ctl_table_cell(&table, "%s", h->backend);
		if (h->own)
			ctl_table_cell(&table, "user %" PRIu32 "'s own", h->uid);
		else
			ctl_table_cell(&table, "models");
		if (h->pid)
			ctl_table_cell(&table, "%" PRIu32, h->pid);
		else
			ctl_table_cell(&table, "%s%s", h->pause_ns ? "in " : "-",
				h->pause_ns ? ctl_duration(h->pause_ns) : "");
		ctl_table_cell(&table, "%" PRIu32, h->starts);
		ctl_table_cell(&table, "%" PRIu32, h->crashes);
		ctl_table_cell(&table, "%" PRIu64, h->requests);
		ctl_table_cell(&table, "%s", h->reason);
	}
	ctl_table_print(ctl, &table, 2);
	ctl_table_deinit(&table);
}

static void print_text(const struct ctl *ctl, const struct inf_server_status *s)
{
	printf("%sinferd %s%s, up %s, %s resident\n", ctl_bold(ctl), s->version, ctl_plain(ctl),
		ctl_duration(s->uptime_ns), ctl_bytes(s->resident_bytes));
	printf("%" PRIu64 " requests answered, %" PRIu64 " failed, %" PRIu64 " bytes copied\n", s->requests, s->failed,
		s->copied_bytes);
	printf("models take %s%s%s\n", ctl_bytes(s->memory_used), s->memory_budget ? " of a memory budget of " : "",
		s->memory_budget ? ctl_bytes(s->memory_budget) : "");
	printf("backends:");
	for (size_t i = 0; i < s->n_backends; i++)
		printf("%s %s", i ? "," : "", ctl_safe(s->backends[i]));
	printf("%s\n", s->n_backends ? "" : " none");
	for (size_t i = 0; i < s->n_backends_missing; i++)
		printf("%snot available: %s%s\n", ctl_dim(ctl), ctl_safe(s->backends_missing[i]), ctl_plain(ctl));
	for (size_t i = 0; i < s->n_warnings; i++)
		printf("%swarning:%s %s\n", ctl_bold(ctl), ctl_plain(ctl), ctl_safe(s->warnings[i]));
	print_programs(ctl, s);
	print_clients(ctl, s);
	print_users(ctl, s);
	print_queues(ctl, s);
	print_hosts(ctl, s);
}

/* Remove the connection of this process from the clients. Returns the new array, which the caller frees. */
static struct inf_client_status *without_us(struct inf_server_status *s)
{
	struct inf_client_status *others = ctl_alloc(s->n_clients, sizeof(*others));
	size_t n = 0;
	for (size_t i = 0; i < s->n_clients; i++)
		if (s->clients[i].pid != (uint32_t)getpid())
			others[n++] = s->clients[i];
	s->clients = others;
	s->n_clients = n;
	return others;
}

static int run(struct ctl *ctl, int argc, char **argv)
{
	struct inf_request request = { .kind = INF_REQUEST_STATUS };
	struct inf_reply reply;
	struct ctl_ask *ask;
	int rc, at = ctl_parse(ctl, NULL, argc, argv, &rc);

	if (at < 0)
		return rc;
	if (at != argc)
		return ctl_misuse(ctl, "status takes no arguments");
	rc = ctl_ask_once(ctl, false, &request, &ask, &reply);
	if (rc != CTL_OK)
		return rc;
	if (reply.kind != INF_REPLY_SERVER_STATUS) {
		rc = ctl_fail("the daemon's reply is not its status");
	} else {
		struct inf_client_status *others = without_us(&reply.server_status);
		if (ctl->is_json)
			rc = print_json(&reply.server_status);
		else
			print_text(ctl, &reply.server_status);
		free(others);
	}
	ctl_ask_close(ask);
	return rc;
}

const struct ctl_command ctl_status_command = {
	.name = "status",
	.arguments = "[OPTION...]",
	.summary = "Show loaded programs, clients, users with their limits, queues and plug-in processes",
	.help = "Columns of a loaded program, in bytes:\n"
		"  file       the model's file\n"
		"  plan       decoded and compiled from the file, once for all clients\n"
		"  instances  made by workers for this program\n"
		"  state      state of the clients' Methods\n"
		"  frames     activations of runs\n"
		"  copied     tensors that could not be used where they lie in shared memory, since the daemon started\n"
		"The memory that models take counts a frame for each worker, even before its first run.\n"
		"\n"
		"Users are those with a connection. Their numbers are sums over all their connections, with the limits of\n"
		"[limits] and [user] in inferd.conf. This command's own connection counts for its user, but is not shown\n"
		"among the clients.\n",
	.run = run,
};
