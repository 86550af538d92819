/* SPDX-License-Identifier: BSD-3-Clause */
/* Check a delegate's table before it is used: its version, its size, and whether the functions that it needs are
 * there.
 *
 * Only sizes, names and pointers are checked; no function of the table is called. What the functions do is checked
 * where they are called. This file uses nothing of the runtime, since the host process of a plug-in is linked without
 * it. */
#include "delegates/table_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static int refuse(char *text, size_t room, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(text, room, format, args);
	va_end(args);
	return -1;
}

/* SIZE_1_0: the size of the table in version 1.0, whose last member was stats. */
enum { SIZE_1_0 = offsetof(struct inferd_delegate, stats) + sizeof(void *), SIZE_MAX_SANE = 65536 };

static int is_name(const char *name)
{
	return name && name[0] && strlen(name) < 64;
}

static int check_kernels(const struct inferd_delegate *table, char *text, size_t room)
{
	if (table->n_kernels > ET_TABLE_MAX_KERNELS || (table->n_kernels && !table->kernels))
		return refuse(text, room, "its table claims %u kernels", table->n_kernels);
	for (uint32_t i = 0; i < table->n_kernels; i++) {
		const struct inferd_delegate_kernel *kernel = table->kernels[i];
		if (!kernel || kernel->struct_size < sizeof *kernel || !kernel->run || !kernel->name ||
			!strstr(kernel->name, "::") || strlen(kernel->name) >= 128)
			return refuse(text, room,
				"its kernel %u has no function, or no name of the form namespace::operator", i);
		const char *signature = kernel->signature;
		size_t n_outputs = 0, n = signature ? strlen(signature) : 0;
		const char *after = n ? strchr(signature, '>') : NULL;
		if (!n || n >= 60 || strspn(signature, "TtIiDdBbS>") != n || !after || strchr(after + 1, '>'))
			return refuse(text, room, "its kernel '%.64s' has a signature that can't be read",
				kernel->name);
		for (const char *c = after + 1; *c; c++)
			n_outputs += *c == 'T';
		if (!n_outputs || n_outputs != strlen(after + 1))
			return refuse(text, room, "its kernel '%.64s' must have tensors as outputs", kernel->name);
	}
	return 0;
}

static int check(const struct inferd_delegate *table, char *text, size_t room)
{
	if (!is_name(table->id) || !is_name(table->name))
		return refuse(text, room, "its table has no id or no name, or a long one");
	if (!table->open || !table->close || !table->devices || !table->probe || !table->init || !table->execute ||
		!table->destroy)
		return refuse(text, room, "its table lacks one of open, close, devices, probe, init, execute, destroy");
	if (!(table->instance_new || table->instance_on_threads) != !table->instance_free)
		return refuse(text, room, "its table has one of instance_new and instance_free without the other");
	if (table->buffer_import && !table->buffer_free)
		return refuse(text, room, "its table has buffer_import without buffer_free");
	if (table->buffer_alloc && !(table->buffer_map && table->buffer_unmap && table->buffer_free))
		return refuse(text, room, "its table has buffer_alloc without buffer_map, buffer_unmap or buffer_free");
	if (table->cancel && !table->instance_new && table->submit)
		return refuse(text, room, "its table has submit and cancel, but no instance_new to tell runs apart");
	/* an engine whose models all have THREADS_OF_RUN has instance_new, and only the first two */
	if (!table->threads_new != !table->threads_free ||
		!table->instance_on_threads != !table->threads_parallel_for ||
		(table->instance_on_threads && !table->threads_new) ||
		(table->threads_new && !table->instance_on_threads && !table->instance_new))
		return refuse(text, room,
			"its table has some of threads_new, threads_free, threads_parallel_for and "
			"instance_on_threads without the others");
	return check_kernels(table, text, room);
}

int et_table_copy(struct inferd_delegate *ret_table, const struct inferd_delegate *from, char *text, size_t room)
{
	if (from->struct_size < offsetof(struct inferd_delegate, id) || from->struct_size > SIZE_MAX_SANE)
		return refuse(text, room, "the struct_size of its table is %u bytes", from->struct_size);
	if (from->major != INFERD_DELEGATE_MAJOR)
		return refuse(text, room,
			"it is made for version %u.%u of the plug-in interface; this inferd has %d.%d", from->major,
			from->minor, INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR);
	if (from->struct_size < SIZE_1_0)
		return refuse(text, room, "its table has %u bytes, version 1.0 has %u", from->struct_size,
			(unsigned)SIZE_1_0);
	memset(ret_table, 0, sizeof *ret_table);
	memcpy(ret_table, from, from->struct_size < sizeof *from ? from->struct_size : sizeof *from);
	return check(ret_table, text, room);
}
