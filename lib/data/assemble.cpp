#include "data/assemble.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "data/long_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

std::size_t index_of(DataSplit split) { return split == DataSplit::train ? 0 : 1; }

/// Tokens in the spill of a rank, and the bytes of text that they stand for.
struct TokenSource {
  std::int64_t rank = 0;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t text_bytes = 0;
};

/// Takes the streams in their order.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void start_document(DataSplit split) = 0;  // with the token that comes next
  virtual void append_joint(DataSplit split) = 0;    // the end-of-text token
  virtual void append(DataSplit split, const TokenSource& source) = 0;
};

/// Sends one stream, called train, to both splits: validation begins at token `cut`.
class TailCut : public StreamSink {
 public:
  TailCut(StreamSink& sink, std::int64_t cut) : sink_(sink), cut_(static_cast<std::uint64_t>(cut)) {}
  void start_document(DataSplit) override {
    if (position_ != cut_) sink_.start_document(position_ < cut_ ? DataSplit::train : DataSplit::validation);
  }
  void append_joint(DataSplit) override {
    sink_.append_joint(side());
    ++position_;
  }
  void append(DataSplit, const TokenSource& source) override {
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
      append({},
             {source.rank, source.first + head.count, source.count - head.count, source.text_bytes - head.text_bytes});
  }

 private:
  // The split of the next token. Whatever it is, validation starts with a document.
  DataSplit side() {
    if (position_ == cut_) sink_.start_document(DataSplit::validation);
    return position_ < cut_ ? DataSplit::train : DataSplit::validation;
  }

  StreamSink& sink_;
  std::uint64_t cut_;
  std::uint64_t position_ = 0;
};

struct SplitPlan {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::uint64_t text_bytes = 0;
  std::vector<std::int64_t> shard_documents;  // that start in each shard
};
using Plans = std::array<SplitPlan, 2>;  // by index_of

class Counter : public StreamSink {
 public:
  explicit Counter(std::int64_t shard_tokens) : shard_tokens_(shard_tokens) {}
  void start_document(DataSplit split) override {
    SplitPlan& plan = plans[index_of(split)];
    ++plan.documents;
    plan.shard_documents.resize(static_cast<std::size_t>(plan.tokens / shard_tokens_) + 1);
    ++plan.shard_documents.back();
  }
  void append_joint(DataSplit split) override { add(plans[index_of(split)], 1); }
  void append(DataSplit split, const TokenSource& source) override {
    SplitPlan& plan = plans[index_of(split)];
    add(plan, static_cast<std::int64_t>(source.count));
    plan.text_bytes += source.text_bytes;
  }
  Plans plans;

 private:
  void add(SplitPlan& plan, std::int64_t tokens) const {
    plan.tokens += tokens;
    plan.shard_documents.resize(static_cast<std::size_t>((plan.tokens + shard_tokens_ - 1) / shard_tokens_));
  }
  std::int64_t shard_tokens_;
};

/// Writes those shards that are this rank's.
class Writer : public StreamSink {
 public:
  Writer(const Communicator& world, const AssembleSettings& settings, const Plans& plans,
         const std::vector<SpillReader>& spills, const std::function<void()>& alive)
      : world_(world), settings_(settings), plans_(plans), spills_(spills), alive_(alive) {}

  void start_document(DataSplit split) override {
    if (ShardWriter* const shard = shard_at(split)) shard->start_document();
  }
  void append_joint(DataSplit split) override {
    const auto end = static_cast<std::uint32_t>(settings_.end_of_text.value());
    if (ShardWriter* const shard = shard_at(split)) shard->append({&end, 1});
    advance(split, 1);
  }
  void append(DataSplit split, const TokenSource& source) override {
    alive_();
    for (std::uint64_t done = 0; done < source.count;) {
      const std::int64_t room = settings_.shard_tokens - position_[index_of(split)] % settings_.shard_tokens;
      const std::uint64_t count = std::min(source.count - done, static_cast<std::uint64_t>(room));
      if (ShardWriter* const shard = shard_at(split)) copy(source, done, count, *shard);
      advance(split, static_cast<std::int64_t>(count));
      done += count;
    }
  }
  /// Finished shards of this rank by number, "" elsewhere.
  std::array<std::vector<ShardEntry>, 2> entries;

 private:
  // The shard that the split's next token belongs into, if this rank writes it.
  ShardWriter* shard_at(DataSplit split) {
    const std::size_t which = index_of(split);
    const SplitPlan& plan = plans_[which];
    const std::int64_t number = position_[which] / settings_.shard_tokens;
    const auto before = split == DataSplit::train ? 0 : static_cast<std::int64_t>(plans_[0].shard_documents.size());
    if ((before + number) % world_.size() != world_.rank()) return nullptr;
    if (!open_[which]) {
      const std::int64_t first = number * settings_.shard_tokens;
      file_[which] = fmt::format("{}/tokens-{:05}.h5", name_of(split), number);
      open_[which] = std::make_unique<ShardWriter>(settings_.folder / file_[which], settings_.token_bytes,
                                                   std::min(settings_.shard_tokens, plan.tokens - first),
                                                   plan.shard_documents[static_cast<std::size_t>(number)]);
    }
    return open_[which].get();
  }

  void advance(DataSplit split, std::int64_t tokens) {
    const std::size_t which = index_of(split);
    position_[which] += tokens;
    const bool shard_is_full =
        position_[which] % settings_.shard_tokens == 0 || position_[which] == plans_[which].tokens;
    if (!shard_is_full || !open_[which]) return;
    entries[which].push_back(open_[which]->finish());
    entries[which].back().file = file_[which];
    open_[which].reset();
  }

  void copy(const TokenSource& source, std::uint64_t done, std::uint64_t count, ShardWriter& shard) {
    constexpr std::uint64_t most = std::uint64_t{1} << 16;
    while (count > 0) {
      buffer_.resize(std::min(count, most));
      spills_[static_cast<std::size_t>(source.rank)].copy_tokens(source.first + done, buffer_);
      shard.append(buffer_);
      done += buffer_.size();
      count -= buffer_.size();
    }
  }

  const Communicator& world_;
  const AssembleSettings& settings_;
  const Plans& plans_;
  const std::vector<SpillReader>& spills_;
  const std::function<void()>& alive_;
  std::array<std::int64_t, 2> position_{};
  std::array<std::unique_ptr<ShardWriter>, 2> open_;
  std::array<std::string, 2> file_;
  std::vector<std::uint32_t> buffer_;
};

/// Walks the documents in order and lays them out into streams.
class Streams {
 public:
  Streams(const TokenizedCorpus& corpus, const std::vector<SpillReader>& spills, const ValidationSplit& validation)
      : corpus_(corpus), spills_(spills), validation_(validation) {
    if (validation.by == ValidationSplit::By::hash) choose_text_splits();
  }

  void lay_out(StreamSink& sink) const {
    std::array<bool, 2> begun{};
    for (std::size_t b = 0; b < corpus_.blocks.size(); ++b) {
      const TokenizedBlock& block = corpus_.blocks[b];
      std::uint64_t token = block.first_token;
      for (std::uint64_t f = 0; f < block.fragments; ++f) {
        const Fragment fragment = fragment_of(block, f);
        const DataSplit split = block.whole_documents  ? split_of(fragment)
                                : text_splits_.empty() ? DataSplit::train
                                                       : text_splits_[b];
        if (block.whole_documents || block.begins_document) {
          bool& stream_begun = begun[index_of(split)];
          if (stream_begun) sink.append_joint(split);
          sink.start_document(split);
          stream_begun = true;
        }
        sink.append(split, {block.rank, token, fragment.tokens, fragment.text_bytes});
        token += fragment.tokens;
      }
    }
  }

 private:
  Fragment fragment_of(const TokenizedBlock& block, std::uint64_t f) const {
    return spills_[static_cast<std::size_t>(block.rank)].fragment(block.first_fragment + f);
  }

  DataSplit split_of(const Fragment& document) const {
    if (validation_.by != ValidationSplit::By::hash) return DataSplit::train;  // tail: cut later
    return static_cast<double>(document.draw >> 11) * 0x1p-53 < validation_.fraction ? DataSplit::validation
                                                                                     : DataSplit::train;
  }

  // The split of a .txt document is known with its last block.
  void choose_text_splits() {
    text_splits_.resize(corpus_.blocks.size());
    std::size_t first = 0;
    for (std::size_t b = 0; b < corpus_.blocks.size(); ++b) {
      const TokenizedBlock& block = corpus_.blocks[b];
      if (block.begins_document) first = b;
      if (block.ends_document)
        std::fill(text_splits_.begin() + static_cast<std::ptrdiff_t>(first),
                  text_splits_.begin() + static_cast<std::ptrdiff_t>(b) + 1, split_of(fragment_of(block, 0)));
    }
  }

  const TokenizedCorpus& corpus_;
  const std::vector<SpillReader>& spills_;
  ValidationSplit validation_;
  std::vector<DataSplit> text_splits_;  // by block; empty unless documents are split by hash
};

void require_joint(const Plans& plans, const AssembleSettings& settings) {
  const std::int64_t documents = plans[0].documents + plans[1].documents;
  if (settings.end_of_text || documents < 2) return;
  throw Error(ExitCode::input,
              fmt::format("cannot join {} documents: the tokenizer has no end-of-text token", documents),
              "name one of its tokens with --data.end_of_text");
}

void require_both_splits(const Plans& plans, const ValidationSplit& validation) {
  const std::int64_t documents = plans[0].documents + plans[1].documents;
  const auto refuse = [&](const char* split) {
    throw Error(ExitCode::input,
                fmt::format("data.validation {} leaves nothing for {}: the corpus has {}", validation.text(), split,
                            counted(documents, "document")),
                "--data.validation tail:FRACTION cuts the stream at any place; none keeps everything for training");
  };
  if (plans[0].tokens == 0) refuse("training");
  if (plans[1].tokens == 0 && validation.by != ValidationSplit::By::none) refuse("validation");
}

/// What the streams will be, walked without writing, and where the tail begins if it is cut off.
struct Layouts {
  ValidationSplit by;
  Plans plans;
  std::int64_t cut = 0;
};

// Where validation begins in a stream of `tokens`.
std::int64_t tail_cut(std::int64_t tokens, double fraction) {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(tokens) * (1 - fraction)));
}

void lay_out(const Streams& streams, const Layouts& layouts, StreamSink& sink) {
  TailCut tail(sink, layouts.cut);
  streams.lay_out(layouts.by.by == ValidationSplit::By::tail ? static_cast<StreamSink&>(tail) : sink);
}

Layouts layouts_by(const ValidationSplit& validation, const TokenizedCorpus& corpus,
                   const std::vector<SpillReader>& spills, const AssembleSettings& settings) {
  const Streams streams(corpus, spills, validation);
  Layouts layouts{validation, {}, 0};
  Counter counter(settings.shard_tokens);
  streams.lay_out(counter);
  require_joint(counter.plans, settings);
  if (validation.by == ValidationSplit::By::tail) {
    layouts.cut = tail_cut(counter.plans[0].tokens, validation.fraction);
    counter.plans = {};
    lay_out(streams, layouts, counter);
  }
  layouts.plans = counter.plans;
  return layouts;
}

/// As asked for; where nothing was, by hash, or by the tail if that leaves a split empty.
Layouts choose_layouts(const TokenizedCorpus& corpus, const std::vector<SpillReader>& spills,
                       const AssembleSettings& settings) {
  constexpr double fraction = 0.01;
  const ValidationSplit wanted = settings.validation.value_or(ValidationSplit{ValidationSplit::By::hash, fraction});
  Layouts layouts = layouts_by(wanted, corpus, spills, settings);
  const bool lacks_one = layouts.plans[0].tokens == 0 || layouts.plans[1].tokens == 0;
  if (!settings.validation && lacks_one)
    layouts = layouts_by({ValidationSplit::By::tail, fraction}, corpus, spills, settings);
  require_both_splits(layouts.plans, layouts.by);
  return layouts;
}

SplitEntry entry_of(const SplitPlan& plan) { return {plan.tokens, plan.documents, plan.text_bytes, {}}; }

// All ranks' shards into the splits' entries, in order. Collective.
AssembledSplits gather_entries(Communicator& world, const Plans& plans,
                               const std::array<std::vector<ShardEntry>, 2>& own) {
  Json shards = Json::array();
  for (const auto& entries : own) {
    for (const ShardEntry& entry : entries)
      shards.push_back({entry.file, entry.tokens, entry.documents, entry.bytes, to_hex(entry.hash)});
  }
  AssembledSplits result{{}, entry_of(plans[0]), entry_of(plans[1])};
  for (const std::string& part : world.all_gather(to_text(shards))) {
    for (const Json& shard : parse_json(part, "shards")) {
      const ShardEntry entry{shard[0], shard[1], shard[2], shard[3], hash_from_hex(shard[4].get<std::string>())};
      (entry.file.starts_with("train/") ? result.train : result.validation).shards.push_back(entry);
    }
  }
  const auto number = [](const ShardEntry& entry) { return std::pair(entry.file.size(), entry.file); };
  std::ranges::sort(result.train.shards, {}, number);
  std::ranges::sort(result.validation.shards, {}, number);
  return result;
}

}  // namespace

AssembledSplits assemble(Session& session, const TokenizedCorpus& corpus, const AssembleSettings& settings) {
  Communicator& world = session.world();
  Layouts layouts;
  std::array<std::vector<ShardEntry>, 2> entries;
  long_work_together(session, "write token shards", [&](const std::function<void()>& alive) {
    std::vector<SpillReader> spills;
    for (int rank = 0; rank < world.size(); ++rank)
      spills.emplace_back(settings.spill_folder, rank, settings.token_bytes);
    layouts = choose_layouts(corpus, spills, settings);
    for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
      if (layouts.plans[index_of(split)].tokens > 0) make_folder(settings.folder / name_of(split));
    }
    Writer writer(world, settings, layouts.plans, spills, alive);
    lay_out(Streams(corpus, spills, layouts.by), layouts, writer);
    entries = std::move(writer.entries);
  });
  AssembledSplits splits = gather_entries(world, layouts.plans, entries);
  splits.by = layouts.by;
  return splits;
}

}  // namespace lockstep
