/* SPDX-License-Identifier: BSD-3-Clause */
/* Variants: the files of a model, what each needs, and in which order to try them; and the data files they share.
 *
 * The repository's folder holds models as
 *     NAME/VERSION/ *.pte     the usual form; several files are variants for different backends
 *     NAME/ *.pte             version 1
 *     NAME.pte                version 1, one variant
 * where `.bpte` stands for the program inside a bundle. Data files (*.ptd) in the same folder belong to every variant
 * there, names are looked for in them in alphabetical order; beside a NAME.pte of the last form only NAME.ptd does.
 * Names that begin with a dot are not looked at.
 * Nothing here keeps anything between calls; any thread. */
#ifndef DAEMON_MODEL_VARIANT_H
#define DAEMON_MODEL_VARIANT_H

#include "config/config.h"
#include "daemon/model/model.h"

enum { INF_VARIANTS_MAX = 32, INF_VARIANT_DELEGATES_MAX = 8 };

struct inf_variant {
	char path[INF_CONFIG_PATH_MAX + 256];
	const char *file; /* the path's last part */
	int fd;           /* the file itself, lent; -1: open the path */
	struct inf_file_id id;

	/* Set by inspection. */
	struct et_program *program; /* NULL: `reason` says why */
	char label[64];             /* "xnnpack", "xnnpack+opencl", "portable" */
	char reason[700];           /* why it can't be used */
	bool is_missing;            /* because a backend is not here */
	bool is_transient;          /* because something has run out: it may well work later */
	bool is_down;               /* because a backend has crashed too often */
	char note[320];             /* it can be used, but is compiled anew: why; else empty */
	char method[256];           /* that is meant; "": there is none such */
	uint32_t n_others;          /* if counted: other methods, that nothing known keeps from running */
	uint32_t rank;              /* place in the configured order, 0 first */
};

struct inf_data_file {
	char path[INF_CONFIG_PATH_MAX + 256];
	int fd; /* as a variant's */
};

struct inf_variants {
	char model[256], version[256];
	uint32_t n;
	struct inf_variant *items; /* heap */
	struct inf_data_ids data_ids;
	struct inf_data_file *data; /* heap; as many as data_ids */
	bool has_too_much_data;     /* more than there can be: no variant can be used */
	int rc;                     /* negative errno: a folder could not be read for want of something */
	char *denied; /* a folder of it that this process may not read; heap; NULL: none. There may be more in it */
};

/* Whether that errno (negative) says that something has run out which may be there later. */
bool inf_is_scarcity(int rc);

/* Whether @name can be a model's or a version's name: one path component, not hidden. */
bool inf_model_name_is_valid(const char *name);

/* The files of @model, version @version ("": the newest). False when there is none; @n then is 0. *ret_variants is
 * to be freed with inf_variants_deinit in either case. */
bool inf_variants_find(struct inf_variants *ret_variants, const char *folder, const char *model, const char *version);
/* NULL items are fine. */
void inf_variants_deinit(struct inf_variants *variants);

struct inf_inspect_options {
	const char *cache_dir;           /* NULL: memory */
	struct et_platform_store *store; /* for the models' own files; or NULL */
	const struct et_registry *registry;
	const struct inf_config *config; /* its `backends` */
	const char *backend;             /* only variants for this one; "": any */
	const char *method;              /* whose payloads the backends are to look at; "": the default */
	const struct inf_config_model_options *options; /* of the model; NULL: none */
	uint64_t tenant;                                /* of files that were lent, see et_source */
	bool counts_others; /* n_others is wanted: to find out goes through all operators of all methods */
};
/* As Plans see them, in @room. Borrows from @from, which may be NULL. */
struct et_options inf_model_options(const struct inf_config_model_options *from,
	struct et_option room[INF_CONFIG_MODEL_OPTIONS_MAX]);
/* Open the data files and the program of each variant, see what it needs, ask its backends whether they can run its
 * payloads, and put them in the order in which to try them. A data file that can't be opened is every variant's
 * `reason`. Slow. */
void inf_variants_inspect(struct inf_variants *variants, const struct inf_inspect_options *options);

/* The name of the method that is meant when none is named: the only one, or "forward". NULL if there is none such. */
const char *inf_default_method(const struct et_program *program);

/* How many methods of @program but @method there are that nothing known beforehand keeps from running: the reader takes them,
 * and their backends and operators are here. */
uint32_t inf_count_other_methods(const struct et_registry *registry, const struct et_program *program,
	const struct et_method_spec *method);

/* Whether @method needs the backend of @entry, which is one of the registry: a payload of it is for that, or an
 * operator is one that it brings along. */
bool inf_method_uses(const struct et_registry *registry, const struct et_method_spec *method,
	const struct et_backend_entry *entry);

/* Every model and version below @folder, each with its files (not inspected); sorted by name. A model of which only
 * folders are there that we may not read has no version and no files, but `denied`. The array and each of its entries are
 * the caller's. Negative errno if the folder can't be read. */
int inf_variants_scan(const char *folder, struct inf_variants **ret_models, size_t *ret_n);

#endif
