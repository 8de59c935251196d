#include "data/token_spill.hpp"

#include "base/error.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

Path tokens_file(const Path& folder, int rank) { return folder / fmt::format("tokens-{}", rank); }
Path mask_file(const Path& folder, int rank) { return folder / fmt::format("mask-{}", rank); }
Path fragments_file(const Path& folder, int rank) { return folder / fmt::format("fragments-{}", rank); }
FileDescriptor create(const Path& path) { return open_file(path, O_WRONLY | O_CREAT | O_EXCL); }
}  // namespace

void pack_tokens(std::span<const std::int32_t> tokens, int token_bytes, std::vector<std::byte>& packed) {
  const std::size_t before = packed.size();
  packed.resize(before + tokens.size() * static_cast<std::size_t>(token_bytes));
  if (token_bytes == 4) {
    std::ranges::copy(std::as_bytes(tokens), packed.begin() + static_cast<std::ptrdiff_t>(before));
    return;
  }
  for (std::byte* out = packed.data() + before; const std::int32_t token : tokens) {
    const auto narrow = static_cast<std::uint16_t>(token);  // the vocabulary is that small
    std::memcpy(out, &narrow, sizeof narrow);
    out += sizeof narrow;
  }
}

void SpillWriter::Stream::put(std::span<const std::byte> bytes) {
  if (buffer.size() + bytes.size() > buffer_bytes) flush();
  if (bytes.size() > buffer_bytes) return write(bytes);
  buffer.insert(buffer.end(), bytes.begin(), bytes.end());
}

void SpillWriter::Stream::write(std::span<const std::byte> bytes) {
  write_at(file, bytes, written, path);
  written += bytes.size();
}

void SpillWriter::Stream::flush() {
  write(buffer);
  buffer.clear();
}

SpillWriter::SpillWriter(const Path& folder, int rank, int token_bytes)
    : token_bytes_(token_bytes),
      tokens_{tokens_file(folder, rank), create(tokens_file(folder, rank)), 0, {}},
      mask_{mask_file(folder, rank), create(mask_file(folder, rank)), 0, {}},
      fragments_{fragments_file(folder, rank), create(fragments_file(folder, rank)), 0, {}} {}

void SpillWriter::append(TokenizedBlock& block, std::span<const std::byte> packed_tokens,
                         std::span<const std::uint8_t> mask, std::span<const Fragment> fragments) {
  block.tokens = packed_tokens.size() / static_cast<std::size_t>(token_bytes_);
  block.first_token = std::exchange(token_count_, token_count_ + block.tokens);
  block.first_fragment = std::exchange(fragment_count_, fragment_count_ + fragments.size());
  block.fragments = fragments.size();
  fragments_.put(std::as_bytes(fragments));
  tokens_.put(packed_tokens);
  mask_.put(std::as_bytes(mask));
}

void SpillWriter::finish() {
  for (Stream* const stream : {&tokens_, &mask_, &fragments_}) {
    stream->flush();
    stream->file.close(stream->path);
  }
}

SpillReader::SpillReader(const Path& folder, int rank, int token_bytes)
    : token_bytes_(token_bytes),
      tokens_(tokens_file(folder, rank)),
      mask_(mask_file(folder, rank)),
      fragments_(fragments_file(folder, rank)) {}

void SpillReader::copy_tokens(std::uint64_t first, std::span<std::uint32_t> out) const {
  const auto bytes = tokens_.bytes().subspan(first * static_cast<std::uint64_t>(token_bytes_),
                                             out.size() * static_cast<std::size_t>(token_bytes_));
  if (token_bytes_ == 4) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t token = 0;
    std::memcpy(&token, bytes.data() + 2 * i, sizeof token);
    out[i] = token;
  }
}

void SpillReader::copy_mask(std::uint64_t first, std::span<std::uint8_t> out) const {
  const auto bytes = mask_.bytes().subspan(first, out.size());
  std::ranges::copy(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), out.begin());
}

Fragment SpillReader::fragment(std::uint64_t index) const {
  Fragment fragment;
  const auto bytes = fragments_.bytes().subspan(index * sizeof fragment, sizeof fragment);
  std::memcpy(&fragment, bytes.data(), sizeof fragment);
  return fragment;
}

}  // namespace lockstep
