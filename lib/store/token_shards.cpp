#include "store/token_shards.hpp"

#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "base/mapped_file.hpp"
#include "layout/dtype.hpp"
#include "store/hdf5.hpp"
#include "store/shard_datasets.hpp"
#include "store/token_elements.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* places_path = "/places";

template <class Element>
std::span<const Element> elements_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Element*>(bytes.data()), bytes.size() / sizeof(Element)};
}

void require_length(const Path& path, std::uint64_t bytes, std::uint64_t expected) {
  if (bytes == expected) return;
  fail(ExitCode::input, "{} has {} bytes, but DATASET.json says {}", path.string(), bytes, expected);
}

// A mapped file with datasets. Those of less than a page may lie anywhere in it; they are copied so that elements are
// aligned.
class MappedDatasets {
 public:
  MappedDatasets(const Path& path, std::uint64_t bytes) : path_(path), file_(path) {
    require_length(path, file_.bytes().size(), bytes);
    hdf5_.emplace(Hdf5File::open(path));
  }
  std::span<const std::byte> view(const char* name, DType dtype, std::int64_t count) {
    const Hdf5Dataset dataset = hdf5_->has(name) ? hdf5_->dataset(name) : Hdf5Dataset{};
    const Shape expected{count};
    if (dataset.path.empty() || dataset.dtype != dtype || dataset.shape != expected ||
        dataset.offset > file_.bytes().size() || dataset.bytes > file_.bytes().size() - dataset.offset) {
      fail(ExitCode::input, "{}: {} is not a dataset of {} elements of {}, as listed in DATASET.json", path_.string(),
           name, count, name_of(dtype));
    }
    const std::span<const std::byte> bytes = file_.bytes().subspan(dataset.offset, dataset.bytes);
    if (dataset.offset % sizeof(std::uint64_t) == 0) return bytes;
    std::vector<std::uint64_t>& copy = copies_.emplace_back();
    copy.resize((bytes.size() + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t));
    std::memcpy(copy.data(), bytes.data(), bytes.size());
    require_intact();
    return std::as_bytes(std::span(copy)).first(bytes.size());
  }
  void close_hdf5() { hdf5_.reset(); }  // what was viewed stays mapped
  void require_intact() const { lockstep::require_intact(file_); }

 private:
  Path path_;
  MappedFile file_;
  std::optional<Hdf5File> hdf5_;
  std::deque<std::vector<std::uint64_t>> copies_;
};

// A mapped shard: where tokens lie, and where documents start.
class Shard {
 public:
  Shard(const Path& folder, const ShardEntry& entry, int token_bytes, TokenMasks masks, std::int64_t first)
      : path_(folder / entry.file),
        entry_(entry),
        first_(first),
        dtype_(entry.outside      ? entry.outside->dtype
               : token_bytes == 2 ? DType::u16
                                  : DType::u32),
        datasets_(folder / (entry.outside ? entry.outside->documents : entry.file),
                  entry.outside ? entry.outside->document_bytes : entry.bytes) {
    if (entry.outside) {
      tokens_ = view_outside(*entry.outside);
      if (entry.outside->apart)
        places_ = elements_in<std::uint64_t>(datasets_.view(places_path, DType::u64, entry.documents));
    } else {
      tokens_ = datasets_.view(shard_tokens_path, dtype_, entry.tokens);
    }
    documents_ = elements_in<std::uint64_t>(datasets_.view(shard_documents_path, DType::u64, entry.documents));
    if (masks == TokenMasks::present)
      mask_ = elements_in<std::uint8_t>(datasets_.view(shard_mask_path, DType::u8, entry.tokens));
    datasets_.close_hdf5();
  }
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  std::int64_t first() const { return first_; }
  std::int64_t end() const { return first_ + entry_.tokens; }
  std::span<const std::uint64_t> documents() const { return documents_; }
  /// Throws Error(storage) unless what was read of it is what it holds. To be called behind each use.
  void require_intact() const {
    datasets_.require_intact();
    if (outside_) lockstep::require_intact(*outside_);
  }

  /// Copies tokens from stream position `begin` to the front of `out`; returns how many, and which ids they are among.
  struct Copied {
    std::size_t tokens = 0;
    IdRange ids;
  };
  Copied copy(std::int64_t begin, std::span<std::int32_t> out) const {
    const auto offset = static_cast<std::uint64_t>(begin - first_);
    const std::size_t count = std::min(out.size(), static_cast<std::size_t>(end() - begin));
    const Copied copied =
        entry_.outside && entry_.outside->apart
            ? copy_apart(offset, out.first(count))
            : Copied{count, copy_ids(tokens_.subspan(offset * width(), count * width()), dtype_, out)};
    require_intact();
    return copied;
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
      fail_damaged("its mask holds values other than 0 and 1");
    require_intact();
    return count;
  }

  [[noreturn]] void fail_damaged(const std::string& how) const {
    require_intact();
    fail(ExitCode::input, "{} is damaged: {}", path_.string(), how);
  }

 private:
  std::size_t width() const { return static_cast<std::size_t>(size_of(dtype_)); }

  std::span<const std::byte> view_outside(const OutsideTokens& outside) {
    outside_.emplace(path_);
    const std::span<const std::byte> bytes = outside_->bytes();
    require_length(path_, bytes.size(), entry_.bytes);
    const bool whole = outside.offset <= bytes.size() && outside.extent <= bytes.size() - outside.offset &&
                       static_cast<std::uint64_t>(entry_.tokens) <= outside.extent / width();
    if (!whole) {
      fail(ExitCode::input, "{} has {} bytes, but DATASET.json lists {} tokens of type {} in {} bytes from byte {} on",
           path_.string(), bytes.size(), entry_.tokens, name_of(dtype_), outside.extent, outside.offset);
    }
    return bytes.subspan(outside.offset, outside.extent);
  }

  // Document by document: up to the next start in tokens, from its place in bytes.
  Copied copy_apart(std::uint64_t offset, std::span<std::int32_t> out) const {
    Copied copied;
    const auto tokens = static_cast<std::uint64_t>(entry_.tokens);
    auto document = static_cast<std::size_t>(std::ranges::upper_bound(documents_, offset) - documents_.begin());
    if (document == 0) fail_damaged("there are tokens before its first document");
    for (--document; copied.tokens < out.size(); ++document) {
      const std::uint64_t start = documents_[document];
      const std::uint64_t end = document + 1 < documents_.size() ? documents_[document + 1] : tokens;
      if (start > offset || end <= offset || end > tokens)
        fail_damaged("the starts of its documents are not in ascending order");
      const std::uint64_t count = std::min(end - offset, out.size() - copied.tokens);
      const std::uint64_t place = places_[document] - entry_.outside->offset;  // of its first token
      if (place > tokens_.size() || (offset - start + count) > (tokens_.size() - place) / width())
        fail_damaged("a document lies outside its data");
      const auto bytes = tokens_.subspan(place + (offset - start) * width(), count * width());
      copied.ids.add(copy_ids(bytes, dtype_, out.subspan(copied.tokens)));
      copied.tokens += count;
      offset += count;
    }
    return copied;
  }

  Path path_;
  ShardEntry entry_;
  std::int64_t first_;
  DType dtype_;
  std::optional<MappedFile> outside_;
  MappedDatasets datasets_;
  std::span<const std::byte> tokens_;
  std::span<const std::uint64_t> documents_;
  std::span<const std::uint64_t> places_;
  std::span<const std::uint8_t> mask_;
};

using UsePart = std::function<void(std::span<const std::byte> part, std::uint64_t offset)>;

// Hashes `bytes` of a file from `first` on, part by part, each of which `use` sees before the next is read. Anew, not
// as mapped memory: where a disk fails, that is an error.
Hash128 hash_of_file(const Path& path, std::uint64_t first, std::uint64_t bytes, const UsePart& use) {
  constexpr std::uint64_t most = std::uint64_t{4} << 20;  // bytes at once
  const FileDescriptor file = open_file(path, O_RDONLY | O_CLOEXEC);
  std::vector<std::byte> buffer(std::min(most, bytes));
  StreamHash hash;
  for (std::uint64_t done = 0; done < bytes;) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), bytes - done));
    read_at(file, part, first + done, path);
    hash.add(part);
    use(part, first + done);
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

struct VerificationAbandoned {};

/// Bytes of a file that a shard is made of, and their hash.
struct HashedBytes {
  Path path;
  std::uint64_t first = 0;
  std::uint64_t bytes = 0;
  Hash128 hash;
};

std::vector<HashedBytes> hashed_bytes(const Path& folder, const ShardEntry& entry) {
  if (!entry.outside) return {{folder / entry.file, 0, entry.bytes, entry.hash}};
  const OutsideTokens& outside = *entry.outside;
  return {{folder / entry.file, outside.offset, outside.extent, entry.hash},
          {folder / outside.documents, 0, outside.document_bytes, outside.document_hash}};
}

void verify_hash(const HashedBytes& part, const std::function<bool()>& given_up) {
  if (given_up && given_up()) throw VerificationAbandoned();
  const Hash128 hash = hash_of_file(part.path, part.first, part.bytes, [&](auto, auto) {
    if (given_up && given_up()) throw VerificationAbandoned();
  });
  if (hash == part.hash) return;
  throw Error(ExitCode::input,
              fmt::format("{} is damaged: its hash is {}, but DATASET.json says {}", part.path.string(), to_hex(hash),
                          to_hex(part.hash)),
              "prepare-data --verify lists all damaged shards; prepare or copy the dataset again");
}

void verify_hashes(const Path& folder, const ShardEntry& entry, const std::function<bool()>& given_up) {
  try {
    for (const HashedBytes& part : hashed_bytes(folder, entry)) verify_hash(part, given_up);
  } catch (const VerificationAbandoned&) {
  }
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

void add_content(StreamHash& hash, const SplitEntry& split) {
  for (const ShardEntry& shard : split.shards) {
    hash.add(to_hex(shard.hash));
    if (shard.outside) hash.add(to_hex(shard.outside->document_hash));
  }
}

struct TokenStream::State {
  Path folder;
  std::vector<ShardEntry> entries;
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t vocabulary = 0;
  int token_bytes = 2;
  TokenMasks masks = TokenMasks::absent;

  std::mutex mutex;                                  // guards what follows
  std::vector<std::shared_ptr<const Shard>> mapped;  // by number; null: not mapped
  std::deque<std::size_t> in_order;                  // in which they were mapped

  // The number of the shard that holds a token.
  std::size_t number_at(std::int64_t position) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(entries, position, {}, &ShardEntry::first_token) -
                                    entries.begin()) -
           1;
  }
  std::shared_ptr<const Shard> at(std::int64_t position) {
    const std::size_t number = number_at(position);
    const std::lock_guard lock(mutex);
    if (!mapped[number]) {
      const ShardEntry& entry = entries[number];
      mapped[number] = std::make_shared<const Shard>(folder, entry, token_bytes, masks, entry.first_token);
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
  state_->vocabulary = manifest.vocabulary;
  state_->token_bytes = manifest.token_bytes();
  state_->masks = manifest.masks;
  state_->mapped.resize(entry.shards.size());
  for (const ShardEntry& shard : entry.shards) {
    const bool last = &shard == &entry.shards.back();
    const bool shorter = !last && !shard.outside && shard.tokens != manifest.shard_tokens;
    if (shard.tokens > manifest.shard_tokens || shorter) {
      fail(ExitCode::input, "{}: the shard {} has {} tokens instead of {}", folder.string(), shard.file, shard.tokens,
           manifest.shard_tokens);
    }
    if (shard.first_token != state_->tokens || shard.first_document != state_->documents) {
      fail(ExitCode::input,
           "{}: the shard {} begins with token {} and document {}, but the previous shards end at {} and {}",
           folder.string(), shard.file, shard.first_token, shard.first_document, state_->tokens, state_->documents);
    }
    state_->tokens += shard.tokens;
    state_->documents += shard.documents;
  }
  if (state_->tokens != entry.tokens || state_->documents != entry.documents) {
    fail(ExitCode::input, "{}: the shards of {} hold {} tokens in {} documents, but DATASET.json says {} in {}",
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
    if (const auto id = copied.ids.outside(state_->vocabulary))
      shard->fail_damaged(
          fmt::format("it holds the token id {}, but the vocabulary has {} ids", *id, state_->vocabulary));
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
        shard.fail_damaged("a document starts after the end of the shard");
      const std::int64_t start = shard.first() + static_cast<std::int64_t>(*at);
      if (start >= end) break;
      if (start < begin || (!starts.empty() && start <= starts.back()))
        shard.fail_damaged("the starts of its documents are not in ascending order");
      starts.push_back(start);
    }
    shard.require_intact();
    begin = shard.end();
  }
  return starts;
}

std::int64_t TokenStream::shards() const { return std::ssize(state_->entries); }
std::int64_t TokenStream::shard_at(std::int64_t position) const {
  return static_cast<std::int64_t>(state_->number_at(position));
}

void TokenStream::verify_shard(std::int64_t shard, const std::function<bool()>& given_up) const {
  verify_hashes(state_->folder, state_->entries.at(static_cast<std::size_t>(shard)), given_up);
}

void verify_shard_file(const Path& folder, const DatasetManifest& manifest, const ShardEntry& shard) {
  (void)Shard(folder, shard, manifest.token_bytes(), manifest.masks, 0);
  verify_hashes(folder, shard, {});
}

void write_document_starts(const Path& path, std::span<const std::uint64_t> starts,
                           std::span<const std::uint64_t> places, OutsideTokens& outside) {
  {
    Hdf5File hdf5 = Hdf5File::create(path);
    hdf5.set_attribute("/", "format", "lockstep documents");
    hdf5.set_attribute("/", "version", std::int64_t{1});
    const Shape shape{std::ssize(starts)};
    hdf5.add(shard_documents_path, DType::u64, shape, std::as_bytes(starts));
    if (outside.apart) hdf5.add(places_path, DType::u64, shape, std::as_bytes(places));
    hdf5.close();
  }
  sync_file(open_file(path, O_RDONLY | O_CLOEXEC), path);
  outside.document_bytes = length_of(path).value_or(0);
  outside.document_hash = hash_of_file(path, 0, outside.document_bytes, [](auto, auto) {});
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
  entry.hash = hash_of_file(path, 0, entry.bytes, [&](std::span<const std::byte> part, std::uint64_t offset) {
    for (const Hdf5Dataset& dataset : {tokens, documents, mask})
      sum = add_content_sums(sum, sum_within(part, offset, dataset));
    if (alive) alive();
  });
  if (sum == written) return entry;
  throw Error(ExitCode::storage, fmt::format("{} reads back differently than it was written", path.string()),
              "if several nodes write one file, its file system must keep the writes of all of them");
}

}  // namespace lockstep
