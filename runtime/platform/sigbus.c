/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGBUS inside memory that another process can take away.
 *
 * A mapped file can lose pages: it is truncated, a hole cannot be filled because the file system is full, a disk fails.
 * The next access raises SIGBUS. If the memory is in the table below, the handler puts zeroed private pages in place of
 * the whole mapping, notes the fault and returns. The thread continues with zeros, and the code that ran the job asks
 * afterwards. Any other SIGBUS gets the action that was installed before.
 *
 * What must always be true: the handler takes no lock, allocates nothing and reads only atomics, since it may interrupt
 * any code, this file included. So blocks of the table are only ever added. An entry is found by its start, which is
 * written last when the entry is made and cleared first when it is removed. A reader that sees the same start before
 * and after it read the rest has seen one consistent entry.
 *
 * The faulting thread uses the mapping, so it holds a reference on it, so its entry cannot be removed meanwhile. */
#include "runtime/platform/sigbus_internal.h"

#include "runtime/platform/platform.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES_PER_BLOCK = 512, MAX_BLOCKS = 256 };

struct entry {
	_Atomic(uintptr_t) start; /* 0: free; 1: being made */
	_Atomic(size_t) n_bytes;
	_Atomic(bool) is_writable;
	_Atomic(bool) faulted;
};
_Static_assert(ATOMIC_POINTER_LOCK_FREE == 2, "the handler must not take a lock");

struct block {
	struct entry entries[ENTRIES_PER_BLOCK];
};
static struct block first; /* the first block is enough for most processes */
static _Atomic(struct block *) blocks[MAX_BLOCKS] = { &first };
static struct sigaction previous;

static struct entry *entry_at(int index)
{
	/* acquire: pairs with the exchange that published the block */
	struct block *block = atomic_load_explicit(&blocks[index / ENTRIES_PER_BLOCK], memory_order_acquire);
	return &block->entries[index % ENTRIES_PER_BLOCK];
}

/* The block with entry @index, made if necessary. NULL: no memory. */
static struct block *block_get(int index)
{
	struct block *block = atomic_load_explicit(&blocks[index], memory_order_acquire);
	if (block)
		return block;
	struct block *fresh = mmap(NULL, sizeof *fresh, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fresh == MAP_FAILED)
		return NULL;
	if (atomic_compare_exchange_strong(&blocks[index], &block, fresh))
		return fresh;
	munmap(fresh, sizeof *fresh); /* another thread was faster */
	return block;
}

int et_sigbus_guard_add(void *start, size_t n_bytes, bool is_writable)
{
	for (int b = 0; b < MAX_BLOCKS; b++) {
		struct block *block = block_get(b);
		if (!block)
			return -ENOMEM;
		for (int i = 0; i < ENTRIES_PER_BLOCK; i++) {
			struct entry *entry = &block->entries[i];
			uintptr_t free = 0;
			if (atomic_load_explicit(&entry->start, memory_order_relaxed) != 0 ||
				!atomic_compare_exchange_strong(&entry->start, &free, 1))
				continue;
			atomic_store(&entry->n_bytes, n_bytes);
			atomic_store(&entry->is_writable, is_writable);
			atomic_store(&entry->faulted, false);
			/* release: pairs with the handler's load; the entry is complete */
			atomic_store_explicit(&entry->start, (uintptr_t)start, memory_order_release);
			return b * ENTRIES_PER_BLOCK + i;
		}
	}
	return -ENOMEM;
}

void et_sigbus_guard_remove(int index)
{
	if (index >= 0)
		atomic_store(&entry_at(index)->start, 0);
}

bool et_sigbus_guard_faulted(int index)
{
	return index >= 0 && atomic_load(&entry_at(index)->faulted);
}

/* Whether @address was in a guarded mapping and is readable now. */
static bool forgive(uintptr_t address)
{
	for (int b = 0; b < MAX_BLOCKS; b++) {
		struct block *block = atomic_load_explicit(&blocks[b], memory_order_acquire);
		if (!block)
			return false;
		for (int i = 0; i < ENTRIES_PER_BLOCK; i++) {
			struct entry *entry = &block->entries[i];
			/* acquire: pairs with the release in et_sigbus_guard_add */
			uintptr_t start = atomic_load_explicit(&entry->start, memory_order_acquire);
			size_t n_bytes = atomic_load(&entry->n_bytes);
			bool is_writable = atomic_load(&entry->is_writable);
			if (start <= 1 || address < start || address - start >= n_bytes ||
				atomic_load(&entry->start) != start)
				continue;
			/* Another thread is repairing it: return to the access, which faults again until the pages
			 * are there. */
			if (atomic_exchange(&entry->faulted, true))
				return true;
			/* MAP_NORESERVE: otherwise a mapping larger than the memory is refused. The raw system call:
			 * the C library's mmap may be a sanitizer's, and is not guaranteed to be safe in a signal
			 * handler. */
			return syscall(SYS_mmap, start, n_bytes, PROT_READ | (is_writable ? PROT_WRITE : 0),
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != -1;
		}
	}
	return false;
}

static void on_sigbus(int signal, siginfo_t *info, void *instance)
{
	int saved_errno = errno;
	bool is_fault = info->si_code > 0; /* otherwise a process sent it with kill */
	if (!is_fault || !forgive((uintptr_t)info->si_addr)) {
		/* Not a guarded mapping. A faulting access repeats when we return, now under the earlier action; a
		 * sent signal must be sent again. */
		sigaction(SIGBUS, &previous, NULL);
		if (!is_fault)
			raise(SIGBUS);
	}
	errno = saved_errno;
}

void et_platform_install_sigbus_guard(void)
{
	struct sigaction current;
	if (sigaction(SIGBUS, NULL, &current) == 0 && current.sa_sigaction == on_sigbus)
		return;
	struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &previous);
}
