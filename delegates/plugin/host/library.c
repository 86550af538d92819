/* SPDX-License-Identifier: BSD-3-Clause */
/* Load a plug-in: find its one symbol, and check the table that it returns before any other function is called.
 *
 * The library's constructors run in dlopen, before the check. They are the first code of the plug-in that runs, and run
 * in the sandbox already. */
#include "delegates/plugin/host/library.h"
#include "delegates/table_check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int et_plugin_library_open(struct et_plugin_library *ret_library, const char *path, char *text, size_t room)
{
	struct et_plugin_library library = { .handle = dlopen(path, RTLD_NOW | RTLD_LOCAL) };
	if (!library.handle) {
		snprintf(text, room, "%.240s", dlerror());
		return -1;
	}
	const struct inferd_delegate *(*entry)(uint32_t, uint32_t);
	void *symbol = dlsym(library.handle, INFERD_DELEGATE_ENTRY);
	memcpy(&entry, &symbol, sizeof entry);
	int rc = -1;
	const struct inferd_delegate *table = NULL;
	if (!symbol)
		snprintf(text, room, "%.150s does not export %s: it is not a plug-in of inferd", path,
			INFERD_DELEGATE_ENTRY);
	else if (!(table = entry(INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR)))
		snprintf(text, room, "%.150s does not work with version %d.%d of the plug-in interface", path,
			INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR);
	else
		rc = et_table_copy(&library.table, table, text, room);
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
