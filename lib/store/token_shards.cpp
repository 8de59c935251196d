#include "store/token_shards.hpp"

#include "base/error.hpp"
#include "layout/dtype.hpp"
#include "store/hdf5.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

namespace lockstep {

namespace {

constexpr const char* tokens_path = "/tokens";
constexpr const char* documents_path = "/documents";

template <class Element>
std::span<const Element> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Element*>(bytes.data()), bytes.size() / sizeof(Element)};
}

// A mapped shard. Datasets of less than a page may lie anywhere in the file; those are copied so that elements are
// aligned.
class Shard {
 public:
  Shard(const Path& path, const ShardEntry& entry, int token_bytes, std::int64_t first)
      : path_(path), entry_(entry), token_bytes_(token_bytes), first_(first), file_(path) {
    if (file_.bytes().size() != entry.bytes) {
      fail(ExitCode::input, "{} has {} bytes, DATASET.json says {}", path.string(), file_.bytes().size(), entry.bytes);
    }
    const Hdf5File hdf5 = Hdf5File::open(path);
    tokens_ = view(hdf5, tokens_path, token_bytes == 2 ? DType::u16 : DType::u32, entry.tokens, token_copy_);
    documents_ = elements<std::uint64_t>(view(hdf5, documents_path, DType::u64, entry.documents, document_copy_));
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  std::int64_t first() const { return first_; }
  std::int64_t end() const { return first_ + entry_.tokens; }
  std::span<const std::uint64_t> documents() const { return documents_; }

  TokenRun run(std::int64_t begin, std::int64_t count) const {
    const auto offset = static_cast<std::size_t>(begin - first_);
    const auto length = static_cast<std::size_t>(std::min(count, end() - begin));
    if (token_bytes_ == 2) return elements<std::uint16_t>(tokens_).subspan(offset, length);
    return elements<std::uint32_t>(tokens_).subspan(offset, length);
  }

  [[noreturn]] void fail_damaged(const std::string& how) const {
    fail(ExitCode::input, "{} is damaged: {}", path_.string(), how);
  }

  // Reads the file anew: where a disk fails, that is an error, which it is not in mapped memory.
  void verify_hash(const std::function<bool()>& given_up) const {
    constexpr std::uint64_t most = std::uint64_t{4} << 20;  // bytes at once
    const FileDescriptor file = open_file(path_, O_RDONLY | O_CLOEXEC);
    std::vector<std::byte> buffer(std::min(most, entry_.bytes));
    StreamHash hash;
    for (std::uint64_t done = 0; done < entry_.bytes;) {
      if (given_up && given_up()) return;
      const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), entry_.bytes - done));
      read_at(file, part, done, path_);
      hash.add(part);
      done += part.size();
    }
    if (hash.digest() == entry_.hash) return;
    throw Error(ExitCode::input,
                fmt::format("{} is damaged: its hash is {}, DATASET.json says {}", path_.string(),
                            to_hex(hash.digest()), to_hex(entry_.hash)),
                "prepare-data --verify names all damaged shards; prepare or copy the dataset anew");
  }

 private:
  std::span<const std::byte> view(const Hdf5File& hdf5, const char* name, DType dtype, std::int64_t count,
                                  std::vector<std::uint64_t>& copy) const {
    const Hdf5Dataset dataset = hdf5.has(name) ? hdf5.dataset(name) : Hdf5Dataset{};
    const Shape expected{count};
    if (dataset.path.empty() || dataset.dtype != dtype || dataset.shape != expected ||
        dataset.offset > file_.bytes().size() || dataset.bytes > file_.bytes().size() - dataset.offset) {
      fail(ExitCode::input, "{}: {} is not a whole dataset of {} elements of {}, as DATASET.json says", path_.string(),
           name, count, name_of(dtype));
    }
    const std::span<const std::byte> bytes = file_.bytes().subspan(dataset.offset, dataset.bytes);
    if (dataset.offset % sizeof(std::uint64_t) == 0) return bytes;
    copy.resize((bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    return std::as_bytes(std::span(copy)).first(bytes.size());
  }

  Path path_;
  ShardEntry entry_;
  int token_bytes_;
  std::int64_t first_;
  MappedFile file_;
  std::span<const std::byte> tokens_;
  std::span<const std::uint64_t> documents_;
  std::vector<std::uint64_t> token_copy_;
  std::vector<std::uint64_t> document_copy_;
};

}  // namespace

std::string_view name_of(DataSplit split) { return split == DataSplit::train ? "train" : "validation"; }

struct TokenStream::State {
  std::vector<std::unique_ptr<Shard>> shards;
  std::int64_t shard_tokens = 1;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;

  std::int64_t vocabulary = 0;

  const Shard& at(std::int64_t position) const { return *shards[static_cast<std::size_t>(position / shard_tokens)]; }
};

TokenStream::TokenStream(const Path& folder, const DatasetManifest& manifest, DataSplit split)
    : state_(std::make_unique<State>()) {
  const SplitEntry& entry = manifest.of(split);
  state_->shard_tokens = manifest.shard_tokens;
  state_->vocabulary = manifest.vocabulary;
  for (const ShardEntry& shard : entry.shards) {
    const bool last = &shard == &entry.shards.back();
    if (shard.tokens > manifest.shard_tokens || (!last && shard.tokens != manifest.shard_tokens)) {
      fail(ExitCode::input, "{}: the shard {} has {} tokens instead of {}", folder.string(), shard.file, shard.tokens,
           manifest.shard_tokens);
    }
    state_->shards.push_back(
        std::make_unique<Shard>(folder / shard.file, shard, manifest.token_bytes(), state_->tokens));
    state_->tokens += shard.tokens;
    state_->documents += shard.documents;
  }
  if (state_->tokens != entry.tokens || state_->documents != entry.documents) {
    fail(ExitCode::input, "{}: the shards of {} hold {} tokens in {} documents, DATASET.json says {} in {}",
         folder.string(), name_of(split), state_->tokens, state_->documents, entry.tokens, entry.documents);
  }
}

TokenStream::~TokenStream() = default;
TokenStream::TokenStream(TokenStream&&) noexcept = default;
TokenStream& TokenStream::operator=(TokenStream&&) noexcept = default;

std::int64_t TokenStream::tokens() const { return state_->tokens; }
std::int64_t TokenStream::documents() const { return state_->documents; }

TokenRun TokenStream::run(std::int64_t begin, std::int64_t count) const {
  invariant(begin >= 0 && begin < state_->tokens && count >= 0, "a run of tokens lies within the stream");
  return state_->at(begin).run(begin, count);
}

void TokenStream::copy(std::int64_t begin, std::span<std::int32_t> out) const {
  invariant(begin >= 0 && begin + static_cast<std::int64_t>(out.size()) <= state_->tokens,
            "tokens are read within the stream");
  while (!out.empty()) {
    const std::size_t copied = std::visit(
        [&](const auto& tokens) {
          const auto vocabulary = static_cast<std::uint64_t>(state_->vocabulary);
          std::uint32_t highest = 0;
          std::ranges::transform(tokens, out.begin(), [&highest](auto token) {
            highest = std::max<std::uint32_t>(highest, token);
            return static_cast<std::int32_t>(token);
          });
          if (highest >= vocabulary)
            state_->at(begin).fail_damaged(
                fmt::format("it holds the token {}, the vocabulary has {}", highest, vocabulary));
          return tokens.size();
        },
        run(begin, static_cast<std::int64_t>(out.size())));
    out = out.subspan(copied);
    begin += static_cast<std::int64_t>(copied);
  }
}

std::vector<std::int64_t> TokenStream::document_starts(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int64_t> starts;
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min(end, state_->tokens);
  while (begin < end) {
    const Shard& shard = state_->at(begin);
    const std::span<const std::uint64_t> documents = shard.documents();
    for (auto at = std::ranges::lower_bound(documents, static_cast<std::uint64_t>(begin - shard.first()));
         at != documents.end(); ++at) {
      if (*at >= static_cast<std::uint64_t>(shard.end() - shard.first()))
        shard.fail_damaged("a document starts behind its end");
      const std::int64_t start = shard.first() + static_cast<std::int64_t>(*at);
      if (start >= end) break;
      if (start < begin || (!starts.empty() && start <= starts.back()))
        shard.fail_damaged("its documents do not start one after the other");
      starts.push_back(start);
    }
    begin = shard.end();
  }
  return starts;
}

std::int64_t TokenStream::shards() const { return static_cast<std::int64_t>(state_->shards.size()); }
std::int64_t TokenStream::shard_at(std::int64_t position) const { return position / state_->shard_tokens; }

void TokenStream::verify_shard(std::int64_t shard, const std::function<bool()>& given_up) const {
  state_->shards.at(static_cast<std::size_t>(shard))->verify_hash(given_up);
}

void verify_shard_file(const Path& folder, const DatasetManifest& manifest, const ShardEntry& shard) {
  Shard(folder / shard.file, shard, manifest.token_bytes(), 0).verify_hash({});
}

struct ShardWriter::State {
  Path path;
  FileDescriptor file;
  int token_bytes;
  std::int64_t tokens;              // announced
  std::int64_t written = 0;         // tokens handed to the system
  std::uint64_t tokens_offset = 0;  // in the file
  std::vector<std::byte> buffer;    // tokens behind the written ones
  std::vector<std::uint64_t> documents;
  std::int64_t announced_documents;
  std::uint64_t documents_offset = 0;

  std::int64_t appended() const { return written + static_cast<std::int64_t>(buffer.size()) / token_bytes; }

  void flush() {
    write_at(file, buffer, tokens_offset + static_cast<std::uint64_t>(written * token_bytes), path);
    written = appended();
    buffer.clear();
  }
};

ShardWriter::ShardWriter(const Path& path, int token_bytes, std::int64_t tokens, std::int64_t documents)
    : state_(std::make_unique<State>(State{path, {}, token_bytes, tokens, 0, 0, {}, {}, documents, 0})) {
  Hdf5File hdf5 = Hdf5File::create(path);
  hdf5.set_attribute("/", "format", "lockstep tokens");
  hdf5.set_attribute("/", "version", std::int64_t{1});
  state_->tokens_offset =
      hdf5.create_dataset(tokens_path, token_bytes == 2 ? DType::u16 : DType::u32, Shape{tokens}).offset;
  state_->documents_offset = hdf5.create_dataset(documents_path, DType::u64, Shape{documents}).offset;
  hdf5.close();
  state_->file = open_file(path, O_RDWR);
  state_->documents.reserve(static_cast<std::size_t>(documents));
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::start_document() { state_->documents.push_back(static_cast<std::uint64_t>(state_->appended())); }

void ShardWriter::append(std::span<const std::uint32_t> tokens) {
  constexpr std::size_t flush_bytes = std::size_t{1} << 20;
  invariant(state_->appended() + static_cast<std::int64_t>(tokens.size()) <= state_->tokens,
            "a shard holds the tokens that were announced");
  const std::size_t before = state_->buffer.size();
  state_->buffer.resize(before + tokens.size() * static_cast<std::size_t>(state_->token_bytes));
  std::byte* const out = state_->buffer.data() + before;
  if (state_->token_bytes == 4) {
    std::memcpy(out, tokens.data(), tokens.size_bytes());
  } else {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto narrow = static_cast<std::uint16_t>(tokens[i]);
      std::memcpy(out + i * sizeof narrow, &narrow, sizeof narrow);
    }
  }
  if (state_->buffer.size() >= flush_bytes) state_->flush();
}

ShardEntry ShardWriter::finish() {
  state_->flush();
  invariant(state_->written == state_->tokens &&
                static_cast<std::int64_t>(state_->documents.size()) == state_->announced_documents,
            "a shard holds the tokens and documents that were announced");
  write_at(state_->file, std::as_bytes(std::span(state_->documents)), state_->documents_offset, state_->path);
  sync_file(state_->file, state_->path);
  state_->file.close(state_->path);
  const MappedFile whole(state_->path);
  return {"", state_->tokens, state_->announced_documents, whole.bytes().size(), hash128(whole.bytes())};
}

}  // namespace lockstep
