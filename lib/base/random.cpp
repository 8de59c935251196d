#include "base/random.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"

#include <sys/random.h>

#include <bit>
#include <cmath>
#include <numbers>

namespace lockstep {

std::string make_uuid() {
  std::array<std::uint64_t, 2> bits{};
  if (::getrandom(bits.data(), sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    fail_errno("draw random bits from", "the system");
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t second = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(second),
               static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

namespace {
std::array<std::uint32_t, 2> halves(std::uint64_t value) {
  return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}
std::uint64_t joined(std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; }
double unit(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
}  // namespace

RandomStream::RandomStream(std::uint64_t seed, std::string_view name)
    : key_(halves(seed)), salt_(halves(hash128(name).low)) {}

std::array<std::uint32_t, 4> RandomStream::block(std::uint64_t index) const {
  const auto [low, high] = halves(index);
  return philox({low, high, salt_[0], salt_[1]}, key_);
}

std::uint64_t RandomStream::bits(std::uint64_t index) const {
  const auto words = block(index);
  return joined(words[0], words[1]);
}

double RandomStream::uniform(std::uint64_t index) const { return unit(bits(index)); }

double RandomStream::normal(std::uint64_t index) const {
  const auto words = block(index);
  const double radius = std::sqrt(-2 * std::log(1 - unit(joined(words[0], words[1]))));
  return radius * std::cos(2 * std::numbers::pi * unit(joined(words[2], words[3])));
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t bound) const {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{bits(index)} * bound >> 64);
}

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::string_view name)
    : size_(size), key_(halves(seed)), salt_(halves(hash128(name).low)) {
  const int bits = size > 1 ? std::bit_width(size - 1) : 1;
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t value = index;
  do {  // walk the cycle until the value lies in the range again
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const auto [low, high] = halves(right);
      const auto words = philox({low, high ^ (round << 24), salt_[0], salt_[1]}, key_);
      const std::uint64_t next = left ^ (joined(words[0], words[1]) & mask);
      left = right;
      right = next;
    }
    value = left << half_bits_ | right;
  } while (value >= size_);
  return value;
}

}  // namespace lockstep
