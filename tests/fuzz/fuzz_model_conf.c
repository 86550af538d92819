/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the input is a model.conf, which comes with a model from anywhere, and behind a NUL the file of labels
 * beside it, called "l". What is read of them is bounded, and a refusal has a sentence.
 *
 * The file of labels is a memory file with a link in a folder of its own, so that no input is written to a disk. */
#include "config/model_conf.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static char folder[] = "/tmp/fuzz-model-conf-XXXXXX", link_path[sizeof(folder) + 2];
static int labels = -1;

static void remove_folder(void)
{
	unlink(link_path);
	rmdir(folder);
}

static void make_folder(void)
{
	char target[64];
	labels = memfd_create("labels", MFD_CLOEXEC);
	require(labels >= 0 && mkdtemp(folder));
	snprintf(target, sizeof(target), "/proc/self/fd/%d", labels);
	snprintf(link_path, sizeof(link_path), "%s/l", folder);
	require(symlink(target, link_path) == 0 && atexit(remove_folder) == 0);
}

static void put_labels(const uint8_t *bytes, size_t n_bytes)
{
	require(ftruncate(labels, 0) == 0 && pwrite(labels, bytes, n_bytes, 0) == (ssize_t)n_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
	struct inf_config_error error = { "" };
	struct inf_model_conf *conf = inf_model_conf_new();
	char *text = calloc(1, n_bytes + 1); /* strndup would need a NUL behind the input, says AddressSanitizer */
	if (labels < 0)
		make_folder();
	if (conf && text) {
		memcpy(text, bytes, n_bytes);
		size_t n_text = strlen(text);
		bool has_labels = n_text < n_bytes, is_of_version = n_bytes % 2;
		if (has_labels)
			put_labels(bytes + n_text + 1, n_bytes - n_text - 1);
		if (inf_model_conf_parse(conf, text, "model.conf", has_labels ? folder : NULL, is_of_version, &error) ==
			0)
			check(conf);
		else
			require(error.text[0] && memchr(error.text, 0, sizeof(error.text)));
	}
	free(text);
	inf_model_conf_unref(conf);
	return 0;
}
