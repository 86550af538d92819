/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies that describe the daemon and its models.
 *
 * Each function builds its arrays in a pool, which is freed after the reply is encoded. ipc/message puts a reply
 * that does not fit into a packet into a memory file. Nothing here changes what it describes. */
#include "daemon/client/answers.h"

#include "daemon/client/access.h"
#include "daemon/context.h"
#include "daemon/base/text.h"
#include "delegates/plugin/proxy/plugin.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef INF_VERSION
#define INF_VERSION "unknown"
#endif

__attribute__((format(printf, 2, 3))) static char *text(struct et_pool *pool, const char *format, ...)
{
	char buffer[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	return et_pool_strndup(pool, buffer, n < (int)sizeof(buffer) ? (size_t)n : sizeof(buffer) - 1);
}

static void out_of_memory(struct inf_session *s, uint64_t id)
{
	inf_session_refuse(s, id, INF_RESOURCE_EXHAUSTED, "the daemon is out of memory");
}

/* What model.conf says of an input or output. The strings live as long as the model. */
static void describe_tensor(struct inf_tensor_metadata *t, const struct inf_model_conf_io *io)
{
	if (io->name[0])
		t->name = io->name;
	t->n_labels = io->n_labels;
	t->labels = (const char *const *)io->labels;
	t->layout = io->layout;
	t->colour = io->colour;
	t->n_scale = io->n_scale;
	t->scale = io->scale;
	t->n_offset = io->n_offset;
	t->offset = io->offset;
}

const struct inf_tensor_metadata *inf_answer_tensors(struct et_pool *pool, const struct inf_model *model, bool is_input)
{
	const struct et_io_info *infos = is_input ? model->info->inputs : model->info->outputs;
	uint32_t n = is_input ? model->info->n_inputs : model->info->n_outputs;
	const struct inf_model_conf *conf = model->is_default_method ? model->conf : NULL;
	struct inf_tensor_metadata *tensors = ET_POOL_NEW_ARRAY(pool, struct inf_tensor_metadata, n);
	size_t n_left = INF_MAX_STRINGS;
	for (uint32_t i = 0; i < n && tensors; i++) {
		const struct et_io_info *info = &infos[i];
		struct inf_tensor_metadata *t = &tensors[i];
		const struct inf_model_conf_io *io = inf_model_conf_find(conf, is_input, i);
		t->name = text(pool, "%s_%u", is_input ? "input" : "output", i);
		if (io)
			describe_tensor(t, io);
		t->byte_size = info->n_bytes;
		if (info->tag != ET_TAG_TENSOR) {
			t->scalar = true;
			t->byte_size = 0;
			t->datatype = info->tag == ET_TAG_INT      ? "INT"
				      : info->tag == ET_TAG_DOUBLE ? "DOUBLE"
				      : info->tag == ET_TAG_BOOL   ? "BOOL"
								   : et_tag_name((enum et_tag)info->tag);
			if (info->text && info->text->n <= n_left) {
				n_left -= info->text->n;
				t->constant = true;
				t->n_text = info->text->n;
				t->text = (const uint8_t *)info->text->chars; /* lives as long as the Plan */
			}
			continue;
		}
		int64_t *shape = ET_POOL_NEW_ARRAY(pool, int64_t, info->n_dims);
		uint32_t *order = ET_POOL_NEW_ARRAY(pool, uint32_t, info->n_dims);
		if (!shape || !order)
			return NULL;
		for (size_t d = 0; d < info->n_dims; d++) {
			shape[d] = info->sizes[d];
			order[d] = info->dim_order[d];
		}
		t->datatype = et_scalar_name((enum et_scalar_type)info->type);
		t->n_shape = t->n_dim_order = info->n_dims;
		t->shape = shape;
		t->dim_order = order;
		t->dynamic = info->dynamism != ET_STATIC;
	}
	return tensors;
}

void inf_answer_server_metadata(struct inf_session *s, uint64_t id)
{
	static const char *const extensions[] = { "model_repository", "statistics", "system_shared_memory",
		"schedule_policy" };
	struct inf_reply reply = { .id = id, .kind = INF_REPLY_SERVER_METADATA };
	reply.server_metadata = (struct inf_server_metadata){ "inferd", INF_VERSION, ET_ARRAY_LEN(extensions),
		extensions };
	inf_session_reply(s, &reply);
}

/* --- status --------------------------------------------------------------------------------------- */

static size_t count(const struct et_list_node *list)
{
	size_t n = 0;
	for (const struct et_list_node *node = list->next; node != list; node = node->next)
		n++;
	return n;
}

static uint64_t get(const _Atomic(uint64_t) *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

/* The cores that the next request of @m gets if it is alone, and why. */
static uint32_t cores_of(const struct inf_context *context, const struct inf_model *m, const char **ret_reason)
{
	const struct inf_pool *cpu = context->queues.pools[0];
	if (!inf_pool_has_all_cores(cpu)) {
		*ret_reason = "the daemon has a single core or worker";
		return 1;
	}
	if (m->info->first_queue.kind != ET_QUEUE_CPU) {
		*ret_reason = "it begins on another device";
		return 1;
	}
	if (inf_run_stats_is_quick(&m->stats)) {
		*ret_reason = "it takes less time than waking a worker";
		return 1;
	}
	const struct inf_width *width = &m->widths.of[m->widths.last];
	*ret_reason = inf_width_reason(width);
	return inf_width_uses_all_cores(width) ? inf_pool_n_workers(cpu) : 1;
}

/* What an administrator should know of the loaded model @m; "": nothing. In @pool; without memory "". */
static const char *note_of(const struct inf_model *m, struct et_pool *pool)
{
	char note[INF_MAX_TEXT + 1] = "";
	size_t n = 0;
	if (m->warning && m->warning[0])
		n += inf_text(note, sizeof(note), "%s", m->warning);
	if (m->newer[0])
		n += inf_text(note + n, sizeof(note) - n,
			"%sversion %s is in the folder and is not loaded; 'inferctl load %s' makes it serve",
			n ? "; " : "", m->newer, m->model);
	if (m->changed)
		n += inf_text(note + n, sizeof(note) - n,
			"%s%s on disk is newer than what is loaded; 'inferctl load %s' loads that", n ? "; " : "",
			m->changed, m->model);
	const char *kept = et_pool_strndup(pool, note, n);
	return kept ? kept : "";
}

static void describe_program(const struct inf_context *context, const struct inf_model *m, struct inf_program_status *p,
	struct et_pool *pool)
{
	const char *reason;
	uint32_t cores = cores_of(context, m, &reason);
	struct et_program_stats stats;
	uint64_t n_frames = atomic_load_explicit(&m->n_frames, memory_order_relaxed);
	et_program_stats(m->program, &stats);
	*p = (struct inf_program_status){
		.name = m->model,
		.version = m->version,
		.backend = m->backend,
		.methods = m->n_methods,
		.file_bytes = stats.n_file_bytes,
		.plan_bytes = stats.n_decoded_bytes + m->info->n_plan_bytes + m->info->n_delegate_bytes +
			      m->info->n_copied_constant_bytes,
		.state_bytes = inf_model_use(m).n_states,
		.frame_bytes = (m->info->n_activation_bytes + m->info->n_value_table_bytes) * n_frames,
		.requests = get(&m->stats.n_success) + get(&m->stats.n_fail),
		.copied_bytes = get(&m->stats.copied_bytes),
		.median_ns = inf_run_stats_median_ns(&m->stats),
		.instance_bytes = inf_model_use(m).n_instances,
		.cores = cores,
		.cores_reason = reason,
		.file = m->is_uploaded ? "" : m->path,
		.digest = m->digest,
		.note = note_of(m, pool),
	};
}

/* "NAME: why" for a plug-in that was given up after too many crashes; NULL: it was not given up. */
static const char *failure_of(const struct et_backend_entry *entry, struct et_pool *pool)
{
	struct et_plugin_state now;
	char text[400];
	et_plugin_state(entry->backend, &now);
	if (!now.has_failed)
		return NULL;
	inf_text(text, sizeof(text), "%.60s: failed %u times: %s", entry->ops->name, now.n_crashes, now.reason);
	const char *kept = et_pool_strndup(pool, text, strlen(text));
	return kept ? kept : entry->ops->name;
}

enum { MAX_TENANTS = 64 }; /* of a backend, in a status */

static struct inf_host_status host_of(const char *backend, const struct et_plugin_state *now, struct et_pool *pool)
{
	const char *reason = et_pool_strndup(pool, now->reason, strlen(now->reason));
	return (struct inf_host_status){
		.backend = backend,
		.own = now->tenant != 0,
		.uid = now->tenant ? (uint32_t)(now->tenant - 1) : 0,
		.pid = (uint32_t)now->pid,
		.starts = now->n_starts,
		.crashes = now->n_crashes,
		.requests = now->n_runs,
		.pause_ns = now->wait_ns,
		.reason = reason ? reason : "",
	};
}

/* Who asks for a status, and sees only what concerns itself unless it sees all. */
struct asker {
	const struct inf_session *session;
	bool sees_all;
};

static bool sees_user(const struct asker *asker, uid_t uid)
{
	return asker->sees_all || uid == asker->session->user->uid;
}

static bool sees_tenant(const struct asker *asker, uint64_t tenant)
{
	return asker->sees_all || tenant == 1 + (uint64_t)asker->session->user->uid;
}

static bool sees_model(const struct asker *asker, const struct inf_model *m)
{
	return m->is_uploaded ? sees_tenant(asker, m->tenant)
			      : asker->sees_all || inf_session_may_open(asker->session, m->model);
}

/* Processes of plug-ins. False: no memory. */
static bool list_hosts(const struct asker *asker, struct et_pool *pool, struct inf_server_status *status)
{
	const struct inf_context *context = asker->session->context;
	const size_t n_plugins = context->backends.registry.n_backends - context->backends.n_compiled_in;
	struct inf_host_status *hosts = ET_POOL_NEW_ARRAY(pool, struct inf_host_status, n_plugins * (1 + MAX_TENANTS));
	struct et_plugin_state *states = ET_POOL_NEW_ARRAY(pool, struct et_plugin_state, MAX_TENANTS);
	if (!hosts || !states)
		return false;
	for (size_t i = context->backends.n_compiled_in; i < context->backends.registry.n_backends; i++) {
		const struct et_backend_entry *entry = &context->backends.entries[i];
		et_plugin_state(entry->backend, &states[0]);
		if (!asker->sees_all) /* a process that serves all users is no business of one of them */
			states[0].pid = 0;
		if (!entry->ops->runs_programs) /* it has processes for users only */
			hosts[status->n_hosts++] = host_of(entry->ops->name, &states[0], pool);
		uint32_t n = et_plugin_tenant_states(entry->backend, states, MAX_TENANTS);
		for (uint32_t k = 0; k < n && k < MAX_TENANTS; k++)
			if (sees_tenant(asker, states[k].tenant))
				hosts[status->n_hosts++] = host_of(entry->ops->name, &states[k], pool);
	}
	status->hosts = hosts;
	return true;
}

/* Users, and how much of each limit they use. False: no memory. */
static bool list_users(const struct asker *asker, struct et_pool *pool, struct inf_server_status *status)
{
	const struct et_list_node *list = &asker->session->context->quota->users;
	struct inf_user_status *users = ET_POOL_NEW_ARRAY(pool, struct inf_user_status, count(list));
	for (const struct et_list_node *node = list->next; node != list && users; node = node->next) {
		const struct inf_quota_user *user = ET_CONTAINER_OF(node, struct inf_quota_user, node);
		if (!sees_user(asker, user->uid))
			continue;
		struct inf_limit_status *limits = ET_POOL_NEW_ARRAY(pool, struct inf_limit_status, INF_N_QUOTAS);
		if (!limits)
			return false;
		for (int kind = 0; kind < INF_N_QUOTAS; kind++)
			limits[kind] = (struct inf_limit_status){ inf_quota_name((enum inf_quota_kind)kind),
				get(&user->used[kind]), user->limits[kind] };
		users[status->n_users++] = (struct inf_user_status){ (uint32_t)user->uid, user->weight,
			inf_class_name(user->highest), INF_N_QUOTAS, limits };
	}
	status->users = users;
	return users != NULL;
}

/* False: no memory. */
static bool list_programs(const struct asker *asker, struct et_pool *pool, struct inf_server_status *status)
{
	const struct inf_context *context = asker->session->context;
	const struct et_list_node *list = inf_repository_models(context->repository);
	struct inf_program_status *programs = ET_POOL_NEW_ARRAY(pool, struct inf_program_status, count(list));
	for (const struct et_list_node *node = list->next; node != list && programs; node = node->next) {
		const struct inf_model *m = ET_CONTAINER_OF(node, const struct inf_model, node);
		if (inf_model_is_loaded(m) && sees_model(asker, m))
			describe_program(context, m, &programs[status->n_programs++], pool);
	}
	status->programs = programs;
	return programs;
}

/* False: no memory. */
static bool list_clients(const struct asker *asker, struct et_pool *pool, struct inf_server_status *status)
{
	const struct et_list_node *list = &asker->session->context->sessions;
	struct inf_client_status *clients = ET_POOL_NEW_ARRAY(pool, struct inf_client_status, count(list));
	for (const struct et_list_node *node = list->next; node != list && clients; node = node->next) {
		const struct inf_session *c = ET_CONTAINER_OF(node, const struct inf_session, node);
		if (!sees_user(asker, c->user->uid))
			continue;
		clients[status->n_clients++] = (struct inf_client_status){
			.session = c->id,
			.pid = c->pid,
			.uid = c->user->uid,
			.name = c->name,
			.methods = c->methods.n_used,
			.regions = c->regions.n_used,
			.region_bytes = c->region_bytes,
			.requests = c->n_requests,
			.in_flight = atomic_load_explicit(&c->n_in_flight, memory_order_relaxed),
		};
	}
	status->clients = clients;
	return clients;
}

/* Backends that work, and why the others do not. False: no memory. */
static bool list_backends(const struct inf_context *context, struct et_pool *pool, struct inf_server_status *status)
{
	const struct et_registry *registry = &context->backends.registry;
	const char **here = ET_POOL_NEW_ARRAY(pool, const char *, registry->n_backends + 1);
	const char **missing = ET_POOL_NEW_ARRAY(pool, const char *,
		context->backends.n_missing + registry->n_backends);
	if (!here || !missing)
		return false;
	for (size_t i = 0; i < registry->n_backends; i++) {
		const char *why = i < context->backends.n_compiled_in ? NULL
								      : failure_of(&context->backends.entries[i], pool);
		if (context->backends.entries[i].ops->runs_programs)
			continue; /* no model can ask for it */
		if (why)
			missing[status->n_backends_missing++] = why;
		else
			here[status->n_backends++] = context->backends.entries[i].ops->name;
	}
	here[status->n_backends++] = "portable";
	for (uint32_t i = 0; i < context->backends.n_missing; i++)
		missing[status->n_backends_missing++] = context->backends.missing[i];
	status->backends = here;
	status->backends_missing = missing;
	return true;
}

/* False: no memory. */
static bool list_queues(const struct inf_context *context, struct et_pool *pool, struct inf_server_status *status)
{
	struct inf_queue_status *queues = ET_POOL_NEW_ARRAY(pool, struct inf_queue_status, context->queues.n);
	for (uint32_t i = 0; i < context->queues.n && queues; i++) {
		struct inf_pool *queue = context->queues.pools[i];
		struct et_queue_id id = inf_pool_queue(queue);
		const char *kind = et_queue_kind_name((enum et_queue_kind)id.kind);
		const char *name = id.kind == ET_QUEUE_CPU ? text(pool, "%s", kind)
							   : text(pool, "%s%u", kind, id.device);
		struct inf_pool_stats stats;
		inf_pool_stats(queue, &stats);
		queues[i] = (struct inf_queue_status){ name, inf_pool_n_workers(queue), stats.n_running,
			stats.n_waiting, stats.busy_ns, stats.n_completed, inf_stuck_count(&context->stuck, i),
			stats.n_spares, .device = NULL };
		struct et_device device = { .name = "" };
		if (id.kind != ET_QUEUE_CPU)
			inf_backends_find_device(&context->backends, id, &device);
		queues[i].device = text(pool, "%s", device.name);
		queues[i].driver = text(pool, "%s", device.driver);
		queues[i].features = text(pool, "%s", device.features);
		if (!queues[i].device || !queues[i].driver || !queues[i].features)
			return false;
		queues[i].device_bytes = device.memory_bytes;
	}
	status->queues = queues;
	status->n_queues = context->queues.n;
	return queues;
}

/* Whether the helper's own thread has been in one piece of work for longer than `stall`; then a sentence. */
static bool describe_slow_helper(const struct inf_context *context, uint64_t now_ns, char *to, size_t room)
{
	uint64_t since_ns = inf_helper_busy_since(context->helper), stall_ns = context->config.stall_ns;
	if (!since_ns || !stall_ns || now_ns <= since_ns || now_ns - since_ns <= stall_ns)
		return false;
	inf_text(to, room,
		"a model has been loading for %.0f s, and others wait for it: perhaps the file system of '%s' does not "
		"answer",
		(double)(now_ns - since_ns) / 1e9, context->config.models);
	return true;
}

static size_t count_failing(const struct inf_context *context)
{
	struct inf_failing_variant v;
	size_t n = 0;
	while (inf_failing_variants_at(inf_repository_failing(context->repository), n, &v))
		n++;
	return n;
}

static void warn_of_failing(const struct asker *asker, struct et_pool *pool, struct inf_server_status *status,
	const char **warnings)
{
	const struct et_list_node *failing = inf_repository_failing(asker->session->context->repository);
	struct inf_failing_variant v;
	for (size_t i = 0; inf_failing_variants_at(failing, i, &v); i++) {
		const char *file = strrchr(v.path, '/') ? strrchr(v.path, '/') + 1 : v.path;
		bool is_seen = asker->sees_all || inf_session_may_open(asker->session, v.model);
		if (is_seen && (warnings[status->n_warnings] = text(pool, "model %s: %s (%s) is passed over: %s",
					v.model, file, v.backends, v.why)))
			status->n_warnings++;
	}
}

/* Workers that are stuck, a slow helper, models that do not serve what the folder holds, and variants that are passed
 * over because their runs fail. False: no memory. */
static bool list_warnings(const struct asker *asker, struct et_pool *pool, struct inf_server_status *status)
{
	const struct inf_context *context = asker->session->context;
	const struct et_list_node *models = inf_repository_models(context->repository);
	const char **warnings = ET_POOL_NEW_ARRAY(pool, const char *,
		context->stuck.n + 1 + count(models) + count_failing(context));
	const struct et_list_node *stuck = &context->stuck.list;
	uint64_t now_ns = et_platform_now_ns(NULL);
	char warning[600];
	if (!warnings)
		return false;
	for (const struct et_list_node *node = stuck->next; node != stuck; node = node->next) {
		const struct inf_stuck_worker *worker = ET_CONTAINER_OF(node, const struct inf_stuck_worker, node);
		bool is_full = asker->sees_all || (worker->has_client && sees_user(asker, worker->uid));
		inf_stuck_describe(worker, &context->queues, now_ns, is_full, warning, sizeof(warning));
		if ((warnings[status->n_warnings] = et_pool_strndup(pool, warning, strlen(warning))))
			status->n_warnings++;
	}
	if (describe_slow_helper(context, now_ns, warning, sizeof(warning)) &&
		(warnings[status->n_warnings] = et_pool_strndup(pool, warning, strlen(warning))))
		status->n_warnings++;
	for (const struct et_list_node *node = models->next; node != models; node = node->next) {
		const struct inf_model *m = ET_CONTAINER_OF(node, const struct inf_model, node);
		const char *note = inf_model_is_loaded(m) && m->is_newest && sees_model(asker, m) ? note_of(m, pool)
												  : "";
		if (note[0] && (warnings[status->n_warnings] = text(pool, "model %s: %s", m->model, note)))
			status->n_warnings++;
	}
	warn_of_failing(asker, pool, status, warnings);
	status->warnings = warnings;
	return true;
}

void inf_answer_status(struct inf_session *s, uint64_t id)
{
	const struct inf_context *context = s->context;
	struct inf_reply reply = { .id = id, .kind = INF_REPLY_SERVER_STATUS };
	struct inf_server_status *status = &reply.server_status;
	const struct asker asker = { s, inf_session_sees_all(s) };
	struct et_pool pool;
	et_pool_init(&pool, et_platform_allocator());
	status->version = INF_VERSION;
	status->uptime_ns = et_platform_now_ns(NULL) - context->started_ns;
	status->resident_bytes = et_platform_resident_bytes();
	status->memory_used = inf_repository_memory(context->repository);
	status->memory_budget = context->config.memory_budget;
	status->requests = get(&context->n_requests);
	status->failed = get(&context->n_failed);
	status->copied_bytes = get(&context->copied_bytes);
	if (list_programs(&asker, &pool, status) && list_clients(&asker, &pool, status) &&
		list_queues(context, &pool, status) && list_backends(context, &pool, status) &&
		list_warnings(&asker, &pool, status) && list_hosts(&asker, &pool, status) &&
		list_users(&asker, &pool, status))
		inf_session_reply(s, &reply);
	else
		out_of_memory(s, id);
	et_pool_deinit(&pool);
}

/* The statistics that a client asks for and may see: of versions, and of programs that clients brought. */
struct stats_list {
	const struct asker *asker;
	const char *model, *version; /* "": any */
	struct inf_model_stats *stats;
	struct inf_run_counts *counts; /* of each */
	size_t n;
};

static bool wants_stats(const struct stats_list *list, const char *model, const char *version)
{
	return (!list->model[0] || strcmp(list->model, model) == 0) &&
	       (!list->version[0] || strcmp(list->version, version) == 0);
}

/* The counts of that version, which is added if it is not in the list. */
static struct inf_run_counts *counts_of(struct stats_list *list, const char *model, const char *version, bool is_new)
{
	size_t i = is_new ? list->n : 0;
	while (i < list->n && (strcmp(list->stats[i].name, model) || strcmp(list->stats[i].version, version)))
		i++;
	if (i == list->n)
		list->stats[list->n++] = (struct inf_model_stats){ .name = model, .version = version };
	return &list->counts[i];
}

/* Models that are loaded, and before them what was counted of those that are not any more. */
static void collect_stats(struct stats_list *list, const struct et_list_node *totals, const struct et_list_node *models)
{
	for (const struct et_list_node *node = totals->next; node != totals; node = node->next) {
		const struct inf_run_totals *t = ET_CONTAINER_OF(node, struct inf_run_totals, node);
		if (wants_stats(list, t->model, t->version) &&
			(list->asker->sees_all || inf_session_may_open(list->asker->session, t->model)))
			*counts_of(list, t->model, t->version, true) = t->counts;
	}
	for (const struct et_list_node *node = models->next; node != models; node = node->next) {
		const struct inf_model *m = ET_CONTAINER_OF(node, struct inf_model, node);
		if (m->state != INF_MODEL_FAILED && wants_stats(list, m->model, m->version) &&
			sees_model(list->asker, m))
			inf_run_counts_add(counts_of(list, m->model, m->version, m->is_uploaded), &m->stats);
	}
}

void inf_answer_statistics(struct inf_session *s, uint64_t id, const char *model, const char *version)
{
	const struct et_list_node *totals = inf_repository_totals(s->context->repository);
	const struct et_list_node *models = inf_repository_models(s->context->repository);
	struct inf_reply reply = { .id = id, .kind = INF_REPLY_MODEL_STATISTICS };
	struct et_pool pool;
	et_pool_init(&pool, et_platform_allocator());
	const struct asker asker = { s, inf_session_sees_all(s) };
	const size_t room = count(totals) + count(models);
	struct stats_list list = { &asker, model, version, ET_POOL_NEW_ARRAY(&pool, struct inf_model_stats, room),
		ET_POOL_NEW_ARRAY(&pool, struct inf_run_counts, room), 0 };
	if (!list.stats || !list.counts) {
		out_of_memory(s, id);
		et_pool_deinit(&pool);
		return;
	}
	collect_stats(&list, totals, models);
	for (size_t i = 0; i < list.n; i++) {
		const struct inf_run_counts *c = &list.counts[i];
		struct inf_model_stats *stats = &list.stats[i];
		stats->last_inference = c->last_ms;
		stats->inference_count = stats->execution_count = c->n_success;
		stats->inference_stats = (struct inf_infer_statistics){
			.success = { c->n_success, c->success_ns },
			.fail = { c->n_fail, c->fail_ns },
			.queue = { c->n_runs, c->queue_ns },
			.compute_infer = { c->n_runs, c->run_ns },
		};
		stats->copied_bytes = c->copied_bytes;
	}
	if (model[0] && !list.n) {
		inf_session_refuse(s, id, INF_NOT_FOUND, "model '%s' is not loaded, so there are no statistics of it",
			model);
	} else {
		reply.model_statistics = (struct inf_model_statistics){ list.n, list.stats };
		inf_session_reply(s, &reply);
	}
	et_pool_deinit(&pool);
}

/* --- models --------------------------------------------------------------------------------------- */

void inf_answer_metadata(struct inf_session *s, uint64_t id, struct inf_model *model,
	const struct inf_variants *on_disk, size_t n_on_disk)
{
	struct inf_reply reply = { .id = id, .kind = INF_REPLY_MODEL_METADATA };
	struct inf_model_metadata *m = &reply.model_metadata;
	const struct et_program *program = et_plan_program(model->plan);
	struct et_pool pool;
	et_pool_init(&pool, et_platform_allocator());
	uint32_t n_methods = et_program_n_methods(program);
	const char **methods = ET_POOL_NEW_ARRAY(&pool, const char *, n_methods);
	const char **versions = ET_POOL_NEW_ARRAY(&pool, const char *, n_on_disk + 1);
	m->inputs = inf_answer_tensors(&pool, model, true);
	m->outputs = inf_answer_tensors(&pool, model, false);
	if (!methods || !versions || !m->inputs || !m->outputs) {
		et_pool_deinit(&pool);
		out_of_memory(s, id);
		return;
	}
	for (uint32_t i = 0; i < n_methods; i++)
		methods[m->n_methods++] = et_program_method_at(program, i)->name;
	for (size_t i = 0; i < n_on_disk; i++)
		if (strcmp(on_disk[i].model, model->model) == 0 && on_disk[i].n)
			versions[m->n_versions++] = on_disk[i].version;
	if (!m->n_versions)
		versions[m->n_versions++] = model->version;
	m->name = model->model;
	m->versions = versions;
	m->platform = "executorch_pte";
	m->n_inputs = model->info->n_inputs;
	m->n_outputs = model->info->n_outputs;
	m->methods = methods;
	m->backend = model->backend;
	m->stateful = model->info->is_stateful;
	inf_session_reply(s, &reply);
	et_pool_deinit(&pool);
}

/* The state as the protocol knows it: no client can run an abandoned model, no new client gets a superseded or replaced
 * one. */
static enum inf_model_state public_state(const struct inf_model *model)
{
	if (model->state == INF_MODEL_FAILING)
		return INF_MODEL_LOADING;
	if (model->state == INF_MODEL_ABANDONED)
		return INF_MODEL_FAILED;
	return model->state == INF_MODEL_SUPERSEDED || model->is_replaced ? INF_MODEL_UNLOADING : model->state;
}

/* Its name in the protocol (ipc/inferd.proto). */
static const char *public_name(enum inf_model_state state)
{
	static const char *const names[INF_N_MODEL_STATES] = { [INF_MODEL_UNLOADED] = "UNLOADED",
		[INF_MODEL_FAILED] = "FAILED",
		[INF_MODEL_UNLOADING] = "UNLOADING",
		[INF_MODEL_LOADING] = "LOADING",
		[INF_MODEL_READY] = "READY" };
	return names[state];
}

/* How close a state is to READY. A version of a model shows the closest state of its variants. */
static int nearness(enum inf_model_state state)
{
	static const int order[] = { [INF_MODEL_UNLOADED] = 0,
		[INF_MODEL_FAILED] = 1,
		[INF_MODEL_UNLOADING] = 2,
		[INF_MODEL_LOADING] = 3,
		[INF_MODEL_READY] = 4 };
	return order[state];
}

/* @pool is for reasons; without memory for one, the reason is left out. */
static void describe_model(struct inf_context *context, struct inf_model_index *index, const struct inf_variants *v,
	struct et_pool *pool, enum inf_model_state *ret)
{
	const struct et_list_node *models = inf_repository_models(context->repository);
	enum inf_model_state state = INF_MODEL_UNLOADED;
	const struct inf_model *shown = NULL;
	char why[INF_MAX_TEXT + 1];
	bool is_refused;
	if (inf_repository_diagnose(context->repository, v->model, v->version, why, sizeof(why), &is_refused))
		index->reason = et_pool_strndup(pool, why, strlen(why));
	for (const struct et_list_node *node = models->next; node != models; node = node->next) {
		const struct inf_model *m = ET_CONTAINER_OF(node, struct inf_model, node);
		if (m->is_uploaded || strcmp(m->model, v->model) || strcmp(m->version, v->version))
			continue;
		index->memory_bytes += inf_model_memory(m);
		enum inf_model_state now = public_state(m);
		/* A failed variant or method says nothing about the others: its reason is shown, not its state. */
		bool is_preferred = shown && m->is_preferred && !shown->is_preferred; /* of two that are READY */
		if (m->state == INF_MODEL_FAILED || nearness(now) < nearness(state) ||
			(nearness(now) == nearness(state) && !is_preferred))
			continue;
		state = now;
		shown = m;
		index->serves = state == INF_MODEL_READY && m->is_newest;
		index->file = m->path;
		index->digest = m->digest;
		index->passed_over = m->passed_over;
		index->note = note_of(m, pool);
		index->backend = state == INF_MODEL_READY ? m->backend : "";
		if (state == INF_MODEL_FAILED && !index->reason)
			index->reason = m->reason;
	}
	if (v->ignored) {
		index->reason = v->ignored;
		index->state = "IGNORED";
		*ret = INF_MODEL_UNLOADED;
		return;
	}
	if (!v->n && v->denied)
		index->reason = text(pool, "%.400s: Permission denied to user %lu", v->denied,
			(unsigned long)geteuid());
	if (state == INF_MODEL_UNLOADED && (is_refused || !v->n))
		state = INF_MODEL_FAILED;
	index->state = public_name(state);
	*ret = state;
}

void inf_answer_index(struct inf_session *s, uint64_t id, bool only_ready, const struct inf_variants *on_disk,
	size_t n_on_disk)
{
	struct inf_reply reply = { .id = id, .kind = INF_REPLY_REPOSITORY_INDEX };
	struct et_pool pool;
	et_pool_init(&pool, et_platform_allocator());
	struct inf_model_index *models = ET_POOL_NEW_ARRAY(&pool, struct inf_model_index, n_on_disk);
	size_t n = 0;
	for (size_t i = 0; i < n_on_disk && models; i++) {
		struct inf_model_index *index = &models[n];
		if (!inf_session_may_open(s, on_disk[i].model))
			continue;
		const char **files = ET_POOL_NEW_ARRAY(&pool, const char *, on_disk[i].n);
		enum inf_model_state state;
		if (!files) {
			models = NULL;
			break;
		}
		for (uint32_t f = 0; f < on_disk[i].n; f++)
			files[f] = on_disk[i].items[f].file;
		*index = (struct inf_model_index){
			.name = on_disk[i].model, .version = on_disk[i].version, .n_files = on_disk[i].n, .files = files
		};
		describe_model(s->context, index, &on_disk[i], &pool, &state);
		if (!only_ready || state == INF_MODEL_READY)
			n++;
	}
	if (!models) {
		out_of_memory(s, id);
	} else {
		reply.repository_index = (struct inf_repository_index){ n, models, s->context->config.models };
		inf_session_reply(s, &reply);
	}
	et_pool_deinit(&pool);
}
