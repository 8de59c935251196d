#include "prepare/inspect_dataset.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/random.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/long_work.hpp"
#include "data/dataset.hpp"
#include "report/histogram.hpp"
#include "report/table.hpp"
#include "report/terminal.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {

namespace {

constexpr std::int64_t tokens_at_once = std::int64_t{1} << 22;
constexpr std::size_t bins = 20;

/// How long documents are, in tokens.
class Lengths {
 public:
  void add(std::int64_t length) {
    if (length < std::ssize(by_length_)) {
      ++by_length_[static_cast<std::size_t>(length)];
    } else {
      long_.push_back(length);
    }
    ++documents_;
    sum_ += length;
  }
  void finish() { std::ranges::sort(long_); }

  std::int64_t documents() const { return documents_; }
  double mean() const { return static_cast<double>(sum_) / static_cast<double>(std::max<std::int64_t>(documents_, 1)); }
  /// The length that a part `share` of the documents do not exceed.
  std::int64_t quantile(double share) const {
    const double rank = std::ceil(share * static_cast<double>(documents_));
    std::int64_t before = 0;
    std::int64_t found = 0;
    each([&](std::int64_t length, std::int64_t count) {
      if (static_cast<double>(before) < std::max(rank, 1.0)) found = length;
      before += count;
    });
    return found;
  }
  Histogram histogram() const {
    Histogram histogram = empty_histogram(static_cast<double>(quantile(0)), static_cast<double>(quantile(1)), bins);
    each([&](std::int64_t length, std::int64_t count) {
      const auto above = std::ranges::upper_bound(histogram.edges, static_cast<double>(length));
      const auto bin =
          std::clamp<std::ptrdiff_t>(above - histogram.edges.begin() - 1, 0, std::ssize(histogram.counts) - 1);
      histogram.counts[static_cast<std::size_t>(bin)] += count;
    });
    return histogram;
  }

 private:
  void each(const std::function<void(std::int64_t length, std::int64_t count)>& use) const {
    for (std::int64_t length = 0; length < std::ssize(by_length_); ++length) {
      if (const std::int64_t count = by_length_[static_cast<std::size_t>(length)]; count > 0) use(length, count);
    }
    for (const std::int64_t length : long_) use(length, 1);
  }

  std::vector<std::int64_t> by_length_ = std::vector<std::int64_t>(std::size_t{1} << 20);
  std::vector<std::int64_t> long_;  // all longer ones
  std::int64_t documents_ = 0;
  std::int64_t sum_ = 0;
};

Lengths lengths_of(const TokenStream& stream, const std::function<void()>& alive) {
  Lengths lengths;
  std::int64_t document = -1;  // where the present one begins
  for (std::int64_t begin = 0; begin < stream.tokens(); begin += tokens_at_once) {
    alive();
    for (const std::int64_t start : stream.document_starts(begin, std::min(begin + tokens_at_once, stream.tokens()))) {
      if (document >= 0) lengths.add(start - document);
      document = start;
    }
  }
  if (document >= 0) lengths.add(stream.tokens() - document);
  lengths.finish();
  return lengths;
}

/// Text of tokens of which all count as labels, or none.
struct ShownRun {
  std::string text;
  bool counts = false;
};

struct ShownDocument {
  std::int64_t number = 0;          // within the split
  std::int64_t begin = 0;           // its first token in the stream
  std::int64_t tokens = 0;          // up to the next document
  std::int64_t trained_tokens = 0;  // of them, that count as labels
  std::vector<std::int32_t> ids;    // the first ones
  std::vector<std::uint8_t> mask;   // of these
  std::string text;                 // of these
};

/// How many tokens of [begin, end) count as labels.
std::int64_t trained_tokens(const TokenStream& stream, std::int64_t begin, std::int64_t end,
                            const std::function<void()>& alive) {
  std::int64_t trained = 0;
  std::vector<std::uint8_t> mask;
  for (; begin < end; begin += std::ssize(mask)) {
    alive();
    mask.resize(static_cast<std::size_t>(std::min(tokens_at_once, end - begin)));
    stream.copy_mask(begin, mask);
    trained += std::ranges::count(mask, std::uint8_t{1});
  }
  return trained;
}

/// Where document `number` begins, or the end of the stream behind the last one.
std::int64_t begin_of(const TokenStream& stream, const SplitEntry& split, std::int64_t number) {
  const auto behind = std::ranges::upper_bound(split.shards, number, {}, &ShardEntry::first_document);
  for (auto shard = behind; shard-- != split.shards.begin();) {  // shards in which none begins have the same number
    if (number >= shard->first_document + shard->documents) continue;
    const auto starts = stream.document_starts(shard->first_token, shard->first_token + shard->tokens);
    return starts.at(static_cast<std::size_t>(number - shard->first_document));
  }
  return stream.tokens();
}

std::vector<std::int64_t> chosen_documents(const ShownSamples& samples, std::int64_t documents) {
  std::vector<std::int64_t> chosen;
  if (samples.first) {
    if (*samples.first >= documents)
      fail(ExitCode::usage, "samples.first is {}, but the split has documents 0 to {}", *samples.first, documents - 1);
    const std::int64_t end = std::min(documents, *samples.first + samples.count);
    for (std::int64_t number = *samples.first; number < end; ++number) chosen.push_back(number);
    return chosen;
  }
  const Permutation drawn(static_cast<std::uint64_t>(documents), static_cast<std::uint64_t>(samples.seed), "inspect");
  for (std::int64_t i = 0; i < std::min(samples.count, documents); ++i)
    chosen.push_back(static_cast<std::int64_t>(drawn(static_cast<std::uint64_t>(i))));
  std::ranges::sort(chosen);
  return chosen;
}

ShownDocument shown_document(const TokenStream& stream, const SplitEntry& split, const Tokenizer& tokenizer,
                             std::int64_t number, std::int64_t most_tokens, const std::function<void()>& alive) {
  ShownDocument shown;
  shown.number = number;
  shown.begin = begin_of(stream, split, number);
  shown.tokens = begin_of(stream, split, number + 1) - shown.begin;
  shown.ids.resize(static_cast<std::size_t>(std::min(shown.tokens, most_tokens)));
  stream.copy(shown.begin, shown.ids);
  shown.text = tokenizer.decode(shown.ids);
  if (stream.masks() == TokenMasks::absent) return shown;
  shown.mask.resize(shown.ids.size());
  stream.copy_mask(shown.begin, shown.mask);
  shown.trained_tokens = trained_tokens(stream, shown.begin, shown.begin + shown.tokens, alive);
  return shown;
}

/// The text of a document with a mask, in parts.
std::vector<ShownRun> runs_of(const ShownDocument& shown, const Tokenizer& tokenizer) {
  std::vector<ShownRun> runs;
  std::size_t done = 0;
  for (std::size_t begin = 0; begin < shown.mask.size();) {
    std::size_t end = begin + 1;
    while (end < shown.mask.size() && shown.mask[end] == shown.mask[begin]) ++end;
    // What tokens say may hang on those before them.
    const std::size_t behind =
        end == shown.mask.size() ? shown.text.size() : tokenizer.decode(std::span(shown.ids).first(end)).size();
    const std::size_t place = std::clamp(behind, done, shown.text.size());
    runs.push_back({shown.text.substr(done, place - done), shown.mask[begin] == 1});
    done = place;
    begin = end;
  }
  return runs;
}

/// What is shown of one split.
struct DatasetLook {
  std::string folder;
  DataSplit split = DataSplit::train;
  std::int64_t tokens = 0;
  std::optional<std::int64_t> trained_tokens;  // of them, where shards have masks
  Lengths lengths;
  std::vector<ShownDocument> documents;
  std::vector<std::vector<ShownRun>> runs;  // of each document, where shards have masks
};

/// How parts that count are told from others.
enum class RunMarks { brackets, colors };

constexpr std::array quantiles{std::pair("p10", 0.1), std::pair("median", 0.5), std::pair("p90", 0.9),
                               std::pair("p99", 0.99)};

Json object_of(const DatasetLook& look) {
  const Histogram histogram = look.lengths.histogram();
  Json lengths{{"least", look.lengths.quantile(0)},
               {"most", look.lengths.quantile(1)},
               {"mean", look.lengths.mean()},
               {"edges", histogram.edges},
               {"counts", histogram.counts}};
  for (const auto& [name, share] : quantiles) lengths[name] = look.lengths.quantile(share);
  Json documents = Json::array();
  for (const ShownDocument& document : look.documents) {
    documents.push_back({{"document", document.number},
                         {"first_token", document.begin},
                         {"tokens", document.tokens},
                         {"ids", document.ids},
                         {"text", document.text}});
    if (!look.trained_tokens) continue;
    documents.back()["trained_tokens"] = document.trained_tokens;
    documents.back()["mask"] = document.mask;
  }
  Json json{{"dataset", look.folder}, {"split", name_of(look.split)},
            {"tokens", look.tokens},  {"documents", look.lengths.documents()},
            {"lengths", lengths},     {"samples", documents}};
  if (look.trained_tokens) json["trained_tokens"] = *look.trained_tokens;
  return json;
}

std::string lengths_text(const Lengths& lengths) {
  const Histogram histogram = lengths.histogram();
  const std::int64_t most = std::max<std::int64_t>(*std::ranges::max_element(histogram.counts), 1);
  constexpr std::int64_t width = 50;
  Table table({{"from", Table::Align::right}, {"to", Table::Align::right}, {"documents", Table::Align::right}, {""}});
  for (std::size_t bin = 0; bin < bins; ++bin) {
    const std::int64_t count = histogram.counts[bin];
    const auto bar = static_cast<std::size_t>((count * width + most - 1) / most);
    table.add({fmt::format("{:.0f}", histogram.edges[bin]), fmt::format("{:.0f}", histogram.edges[bin + 1]),
               std::to_string(count), std::string(bar, '#')});
  }
  std::string text =
      fmt::format("lengths in tokens: {} to {}, mean {:.1f}", lengths.quantile(0), lengths.quantile(1), lengths.mean());
  for (const auto& [name, share] : quantiles) text += fmt::format(", {} {}", name, lengths.quantile(share));
  return text + "\n" + table.text(2);
}

std::string marked_text(const std::vector<ShownRun>& runs, RunMarks marks) {
  std::string text;
  for (const ShownRun& run : runs) {
    const std::string shown = shown_text(run.text);
    if (!run.counts) {
      text += shown;
      continue;
    }
    switch (marks) {
      case RunMarks::brackets: text += fmt::format("⟦{}⟧", shown); break;
      case RunMarks::colors: text += fmt::format("\x1b[32m{}\x1b[0m", shown); break;
    }
  }
  return text;
}

std::string text_of(const DatasetLook& look, RunMarks marks) {
  std::string text = fmt::format("{}, {}: {} in {}", look.folder, name_of(look.split), counted(look.tokens, "token"),
                                 counted(look.lengths.documents(), "document"));
  if (look.trained_tokens)
    text += fmt::format(", {} of them trained on, shown {}", *look.trained_tokens,
                        marks == RunMarks::colors ? "in green" : "between ⟦ and ⟧");
  text += "\n" + lengths_text(look.lengths);
  for (std::size_t i = 0; i < look.documents.size(); ++i) {
    const ShownDocument& document = look.documents[i];
    text += fmt::format("----- document {}: {} from token {} on", document.number, counted(document.tokens, "token"),
                        document.begin);
    if (look.trained_tokens) text += fmt::format(", {} trained on", document.trained_tokens);
    text += "\n" + (look.trained_tokens ? marked_text(look.runs[i], marks) : shown_text(document.text)) + "\n";
    if (document.tokens > std::ssize(document.ids))
      text += fmt::format("… {} more\n", counted(document.tokens - std::ssize(document.ids), "token"));
  }
  return text;
}

DatasetLook look_into(const PrepareConfig& config, const std::function<void()>& alive) {
  const ShownSamples& samples = config.samples;
  const Dataset dataset = open_dataset(*config.inspect);
  DatasetLook look;
  look.folder = *config.inspect;
  look.split = samples.split == ShownSplit::train ? DataSplit::train : DataSplit::validation;
  const TokenStream stream = dataset.open(look.split);
  const auto tokenizer = dataset.tokenizer();
  look.tokens = stream.tokens();
  look.lengths = lengths_of(stream, alive);
  if (stream.masks() == TokenMasks::present) look.trained_tokens = trained_tokens(stream, 0, look.tokens, alive);
  for (const std::int64_t number : chosen_documents(samples, look.lengths.documents())) {
    alive();
    look.documents.push_back(
        shown_document(stream, dataset.manifest.of(look.split), *tokenizer, number, samples.tokens, alive));
    look.runs.push_back(runs_of(look.documents.back(), *tokenizer));
  }
  if (config.plot)
    publish_file(*config.plot, histogram_svg({fmt::format("{}, {}", look.folder, name_of(look.split)),
                                              "tokens per document", "documents"},
                                             look.lengths.histogram()));
  return look;
}

}  // namespace

std::string shown_text(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const auto bad = first_invalid_utf8(text.substr(at));
    const std::string_view valid = text.substr(at, bad.value_or(text.size() - at));
    for (std::size_t i = 0; i < valid.size(); ++i) {
      const auto byte = static_cast<unsigned char>(valid[i]);
      const bool second_control = byte == 0xC2 && static_cast<unsigned char>(valid[i + 1]) < 0xA0;
      if (second_control) {
        shown += fmt::format("\\x{:02X}\\x{:02X}", byte, static_cast<unsigned char>(valid[i + 1]));
        ++i;
      } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
        shown += fmt::format("\\x{:02X}", byte);
      } else {
        shown.push_back(valid[i]);
      }
    }
    at += valid.size();
    if (!bad) break;
    shown += fmt::format("\\x{:02X}", static_cast<unsigned char>(text[at++]));
  }
  return shown;
}

int inspect_dataset(const PrepareConfig& config, Session& session, Output& output) {
  long_work_together(session, "look into the dataset", [&](const std::function<void()>& alive) {
    if (session.world().rank() != 0) return;
    const DatasetLook look = look_into(config, alive);
    if (output.common().json) {
      output.print_json(object_of(look));
    } else {
      const bool colors = use_color(output.common().color, STDOUT_FILENO);
      output.print(text_of(look, colors ? RunMarks::colors : RunMarks::brackets));
    }
  });
  return static_cast<int>(ExitCode::done);
}

}  // namespace lockstep
