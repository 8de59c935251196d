#include "data/packing.hpp"

#include "base/error.hpp"
#include "base/mapped_file.hpp"
#include "base/rounding.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

namespace lockstep {

namespace {

/// By number of a row what it has left; finds the first that has enough.
class FirstFit {
 public:
  FirstFit(std::size_t rows, std::uint32_t length) : leaves_(std::bit_ceil(rows)), most_(2 * leaves_, length) {}

  std::size_t place(std::uint32_t cost) {
    std::size_t node = 1;
    while (node < leaves_) node = most_[2 * node] >= cost ? 2 * node : 2 * node + 1;
    const std::size_t row = node - leaves_;
    most_[node] -= cost;
    for (node /= 2; node > 0; node /= 2) {
      const std::uint32_t most = std::max(most_[2 * node], most_[2 * node + 1]);
      if (most_[node] == most) break;
      most_[node] = most;
    }
    return row;
  }

 private:
  std::size_t leaves_;
  std::vector<std::uint32_t> most_;  // a tree: of node i those below 2·i and 2·i + 1; the leaves are rows
};

/// A set of numbers below a limit; finds the least that is not less than another one.
class NumberSet {
 public:
  explicit NumberSet(std::size_t limit) {
    do {
      limit = (limit + bits - 1) / bits;
      levels_.emplace_back(limit);
    } while (limit > 1);
  }
  void insert(std::size_t number) {
    for (auto& level : levels_) {
      level[number / bits] |= std::uint64_t{1} << number % bits;
      number /= bits;
    }
  }
  void erase(std::size_t number) {
    for (auto& level : levels_) {
      level[number / bits] &= ~(std::uint64_t{1} << number % bits);
      if (level[number / bits] != 0) return;
      number /= bits;
    }
  }
  std::optional<std::size_t> at_least(std::size_t number) const {
    for (std::size_t i = 0; i < levels_.size(); ++i) {
      if (number / bits >= levels_[i].size()) return {};
      const std::uint64_t found = levels_[i][number / bits] >> number % bits;
      if (found != 0) {
        number += static_cast<std::size_t>(std::countr_zero(found));
        for (; i > 0; --i) number = number * bits + static_cast<std::size_t>(std::countr_zero(levels_[i - 1][number]));
        return number;
      }
      number = number / bits + 1;
    }
    return {};
  }

 private:
  static constexpr std::size_t bits = 64;
  std::vector<std::vector<std::uint64_t>> levels_;  // the first has a bit for each number, the next for each word of it
};

/// Rows by what they have left: a stack for each.
class BestFit {
 public:
  BestFit(std::size_t rows, std::uint32_t length)
      : length_(length), below_(rows), top_(length + 1, none), used_(length + 1) {}

  std::size_t place(std::uint32_t cost) {
    const std::optional<std::size_t> left = used_.at_least(cost);
    std::size_t row = opened_;
    if (left) {
      row = top_[*left];
      top_[*left] = below_[row];
      if (top_[*left] == none) used_.erase(*left);
    } else {
      ++opened_;
    }
    const std::size_t now = left.value_or(length_) - cost;
    if (now > 0) {  // a full row takes nothing: costs are not 0
      below_[row] = std::exchange(top_[now], static_cast<std::uint32_t>(row));
      used_.insert(now);
    }
    return row;
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  std::size_t length_;
  std::size_t opened_ = 0;
  std::vector<std::uint32_t> below_;  // by row, in its stack
  std::vector<std::uint32_t> top_;    // by what is left
  NumberSet used_;                    // those of which there are rows
};

template <class Fit>
std::vector<std::uint64_t> place_longest_first(std::span<const std::int64_t> costs, std::int64_t length) {
  std::vector<std::uint32_t> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::uint32_t a, std::uint32_t b) { return costs[a] > costs[b]; });
  Fit fit(costs.size(), static_cast<std::uint32_t>(length));
  std::vector<std::uint64_t> rows(costs.size());
  for (const std::uint32_t document : order) rows[document] = fit.place(static_cast<std::uint32_t>(costs[document]));
  return rows;
}

std::vector<std::uint64_t> place_next_fit(std::span<const std::int64_t> costs, std::int64_t length) {
  std::vector<std::uint64_t> rows;
  rows.reserve(costs.size());
  std::uint64_t row = 0;
  std::int64_t left = length;
  for (const std::int64_t cost : costs) {
    if (cost > left) {
      ++row;
      left = length;
    }
    left -= cost;
    rows.push_back(row);
  }
  return rows;
}

/// The documents that are packed, in order, long ones as the settings say.
class Cutter {
 public:
  Cutter(const TokenStream& stream, const PackingSettings& settings) : stream_(stream), settings_(settings) {}

  void add(std::int64_t begin, std::int64_t end) {
    ++counts_.documents;
    const std::int64_t labels = end - begin - 1;
    if (labels == 0) {
      ++counts_.empty_documents;
    } else if (labels <= settings_.length) {
      take({begin, labels});
    } else {
      cut(begin, labels);
    }
  }

  std::vector<PackedDocument> documents;
  const PackingCounts& counts() const { return counts_; }

 private:
  void take(const PackedDocument& document) {
    if (!any_counts(document)) {
      ++counts_.masked_parts;
      counts_.masked_labels += document.labels;
      return;
    }
    documents.push_back(document);
    counts_.packed_labels += document.labels;
  }

  bool any_counts(const PackedDocument& document) {
    if (stream_.masks() == TokenMasks::absent) return true;
    mask_.resize(static_cast<std::size_t>(document.labels));
    stream_.copy_mask(document.begin + 1, mask_);
    return std::ranges::find(mask_, std::uint8_t{1}) != mask_.end();
  }

  void cut(std::int64_t begin, std::int64_t labels) {
    switch (settings_.long_documents) {
      case LongDocuments::split:
        ++counts_.split_documents;
        for (std::int64_t at = 0; at < labels; at += settings_.length)
          take({begin + at, std::min(settings_.length, labels - at)});
        break;
      case LongDocuments::truncate:
        ++counts_.truncated_documents;
        counts_.truncated_labels += labels - settings_.length;
        take({begin, settings_.length});
        break;
      case LongDocuments::drop:
        ++counts_.dropped_documents;
        counts_.dropped_labels += labels;
        break;
    }
  }

  const TokenStream& stream_;
  const PackingSettings& settings_;
  PackingCounts counts_;
  std::vector<std::uint8_t> mask_;  // of one document
};

constexpr std::int64_t tokens_asked_for = std::int64_t{1} << 22;  // whose documents are asked for

Cutter cut_documents(const TokenStream& stream, const PackingSettings& settings) {
  Cutter cutter(stream, settings);
  cutter.documents.reserve(static_cast<std::size_t>(stream.documents()));
  std::int64_t document = -1;  // where the present one begins
  for (std::int64_t begin = 0; begin < stream.tokens(); begin += tokens_asked_for) {
    for (const std::int64_t start : stream.document_starts(begin, begin + tokens_asked_for)) {
      if (document < 0 && start > 0) break;
      if (document >= 0) cutter.add(document, start);
      document = start;
    }
    if (document < 0) fail(ExitCode::input, "the split does not begin with a document, so it cannot be packed");
  }
  cutter.add(document, stream.tokens());
  return cutter;
}

/// Runs work(i) for i below `count` on so many threads. Throws the first error.
template <class Work>
void run_on_threads(int threads, std::int64_t count, const Work& work) {
  std::atomic<std::int64_t> next{0};
  std::mutex mutex;
  std::exception_ptr problem;
  const auto run = [&] {
    try {
      for (std::int64_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!problem) problem = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < std::min<std::int64_t>(threads, count); ++i) others.emplace_back(run);
    run();
  }
  if (problem) std::rethrow_exception(problem);
}

struct PackedArrays {
  std::vector<std::uint64_t> starts, begins;
  std::vector<std::uint32_t> labels;
};

/// Consecutive documents that share rows among themselves alone.
struct PackingGroup {
  std::size_t first = 0;  // of the documents
  std::size_t count = 0;
  std::vector<std::uint64_t> sizes;  // by row: documents in it
};

/// What a user says the rows of documents are, if they are rows.
std::vector<std::uint64_t> placed_by_user(const CustomPacking& packing, std::span<const std::int64_t> costs,
                                          std::int64_t length) {
  const std::vector<std::int64_t> said = packing.place(costs, length);
  std::vector<std::uint64_t> rows;
  std::vector<std::int64_t> filled(costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const std::int64_t row = said[i];
    if (row < 0 || row >= std::ssize(filled))
      fail(ExitCode::usage, "{} puts document {} of {} into row {}, which does not exist", packing.who, i, costs.size(),
           row);
    std::int64_t& tokens = filled[static_cast<std::size_t>(row)];
    tokens += costs[i];
    if (tokens > length)
      fail(ExitCode::usage, "{} puts documents of {} tokens into row {}, which has room for {}", packing.who, tokens,
           row, length);
    rows.push_back(static_cast<std::uint64_t>(row));
  }
  const std::uint64_t count = rows.empty() ? 0 : std::ranges::max(rows) + 1;
  for (std::uint64_t row = 0; row < count; ++row)
    if (filled[row] == 0) fail(ExitCode::usage, "{} puts no document into row {} of {}", packing.who, row, count);
  return rows;
}

/// Puts the documents of a group into its part of the arrays, sorted by row, and counts them.
void pack_group(const PackingSettings& settings, std::span<const PackedDocument> all, PackingGroup& group,
                PackedArrays& arrays) {
  const std::span<const PackedDocument> documents = all.subspan(group.first, group.count);
  std::vector<std::int64_t> costs;
  costs.reserve(documents.size());
  for (const PackedDocument& document : documents) costs.push_back(rounded_up(document.labels, settings.multiple));
  const std::vector<std::uint64_t> rows = settings.method == PackingMethod::custom
                                              ? placed_by_user(*settings.by_user, costs, settings.length)
                                              : place_documents(settings.method, costs, settings.length);
  group.sizes.resize(rows.empty() ? 0 : std::ranges::max(rows) + 1);
  for (const std::uint64_t row : rows) ++group.sizes[row];
  std::vector<std::uint64_t> next(group.sizes.size());  // where the next document of a row goes
  std::exclusive_scan(group.sizes.begin(), group.sizes.end(), next.begin(), std::uint64_t{group.first});
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::uint64_t at = next[rows[i]]++;
    arrays.begins[at] = static_cast<std::uint64_t>(documents[i].begin);
    arrays.labels[at] = static_cast<std::uint32_t>(documents[i].labels);
  }
}

void check_packing(const PackingSettings& settings) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  for (const auto& [what, value] : {std::pair("length", settings.length), {"multiple", settings.multiple}})
    if (value < 1 || value > most)
      fail(ExitCode::usage, "cannot pack documents with a {} of {} tokens: it must be from 1 to {}", what, value, most);
  if (settings.length % settings.multiple != 0)
    throw Error(ExitCode::usage,
                fmt::format("cannot pack documents into rows of {} tokens with padding to multiples of {}, which does "
                            "not divide {}",
                            settings.length, settings.multiple, settings.length),
                fmt::format("use rows of {} tokens", rounded_up(settings.length, settings.multiple)));
}

constexpr std::string_view padded_to = "documents padded to multiples of ";

std::size_t group_size(const PackingSettings& settings, std::size_t documents) {
  switch (settings.method) {
    case PackingMethod::none:
    case PackingMethod::sequential: return documents;
    case PackingMethod::multipack:
    case PackingMethod::best_fit:
    case PackingMethod::custom: return static_cast<std::size_t>(settings.group);
  }
  return documents;
}

}  // namespace

Packing::Packing(std::span<const std::uint64_t> starts, std::span<const std::uint64_t> begins,
                 std::span<const std::uint32_t> labels, const PackingCounts& counts, const Hash128& made_from,
                 std::shared_ptr<const void> owner, const MappedFile* file)
    : starts_(starts),
      begins_(begins),
      labels_(labels),
      counts_(counts),
      made_from_(made_from),
      owner_(std::move(owner)),
      file_(file) {}

void Packing::require_intact() const {
  if (file_ != nullptr) lockstep::require_intact(*file_);
}

std::int64_t Packing::documents(std::int64_t row) const {
  invariant(row >= 0 && row < rows(), "the row must be below the number of rows");
  const auto at = static_cast<std::size_t>(row);
  return static_cast<std::int64_t>(starts_[at + 1] - starts_[at]);
}

PackedDocument Packing::document(std::int64_t row, std::int64_t index) const {
  const std::size_t at = starts_[static_cast<std::size_t>(row)] + static_cast<std::size_t>(index);
  return {static_cast<std::int64_t>(begins_[at]), static_cast<std::int64_t>(labels_[at])};
}

std::vector<std::uint64_t> place_documents(PackingMethod method, std::span<const std::int64_t> costs,
                                           std::int64_t length) {
  switch (method) {
    case PackingMethod::none: {
      std::vector<std::uint64_t> rows(costs.size());
      std::iota(rows.begin(), rows.end(), 0);
      return rows;
    }
    case PackingMethod::sequential: return place_next_fit(costs, length);
    case PackingMethod::multipack: return place_longest_first<FirstFit>(costs, length);
    case PackingMethod::best_fit: return place_longest_first<BestFit>(costs, length);
    case PackingMethod::custom: break;
  }
  throw Error(ExitCode::bug, "unknown PackingMethod");
}

Hash128 hash_of_documents(const TokenStream& stream) {
  StreamHash hash;
  for (std::int64_t begin = 0; begin < stream.tokens(); begin += tokens_asked_for) {
    const std::vector<std::int64_t> starts = stream.document_starts(begin, begin + tokens_asked_for);
    hash.add(std::as_bytes(std::span(starts)));
  }
  return hash.digest();
}

Packing make_packing(const TokenStream& stream, const PackingSettings& settings, int threads) {
  check_packing(settings);
  const Cutter cutter = cut_documents(stream, settings);
  const std::vector<PackedDocument>& documents = cutter.documents;
  PackingCounts counts = cutter.counts();
  if (documents.empty())
    throw Error(ExitCode::input,
                fmt::format("none of {} documents can be packed: {} have no label, {} have only masked labels, {} are "
                            "longer than {} tokens",
                            counts.documents, counts.empty_documents, counts.masked_parts, counts.dropped_documents,
                            settings.length),
                "--data.long_documents split keeps long ones");

  const auto arrays = std::make_shared<PackedArrays>();
  arrays->begins.resize(documents.size());
  arrays->labels.resize(documents.size());
  const std::size_t size = group_size(settings, documents.size());
  std::vector<PackingGroup> groups((documents.size() + size - 1) / size);
  run_on_threads(threads, std::ssize(groups), [&](std::int64_t i) {
    PackingGroup& group = groups[static_cast<std::size_t>(i)];
    group.first = static_cast<std::size_t>(i) * size;
    group.count = std::min(size, documents.size() - group.first);
    pack_group(settings, documents, group, *arrays);
  });
  arrays->starts.push_back(0);
  for (const PackingGroup& group : groups) {
    for (const std::uint64_t count : group.sizes) {
      arrays->starts.push_back(arrays->starts.back() + count);
      counts.most_documents = std::max(counts.most_documents, static_cast<std::int64_t>(count));
    }
  }
  return {arrays->starts, arrays->begins, arrays->labels, counts, hash_of_documents(stream), arrays};
}

std::string to_text(const PackingSettings& settings) {
  std::string text;
  const auto add = [&text](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  switch (settings.method) {
    case PackingMethod::none: add("a row for each document"); break;
    case PackingMethod::sequential: add("sequential"); break;
    case PackingMethod::multipack: add(fmt::format("multipack of groups of {}", settings.group)); break;
    case PackingMethod::best_fit: add(fmt::format("best_fit of groups of {}", settings.group)); break;
    case PackingMethod::custom:
      add(fmt::format("{} of groups of {}", settings.by_user->identity, settings.group));
      break;
  }
  add(fmt::format("rows of {} tokens", settings.length));
  if (settings.multiple > 1) add(fmt::format("{}{}", padded_to, settings.multiple));
  switch (settings.long_documents) {
    case LongDocuments::split: add("long documents split"); break;
    case LongDocuments::truncate: add("long documents truncated"); break;
    case LongDocuments::drop: add("long documents dropped"); break;
  }
  return text;
}

std::int64_t multiple_in(std::string_view text) {
  std::int64_t multiple = 1;
  if (const std::size_t at = text.rfind(padded_to); at != std::string_view::npos)
    std::from_chars(text.data() + at + padded_to.size(), text.data() + text.size(), multiple);
  return multiple;
}

}  // namespace lockstep
