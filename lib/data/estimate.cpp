#include "data/estimate.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "corpus/block_reader.hpp"
#include "corpus/json_lines.hpp"
#include "corpus/tokenizers.hpp"
#include "corpus/utf8.hpp"
#include "data/token_spill.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr std::uint64_t places = 64;
constexpr int blocks_of_a_stream = 4;  // that are read of a file which is read from its start
constexpr std::uint64_t shard_head_bytes = 4096;

/// What a sample says of files of one kind.
struct Kind {
  std::uint64_t bytes = 0;  // of all its files
  std::uint64_t sample_bytes = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t documents = 0;  // of records; a text is one
};

struct Sample {
  std::map<std::pair<TextFormat, Compression>, Kind> kinds;
  std::vector<std::string> texts;
  double read_seconds = 0;
  std::uint64_t bytes() const { return sum(&Kind::sample_bytes); }
  std::uint64_t text_bytes() const { return sum(&Kind::text_bytes); }

 private:
  std::uint64_t sum(std::uint64_t Kind::* member) const {
    std::uint64_t total = 0;
    for (const auto& [name, kind] : kinds) total += kind.*member;
    return total;
  }
};

class Sampler {
 public:
  Sampler(const std::vector<InputFile>& files, const PrepareDataOptions& options, const std::function<void()>& alive)
      : files_(files), options_(options), lines_(options.text_field), alive_(alive) {
    for (const InputFile& file : files) kind_of_file(file).bytes += file.bytes;
  }

  Sample take() {
    const double start_s = monotonic_seconds();
    std::uint64_t total = 0;
    for (const InputFile& file : files_) total += file.bytes;
    std::set<std::pair<std::size_t, std::uint64_t>> taken;  // files and blocks
    for (std::uint64_t place = 0; place < places; ++place) {
      const auto [file, offset] = at_byte((total * place + total / 2) / places);
      const bool plain = files_[file].is_plain();
      const std::uint64_t block = plain ? offset / input_block_bytes : 0;
      if (taken.emplace(file, block).second) read({file, block, plain ? std::optional(block + 1) : std::nullopt});
    }
    sample_.read_seconds = monotonic_seconds() - start_s;
    return std::move(sample_);
  }

 private:
  Kind& kind_of_file(const InputFile& file) { return sample_.kinds[{file.format, file.compression}]; }

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
    Kind& kind = kind_of_file(file);
    try {
      BlockReader reader(files_, {part}, cut);
      TextBlock block;
      std::uint64_t block_bytes = 0;
      int blocks = 0;
      for (; (part.end_block || blocks < blocks_of_a_stream) && reader.next(block); ++blocks) {
        alive_();
        block_bytes += block.text.size();
        add(block, kind);
      }
      // Of a stream what was read ahead is not of the sample, unless that is all of it.
      kind.sample_bytes += part.end_block ? block_bytes : std::min(reader.consumed(), file.bytes);
    } catch (const BadText& bad) {
      LineCounter lines(alive_);
      throw error_of(bad, lines);
    }
  }

  void add(TextBlock& block, Kind& kind) {
    const auto take = [&](std::string_view text) {
      kind.text_bytes += text.size();
      sample_.texts.emplace_back(text);
    };
    const auto skip = [&](const BadText& problem) {
      if (options_.malformed == OnMalformed::stop) throw problem;
    };
    if (block.file->has_records()) {
      const std::size_t before = sample_.texts.size();
      lines_.for_each(block, take, skip);
      kind.documents += sample_.texts.size() - before;
      return;
    }
    try {
      require_utf8(block);
      take(block.text);
    } catch (const BadText& problem) {
      skip(problem);
    }
  }

  const std::vector<InputFile>& files_;
  const PrepareDataOptions& options_;
  JsonLines lines_;
  const std::function<void()>& alive_;
  Sample sample_;
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

std::string about(double count) { return count < 1000 ? fmt::format("{:.0f}", count) : human_count(count); }

std::uint64_t whole(double bytes) { return static_cast<std::uint64_t>(std::llround(bytes)); }

}  // namespace

PreparationEstimate estimate_preparation(const std::vector<InputFile>& files, const PrepareDataOptions& options,
                                         int ranks, int threads, const std::function<void()>& alive) {
  Sample sample = Sampler(files, options, alive).take();
  PreparationEstimate estimate;
  for (const auto& [name, kind] : sample.kinds) {
    estimate.input_bytes += kind.bytes;
    if (kind.sample_bytes == 0) continue;
    const double scale = static_cast<double>(kind.bytes) / static_cast<double>(kind.sample_bytes);
    estimate.text_bytes += static_cast<double>(kind.text_bytes) * scale;
    estimate.documents += static_cast<double>(kind.documents) * scale;
  }
  for (const InputFile& file : files) estimate.documents += file.has_records() ? 0 : 1;
  estimate.sample_bytes = sample.bytes();
  estimate.sample_text_bytes = sample.text_bytes();
  estimate.is_whole = estimate.sample_bytes >= estimate.input_bytes;
  if (estimate.sample_text_bytes == 0)
    fail(ExitCode::input, "cannot estimate: the sample of {} holds no text", human_bytes(estimate.sample_bytes));

  const auto tokenizer = tokenizer_for(options, sample.texts);
  estimate.vocabulary = tokenizer->vocabulary();
  const double start_s = monotonic_seconds();
  std::size_t tokens = 0;
  const auto encoder = tokenizer->encoder();
  std::vector<std::int32_t> ids;
  for (const std::string& text : sample.texts) {
    alive();
    ids.clear();
    encoder->encode(text, ids);
    tokens += ids.size();
  }
  const double seconds = monotonic_seconds() - start_s + sample.read_seconds;
  const double scale = estimate.text_bytes / static_cast<double>(estimate.sample_text_bytes);
  estimate.tokens = static_cast<double>(tokens) * scale + std::max(estimate.documents - 1, 0.0);
  estimate.bytes_per_token =
      static_cast<double>(estimate.sample_text_bytes) / static_cast<double>(std::max<std::size_t>(tokens, 1));
  estimate.shards = options.shards ? static_cast<double>(*options.shards)
                                   : std::ceil(estimate.tokens / static_cast<double>(options.shard_tokens));
  estimate.seconds = seconds * scale / (static_cast<double>(ranks) * threads);
  const double token_bytes = estimate.vocabulary <= 65536 ? 2 : 4;
  estimate.dataset_bytes = estimate.tokens * token_bytes + estimate.documents * sizeof(std::uint64_t) +
                           estimate.shards * static_cast<double>(shard_head_bytes);
  for (const TokenizerFile& file : tokenizer->files())
    estimate.dataset_bytes += static_cast<double>(file.content.size());
  estimate.scratch_bytes = estimate.tokens * token_bytes + estimate.documents * sizeof(Fragment);
  return estimate;
}

Json json_of(const PreparationEstimate& estimate) {
  return {{"input_bytes", estimate.input_bytes},
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
}

std::string text_of(const PreparationEstimate& estimate, std::uint64_t free_bytes) {
  const double needed = estimate.dataset_bytes + estimate.scratch_bytes;
  std::string text = fmt::format(
      "estimated from {}:\n  about {} tokens of {} in {} documents, {:.2f} bytes/token, {} shards\n  about {} on these "
      "ranks and threads\n  about {} of disk, and {} more while it is made ({} free)\n",
      estimate.is_whole ? "all of the input" : fmt::format("{} of the input", human_bytes(estimate.sample_bytes)),
      about(estimate.tokens), human_bytes(whole(estimate.text_bytes)), about(estimate.documents),
      estimate.bytes_per_token, about(estimate.shards), human_seconds(estimate.seconds),
      human_bytes(whole(estimate.dataset_bytes)), human_bytes(whole(estimate.scratch_bytes)), human_bytes(free_bytes));
  if (needed > static_cast<double>(free_bytes)) text += "  that is more than is free there\n";
  return text;
}

}  // namespace lockstep
