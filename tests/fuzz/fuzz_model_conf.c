/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is a model.conf, which comes with a model from anywhere. What is read of it is bounded, and
 * a refusal has a sentence. */
#include "config/model_conf.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check(const struct inf_model_conf *conf)
{
	size_t n_label_bytes = 0;
	require(conf->n_ios <= INF_MODEL_CONF_MAX_IOS && conf->warm_up <= INF_CONFIG_WARM_UP_MAX);
	require(memchr(conf->version, 0, sizeof(conf->version)));
	for (uint32_t i = 0; i < conf->n_ios; i++) {
		const struct inf_model_conf_io *io = &conf->ios[i];
		require(memchr(io->name, 0, sizeof(io->name)) && io->n_labels <= INF_MODEL_CONF_MAX_LABELS);
		require(inf_model_conf_find(conf, io->is_input, io->index) == io);
		require(io->n_scale == io->n_offset && io->n_scale == (!io->layout[0]                ? 0
									      : io->colour[0] == 'G' ? 1
												     : 3));
		for (uint32_t k = 0; k < io->n_labels; k++)
			n_label_bytes += strlen(io->labels[k]) + 1;
	}
	require(n_label_bytes == conf->n_label_bytes && n_label_bytes <= INF_MODEL_CONF_MAX_LABEL_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct inf_config_error error = { "" };
	struct inf_model_conf *conf = inf_model_conf_new();
	char *text = calloc(1, n_bytes + 1); /* strndup would need a NUL behind the input, says AddressSanitizer */
	if (conf && text) {
		memcpy(text, bytes, n_bytes);
		bool is_of_version = n_bytes % 2;
		if (inf_model_conf_parse(conf, text, "model.conf", NULL, is_of_version, &error) == 0)
			check(conf);
		else
			require(error.text[0] && memchr(error.text, 0, sizeof(error.text)));
	}
	free(text);
	inf_model_conf_unref(conf);
	return 0;
}
