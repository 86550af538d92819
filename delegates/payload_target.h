/* SPDX-License-Identifier: BSD-3-Clause */
/* What exactly a payload was made for, from its compile specs and its header, for formats whose engine may not be here.
 * Nothing but these few fields is read. Any thread. */
#ifndef DELEGATES_PAYLOAD_TARGET_H
#define DELEGATES_PAYLOAD_TARGET_H

#include "runtime/program/program.h"

/* "ethos-u55-128", "SoC 57, Hexagon V75" into @text, empty if nothing is said or it can't be read. Returns @text. */
const char *et_target_text(const struct et_delegate_spec *spec, char *text, size_t room);

/* Whether the payload has the shape of its delegate's format. ET_OK also for formats that are not known here;
 * ET_E_INVALID_PROGRAM and the field's name. */
enum et_status et_target_check(const struct et_delegate_spec *spec, struct et_diag *diag);

#endif
