/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes shared memory as fast as it can, until it is killed.
 *
 *     scribble FD N_BYTES SEED
 *
 * Words that a reader may have checked take turns with words that it would have refused: small indices, lengths and
 * floats; -1, large numbers, NaN. A run that reads an index twice gets two different ones. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	static const uint64_t words[] = { 0, 1, 2, 7, UINT64_MAX, 0x7fffffffffffffff, 1, 0x8000000000000000, 0,
		0x7fc000007fc00000, 3, 1ull << 40, 0xff, 0x3f8000003f800000, 5, 0xffffffff };
	enum { N_WORDS = sizeof(words) / sizeof(words[0]) };
	if (argc != 4)
		return 2;
	size_t n_bytes = strtoul(argv[2], NULL, 10);
	uint64_t random = strtoul(argv[3], NULL, 10) * 2 + 1;
	uint8_t *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)strtol(argv[1], NULL, 10), 0);
	if (memory == MAP_FAILED || n_bytes < sizeof(uint64_t))
		return 2;
	for (;;) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		/* mostly the begin, where the first input lies */
		size_t room = random >> 63 && n_bytes > 4096 ? 4096 : n_bytes;
		size_t at = (size_t)(random >> 20) % (room / sizeof(uint64_t)) * sizeof(uint64_t);
		for (int i = 0; i < 64; i++) {
			__atomic_store_n((uint64_t *)(memory + at), words[(random >> 8) % N_WORDS], __ATOMIC_RELAXED);
			__atomic_store_n((uint64_t *)(memory + at), words[(random >> 12) % N_WORDS], __ATOMIC_RELAXED);
		}
	}
}
