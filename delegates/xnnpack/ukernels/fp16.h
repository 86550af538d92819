/* SPDX-License-Identifier: BSD-3-Clause */
/* fp16 (IEEE 754 binary16) to float on XNNPACK's threads, where subnormal floats are zeros (threads.c):
 * et_fp16_to_float (runtime/base/fp16.h) multiplies a subnormal float and would lose fp16's subnormals there. */
#ifndef DELEGATES_XNNPACK_UKERNELS_FP16_H
#define DELEGATES_XNNPACK_UKERNELS_FP16_H

#include "runtime/base/fp16.h"

#include <stdint.h>
#include <string.h>

static inline float et_xnn_from_fp16(uint16_t fp16)
{
	/* Shifted into a float's place, the exponent is 112 too small; infinities and NaN get the largest one. A
	 * subnormal is converted as an integer. */
	uint32_t bits = (uint32_t)(fp16 & 0x7fff) << 13;
	float value;
	memcpy(&value, &bits, sizeof(value));
	value = fp16 & 0x7c00 ? value * 0x1p112f : (float)(fp16 & 0x3ff) * 0x1p-24f;
	memcpy(&bits, &value, sizeof(bits));
	if ((fp16 & 0x7c00) == 0x7c00)
		bits |= 0x7f800000;
	bits |= (uint32_t)(fp16 & 0x8000) << 16;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

#endif
