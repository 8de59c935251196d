#include "prepare/prepare_tokens.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "data/dataset.hpp"
#include "prepare/in_place.hpp"
#include "prepare/input_contents.hpp"
#include "prepare/output_turn.hpp"
#include "prepare/preparation_key.hpp"
#include "prepare/prepared_lookup.hpp"
#include "prepare/write_token_files.hpp"
#include "report/table.hpp"
#include "store/listed_path.hpp"
#include "tokenizer/tokenizers.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

namespace lockstep {

namespace {

std::optional<TokenFormat> token_format_of(InputFormat format) {
  switch (format) {
    case InputFormat::txt:
    case InputFormat::jsonl:
    case InputFormat::json:
    case InputFormat::csv:
    case InputFormat::tsv:
    case InputFormat::parquet:
    case InputFormat::arrow: return std::nullopt;
    case InputFormat::megatron: return TokenFormat::megatron;
    case InputFormat::llmc: return TokenFormat::llmc;
    case InputFormat::nanogpt: return TokenFormat::nanogpt;
    case InputFormat::datatrove: return TokenFormat::datatrove;
    case InputFormat::mds: return TokenFormat::mds;
  }
  fail(ExitCode::bug, "unknown format of token files");
}

std::optional<TokenFormat> token_format_of(WriteFormat format) {
  switch (format) {
    case WriteFormat::lockstep: return std::nullopt;
    case WriteFormat::megatron: return TokenFormat::megatron;
    case WriteFormat::llmc: return TokenFormat::llmc;
    case WriteFormat::nanogpt: return TokenFormat::nanogpt;
    case WriteFormat::datatrove: return TokenFormat::datatrove;
  }
  fail(ExitCode::bug, "unknown format to write");
}

Json to_json(const TokenFile& file) {
  return {name_of(file.format),         file.path.string(), file.index.string(), file.number, file.compressed,
          static_cast<int>(file.dtype), file.offset,        file.tokens,         file.bytes};
}

TokenFile file_from(const Json& json) {
  TokenFile file;
  file.format = parse_token_format(json[0].get<std::string>()).value();
  file.path = json[1].get<std::string>();
  file.index = json[2].get<std::string>();
  file.number = json[3];
  file.compressed = json[4];
  file.dtype = static_cast<DType>(json[5].get<int>());
  file.offset = json[6];
  file.tokens = json[7];
  file.bytes = json[8];
  return file;
}

bool is_dataset(const std::string& word) { return is_folder(word) && is_there(Path(word) / "DATASET.json"); }

/// What rank 0 finds, as text: null for text.
std::string find_on_rank0(const PrepareConfig& config) {
  if (std::ranges::any_of(config.text(), is_dataset)) {
    if (config.text().size() > 1)
      throw Error(ExitCode::usage, "a prepared dataset must be the only INPUT: name no other");
    return to_text({{"dataset", config.text()[0]}});
  }
  const auto format = config.input_format();
  if (format && is_text_format(*format)) return to_text(Json());
  const auto found = find_token_files(config.text(), format ? token_format_of(*format) : std::nullopt);
  if (!found) return to_text(Json());
  Json files = Json::array();
  for (const TokenFile& file : found->files) files.push_back(to_json(file));
  return to_text({{"files", files}, {"notes", found->notes}});
}

/// Options that say how text is read mean nothing where there are tokens.
void refuse_options_of_text(const PrepareConfig& config, bool has_tokenizer) {
  const PrepareDataOptions unset;
  const auto refuse = [&](bool is_set, const char* option) {
    if (is_set)
      throw Error(ExitCode::usage, fmt::format("{} has no effect: INPUT holds tokens, not text", option),
                  "leave it out");
  };
  refuse(config.data.text_field != unset.text_field, "data.text_field");
  refuse(config.data.records.form != unset.records.form, "data.records");
  refuse(config.data.malformed != unset.malformed, "data.malformed");
  refuse(config.data.seed != unset.seed, "data.validation_seed");
  refuse(config.data.deduplicate != unset.deduplicate, "data.deduplicate");
  refuse(config.data.shards.has_value(), "data.shards");
  refuse(config.threads.has_value(), "threads");
  if (!has_tokenizer) return;
  refuse(config.data.tokenizer.has_value(), "data.tokenizer");
  refuse(config.data.end_of_text.has_value(), "data.end_of_text");
  refuse(config.data.special_tokens != unset.special_tokens, "data.special_tokens");
  refuse(config.data.validation.has_value(), "data.validation");
  refuse(config.data.validation_files.has_value(), "data.validation_files");
  refuse(config.format.has_value(), "format");
  refuse(config.data.format.has_value(), "data.format");
}

std::unique_ptr<Tokenizer> named_tokenizer(const PrepareDataOptions& options) {
  if (!options.tokenizer)
    throw Error(ExitCode::usage, "token files do not record their tokenizer", "name it with --data.tokenizer");
  if (options.tokenizer->kind == TokenizerChoice::Kind::chars)
    throw Error(ExitCode::usage, "data.tokenizer chars builds a vocabulary from text, but token files hold no text",
                "name the folder or file of the tokenizer that made them");
  return make_tokenizer(options.tokenizer->text(), options.end_of_text.value_or(""), options.special_tokens_in_text());
}

/// As DATASET.json in `target` names a file: from there, where it lies in the folder that holds the target.
std::string named_from(const Path& target, const Path& file) {
  const Path folder = absolute_path(target);
  const Path relative = file.lexically_relative(folder.parent_path());
  return relative.empty() || *relative.begin() == ".." ? file.string() : file.lexically_relative(folder).string();
}

void refuse_input_in_output(const PrepareConfig& config, const TokenInput& input) {
  const Path target = absolute_path(config.output);
  std::vector<Path> inputs;
  if (input.dataset) inputs.push_back(*input.dataset);
  for (const TokenFile& file : input.files.files) inputs.push_back(file.path);
  for (const Path& path : inputs) {
    const Path relative = absolute_path(path).lexically_relative(target);
    if (relative.empty() || *relative.begin() == "..") continue;
    throw Error(ExitCode::usage, fmt::format("{} is inside {}, the folder to create", path.string(), config.output),
                "name another folder with --output");
  }
}

class TokenPreparation {
 public:
  TokenPreparation(const PrepareConfig& config, const TokenInput& input, Session& session, Output& output)
      : config_(config), input_(input), session_(session), world_(session.world()), output_(output) {}

  void run() {
    together(world_, "prepare tokens", [&] {
      refuse_options_of_text(config_, input_.dataset.has_value());
      if (input_.dataset && !config_.data.write)
        throw Error(ExitCode::usage, fmt::format("{} is a prepared dataset", input_.dataset->string()),
                    "--data.write FORMAT converts it");
      open_input();
    });
    if (output_.common().dry_run) {
      if (is_root()) tell();
      return plan_only();
    }
    make();
  }

  std::optional<Path> run_in(const Path& cache, WithoutPrepared without) {
    const std::string told = run_on_rank0(world_, "look into the cache", [&] {
      refuse_options_of_text(config_, false);
      open_input();
      return to_hex(key());
    });
    together(world_, "prepare tokens", [&] { open_input(); });
    manifest_.key = hash_from_hex(told);
    config_.output = cache / told;
    const bool is_there = is_in_cache();
    if (!is_there && without == WithoutPrepared::tell) return std::nullopt;
    if (!is_there && without == WithoutPrepared::refuse) refuse_unprepared(config_);
    if (!is_there) {
      together(world_, "make the cache", [&] {
        if (is_root()) make_folder(cache);
      });
      make();
    } else if (is_root()) {
      output_.log().info("already prepared: {}: {}", described(), config_.output);
    }
    return Path(config_.output);
  }

 private:
  bool is_root() const { return world_.rank() == 0; }

  // Of the files as the file system tells of them: they stay where they lie, and are read at length only once.
  Hash128 key() const {
    Json document{{"tokens", 1},
                  {"tokenizer", to_hex(tokenizer_->hash())},
                  {"options", changed_options(config_.data)},
                  {"files", Json::array()}};
    for (const TokenFile& file : input_.files.files) {
      document["files"].push_back(to_json(file));
      document["files"].back().push_back(absolute_path(file.path).string());
      for (const Path& path : {file.path, file.index}) {
        if (path.empty()) continue;
        const FileStamp stamp = stamp_of(path).value_or(FileStamp{});
        document["files"].back().push_back({stamp.bytes, stamp.modified_ns, stamp.inode});
      }
    }
    return hash128(to_text(document));
  }

  bool is_in_cache() const {
    return run_on_rank0(world_, "look into the cache",
                        [&] { return holds_prepared(config_.output, *manifest_.key) ? "yes" : "no"; }) == "yes";
  }

  void make() {
    const double start_s = monotonic_seconds();
    together(world_, "prepare tokens", [&] { refuse_input_in_output(config_, input_); });
    if (is_root()) tell();
    const bool replaces = config_.overwrite || manifest_.key;
    const auto paths = take_turn(
        session_, output_.log(), folder_,
        [&] {
          return std::make_unique<OutputFolder>(config_.output, dataset_output(),
                                                replaces ? Existing::replace : Existing::refuse);
        },
        [&] { return manifest_.key && is_in_cache(); });
    if (!paths) return;  // another job has made it
    const auto& [staging, scratch] = *paths;
    std::optional<WriteFormat> write = config_.data.write;
    Path source = input_.dataset.value_or(staging);
    if (!input_.dataset) {
      const bool copied = copies();
      if (copied && !write) write = WriteFormat::lockstep;
      source = write ? scratch / "in-place" : staging;
      describe(source, scratch);
    }
    if (write) write_dataset_as(session_, *write, source, manifest_, config_.data.shard_tokens, staging);
    if (!write) name_files();
    warn_of_documents();
    together(world_, "complete the dataset", [&] {
      if (is_root()) publish_dataset(*folder_, manifest_, *tokenizer_);
    });
    folder_.reset();
    if (is_root()) summarise(write, monotonic_seconds() - start_s);
  }

  // Compressed files cannot be mapped.
  bool copies() const { return std::ranges::any_of(input_.files.files, &TokenFile::compressed); }

  void open_input() {
    if (input_.dataset) {
      const Dataset dataset = open_dataset(*input_.dataset);
      manifest_ = dataset.manifest;
      manifest_.key.reset();
      tokenizer_ = dataset.tokenizer();
      documents_ = manifest_.train.documents + manifest_.validation.documents;
      return;
    }
    tokenizer_ = named_tokenizer(config_.data);
    manifest_.tokenizer = tokenizer_->name();
    manifest_.tokenizer_hash = tokenizer_->hash();
    manifest_.vocabulary = tokenizer_->vocabulary();
    manifest_.end_of_text = tokenizer_->end_of_text();
    manifest_.special_tokens = tokenizer_->special_tokens();
  }

  void tell() {
    for (const std::string& note : input_.files.notes) output_.log().info("{}", note);
    if (copies() && !config_.data.write)
      output_.log().info("copying tokens into shards: compressed files cannot be used in place");
  }

  std::string described() const {
    if (input_.dataset) return input_.dataset->string();
    return fmt::format("{} of the format {}", counted(std::ssize(input_.files.files), "file"),
                       name_of(input_.files.files[0].format));
  }

  void plan_only() {
    if (!is_root()) return;
    const std::string how = config_.data.write ? fmt::format("write {}", described())
                                               : fmt::format("{} {}", copies() ? "copy" : "use in place", described());
    output_.print(fmt::format("would {} as the dataset {} with the tokenizer {}, on {}\n", how, config_.output,
                              manifest_.tokenizer, counted(world_.size(), "rank")));
  }

  void describe(const Path& folder, const Path& scratch) {
    const TokenKind kind{manifest_.vocabulary, manifest_.end_of_text};
    const DividedFiles divided = divide_token_files(
        session_, input_.files.files, {config_.data.validation, config_.data.validation_files}, kind, scratch);
    InPlaceSplits splits = describe_in_place(session_, divided, kind, config_.data.shard_tokens, folder);
    manifest_.train = std::move(splits.train);
    manifest_.validation = std::move(splits.validation);
    manifest_.shard_tokens = config_.data.shard_tokens;
    for (const SplitEntry* const split : {&manifest_.train, &manifest_.validation}) {
      for (const ShardEntry& shard : split->shards)  // a shard of MDS is a whole file
        manifest_.shard_tokens = std::max(manifest_.shard_tokens, shard.tokens);
    }
    documents_ = manifest_.train.documents + manifest_.validation.documents;
    Json files = Json::array();
    for (const TokenFile& file : divided.files) files.push_back({{"file", file.name()}, {"tokens", file.tokens}});
    manifest_.inputs = to_text({{"files", files}, {"format", name_of(divided.files[0].format)}});
    manifest_.options = to_text({{"validation", divided.by}});
    if (!config_.data.validation && !config_.data.validation_files && is_root())
      output_.log().info("validation: {}", divided.by);
  }

  void name_files() {
    for (SplitEntry* const split : {&manifest_.train, &manifest_.validation}) {
      for (ShardEntry& shard : split->shards) shard.file = named_from(config_.output, shard.file);
    }
  }

  void warn_of_documents() {
    const std::int64_t now = manifest_.train.documents + manifest_.validation.documents;
    if (is_root() && now != documents_)
      output_.log().warning("{} became {} in the files: in this format only end-of-text tokens separate documents",
                            counted(documents_, "document"), now);
  }

  void summarise(const std::optional<WriteFormat>& write, double seconds) {
    const auto format = write ? token_format_of(*write) : std::nullopt;
    if (output_.common().json && !manifest_.key) {
      const auto json_of = [](const SplitEntry& split) {
        return Json{{"documents", split.documents}, {"tokens", split.tokens}, {"shards", split.shards.size()}};
      };
      output_.print_json({{"output", config_.output},
                          {"tokenizer", manifest_.tokenizer},
                          {"vocabulary", manifest_.vocabulary},
                          {"in_place", !write},
                          {"train", json_of(manifest_.train)},
                          {"validation", json_of(manifest_.validation)},
                          {"seconds", seconds}});
      return;
    }
    Table table({{"split"},
                 {"documents", Table::Align::right},
                 {"tokens", Table::Align::right},
                 {"shards", Table::Align::right}});
    for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
      const SplitEntry& entry = manifest_.of(split);
      if (entry.tokens == 0) continue;
      table.add({std::string(name_of(split)), std::to_string(entry.documents), std::to_string(entry.tokens),
                 std::to_string(entry.shards.size())});
    }
    const std::string what = !write   ? "in place"
                             : format ? fmt::format("written in the format {}", name_of(*format))
                                      : "written into token shards";
    const std::string told =
        fmt::format("{}: {}, {}, with the tokenizer {} ({} tokens) in {}\n{}", config_.output, described(), what,
                    manifest_.tokenizer, manifest_.vocabulary, human_seconds(seconds), table.text(2));
    if (manifest_.key) return output_.log().info("{}", told);
    output_.print(told);
  }

  PrepareConfig config_;
  const TokenInput& input_;
  Session& session_;
  Communicator& world_;
  Output& output_;
  std::unique_ptr<OutputFolder> folder_;  // on rank 0
  std::unique_ptr<Tokenizer> tokenizer_;
  DatasetManifest manifest_;
  std::int64_t documents_ = 0;  // of the input
};

}  // namespace

std::optional<TokenInput> find_token_input(const PrepareConfig& config, Session& session) {
  if (config.text() == std::vector<std::string>{"-"}) return std::nullopt;
  const Json told =
      parse_json(run_on_rank0(session.world(), "find the input", [&] { return find_on_rank0(config); }), "token files");
  if (told.is_null()) return std::nullopt;
  TokenInput input;
  if (told.contains("dataset")) {
    input.dataset = told["dataset"].get<std::string>();
    return input;
  }
  for (const Json& file : told["files"]) input.files.files.push_back(file_from(file));
  input.files.notes = told["notes"].get<std::vector<std::string>>();
  return input;
}

void prepare_tokens(const PrepareConfig& config, const TokenInput& input, Session& session, Output& output) {
  TokenPreparation(config, input, session, output).run();
}

std::optional<Path> prepare_tokens_in_cache(const PrepareConfig& named, const TokenInput& input, const Path& cache,
                                            WithoutPrepared without, Session& session, Output& output) {
  PrepareConfig config = named;
  config.threads.reset();  // of text
  return TokenPreparation(config, input, session, output).run_in(cache, without);
}

void write_dataset_as(Session& session, WriteFormat format, const Path& source, DatasetManifest& manifest,
                      std::int64_t shard_tokens, const Path& staging) {
  together(session.world(), "write the dataset", [&] {
    if (manifest.masks == TokenMasks::present)
      throw Error(ExitCode::usage, fmt::format("{} has loss masks, which data.write cannot keep", source.string()),
                  "leave data.write out");
  });
  const auto token_format = token_format_of(format);
  Json options = parse_json(manifest.options, "options");
  options["write"] = token_format ? name_of(*token_format) : "lockstep";
  manifest.options = to_text(options);
  if (!token_format) return write_own_shards(session, source, manifest, shard_tokens, staging);
  const WrittenFiles written = write_token_files(session, source, manifest, *token_format, shard_tokens, staging);
  DividedFiles divided;
  divided.by = "as it was";
  for (std::size_t split = 0; split < written.size(); ++split) {
    for (const TokenFile& file : written[split]) {
      divided.splits[split].push_back({divided.files.size(), 0, file.tokens});
      divided.files.push_back(file);
    }
  }
  InPlaceSplits splits =
      describe_in_place(session, divided, {manifest.vocabulary, manifest.end_of_text}, shard_tokens, staging);
  splits.train.text_bytes = manifest.train.text_bytes;
  splits.validation.text_bytes = manifest.validation.text_bytes;
  const Path folder = absolute_path(staging);
  for (SplitEntry* const split : {&splits.train, &splits.validation}) {
    for (ShardEntry& shard : split->shards) shard.file = Path(shard.file).lexically_relative(folder).string();
  }
  manifest.train = std::move(splits.train);
  manifest.validation = std::move(splits.validation);
  manifest.shard_tokens = shard_tokens;
}

void publish_dataset(OutputFolder& output, const DatasetManifest& manifest, const Tokenizer& tokenizer) {
  const Path content = output.content();
  std::set<Path> folders;
  for (const SplitEntry* const split : {&manifest.train, &manifest.validation}) {
    for (const ShardEntry& shard : split->shards) {
      if (shard.outside) folders.insert((content / shard.outside->documents).parent_path());
      if (stays_below(shard.file)) folders.insert((content / shard.file).parent_path());
    }
  }
  for (const Path& folder : folders) sync_folder(folder);
  save_tokenizer(tokenizer, content / "tokenizer");
  publish_file(content / "DATASET.json", to_text(manifest));
  output.publish();
}

}  // namespace lockstep
