/* Loading a plug-in: the one symbol, the version, the size of the table, the functions that must be there.
 *
 * The table is copied into one of our size, so that a plug-in made for an earlier minor version reads as one whose
 * newer functions are NULL, and one made for a later version is served with what we know of it. */
#include "delegates/plugin/library.h"
#include "delegates/plugin/wire.h"

#include <dlfcn.h>
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

/* The table as it was in 1.0. */
enum { SIZE_1_0 = offsetof(struct inferd_delegate, stats) + sizeof(void *), SIZE_MAX_SANE = 65536 };

static int is_name(const char *name)
{
	return name && name[0] && strlen(name) < 64;
}

static int check_kernels(const struct inferd_delegate *table, char *text, size_t room)
{
	if (table->n_kernels > ET_PLUGIN_MAX_KERNELS || (table->n_kernels && !table->kernels))
		return refuse(text, room, "it says it has %u kernels", table->n_kernels);
	for (uint32_t i = 0; i < table->n_kernels; i++) {
		const struct inferd_delegate_kernel *kernel = table->kernels[i];
		if (!kernel || kernel->struct_size < sizeof *kernel || !kernel->run || !kernel->name ||
			!strstr(kernel->name, "::") || strlen(kernel->name) >= 128)
			return refuse(text, room,
				"its kernel %u has no name of the form space::operator or no function", i);
		const char *signature = kernel->signature;
		size_t n_outputs = 0, n = signature ? strlen(signature) : 0;
		const char *after = n ? strchr(signature, '>') : NULL;
		if (!n || n >= 60 || strspn(signature, "TtIiDdBbS>") != n || !after || strchr(after + 1, '>'))
			return refuse(text, room, "its kernel '%.64s' has a signature that can't be read",
				kernel->name);
		for (const char *c = after + 1; *c; c++)
			n_outputs += *c == 'T';
		if (!n_outputs || n_outputs != strlen(after + 1))
			return refuse(
				text, room, "its kernel '%.64s' must have tensors as outputs", kernel->name);
	}
	return 0;
}

static int check(const struct inferd_delegate *table, char *text, size_t room)
{
	if (!is_name(table->id) || !is_name(table->name))
		return refuse(text, room, "its table has no id or no name, or a long one");
	if (!table->open || !table->close || !table->devices || !table->probe || !table->init ||
		!table->execute || !table->destroy)
		return refuse(text, room,
			"its table lacks one of open, close, devices, probe, init, execute, destroy");
	if (!table->instance_new != !table->instance_free)
		return refuse(
			text, room, "its table has one of instance_new and instance_free without the other");
	if (table->buffer_import && !table->buffer_free)
		return refuse(text, room, "its table has buffer_import without buffer_free");
	if (table->buffer_alloc && !(table->buffer_map && table->buffer_unmap && table->buffer_free))
		return refuse(text, room,
			"its table has buffer_alloc without buffer_map, buffer_unmap or buffer_free");
	if (table->cancel && !table->instance_new && table->submit)
		return refuse(
			text, room, "its table has submit and cancel, but no instances to tell runs apart");
	return check_kernels(table, text, room);
}

int et_plugin_library_open(struct et_plugin_library *ret_library, const char *path, char *text, size_t room)
{
	struct et_plugin_library library = { .handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) };
	if (!library.handle)
		return refuse(text, room, "%.240s", dlerror());
	const struct inferd_delegate *(*entry)(uint32_t, uint32_t);
	void *symbol = dlsym(library.handle, INFERD_DELEGATE_ENTRY);
	memcpy(&entry, &symbol, sizeof entry);
	int rc = 0;
	const struct inferd_delegate *table = NULL;
	if (!symbol)
		rc = refuse(text, room, "%.150s does not export %s: it is no plug-in of inferd", path,
			INFERD_DELEGATE_ENTRY);
	else if (!(table = entry(INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR)))
		rc = refuse(text, room, "%.150s does not work with version %d.%d of the plug-in interface",
			path, INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR);
	else if (table->struct_size < offsetof(struct inferd_delegate, id) ||
		 table->struct_size > SIZE_MAX_SANE)
		rc = refuse(text, room, "its table says it has %u bytes", table->struct_size);
	else if (table->major != INFERD_DELEGATE_MAJOR)
		rc = refuse(text, room,
			"it is made for version %u.%u of the plug-in interface, this is %d.%d", table->major,
			table->minor, INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR);
	else if (table->struct_size < SIZE_1_0)
		rc = refuse(text, room, "its table has %u bytes, version 1.0 has %u", table->struct_size,
			(unsigned)SIZE_1_0);
	if (!rc) {
		memcpy(&library.table, table,
			table->struct_size < sizeof *table ? table->struct_size : sizeof *table);
		rc = check(&library.table, text, room);
	}
	if (rc) {
		dlclose(library.handle);
		return rc;
	}
	*ret_library = library;
	return 0;
}

void et_plugin_library_close(struct et_plugin_library *library)
{
	if (library->handle)
		dlclose(library->handle);
	library->handle = NULL;
}
