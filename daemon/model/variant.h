/* SPDX-License-Identifier: BSD-3-Clause */
/* Variants: the files of a model, what each needs, in which order to try them; and the data files they share.
 *
 * The models' folder holds models as
 *     NAME/VERSION/ *.pte     the usual form; several files are variants for different backends
 *     NAME/ *.pte             version 1
 *     NAME.pte                version 1, one variant
 * where a file `.bpte` may stand for `.pte`: a bundle, with the program inside. Data files (*.ptd) in the same folder
 * belong to every variant there, and tensor names are looked up in them in alphabetical order; a NAME.pte of the last
 * form has NAME.ptd only. A VERSION is a whole number without leading zeros, and the highest is the newest. Names that
 * begin with a dot are ignored; what else is no model is ignored, too, and a scan says so.
 * No call keeps anything; any thread. */
#ifndef DAEMON_MODEL_VARIANT_H
#define DAEMON_MODEL_VARIANT_H

#include "config/config.h"
#include "config/model_conf.h"
#include "config/model_name.h"
#include "daemon/model/model.h"

enum { INF_VARIANTS_MAX = 32, INF_VARIANT_DELEGATES_MAX = 8 };

struct inf_variant {
	char path[INF_CONFIG_PATH_MAX + 256];
	const char *file; /* the last part of the path */
	int fd;           /* the open file, borrowed; -1: open the path */
	struct inf_file_id id;

	/* Set by inspection. */
	struct et_program *program;    /* NULL: `reason` says why */
	char label[64];                /* "xnnpack", "xnnpack+opencl", "portable" */
	enum inf_load_failure failure; /* why it can't be used, and */
	char reason[700];              /* the sentence */
	char note[320];                /* why a usable variant is compiled anew; else empty */
	char method[256];              /* the method that is meant; "": the program has no such method */
	uint32_t n_others;             /* if counted: other methods of the program that may run */
	uint32_t rank;                 /* place in the configured order of backends, 0 first */
	uint32_t own_rank;             /* the same, whichever backends the client wants */
	bool is_unwanted;              /* refused only because the caller wants another backend */
	uint64_t io_hash;              /* of the types and sizes of the method's inputs and outputs */
};

struct inf_data_file {
	char path[INF_CONFIG_PATH_MAX + 256];
	int fd; /* as in struct inf_variant */
};

struct inf_variants {
	char model[256], version[256];
	uint32_t n;
	struct inf_variant *items; /* heap */
	struct inf_data_ids data_ids;
	struct inf_data_file *data; /* heap; data_ids.n of them */
	bool has_too_much_data;     /* more data files than there can be: no variant can be used */
	int rc;                     /* negative errno: a folder could not be read because a resource has run out */
	char *denied;               /* a folder of the model that this process may not read; heap; NULL: none */
	/* What model.conf says, if it is read; a reference. NULL: there is none. */
	struct inf_model_conf *conf;
	char *conf_error; /* the first mistake in it: no variant can be used; heap */
	struct inf_conf_ids conf_ids;
	/* In a scan: this entry is no version of a model, and why; heap. `version` names a folder or is "", n is 0. */
	char *ignored;
};

/* Find the files of @model, version @version ("": the newest). False when there is none; n is 0 then. The caller frees
 * *ret_variants with inf_variants_deinit in either case. */
bool inf_variants_find(struct inf_variants *ret_variants, const char *folder, const char *model, const char *version);
/* The same for the newest version below @than. */
bool inf_variants_find_older(struct inf_variants *ret_variants, const char *folder, const char *model,
	const char *than);
/* What of a version that was found as @variants is another file than those of a model that was loaded from @path: "its
 * file", "its data (.ptd)" or "its model.conf"; NULL: nothing, or there is nothing at @path. */
const char *inf_variants_changed(const struct inf_variants *variants, const char *path, const struct inf_file_id *file,
	const struct inf_data_ids *data, const struct inf_conf_ids *conf);
/* NULL items are fine. */
void inf_variants_deinit(struct inf_variants *variants);

/* Read NAME/model.conf of @model, and NAME/VERSION/model.conf of the version that was found, into @variants. Slow. */
void inf_variants_read_model_conf(struct inf_variants *variants, const char *folder, const char *model);
void inf_variants_read_version_conf(struct inf_variants *variants, const char *folder);
/* Whether @method has the inputs and outputs that @conf describes; else a sentence in @why, of @room bytes. */
bool inf_description_fits(const struct inf_model_conf *conf, const struct et_method_spec *method, char *why,
	size_t room);

struct inf_inspect_options {
	const char *cache_dir;           /* NULL: memory */
	struct et_platform_store *store; /* for models of the folder; or NULL */
	const struct et_registry *registry;
	const struct inf_config *config; /* its `backends` */
	const char *backend;             /* only variants for these backends, in this order: "npu, xnnpack"; "": any */
	const char *method;              /* whose payloads the backends inspect; "": the default method */
	const struct inf_config_model_options *options; /* of the model; NULL: none */
	uint64_t tenant;                                /* of uploaded files, see et_source */
	uint64_t process_memory; /* private memory that the tenant's process may have now; 0: any amount */
	uint64_t user_memory;    /* all memory that the tenant may have, in its process and shared; 0: any amount */
	uint64_t memory_budget;  /* a program that is larger with its data files is refused; 0: no limit */
	/* Asked while files are copied; true ends the inspection soon: no variant can be used then. NULL: never. */
	bool (*is_stopped)(void *arg);
	void *arg;
	bool counts_others; /* count n_others: this goes through all operators of all methods */
};
/* The options as a Plan takes them, in the array @room. They borrow from @from, which may be NULL. */
struct et_options inf_model_options(const struct inf_config_model_options *from,
	struct et_option room[INF_CONFIG_MODEL_OPTIONS_MAX]);
/* Open the data files and the program of each variant, find out what it needs, ask its backends whether they can
 * run its payloads, and sort the variants into the order in which to try them: by backend, those of one backend by
 * the name of their file. A variant whose inputs or outputs differ from those of the first one that can run is refused.
 * A data file that can't be opened is a failure of every variant. Slow. */
void inf_variants_inspect(struct inf_variants *variants, const struct inf_inspect_options *options);

/* Whether one of the backends that are wanted is there: "portable" always is. Else a sentence in @why, of @room bytes,
 * with those that are there. */
bool inf_has_wanted_backend(const struct et_registry *registry, const char *wanted, char *why, size_t room);

/* The limits for copying one of the files, after others of @n_before bytes together. */
struct et_platform_copy_limits inf_copy_limits(const struct inf_inspect_options *options, uint64_t n_before);
/* Limit the private memory of the process for @tenant's programs to @n_bytes from now on (0: any amount), if there is
 * one. Any thread. */
void inf_client_program_limit(const struct et_registry *registry, uint64_t tenant, uint64_t n_bytes);
/* Open the client's program of @variant, with the data files of @variants; all of them are open descriptors. On success
 * @variant->program is a stand-in (delegates/program/stand_in.h). Whether a method of it can run, et_stand_in_info
 * tells.
 * Answers, with the reason in @diag: what the process of the user says of the file, ET_E_BACKEND_DOWN (that can't be
 * started now), and as et_platform_copy. Slow, since it waits for the process. Any thread. */
enum et_status inf_client_program_open(struct inf_variant *variant, const struct inf_variants *variants,
	const struct inf_inspect_options *options, struct et_diag *diag);

/* The name of the default method: the only one, or "forward". NULL: neither exists. */
const char *inf_default_method(const struct et_program *program);

/* How many methods of @program, other than @method, may run: the reader accepts them, and this daemon has their
 * backends and operators. */
uint32_t inf_count_other_methods(const struct et_registry *registry, const struct et_program *program,
	const struct et_method_spec *method);

/* Whether @method needs the backend of @entry, an entry of @registry: it has a payload for that backend, or calls an
 * operator that the backend's plug-in implements. */
bool inf_method_uses(const struct et_registry *registry, const struct et_method_spec *method,
	const struct et_backend_entry *entry);

/* Find every model and version below @folder, each with its files (not inspected), sorted by name. A model whose
 * folders this process may not read has no version and no files, but `denied`; what looks like a model or a version
 * and is none has no files, but `ignored`. The caller frees the array and each
 * of its entries. Negative errno if the folder can't be read. */
int inf_variants_scan(const char *folder, struct inf_variants **ret_models, size_t *ret_n);

#endif
