/* SHA-256 in plain C, after FIPS 180-4.
 *
 * It runs once for a file that was never seen before, when the model is served already, so it need not be fast; and
 * it saves a library on every gateway. */
#include "runtime/host/sha256.h"

#include <string.h>

static const uint32_t first[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
	0x1f83d9ab, 0x5be0cd19 };

static const uint32_t constants[64] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b,
	0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
	0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3,
	0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354,
	0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
	0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
	0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa,
	0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };

static uint32_t turn(uint32_t word, unsigned n)
{
	return word >> n | word << (32 - n);
}

static void add_block(uint32_t state[8], const uint8_t *block)
{
	uint32_t w[64], s[8];
	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (unsigned i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
		       (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
	}
	memcpy(s, state, sizeof(s));
	for (unsigned i = 0; i < 64; i++) {
		uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
			       ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + w[i];
		uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
			       ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += one;
		s[0] = one + two;
	}
	for (unsigned i = 0; i < 8; i++)
		state[i] += s[i];
}

void et_sha256_init(struct et_sha256 *sha)
{
	*sha = (struct et_sha256){ 0 };
	memcpy(sha->state, first, sizeof(first));
}

void et_sha256_add(struct et_sha256 *sha, const void *bytes, size_t n_bytes)
{
	const uint8_t *from = bytes;
	size_t n_waiting = sha->n_bytes % sizeof(sha->block);
	sha->n_bytes += n_bytes;
	if (n_waiting) {
		size_t n = sizeof(sha->block) - n_waiting;
		n = n < n_bytes ? n : n_bytes;
		memcpy(sha->block + n_waiting, from, n);
		from += n;
		n_bytes -= n;
		if (n_waiting + n < sizeof(sha->block))
			return;
		add_block(sha->state, sha->block);
	}
	for (; n_bytes >= sizeof(sha->block); from += sizeof(sha->block), n_bytes -= sizeof(sha->block))
		add_block(sha->state, from);
	if (n_bytes)
		memcpy(sha->block, from, n_bytes);
}

void et_sha256_end(struct et_sha256 *sha, uint8_t ret_digest[ET_SHA256_BYTES])
{
	static const uint8_t padding[64] = { 0x80 };
	uint64_t n_bits = sha->n_bytes * 8;
	uint8_t length[8];
	size_t n_waiting = sha->n_bytes % sizeof(sha->block);
	for (unsigned i = 0; i < 8; i++)
		length[i] = (uint8_t)(n_bits >> (56 - 8 * i));
	et_sha256_add(sha, padding, (n_waiting < 56 ? 56 : 120) - n_waiting);
	et_sha256_add(sha, length, sizeof(length));
	for (unsigned i = 0; i < ET_SHA256_BYTES; i++)
		ret_digest[i] = (uint8_t)(sha->state[i / 4] >> (24 - i % 4 * 8));
}
