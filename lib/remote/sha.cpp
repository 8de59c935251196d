#include "remote/sha.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep {

namespace {

constexpr std::array<std::uint32_t, 64> round_constants{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/// The first 16 of them are those of the block, big-endian.
template <std::size_t count>
std::array<std::uint32_t, count> words_of(const std::byte* block) {
  std::array<std::uint32_t, count> words{};
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 4; ++j) words[i] = words[i] << 8 | std::to_integer<std::uint32_t>(block[4 * i + j]);
  return words;
}

void compress_sha1(std::span<std::uint32_t, 5> state, const std::byte* block) {
  auto words = words_of<80>(block);
  for (std::size_t i = 16; i < 80; ++i)
    words[i] = std::rotl(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (std::size_t i = 0; i < 80; ++i) {
    const std::uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                                : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                                : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                         : (b ^ c ^ d) + 0xca62c1d6;
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + words[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const std::array<std::uint32_t, 5> ends{a, b, c, d, e};
  for (std::size_t i = 0; i < 5; ++i) state[i] += ends[i];
}

void compress_sha256(std::span<std::uint32_t, 8> state, const std::byte* block) {
  auto words = words_of<64>(block);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t early = words[i - 15], late = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(early, 7) ^ std::rotr(early, 18) ^ early >> 3) + words[i - 7] +
               (std::rotr(late, 17) ^ std::rotr(late, 19) ^ late >> 10);
  }
  std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
                h = state[7];
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                                round_constants[i] + words[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<std::uint32_t, 8> ends{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += ends[i];
}

}  // namespace

Sha::Sha(ShaKind kind)
    : kind_(kind),
      state_(kind == ShaKind::sha1
                 ? std::vector<std::uint32_t>{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}
                 : std::vector<std::uint32_t>{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                              0x1f83d9ab, 0x5be0cd19}) {}

void Sha::compress(const std::byte* block) {
  if (kind_ == ShaKind::sha1)
    compress_sha1(std::span(state_).first<5>(), block);
  else
    compress_sha256(std::span(state_).first<8>(), block);
}

void Sha::add(std::span<const std::byte> bytes) {
  bytes_ += bytes.size();
  while (!bytes.empty()) {
    if (held_bytes_ == 0 && bytes.size() >= held_.size()) {
      compress(bytes.data());
      bytes = bytes.subspan(held_.size());
      continue;
    }
    const std::size_t count = std::min(bytes.size(), held_.size() - held_bytes_);
    std::memcpy(held_.data() + held_bytes_, bytes.data(), count);
    held_bytes_ += count;
    bytes = bytes.subspan(count);
    if (held_bytes_ == held_.size()) {
      compress(held_.data());
      held_bytes_ = 0;
    }
  }
}

std::string Sha::hex() {
  const std::uint64_t bits = 8 * bytes_;
  const std::byte one{0x80}, zero{0};
  add(std::span(&one, 1));
  while (held_bytes_ != held_.size() - 8) add(std::span(&zero, 1));
  std::array<std::byte, 8> length;
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i) & 0xff);
  add(length);
  std::string digits;
  for (const std::uint32_t word : state_) digits += fmt::format("{:08x}", word);
  return digits;
}

}  // namespace lockstep
