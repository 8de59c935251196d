#include "prepare/preparation_summary.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "report/table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

namespace {

double bytes_per_token(const SplitEntry& split) {
  return static_cast<double>(split.text_bytes) / static_cast<double>(std::max<std::int64_t>(split.tokens, 1));
}

Json split_json(const SplitEntry& split) {
  return {{"documents", split.documents},
          {"tokens", split.tokens},
          {"text_bytes", split.text_bytes},
          {"shards", split.shards.size()},
          {"bytes_per_token", bytes_per_token(split)}};
}

std::uint64_t text_bytes(const PreparationSummary& summary) {
  return summary.manifest.train.text_bytes + summary.manifest.validation.text_bytes;
}

double megabytes_per_second(const PreparationSummary& summary) {
  return static_cast<double>(text_bytes(summary)) / 1e6 / std::max(summary.seconds, 1e-9);
}

}  // namespace

Json json_of(const PreparationSummary& summary) {
  Json json{{"output", summary.output},
            {"up_to_date", summary.up_to_date},
            {"tokenizer", summary.manifest.tokenizer},
            {"vocabulary", summary.manifest.vocabulary},
            {"train", split_json(summary.manifest.train)},
            {"validation", split_json(summary.manifest.validation)},
            {"duplicate_documents", summary.duplicates},
            {"input_bytes", summary.input_bytes},
            {"input_bytes_read", summary.input_bytes_read},
            {"seconds", summary.seconds}};
  if (!summary.up_to_date) json["megabytes_per_second"] = megabytes_per_second(summary);
  if (summary.records) json["records"] = json_of(*summary.records);
  return json;
}

std::string text_of(const PreparationSummary& summary) {
  Table table({{"split"},
               {"documents", Table::Align::right},
               {"tokens", Table::Align::right},
               {"text", Table::Align::right},
               {"bytes/token", Table::Align::right},
               {"shards", Table::Align::right}});
  for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
    const SplitEntry& entry = summary.manifest.of(split);
    if (entry.tokens == 0) continue;
    table.add({std::string(name_of(split)), std::to_string(entry.documents), std::to_string(entry.tokens),
               human_bytes(entry.text_bytes), fmt::format("{:.2f}", bytes_per_token(entry)),
               std::to_string(entry.shards.size())});
  }
  std::string text =
      fmt::format("{}: {} of text with the tokenizer {} ({} tokens)", summary.output, human_bytes(text_bytes(summary)),
                  summary.manifest.tokenizer, summary.manifest.vocabulary);
  text += summary.up_to_date
              ? ", up to date: made from this input with these options\n"
              : fmt::format(" in {}, {:.1f} MB/s\n", human_seconds(summary.seconds), megabytes_per_second(summary));
  text += table.text(2);
  if (summary.records) text += text_of(*summary.records) + "\n";
  return text;
}

}  // namespace lockstep
