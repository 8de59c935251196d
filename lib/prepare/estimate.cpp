#include "prepare/estimate.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "prepare/message_format.hpp"
#include "prepare/record_reader.hpp"
#include "prepare/sample_shape.hpp"
#include "prepare/token_spill.hpp"
#include "readers/block_reader.hpp"
#include "readers/json_lines.hpp"
#include "readers/json_records.hpp"
#include "tokenizer/tokenizers.hpp"
#include "unicode/utf8.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr std::uint64_t sampled_places = 64;
constexpr int blocks_of_a_stream = 4;  // that are read of a file which is read from its start
constexpr std::uint64_t shard_head_bytes = 4096;

/// What a part of the input says of files of one kind.
struct InputKind {
  std::uint64_t bytes = 0;  // of all its files
  std::uint64_t sample_bytes = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t documents = 0;       // of records; a text is one
  std::uint64_t tokens = 0;          // of samples made of records
  std::uint64_t trained_tokens = 0;  // of them, that count as labels
};

struct InputSample {
  std::map<std::pair<TextFormat, Compression>, InputKind> kinds;
  double seconds = 0;
  std::uint64_t sum(std::uint64_t InputKind::* member) const {
    std::uint64_t total = 0;
    for (const auto& [name, kind] : kinds) total += kind.*member;
    return total;
  }
  /// Of all files, as if the rest of each kind were like what was read of it.
  double extrapolated(std::uint64_t InputKind::* member) const {
    double total = 0;
    for (const auto& [name, kind] : kinds) {
      if (kind.sample_bytes == 0) continue;
      const double scale = static_cast<double>(kind.bytes) / static_cast<double>(kind.sample_bytes);
      total += static_cast<double>(kind.*member) * scale;
    }
    return total;
  }
};

using SkipText = std::function<void(const BadText& problem)>;

/// Counts what blocks hold, of files of their kind.
class BlockCounter {
 public:
  virtual ~BlockCounter() = default;
  virtual void count(TextBlock& block, InputKind& kind, const SkipText& skip) = 0;
};

/// Keeps the texts.
class TextCounter : public BlockCounter {
 public:
  explicit TextCounter(const std::string& text_field) : lines_(text_field) {}

  void count(TextBlock& block, InputKind& kind, const SkipText& skip) override {
    const auto take = [&](std::string_view text) {
      kind.text_bytes += text.size();
      texts.emplace_back(text);
    };
    if (block.file->has_records()) {
      const std::size_t before = texts.size();
      lines_.for_each(block, take, skip);
      kind.documents += texts.size() - before;
      return;
    }
    try {
      require_utf8(block);
      take(block.text);
    } catch (const BadText& problem) {
      skip(problem);
    }
  }

  std::vector<std::string> texts;

 private:
  JsonLines lines_;
};

/// Makes samples of records.
class RecordCounter : public BlockCounter {
 public:
  RecordCounter(const Tokenizer& tokenizer, const PrepareDataOptions& options)
      : messages_(message_format(options, tokenizer)),
        reader_(record_reader(tokenizer, options.records, messages_.get())),
        shape_(sample_shape(tokenizer, options.records)) {}

  void count(TextBlock& block, InputKind& kind, const SkipText& skip) override {
    records_.for_each(
        block,
        [&](const simdjson::dom::object& record) {
          Sample sample = reader_->read(record);
          const std::uint64_t text_bytes = sample.text_bytes;
          RecordCounts counts;
          shape_.apply(std::move(sample), [](auto, auto) {}, counts);
          kind.documents += static_cast<std::uint64_t>(counts.samples);
          kind.tokens += static_cast<std::uint64_t>(counts.tokens);
          kind.trained_tokens += static_cast<std::uint64_t>(counts.trained_tokens);
          if (counts.samples > 0) kind.text_bytes += text_bytes;
        },
        skip);
  }

 private:
  std::shared_ptr<const MessageFormat> messages_;
  std::unique_ptr<RecordReader> reader_;
  SampleShape shape_;
  JsonRecords records_;
};

/// Reads parts of the input.
class InputSampler {
 public:
  InputSampler(const std::vector<InputFile>& files, OnMalformed malformed, BlockCounter& counter,
               const std::function<void()>& alive)
      : files_(files), malformed_(malformed), counter_(counter), alive_(alive) {
    for (const InputFile& file : files) kind_of_file(file).bytes += file.bytes;
  }

  InputSample take() {
    const double start_s = monotonic_seconds();
    std::uint64_t total = 0;
    for (const InputFile& file : files_) total += file.bytes;
    std::set<std::pair<std::size_t, std::uint64_t>> taken;  // files and blocks
    for (std::uint64_t place = 0; place < sampled_places; ++place) {
      const auto [file, offset] = at_byte((total * place + total / 2) / sampled_places);
      const bool plain = files_[file].is_plain();
      const std::uint64_t block = plain ? offset / input_block_bytes : 0;
      if (taken.emplace(file, block).second) read({file, block, plain ? std::optional(block + 1) : std::nullopt});
    }
    sample_.seconds = monotonic_seconds() - start_s;
    return std::move(sample_);
  }

 private:
  InputKind& kind_of_file(const InputFile& file) { return sample_.kinds[{file.format, file.compression}]; }

  std::pair<std::size_t, std::uint64_t> at_byte(std::uint64_t byte) const {
    std::size_t file = 0;
    for (; file + 1 < files_.size() && byte >= files_[file].bytes; ++file) byte -= files_[file].bytes;
    return {file, std::min(byte, std::max<std::uint64_t>(files_[file].bytes, 1) - 1)};
  }

  // Cuts do not matter to an estimate: white space will do.
  static std::size_t cut(std::string_view text) {
    const std::size_t last = text.find_last_of(" \n");
    return last == std::string_view::npos ? whole_code_points(text) : last;
  }

  void read(const InputPart& part) {
    const InputFile& file = files_[part.file];
    InputKind& kind = kind_of_file(file);
    const SkipText skip = [&](const BadText& problem) {
      if (malformed_ == OnMalformed::stop) throw problem;
    };
    try {
      BlockReader reader(files_, {part}, cut);
      TextBlock block;
      std::uint64_t block_bytes = 0;
      int blocks = 0;
      for (; (part.end_block || blocks < blocks_of_a_stream) && reader.next(block); ++blocks) {
        alive_();
        block_bytes += block.text.size();
        counter_.count(block, kind, skip);
      }
      // Of a stream what was read ahead is not of the sample, unless that is all of it.
      kind.sample_bytes += part.end_block ? block_bytes : std::min(reader.consumed(), file.bytes);
    } catch (const BadText& bad) {
      LineCounter lines(alive_);
      throw error_of(bad, lines);
    }
  }

  const std::vector<InputFile>& files_;
  OnMalformed malformed_;
  BlockCounter& counter_;
  const std::function<void()>& alive_;
  InputSample sample_;
};

std::unique_ptr<Tokenizer> tokenizer_for(const PrepareDataOptions& options, const std::vector<std::string>& texts) {
  const std::string end_name = options.end_of_text.value_or("");
  const TokenizerChoice choice = options.tokenizer_or_bytes();
  if (choice.kind != TokenizerChoice::Kind::chars)
    return make_tokenizer(choice.text(), end_name, options.special_tokens_in_text());
  std::set<char32_t> found;
  for (const std::string& text : texts) {
    for (std::size_t at = 0; at < text.size();) found.insert(next_code_point(text, at));
  }
  return chars_tokenizer({found.begin(), found.end()}, end_name.empty() ? default_end_name : end_name,
                         options.special_tokens_in_text());
}

std::size_t tokens_of(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                      const std::function<void()>& alive) {
  std::size_t tokens = 0;
  const auto encoder = tokenizer.encoder();
  std::vector<std::int32_t> ids;
  for (const std::string& text : texts) {
    alive();
    ids.clear();
    encoder->encode(text, ids);
    tokens += ids.size();
  }
  return tokens;
}

std::string about(double count) { return count < 1000 ? fmt::format("{:.0f}", count) : human_count(count); }

std::uint64_t whole(double bytes) { return static_cast<std::uint64_t>(std::llround(bytes)); }

}  // namespace

PreparationEstimate estimate_preparation(const std::vector<InputFile>& files, const PrepareDataOptions& options,
                                         int ranks, int threads, const std::function<void()>& alive) {
  const bool is_text = options.records.form == RecordForm::text;
  std::unique_ptr<Tokenizer> tokenizer = is_text ? nullptr : tokenizer_for(options, {});
  TextCounter texts(options.text_field);
  std::optional<RecordCounter> records;
  if (!is_text) records.emplace(*tokenizer, options);
  BlockCounter& counter = is_text ? static_cast<BlockCounter&>(texts) : *records;
  const InputSample sample = InputSampler(files, options.malformed, counter, alive).take();

  PreparationEstimate estimate;
  estimate.input_bytes = sample.sum(&InputKind::bytes);
  estimate.sample_bytes = sample.sum(&InputKind::sample_bytes);
  estimate.sample_text_bytes = sample.sum(&InputKind::text_bytes);
  estimate.is_whole = estimate.sample_bytes >= estimate.input_bytes;
  estimate.text_bytes = sample.extrapolated(&InputKind::text_bytes);
  estimate.documents = sample.extrapolated(&InputKind::documents);
  double seconds = sample.seconds;
  double scale = static_cast<double>(estimate.input_bytes) /
                 static_cast<double>(std::max<std::uint64_t>(estimate.sample_bytes, 1));
  if (is_text) {
    for (const InputFile& file : files) estimate.documents += file.has_records() ? 0 : 1;
    if (estimate.sample_text_bytes == 0)
      fail(ExitCode::input, "cannot estimate: the sample of {} holds no text", human_bytes(estimate.sample_bytes));
    tokenizer = tokenizer_for(options, texts.texts);
    const double start_s = monotonic_seconds();
    const std::size_t tokens = tokens_of(texts.texts, *tokenizer, alive);
    seconds += monotonic_seconds() - start_s;
    scale = estimate.text_bytes / static_cast<double>(estimate.sample_text_bytes);
    estimate.tokens = static_cast<double>(tokens) * scale + std::max(estimate.documents - 1, 0.0);
    estimate.bytes_per_token =
        static_cast<double>(estimate.sample_text_bytes) / static_cast<double>(std::max<std::size_t>(tokens, 1));
  } else {
    estimate.tokens = sample.extrapolated(&InputKind::tokens);
    estimate.trained_tokens = sample.extrapolated(&InputKind::trained_tokens);
    if (estimate.tokens == 0)
      fail(ExitCode::input, "cannot estimate: no record in the sample of {} becomes a sample to train on",
           human_bytes(estimate.sample_bytes));
    estimate.bytes_per_token = estimate.text_bytes / estimate.tokens;
  }
  estimate.vocabulary = tokenizer->vocabulary();
  estimate.shards = options.shards ? static_cast<double>(*options.shards)
                                   : std::ceil(estimate.tokens / static_cast<double>(options.shard_tokens));
  estimate.seconds = seconds * scale / (static_cast<double>(ranks) * threads);
  const double token_bytes = (estimate.vocabulary <= 65536 ? 2 : 4) + (is_text ? 0 : 1);  // with its place in the mask
  estimate.dataset_bytes = estimate.tokens * token_bytes + estimate.documents * sizeof(std::uint64_t) +
                           estimate.shards * static_cast<double>(shard_head_bytes);
  for (const TokenizerFile& file : tokenizer->files())
    estimate.dataset_bytes += static_cast<double>(file.content.size());
  estimate.scratch_bytes = estimate.tokens * token_bytes + estimate.documents * sizeof(Fragment);
  return estimate;
}

Json json_of(const PreparationEstimate& estimate) {
  Json json{{"input_bytes", estimate.input_bytes},
            {"sample_bytes", estimate.sample_bytes},
            {"sample_text_bytes", estimate.sample_text_bytes},
            {"whole_input", estimate.is_whole},
            {"text_bytes", whole(estimate.text_bytes)},
            {"documents", whole(estimate.documents)},
            {"tokens", whole(estimate.tokens)},
            {"bytes_per_token", estimate.bytes_per_token},
            {"shards", whole(estimate.shards)},
            {"seconds", estimate.seconds},
            {"dataset_bytes", whole(estimate.dataset_bytes)},
            {"scratch_bytes", whole(estimate.scratch_bytes)}};
  if (estimate.trained_tokens) json["trained_tokens"] = whole(*estimate.trained_tokens);
  return json;
}

std::string text_of(const PreparationEstimate& estimate, std::uint64_t free_bytes) {
  const double needed = estimate.dataset_bytes + estimate.scratch_bytes;
  std::string text = fmt::format(
      "estimated from {}:\n  about {} tokens{} of {} in {} {}, {:.2f} bytes/token, {} shards\n  about {} on these "
      "ranks and threads\n  about {} of disk, and {} more during preparation ({} free)\n",
      estimate.is_whole ? "all of the input" : fmt::format("{} of the input", human_bytes(estimate.sample_bytes)),
      about(estimate.tokens),
      estimate.trained_tokens ? fmt::format(" (labels: about {})", about(*estimate.trained_tokens)) : "",
      human_bytes(whole(estimate.text_bytes)), about(estimate.documents),
      estimate.trained_tokens ? "samples" : "documents", estimate.bytes_per_token, about(estimate.shards),
      human_seconds(estimate.seconds), human_bytes(whole(estimate.dataset_bytes)),
      human_bytes(whole(estimate.scratch_bytes)), human_bytes(free_bytes));
  if (needed > static_cast<double>(free_bytes)) text += "  this is more than the free disk space\n";
  return text;
}

}  // namespace lockstep
