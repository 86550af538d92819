/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for the part of OpenVINO's C interface that the plug-in uses, for machines without OpenVINO. It has
 * three devices, and a model whose one output is its one input plus 1. It writes each call into a log, one line
 * each; fake_log returns a copy.
 *
 * Its NPU does not support f16. A request whose first input is negative runs until another thread cancels it. */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { OV_F32 = 4, OV_CANCELLED = -13, OV_UNKNOWN = -11 };

struct ov_core {
	int unused;
};
struct ov_compiled_model {
	int unused;
};
struct ov_tensor {
	float *data;
	size_t n;
};
struct ov_infer_request {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct ov_tensor in, out;
	int is_running, is_cancelled;
};
struct ov_shape {
	int64_t rank;
	int64_t *dims;
};
struct ov_devices {
	char **names;
	size_t n;
};

static char text[8192];
static pthread_mutex_t text_lock = PTHREAD_MUTEX_INITIALIZER;

API void fake_log(char *to, size_t room);
API void fake_log(char *to, size_t room)
{
	pthread_mutex_lock(&text_lock);
	snprintf(to, room, "%s", text);
	pthread_mutex_unlock(&text_lock);
}

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	pthread_mutex_lock(&text_lock);
	size_t n = strlen(text);
	vsnprintf(text + n, sizeof text - n, format, args);
	pthread_mutex_unlock(&text_lock);
	va_end(args);
}

API int ov_core_create(struct ov_core **core);
API int ov_core_create(struct ov_core **core)
{
	pthread_mutex_lock(&text_lock);
	text[0] = '\0';
	pthread_mutex_unlock(&text_lock);
	*core = calloc(1, sizeof **core);
	return *core ? 0 : OV_UNKNOWN;
}

API void ov_core_free(struct ov_core *core);
API void ov_core_free(struct ov_core *core)
{
	free(core);
}

API int ov_core_set_property(const struct ov_core *core, const char *device, ...);
API int ov_core_set_property(const struct ov_core *core, const char *device, ...)
{
	va_list args;
	va_start(args, device);
	const char *key = va_arg(args, const char *);
	const char *value = va_arg(args, const char *);
	note("%s %s=%s\n", device, key, value);
	va_end(args);
	return strcmp(device, "GPU") != 0 && strcmp(value, "f16") == 0 ? OV_UNKNOWN : 0;
}

API int ov_core_get_available_devices(const struct ov_core *core, struct ov_devices *devices);
API int ov_core_get_available_devices(const struct ov_core *core, struct ov_devices *devices)
{
	static const char *const names[] = { "CPU", "GPU", "NPU" };
	devices->n = 3;
	devices->names = calloc(3, sizeof *devices->names);
	for (size_t i = 0; devices->names && i < 3; i++)
		devices->names[i] = strdup(names[i]);
	return devices->names ? 0 : OV_UNKNOWN;
}

API void ov_available_devices_free(struct ov_devices *devices);
API void ov_available_devices_free(struct ov_devices *devices)
{
	for (size_t i = 0; i < devices->n; i++)
		free(devices->names[i]);
	free(devices->names);
}

#ifndef WITHOUT_IMPORT
API int ov_core_import_model(const struct ov_core *core, const char *bytes, size_t n_bytes, const char *device,
	struct ov_compiled_model **model);
API int ov_core_import_model(const struct ov_core *core, const char *bytes, size_t n_bytes, const char *device,
	struct ov_compiled_model **model)
{
	note("import of %zu bytes on %s\n", n_bytes, device);
	if (n_bytes && bytes[n_bytes - 1] == '!')
		return OV_UNKNOWN;
	*model = calloc(1, sizeof **model);
	return *model ? 0 : OV_UNKNOWN;
}
#endif

API int ov_compiled_model_inputs_size(const struct ov_compiled_model *model, size_t *n);
API int ov_compiled_model_inputs_size(const struct ov_compiled_model *model, size_t *n)
{
	*n = 1;
	return 0;
}

API int ov_compiled_model_outputs_size(const struct ov_compiled_model *model, size_t *n);
API int ov_compiled_model_outputs_size(const struct ov_compiled_model *model, size_t *n)
{
	*n = 1;
	return 0;
}

API void ov_compiled_model_free(struct ov_compiled_model *model);
API void ov_compiled_model_free(struct ov_compiled_model *model)
{
	free(model);
}

API int ov_compiled_model_create_infer_request(const struct ov_compiled_model *model,
	struct ov_infer_request **request);
API int ov_compiled_model_create_infer_request(const struct ov_compiled_model *model, struct ov_infer_request **request)
{
	struct ov_infer_request *r = calloc(1, sizeof *r);
	if (!r)
		return OV_UNKNOWN;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	*request = r;
	return 0;
}

API void ov_infer_request_free(struct ov_infer_request *r);
API void ov_infer_request_free(struct ov_infer_request *r)
{
	pthread_mutex_destroy(&r->lock);
	pthread_cond_destroy(&r->changed);
	free(r);
}

API int ov_tensor_create_from_host_ptr(unsigned type, struct ov_shape shape, void *data, struct ov_tensor **tensor);
API int ov_tensor_create_from_host_ptr(unsigned type, struct ov_shape shape, void *data, struct ov_tensor **tensor)
{
	struct ov_tensor *t = type == OV_F32 ? calloc(1, sizeof *t) : NULL;
	if (!t)
		return OV_UNKNOWN;
	t->data = data;
	t->n = 1;
	for (int64_t i = 0; i < shape.rank; i++)
		t->n *= (size_t)shape.dims[i];
	*tensor = t;
	return 0;
}

API void ov_tensor_free(struct ov_tensor *tensor);
API void ov_tensor_free(struct ov_tensor *tensor)
{
	free(tensor);
}

API int ov_infer_request_set_input_tensor_by_index(struct ov_infer_request *r, size_t index,
	const struct ov_tensor *tensor);
API int ov_infer_request_set_input_tensor_by_index(struct ov_infer_request *r, size_t index,
	const struct ov_tensor *tensor)
{
	r->in = *tensor;
	return index ? OV_UNKNOWN : 0;
}

API int ov_infer_request_set_output_tensor_by_index(struct ov_infer_request *r, size_t index,
	const struct ov_tensor *tensor);
API int ov_infer_request_set_output_tensor_by_index(struct ov_infer_request *r, size_t index,
	const struct ov_tensor *tensor)
{
	r->out = *tensor;
	return index ? OV_UNKNOWN : 0;
}

API int ov_infer_request_start_async(struct ov_infer_request *r);
API int ov_infer_request_start_async(struct ov_infer_request *r)
{
	note("start\n");
	pthread_mutex_lock(&r->lock);
	r->is_running = 1;
	r->is_cancelled = 0;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

API int ov_infer_request_wait(struct ov_infer_request *r);
API int ov_infer_request_wait(struct ov_infer_request *r)
{
	pthread_mutex_lock(&r->lock);
	note("wait\n");
	while (r->in.data[0] < 0 && !r->is_cancelled)
		pthread_cond_wait(&r->changed, &r->lock);
	int status = r->is_cancelled ? OV_CANCELLED : r->is_running ? 0 : OV_UNKNOWN;
	r->is_running = 0;
	pthread_mutex_unlock(&r->lock);
	for (size_t i = 0; i < r->in.n && !status; i++)
		r->out.data[i] = r->in.data[i] + 1;
	return status;
}

API int ov_infer_request_cancel(struct ov_infer_request *r);
API int ov_infer_request_cancel(struct ov_infer_request *r)
{
	pthread_mutex_lock(&r->lock);
	r->is_cancelled = 1;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return 0;
}

API const char *ov_get_error_info(int status);
API const char *ov_get_error_info(int status)
{
	return status == OV_CANCELLED ? "cancelled" : "unknown";
}

API const char *ov_get_last_err_msg(void);
API const char *ov_get_last_err_msg(void)
{
	return "the fake does not like it\nat all";
}
