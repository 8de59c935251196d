#include "prepare/assemble.hpp"

#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/words.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "prepare/gather_values.hpp"
#include "prepare/lowest_draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

using Alive = std::function<void()>;

std::size_t index_of(DataSplit split) { return split == DataSplit::train ? 0 : 1; }
constexpr std::array both_splits{DataSplit::train, DataSplit::validation};

/// Tokens in the spill of this rank, and the bytes of text that they stand for.
struct TokenSource {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t text_bytes = 0;
};

/// Takes this rank's part of the streams in its order.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void start_document(DataSplit split) = 0;  // with the token that comes next
  virtual void append_joint(DataSplit split) = 0;    // the end-of-text token
  virtual void append(DataSplit split, const TokenSource& source) = 0;
};

/// What ranks have of a split, without joints, or what is in front of a rank.
struct Amount {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;  // that begin there
  std::uint64_t text_bytes = 0;

  void add(const Amount& more) {
    tokens += more.tokens;
    documents += more.documents;
    text_bytes += more.text_bytes;
  }
  /// Every document but the first of a stream has a joint before it, unless they have masks.
  std::int64_t stream_tokens(TokenMasks masks) const {
    return tokens + (masks == TokenMasks::absent ? std::max<std::int64_t>(documents - 1, 0) : 0);
  }
};
using Amounts = std::array<Amount, 2>;  // by index_of

/// All documents in one stream, called train.
Amounts in_one_stream(Amounts amounts) {
  amounts[0].add(std::exchange(amounts[1], {}));
  return amounts;
}

/// Of the ranks [0, end).
Amounts sum_of(const std::vector<Amounts>& ranks, std::size_t end) {
  Amounts sum{};
  for (std::size_t rank = 0; rank < end; ++rank) {
    for (std::size_t split = 0; split < sum.size(); ++split) sum[split].add(ranks[rank][split]);
  }
  return sum;
}

/// Sends one stream, called train, to both splits: validation begins at token `cut`.
class TailCut : public StreamSink {
 public:
  /// The next token is number `position` of the stream.
  TailCut(StreamSink& sink, std::int64_t cut, std::int64_t position)
      : sink_(sink), cut_(static_cast<std::uint64_t>(cut)), position_(static_cast<std::uint64_t>(position)) {}
  void start_document(DataSplit) override {
    if (position_ != cut_) sink_.start_document(position_ < cut_ ? DataSplit::train : DataSplit::validation);
  }
  void append_joint(DataSplit) override {
    sink_.append_joint(side());
    ++position_;
  }
  void append(DataSplit, const TokenSource& source) override {
    if (source.count == 0) return sink_.append(position_ < cut_ ? DataSplit::train : DataSplit::validation, source);
    TokenSource head = source;
    head.count = position_ < cut_ ? std::min(source.count, cut_ - position_) : source.count;
    head.text_bytes =
        head.count == source.count
            ? source.text_bytes  // else in proportion: a token's own bytes are not kept
            : static_cast<std::uint64_t>(static_cast<double>(source.text_bytes) * static_cast<double>(head.count) /
                                         static_cast<double>(source.count));
    sink_.append(side(), head);
    position_ += head.count;
    if (head.count < source.count)
      append({}, {source.first + head.count, source.count - head.count, source.text_bytes - head.text_bytes});
  }

 private:
  // The split of the next token. Whatever it is, validation starts with a document.
  DataSplit side() {
    if (position_ == cut_) sink_.start_document(DataSplit::validation);
    return position_ < cut_ ? DataSplit::train : DataSplit::validation;
  }

  StreamSink& sink_;
  std::uint64_t cut_;
  std::uint64_t position_;
};

/// This rank's documents in order, as they go into streams.
class OwnDocuments {
 public:
  /// `lowest`: of a validation by count.
  OwnDocuments(const TokenizedCorpus& corpus, const SpillReader& spill, const ValidationSplit& validation,
               const DrawThreshold& lowest, TokenMasks masks)
      : corpus_(corpus), spill_(spill), validation_(validation), lowest_(lowest), masks_(masks) {}

  /// `before`: what the streams have in front of this rank's part.
  void lay_out(const Amounts& before, StreamSink& sink, const Alive& alive) const {
    std::array<bool, 2> begun{before[0].documents > 0, before[1].documents > 0};
    each_fragment(alive, [&](DataSplit split, bool begins, const TokenSource& source) {
      if (begins) {
        const bool follows = std::exchange(begun[index_of(split)], true);
        if (follows && masks_ == TokenMasks::absent) sink.append_joint(split);
        sink.start_document(split);
      }
      sink.append(split, source);
    });
  }

  /// The draws of the documents that begin here.
  void each_draw(const Alive& alive, const std::function<void(std::uint64_t)>& use) const {
    each_own(alive, [&](std::uint64_t draw, bool begins, const TokenSource&) {
      if (begins) use(draw);
    });
  }

  Amounts amounts(const Alive& alive) const {
    Amounts sums{};
    each_fragment(alive, [&](DataSplit split, bool begins, const TokenSource& source) {
      sums[index_of(split)].add({static_cast<std::int64_t>(source.count), begins ? 1 : 0, source.text_bytes});
    });
    return sums;
  }

 private:
  void each_fragment(const Alive& alive,
                     const std::function<void(DataSplit, bool begins, const TokenSource&)>& take) const {
    std::int64_t ties = lowest_.ties_before;  // documents with the draw of the border, so far
    each_own(alive, [&](std::uint64_t draw, bool begins, const TokenSource& source) {
      if (begins && draw == lowest_.draw) ++ties;
      take(split_of(draw, ties), begins, source);
    });
  }

  void each_own(const Alive& alive,
                const std::function<void(std::uint64_t draw, bool begins, const TokenSource&)>& take) const {
    for (const TokenizedBlock& block : corpus_.blocks) {
      alive();
      if (block.left_out) continue;
      std::uint64_t token = block.first_token;
      const std::vector<Fragment> fragments = spill_.fragments(block.first_fragment, block.fragments);
      for (std::uint64_t f = 0; f < block.fragments; ++f) {
        const Fragment& fragment = fragments[f];
        const bool is_duplicate = !corpus_.duplicates.empty() && corpus_.duplicates[block.first_fragment + f];
        if (!is_duplicate)
          take(block.whole_documents ? fragment.draw : block.draw, block.whole_documents || block.begins_document,
               {token, fragment.tokens, fragment.text_bytes});
        token += fragment.tokens;
      }
    }
  }

  /// `ties`: documents up to this one, it too, that have the draw of the border.
  DataSplit split_of(std::uint64_t draw, std::int64_t ties) const {
    switch (validation_.by) {
      case ValidationSplit::Kind::none:
      case ValidationSplit::Kind::tail: return DataSplit::train;  // tail: cut later
      case ValidationSplit::Kind::hash:
        return static_cast<double>(draw >> 11) * 0x1p-53 < validation_.fraction ? DataSplit::validation
                                                                                : DataSplit::train;
      case ValidationSplit::Kind::count:
        return draw < lowest_.draw || (draw == lowest_.draw && ties <= lowest_.ties) ? DataSplit::validation
                                                                                     : DataSplit::train;
    }
    return DataSplit::train;
  }

  const TokenizedCorpus& corpus_;
  const SpillReader& spill_;
  ValidationSplit validation_;
  DrawThreshold lowest_;
  TokenMasks masks_;
};

/// What the streams will be, and this rank's place in them.
struct StreamPlan {
  ValidationSplit by;
  TokenMasks masks = TokenMasks::absent;
  Amounts before;        // of this rank, in the streams that documents go into: one, if a tail is cut off
  std::int64_t cut = 0;  // where the tail begins
  std::array<std::int64_t, 2> tokens{};
  std::array<std::int64_t, 2> position{};  // of this rank's first token in each split
  // Known once documents have been counted:
  std::array<std::int64_t, 2> documents_before{};  // that start in each split in front of this rank
  std::array<std::int64_t, 2> documents{};
  std::array<std::uint64_t, 2> text_bytes{};
  std::array<std::vector<std::int64_t>, 2> shard_documents{};  // that start in each shard
};

void lay_out(const OwnDocuments& documents, const StreamPlan& plan, StreamSink& sink, const Alive& alive) {
  TailCut tail(sink, plan.cut, plan.before[0].stream_tokens(plan.masks));
  documents.lay_out(plan.before, plan.by.by == ValidationSplit::Kind::tail ? static_cast<StreamSink&>(tail) : sink,
                    alive);
}

void require_joint(std::int64_t documents, const AssembleSettings& settings) {
  if (settings.end_of_text || settings.masks == TokenMasks::present || documents < 2) return;
  throw Error(ExitCode::input,
              fmt::format("cannot join {} documents: the tokenizer has no end-of-text token", documents),
              "name one of its tokens with --data.end_of_text");
}

void require_both_splits(const StreamPlan& plan, std::int64_t documents) {
  const auto refuse = [&](const char* split) {
    throw Error(ExitCode::input,
                fmt::format("data.validation {} leaves nothing for {}: the corpus has {}", plan.by.text(), split,
                            counted(documents, "document")),
                documents > 1
                    ? "--data.validation count:N takes N whole documents; none keeps everything for training"
                    : "--data.validation tail:FRACTION can cut within a document; none keeps everything for training");
  };
  if (plan.tokens[0] == 0) refuse("training");
  if (plan.tokens[1] == 0 && plan.by.by != ValidationSplit::Kind::none) refuse("validation");
}

/// Whether the fraction leaves a split empty, while there is more than one record. A tail would cut one in two.
bool one_record_validates(const std::vector<Amounts>& ranks) {
  const Amounts all = sum_of(ranks, ranks.size());
  const std::int64_t training = all[0].documents, validation = all[1].documents;
  return (training == 0 || validation == 0) && training + validation > 1;
}

/// The plan of `rank`, before documents are counted. Splits as asked for; where nothing was, by hash, or by the tail if
/// that leaves a split empty.
StreamPlan plan_streams(const ValidationSplit& wanted, const AssembleSettings& settings, std::vector<Amounts> ranks,
                        std::size_t rank) {
  StreamPlan plan;
  plan.by = wanted;
  plan.masks = settings.masks;
  Amounts all = sum_of(ranks, ranks.size());
  const std::int64_t documents = all[0].documents + all[1].documents;
  require_joint(documents, settings);
  if (!settings.validation && (all[0].documents == 0 || all[1].documents == 0))
    plan.by = {ValidationSplit::Kind::tail, wanted.fraction};
  const bool by_tail = plan.by.by == ValidationSplit::Kind::tail;
  if (by_tail) {
    for (Amounts& amounts : ranks) amounts = in_one_stream(amounts);
    all = in_one_stream(all);
  }
  plan.before = sum_of(ranks, rank);
  for (const DataSplit split : both_splits) {
    const std::size_t i = index_of(split);
    plan.tokens[i] = all[i].stream_tokens(plan.masks);
    plan.position[i] = plan.before[i].stream_tokens(plan.masks);
  }
  if (by_tail) {
    plan.cut = static_cast<std::int64_t>(std::floor(static_cast<double>(plan.tokens[0]) * (1 - plan.by.fraction)));
    plan.tokens = {plan.cut, plan.tokens[0] - plan.cut};
    plan.position = {std::min(plan.position[0], plan.cut), std::max<std::int64_t>(plan.position[0] - plan.cut, 0)};
  }
  require_both_splits(plan, documents);
  return plan;
}

/// Tokens of each shard but the last, so that there are as many as wanted.
std::int64_t tokens_of_shards(std::int64_t tokens, std::int64_t shards) {
  const auto parts = [tokens](std::int64_t size) { return (tokens + size - 1) / size; };
  const std::int64_t size = std::max<std::int64_t>(parts(shards), 1);
  if (parts(size) != shards) {
    throw Error(ExitCode::input,
                fmt::format("cannot divide {} into {} of equal length: {} each make {}", counted(tokens, "token"),
                            counted(shards, "shard"), counted(size, "token"), parts(size)),
                fmt::format("--data.shards {}", parts(size)));
  }
  return size;
}

/// Counts what this rank will write.
class Counter : public StreamSink {
 public:
  Counter(const StreamPlan& plan, std::int64_t shard_tokens) : position_(plan.position), shard_tokens_(shard_tokens) {
    for (std::size_t i = 0; i < shard_documents.size(); ++i)
      shard_documents[i].resize(static_cast<std::size_t>((plan.tokens[i] + shard_tokens - 1) / shard_tokens));
  }
  void start_document(DataSplit split) override {
    const std::size_t i = index_of(split);
    ++documents[i];
    ++shard_documents[i].at(static_cast<std::size_t>(position_[i] / shard_tokens_));
  }
  void append_joint(DataSplit split) override { ++position_[index_of(split)]; }
  void append(DataSplit split, const TokenSource& source) override {
    position_[index_of(split)] += static_cast<std::int64_t>(source.count);
    text_bytes[index_of(split)] += source.text_bytes;
  }
  std::array<std::int64_t, 2> documents{};
  std::array<std::uint64_t, 2> text_bytes{};
  std::array<std::vector<std::int64_t>, 2> shard_documents;

 private:
  std::array<std::int64_t, 2> position_;
  std::int64_t shard_tokens_;
};

/// Completes the plan with what the ranks have counted. Collective.
void add_counts(Communicator& world, Counter& own, StreamPlan& plan) {
  for (std::size_t i = 0; i < both_splits.size(); ++i) {
    const auto ranks = gather_values(world, own.documents[i]);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      plan.documents[i] += ranks[rank];
      if (std::cmp_less(rank, world.rank())) plan.documents_before[i] += ranks[rank];
    }
    for (const std::uint64_t bytes : gather_values(world, own.text_bytes[i])) plan.text_bytes[i] += bytes;
    std::vector<std::int64_t>& shards = plan.shard_documents[i] = std::move(own.shard_documents[i]);
    if (!shards.empty()) world.all_reduce(std::as_writable_bytes(std::span(shards)), DType::i64, Reduce::sum);
  }
}

/// The shards of both splits by number: those of validation follow.
struct ShardOfSplit {
  DataSplit split = DataSplit::train;
  std::int64_t number = 0;  // within the split
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::string file;
};

std::string shard_file(DataSplit split, std::int64_t number) {
  return fmt::format("{}/tokens-{:05}.h5", name_of(split), number);
}

/// The shards whose files this rank makes and describes, one after the other.
void for_own_shards(const Communicator& world, const StreamPlan& plan, std::int64_t shard_tokens,
                    const std::function<void(const ShardOfSplit&)>& use) {
  std::int64_t turn = 0;
  for (const DataSplit split : both_splits) {
    const std::vector<std::int64_t>& documents = plan.shard_documents[index_of(split)];
    for (std::int64_t number = 0; number < std::ssize(documents); ++number) {
      if (turn++ % world.size() != world.rank()) continue;
      const std::int64_t tokens = std::min(shard_tokens, plan.tokens[index_of(split)] - number * shard_tokens);
      use({split, number, tokens, documents[static_cast<std::size_t>(number)], shard_file(split, number)});
    }
  }
}

/// A part of a shard that a rank has written, with its content_sum.
struct WrittenPart {
  std::size_t split = 0;  // by index_of
  std::int64_t number = 0;
  std::uint64_t sum = 0;
};

/// Writes this rank's parts of the shards.
class Writer : public StreamSink {
 public:
  Writer(const AssembleSettings& settings, const StreamPlan& plan, const SpillReader& spill, const Alive& alive)
      : settings_(settings),
        plan_(plan),
        spill_(spill),
        alive_(alive),
        position_(plan.position),
        document_(plan.documents_before) {}

  void start_document(DataSplit split) override {
    shard_at(split).start_document();
    ++document_[index_of(split)];
  }
  void append_joint(DataSplit split) override {
    const auto end = static_cast<std::uint32_t>(settings_.end_of_text.value());
    shard_at(split).append({&end, 1});
    ++position_[index_of(split)];
  }
  void append(DataSplit split, const TokenSource& source) override {
    constexpr std::uint64_t most = std::uint64_t{1} << 16;
    for (std::uint64_t done = 0; done < source.count; done += buffer_.size()) {
      alive_();
      std::int64_t& position = position_[index_of(split)];
      const std::int64_t room = settings_.shard_tokens - position % settings_.shard_tokens;
      buffer_.resize(std::min({source.count - done, static_cast<std::uint64_t>(room), most}));
      spill_.copy_tokens(source.first + done, buffer_);
      if (plan_.masks == TokenMasks::present) {
        mask_.resize(buffer_.size());
        spill_.copy_mask(source.first + done, mask_);
      }
      shard_at(split).append(buffer_, mask_);
      position += std::ssize(buffer_);
    }
  }
  void finish() {
    for (Open& open : open_) close(open);
  }
  std::vector<WrittenPart> parts;  // of shards

 private:
  struct Open {
    DataSplit split = DataSplit::train;
    std::int64_t number = -1;
    std::unique_ptr<ShardWriter> shard;
  };

  void close(Open& open) {
    if (open.shard) parts.push_back({index_of(open.split), open.number, open.shard->finish()});
    open.shard.reset();
  }

  // The shard that the split's next token belongs into.
  ShardWriter& shard_at(DataSplit split) {
    const std::size_t i = index_of(split);
    const std::int64_t number = position_[i] / settings_.shard_tokens;
    Open& open = open_[i];
    if (open.shard && open.number == number) return *open.shard;
    close(open);
    open.split = split;
    open.number = number;
    open.shard = std::make_unique<ShardWriter>(settings_.folder / shard_file(split, number),
                                               position_[i] - number * settings_.shard_tokens,
                                               document_[i] - first_document(i, number));
    return *open.shard;
  }

  // How many documents start in front of a shard. Shards are asked for in their order.
  std::int64_t first_document(std::size_t split, std::int64_t number) {
    auto& [shard, documents] = counted_[split];
    for (; shard < number; ++shard) documents += plan_.shard_documents[split][static_cast<std::size_t>(shard)];
    return documents;
  }

  const AssembleSettings& settings_;
  const StreamPlan& plan_;
  const SpillReader& spill_;
  const Alive& alive_;
  std::array<std::int64_t, 2> position_;
  std::array<std::int64_t, 2> document_;
  std::array<std::pair<std::int64_t, std::int64_t>, 2> counted_{};  // so many shards, documents in them
  std::array<Open, 2> open_;
  std::vector<std::uint32_t> buffer_;
  std::vector<std::uint8_t> mask_;
};

/// The sums of what all ranks have written, by split and shard. Collective.
using ShardSums = std::array<std::vector<std::uint64_t>, 2>;
ShardSums gather_sums(Communicator& world, const StreamPlan& plan, const std::vector<WrittenPart>& own) {
  ShardSums sums;
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].resize(plan.shard_documents[i].size());
  for (const WrittenPart& part : gather_lists(world, own)) {
    std::uint64_t& sum = sums[part.split][static_cast<std::size_t>(part.number)];
    sum = add_content_sums(sum, part.sum);
  }
  return sums;
}

// All ranks' shards into the splits' entries, in order. Collective.
AssembledSplits gather_entries(Communicator& world, const StreamPlan& plan, std::int64_t shard_tokens,
                               const std::vector<ShardEntry>& own) {
  Json shards = Json::array();
  for (const ShardEntry& entry : own)
    shards.push_back({entry.file, entry.tokens, entry.documents, entry.bytes, to_hex(entry.hash)});
  AssembledSplits result{plan.by, shard_tokens, {}, {}};
  for (const DataSplit split : both_splits) {
    const std::size_t i = index_of(split);
    (split == DataSplit::train ? result.train : result.validation) = {
        plan.tokens[i], plan.documents[i], plan.text_bytes[i], {}};
  }
  for (const std::string& part : world.all_gather(to_text(shards))) {
    for (const Json& shard : parse_json(part, "shards")) {
      ShardEntry entry;
      entry.file = shard[0];
      entry.tokens = shard[1];
      entry.documents = shard[2];
      entry.bytes = shard[3];
      entry.hash = hash_from_hex(shard[4].get<std::string>());
      (entry.file.starts_with("train/") ? result.train : result.validation).shards.push_back(entry);
    }
  }
  for (SplitEntry* const split : {&result.train, &result.validation}) {
    std::ranges::sort(split->shards, {},
                      [](const ShardEntry& entry) { return std::pair(entry.file.size(), entry.file); });
    number_shards(*split);
  }
  return result;
}

}  // namespace

AssembledSplits assemble(Session& session, const TokenizedCorpus& corpus, const AssembleSettings& given) {
  AssembleSettings settings = given;
  constexpr double usual_fraction = 0.01;
  ValidationSplit wanted = settings.validation.value_or(ValidationSplit{ValidationSplit::Kind::hash, usual_fraction});
  Communicator& world = session.world();
  std::unique_ptr<SpillReader> spill;
  DrawThreshold lowest;
  const auto own_documents = [&](const ValidationSplit& by) {
    return OwnDocuments(corpus, *spill, by, lowest, settings.masks);
  };
  together(world, "count documents",
           [&] { spill = std::make_unique<SpillReader>(corpus.spill, settings.token_bytes); });
  const auto amounts_of_ranks = [&] {
    if (wanted.by == ValidationSplit::Kind::count)
      lowest =
          lowest_draws(session, wanted.count, [&](const Alive& alive, const std::function<void(std::uint64_t)>& use) {
            own_documents(wanted).each_draw(alive, use);
          });
    Amounts own{};
    long_work_together(session, "count documents",
                       [&](const Alive& alive) { own = own_documents(wanted).amounts(alive); });
    return gather_values(world, own);
  };
  std::vector<Amounts> ranks = amounts_of_ranks();
  if (!settings.validation && settings.masks == TokenMasks::present && one_record_validates(ranks)) {
    wanted = {ValidationSplit::Kind::count, {}, 1};
    ranks = amounts_of_ranks();
  }
  StreamPlan plan;
  together(world, "write token shards", [&] {
    plan = plan_streams(wanted, settings, ranks, static_cast<std::size_t>(world.rank()));
    if (settings.shards) settings.shard_tokens = tokens_of_shards(plan.tokens[0], *settings.shards);
  });
  Counter counter(plan, settings.shard_tokens);
  long_work_together(session, "count documents",
                     [&](const Alive& alive) { lay_out(own_documents(plan.by), plan, counter, alive); });
  add_counts(world, counter, plan);
  long_work_together(session, "make token shards", [&](const Alive& alive) {
    for (const DataSplit split : both_splits) {
      if (plan.tokens[index_of(split)] > 0) make_folder(settings.folder / name_of(split));
    }
    for_own_shards(world, plan, settings.shard_tokens, [&](const ShardOfSplit& shard) {
      alive();
      create_shard(settings.folder / shard.file, settings.token_bytes, shard.tokens, shard.documents, settings.masks);
    });
  });
  std::vector<WrittenPart> parts;
  long_work_together(session, "write token shards", [&](const Alive& alive) {
    Writer writer(settings, plan, *spill, alive);
    lay_out(own_documents(plan.by), plan, writer, alive);
    writer.finish();
    parts = std::move(writer.parts);
  });
  const ShardSums sums = gather_sums(world, plan, parts);
  std::vector<ShardEntry> entries;
  long_work_together(session, "hash token shards", [&](const Alive& alive) {
    for_own_shards(world, plan, settings.shard_tokens, [&](const ShardOfSplit& shard) {
      const std::uint64_t written = sums[index_of(shard.split)][static_cast<std::size_t>(shard.number)];
      entries.push_back(describe_shard(settings.folder / shard.file, written, alive));
      entries.back().file = shard.file;
    });
  });
  return gather_entries(world, plan, settings.shard_tokens, entries);
}

}  // namespace lockstep
