/* SPDX-License-Identifier: BSD-3-Clause */
/* What each delegate id stands for, from ExecuTorch 1.5's backends/ folder.
 *
 * A file that was exported for a delegate holds no second copy of its graph for the CPU, so what helps is nearly always
 * another file of the same model. The sentence says so, or the user would search for a setting that does not exist. */
#include "delegates/known_delegates.h"

#include <stdio.h>
#include <string.h>

#define OTHER_FILE "put a file of the same model that was exported for XNNPACK (or without delegates) beside it"
#define APPLE      "it runs on Apple's systems only"
#define PLUGIN(id) "configure a plug-in for " id " on such a device, or " OTHER_FILE

static const struct et_known_delegate known[] = {
	{ "CoreMLBackend", "Apple's Core ML", APPLE, OTHER_FILE },
	{ "CudaBackend", "NVIDIA's GPUs, by AOTInductor",
		"its payload is a C++ library made for PyTorch's runtime and one GPU generation", OTHER_FILE },
	{ "EnnBackend", "Samsung's Exynos NPUs, by ENN", "it needs Samsung's libenn_public_api_cpp.so and its NPU",
		PLUGIN("EnnBackend") },
	{ "EthosUBackend", "Arm's Ethos-U NPUs", "it needs the kernel driver ethosu (/dev/accel) or Arm's /dev/ethosu0",
		PLUGIN("EthosUBackend") },
	{ "MLXBackend", "Apple's GPUs, by MLX", APPLE, OTHER_FILE },
	{ "MPSBackend", "Apple's GPUs, by Metal Performance Shaders", APPLE, OTHER_FILE },
	{ "MetalBackend", "Apple's GPUs, by Metal", APPLE, OTHER_FILE },
	{ "NativeBackend", "ExecuTorch's own experimental runtime", "only that runtime can read it", OTHER_FILE },
	{ "NeuropilotBackend", "MediaTek's NPUs, by NeuroPilot",
		"it needs MediaTek's libneuronusdk_adapter.mtk.so and the chip it was compiled for",
		PLUGIN("NeuropilotBackend") },
	{ "NeutronBackend", "NXP's eIQ Neutron NPUs",
		"it needs NXP's libNeutronDriver.so and an i.MX chip with that NPU", PLUGIN("NeutronBackend") },
	{ "OpenvinoBackend", "Intel's CPUs, GPUs and NPUs, by OpenVINO", "it needs OpenVINO's libopenvino_c.so",
		"install OpenVINO and add [backend openvino] with path = .../inferd/openvino.so to "
		"inferd.conf" },
	{ "QnnBackend", "Qualcomm's NPUs (Hexagon), by QNN",
		"it needs Qualcomm's libQnnHtp.so and the chip it was compiled for", PLUGIN("QnnBackend") },
	{ "TOSABackend", "inspection of its TOSA graph", "it holds no code for any machine", OTHER_FILE },
	{ "VgfBackend", "Vulkan's ML extensions, by Arm's VGF",
		"it needs a Vulkan driver with VK_ARM_tensors and VK_ARM_data_graph", PLUGIN("VgfBackend") },
	{ "VulkanBackend", "GPUs, by Vulkan or WebGPU", "it needs an OpenCL driver",
		"add [backend opencl] with path = .../inferd/opencl.so to inferd.conf, or " OTHER_FILE },
	{ "XnnpackBackend", "CPUs, by XNNPACK", "XNNPACK could not be started", "see the log of inferd for why" },
};

/* Operators outside ATen, by namespace. Their exporters write no delegate into the program. */
static const struct {
	const char *space, *text;
} spaces[] = {
	{ "cadence::", "exported for Cadence's DSPs; a plug-in may bring these operators, or " OTHER_FILE },
	{ "cortex_m::", "exported for Arm's Cortex-M, by CMSIS-NN; a plug-in may bring these operators, "
			"or " OTHER_FILE },
};

const char *et_known_operator_text(const char *name)
{
	for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
		if (strncmp(name, spaces[i].space, strlen(spaces[i].space)) == 0)
			return spaces[i].text;
	return NULL;
}

const struct et_known_delegate *et_known_delegate_find(const char *id)
{
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (strcmp(known[i].id, id) == 0)
			return &known[i];
	return NULL;
}

const char *et_known_delegate_text(const char *id, char *text, size_t room)
{
	const struct et_known_delegate *found = et_known_delegate_find(id);
	text[0] = '\0';
	if (found)
		snprintf(text, room, "exported for %s: %s; %s", found->target, found->why_not, found->instead);
	return text;
}
