/* SPDX-License-Identifier: BSD-3-Clause */
/* model.conf: what a model's author says about its programs, which say little of themselves. See model.conf(5).
 *
 * The text comes with a model, from wherever that comes: it is bounded and checked like a program. */
#ifndef CONFIG_MODEL_CONF_H
#define CONFIG_MODEL_CONF_H

#include "config/config.h"

enum {
	INF_MODEL_CONF_MAX_BYTES = 64 << 10, /* of the text */
	INF_MODEL_CONF_MAX_LABELS = 65536,
	INF_MODEL_CONF_MAX_LABEL = 255,             /* bytes of one */
	INF_MODEL_CONF_MAX_LABEL_BYTES = 256 << 10, /* of all of a model, with a NUL each; also of a file */
	INF_MODEL_CONF_MAX_IOS = 64,                /* sections for inputs and outputs */
	INF_MODEL_CONF_CHANNELS = 4,
};

/* A section [input N] or [output N]. */
struct inf_model_conf_io {
	bool is_input;
	uint32_t index;
	unsigned line;                  /* of the section; of the last one, where there are several */
	char name[INF_CONFIG_NAME_MAX]; /* "": none given */
	/* How an image becomes this input; layout "": it is no image. The value of an element is
	 * pixel * scale[c] + offset[c], where pixel is 0 ... 255 and c its channel in the order of `colour`. */
	char layout[8]; /* "NCHW", "NHWC", "CHW", "HWC" */
	char colour[8]; /* "RGB", "BGR", "GRAY" */
	double scale[INF_MODEL_CONF_CHANNELS], offset[INF_MODEL_CONF_CHANNELS];
	uint32_t n_scale, n_offset; /* after parsing both are the number of channels, or 0 */
	char **labels;              /* of an output's last dimension; heap */
	uint32_t n_labels;
};

struct inf_model_conf {
	uint32_t n_refs;                      /* one thread at a time */
	char path[INF_CONFIG_PATH_MAX + 256]; /* of the file that was parsed last */
	bool has_version, has_warm_up;
	char version[INF_CONFIG_VERSION_MAX]; /* "": the latest */
	uint32_t warm_up;
	struct inf_model_conf_io *ios; /* heap */
	uint32_t n_ios;
	size_t n_label_bytes;
};

/* An empty description with one reference. NULL: no memory. */
struct inf_model_conf *inf_model_conf_new(void);
struct inf_model_conf *inf_model_conf_ref(struct inf_model_conf *conf); /* NULL is fine */
/* NULL is fine; returns NULL. */
struct inf_model_conf *inf_model_conf_unref(struct inf_model_conf *conf);

/* Read the file @path on top of what @conf holds. @is_of_version: the file describes one version, so it has no key
 * `version`. Answers: 0, or negative errno with a sentence, after which @conf is partly changed: -ENOENT (there is no
 * such file), -EINVAL, -ENOMEM, others from reading. */
int inf_model_conf_load(struct inf_model_conf *conf, const char *path, bool is_of_version,
	struct inf_config_error *error);
/* The same for text in memory. Files of labels are looked for in @folder; NULL: they are refused. */
int inf_model_conf_parse(struct inf_model_conf *conf, const char *text, const char *name, const char *folder,
	bool is_of_version, struct inf_config_error *error);

/* NULL: there is no such section. */
const struct inf_model_conf_io *inf_model_conf_find(const struct inf_model_conf *conf, bool is_input, uint32_t index);

#endif
