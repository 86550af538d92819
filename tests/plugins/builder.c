/* SPDX-License-Identifier: BSD-3-Clause */
/* A plug-in that compiles: init wants the file "built" in its cache folder, which build writes, unless the variable
 * BUILDER of its environment says something else:
 *
 *     crash      build crashes                      refuse     build answers that it can't
 *     nothing    build does nothing                 child      build starts a process, and waits for it for ever;
 *                                                              the process writes its number to the file "child"
 * Each build adds a byte to the file "count".
 *
 * Runs copy their input; but out[0] is the run's priority, and the device works on it for in[0] microseconds. With a
 * payload "sum", which has a state, out[0] is the sum of all in[0] so far, and a run with in[0] < 0 fails after it has
 * put the state back. */
#include <inferd-delegate.h>

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct inferd_delegate_host *host;

struct inferd_delegate_model {
	bool is_sum;
};

struct inferd_delegate_instance {
	float sum;
};

static int refuse(struct inferd_delegate_message *message, int result, const char *text)
{
	snprintf(message->text, sizeof message->text, "%s", text);
	return result;
}

static int open_file(const char *name, int flags)
{
	char path[600];
	snprintf(path, sizeof path, "%s/%s", host->cache_dir, name);
	return open(path, flags | O_CLOEXEC, 0600);
}

static int builder_open(const struct inferd_delegate_host *h, void **ret_self, struct inferd_delegate_message *message)
{
	static int self;
	char text[700];
	host = h;
	snprintf(text, sizeof text, "my folder is %s.", h->cache_dir ? h->cache_dir : "nowhere");
	h->log(h->self, 6, text);
	*ret_self = &self;
	return INFERD_DELEGATE_OK;
}

static void builder_close(void *self)
{
}

static int devices(void *self, uint32_t index, struct inferd_delegate_device *ret_device)
{
	if (index)
		return INFERD_DELEGATE_E_NOT_FOUND;
	ret_device->kind = INFERD_DELEGATE_GPU;
	ret_device->max_in_flight = 1;
	snprintf(ret_device->name, sizeof ret_device->name, "builder's device");
	snprintf(ret_device->driver, sizeof ret_device->driver, "builder\033 7");
	snprintf(ret_device->features, sizeof ret_device->features, "compiles");
	return INFERD_DELEGATE_OK;
}

static int probe(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
	struct inferd_delegate_message *message)
{
	*ret_readiness = INFERD_DELEGATE_READY;
	return INFERD_DELEGATE_OK;
}

static int init(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
	struct inferd_delegate_model_info *ret_info, struct inferd_delegate_message *message)
{
	int fd = host->flags & INFERD_DELEGATE_BUILDS_APART ? open_file("built", O_RDONLY) : -1;
	if ((host->flags & INFERD_DELEGATE_BUILDS_APART) && fd < 0)
		return refuse(message, INFERD_DELEGATE_TO_BUILD, "a file is wanted");
	if (fd >= 0)
		close(fd);
	*ret_model = calloc(1, sizeof **ret_model);
	ret_info->n_inputs = ret_info->n_outputs = 1;
	ret_info->flags = INFERD_DELEGATE_DROPS_PAYLOAD;
	if (!*ret_model)
		return INFERD_DELEGATE_E_MEMORY;
	(*ret_model)->is_sum = payload->n_bytes == 3 && memcmp(payload->bytes, "sum", 3) == 0;
	if ((*ret_model)->is_sum)
		ret_info->flags |= INFERD_DELEGATE_STATEFUL | INFERD_DELEGATE_REPEATABLE;
	return INFERD_DELEGATE_OK;
}

static int instance_new(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
	struct inferd_delegate_message *message)
{
	*ret_instance = calloc(1, sizeof **ret_instance);
	return *ret_instance ? INFERD_DELEGATE_OK : INFERD_DELEGATE_E_MEMORY;
}

static void instance_free(struct inferd_delegate_instance *instance)
{
	free(instance);
}

static int instance_reset(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message)
{
	instance->sum = 0;
	return INFERD_DELEGATE_OK;
}

static int execute(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
	const struct inferd_delegate_run *run, struct inferd_delegate_message *message)
{
	const float *in = run->args[0]->data;
	float *out = run->args[1]->data, before = instance->sum;
	memcpy(out, in, run->args[0]->n_bytes);
	if (!model->is_sum) {
		out[0] = (float)run->priority;
		run->busy(run->self, (uint64_t)(in[0] * 1000));
		return INFERD_DELEGATE_OK;
	}
	out[0] = instance->sum += in[0];
	if (in[0] >= 0)
		return INFERD_DELEGATE_OK;
	instance->sum = before;
	return refuse(message, INFERD_DELEGATE_E_INTERNAL, "it was cut short");
}

static void destroy(struct inferd_delegate_model *model)
{
	free(model);
}

/* The child has this process's memory, and this thread waits until it ends. */
static int start_child(struct inferd_delegate_message *message)
{
	long pid = syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid < 0)
		return refuse(message, INFERD_DELEGATE_E_UNSUPPORTED, "no process can be started");
	if (pid == 0) {
		char number[16];
		int n = snprintf(number, sizeof number, "%ld", syscall(SYS_getpid));
		int fd = open_file("child", O_WRONLY | O_CREAT);
		if (fd < 0 || write(fd, number, (size_t)n) != n)
			_exit(1);
		for (;;)
			pause();
	}
	return refuse(message, INFERD_DELEGATE_E_INTERNAL, "the child has ended");
}

static int build(void *self, struct inferd_delegate_message *message)
{
	const char *how = getenv("BUILDER") ? getenv("BUILDER") : "";
	int count = open_file("count", O_WRONLY | O_CREAT | O_APPEND);
	if (count < 0 || write(count, "+", 1) != 1)
		return refuse(message, INFERD_DELEGATE_E_INTERNAL, "the cache folder can't be written");
	close(count);
	if (strcmp(how, "crash") == 0)
		abort();
	if (strcmp(how, "refuse") == 0)
		return refuse(message, INFERD_DELEGATE_E_UNSUPPORTED, "this device has no compiler");
	if (strcmp(how, "child") == 0)
		return start_child(message);
	if (strcmp(how, "nothing") == 0)
		return INFERD_DELEGATE_OK;
	int fd = open_file("built", O_WRONLY | O_CREAT);
	if (fd >= 0)
		close(fd);
	return INFERD_DELEGATE_OK;
}

static const struct inferd_delegate table = {
	.struct_size = sizeof table,
	.major = INFERD_DELEGATE_MAJOR,
	.minor = INFERD_DELEGATE_MINOR,
	.id = "TestBackend",
	.name = "builder",
	.open = builder_open,
	.close = builder_close,
	.devices = devices,
	.probe = probe,
	.init = init,
	.execute = execute,
	.destroy = destroy,
	.instance_new = instance_new,
	.instance_free = instance_free,
	.instance_reset = instance_reset,
	.build = build,
};

const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor)
{
	return &table;
}
