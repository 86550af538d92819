/* SPDX-License-Identifier: BSD-3-Clause */
/* Inspecting the variants of a model: which of them can run here, and which comes first.
 *
 * An inspection compares the names of a program's delegates and operators with those that this daemon has, and asks the
 * backends about their payloads; it makes no Plan. A variant that passes may still fail to load. folder.c finds the
 * files. */
#include "daemon/model/variant.h"
#include "daemon/base/text.h"
#include "delegates/known_delegates.h"
#include "delegates/plugin/proxy/plugin.h"
#include "delegates/program/stand_in.h"

#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *inf_default_method(const struct et_program *program)
{
	const struct et_method_spec *method = et_program_find_method(program, NULL);
	return method ? method->name : NULL;
}

static const struct et_backend_entry *find_backend(const struct et_registry *registry, const char *id)
{
	for (size_t i = 0; i < registry->n_backends; i++)
		if (strcmp(registry->backends[i].ops->id, id) == 0 && !registry->backends[i].ops->runs_programs)
			return &registry->backends[i];
	return NULL;
}

/* The kind of the backend's first device: "npu"; "": it has none. */
static const char *kind_of(const struct et_backend_entry *entry)
{
	struct et_device device = { 0 };
	if (!entry || entry->ops->n_devices(entry->backend) <= 0)
		return "";
	entry->ops->device(entry->backend, 0, &device);
	return et_queue_kind_name(device.kind);
}

#define NOT_WANTED UINT32_MAX

/* The place of @name in @list, names with commas or blanks between them; NOT_WANTED: it is not there. */
static uint32_t place_in(const char *list, const char *name)
{
	size_t n_name = strlen(name);
	uint32_t place = 0;
	for (const char *at = list; *name; place++) {
		at += strspn(at, ", \t");
		size_t n = strcspn(at, ", \t");
		if (!n)
			break;
		if (n == n_name && memcmp(at, name, n) == 0)
			return place;
		at += n;
	}
	return NOT_WANTED;
}

/* The place of a backend (NULL: "portable") in the client's list, by its name, its id, or its device's kind. */
static uint32_t wanted_place(const char *list, const struct et_backend_entry *entry)
{
	const char *names[] = { entry ? entry->ops->name : "portable", entry ? entry->ops->id : "", kind_of(entry) };
	uint32_t place = NOT_WANTED;
	for (size_t i = 0; i < ET_ARRAY_LEN(names); i++) {
		uint32_t now = place_in(list, names[i]);
		place = now < place ? now : place;
	}
	return place;
}

/* The place of a backend in the configured order, by its own name or by the kind of its first device. */
static uint32_t backend_rank(const struct inf_inspect_options *o, const struct et_backend_entry *entry)
{
	const char *kind = kind_of(entry), *name = entry ? entry->ops->name : "portable";
	for (uint32_t i = 0; i < o->config->n_backends; i++)
		if (strcmp(o->config->backends[i], name) == 0 || strcmp(o->config->backends[i], kind) == 0)
			return i;
	return o->config->n_backends;
}

static void list_available(const struct et_registry *registry, char *to, size_t room)
{
	size_t n = 0;
	to[0] = '\0';
	for (size_t i = 0; i < registry->n_backends && n < room; i++)
		if (!registry->backends[i].ops->runs_programs)
			n += inf_text(to + n, room - n, "%s%s", n ? ", " : "", registry->backends[i].ops->id);
}

bool inf_has_wanted_backend(const struct et_registry *registry, const char *wanted, char *why, size_t room)
{
	char available[200];
	bool is_any = wanted_place(wanted, NULL) != NOT_WANTED;
	for (size_t i = 0; i < registry->n_backends && !is_any; i++)
		is_any = !registry->backends[i].ops->runs_programs &&
			 (wanted_place(wanted, &registry->backends[i]) != NOT_WANTED || strchr(wanted, '+'));
	list_available(registry, available, sizeof(available));
	if (!is_any)
		inf_text(why, room, "No available backends from requested: [%s]. Available backends: [%s%sportable]",
			wanted, available, available[0] ? ", " : "");
	return is_any;
}

/* Collect the distinct backends that the delegates of all methods need. False: the method @meant (NULL: none) needs a
 * backend that is missing, and `reason` names it. Backends that only other methods need may be missing. */
static bool find_delegates(struct inf_variant *v, const struct inf_inspect_options *o,
	const struct et_method_spec *meant, const struct et_backend_entry **ret_entries, size_t *ret_n)
{
	size_t n = 0;
	for (uint32_t m = 0; m < et_program_n_methods(v->program); m++) {
		const struct et_method_spec *method = et_program_method_at(v->program, m);
		for (uint32_t d = 0; d < method->n_delegates; d++) {
			const struct et_backend_entry *entry = find_backend(o->registry, method->delegates[d].id);
			char available[200];
			size_t i = 0;
			if (!entry && method != meant)
				continue;
			if (!entry) {
				list_available(o->registry, available, sizeof(available));
				v->failure = INF_LOAD_FAILURE_MISSING;
				char known[320];
				et_known_delegate_text(method->delegates[d].id, known, sizeof(known));
				inf_text(v->reason, sizeof(v->reason),
					"Backend '%.100s' is not available. Available backends: [%s]%s%s%s",
					method->delegates[d].id, available, known[0] ? ". It was " : "", known,
					o->config->n_backend_sections ? ". Why a plug-in of inferd.conf is "
									"not there, 'inferctl status' says"
								      : "");
				return false;
			}
			while (i < n && ret_entries[i] != entry)
				i++;
			if (i == n && n < INF_VARIANT_DELEGATES_MAX)
				ret_entries[n++] = entry;
		}
	}
	*ret_n = n;
	return true;
}

struct et_options inf_model_options(const struct inf_config_model_options *from,
	struct et_option room[INF_CONFIG_MODEL_OPTIONS_MAX])
{
	struct et_options options = { .items = room, .n = from ? from->n : 0 };
	for (uint32_t i = 0; i < options.n; i++)
		room[i] = (struct et_option){ from->items[i].backend, from->items[i].key, from->items[i].value };
	return options;
}

/* False: `reason` says why this payload can't run here. Where the backend can't be asked now, its compile will tell. */
static bool probe_payload(struct inf_variant *v, const struct inf_inspect_options *o,
	const struct et_backend_entry *entry, const struct et_method_spec *method, uint32_t index)
{
	struct et_option room[INF_CONFIG_MODEL_OPTIONS_MAX];
	struct et_options options = inf_model_options(o->options, room);
	struct et_pool pool;
	struct et_payload payload = et_payload_of(v->program, method, index);
	enum et_readiness readiness = ET_READINESS_READY;
	struct et_diag diag = { "" };
	if (!entry->ops->probe || !payload.n_args)
		return true;
	et_pool_init(&pool, et_platform_allocator());
	bool is_told = et_payload_set_options(&payload, &options, entry->ops->name, &pool) &&
		       entry->ops->probe(entry->backend, &payload, &readiness, &diag) == ET_OK;
	et_pool_deinit(&pool);
	if (!is_told)
		return true;
	const char *why = diag.text[0] ? diag.text : "the backend does not say why";
	if (readiness == ET_READINESS_NO)
		inf_text(v->reason, sizeof(v->reason), "%s can't run it here: %s", entry->ops->name, why);
	else if (readiness == ET_READINESS_RECOMPILE && !v->note[0])
		inf_text(v->note, sizeof(v->note), "%.60s compiles it anew: %s", entry->ops->name, why);
	return readiness != ET_READINESS_NO;
}

/* Whether @op_name is implemented by the plug-in of @backend. */
static bool is_plugin_operator(const struct et_registry *registry, const char *op_name,
	const struct et_backend *backend)
{
	for (size_t i = 0; i < registry->n_tables; i++) {
		const struct et_kernel *kernel = et_kernel_table_find(registry->tables[i], op_name);
		if (kernel)
			return et_plugin_of_kernel(kernel) == backend;
	}
	return false;
}

bool inf_method_uses(const struct et_registry *registry, const struct et_method_spec *method,
	const struct et_backend_entry *entry)
{
	for (uint32_t d = 0; d < method->n_delegates; d++)
		if (strcmp(method->delegates[d].id, entry->ops->id) == 0)
			return true;
	for (uint32_t i = 0; i < method->n_operators; i++)
		if (is_plugin_operator(registry, method->operators[i], entry->backend))
			return true;
	return false;
}

static bool has_operator(const struct et_registry *registry, const char *name)
{
	for (size_t i = 0; i < registry->n_tables; i++)
		if (et_kernel_table_find(registry->tables[i], name))
			return true;
	return false;
}

/* Compares names only, which is quick: a backend may still refuse a payload. */
static bool may_run(const struct et_registry *registry, const struct et_method_spec *method)
{
	if (method->why_not)
		return false;
	for (uint32_t i = 0; i < method->n_delegates; i++)
		if (!find_backend(registry, method->delegates[i].id))
			return false;
	for (uint32_t i = 0; i < method->n_operators; i++)
		if (!has_operator(registry, method->operators[i]))
			return false;
	return true;
}

uint32_t inf_count_other_methods(const struct et_registry *registry, const struct et_program *program,
	const struct et_method_spec *method)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < et_program_n_methods(program); i++) {
		const struct et_method_spec *other = et_program_method_at(program, i);
		n += other != method && may_run(registry, other);
	}
	return n;
}

/* Whether the backend is up; else `reason`. */
static bool check_health(struct inf_variant *v, const struct et_backend_entry *entry)
{
	struct et_diag diag = { "" };
	if (!entry->ops->health || entry->ops->health(entry->backend, &diag) == ET_OK)
		return true;
	v->failure = INF_LOAD_FAILURE_DOWN;
	inf_text(v->reason, sizeof(v->reason), "backend '%s' %s; 'inferctl restart %s' gives it another chance",
		entry->ops->name, diag.text, entry->ops->name);
	return false;
}

/* Whether the backends are up and can run the payloads of @method (NULL: no payloads); else `reason`. */
static bool ask_backends(struct inf_variant *v, const struct inf_inspect_options *o,
	const struct et_method_spec *method)
{
	for (size_t i = 0; method && i < o->registry->n_backends; i++)
		if (inf_method_uses(o->registry, method, &o->registry->backends[i]) &&
			!check_health(v, &o->registry->backends[i]))
			return false;
	for (uint32_t d = 0; method && d < method->n_delegates; d++) {
		const struct et_backend_entry *entry = find_backend(o->registry, method->delegates[d].id);
		if (entry && !probe_payload(v, o, entry, method, d))
			return false;
	}
	return true;
}

struct et_platform_copy_limits inf_copy_limits(const struct inf_inspect_options *o, uint64_t n_before)
{
	return (struct et_platform_copy_limits){
		.max_bytes = o->memory_budget ? et_less(o->memory_budget, n_before) : UINT64_MAX,
		.is_stopped = o->is_stopped,
		.arg = o->arg,
		.extent = et_program_extent,
	};
}

/* @n_before: the bytes of the data files that were opened before, which count for the memory budget, too. */
static enum et_status open_file(struct et_source *ret_source, int fd, const char *path, uint64_t n_bytes,
	uint64_t n_before, const struct inf_inspect_options *o, struct et_diag *diag)
{
	const struct et_platform_copy_limits limits = inf_copy_limits(o, n_before);
	return fd < 0 ? et_platform_source_open(ret_source, path, o->cache_dir, &limits, diag)
		      : et_platform_source_import(ret_source, fd, n_bytes, path, o->cache_dir, &limits, diag);
}

/* Open the data files, which all variants share; NULL: *ret_status and @diag. */
static struct et_platform_data *open_data(const struct inf_variants *v, const struct inf_inspect_options *o,
	enum et_status *ret_status, struct et_diag *diag)
{
	struct et_platform_data *data = et_platform_data_new();
	enum et_status status = data ? ET_OK : ET_E_MEMORY_ALLOCATION_FAILED;
	if (v->has_too_much_data)
		status = et_fail(diag, ET_E_NOT_SUPPORTED, "there are more than %d data files (.ptd) beside it",
			ET_PLATFORM_MAX_DATA);
	/* names are looked up in the last added file first */
	for (uint32_t i = v->data_ids.n; i-- > 0 && status == ET_OK;) {
		const struct inf_data_file *file = &v->data[i];
		const char *name = strrchr(file->path, '/');
		struct et_source source;
		status = open_file(&source, file->fd, file->path, v->data_ids.items[i].n_bytes,
			et_platform_data_n_bytes(data), o, diag);
		if (status != ET_OK)
			break;
		status = et_platform_data_add(data, &source, name ? name + 1 : file->path, diag);
		if (status != ET_OK && source.release)
			source.release(source.owner);
	}
	if (status == ET_OK)
		return data;
	*ret_status = et_fail(diag, status, "%s", et_status_text(status));
	return et_platform_data_unref(data);
}

/* *ret_is_damaged: it failed because of a damaged copy in the store, which is deleted now. */
static enum et_status try_program(struct inf_variant *v, struct et_platform_data *data,
	const struct inf_inspect_options *o, bool *ret_is_damaged, struct et_diag *diag)
{
	struct et_source source;
	/* An uploaded program is not kept for long, and its user could fill the store. */
	bool is_stored = o->store && v->fd < 0;
	size_t n_before = et_platform_data_n_bytes(data);
	const struct et_platform_copy_limits limits = inf_copy_limits(o, n_before);
	enum et_status status = is_stored ? et_platform_store_open(o->store, &source, v->path, o->cache_dir, &limits,
						    diag)
					  : open_file(&source, v->fd, v->path, v->id.n_bytes, n_before, o, diag);
	if (status != ET_OK)
		return status;
	source.tenant = v->fd >= 0 ? o->tenant : 0;
	if (is_stored)
		status = et_platform_store_bind(o->store, &source, et_platform_data_table(data), v->path, diag);
	if (status == ET_OK && et_platform_data_table(data))
		status = et_platform_data_bind(data, &source, diag);
	if (status == ET_OK)
		status = et_program_open(&v->program, &source, et_platform_data_table(data), et_platform_allocator(),
			diag);
	if (status != ET_OK) {
		v->program = NULL;
		*ret_is_damaged = et_platform_source_check(&source);
		if (source.release)
			source.release(source.owner);
	}
	return status;
}

static enum et_status open_program(struct inf_variant *v, struct et_platform_data *data,
	const struct inf_inspect_options *o, struct et_diag *diag)
{
	bool is_damaged = false;
	enum et_status status = try_program(v, data, o, &is_damaged, diag);
	if (status == ET_OK || !is_damaged)
		return status;
	diag->text[0] = '\0';
	return try_program(v, data, o, &is_damaged, diag);
}

/* A file that can't be opened lacks no backend or operator: a format that is not supported is the file's fault. */
static enum inf_load_failure open_failure(enum et_status status)
{
	enum inf_load_failure failure = inf_load_failure_of(status);
	return failure == INF_LOAD_FAILURE_MISSING ? INF_LOAD_FAILURE_BROKEN : failure;
}

/* The client reads the file's name before the reason, so the reason does not repeat it. */
static const char *without_path(const char *text, const char *path)
{
	size_t n = strlen(path);
	return strncmp(text, path, n) == 0 && strncmp(text + n, ": ", 2) == 0 ? text + n + 2 : text;
}

/* `reason` is set; so is `failure`, unless the program itself is at fault. */
static void refuse(struct inf_variant *v)
{
	v->program = et_program_unref(v->program);
	if (v->failure == INF_LOAD_FAILURE_NONE)
		v->failure = INF_LOAD_FAILURE_BROKEN;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_values(uint64_t hash, const struct et_method_spec *method, const uint32_t *slots, uint32_t n)
{
	hash = hash_bytes(hash, &n, sizeof(n));
	for (uint32_t i = 0; i < n; i++) {
		const struct et_value_spec *value = &method->values[slots[i]];
		hash = hash_bytes(hash, &value->tag, sizeof(value->tag));
		if (value->tag != ET_TAG_TENSOR)
			continue;
		const struct et_tensor_spec *tensor = value->tensor;
		const uint32_t kind[] = { tensor->type, tensor->dynamism, tensor->n_dims };
		hash = hash_bytes(hash, kind, sizeof(kind));
		hash = hash_bytes(hash, tensor->sizes, tensor->n_dims * sizeof(*tensor->sizes));
		hash = hash_bytes(hash, tensor->dim_order, tensor->n_dims * sizeof(*tensor->dim_order));
	}
	return hash;
}

/* Clients may be moved from one variant to another, and do not choose between them: all must have the same inputs and
 * outputs. */
static void refuse_others(struct inf_variants *v)
{
	const struct inf_variant *first = NULL;
	for (uint32_t i = 0; i < v->n; i++) { /* whichever backends this client wants */
		const struct inf_variant *item = &v->items[i];
		bool is_earlier = !first || item->own_rank < first->own_rank ||
				  (item->own_rank == first->own_rank && strcmp(item->path, first->path) < 0);
		if ((item->program || item->is_unwanted) && item->io_hash && is_earlier)
			first = item;
	}
	for (uint32_t i = 0; i < v->n && first; i++) {
		struct inf_variant *other = &v->items[i];
		if (!other->program || !other->io_hash || other->io_hash == first->io_hash)
			continue;
		inf_text(other->reason, sizeof(other->reason),
			"its inputs or outputs differ from those of %s; all variants of one version must have the same",
			first->file);
		refuse(other);
	}
}

static void inspect(struct inf_variant *v, struct et_platform_data *data, const struct inf_model_conf *conf,
	const struct inf_inspect_options *o)
{
	const struct et_backend_entry *entries[INF_VARIANT_DELEGATES_MAX];
	struct et_diag diag = { "" };
	size_t n = 0, n_label = 0;
	uint32_t wanted = NOT_WANTED;

	enum et_status status = open_program(v, data, o, &diag);
	if (status != ET_OK) {
		const char *what = v->fd < 0 ? et_platform_foreign_file(v->path) : NULL;
		v->failure = open_failure(status);
		inf_text(v->reason, sizeof(v->reason), "%s%s", what ? "it is " : "",
			what           ? what
			: diag.text[0] ? without_path(diag.text, v->path)
				       : et_status_text(status));
		return;
	}
	const struct et_method_spec *meant = et_program_find_method(v->program, o->method[0] ? o->method : NULL);
	if (meant) {
		inf_text(v->method, sizeof(v->method), "%s", meant->name);
		if (!meant->why_not) {
			v->io_hash = hash_values(UINT64_C(0xcbf29ce484222325), meant, meant->inputs, meant->n_inputs);
			v->io_hash = hash_values(v->io_hash, meant, meant->outputs, meant->n_outputs);
		}
		if (o->counts_others)
			v->n_others = inf_count_other_methods(o->registry, v->program, meant);
	}
	bool is_default = meant && meant == et_program_find_method(v->program, NULL) && !meant->why_not;
	char *why = v->reason;
	if (is_default && conf && !inf_description_fits(conf, meant, why, sizeof(v->reason))) {
		refuse(v);
		return;
	}
	v->reason[0] = '\0'; /* it was room for the text */
	if (meant && meant->why_not)
		inf_text(v->reason, sizeof(v->reason), "%s", meant->why_not);
	if (v->reason[0] || !find_delegates(v, o, meant, entries, &n)) {
		refuse(v);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		uint32_t rank = backend_rank(o, entries[i]);
		v->rank = rank > v->rank ? rank : v->rank;
		if (n_label < sizeof(v->label))
			n_label += inf_text(v->label + n_label, sizeof(v->label) - n_label, "%s%s", i ? "+" : "",
				entries[i]->ops->name);
		uint32_t place = wanted_place(o->backend, entries[i]);
		wanted = place < wanted ? place : wanted;
	}
	if (!n) {
		v->rank = backend_rank(o, NULL);
		inf_text(v->label, sizeof(v->label), "portable");
		wanted = wanted_place(o->backend, NULL);
	}
	uint32_t label_place = place_in(o->backend, v->label); /* of several backends: "xnnpack+acme" */
	wanted = label_place < wanted ? label_place : wanted;
	v->own_rank = v->rank;
	v->is_unwanted = o->backend[0] && wanted == NOT_WANTED;
	if (o->backend[0] && !v->is_unwanted)
		v->rank = wanted; /* the client's order */
	if (v->is_unwanted)
		inf_text(v->reason, sizeof(v->reason), "it is for %s, not '%.100s'", v->label, o->backend);
	if (v->reason[0] || !ask_backends(v, o, meant))
		refuse(v);
}

/* Whether a plug-in of the configuration may run payloads of clients' programs. */
static bool has_plugin_for_clients(const struct inf_config *config)
{
	for (uint32_t i = 0; i < config->n_backend_sections; i++)
		if (config->backend_sections[i].path[0] &&
			config->backend_sections[i].own_programs != INF_CONFIG_OWN_REFUSED)
			return true;
	return false;
}

/* A client's program, which runs in its user's process. False: it needs a plug-in of the configuration, which may run
 * such programs. Then the daemon runs the rest of it. */
static bool inspect_client_program(struct inf_variant *v, const struct inf_variants *variants,
	const struct inf_inspect_options *o)
{
	struct et_diag diag = { "" };
	enum et_status status = inf_client_program_open(v, variants, o, &diag);
	const struct et_method_spec *meant = status == ET_OK ? et_program_find_method(v->program,
								       o->method[0] ? o->method : NULL)
							     : NULL;
	struct et_stand_in_info info;
	if (meant) {
		et_stand_in_info(meant, &info);
		inf_text(v->method, sizeof(v->method), "%s", meant->name);
		inf_text(v->label, sizeof(v->label), "%s", info.label);
		status = info.status;
		diag = info.refused;
		if ((status == ET_E_BACKEND_MISSING || status == ET_E_OPERATOR_MISSING) &&
			has_plugin_for_clients(o->config)) {
			v->program = et_program_unref(v->program);
			return false;
		}
	}
	if (status == ET_OK && meant && o->backend[0] && place_in(o->backend, v->label) == NOT_WANTED)
		inf_text(v->reason, sizeof(v->reason), "it is for %s, not '%.100s'", v->label, o->backend);
	if (status != ET_OK) {
		v->failure = meant ? inf_load_failure_of(status) : open_failure(status);
		inf_text(v->reason, sizeof(v->reason), "%s",
			diag.text[0] ? without_path(diag.text, v->path) : et_status_text(status));
	}
	if (v->reason[0])
		refuse(v);
	return true;
}

static int compare_rank(const void *a, const void *b)
{
	const struct inf_variant *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

void inf_variants_inspect(struct inf_variants *v, const struct inf_inspect_options *options)
{
	struct et_diag diag = { "" };
	enum et_status status = ET_OK;
	if (v->n == 1 && v->items[0].fd >= 0 && inspect_client_program(&v->items[0], v, options)) {
		v->items[0].file = v->items[0].path;
		return;
	}
	struct et_platform_data *data = NULL;
	if (v->conf_error)
		status = et_fail(&diag, ET_E_INVALID_ARGUMENT, "%s", v->conf_error);
	else
		data = open_data(v, options, &status, &diag);
	for (uint32_t i = 0; i < v->n; i++) {
		if (data) {
			inspect(&v->items[i], data, v->conf, options);
		} else {
			v->items[i].failure = open_failure(status);
			inf_text(v->items[i].reason, sizeof(v->items[i].reason), "%s", diag.text);
		}
	}
	et_platform_data_unref(data); /* the programs keep references */
	if (v->n)
		qsort(v->items, v->n, sizeof(*v->items), compare_rank);
	for (uint32_t i = 0; i < v->n; i++) /* sorting has moved the paths */
		v->items[i].file = strrchr(v->items[i].path, '/') ? strrchr(v->items[i].path, '/') + 1
								  : v->items[i].path;
	refuse_others(v);
}
