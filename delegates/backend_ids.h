/* SPDX-License-Identifier: BSD-3-Clause */
/* Delegate ids that ExecuTorch's exporters write, whether or not anything here can run them: so that a file that
 * can't be run is named for what it is. */
#ifndef DELEGATES_BACKEND_IDS_H
#define DELEGATES_BACKEND_IDS_H

#include <stddef.h>

struct et_known_delegate {
	const char *id;
	const char *target;  /* "Qualcomm's NPUs (Hexagon), by QNN": completes "exported for" */
	const char *why_not; /* a clause: why it does not run without more */
	const char *instead; /* what would, as an instruction */
};

/* NULL: an id that no exporter of ExecuTorch 1.5 writes. */
const struct et_known_delegate *et_known_delegate_find(const char *id);

/* "exported for ...: why not; what would" into @text, cut where it does not fit; empty for an unknown id. Returns
 * @text. */
const char *et_known_delegate_text(const char *id, char *text, size_t room);

/* For an operator that is not here: what its program was exported for and what would help; NULL: nothing is known. */
const char *et_known_operator_text(const char *name);

#endif
