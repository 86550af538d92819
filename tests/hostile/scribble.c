/* SPDX-License-Identifier: BSD-3-Clause */
/* Changes shared memory as fast as it can, until it is killed.
 *
 *     scribble FD N_BYTES SEED [OFFSET:N_BYTES]...
 *
 * Three of four writes go to one of the places, which are the inputs that a run should read only once; the others
 * anywhere. Words that a reader may have checked take turns with words that it would have refused: small indices,
 * lengths and floats; -1, large numbers, NaN. A run that reads an index twice gets two different ones. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_PLACES = 64 };

struct place {
	size_t at, n_bytes;
};

/* False: it is not within the memory, or has no room for a word. */
static bool parse_place(struct place *ret_place, const char *text, size_t n_bytes)
{
	char *end;
	ret_place->at = strtoul(text, &end, 10) / sizeof(uint64_t) * sizeof(uint64_t);
	ret_place->n_bytes = *end == ':' ? strtoul(end + 1, NULL, 10) : 0;
	/* a shorter input has the word that it lies in: the next one begins 64 bytes later */
	if (ret_place->n_bytes < sizeof(uint64_t))
		ret_place->n_bytes = sizeof(uint64_t);
	return ret_place->at <= n_bytes && ret_place->n_bytes <= n_bytes - ret_place->at;
}

int main(int argc, char **argv)
{
	static const uint64_t words[] = { 0, 1, 2, 7, UINT64_MAX, 0x7fffffffffffffff, 1, 0x8000000000000000, 0,
		0x7fc000007fc00000, 3, 1ull << 40, 0xff, 0x3f8000003f800000, 5, 0xffffffff };
	enum { N_WORDS = sizeof(words) / sizeof(words[0]) };
	struct place places[MAX_PLACES];
	if (argc < 4)
		return 2;
	size_t n_bytes = strtoul(argv[2], NULL, 10), n_places = 0;
	uint64_t random = strtoul(argv[3], NULL, 10) * 2 + 1;
	uint8_t *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)strtol(argv[1], NULL, 10), 0);
	if (memory == MAP_FAILED || n_bytes < sizeof(uint64_t))
		return 2;
	for (int i = 4; i < argc && n_places < MAX_PLACES; i++)
		if (!parse_place(&places[n_places++], argv[i], n_bytes))
			return 2;
	for (;;) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		struct place place = { 0, n_bytes };
		if (n_places && random >> 62)
			place = places[(random >> 40) % n_places];
		size_t at = place.at + (size_t)(random >> 16) % (place.n_bytes / sizeof(uint64_t)) * sizeof(uint64_t);
		for (int i = 0; i < 64; i++) {
			__atomic_store_n((uint64_t *)(memory + at), words[(random >> 8) % N_WORDS], __ATOMIC_RELAXED);
			__atomic_store_n((uint64_t *)(memory + at), words[(random >> 12) % N_WORDS], __ATOMIC_RELAXED);
		}
	}
}
