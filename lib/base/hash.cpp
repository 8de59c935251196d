#include "base/hash.hpp"

#include "base/error.hpp"

#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // the same hashes by the widest vectors that the processor has
#else
#include <xxhash.h>
#endif

#include <charconv>
#include <new>

namespace lockstep {

namespace {
Hash128 from_xxh(XXH128_hash_t hash) { return {hash.high64, hash.low64}; }
}  // namespace

Hash128 hash128(std::span<const std::byte> bytes) { return from_xxh(XXH3_128bits(bytes.data(), bytes.size())); }
Hash128 hash128(std::string_view text) { return from_xxh(XXH3_128bits(text.data(), text.size())); }

std::string to_hex(const Hash128& hash) { return fmt::format("{:016x}{:016x}", hash.high, hash.low); }

Hash128 hash_from_hex(std::string_view digits) {
  const auto half = [&](std::size_t offset) {
    std::uint64_t value = 0;
    const char* const begin = digits.data() + offset;
    const auto [end, error] = std::from_chars(begin, begin + 16, value, 16);
    if (error != std::errc{} || end != begin + 16)
      fail(ExitCode::input, "'{}' is not a hash of 32 hexadecimal digits", digits);
    return value;
  };
  if (digits.size() != 32) fail(ExitCode::input, "'{}' is not a hash of 32 hexadecimal digits", digits);
  return {half(0), half(16)};
}

struct StreamHash::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (xxh == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(xxh);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) {}
StreamHash::~StreamHash() = default;
StreamHash::StreamHash(StreamHash&&) noexcept = default;
StreamHash& StreamHash::operator=(StreamHash&&) noexcept = default;
void StreamHash::add(std::span<const std::byte> bytes) { XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size()); }
void StreamHash::add(std::string_view text) { XXH3_128bits_update(state_->xxh, text.data(), text.size()); }
Hash128 StreamHash::digest() const { return from_xxh(XXH3_128bits_digest(state_->xxh)); }

}  // namespace lockstep
