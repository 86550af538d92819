/* SPDX-License-Identifier: BSD-3-Clause */
/* The OpenVINO plug-in: run programs exported for `OpenvinoBackend` on Intel's CPUs, GPUs and NPUs.
 *
 * The plug-in does not link the library. open finds it: the option `library` names the file, the option `folder`
 * the folder to search; otherwise the usual folders are searched for libopenvino_c.so and its versioned names
 * (packages of the runtime alone have only those). The types of OpenVINO's C interface that are used are declared
 * here; that interface promises to keep them (OpenVINO 2025, docs.openvino.ai, "OpenVINO Runtime C API").
 *
 * A payload for the CPU begins with six u64: offset and size of custom data, weights and model. OpenVINO's importer
 * trusts them, so they are checked before. Precision and threads are properties of the device, since the C
 * interface can't pass them to an import; a model keeps those that were set when it was imported. So they are set
 * before each import, under one lock. By default newer CPUs would compute in bf16, and their results differ from
 * the exporter's by a thousandth.
 *
 * Options of the backend: library, folder, precision (f32, bf16, f16; default f32), threads (0: all), device (for
 * payloads without the spec `device`). Options of a model: precision; on the CPU also threads. */
#include <inferd-delegate.h>

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 64, MAX_DEVICES = 8, OV_CANCELLED = -13 };

/* ov_element_type_e */
enum {
	OV_BOOLEAN = 1,
	OV_BF16,
	OV_F16,
	OV_F32,
	OV_F64,
	OV_I8 = 7,
	OV_I16,
	OV_I32,
	OV_I64,
	OV_U8 = 16,
	OV_U16,
	OV_U32,
	OV_U64
};

struct ov_core;
struct ov_compiled_model;
struct ov_infer_request;
struct ov_tensor;
struct ov_shape {
	int64_t rank;
	int64_t *dims;
};
struct ov_devices {
	char **names;
	size_t n;
};

struct plugin {
	const struct inferd_delegate_host *host;
	void *library;
	struct ov_core *core;
	char devices[MAX_DEVICES][32];
	uint32_t n_devices;
	const char *device;          /* the option `device`, or NULL */
	pthread_mutex_t import_lock; /* held while properties are set and a model is imported */

	int (*core_create)(struct ov_core **core);
	void (*core_free)(struct ov_core *core);
	int (*core_set_property)(const struct ov_core *core, const char *device, ...);
	int (*core_get_available_devices)(const struct ov_core *core, struct ov_devices *devices);
	void (*available_devices_free)(struct ov_devices *devices);
	int (*core_import_model)(const struct ov_core *core, const char *bytes, size_t n_bytes, const char *device,
		struct ov_compiled_model **model);
	int (*compiled_model_inputs_size)(const struct ov_compiled_model *model, size_t *n);
	int (*compiled_model_outputs_size)(const struct ov_compiled_model *model, size_t *n);
	int (*compiled_model_create_infer_request)(const struct ov_compiled_model *model,
		struct ov_infer_request **request);
	void (*compiled_model_free)(struct ov_compiled_model *model);
	int (*infer_request_set_input_tensor_by_index)(struct ov_infer_request *request, size_t index,
		const struct ov_tensor *tensor);
	int (*infer_request_set_output_tensor_by_index)(struct ov_infer_request *request, size_t index,
		const struct ov_tensor *tensor);
	int (*infer_request_start_async)(struct ov_infer_request *request);
	int (*infer_request_wait)(struct ov_infer_request *request);
	int (*infer_request_cancel)(struct ov_infer_request *request);
	void (*infer_request_free)(struct ov_infer_request *request);
	int (*tensor_create_from_host_ptr)(unsigned type, struct ov_shape shape, void *data, struct ov_tensor **tensor);
	void (*tensor_free)(struct ov_tensor *tensor);
	const char *(*get_error_info)(int status);
	const char *(*get_last_err_msg)(void);
};

/* The properties with which a model is imported. */
struct settings {
	const char *precision, *threads;
	int is_explicit; /* options of the model ask for them, so a device that refuses them is an error */
};

struct inferd_delegate_model {
	struct plugin *plugin;
	struct ov_compiled_model *ov_model;
	size_t n_inputs, n_outputs;
};

struct inferd_delegate_instance {
	struct inferd_delegate_model *model;
	struct ov_infer_request *request;
};

__attribute__((format(printf, 3, 4))) static int refuse(struct inferd_delegate_message *message, int result,
	const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(message->text, sizeof message->text, format, args);
	va_end(args);
	for (char *c = message->text; *c; c++)
		if (*c == '\n')
			*c = ' ';
	return result;
}

/* Refuse with the library's own error. */
static int ov_refuse(const struct plugin *p, struct inferd_delegate_message *message, const char *what, int status)
{
	const char *why = p->get_last_err_msg ? p->get_last_err_msg() : NULL;
	return refuse(message, status == OV_CANCELLED ? INFERD_DELEGATE_E_CANCELLED : INFERD_DELEGATE_E_DEVICE,
		"%s: OpenVINO answers %d (%.40s): %.150s", what, status, p->get_error_info(status), why ? why : "");
}

static const char *option(const struct inferd_delegate_host *host, const char *key)
{
	for (uint32_t i = 0; i < host->n_options; i++)
		if (strcmp(host->options[i]->key, key) == 0)
			return host->options[i]->value;
	return NULL;
}

/* --- the library ------------------------------------------------------------------------------------ */

static void *load_from(const char *folder)
{
	char pattern[600];
	glob_t found;
	void *library = NULL;
	snprintf(pattern, sizeof pattern, "%.500s/libopenvino_c.so*", folder);
	if (glob(pattern, 0, NULL, &found) != 0)
		return NULL;
	for (size_t i = found.gl_pathc; i-- > 0 && !library;) /* the newest first */
		library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
	globfree(&found);
	return library;
}

static void *find_library(const struct inferd_delegate_host *host)
{
	static const char *const folders[] = { "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
		"/usr/lib", "/usr/local/lib", "/opt/intel/openvino/runtime/lib/intel64",
		"/opt/intel/openvino/runtime/lib/aarch64" };
	const char *path = option(host, "library"), *folder = option(host, "folder");
	if (path)
		return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (folder)
		return load_from(folder);
	void *library = dlopen("libopenvino_c.so", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !library; i++)
		library = load_from(folders[i]);
	return library;
}

static int find_functions(struct plugin *p, struct inferd_delegate_message *message)
{
#define FUNCTION(name) { "ov_" #name, offsetof(struct plugin, name) }
	static const struct {
		const char *name;
		size_t offset;
	} functions[] = {
		FUNCTION(core_create),
		FUNCTION(core_free),
		FUNCTION(core_set_property),
		FUNCTION(core_get_available_devices),
		FUNCTION(available_devices_free),
		FUNCTION(core_import_model),
		FUNCTION(compiled_model_inputs_size),
		FUNCTION(compiled_model_outputs_size),
		FUNCTION(compiled_model_create_infer_request),
		FUNCTION(compiled_model_free),
		FUNCTION(infer_request_set_input_tensor_by_index),
		FUNCTION(infer_request_set_output_tensor_by_index),
		FUNCTION(infer_request_start_async),
		FUNCTION(infer_request_wait),
		FUNCTION(infer_request_cancel),
		FUNCTION(infer_request_free),
		FUNCTION(tensor_create_from_host_ptr),
		FUNCTION(tensor_free),
		FUNCTION(get_error_info),
	};
#undef FUNCTION
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		void *symbol = dlsym(p->library, functions[i].name);
		if (!symbol)
			return refuse(message, INFERD_DELEGATE_E_NOT_FOUND, "the OpenVINO library lacks %s",
				functions[i].name);
		memcpy((char *)p + functions[i].offset, &symbol, sizeof symbol);
	}
	void *symbol = dlsym(p->library, "ov_get_last_err_msg");
	memcpy(&p->get_last_err_msg, &symbol, sizeof symbol);
	return INFERD_DELEGATE_OK;
}

/* --- open ------------------------------------------------------------------------------------------- */

static void plugin_close(void *self)
{
	struct plugin *p = self;
	if (p->core)
		p->core_free(p->core);
	pthread_mutex_destroy(&p->import_lock);
	free(p);
}

static void list_devices(struct plugin *p)
{
	struct ov_devices found = { 0 };
	if (p->core_get_available_devices(p->core, &found))
		return;
	for (size_t i = 0; i < found.n && p->n_devices < MAX_DEVICES; i++)
		snprintf(p->devices[p->n_devices++], sizeof p->devices[0], "%s", found.names[i]);
	p->available_devices_free(&found);
}

/* Set the cache folder of every device but the CPU, which compiles nothing worth keeping. */
static void set_caches(struct plugin *p)
{
	for (uint32_t i = 0; i < p->n_devices && p->host->cache_dir; i++)
		if (strcmp(p->devices[i], "CPU") != 0)
			p->core_set_property(p->core, p->devices[i], "CACHE_DIR", p->host->cache_dir);
}

/* Put an option of the backend or of a model into @settings. 0; or E_INVALID with a message. */
static int set_option(struct settings *settings, const char *key, const char *value,
	struct inferd_delegate_message *message)
{
	if (strcmp(key, "precision") == 0) {
		if (strcmp(value, "f32") && strcmp(value, "bf16") && strcmp(value, "f16"))
			return refuse(message, INFERD_DELEGATE_E_INVALID,
				"precision: '%.40s' is none of f32, bf16, f16", value);
		settings->precision = value;
	} else if (strcmp(key, "threads") == 0) {
		size_t n = strlen(value);
		if (!n || n > 4 || strspn(value, "0123456789") != n)
			return refuse(message, INFERD_DELEGATE_E_INVALID,
				"threads: '%.40s' is not a number from 0 to 9999", value);
		settings->threads = value;
	} else {
		return refuse(message, INFERD_DELEGATE_E_INVALID,
			"option '%.60s' is unknown: a model has precision and threads", key);
	}
	return INFERD_DELEGATE_OK;
}

/* The settings of the backend's section. */
static int backend_settings(const struct plugin *p, struct settings *settings, struct inferd_delegate_message *message)
{
	static const char *const keys[] = { "precision", "threads" };
	int result = INFERD_DELEGATE_OK;
	*settings = (struct settings){ .precision = "f32", .threads = "0" };
	for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !result; i++)
		if (option(p->host, keys[i]))
			result = set_option(settings, keys[i], option(p->host, keys[i]), message);
	return result;
}

static int plugin_open(const struct inferd_delegate_host *host, void **ret_self,
	struct inferd_delegate_message *message)
{
	struct plugin *p = calloc(1, sizeof *p);
	if (!p)
		return INFERD_DELEGATE_E_MEMORY;
	struct settings settings;
	pthread_mutex_init(&p->import_lock, NULL);
	p->host = host;
	p->device = option(host, "device");
	p->library = find_library(host);
	int result = backend_settings(p, &settings, message);
	if (!result && !p->library) {
		const char *why = dlerror();
		result = refuse(message, INFERD_DELEGATE_E_NOT_FOUND,
			"libopenvino_c.so was not found: install OpenVINO, or set `library` or `folder` (%.120s)",
			why ? why : "it is not in that folder");
	}
	if (!result)
		result = find_functions(p, message);
	if (!result) {
		int status = p->core_create(&p->core);
		if (status)
			result = ov_refuse(p, message, "ov_core_create", status);
	}
	if (!result) {
		list_devices(p);
		set_caches(p);
		if (!p->n_devices)
			result = refuse(message, INFERD_DELEGATE_E_NOT_FOUND, "OpenVINO finds no device");
	}
	if (result) {
		plugin_close(p);
		return result;
	}
	*ret_self = p;
	return INFERD_DELEGATE_OK;
}

static int devices(void *self, uint32_t index, struct inferd_delegate_device *device)
{
	const struct plugin *p = self;
	if (index >= p->n_devices)
		return INFERD_DELEGATE_E_NOT_FOUND;
	const char *name = p->devices[index];
	device->kind = strncmp(name, "NPU", 3) == 0   ? INFERD_DELEGATE_NPU
		       : strncmp(name, "GPU", 3) == 0 ? INFERD_DELEGATE_GPU
						      : INFERD_DELEGATE_CPU;
	snprintf(device->name, sizeof device->name, "OpenVINO %s", name);
	snprintf(device->id, sizeof device->id, "%s", name);
	device->max_in_flight = 2;
	/* The CPU gives the same bits in the same time at any address; exporters align activations to 16. */
	device->alignment = device->kind == INFERD_DELEGATE_CPU ? 16 : 64;
	device->flags = INFERD_DELEGATE_CAN_CANCEL | INFERD_DELEGATE_ZERO_COPY;
	return INFERD_DELEGATE_OK;
}

/* --- payloads --------------------------------------------------------------------------------------- */

/* The index of the payload's device, or -1 with a message. */
static int find_device(struct plugin *p, const struct inferd_delegate_payload *payload,
	struct inferd_delegate_message *message)
{
	char name[32];
	snprintf(name, sizeof name, "%s", p->device ? p->device : "CPU");
	for (uint32_t i = 0; i < payload->n_specs; i++)
		if (strcmp(payload->specs[i]->key, "device") == 0)
			snprintf(name, sizeof name, "%s", (const char *)payload->specs[i]->value);
	for (uint32_t i = 0; i < p->n_devices; i++)
		if (strcmp(p->devices[i], name) == 0)
			return (int)i;
	refuse(message, 0, "exported for OpenVINO device '%s', which this machine does not have", name);
	return -1;
}

/* Check the header, which OpenVINO's importer trusts. */
static int check_payload(const struct inferd_delegate_payload *payload, struct inferd_delegate_message *message)
{
	static const char *const names[] = { "custom data", "weights", "model" };
	uint64_t fields[6], at = sizeof fields;
	if (payload->n_bytes < sizeof fields)
		return refuse(message, INFERD_DELEGATE_E_INVALID, "the payload has %llu bytes, its header alone has 48",
			(unsigned long long)payload->n_bytes);
	memcpy(fields, payload->bytes, sizeof fields);
	for (int i = 0; i < 3; i++) {
		uint64_t offset = fields[2 * i], n_bytes = fields[2 * i + 1];
		if (offset < at || offset > payload->n_bytes || n_bytes > payload->n_bytes - offset)
			return refuse(message, INFERD_DELEGATE_E_INVALID,
				"%s: offset %llu and size %llu do not fit a payload of %llu bytes", names[i],
				(unsigned long long)offset, (unsigned long long)n_bytes,
				(unsigned long long)payload->n_bytes);
		at = offset + n_bytes;
	}
	if (!fields[5])
		return refuse(message, INFERD_DELEGATE_E_INVALID, "model: size 0");
	return INFERD_DELEGATE_OK;
}

/* The settings of a model: the backend's, overridden by the model's own options. */
static int model_settings(const struct plugin *p, const char *device, const struct inferd_delegate_payload *payload,
	struct settings *settings, struct inferd_delegate_message *message)
{
	int result = backend_settings(p, settings, message);
	if (!INFERD_DELEGATE_HAS(payload, n_options))
		return result; /* a host of 1.0 */
	settings->is_explicit = payload->n_options != 0;
	for (uint32_t i = 0; i < payload->n_options && !result; i++) {
		result = set_option(settings, payload->options[i]->key, payload->options[i]->value, message);
		if (!result && strcmp(payload->options[i]->key, "threads") == 0 && strcmp(device, "CPU") != 0)
			result = refuse(message, INFERD_DELEGATE_E_INVALID,
				"threads: a model on %.40s has none, only one on the CPU has", device);
	}
	return result;
}

/* Set the properties of the device before an import. With import_lock. All of them are set each time, since they
 * keep the values of the model that was imported before. An explicit setting that the device refuses is an error. */
static int set_properties(const struct plugin *p, const char *device, const struct settings *settings,
	struct inferd_delegate_message *message)
{
	int status = p->core_set_property(p->core, device, "INFERENCE_PRECISION_HINT", settings->precision);
	if (status && settings->is_explicit)
		return ov_refuse(p, message, "precision", status);
	if (status)
		p->core_set_property(p->core, device, "INFERENCE_PRECISION_HINT", "f32");
	if (strcmp(device, "CPU") != 0)
		return INFERD_DELEGATE_OK;
	status = p->core_set_property(p->core, device, "INFERENCE_NUM_THREADS", settings->threads);
	return status && settings->is_explicit ? ov_refuse(p, message, "threads", status) : INFERD_DELEGATE_OK;
}

static int probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	struct plugin *p = self;
	*ret_readiness = INFERD_DELEGATE_NO;
	struct settings settings;
	int device = find_device(p, payload, message);
	if (device < 0 || (strcmp(p->devices[device], "CPU") == 0 && check_payload(payload, message)) ||
		model_settings(p, p->devices[device], payload, &settings, message))
		return INFERD_DELEGATE_OK;
	*ret_readiness = INFERD_DELEGATE_READY;
	return INFERD_DELEGATE_OK;
}

static void destroy(struct inferd_delegate_model *model)
{
	if (model->ov_model)
		model->plugin->compiled_model_free(model->ov_model);
	free(model);
}

static int init(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *info, struct inferd_delegate_message *message)
{
	struct plugin *p = self;
	struct settings settings;
	int device = find_device(p, payload, message);
	if (device < 0)
		return INFERD_DELEGATE_E_NOT_FOUND;
	int result = model_settings(p, p->devices[device], payload, &settings, message);
	if (!result && strcmp(p->devices[device], "CPU") == 0)
		result = check_payload(payload, message);
	if (result)
		return result;
	struct inferd_delegate_model *model = calloc(1, sizeof *model);
	if (!model)
		return INFERD_DELEGATE_E_MEMORY;
	model->plugin = p;
	pthread_mutex_lock(&p->import_lock);
	result = set_properties(p, p->devices[device], &settings, message);
	int status = result ? 0
			    : p->core_import_model(p->core, (const char *)payload->bytes, (size_t)payload->n_bytes,
				      p->devices[device], &model->ov_model);
	pthread_mutex_unlock(&p->import_lock);
	if (result) {
		destroy(model);
		return result;
	}
	if (!status)
		status = p->compiled_model_inputs_size(model->ov_model, &model->n_inputs);
	if (!status)
		status = p->compiled_model_outputs_size(model->ov_model, &model->n_outputs);
	if (status || model->n_inputs > MAX_ARGS || model->n_outputs > MAX_ARGS) {
		result = status ? ov_refuse(p, message, "import", status)
				: refuse(message, INFERD_DELEGATE_E_UNSUPPORTED, "%zu inputs and %zu outputs",
					  model->n_inputs, model->n_outputs);
		destroy(model);
		return status ? INFERD_DELEGATE_E_INVALID : result;
	}
	info->n_inputs = (uint32_t)model->n_inputs;
	info->n_outputs = (uint32_t)model->n_outputs;
	info->device = (uint32_t)device;
	info->n_bytes = payload->n_bytes; /* an estimate: the weights once more, packed */
	*ret_model = model;
	return INFERD_DELEGATE_OK;
}

static int instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	struct inferd_delegate_instance *instance = calloc(1, sizeof *instance);
	if (!instance)
		return INFERD_DELEGATE_E_MEMORY;
	instance->model = model;
	int status = model->plugin->compiled_model_create_infer_request(model->ov_model, &instance->request);
	if (status) {
		free(instance);
		return ov_refuse(model->plugin, message, "ov_compiled_model_create_infer_request", status);
	}
	*ret_instance = instance;
	return INFERD_DELEGATE_OK;
}

static void instance_free(struct inferd_delegate_instance *instance)
{
	instance->model->plugin->infer_request_free(instance->request);
	free(instance);
}

/* --- runs ------------------------------------------------------------------------------------------- */

static unsigned type_of(uint8_t type)
{
	static const uint8_t types[32] = { [0] = OV_U8,
		[1] = OV_I8,
		[2] = OV_I16,
		[3] = OV_I32,
		[4] = OV_I64,
		[5] = OV_F16,
		[6] = OV_F32,
		[7] = OV_F64,
		[11] = OV_BOOLEAN,
		[15] = OV_BF16,
		[27] = OV_U16,
		[28] = OV_U32,
		[29] = OV_U64 };
	return type < sizeof types ? types[type] : 0;
}

/* Make a tensor of the argument's memory, and an input or output of the request of it. */
static int set_argument(struct inferd_delegate_instance *instance, struct inferd_delegate_arg *arg, uint32_t index,
	struct inferd_delegate_message *message)
{
	struct plugin *p = instance->model->plugin;
	int64_t dims[INFERD_DELEGATE_MAX_DIMS] = { 1 };
	struct ov_shape shape = { 1, dims };
	struct ov_tensor *tensor = NULL;
	unsigned type = OV_I64;
	void *data = &arg->i;
	if (arg->kind == INFERD_DELEGATE_TENSOR) {
		type = type_of(arg->type);
		data = arg->data;
		shape.rank = arg->n_dims;
		for (int i = 0; i < arg->n_dims; i++) {
			dims[i] = arg->sizes[i];
			if (arg->dim_order[i] != i)
				return refuse(message, INFERD_DELEGATE_E_UNSUPPORTED, "argument %u is not row-major",
					index);
		}
	} else if (arg->kind != INFERD_DELEGATE_INT || arg->is_output) {
		type = 0;
	}
	if (!type)
		return refuse(message, INFERD_DELEGATE_E_UNSUPPORTED, "argument %u has a kind that OpenVINO lacks",
			index);
	int status = p->tensor_create_from_host_ptr(type, shape, data, &tensor);
	if (status)
		return ov_refuse(p, message, "ov_tensor_create_from_host_ptr", status);
	status = arg->is_output ? p->infer_request_set_output_tensor_by_index(instance->request,
					  index - instance->model->n_inputs, tensor)
				: p->infer_request_set_input_tensor_by_index(instance->request, index, tensor);
	p->tensor_free(tensor); /* the request keeps what it needs */
	return status ? ov_refuse(p, message, arg->is_output ? "an output" : "an input", status) : 0;
}

static int execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	struct plugin *p = model->plugin;
	struct inferd_delegate_arg *const *args = run->args;
	uint32_t n_args = run->n_args;
	if (n_args != model->n_inputs + model->n_outputs)
		return refuse(message, INFERD_DELEGATE_E_INVALID, "%u arguments for %zu inputs and %zu outputs", n_args,
			model->n_inputs, model->n_outputs);
	for (uint32_t i = 0; i < n_args; i++) {
		int result = set_argument(instance, args[i], i, message);
		if (result)
			return result;
	}
	int status = p->infer_request_start_async(instance->request);
	if (!status)
		status = p->infer_request_wait(instance->request);
	return status ? ov_refuse(p, message, "run", status) : INFERD_DELEGATE_OK;
}

static void cancel(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance)
{
	model->plugin->infer_request_cancel(instance->request);
}

static const struct inferd_delegate table = {
	.struct_size = sizeof table,
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = "OpenvinoBackend",
	.name = "openvino",
	.version = "1",
	.open = plugin_open,
	.close = plugin_close,
	.devices = devices,
	.probe = probe,
	.init = init,
	.execute = execute,
	.destroy = destroy,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.cancel = cancel,
};

const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor)
{
	return host_major == INFERD_DELEGATE_MAJOR ? &table : NULL;
}
