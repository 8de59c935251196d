#include "prepare/token_spill.hpp"

#include "base/error.hpp"
#include "base/mapped_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep {

namespace {
constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

Path tokens_file(const Path& folder, const std::string& name) { return folder / ("tokens-" + name); }
Path mask_file(const Path& folder, const std::string& name) { return folder / ("mask-" + name); }
Path fragments_file(const Path& folder, const std::string& name) { return folder / ("fragments-" + name); }
Path normals_file(const Path& folder, const std::string& name) { return folder / ("normals-" + name); }
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
  hash.add(bytes);
  written += bytes.size();
}

void SpillWriter::Stream::flush() {
  write(buffer);
  buffer.clear();
}

std::vector<Path> spill_files(const Path& folder, const std::string& name) {
  return {tokens_file(folder, name), mask_file(folder, name), fragments_file(folder, name), normals_file(folder, name)};
}

SpillWriter::SpillWriter(const Path& folder, const std::string& name, int token_bytes)
    : token_bytes_(token_bytes),
      tokens_{tokens_file(folder, name), create(tokens_file(folder, name)), 0, {}},
      mask_{mask_file(folder, name), create(mask_file(folder, name)), 0, {}},
      fragments_{fragments_file(folder, name), create(fragments_file(folder, name)), 0, {}},
      normals_{normals_file(folder, name), create(normals_file(folder, name)), 0, {}} {}

void SpillWriter::append(TokenizedBlock& block, std::span<const std::byte> packed_tokens,
                         std::span<const std::uint8_t> mask, std::span<const Fragment> fragments,
                         std::span<const NormalHash> normals) {
  block.tokens = packed_tokens.size() / static_cast<std::size_t>(token_bytes_);
  block.first_token = std::exchange(token_count_, token_count_ + block.tokens);
  block.first_fragment = std::exchange(fragment_count_, fragment_count_ + fragments.size());
  block.fragments = fragments.size();
  fragments_.put(std::as_bytes(fragments));
  tokens_.put(packed_tokens);
  mask_.put(std::as_bytes(mask));
  normals_.put(std::as_bytes(normals));
}

std::vector<Hash128> SpillWriter::finish() {
  std::vector<Hash128> hashes;
  for (Stream* const stream : {&tokens_, &mask_, &fragments_, &normals_}) {
    stream->flush();
    sync_file(stream->file, stream->path);
    stream->file.close(stream->path);
    hashes.push_back(stream->hash.digest());
  }
  return hashes;
}

SpillReader::SpillReader(const std::vector<SpillPart>& parts, int token_bytes) : token_bytes_(token_bytes) {
  for (const SpillPart& part : parts)
    parts_.push_back({part.first_token, part.first_fragment, MappedFile(tokens_file(part.folder, part.name)),
                      MappedFile(mask_file(part.folder, part.name)),
                      MappedFile(fragments_file(part.folder, part.name))});
}

const SpillReader::Part& SpillReader::part_at(std::uint64_t token) const {
  const auto behind = std::ranges::upper_bound(parts_, token, {}, &Part::first_token);
  invariant(behind != parts_.begin(), "a spill begins at token 0");
  return *(behind - 1);
}

void SpillReader::copy_tokens(std::uint64_t first, std::span<std::uint32_t> out) const {
  if (out.empty()) return;
  const Part& part = part_at(first);
  const auto bytes = part.tokens.bytes().subspan((first - part.first_token) * static_cast<std::uint64_t>(token_bytes_),
                                                 out.size() * static_cast<std::size_t>(token_bytes_));
  if (token_bytes_ == 4) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::uint16_t token = 0;
      std::memcpy(&token, bytes.data() + 2 * i, sizeof token);
      out[i] = token;
    }
  }
  require_intact(part.tokens);
}

void SpillReader::copy_mask(std::uint64_t first, std::span<std::uint8_t> out) const {
  if (out.empty()) return;
  const Part& part = part_at(first);
  const auto bytes = part.mask.bytes().subspan(first - part.first_token, out.size());
  std::ranges::copy(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), out.begin());
  require_intact(part.mask);
}

std::vector<Fragment> SpillReader::fragments(std::uint64_t first, std::uint64_t count) const {
  std::vector<Fragment> fragments(count);
  if (count == 0) return fragments;
  const auto behind = std::ranges::upper_bound(parts_, first, {}, &Part::first_fragment);
  invariant(behind != parts_.begin(), "a spill begins at fragment 0");
  const Part& part = *(behind - 1);
  const auto bytes =
      part.fragments.bytes().subspan((first - part.first_fragment) * sizeof(Fragment), count * sizeof(Fragment));
  std::memcpy(fragments.data(), bytes.data(), bytes.size());
  require_intact(part.fragments);
  return fragments;
}

SpilledFragments read_fragments(const Path& folder, const std::string& name) {
  const auto read = [](const Path& path, auto& values) {
    const MappedFile file(path);
    values.resize(file.bytes().size() / sizeof values[0]);
    if (!values.empty()) std::memcpy(values.data(), file.bytes().data(), values.size() * sizeof values[0]);
    require_intact(file);
  };
  SpilledFragments result;
  read(fragments_file(folder, name), result.fragments);
  read(normals_file(folder, name), result.normals);
  return result;
}

}  // namespace lockstep
