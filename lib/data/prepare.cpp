#include "data/prepare.hpp"

#include "base/checked_cast.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/output_folder.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "corpus/tokenizers.hpp"
#include "data/assemble.hpp"
#include "data/dataset.hpp"
#include "data/tokenize.hpp"
#include "report/progress.hpp"
#include "report/table.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>

namespace lockstep {

namespace {

// The files as rank 0 sees them, so that no rank works on another list. Collective.
InputFiles agreed_inputs(Communicator& world, const std::vector<std::string>& words) {
  const std::string told = rank0_tells(world, "find the input", [&] {
    const InputFiles inputs = find_inputs(words);
    Json files = Json::array();
    for (const InputFile& file : inputs.files) {
      files.push_back(
          {file.path.string(), static_cast<int>(file.format), static_cast<int>(file.compression), file.bytes});
    }
    return to_text({{"files", files}, {"notes", inputs.notes}});
  });
  const Json json = parse_json(told, "input files");
  InputFiles inputs;
  for (const Json& file : json["files"]) {
    inputs.files.push_back({file[0].get<std::string>(), static_cast<TextFormat>(integer_from<int>(file[1])),
                            static_cast<Compression>(integer_from<int>(file[2])), file[3]});
  }
  inputs.notes = json["notes"].get<std::vector<std::string>>();
  return inputs;
}

// Cores that this rank may use: those it is bound to, or its part of the machine's. Collective.
int default_threads(Communicator& world) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string own = host.data();
  const auto hosts = world.all_gather(own);
  const auto neighbours = std::ranges::count(hosts, own);
  cpu_set_t bound;
  CPU_ZERO(&bound);
  const int allowed = ::sched_getaffinity(0, sizeof bound, &bound) == 0 ? CPU_COUNT(&bound) : 1;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, std::min(allowed, cores / static_cast<int>(neighbours)));
}

class Preparation {
 public:
  Preparation(const PrepareConfig& config, Session& session, Output& output)
      : config_(config),
        session_(session),
        world_(session.world()),
        output_(output),
        inputs_(agreed_inputs(world_, config.inputs)) {
    threads_ =
        config.threads ? checked_cast<int>(*config.threads, "threads", ExitCode::usage) : default_threads(world_);
    total_bytes_ = std::accumulate(inputs_.files.begin(), inputs_.files.end(), std::uint64_t{0},
                                   [](std::uint64_t sum, const InputFile& file) { return sum + file.bytes; });
    if (is_root()) {
      for (const std::string& note : inputs_.notes) output_.log().info("{}", note);
    }
  }

  void plan_only() {
    if (!is_root()) return;
    output_.print(fmt::format("would prepare {} from {} of {} with the tokenizer {}, validation {}, on {} of {}\n",
                              config_.output, counted(std::ssize(inputs_.files), "file"), human_bytes(total_bytes_),
                              config_.data.tokenizer.text(), config_.data.validation.text(),
                              counted(world_.size(), "rank"), counted(threads_, "thread")));
  }

  void run() {
    const double start_s = monotonic_seconds();
    std::unique_ptr<OutputFolder> output;  // on rank 0; goes with everything in it unless published
    const Json paths =
        parse_json(rank0_tells(world_, "start",
                               [&] {
                                 output = make_output();
                                 return to_text({output->content().string(), output->scratch().string()});
                               }),
                   "folders of the output");
    staging_ = paths[0].get<std::string>();
    spill_ = paths[1].get<std::string>();
    make_tokenizer();
    write_tokens();
    together(world_, "complete the dataset", [&] {
      if (is_root()) complete(*output);
    });
    output.reset();  // with the dataset that this one replaced
    if (is_root()) summarise(monotonic_seconds() - start_s);
  }

 private:
  bool is_root() const { return world_.rank() == 0; }

  std::unique_ptr<OutputFolder> make_output() const {
    auto output = std::make_unique<OutputFolder>(config_.output, dataset_output(),
                                                 config_.overwrite ? Existing::replace : Existing::refuse);
    make_folder(output->scratch());
    return output;
  }

  BlockPass pass(const std::string& what, LastCut last_cut, std::unique_ptr<Progress>& progress) {
    const Progress::Style style = is_root() ? progress_style(output_.common().progress, 2) : Progress::Style::none;
    progress = std::make_unique<Progress>(output_.log(),
                                          Progress::Settings{what, "bytes", static_cast<double>(total_bytes_), style});
    return {session_, inputs_.files,
            what,     std::move(last_cut),
            threads_, [&progress](std::uint64_t bytes) { progress->update(static_cast<double>(bytes)); }};
  }

  void make_tokenizer() {
    const TokenizerChoice& choice = config_.data.tokenizer;
    const std::string end_name = config_.data.end_of_text.value_or("");
    if (choice.kind != TokenizerChoice::Kind::chars) {
      together(world_, "load the tokenizer", [&] { tokenizer_ = lockstep::make_tokenizer(choice.text(), end_name); });
      return;
    }
    std::unique_ptr<Progress> progress;
    const CorpusCharacters found = scan_characters(
        pass("find characters", [](std::string_view text) { return text.size(); }, progress), config_.data.text_field);
    const bool joins = found.documents > 1 || !end_name.empty();
    tokenizer_ = chars_tokenizer(found.characters, !joins ? "" : end_name.empty() ? default_end_name : end_name);
  }

  void write_tokens() {
    manifest_.tokenizer = tokenizer_->name();
    manifest_.tokenizer_hash = tokenizer_->hash();
    manifest_.vocabulary = tokenizer_->vocabulary();
    manifest_.end_of_text = tokenizer_->end_of_text();
    manifest_.shard_tokens = config_.data.shard_tokens;
    manifest_.options = to_text({{"text_field", config_.data.text_field},
                                 {"validation", config_.data.validation.text()},
                                 {"seed", config_.data.seed}});
    std::unique_ptr<Progress> progress;
    const BlockPass tokenizing =
        pass("tokenize", [&](std::string_view text) { return tokenizer_->last_cut(text); }, progress);
    const TokenizedCorpus corpus = tokenize(
        tokenizing, *tokenizer_, {config_.data.text_field, config_.data.seed, spill_, manifest_.token_bytes()});
    progress->finish(static_cast<double>(total_bytes_));
    if (corpus.empty_documents > 0 && is_root())
      output_.log().warning("left out {} empty documents", corpus.empty_documents);
    AssembledSplits splits = assemble(session_, corpus,
                                      {staging_, spill_, config_.data.validation, manifest_.end_of_text,
                                       manifest_.shard_tokens, manifest_.token_bytes()});
    manifest_.train = std::move(splits.train);
    manifest_.validation = std::move(splits.validation);
  }

  void complete(OutputFolder& output) {
    for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
      if (manifest_.of(split).tokens > 0) sync_folder(staging_ / name_of(split));
    }
    save_tokenizer(*tokenizer_, staging_ / "tokenizer");
    publish_file(staging_ / "DATASET.json", to_text(manifest_));
    output.publish();
  }

  void summarise(double seconds) {
    const std::uint64_t text_bytes = manifest_.train.text_bytes + manifest_.validation.text_bytes;
    const double rate = static_cast<double>(text_bytes) / 1e6 / std::max(seconds, 1e-9);
    if (output_.common().json) {
      output_.print_json({{"output", config_.output},
                          {"tokenizer", manifest_.tokenizer},
                          {"vocabulary", manifest_.vocabulary},
                          {"train", json_of(manifest_.train)},
                          {"validation", json_of(manifest_.validation)},
                          {"seconds", seconds},
                          {"megabytes_per_second", rate}});
      return;
    }
    Table table({{"split"},
                 {"documents", Table::Align::right},
                 {"tokens", Table::Align::right},
                 {"text", Table::Align::right},
                 {"bytes/token", Table::Align::right},
                 {"shards", Table::Align::right}});
    for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
      const SplitEntry& entry = manifest_.of(split);
      if (entry.tokens == 0) continue;
      table.add({std::string(name_of(split)), std::to_string(entry.documents), std::to_string(entry.tokens),
                 human_bytes(entry.text_bytes), fmt::format("{:.2f}", bytes_per_token(entry)),
                 std::to_string(entry.shards.size())});
    }
    output_.print(fmt::format("{}: {} of text with the tokenizer {} ({} tokens) in {}, {:.1f} MB/s\n{}", config_.output,
                              human_bytes(text_bytes), manifest_.tokenizer, manifest_.vocabulary,
                              human_seconds(seconds), rate, table.text(2)));
  }

  static double bytes_per_token(const SplitEntry& entry) {
    return static_cast<double>(entry.text_bytes) / static_cast<double>(std::max<std::int64_t>(entry.tokens, 1));
  }
  static Json json_of(const SplitEntry& entry) {
    return {{"documents", entry.documents},
            {"tokens", entry.tokens},
            {"text_bytes", entry.text_bytes},
            {"shards", entry.shards.size()},
            {"bytes_per_token", bytes_per_token(entry)}};
  }

  const PrepareConfig& config_;
  Session& session_;
  Communicator& world_;
  Output& output_;
  InputFiles inputs_;
  int threads_ = 1;
  std::uint64_t total_bytes_ = 0;
  Path staging_;  // becomes the dataset
  Path spill_;
  std::unique_ptr<Tokenizer> tokenizer_;
  DatasetManifest manifest_;
};

// In quotes where a shell would read something else.
std::string quoted(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%") ==
                                          std::string::npos;
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

int prepare_data(const PrepareConfig& config, Session& session, Output& output) {
  Preparation preparation(config, session, output);
  if (output.common().dry_run) {
    preparation.plan_only();
  } else {
    preparation.run();
  }
  return static_cast<int>(ExitCode::done);
}

std::string prepare_command(const PrepareConfig& config) {
  const PrepareConfig usual;
  std::vector<std::string> words{"prepare-data"};
  for (const std::string& input : config.inputs) words.push_back(quoted(input));
  const auto option = [&](const std::string& name, const std::string& value) {
    words.insert(words.end(), {"--" + name, quoted(value)});
  };
  option("output", config.output);
  const auto where_other = [&](const std::string& name, const std::string& value, const std::string& default_value) {
    if (value != default_value) option(name, value);
  };
  where_other("data.tokenizer", config.data.tokenizer.text(), usual.data.tokenizer.text());
  where_other("data.text_field", config.data.text_field, usual.data.text_field);
  where_other("data.validation", config.data.validation.text(), usual.data.validation.text());
  where_other("data.shard_tokens", std::to_string(config.data.shard_tokens), std::to_string(usual.data.shard_tokens));
  where_other("data.end_of_text", config.data.end_of_text.value_or(""), usual.data.end_of_text.value_or(""));
  where_other("data.seed", std::to_string(config.data.seed), std::to_string(usual.data.seed));
  return join(words, " ");
}

}  // namespace lockstep
