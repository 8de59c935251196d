#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "layout/dtype.hpp"
#include "store/hdf5.hpp"
#include "store/shard_datasets.hpp"
#include "store/token_shards.hpp"

#include <fcntl.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

void create_shard(const Path& path, int token_bytes, std::int64_t tokens, std::int64_t documents, TokenMasks masks) {
  Hdf5File hdf5 = Hdf5File::create(path);
  hdf5.set_attribute("/", "format", "lockstep tokens");
  hdf5.set_attribute("/", "version", std::int64_t{1});
  hdf5.create_dataset(shard_tokens_path, token_bytes == 2 ? DType::u16 : DType::u32, Shape{tokens});
  hdf5.create_dataset(shard_documents_path, DType::u64, Shape{documents});
  if (masks == TokenMasks::present) hdf5.create_dataset(shard_mask_path, DType::u8, Shape{tokens});
  hdf5.close();
}

struct ShardWriter::State {
  Path path;
  FileDescriptor file;
  Hdf5Dataset tokens;
  Hdf5Dataset documents;
  std::optional<Hdf5Dataset> mask;
  std::int64_t next_token = 0;     // behind those handed to the system
  std::int64_t next_document = 0;  // of the first of the starts
  std::vector<std::byte> buffer;   // tokens from next_token on
  std::vector<std::uint8_t> mask_buffer;
  std::vector<std::uint64_t> starts;
  std::uint64_t sum = 0;  // of what was handed to the system

  std::int64_t token_bytes() const { return tokens.dtype == DType::u16 ? 2 : 4; }
  std::int64_t appended() const { return next_token + std::ssize(buffer) / token_bytes(); }

  void write(std::span<const std::byte> bytes, std::uint64_t offset) {
    write_at(file, bytes, offset, path);
    sum = add_content_sums(sum, content_sum(bytes, offset));
  }
  void flush() {
    write(buffer, tokens.offset + static_cast<std::uint64_t>(next_token * token_bytes()));
    if (mask) write(std::as_bytes(std::span(mask_buffer)), mask->offset + static_cast<std::uint64_t>(next_token));
    next_token = appended();
    buffer.clear();
    mask_buffer.clear();
  }
};

ShardWriter::ShardWriter(const Path& path, std::int64_t first_token, std::int64_t first_document)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->next_token = first_token;
  state_->next_document = first_document;
  const Hdf5File hdf5 = Hdf5File::open(path);
  state_->tokens = hdf5.dataset(shard_tokens_path);
  state_->documents = hdf5.dataset(shard_documents_path);
  if (hdf5.has(shard_mask_path)) state_->mask = hdf5.dataset(shard_mask_path);
  state_->file = open_file(path, O_RDWR | O_CLOEXEC);
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::start_document() { state_->starts.push_back(static_cast<std::uint64_t>(state_->appended())); }

void ShardWriter::append(std::span<const std::uint32_t> tokens, std::span<const std::uint8_t> mask) {
  constexpr std::size_t flush_bytes = std::size_t{1} << 20;
  invariant(mask.size() == (state_->mask ? tokens.size() : 0), "a mask has a value for each token");
  state_->mask_buffer.insert(state_->mask_buffer.end(), mask.begin(), mask.end());
  invariant(state_->appended() + std::ssize(tokens) <= state_->tokens.shape.at(0),
            "a shard holds the tokens that were announced");
  const std::size_t before = state_->buffer.size();
  state_->buffer.resize(before + tokens.size() * static_cast<std::size_t>(state_->token_bytes()));
  std::byte* const out = state_->buffer.data() + before;
  if (state_->token_bytes() == 4) {
    std::memcpy(out, tokens.data(), tokens.size_bytes());
  } else {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto narrow = static_cast<std::uint16_t>(tokens[i]);
      std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
    }
  }
  if (state_->buffer.size() >= flush_bytes) state_->flush();
}

std::uint64_t ShardWriter::finish() {
  invariant(state_->next_document + std::ssize(state_->starts) <= state_->documents.shape.at(0),
            "a shard holds the documents that were announced");
  state_->flush();
  state_->write(std::as_bytes(std::span(state_->starts)),
                state_->documents.offset + static_cast<std::uint64_t>(state_->next_document) * sizeof(std::uint64_t));
  sync_file(state_->file, state_->path);
  state_->file.close(state_->path);
  return state_->sum;
}

}  // namespace lockstep
