/* SPDX-License-Identifier: BSD-3-Clause */
/* The delegate ids that ExecuTorch's exporters write, with a sentence for each: what the file was exported for, why
 * this inferd can't run it, and what would help. Errors about a file that can't be run use it. Any thread. */
#ifndef DELEGATES_KNOWN_DELEGATES_H
#define DELEGATES_KNOWN_DELEGATES_H

#include <stddef.h>

struct et_known_delegate {
	const char *id;
	const char *target;  /* completes "exported for": "Qualcomm's NPUs (Hexagon), by QNN" */
	const char *why_not; /* a clause: why a plain inferd can't run it */
	const char *instead; /* an instruction: what would help */
};

/* The constant entry for @id; NULL if no exporter of ExecuTorch 1.5 writes that id. */
const struct et_known_delegate *et_known_delegate_find(const char *id);

/* Write "exported for TARGET: WHY NOT; INSTEAD" into @text, cut to @room bytes; an empty text for an unknown id.
 * Returns @text. */
const char *et_known_delegate_text(const char *id, char *text, size_t room);

/* For an operator that inferd lacks: what its program was exported for and what would help. NULL: unknown namespace. */
const char *et_known_operator_text(const char *name);

#endif
