/* SPDX-License-Identifier: BSD-3-Clause */
/* Library: a plug-in's shared object and its table, checked. */
#ifndef DELEGATES_PLUGIN_HOST_LIBRARY_H
#define DELEGATES_PLUGIN_HOST_LIBRARY_H

#include "delegates/inferd-delegate.h"

struct et_plugin_library {
	void *handle;
	struct inferd_delegate table; /* a copy; what the plug-in does not know is zero */
};

/* Load @path and look at what it exports. 0, or -1 with a sentence in @text. Runs code of the plug-in. */
int et_plugin_library_open(struct et_plugin_library *ret_library, const char *path, char *text, size_t room);
/* All zeros is fine. */
void et_plugin_library_close(struct et_plugin_library *library);

#endif
