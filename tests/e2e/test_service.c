/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon as systemd starts it: sockets that are passed, readiness, watchdog, reload, and command line options. */
#include "tests/e2e/harness.h"

#include "runtime/base/checked.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Start it with both sockets passed as descriptors 3 and 4. They stay ours too, as they stay systemd's. */
static void start_activated(struct e2e *e, const int sockets[2], const char *watchdog_us, const char *config)
{
	char notify[128], pid[16];
	e2e_listen_for_readiness(e, notify, sizeof(notify));
	e->pid = fork();
	assert_true(e->pid >= 0);
	if (e->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int a = dup(sockets[0]), b = dup(sockets[1]);
		/* clear of 3 and 4, then onto them; dup2 leaves them open across exec */
		if (dup2(dup2(a, 20), 3) != 3 || dup2(dup2(b, 21), 4) != 4)
			_exit(126);
		snprintf(pid, sizeof(pid), "%d", (int)getpid());
		setenv("NOTIFY_SOCKET", notify, 1);
		setenv("LISTEN_PID", pid, 1);
		setenv("LISTEN_FDS", "2", 1);
		setenv("LISTEN_FDNAMES", "inferd:manager", 1);
		if (watchdog_us) {
			setenv("WATCHDOG_USEC", watchdog_us, 1);
			setenv("WATCHDOG_PID", pid, 1);
		}
		close(20);
		close(21);
		execl(e2e_inferd, "inferd", "--config", config, "--models", e->models, "--cache", "", "--log-level",
			"error", (char *)NULL);
		_exit(127);
	}
}

static void make_sockets(struct e2e *e, int sockets[2])
{
	sockets[0] = inf_channel_listen(e->socket, 0600);
	sockets[1] = inf_channel_listen(e->manager, 0600);
	assert_true(sockets[0] >= 0 && sockets[1] >= 0);
}

/* The next message with @word. */
static const char *wait_for(struct e2e *e, const char *word)
{
	static char text[2048];
	do {
		struct pollfd p = { .fd = e->notify_fd, .events = POLLIN };
		if (poll(&p, 1, 30000) != 1)
			fail_msg("the daemon never said %s", word);
		ssize_t n = recv(e->notify_fd, text, sizeof(text) - 1, 0);
		assert_true(n > 0);
		text[n] = '\0';
	} while (!strstr(text, word));
	return text;
}

/* The next status that the daemon tells of itself, once a second. */
static const char *next_status(struct e2e *e)
{
	return wait_for(e, " requests answered");
}

static void check_works(struct e2e *e)
{
	struct inferd *d = e2e_connect(e);
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	int rc;
	assert_true(e2e_infer(b, 8, &rc) == 16 && rc == 0);
	inferd_close(d);
}

static void test_activation(void **state)
{
	int sockets[2];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	make_sockets(&e, sockets);
	/* two lives of the daemon on the same sockets; who connects in between just waits */
	for (int life = 0; life < 2; life++) {
		start_activated(&e, sockets, NULL, "/dev/null");
		wait_for(&e, "READY=1");
		e2e_watch(&e);
		check_works(&e);
		e2e_check_clean(&e);
		assert_int_equal(kill(e.pid, SIGTERM), 0);
		wait_for(&e, "STOPPING=1");
		assert_int_equal(e2e_wait(&e), 0);
		assert_int_equal(access(e.socket, F_OK), 0); /* it is not ours to remove */
	}
	close(sockets[0]);
	close(sockets[1]);
	e2e_deinit(&e);
}

/* Run `inferctl bench` until it fails, which it does when the test stops the daemon. */
static pid_t start_bench(struct e2e *e, const char *reconnect_ms)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		dup2(null, 1);
		dup2(null, 2);
		execl(INFERCTL, "inferctl", "--socket", e->socket, "bench", "--requests", "2000000", "--clients", "2",
			"double", reconnect_ms ? "--reconnect" : NULL, reconnect_ms, (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void wait_for_failure(pid_t pid)
{
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* systemd would start the daemon for a connection to its socket. No client that was there when the daemon was stopped
 * makes one, not even those that wait for the next daemon. */
static void test_stop_is_not_undone(void **state)
{
	int sockets[2], rc;
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	make_sockets(&e, sockets);
	start_activated(&e, sockets, NULL, "/dev/null");
	wait_for(&e, "READY=1");
	e2e_watch(&e);
	struct inferd *d = NULL;
	struct inferd_open_options options = {
		.struct_size = sizeof(options), .socket = e.socket, .reconnect_ms = 100000
	};
	assert_int_equal(inferd_open_with(&d, &options), 0);
	struct inferd_binding *b = e2e_bind(d, "double", NULL);
	pid_t fails = start_bench(&e, NULL), waits = start_bench(&e, "300");
	e2e_until_clients(&e, 5);
	e2e_until_requests(&e, 100);
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_int_equal(e2e_wait(&e), 0);
	wait_for_failure(fails);
	wait_for_failure(waits); /* after 300 ms without a daemon */
	for (int i = 0; i < 20; i++)
		inferd_wait(d, 10);
	struct pollfd p = { .fd = sockets[0], .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0);
	start_activated(&e, sockets, NULL, "/dev/null");
	wait_for(&e, "READY=1");
	e2e_watch(&e);
	assert_true(e2e_infer(b, 8, &rc) == 16 && rc == 0);
	inferd_close(d);
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_int_equal(e2e_wait(&e), 0);
	close(sockets[0]);
	close(sockets[1]);
	e2e_deinit(&e);
}

static void test_watchdog(void **state)
{
	int sockets[2];
	struct e2e e;
	e2e_init(&e);
	make_sockets(&e, sockets);
	start_activated(&e, sockets, "200000", "/dev/null");
	wait_for(&e, "READY=1");
	for (int i = 0; i < 3; i++)
		wait_for(&e, "WATCHDOG=1");
	assert_int_equal(kill(e.pid, SIGHUP), 0);
	wait_for(&e, "RELOADING=1");
	wait_for(&e, "READY=1");
	assert_int_equal(kill(e.pid, SIGINT), 0);
	assert_int_equal(e2e_wait(&e), 0);
	close(sockets[0]);
	close(sockets[1]);
	e2e_deinit(&e);
}

static void write_config(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* A manager that starts applications after the service starts them when the pinned models serve. */
static void test_ready_with_pinned_models(void **state)
{
	char config[128];
	int sockets[2];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "large.pte", e2e_program_large);
	snprintf(config, sizeof(config), "%s/inferd.conf", e.dir);
	write_config(config, "[model large]\npin = yes\nwarm_up = 200\n[model absent]\npin = yes\n");
	make_sockets(&e, sockets);
	start_activated(&e, sockets, NULL, config);
	wait_for(&e, "READY=1");
	e2e_watch(&e);
	e2e_expect_index(&e, "large", "READY", "portable", "");
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_int_equal(e2e_wait(&e), 0);
	close(sockets[0]);
	close(sockets[1]);
	e2e_deinit(&e);
}

/* The service manager waits for a reload to end. It does so with a faulty configuration, too, and nothing changes. */
static void test_faulty_reload(void **state)
{
	char config[128];
	int sockets[2];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	snprintf(config, sizeof(config), "%s/inferd.conf", e.dir);
	write_config(config, "[limits]\nmethods = 1\n");
	make_sockets(&e, sockets);
	start_activated(&e, sockets, NULL, config);
	wait_for(&e, "READY=1");
	write_config(config, "[limits]\nmethods = none\n");
	assert_int_equal(kill(e.pid, SIGHUP), 0);
	wait_for(&e, "RELOADING=1");
	wait_for(&e, "READY=1\nSTATUS=The configuration is faulty and stays as it was: /tmp/");
	/* it stays in the status */
	for (int i = 0; i < 2; i++)
		assert_non_null(strstr(next_status(&e), "inferd.conf:2: methods: 'none' is not a whole number; "));
	check_works(&e);
	write_config(config, "[limits]\nmethods = 0\n");
	assert_int_equal(kill(e.pid, SIGHUP), 0);
	wait_for(&e, "RELOADING=1");
	wait_for(&e, "READY=1\nSTATUS=configuration read again");
	assert_null(strstr(next_status(&e), "faulty"));
	struct inferd *d = e2e_connect(&e);
	struct inferd_method *m;
	assert_int_equal(inferd_method_open(d, &m, "double", NULL), -INFERD_RESOURCE_EXHAUSTED);
	inferd_close(d);
	write_config(config,
		"[limits]\nmethods = 1\n[server]\nspin = 0\nage = 2s\nkeep_alive = 1m\n[backend a]\npath = x\n");
	assert_int_equal(kill(e.pid, SIGHUP), 0);
	wait_for(&e, "READY=1\nSTATUS=Changed, but used only after a restart: spin, age, [backend a]");
	assert_non_null(strstr(next_status(&e),
		"STATUS=Changed, but used only after a restart: spin, age, [backend a]; "));
	assert_int_equal(kill(e.pid, SIGTERM), 0);
	assert_int_equal(e2e_wait(&e), 0);
	close(sockets[0]);
	close(sockets[1]);
	e2e_deinit(&e);
}

/* What it says and how it exits when run so; or, once it has said @last, when told to end. */
static int run_until(const char *const *args, const char *last, char *out, size_t room)
{
	int told[2], status;
	assert_int_equal(pipe(told), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(told[1], 1);
		dup2(told[1], 2);
		execv(e2e_inferd, (char *const *)args);
		_exit(127);
	}
	close(told[1]);
	size_t n = 0;
	for (ssize_t got; n < room - 1 && (got = read(told[0], out + n, room - 1 - n)) > 0;) {
		n += (size_t)got;
		out[n] = '\0';
		if (last && strstr(out, last)) {
			kill(pid, SIGTERM);
			last = NULL;
		}
	}
	out[n] = '\0';
	close(told[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int run(const char *const *args, char *out, size_t room)
{
	return run_until(args, NULL, out, room);
}

static void test_options(void **state)
{
	char out[8192], conf[128], good[128], unknown[128];
	struct e2e e;
	e2e_init(&e);
	snprintf(conf, sizeof(conf), "%s/bad.conf", e.dir);
	snprintf(good, sizeof(good), "%s/good.conf", e.dir);
	snprintf(unknown, sizeof(unknown), "%s/unknown.conf", e.dir);
	write_config(conf, "[server]\nworkers = many\n");
	write_config(good, "[server]\nworkers = 1\n");
	write_config(unknown, "[server]\nbackends = acme, gpu, xnnpack, portable\n");
	const struct {
		const char *args[7];
		int status;
		const char *says;
	} cases[] = {
		{ { "inferd", "--version" }, 0, "inferd 0." },
		{ { "inferd", "--help" }, 0, "--manager-socket PATH" },
		{ { "inferd", "--nonsense" }, 2, "Try 'inferd --help'" },
		{ { "inferd", "nonsense" }, 2, "'nonsense' is not an option" },
		{ { "inferd", "--config", conf }, 1, "bad.conf:2: workers: 'many' is not a whole number" },
		{ { "inferd", "--check", "--config", conf }, 1, "bad.conf:2: workers:" },
		{ { "inferd", "--check", "--config", good }, 0, "" },
		{ { "inferd", "--check", "--config", good, "--workers", "x" }, 2, "--workers: 'x'" },
		{ { "inferd", "--config", unknown, "--socket", "/nonexistent/s" }, 1,
			"backends: no backend is called 'acme'; a plug-in gets its name from its section" },
		{ { "inferd", "--config", "/nonexistent" }, 1,
			"the configuration /nonexistent can't be read: No such file" },
		{ { "inferd", "--socket", "" }, 2, "--socket: it can't be empty" },
		{ { "inferd", "--workers", "x" }, 2, "--workers: 'x' is not a number" },
		{ { "inferd", "--log-level", "loud" }, 2, "--log-level: 'loud'" },
		{ { "inferd", "--socket", "/nonexistent/s", "--cache", "" }, 1,
			"can't listen at /nonexistent/s: No such file or directory; --socket names another" },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		int status = run(cases[i].args, out, sizeof(out));
		if (status != cases[i].status || !strstr(out, cases[i].says))
			fail_msg("case %zu: %d, '%s'", i, status, out);
	}
	e2e_deinit(&e);
}

/* --check says what is named and not there: a warning if the daemon serves without it, else an error. */
static void test_check(void **state)
{
	char out[8192], config[128], text[2048];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	snprintf(config, sizeof(config), "%s/inferd.conf", e.dir);
	const struct {
		const char *text, *says;
		int status;
	} cases[] = {
		{ "users = root\ngroups = root\nadministrators = root, @root\n[model double]\nusers = root\n[user root]\n"
		  "weight = 2\n[group 12345]\nweight = 2\n[user 12345]\nweight = 2\n",
			"", 0 },
		{ "[user no-such-user]\nweight = 2\n", "[user no-such-user]: there is no such user", 0 },
		{ "[group no-such-group]\nweight = 2\n", "[group no-such-group]: there is no such group", 0 },
		{ "users = root, no-such-user\n", "[server] users: there is no user 'no-such-user'; it lets nobody in",
			0 },
		{ "[model double]\ngroups = root, no-such-group\n",
			"[model double] groups: there is no group 'no-such-group'; it lets nobody in", 0 },
		{ "administrators = @no-such-group, root\n",
			"[server] administrators: there is no group 'no-such-group'", 0 },
		{ "[model nowhere]\npin = yes\n", "[model nowhere]: there is no such model in /tmp/", 0 },
		{ "[model double]\nbackend = acme\n", "[model double] backend: no backend is called 'acme'", 0 },
		{ "backends = acme, portable\n", "[server] backends: no backend is called 'acme'", 0 },
		{ "models = /nonexistent\n", "[server] models: /nonexistent: No such file or directory", 0 },
		{ "cache = /nonexistent\n", "[server] cache: /nonexistent: No such file or directory", 0 },
		{ "cache = /dev/null\n", "[server] cache: /dev/null: Not a directory", 0 },
		{ "users = no-such-user\n", "[server] users, groups: none of these exists", 1 },
		{ "administrators = no-such-user\n", "[server] administrators: none of these exists", 1 },
		{ "[model double]\ngroups = no-such-group\n", "[model double] users, groups: none of these exists", 1 },
		{ "program_host = /nonexistent\n", "[server] program_host: /nonexistent: No such file", 1 },
		{ "[backend acme]\npath = /nonexistent.so\n", "[backend acme] path: /nonexistent.so: No such file", 1 },
		{ "[backend acme]\npath = /\n", "[backend acme] path: /: Is a directory", 1 },
		{ "[backend acme]\nhost = /etc/passwd\n", "[backend acme] host: /etc/passwd: Permission denied", 1 },
	};
	for (size_t i = 0; i < ET_ARRAY_LEN(cases); i++) {
		snprintf(text, sizeof(text), "[server]\nmodels = %s\ncache =\n%s", e.models, cases[i].text);
		write_config(config, text);
		const char *const args[] = { "inferd", "--check", "--config", config, NULL };
		int status = run(args, out, sizeof(out));
		if (status != cases[i].status || !strstr(out, cases[i].says) || (!*cases[i].says && *out))
			fail_msg("'%s': %d, '%s'", cases[i].text, status, out);
	}
	e2e_deinit(&e);
}

/* Nothing keeps it from running, but it says what clients will not find. */
static void test_mistakes_that_do_not_matter(void **state)
{
	char out[8192], config[128];
	struct e2e e;
	e2e_init(&e);
	snprintf(config, sizeof(config), "%s/inferd.conf", e.dir);
	write_config(config, "[user 4294967296]\nconnections = 0\n[model cat]\nbackend = acme\n");
	const char *args[] = { "inferd", "--config", config, "--socket", e.socket, "--cache", "", "--models",
		"/nonexistent/models", NULL };
	assert_int_equal(run_until(args, "names another folder", out, sizeof(out)), 0);
	assert_non_null(strstr(out, "find no model: /nonexistent/models: No such file or directory"));
	/* not user 0, as that number cut to a uid's size would be */
	assert_non_null(strstr(out, "[user 4294967296]: there is no such user"));
	assert_non_null(strstr(out, "model cat: it can't be loaded: its section asks for backend 'acme'"));
	args[8] = e.models;
	assert_int_equal(run_until(args, "no model yet in", out, sizeof(out)), 0);
	e2e_deinit(&e);
}

/* A second daemon on a socket where one answers does not take it away. */
static void test_two(void **state)
{
	char out[4096];
	struct e2e e;
	e2e_init(&e);
	e2e_put_program(&e, "double.pte", e2e_program_double);
	e2e_start(&e, NULL);
	const char *const args[] = { "inferd", "--socket", e.socket, "--cache", "", NULL };
	assert_int_equal(run(args, out, sizeof(out)), 1);
	assert_non_null(strstr(out, "another daemon answers there"));
	check_works(&e);
	e2e_deinit(&e);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_activation),
		cmocka_unit_test(test_stop_is_not_undone),
		cmocka_unit_test(test_watchdog),
		cmocka_unit_test(test_ready_with_pinned_models),
		cmocka_unit_test(test_faulty_reload),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_mistakes_that_do_not_matter),
		cmocka_unit_test(test_two),
	};
	return e2e_main(argc, argv, tests, ET_ARRAY_LEN(tests));
}
