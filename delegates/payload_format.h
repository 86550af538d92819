/* SPDX-License-Identifier: BSD-3-Clause */
/* Payload formats of ExecuTorch's delegates whose engine may not be installed: which chip a payload was made for, and
 * whether its header is intact. Only a few fields of the header and the compile specs are read. Any thread. */
#ifndef DELEGATES_PAYLOAD_FORMAT_H
#define DELEGATES_PAYLOAD_FORMAT_H

#include "runtime/program/program.h"

/* Write the target of the payload into @text: "ethos-u55-128", "SoC 57, Hexagon V75". An empty text if the payload
 * names no target, or its compile specs can't be read. Returns @text. */
const char *et_payload_format_target(const struct et_delegate_spec *spec, char *text, size_t room);

/* Check the header of the payload. ET_OK if it is intact, or the format is unknown here; ET_E_INVALID_PROGRAM with the
 * name of the wrong field in @diag. */
enum et_status et_payload_format_check(const struct et_delegate_spec *spec, struct et_diag *diag);

#endif
