/* SPDX-License-Identifier: BSD-3-Clause */
/* The configuration: every kind of value, every kind of mistake, and the line that the error names. */
#include "config/config.h"

#include "runtime/base/checked.h"
#include "tests/support/text_file.h"

#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const char *example, *manual; /* inferd.conf and inferd.conf(5) */

static void test_defaults(void **state)
{
	struct inf_config c;
	inf_config_init(&c);
	assert_string_equal(c.socket, "/run/inferd/inferd.sock");
	assert_int_equal(c.n_backends, 4);
	assert_string_equal(c.backends[2], "xnnpack");
	inf_config_deinit(&c);
	inf_config_deinit(&c);
}

static void test_values(void **state)
{
	static const char text[] = "[server]\n"
				   "socket = /tmp/x y.sock\n"
				   "workers=3 ; two would do\n"
				   "  spin = 20us\n"
				   "keep_alive = infinity\n"
				   "memory_budget = 1.5G\n"
				   "backends = portable,xnnpack\n"
				   "log_level = debug\n"
				   "[limits]\n"
				   "bytes = 64K\n"
				   "requests = 7\n"
				   "priority = batch\n"
				   "[user camera]\n"
				   "weight = 3\n"
				   "methods = 2\n"
				   "[user alarm]\n"
				   "priority = realtime\n"
				   "[group video]\n"
				   "own_programs = no\n"
				   "[group camera]\n"
				   "weight = 5\n"
				   "[model cat]\n"
				   "pin = yes\n"
				   "users = anna,  1000\tcamera\n"
				   "[model dog]\n"
				   "keep_alive = 2h\n"
				   "stall = 20m\n"
				   "[model cat]\n"
				   "backend = portable";
	struct inf_config_error e;
	struct inf_config c;
	inf_config_init(&c);
	assert_int_equal(inf_config_parse(&c, text, "a.conf", &e), 0);
	assert_string_equal(c.socket, "/tmp/x y.sock");
	assert_int_equal(c.workers, 3);
	assert_int_equal(c.spin_ns, 20000);
	assert_true(c.program_idle_ns == UINT64_C(10) * 1000000000);
	assert_true(c.keep_alive_ns == UINT64_MAX);
	assert_int_equal(c.memory_budget, 3 << 29);
	assert_int_equal(c.n_backends, 2);
	assert_string_equal(c.backends[0], "portable");
	assert_int_equal(c.limits.bytes, 65536);
	assert_int_equal(c.limits.requests, 7);
	assert_int_equal(c.limits.connections, 256);
	assert_string_equal(inf_config_priorities[c.limits.priority], "batch");
	assert_int_equal(c.n_user_sections, 2);
	assert_int_equal(c.user_sections[0].weight, 3);
	assert_int_equal(c.limits.given, INF_LIMIT_BIT_BYTES | INF_LIMIT_BIT_REQUESTS | INF_LIMIT_BIT_PRIORITY);
	assert_int_equal(c.user_sections[0].limits.given, INF_LIMIT_BIT_METHODS | INF_LIMIT_BIT_WEIGHT);
	assert_int_equal(c.user_sections[0].limits.methods, 2);
	assert_int_equal(c.user_sections[1].limits.given, INF_LIMIT_BIT_PRIORITY);
	assert_string_equal(inf_config_priorities[c.user_sections[1].limits.priority], "realtime");
	assert_int_equal(c.n_group_sections, 2); /* a user may have a group's name */
	assert_int_equal(c.group_sections[0].limits.given, INF_LIMIT_BIT_OWN_PROGRAMS);
	assert_true(!c.group_sections[0].limits.own_programs && c.limits.own_programs);
	assert_int_equal(c.group_sections[1].weight, 5);
	assert_int_equal(c.n_model_sections, 2);
	const struct inf_config_model *cat = inf_config_find_model(&c, "cat");
	assert_non_null(cat);
	assert_true(cat->pin);
	assert_false(cat->has_keep_alive);
	assert_string_equal(cat->backend, "portable");
	assert_string_equal(cat->users.text, "anna 1000 camera");
	assert_string_equal(cat->groups.text, "");
	assert_true(inf_config_find_model(&c, "dog")->has_keep_alive);
	assert_true(inf_config_find_model(&c, "dog")->has_stall && !cat->has_stall);
	assert_int_equal(inf_config_find_model(&c, "dog")->stall_ns, UINT64_C(1200) * 1000000000);
	assert_null(inf_config_find_model(&c, "cow"));
	inf_config_deinit(&c);
}

static void test_backends(void **state)
{
	static const char text[] = "[backend ov]\n"
				   "path = /usr/lib/inferd/openvino.so\n"
				   "threads = 2\n"
				   "timeout = 5s\n"
				   "cancel_timeout = 20ms\n"
				   "load_timeout = 5m\n"
				   "[backend acme]\n"
				   "isolation = thread\n"
				   "[backend ov]\n"
				   "threads = 4\n"
				   "folder = /opt/ov\n"
				   "isolation = process\n"
				   "max_crashes = 3\n"
				   "max_failures = 7\n"
				   "own_programs = apart\n"
				   "own_processes = 2\n"
				   "build_tools = yes\n"
				   "environment.OV_LOG = 1\n"
				   "environment._x9 = a b\n"
				   "environment.OV_LOG = 2\n"
				   "crash_window = 1m\n";
	struct inf_config c;
	struct inf_config_error error;
	inf_config_init(&c);
	assert_int_equal(inf_config_parse(&c, text, "f", &error), 0);
	assert_int_equal(c.n_backend_sections, 2);
	const struct inf_config_backend *ov = &c.backend_sections[0], *acme = &c.backend_sections[1];
	assert_string_equal(ov->name, "ov");
	assert_string_equal(ov->path, "/usr/lib/inferd/openvino.so");
	assert_false(ov->is_thread);
	assert_true(ov->timeout_ns == UINT64_C(5000000000) && ov->crash_window_ns == UINT64_C(60000000000));
	assert_true(ov->cancel_timeout_ns == UINT64_C(20000000));
	assert_true(ov->load_timeout_ns == UINT64_C(300000000000));
	assert_int_equal(ov->max_crashes, 3);
	assert_int_equal(ov->max_failures, 7);
	assert_int_equal(ov->own_programs, INF_CONFIG_OWN_APART);
	assert_int_equal(acme->own_programs, INF_CONFIG_OWN_REFUSED);
	assert_int_equal(ov->own_processes, 2);
	assert_int_equal(ov->n_options, 2);
	assert_string_equal(ov->options[0].key, "threads");
	assert_string_equal(ov->options[0].value, "4");
	assert_string_equal(ov->options[1].key, "folder");
	assert_true(ov->build_tools && !acme->build_tools);
	assert_int_equal(ov->n_variables, 2);
	assert_string_equal(ov->variables[0].key, "OV_LOG");
	assert_string_equal(ov->variables[0].value, "2");
	assert_string_equal(ov->variables[1].key, "_x9");
	assert_string_equal(ov->variables[1].value, "a b");
	assert_string_equal(acme->name, "acme");
	assert_true(acme->is_thread && !acme->n_variables && !acme->n_options && !acme->path[0]);
	inf_config_deinit(&c);
}

static void test_model_options(void **state)
{
	static const char text[] = "[model cat]\nopenvino.precision = bf16\nopenvino.threads = 2\n"
				   "acme.a.b = c\nopenvino.precision = f16\n";
	struct inf_config c;
	struct inf_config_error error;
	inf_config_init(&c);
	assert_int_equal(inf_config_parse(&c, text, "f", &error), 0);
	const struct inf_config_model_options *options = &inf_config_find_model(&c, "cat")->options;
	assert_int_equal(options->n, 3);
	assert_string_equal(options->items[0].backend, "openvino");
	assert_string_equal(options->items[0].key, "precision");
	assert_string_equal(options->items[0].value, "f16");
	assert_string_equal(options->items[1].key, "threads");
	assert_string_equal(options->items[2].backend, "acme");
	assert_string_equal(options->items[2].key, "a.b");
	inf_config_deinit(&c);

	char many[400] = "[model cat]\n";
	for (int i = 0; i <= INF_CONFIG_MODEL_OPTIONS_MAX; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), "acme.option%d = x\n", i);
	inf_config_init(&c);
	assert_int_equal(inf_config_parse(&c, many, "f", &error), -EINVAL);
	assert_string_equal(error.text, "f:10: [model cat]: at most 8 options for backends");
	inf_config_deinit(&c);
}

/* Names that differ only near their end, comments in every allowed place, and a byte order mark. */
static void test_sections(void **state)
{
#define FIFTY "a23456789 b23456789 c23456789 d23456789 e23456789 "
	struct inf_config_error error;
	struct inf_config c;
	inf_config_init(&c);
	assert_int_equal(inf_config_parse(&c,
				 "\xef\xbb\xbf[server] # mine\n"
				 "workers = 2 # two\n"
				 "models = /a#b ; where they are\n"
				 "\t[model " FIFTY "x]\n"
				 "pin = yes\r\n"
				 "[model " FIFTY "y] ; not this one\n"
				 "pin = no\n",
				 "f", &error),
		0);
	assert_int_equal(c.workers, 2);
	assert_string_equal(c.models, "/a#b");
	assert_int_equal(c.n_model_sections, 2);
	assert_string_equal(c.model_sections[0].name, FIFTY "x");
	assert_true(c.model_sections[0].pin && !c.model_sections[1].pin);
	inf_config_deinit(&c);
}

static void test_mistakes(void **state)
{
#define TEN  "/234567890"
#define LONG TEN TEN TEN TEN TEN
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "[server]\nworker = 3\n",
			"f:2: unknown key 'worker' in [server]; there are socket, "
			"manager_socket, models, cache, "
			"cache_limit, program_host, program_stop, program_idle, workers, log_level, backends, memory_budget, "
			"keep_alive, drain, stall, dead_queue, spin, age, users, groups, administrators" },
		{ "[limits]\nmetods = 3\n",
			"f:2: unknown key 'metods' in [limits]; there are connections, methods, regions, "
			"bindings, fds, requests, opens, bytes, priority, own_programs" },
		{ "[sever]\nworkers = 3\n", "f:1: unknown section [sever]" },
		{ "workers = 3\n", "f:1: 'workers' stands before any section" },
		{ "[server x]\nworkers = 3\n", "f:1: unknown section [server x]" },
		{ "[server]\nsocket = " TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "12345678\n",
			"f:2: socket: longer than 107 characters" },
		{ "[server]\n\nworkers = three\n", "f:3: workers: 'three' is not a whole number" },
		{ "[server]\nworkers = -1\n", "f:2: workers: '-1' is not a whole number" },
		{ "[server]\nworkers = 3x\n", "f:2: workers: '3x' is not a whole number" },
		{ "[server]\nworkers = 5000\n", "f:2: workers: 5000 is outside 0 ... 1024" },
		{ "[limits]\nrequests = 99999999999999999999\n", "f:2: requests: " },
		{ "[limits]\nbytes = 5X\n", "f:2: bytes: '5X' is not a size" },
		{ "[limits]\nbytes = 99999999999T\n", "f:2: bytes: " },
		{ "[server]\nkeep_alive = soon\n", "f:2: keep_alive: 'soon' is not a time" },
		{ "[server]\nlog_level = loud\n", "f:2: log_level: 'loud' is none of error" },
		{ "[server]\nbackends = ,\n", "f:2: backends: name at least one" },
		{ "[server]\nbackends = gpu, gpu\n", "f:2: backends: 'gpu' appears twice" },
		{ "[model]\npin = yes\n", "f:1: [model] needs a name: [model NAME]" },
		{ "[user]\nweight = 2\n", "f:1: [user] needs a name: [user NAME]" },
		{ "[user x]\nweight = 0\n", "f:2: weight: 0 is outside 1 ... 1000" },
		{ "[user x]\npriority = urgent\n", "f:2: priority: 'urgent' is none of realtime, interactive" },
		{ "[user x]\nown_programs = apart\n", "f:2: own_programs: 'apart' is neither yes nor no" },
		{ "[group]\nweight = 2\n", "f:1: [group] needs a name: [group NAME]" },
		{ "[group x]\nweigth = 2\n", "f:2: unknown key 'weigth' in [group x]; there are connections, " },
		{ "[server]\ndead_queue = soon\n", "f:2: dead_queue: 'soon' is not a time" },
		{ "[server]\nusers = anna, @video\n",
			"f:2: users: '@video': this key takes names without '@'; 'groups' names groups" },
		{ "[server]\nadministrators = @@video\n", "f:2: administrators: '@@video': this key takes" },
		{ "[server]\nadministrators = anna @, b\n", "f:2: administrators: '@' needs the name of a group" },
		{ "[model x]\ngroups = " LONG LONG LONG "\n", "f:2: groups: names have at most 127 characters" },
		{ "[backend]\npath = x\n", "f:1: [backend] needs a name: [backend NAME]" },
		{ "[backend x]\nisolation = none\n", "f:2: isolation: 'none' is neither process nor thread" },
		{ "[backend x]\nbuild_tools = ld\n", "f:2: build_tools: 'ld' is neither yes nor no" },
		{ "[backend x]\nenvironment. = 1\n", "f:2: environment.: '' is no name of a variable" },
		{ "[backend x]\nenvironment.9 = 1\n", "f:2: environment.9: '9' is no name of a variable" },
		{ "[backend x]\nenvironment.A-B = 1\n", "f:2: environment.A-B: 'A-B' is no name of a variable" },
		{ "[backend x]\nenvironment.LD_PRELOAD = 1\n", "f:2: environment.LD_PRELOAD: the variable is read" },
		{ "[backend x]\nmax_crashes = 0\n", "f:2: max_crashes: 0 is outside 1 ... 1000000" },
		{ "[backend x]\nmax_failures = 0\n", "f:2: max_failures: 0 is outside 1 ... 1000" },
		{ "[backend x]\nown_programs = no\n", "f:2: own_programs: 'no' is none of refused, apart, together" },
		{ "[model x]\npin = perhaps\n", "f:2: pin: 'perhaps' is neither yes nor no" },
		{ "[model x]\nprecision = bf16\n", "f:2: unknown key 'precision' in [model x]" },
		{ "[model x]\n.precision = bf16\n", "f:2: unknown key '.precision' in [model x]" },
		{ "[model x]\nopenvino. = bf16\n", "f:2: unknown key 'openvino.' in [model x]" },
		{ "[server]\njust words\n", "f:2: neither 'key = value' nor '[section]'" },
		{ "[server]\njust words\nworker = 3\n", "f:2: neither" },
		{ "[server]\nworker = 3\njust words\n", "f:2: unknown key" },
		{ "[server\n", "f:1: neither" },
		{ "[server]\n[sever]\n", "f:2: unknown section [sever]" }, /* sections without keys, too */
		{ "[model cat]s\n", "f:1: more than a section's name in '[model cat]s'" },
		{ "[ server ]\n", "f:1: unknown section [ server ]" },
		{ "[model " LONG LONG LONG "]\npin = yes\n", "f:1: [model ...]: a name has at most 127 characters" },
		{ "[server]\nsocket =\n", "f:2: socket: it can't be empty" },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		struct inf_config_error e = { "" };
		struct inf_config c;
		inf_config_init(&c);
		assert_int_equal(inf_config_parse(&c, cases[i].text, "f", &e), -EINVAL);
		if (strncmp(e.text, cases[i].says, strlen(cases[i].says)))
			fail_msg("case %zu: '%s', expected '%s'", i, e.text, cases[i].says);
		inf_config_deinit(&c);
	}
}

static void test_long_line(void **state)
{
	char text[4000] = "[server]\nmodels = ";
	struct inf_config_error e;
	struct inf_config c;
	memset(text + strlen(text), 'x', 3000);
	inf_config_init(&c);
	assert_int_equal(inf_config_parse(&c, text, "f", &e), -EINVAL);
	assert_non_null(strstr(e.text, "f:2: a line of more than"));
	inf_config_deinit(&c);
}

/* Names are read one by one, and no list is longer than what fits. */
static void test_names(void **state)
{
	static const char *const names[] = { "anna", "@video", "1000" };
	char name[INF_CONFIG_NAME_MAX];
	struct inf_config_error e;
	struct inf_config c;
	size_t n = 0;
	inf_config_init(&c);
	assert_int_equal(inf_config_parse(&c, "[server]\nadministrators = ,anna,@video , 1000,\n", "f", &e), 0);
	for (const char *at = c.administrators.text; inf_config_next_name(&at, name); n++)
		assert_string_equal(name, names[n]);
	assert_int_equal(n, ET_ARRAY_LEN(names));
	assert_int_equal(inf_config_parse(&c, "[server]\nadministrators = bob\nadministrators =\n", "f", &e), 0);
	assert_string_equal(c.administrators.text, "");
	inf_config_deinit(&c);
}

static bool needs_restart(const char *before, const char *after, char *keys, size_t room)
{
	struct inf_config_error e;
	struct inf_config a, b;
	inf_config_init(&a);
	inf_config_init(&b);
	assert_int_equal(inf_config_parse(&a, before, "a", &e), 0);
	assert_int_equal(inf_config_parse(&b, after, "b", &e), 0);
	keys[0] = '\0';
	bool needs = inf_config_needs_restart(&a, &b, keys, room);
	inf_config_deinit(&a);
	inf_config_deinit(&b);
	return needs;
}

/* The keys that a reload does not apply are named, and no others. */
static void test_restart(void **state)
{
	static const char live[] =
		"[server]\nlog_level = debug\nkeep_alive = 1s\nstall = 1s\ndead_queue = 1s\n"
		"memory_budget = 1G\nusers = a\ngroups = b\nadministrators = c\n[limits]\nbytes = 1G\n"
		"own_programs = no\n[user x]\nweight = 2\n[group x]\nweight = 2\n[model x]\npin = yes\n";
	char keys[200], cut[12];
	assert_false(needs_restart("", "", keys, sizeof(keys)));
	assert_false(needs_restart("", live, keys, sizeof(keys)));
	assert_false(needs_restart("[backend a]\nx = 1\n", "[backend a]\nx = 1\n", keys, sizeof(keys)));
	assert_true(needs_restart("", "[server]\nspin = 0\nsocket = /s\nworkers = 2\n", keys, sizeof(keys)));
	assert_string_equal(keys, "socket, workers, spin");
	assert_true(needs_restart("[server]\nbackends = gpu\n", "[server]\nbackends = gpu, npu\n", keys, sizeof(keys)));
	assert_string_equal(keys, "backends");
	assert_true(needs_restart("[server]\nbackends = gpu, npu\n", "[server]\nbackends = npu, gpu\n", keys,
		sizeof(keys)));
	assert_true(needs_restart("[backend a]\nx = 1\n[backend b]\nx = 1\n[backend c]\nx = 1\n",
		"[backend d]\nx = 1\n[backend c]\nx = 1\n[backend b]\nx = 2\n", keys, sizeof(keys)));
	assert_string_equal(keys, "[backend d], [backend b], [backend a]");
	assert_true(needs_restart("", "[server]\nspin = 0\nage = 0\nsocket = /s\nworkers = 2\n", cut, sizeof(cut)));
	assert_string_equal(cut, "socket, wor");
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void test_drop_ins(void **state)
{
	char folder[] = "/tmp/test_config.XXXXXX", path[64], name[128];
	struct inf_config_error e = { "" };
	struct inf_config c;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/x.conf", folder);
	inf_config_init(&c);
	assert_int_equal(inf_config_load(&c, path, &e), -ENOENT);
	assert_non_null(strstr(e.text, path));

	write_file(path, "[server]\nworkers = 1\nspin = 1us\n");
	snprintf(name, sizeof(name), "%s.d", path);
	assert_int_equal(mkdir(name, 0700), 0);
	snprintf(name, sizeof(name), "%s.d/20.conf", path);
	write_file(name, "[server]\nworkers = 20\n");
	snprintf(name, sizeof(name), "%s.d/10.conf", path);
	write_file(name, "[server]\nworkers = 10\n");
	snprintf(name, sizeof(name), "%s.d/30.conf~", path);
	write_file(name, "nonsense\n");
	assert_int_equal(inf_config_load(&c, path, &e), 0);
	assert_int_equal(c.workers, 20);
	assert_int_equal(c.spin_ns, 1000);
	unlink(name);

	snprintf(name, sizeof(name), "%s.d/30.conf", path);
	write_file(name, "[server]\nworkers = x\n");
	assert_int_equal(inf_config_load(&c, path, &e), -EINVAL);
	strcat(name, ":2: workers");
	assert_non_null(strstr(e.text, name));
	inf_config_deinit(&c);

	static const char *const left[] = { ".d/10.conf", ".d/20.conf", ".d/30.conf" };
	for (size_t i = 0; i < ET_ARRAY_LEN(left); i++) {
		snprintf(name, sizeof(name), "%s%s", path, left[i]);
		unlink(name);
	}
	snprintf(name, sizeof(name), "%s.d", path);
	rmdir(name);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
}

/* The installed inferd.conf: every default that it shows is the real default, and every line parses. */
static void test_example(void **state)
{
	char line[512], text[16384] = "";
	struct inf_config_error e = { "" };
	struct inf_config c, d;
	FILE *file = fopen(example, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		bool is_shown = line[0] == '#' && (line[1] == '[' || (line[1] >= 'a' && line[1] <= 'z'));
		if (is_shown)
			assert_true(strchr(line, '=') || line[1] == '[');
		if (is_shown && strncmp(line, "#[user", 6) == 0)
			break;
		strcat(text, is_shown ? line + 1 : line);
	}
	fclose(file);
	inf_config_init(&c);
	inf_config_init(&d);
	int rc = inf_config_parse(&c, text, "inferd.conf", &e);
	if (rc < 0)
		fail_msg("%s", e.text);
	assert_int_equal(c.limits.given, 2 * INF_LIMIT_BIT_OWN_PROGRAMS - 1); /* every limit is shown */
	c.limits.given = 0;
	assert_memory_equal(&c, &d, sizeof(c));
	inf_config_deinit(&c);
	assert_int_equal(inf_config_load(&d, example, &e), 0);
	inf_config_deinit(&d);
}

/* Whether @text contains @before and then @word as a whole word, within the section that ends at @end. */
static bool has_word(const char *text, const char *end, const char *before, const char *word)
{
	char wanted[64];
	const char *last = strstr(text + 1, end);
	int n = snprintf(wanted, sizeof(wanted), "%s%s", before, word);
	for (const char *at = text; (at = strstr(at, wanted)) && (!last || at < last); at += n)
		if (!isalnum((unsigned char)at[n]) && at[n] != '_')
			return true;
	return false;
}

/* Every key that an error lists as known is in the manual page and in inferd.conf, in its section. */
static void test_documentation(void **state)
{
	static const struct {
		const char *section, *man, *shown;
	} sections[] = { { "server", ".Ss [server]", "[server]" }, { "limits", ".Ss [limits]", "[limits]" },
		{ "user x", ".Ss [user NAME]", "#[user " }, { "group x", ".Ss [group NAME]", "#[group " },
		{ "model x", ".Ss [model NAME]", "#[model " } };
	char *man = text_file_read(manual), *installed = text_file_read(example);
	const char *limits = strstr(man, sections[1].man);
	assert_non_null(limits);
	for (size_t i = 0; i < ET_ARRAY_LEN(sections); i++) {
		char text[64];
		struct inf_config_error e = { "" };
		struct inf_config c;
		bool is_user = i == 2 || i == 3; /* these have the keys of [limits], too */
		const char *in_man = strstr(man, sections[i].man), *in_file = strstr(installed, sections[i].shown);
		assert_non_null(in_man);
		assert_non_null(in_file);
		snprintf(text, sizeof(text), "[%s]\nno_such_key = 1\n", sections[i].section);
		inf_config_init(&c);
		assert_int_equal(inf_config_parse(&c, text, "f", &e), -EINVAL);
		inf_config_deinit(&c);
		char *keys = strstr(e.text, "there are ");
		assert_non_null(keys);
		for (char *rest = keys + 10, *key; (key = strsep(&rest, ", "));) {
			bool is_limit = is_user && has_word(limits, ".Ss ", "Ic ", key);
			if (!*key || !islower((unsigned char)*key) || strcmp(key, "and") == 0)
				continue;
			if (!is_limit && !has_word(in_man, ".Ss ", "Ic ", key))
				fail_msg("inferd.conf(5) lacks %s in [%s]", key, sections[i].section);
			if (!is_limit && !has_word(in_file, "\n[", "\n#", key))
				fail_msg("inferd.conf lacks %s in [%s]", key, sections[i].section);
		}
	}
	free(man);
	free(installed);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_backends),
		cmocka_unit_test(test_model_options),
		cmocka_unit_test(test_sections),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_long_line),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_restart),
		cmocka_unit_test(test_drop_ins),
		cmocka_unit_test(test_example),
		cmocka_unit_test(test_documentation),
	};
	if (argc != 3)
		return 2;
	example = argv[1];
	manual = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
