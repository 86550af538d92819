/* SPDX-License-Identifier: BSD-3-Clause */
/* Library: a plug-in's shared object, and its table after it was checked. */
#ifndef DELEGATES_PLUGIN_HOST_LIBRARY_H
#define DELEGATES_PLUGIN_HOST_LIBRARY_H

#include "delegates/inferd-delegate.h"

struct et_plugin_library {
	void *handle;
	struct inferd_delegate table; /* a copy; members that the plug-in's version lacks are NULL */
};

/* Load @path, call its entry and check its table: runs code of the plug-in. 0, or -1 with a sentence in @text. */
int et_plugin_library_open(struct et_plugin_library *ret_library, const char *path, char *text, size_t room);
/* A @library of all zeros is allowed. */
void et_plugin_library_close(struct et_plugin_library *library);

#endif
