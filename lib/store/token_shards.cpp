#include "store/token_shards.hpp"

#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "layout/dtype.hpp"
#include "store/hdf5.hpp"
#include "store/shard_datasets.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep {

namespace {

template <class Element>
std::span<const Element> elements(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Element*>(bytes.data()), bytes.size() / sizeof(Element)};
}

// A mapped shard. Datasets of less than a page may lie anywhere in the file; those are copied so that elements are
// aligned.
class Shard {
 public:
  Shard(const Path& path, const ShardEntry& entry, int token_bytes, TokenMasks masks, std::int64_t first)
      : path_(path), entry_(entry), token_bytes_(token_bytes), first_(first), file_(path) {
    if (file_.bytes().size() != entry.bytes) {
      fail(ExitCode::input, "{} has {} bytes, DATASET.json says {}", path.string(), file_.bytes().size(), entry.bytes);
    }
    const Hdf5File hdf5 = Hdf5File::open(path);
    tokens_ = view(hdf5, shard_tokens_path, token_bytes == 2 ? DType::u16 : DType::u32, entry.tokens, token_copy_);
    documents_ = elements<std::uint64_t>(view(hdf5, shard_documents_path, DType::u64, entry.documents, document_copy_));
    if (masks == TokenMasks::present)
      mask_ = elements<std::uint8_t>(view(hdf5, shard_mask_path, DType::u8, entry.tokens, mask_copy_));
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  std::int64_t first() const { return first_; }
  std::int64_t end() const { return first_ + entry_.tokens; }
  std::span<const std::uint64_t> documents() const { return documents_; }

  /// Copies tokens from stream position `begin` to the front of `out`; returns how many, and the highest.
  struct Copied {
    std::size_t tokens = 0;
    std::uint32_t highest = 0;
  };
  Copied copy(std::int64_t begin, std::span<std::int32_t> out) const {
    const auto offset = static_cast<std::size_t>(begin - first_);
    const std::size_t count = std::min(out.size(), static_cast<std::size_t>(end() - begin));
    return token_bytes_ == 2 ? copy(elements<std::uint16_t>(tokens_).subspan(offset, count), out)
                             : copy(elements<std::uint32_t>(tokens_).subspan(offset, count), out);
  }

  /// Copies the mask likewise; all 1 where there is none.
  std::size_t copy_mask(std::int64_t begin, std::span<std::uint8_t> out) const {
    const auto offset = static_cast<std::size_t>(begin - first_);
    const std::size_t count = std::min(out.size(), static_cast<std::size_t>(end() - begin));
    if (mask_.empty()) {
      std::ranges::fill(out.first(count), std::uint8_t{1});
      return count;
    }
    const auto part = mask_.subspan(offset, count);
    std::ranges::copy(part, out.begin());
    if (std::ranges::any_of(part, [](std::uint8_t value) { return value > 1; }))
      fail_damaged("its mask holds other values than 0 and 1");
    return count;
  }

  [[noreturn]] void fail_damaged(const std::string& how) const {
    fail(ExitCode::input, "{} is damaged: {}", path_.string(), how);
  }

 private:
  template <class Token>
  static Copied copy(std::span<const Token> tokens, std::span<std::int32_t> out) {
    std::uint32_t highest = 0;
    std::ranges::transform(tokens, out.begin(), [&highest](Token token) {
      highest = std::max<std::uint32_t>(highest, token);
      return static_cast<std::int32_t>(token);
    });
    return {tokens.size(), highest};
  }

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
  std::span<const std::uint8_t> mask_;
  std::vector<std::uint64_t> token_copy_;
  std::vector<std::uint64_t> document_copy_;
  std::vector<std::uint64_t> mask_copy_;
};

using UsePart = std::function<void(std::span<const std::byte> part, std::uint64_t offset)>;

// Hashes a file part by part, each of which `use` sees before the next is read. Anew, not as mapped memory: where a
// disk fails, that is an error.
Hash128 hash_of_file(const Path& path, std::uint64_t bytes, const UsePart& use) {
  constexpr std::uint64_t most = std::uint64_t{4} << 20;  // bytes at once
  const FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> buffer(std::min(most, bytes));
  StreamHash hash;
  for (std::uint64_t done = 0; done < bytes;) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), bytes - done));
    read_at(file, part, done, path);
    hash.add(part);
    use(part, done);
    done += part.size();
  }
  return hash.digest();
}

// The content_sum of what a part of a file has of a dataset.
std::uint64_t sum_within(std::span<const std::byte> part, std::uint64_t offset, const Hdf5Dataset& dataset) {
  const std::uint64_t begin = std::max(offset, dataset.offset);
  const std::uint64_t end = std::min(offset + part.size(), dataset.offset + dataset.bytes);
  return begin < end ? content_sum(part.subspan(begin - offset, end - begin), begin) : 0;
}

struct GivenUp {};

void verify_hash(const Path& path, const ShardEntry& entry, const std::function<bool()>& given_up) {
  Hash128 hash;
  try {
    if (given_up && given_up()) return;
    hash = hash_of_file(path, entry.bytes, [&](auto, auto) {
      if (given_up && given_up()) throw GivenUp();
    });
  } catch (const GivenUp&) {
    return;
  }
  if (hash == entry.hash) return;
  throw Error(ExitCode::input,
              fmt::format("{} is damaged: its hash is {}, DATASET.json says {}", path.string(), to_hex(hash),
                          to_hex(entry.hash)),
              "prepare-data --verify names all damaged shards; prepare or copy the dataset anew");
}

}  // namespace

std::string_view name_of(DataSplit split) { return split == DataSplit::train ? "train" : "validation"; }

void number_shards(SplitEntry& split) {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  for (ShardEntry& shard : split.shards) {
    shard.first_token = std::exchange(tokens, tokens + shard.tokens);
    shard.first_document = std::exchange(documents, documents + shard.documents);
  }
}

struct TokenStream::State {
  Path folder;
  std::vector<ShardEntry> entries;
  std::int64_t shard_tokens = 1;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t vocabulary = 0;
  int token_bytes = 2;
  TokenMasks masks = TokenMasks::absent;

  std::mutex mutex;                                  // guards what follows
  std::vector<std::shared_ptr<const Shard>> mapped;  // by number; null: not mapped
  std::deque<std::size_t> in_order;                  // in which they were mapped

  std::shared_ptr<const Shard> at(std::int64_t position) {
    const auto number = static_cast<std::size_t>(position / shard_tokens);
    const std::lock_guard lock(mutex);
    if (!mapped[number]) {
      const ShardEntry& entry = entries[number];
      mapped[number] = std::make_shared<const Shard>(folder / entry.file, entry, token_bytes, masks, entry.first_token);
      in_order.push_back(number);
      if (in_order.size() > most_mapped) {
        mapped[in_order.front()].reset();  // who reads it keeps it until then
        in_order.pop_front();
      }
    }
    return mapped[number];
  }
};

TokenStream::TokenStream(const Path& folder, const DatasetManifest& manifest, DataSplit split)
    : state_(std::make_unique<State>()) {
  const SplitEntry& entry = manifest.of(split);
  state_->folder = folder;
  state_->entries = entry.shards;
  state_->shard_tokens = manifest.shard_tokens;
  state_->vocabulary = manifest.vocabulary;
  state_->token_bytes = manifest.token_bytes();
  state_->masks = manifest.masks;
  state_->mapped.resize(entry.shards.size());
  for (const ShardEntry& shard : entry.shards) {
    const bool last = &shard == &entry.shards.back();
    if (shard.tokens > manifest.shard_tokens || (!last && shard.tokens != manifest.shard_tokens)) {
      fail(ExitCode::input, "{}: the shard {} has {} tokens instead of {}", folder.string(), shard.file, shard.tokens,
           manifest.shard_tokens);
    }
    if (shard.first_token != state_->tokens || shard.first_document != state_->documents) {
      fail(ExitCode::input, "{}: the shard {} begins with token {} and document {}, those before it end with {} and {}",
           folder.string(), shard.file, shard.first_token, shard.first_document, state_->tokens, state_->documents);
    }
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

void TokenStream::copy(std::int64_t begin, std::span<std::int32_t> out) const {
  invariant(begin >= 0 && begin + static_cast<std::int64_t>(out.size()) <= state_->tokens,
            "tokens are read within the stream");
  while (!out.empty()) {
    const auto shard = state_->at(begin);
    const Shard::Copied copied = shard->copy(begin, out);
    if (std::cmp_greater_equal(copied.highest, state_->vocabulary)) {
      shard->fail_damaged(
          fmt::format("it holds the token {}, the vocabulary has {}", copied.highest, state_->vocabulary));
    }
    out = out.subspan(copied.tokens);
    begin += static_cast<std::int64_t>(copied.tokens);
  }
}

TokenMasks TokenStream::masks() const { return state_->masks; }

void TokenStream::copy_mask(std::int64_t begin, std::span<std::uint8_t> out) const {
  invariant(begin >= 0 && begin + static_cast<std::int64_t>(out.size()) <= state_->tokens,
            "a mask is read within the stream");
  while (!out.empty()) {
    const std::size_t copied = state_->at(begin)->copy_mask(begin, out);
    out = out.subspan(copied);
    begin += static_cast<std::int64_t>(copied);
  }
}

std::vector<std::int64_t> TokenStream::document_starts(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int64_t> starts;
  begin = std::max<std::int64_t>(begin, 0);
  end = std::min(end, state_->tokens);
  while (begin < end) {
    const auto mapped = state_->at(begin);
    const Shard& shard = *mapped;
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

std::int64_t TokenStream::shards() const { return std::ssize(state_->entries); }
std::int64_t TokenStream::shard_at(std::int64_t position) const { return position / state_->shard_tokens; }

void TokenStream::verify_shard(std::int64_t shard, const std::function<bool()>& given_up) const {
  const ShardEntry& entry = state_->entries.at(static_cast<std::size_t>(shard));
  verify_hash(state_->folder / entry.file, entry, given_up);
}

void verify_shard_file(const Path& folder, const DatasetManifest& manifest, const ShardEntry& shard) {
  const Path path = folder / shard.file;
  (void)Shard(path, shard, manifest.token_bytes(), manifest.masks, 0);
  verify_hash(path, shard, {});
}

ShardEntry describe_shard(const Path& path, std::uint64_t written, const std::function<void()>& alive) {
  Hdf5Dataset tokens, documents, mask;
  {
    const Hdf5File hdf5 = Hdf5File::open(path);
    tokens = hdf5.dataset(shard_tokens_path);
    documents = hdf5.dataset(shard_documents_path);
    if (hdf5.has(shard_mask_path)) mask = hdf5.dataset(shard_mask_path);
  }
  ShardEntry entry;
  entry.tokens = tokens.shape.at(0);
  entry.documents = documents.shape.at(0);
  entry.bytes = length_of(path).value_or(0);
  std::uint64_t sum = 0;
  entry.hash = hash_of_file(path, entry.bytes, [&](std::span<const std::byte> part, std::uint64_t offset) {
    for (const Hdf5Dataset& dataset : {tokens, documents, mask})
      sum = add_content_sums(sum, sum_within(part, offset, dataset));
    if (alive) alive();
  });
  if (sum == written) return entry;
  throw Error(ExitCode::storage, fmt::format("{} does not hold what was written into it", path.string()),
              "where several nodes write one file, its file system has to keep the bytes of each");
}

}  // namespace lockstep
