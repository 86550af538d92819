/* SPDX-License-Identifier: BSD-3-Clause */
/* Which XNNPACK and which processor: packed weights are good for no other.
 *
 * XNNPACK chooses among its kernels by what the processor can do, and each kernel wants its weights packed in its own
 * way. The build id that the linker wrote into the library says which build it is. */
#include "delegates/xnnpack/weights/packed_file.h"

#include "delegates/xnnpack/ukernels/gemm.h"
#include "runtime/base/cpu.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xnnpack.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

enum {
	/* Count up whenever weights are packed or named in another way. The comment names the change, so that two
	 * changes that count to the same number conflict when they are merged. */
	FORMAT = 12, /* marks behind filters of windows */
};

struct build {
	uintptr_t address; /* of one of the library's functions */
	uint64_t hash;
	bool is_known;
};

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
	return mix(hash, &number, sizeof(number));
}

/* Look through the ELF notes of one segment. */
static void look_for_build_id(struct build *build, const uint8_t *notes, size_t n_bytes)
{
	while (n_bytes >= sizeof(ElfW(Nhdr))) {
		ElfW(Nhdr) note;
		memcpy(&note, notes, sizeof(note));
		size_t n_name = ((size_t)note.n_namesz + 3) & ~(size_t)3,
		       n_desc = ((size_t)note.n_descsz + 3) & ~(size_t)3, n = sizeof(note) + n_name + n_desc;
		if (n > n_bytes)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			memcmp(notes + sizeof(note), "GNU", 4) == 0 && note.n_descsz) {
			build->hash = mix(build->hash, notes + sizeof(note) + n_name, note.n_descsz);
			build->is_known = true;
		}
		notes += n;
		n_bytes -= n;
	}
}

static int look_at_object(struct dl_phdr_info *info, size_t n_info, void *arg)
{
	struct build *build = arg;
	bool is_this_object = false;
	for (ElfW(Half) i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;
		is_this_object = is_this_object || (segment->p_type == PT_LOAD && build->address >= start &&
							   build->address - start < segment->p_memsz);
	}
	for (ElfW(Half) i = 0; is_this_object && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_NOTE)
			look_for_build_id(build, (const uint8_t *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr),
				segment->p_memsz);
	}
	return is_this_object;
}

static uint64_t hash_processor(uint64_t hash)
{
	struct utsname system;
	if (uname(&system) == 0)
		hash = mix(hash, system.machine, strlen(system.machine));
	hash = mix_number(hash, getauxval(AT_HWCAP));
	hash = mix_number(hash, getauxval(AT_HWCAP2));
	hash = mix_number(hash, (uint64_t)sysconf(_SC_LEVEL1_DCACHE_SIZE));
	hash = mix_number(hash, (uint64_t)sysconf(_SC_LEVEL2_CACHE_SIZE));
	/* Features that are switched off, and what was measured (gemm_choice.c), decide what is packed as well. */
	hash = mix_number(hash, et_cpu_n_builds());
	hash = mix_number(hash, et_xnn_gemm() != NULL);
#if defined(__x86_64__) || defined(__i386__)
	/* Leaf, subleaf, and a mask of the registers (eax, ebx, ecx, edx) that say what the processor is and can do.
	 * ebx of leaf 1 is left out: it names the core. */
	static const unsigned leaves[][3] = { { 1, 0, 13 }, { 7, 0, 15 }, { 7, 1, 15 }, { 13, 0, 1 }, { 13, 1, 1 },
		{ 0x80000001, 0, 12 } };
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
		unsigned numbers[4] = { 0 };
		__get_cpuid_count(leaves[i][0], leaves[i][1], &numbers[0], &numbers[1], &numbers[2], &numbers[3]);
		for (unsigned j = 0; j < 4; j++)
			if (leaves[i][2] & 1U << j)
				hash = mix_number(hash, numbers[j]);
	}
#else
	/* Arm: the kind of each core matters besides its features. Other processors have no such file. */
	for (long i = 0; i < sysconf(_SC_NPROCESSORS_CONF); i++) {
		char path[96], text[32] = "";
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/regs/identification/midr_el1", i);
		FILE *file = fopen(path, "re");
		if (!file)
			break;
		if (fgets(text, sizeof(text), file))
			hash = mix(hash, text, strlen(text));
		fclose(file);
	}
#endif
	return hash;
}

bool et_xnn_machine(char *ret_text, size_t n)
{
	struct build build = { .address = (uintptr_t)&xnn_initialize, .hash = UINT64_C(0xcbf29ce484222325) };
	dl_iterate_phdr(look_at_object, &build);
	if (!build.is_known)
		return false;
	snprintf(ret_text, n, "xnnpack weights, format %d.%zu, library %016llx, processor %016llx", FORMAT,
		sizeof(struct et_xnn_row), (unsigned long long)build.hash,
		(unsigned long long)hash_processor(UINT64_C(0xcbf29ce484222325)));
	return true;
}
