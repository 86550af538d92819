/* SPDX-License-Identifier: BSD-3-Clause */
/* The sandbox of a host process. Entering it needs no privileges, and there is no way back.
 *
 *   no_new_privs  the process can't gain rights by running a program
 *   Landlock      files: read everything, write only the cache folder and device nodes; no TCP
 *   seccomp       no sockets, programs, new processes, mounts, modules or kernel internals; no calls on other processes
 *   limits        no core files, few descriptors
 *
 * The strict sandbox is for a process that runs whole programs of a client. Its code is inferd's own, so it is known
 * which calls it needs, and more is denied: see et_sandbox_enter_strict.
 *
 * A process that compiles may be allowed its tools, see et_sandbox_enter_with_tools: PoCL, for one, has its kernels
 * linked by ld.
 *
 * The seccomp filter lists what is denied (EPERM), not what is allowed. inferd can't know which calls and ioctls a
 * vendor's library and its driver need, and a library that breaks on a denied call costs more than the last bit of
 * safety gains. The library may start threads but no processes: the filter checks the flags of clone. Those of
 * clone3 lie in memory, which a filter can't read, so clone3 answers ENOSYS, and the C library falls back to clone.
 *
 * All hosts and inferd run as one user, so the kernel lets each of them signal, limit and slow down the others;
 * Landlock restricts only signals, and only since ABI 6. So calls that name a process are allowed only with 0 or
 * this process's own number. The filter can't tell a thread's number from another process's: a library that pins
 * its threads or changes their priority has to do so from the thread itself, with 0.
 *
 * Each part is tried by itself. A part that an old kernel lacks is reported, and the host runs without it. The
 * Landlock structs are declared here, since the installed headers may be older than the kernel. */
#include "delegates/plugin/host/sandbox.h"
#include "delegates/plugin/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define N_ITEMS(array) (sizeof(array) / sizeof((array)[0]))

/* --- files ---------------------------------------------------------------------------------------- */

/* Kernel: include/uapi/linux/landlock.h, ABI 1 to 6. */
struct ruleset_attr {
	uint64_t handled_access_fs, handled_access_net, scoped;
};
struct path_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));
enum {
	CALL_CREATE_RULESET = 444, /* the same number on every machine */
	CALL_ADD_RULE = 445,
	CALL_RESTRICT_SELF = 446,
	RULE_PATH_BENEATH = 1,
	VERSION_QUESTION = 1,
};
enum {
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_ALL_1 = (1 << 13) - 1,
	FS_REFER = 1 << 13,     /* ABI 2 */
	FS_TRUNCATE = 1 << 14,  /* ABI 3 */
	FS_IOCTL_DEV = 1 << 15, /* ABI 5 */
	NET_ALL = 3,            /* ABI 4: bind and connect TCP */
	SCOPE_ALL = 3,          /* ABI 6: abstract sockets, signals */
};

static void allow(int ruleset, const char *path, uint64_t access, uint64_t handled)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode))
		access &= FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
	struct path_attr attr = { access & handled, fd };
	syscall(CALL_ADD_RULE, ruleset, RULE_PATH_BENEATH, &attr, 0);
	close(fd);
}

enum kind { USUAL, WITH_TOOLS, STRICT };

/* What a process WITH_TOOLS may execute: the linker and the program that loads it. */
static const char *const tools[] = { "/usr/bin/ld", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1" };

static int restrict_files(const char *cache_dir, enum kind kind)
{
	static const char *const devices[] = { "/dev/dri", "/dev/accel", "/dev/ethosu0", "/dev/dma_heap", "/dev/kfd",
		"/dev/apusys", "/dev/neutron0", "/dev/adsprpc-smd", "/dev/fastrpc-cdsp", "/dev/fastrpc-cdsp-secure",
		"/dev/mali0", "/dev/kgsl-3d0", "/dev/galcore", "/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm",
		"/dev/hailo0", "/dev/apex_0", "/dev/null", "/dev/zero", "/dev/shm" };
	long abi = syscall(CALL_CREATE_RULESET, NULL, 0, VERSION_QUESTION);
	if (abi < 1)
		return -1;
	struct ruleset_attr attr = { .handled_access_fs = FS_ALL_1 };
	attr.handled_access_fs |= (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0) |
				  (abi >= 5 ? FS_IOCTL_DEV : 0);
	attr.handled_access_net = abi >= 4 ? NET_ALL : 0;
	attr.scoped = abi >= 6 ? SCOPE_ALL : 0;
	size_t n_bytes = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
	int ruleset = (int)syscall(CALL_CREATE_RULESET, &attr, n_bytes, 0);
	if (ruleset < 0)
		return -1;
	uint64_t execute = kind == WITH_TOOLS ? 0 : FS_EXECUTE; /* else the system calls are denied */
	if (kind != STRICT)
		allow(ruleset, "/", execute | FS_READ_FILE | FS_READ_DIR, attr.handled_access_fs);
	for (size_t i = 0; i < N_ITEMS(tools) && kind == WITH_TOOLS; i++)
		allow(ruleset, tools[i], FS_EXECUTE | FS_READ_FILE, attr.handled_access_fs);
	for (size_t i = 0; i < N_ITEMS(devices) && kind != STRICT; i++)
		allow(ruleset, devices[i], FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_IOCTL_DEV,
			attr.handled_access_fs);
	if (cache_dir)
		allow(ruleset, cache_dir, attr.handled_access_fs & ~(uint64_t)(kind == WITH_TOOLS ? FS_EXECUTE : 0),
			attr.handled_access_fs);
	int rc = (int)syscall(CALL_RESTRICT_SELF, ruleset, 0);
	close(ruleset);
	return rc;
}

/* --- system calls --------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#ifdef MACHINE
static const uint32_t denied[] = {
	/* network, and sockets of any kind but the pairs a library may make for itself */
	SYS_socket,
	SYS_connect,
	SYS_bind,
	SYS_listen,
	SYS_accept,
	SYS_accept4,
	/* programs and other processes; execve and vfork are in the list after this one */
	SYS_execveat,
	SYS_ptrace,
	SYS_process_vm_readv,
	SYS_process_vm_writev,
	SYS_setns,
	SYS_unshare,
	SYS_kcmp,
	SYS_personality,
#ifdef SYS_fork
	SYS_fork,
#endif
	424 /* pidfd_send_signal */,
	434 /* pidfd_open */,
	438 /* pidfd_getfd */,
	440 /* process_madvise */,
	448 /* process_mrelease */,
	/* the file system's shape */
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	SYS_swapon,
	SYS_swapoff,
	SYS_name_to_handle_at,
	SYS_open_by_handle_at,
	SYS_quotactl,
	428,
	429,
	430,
	431,
	432,
	433 /* open_tree to fspick */,
	442,
	443,
	/* the kernel's own */
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_kexec_file_load,
	SYS_reboot,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_userfaultfd,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_acct,
	SYS_syslog,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_clock_adjtime,
	SYS_adjtimex,
	SYS_sethostname,
	SYS_setdomainname,
	425,
	426,
	427 /* io_uring */,
	/* other users */
	SYS_setuid,
	SYS_setgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setgroups,
#ifdef SYS_iopl
	SYS_iopl,
	SYS_ioperm,
#endif
};

/* What starts a program. */
static const uint32_t starting[] = {
	SYS_execve,
#ifdef SYS_vfork
	SYS_vfork,
#endif
};

/* What the strict sandbox denies, too. The kernel may lack Landlock, so no file can be opened or changed by name. */
static const uint32_t denied_strictly[] = {
#ifdef SYS_open
	SYS_open,
	SYS_creat,
	SYS_link,
	SYS_symlink,
	SYS_unlink,
	SYS_rename,
	SYS_mkdir,
	SYS_rmdir,
	SYS_mknod,
	SYS_chmod,
	SYS_chown,
	SYS_lchown,
	SYS_readlink,
	SYS_pipe,
	SYS_inotify_init,
#endif
	SYS_openat,
	437 /* openat2 */,
	SYS_linkat,
	SYS_symlinkat,
	SYS_unlinkat,
	SYS_renameat2,
	SYS_mkdirat,
	SYS_mknodat,
	SYS_fchmodat,
	SYS_fchownat,
	SYS_readlinkat,
	SYS_utimensat,
	SYS_truncate,
	SYS_setxattr,
	SYS_removexattr,
	SYS_inotify_init1,
	SYS_fanotify_init,
	/* files and memory that others could be given, and the size of those that were received */
	SYS_memfd_create,
	447 /* memfd_secret */,
	SYS_ftruncate,
	SYS_fallocate,
	SYS_shmget,
	SYS_shmat,
	SYS_shmctl,
	SYS_semget,
	SYS_msgget,
	SYS_mq_open,
	SYS_socketpair,
	SYS_pipe2,
	SYS_io_setup,
	453 /* map_shadow_stack */,
	/* devices, limits, code */
	SYS_ioctl,
	SYS_setrlimit,
	SYS_pkey_mprotect,
	SYS_mlock,
	SYS_mlock2,
	SYS_mlockall,
};

/* Calls with a protection in their third argument. */
static const uint32_t protecting[] = { SYS_mmap, SYS_mprotect };

/* Calls that name a process: which argument is its number, whether 0 stands for the caller, and which value the
 * first argument must have, too (ANY: any). */
enum { ANY = -1, ONE_PROCESS = 0, IO_ONE_PROCESS = 1 }; /* PRIO_PROCESS, IOPRIO_WHO_PROCESS */
static const struct process_call {
	uint32_t call;
	int8_t at, has_zero, first;
} process_calls[] = {
	/* glibc's abort and pthread_kill are tgkill */
	{ SYS_kill, 0, false, ANY },
	{ SYS_tkill, 0, false, ANY },
	{ SYS_tgkill, 0, false, ANY },
	{ SYS_rt_sigqueueinfo, 0, false, ANY },
	{ SYS_rt_tgsigqueueinfo, 0, false, ANY },
	{ SYS_prlimit64, 0, true, ANY },
	{ SYS_sched_setaffinity, 0, true, ANY },
	{ SYS_sched_setscheduler, 0, true, ANY },
	{ SYS_sched_setparam, 0, true, ANY },
	{ SYS_sched_setattr, 0, true, ANY },
	{ SYS_setpriority, 1, true, ONE_PROCESS },
	{ SYS_ioprio_set, 1, true, IO_ONE_PROCESS },
	{ SYS_migrate_pages, 0, true, ANY },
	{ SYS_move_pages, 0, true, ANY },
};

/* Commands, in the second argument, that make a descriptor send signals to any process. */
static const struct command {
	uint32_t call, command;
} signal_commands[] = {
	{ SYS_fcntl, F_SETOWN },
	{ SYS_fcntl, F_SETOWN_EX },
	{ SYS_fcntl, F_SETSIG },
	{ SYS_ioctl, FIOSETOWN },
	{ SYS_ioctl, SIOCSPGRP },
};

/* The offset of the low 32 bits of an argument. Process numbers and commands are ints: the kernel ignores the rest. */
static uint32_t low_half_of(unsigned arg)
{
	return (uint32_t)(offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t) +
			  (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 4));
}

static uint32_t high_half_of(unsigned arg)
{
	return low_half_of(arg) ^ 4;
}

static int filter_calls(enum kind kind)
{
	enum { N_HEAD = 4, N_CLONE = 7, N_DENIED = N_ITEMS(denied), N_STRICT = N_ITEMS(denied_strictly) };
	bool is_strict = kind == STRICT;
	struct sock_filter code[N_HEAD + N_CLONE + 2 * (N_DENIED + N_ITEMS(starting) + N_STRICT) +
				5 * N_ITEMS(protecting) + 14 + 8 * N_ITEMS(process_calls) +
				5 * N_ITEMS(signal_commands) + 3];
	size_t n = 0;
	const uint32_t number = offsetof(struct seccomp_data, nr), machine = offsetof(struct seccomp_data, arch);
#define EMIT(...) code[n++] = (struct sock_filter)__VA_ARGS__
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, machine));
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number));
	/* clone only for threads, or as posix_spawn does; the flags are the low half of the first argument */
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
	EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half_of(0)));
	EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD | (kind == WITH_TOOLS ? CLONE_VFORK : 0), 0, 1));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 435 /* clone3 */, 0, 1));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS));
	for (size_t i = 0; i < N_DENIED; i++) {
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i], 0, 1));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	}
	for (size_t i = 0; i < N_ITEMS(starting) && kind != WITH_TOOLS; i++) {
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, starting[i], 0, 1));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	}
	for (size_t i = 0; i < N_STRICT && is_strict; i++) {
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied_strictly[i], 0, 1));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	}
	if (is_strict) { /* no memory that RLIMIT_DATA does not count: shared without a file, or a growing stack */
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 6));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half_of(3)));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_GROWSDOWN, 2, 0));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 2)); /* also in MAP_SHARED_VALIDATE */
		EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number));
	}
	for (size_t i = 0; i < N_ITEMS(protecting) && is_strict; i++) {
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, protecting[i], 0, 4));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half_of(2)));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	}
	if (is_strict) { /* limits may be asked for, not changed: the new limit's address is NULL */
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 6));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half_of(2)));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, high_half_of(2)));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number));
	}
	for (size_t i = 0; i < N_ITEMS(process_calls); i++) {
		const struct process_call *process_call = &process_calls[i];
		uint8_t n_first = process_call->first == ANY ? 0 : 2, n_zero = process_call->has_zero ? 1 : 0;
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, process_call->call, 0, (uint8_t)(n_first + n_zero + 4)));
		if (n_first) {
			EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half_of(0)));
			EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)process_call->first, 0,
				(uint8_t)(n_zero + 2)));
		}
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half_of((unsigned)process_call->at)));
		if (n_zero)
			EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)getpid(), 1, 0));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	}
	for (size_t i = 0; i < N_ITEMS(signal_commands); i++) {
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, signal_commands[i].call, 0, 4));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half_of(1)));
		EMIT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, signal_commands[i].command, 0, 1));
		EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
		EMIT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number));
	}
#ifdef __x86_64__
	/* x32 calls: the same machine with other numbers */
	EMIT(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1));
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
#endif
	EMIT(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
#undef EMIT
	struct sock_fprog program = { (unsigned short)n, code };
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}
#else
static int filter_calls(enum kind kind)
{
	return -1;
}
#endif

static int set_limits(bool is_strict)
{
	const struct rlimit none = { 0, 0 }, files = { ET_PLUGIN_MAX_FILES, ET_PLUGIN_MAX_FILES };
	if (is_strict && (signal(SIGXFSZ, SIG_IGN) == SIG_ERR || setrlimit(RLIMIT_FSIZE, &none) < 0 ||
				 setrlimit(RLIMIT_MEMLOCK, &none) < 0))
		return -1;
	return setrlimit(RLIMIT_CORE, &none) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ? -1 : 0;
}

static unsigned enter(const char *cache_dir, enum kind kind)
{
	unsigned parts = 0;
	if (set_limits(kind == STRICT) == 0)
		parts |= ET_SANDBOX_LIMITS;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return parts;
	parts |= ET_SANDBOX_NO_NEW_PRIVS;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (restrict_files(cache_dir, kind) == 0)
		parts |= ET_SANDBOX_FILES;
	if (filter_calls(kind) == 0)
		parts |= ET_SANDBOX_CALLS;
	return parts;
}

unsigned et_sandbox_enter(const char *cache_dir)
{
	return enter(cache_dir, USUAL);
}

unsigned et_sandbox_enter_with_tools(const char *cache_dir)
{
	return enter(cache_dir, WITH_TOOLS);
}

unsigned et_sandbox_enter_strict(void)
{
	return enter(NULL, STRICT);
}

int et_sandbox_limit_memory(uint64_t n_bytes)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_DATA, &limit) < 0)
		return -errno;
	limit.rlim_cur = n_bytes < limit.rlim_max ? n_bytes : limit.rlim_max;
	return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
}
