/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd's configuration: text to a plain struct; every mistake is reported with file and line.
 *
 * inf_config_init sets the defaults. inf_config_load reads a file and then the drop-ins beside it (FILE.d/NAME.conf,
 * in the order of their names), each on top of the one before. No function here looks at the machine: paths are not
 * opened, names of users are not looked up. inferd.conf in this folder documents every key. */
#ifndef CONFIG_CONFIG_H
#define CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	INF_CONFIG_PATH_MAX = 512,
	INF_CONFIG_NAME_MAX = 128,
	INF_CONFIG_NAMES_MAX = 256,
	INF_CONFIG_BACKENDS_MAX = 16,
	INF_CONFIG_OPTIONS_MAX = 16,
	INF_CONFIG_VARIABLES_MAX = 16,
	INF_CONFIG_MODEL_OPTIONS_MAX = 8,
	INF_CONFIG_VERSION_MAX = 16,
	INF_CONFIG_WARM_UP_MAX = 1000,
};

/* The limits of one user: the most that the user may hold at a time. */
struct inf_limits {
	uint32_t connections;
	uint32_t methods;
	uint32_t regions;
	uint32_t bindings;
	uint32_t fds; /* descriptors that the daemon keeps open for the user: connections and regions */
	uint32_t requests;
	uint32_t opens; /* requests that wait for a model or for the models' folder */
	uint64_t bytes;
	uint32_t priority; /* the highest priority that requests may ask for: an index into inf_config_priorities */
	bool own_programs; /* whether clients may bring programs */
	uint32_t given;    /* bits of enum inf_limit_bit: which of these the configuration sets */
};

/* The values of `priority`, highest first. */
enum { INF_CONFIG_N_PRIORITIES = 4 };
extern const char *const inf_config_priorities[INF_CONFIG_N_PRIORITIES];

/* Names of users or groups: "" or "anna camera 1000". inf_config_next_name reads them one by one. */
struct inf_config_names {
	char text[INF_CONFIG_NAMES_MAX];
};

/* [user NAME] or [group NAME]: only the limits that the section gives are valid. */
struct inf_config_user {
	char name[INF_CONFIG_NAME_MAX]; /* of the user or group, or its number in digits */
	uint32_t weight;                /* 1 unless the section gives it (INF_LIMIT_BIT_WEIGHT) */
	struct inf_limits limits;
};

enum inf_limit_bit {
	INF_LIMIT_BIT_CONNECTIONS = 1 << 0,
	INF_LIMIT_BIT_METHODS = 1 << 1,
	INF_LIMIT_BIT_REGIONS = 1 << 2,
	INF_LIMIT_BIT_BINDINGS = 1 << 3,
	INF_LIMIT_BIT_FDS = 1 << 4,
	INF_LIMIT_BIT_REQUESTS = 1 << 5,
	INF_LIMIT_BIT_BYTES = 1 << 6,
	INF_LIMIT_BIT_PRIORITY = 1 << 7,
	INF_LIMIT_BIT_OPENS = 1 << 8,
	INF_LIMIT_BIT_OWN_PROGRAMS = 1 << 9,
	INF_LIMIT_BIT_WEIGHT = 1 << 10,
};

/* Options of a model for backends, "BACKEND.KEY = VALUE". Only the backend knows its keys. */
struct inf_config_model_options {
	struct inf_config_model_option {
		char backend[INF_CONFIG_NAME_MAX], key[INF_CONFIG_NAME_MAX], value[INF_CONFIG_PATH_MAX];
	} items[INF_CONFIG_MODEL_OPTIONS_MAX];
	uint32_t n;
};

/* [model NAME] */
struct inf_config_model {
	char name[INF_CONFIG_NAME_MAX];
	bool pin; /* loaded at start, never evicted */
	bool has_keep_alive;
	uint64_t keep_alive_ns;
	bool has_stall;
	uint64_t stall_ns;
	char backend[INF_CONFIG_NAME_MAX];     /* empty: the general order */
	struct inf_config_names users, groups; /* who may open it; both empty: everyone */
	bool has_version, has_warm_up;
	char version[INF_CONFIG_VERSION_MAX]; /* that serves; empty: the latest */
	uint32_t warm_up;                     /* runs on zeros before it is READY */
	struct inf_config_model_options options;
};

/* The process in which a client's own programs run. */
enum inf_config_own { INF_CONFIG_OWN_REFUSED, INF_CONFIG_OWN_APART, INF_CONFIG_OWN_TOGETHER, INF_CONFIG_N_OWN };

/* [backend NAME]: a plug-in. Other keys are options, which only the plug-in knows. */
struct inf_config_backend {
	char name[INF_CONFIG_NAME_MAX];
	char path[INF_CONFIG_PATH_MAX]; /* path of the shared object; empty: none */
	char host[INF_CONFIG_PATH_MAX]; /* the program that loads it; empty: the installed inferd-delegate-host */
	bool is_thread;                 /* isolation = thread */
	uint64_t timeout_ns;            /* for one run; 0: the default */
	uint64_t load_timeout_ns;       /* for making a payload ready; 0: the default */
	uint64_t cancel_timeout_ns;     /* for a run that was asked to end; 0: the rest of timeout */
	uint32_t max_crashes;           /* within crash_window_ns; 0: the default */
	uint32_t max_failures;          /* failed runs of a model within crash_window_ns; 0: the default */
	uint64_t crash_window_ns;       /* 0: the default */
	uint32_t own_programs;          /* for programs of clients: enum inf_config_own */
	uint32_t own_processes;         /* processes for them at a time; 0: the default */
	bool build_tools;               /* the process that compiles for the plug-in may start a linker */
	struct inf_config_option {
		char key[INF_CONFIG_NAME_MAX], value[INF_CONFIG_PATH_MAX];
	} options[INF_CONFIG_OPTIONS_MAX];
	uint32_t n_options;
	struct inf_config_option variables[INF_CONFIG_VARIABLES_MAX]; /* environment.KEY, of the plug-in's process */
	uint32_t n_variables;
};

struct inf_config {
	char socket[INF_CONFIG_PATH_MAX];
	char manager_socket[INF_CONFIG_PATH_MAX]; /* empty: no manager socket */
	char models[INF_CONFIG_PATH_MAX];
	char cache[INF_CONFIG_PATH_MAX];        /* empty: use memory files */
	uint64_t cache_limit;                   /* bytes of packed weights to keep there; 0: keep none */
	char program_host[INF_CONFIG_PATH_MAX]; /* inferd-program-host; empty: the installed one */
	uint64_t program_stop_ns;               /* how long a run there may take to stop, before it is killed */
	uint64_t program_idle_ns;               /* how long its process stays when its user has no program there */
	uint32_t workers;                       /* 0: as many as the cores that the process may use */
	int log_level;                          /* enum et_log_level */
	char backends[INF_CONFIG_BACKENDS_MAX][INF_CONFIG_NAME_MAX];
	uint32_t n_backends;
	uint64_t memory_budget; /* for all models; 0: no limit */
	uint64_t keep_alive_ns; /* UINT64_MAX: forever */
	uint64_t drain_ns;      /* how long running jobs may take to end at shutdown */
	uint64_t stall_ns;      /* a worker this long in one instruction is considered stuck; 0: never */
	uint64_t spin_ns;       /* loop and workers poll this long for more work before they sleep */
	uint64_t age_ns;        /* work that waited this long goes next, whatever its priority */
	uint64_t
		dead_queue_ns; /* a queue none of whose workers came back for this long is dead; 0, UINT64_MAX: never */
	struct inf_config_names users, groups; /* who may connect; both empty: everyone */
	struct inf_config_names
		administrators; /* who may manage, "@NAME": a group; empty: the manager's socket decides */
	struct inf_limits limits;

	/* Named sections, in the order of their first appearance. Heap memory; inf_config_deinit frees it. */
	struct inf_config_model *model_sections;
	uint32_t n_model_sections;
	struct inf_config_user *user_sections;
	uint32_t n_user_sections;
	struct inf_config_user *group_sections;
	uint32_t n_group_sections;
	struct inf_config_backend *backend_sections;
	uint32_t n_backend_sections;
};

/* "FILE:LINE: what is wrong". */
struct inf_config_error {
	char text[INF_CONFIG_PATH_MAX + 256];
};

void inf_config_init(struct inf_config *config);
/* All zeros is fine. */
void inf_config_deinit(struct inf_config *config);

/* Read @path and its drop-ins on top of what @config holds.
 * Answers: 0, or negative errno with a sentence: -EINVAL for a mistake in the text (@config is then partly changed:
 * do not use it), -ENOENT if @path does not exist (its drop-ins are read nevertheless), -ENOMEM, others from open. */
int inf_config_load(struct inf_config *config, const char *path, struct inf_config_error *error);

/* The same as inf_config_load, for text in memory. @name stands for the file in errors. */
int inf_config_parse(struct inf_config *config, const char *text, const char *name, struct inf_config_error *error);

/* Write the name at *@at to @to and move *@at behind it. False: there is no other. Begin with *@at = names->text. */
bool inf_config_next_name(const char **at, char to[static INF_CONFIG_NAME_MAX]);

/* Whether @fresh differs from @now in settings that are used only when the daemon starts; then their names in @to, of
 * @room bytes: "workers, spin, [backend acme]". */
bool inf_config_needs_restart(const struct inf_config *now, const struct inf_config *fresh, char *to, size_t room);

/* NULL: there is no such section. */
const struct inf_config_model *inf_config_find_model(const struct inf_config *config, const char *name);

/* "4K", "1.5G", "4096"; binary multiples. False: not such a number, or it does not fit. */
bool inf_config_parse_size(const char *text, uint64_t *ret_bytes);
/* "5m", "100ms", "30" (seconds), "2h", "1d", "50us", "infinity" (UINT64_MAX). */
bool inf_config_parse_duration(const char *text, uint64_t *ret_ns);
/* error, warning, notice, info, debug. */
bool inf_config_parse_log_level(const char *text, int *ret_level);

#endif
