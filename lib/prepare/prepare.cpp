#include "prepare/prepare.hpp"

#include "app/agreed_start.hpp"
#include "base/checked_cast.hpp"
#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/output_folder.hpp"
#include "base/processors.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/failure.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "config/record_config.hpp"
#include "data/dataset.hpp"
#include "prepare/assemble.hpp"
#include "prepare/estimate.hpp"
#include "prepare/hub_inputs.hpp"
#include "prepare/input_contents.hpp"
#include "prepare/inspect_dataset.hpp"
#include "prepare/output_turn.hpp"
#include "prepare/preparation_key.hpp"
#include "prepare/preparation_summary.hpp"
#include "prepare/prepare_tokens.hpp"
#include "prepare/prepared_lookup.hpp"
#include "prepare/spill_units.hpp"
#include "prepare/standard_input.hpp"
#include "prepare/tokenize.hpp"
#include "prepare/train_tokenizer.hpp"
#include "prepare/unpack.hpp"
#include "prepare/verify_dataset.hpp"
#include "prepare/work_folder.hpp"
#include "remote/hub_cache.hpp"
#include "report/progress.hpp"
#include "tokenizer/pre_tokenizer.hpp"
#include "tokenizer/tokenizers.hpp"

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

/// ReportTo says where the summary goes.
enum class ReportTo { result, log };

constexpr const char* standard_input = "-";

// The files as rank 0 sees them, so that no rank works on another list. Collective.
InputFiles agreed_inputs(Communicator& world, const std::vector<std::string>& words,
                         const std::optional<InputFormat>& format) {
  if (words == std::vector<std::string>{standard_input}) return {};  // read when there is a place for it
  const std::string told = run_on_rank0(world, "find the input", [&] {
    const InputFiles inputs = find_inputs(words, format ? text_format_of(*format) : std::nullopt);
    Json files = Json::array();
    for (const InputFile& file : inputs.files) {
      files.push_back({file.path.string(), static_cast<int>(file.format), static_cast<int>(file.compression),
                       file.bytes, file.modified_ns, file.reader});
    }
    return to_text({{"files", files}, {"notes", inputs.notes}});
  });
  const Json json = parse_json(told, "input files");
  InputFiles inputs;
  for (const Json& file : json["files"]) {
    inputs.files.push_back({file[0].get<std::string>(), static_cast<TextFormat>(integer_from<int>(file[1])),
                            static_cast<Compression>(integer_from<int>(file[2])), file[3], file[4]});
    inputs.files.back().reader = file[5];
  }
  inputs.notes = json["notes"].get<std::vector<std::string>>();
  return inputs;
}

std::string_view name_of(Deduplicate deduplicate) {
  switch (deduplicate) {
    case Deduplicate::none: return "none";
    case Deduplicate::exact: return "exact";
    case Deduplicate::caseless: return "caseless";
  }
  return {};
}

PieceRule rule_of(TrainedPattern pattern) {
  switch (pattern) {
    case TrainedPattern::gpt2: return PieceRule::gpt2;
    case TrainedPattern::llama3: return PieceRule::llama3;
    case TrainedPattern::qwen2: return PieceRule::qwen2;
    case TrainedPattern::o200k: return PieceRule::o200k;
  }
  fail(ExitCode::bug, "unknown pattern of a trained tokenizer");
}

// Cores that this rank may use: those it is bound to, or its part of the machine's. Collective.
int default_threads(Communicator& world) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string own = host.data();
  const auto hosts = world.all_gather(own);
  const auto neighbours = std::ranges::count(hosts, own);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::max(1, std::min(usable_processors(), cores / static_cast<int>(neighbours)));
}

class Preparation {
 public:
  Preparation(const PrepareConfig& config, Session& session, Output& output, ReportTo report_to)
      : config_(config),
        session_(session),
        world_(session.world()),
        output_(output),
        report_to_(report_to),
        inputs_(agreed_inputs(world_, config.text(), config.input_format())) {
    threads_ =
        config.threads ? checked_cast<int>(*config.threads, "threads", ExitCode::usage) : default_threads(world_);
    require_records();
    if (is_root()) {
      for (const InputFile& file : inputs_.files) stamps_.push_back(stamp_of(file));
      for (const std::string& note : inputs_.notes) output_.log().info("{}", note);
    }
  }

  void plan_only() {
    const std::string from = inputs_.files.empty() ? "standard input"
                                                   : fmt::format("{} of {}", counted(std::ssize(inputs_.files), "file"),
                                                                 human_bytes(total_bytes()));
    const std::string on = fmt::format("on {} of {}", counted(world_.size(), "rank"), counted(threads_, "thread"));
    if (config_.train_tokenizer) {
      if (is_root())
        output_.print(fmt::format("would train a tokenizer of {} tokens from {} for {}, {}\n", *config_.train_tokenizer,
                                  from, config_.output, on));
      return;
    }
    std::optional<PreparationEstimate> estimate;  // standard input can be read only once
    long_work_together(session_, "estimate", [&](const std::function<void()>& alive) {
      if (is_root() && !inputs_.files.empty())
        estimate = estimate_preparation(inputs_.files, config_.data, world_.size(), threads_, alive);
    });
    if (!is_root()) return;
    const auto split = config_.data.validation ? config_.data.validation->text() : "hash:0.01 or tail:0.01";
    if (output_.common().json) {
      output_.print_json({{"output", config_.output},
                          {"files", inputs_.files.size()},
                          {"tokenizer", config_.data.tokenizer_or_bytes().text()},
                          {"validation", split},
                          {"ranks", world_.size()},
                          {"threads", threads_},
                          {"estimate", estimate ? lockstep::json_of(*estimate) : Json()}});
      return;
    }
    output_.print(fmt::format("would prepare {} from {} with the tokenizer {}, validation {}, {}\n{}", config_.output,
                              from, config_.data.tokenizer_or_bytes().text(), split, on,
                              estimate ? text_of(*estimate, free_bytes()) : ""));
  }

  /// As prepare_in_cache says.
  std::optional<Path> run_in(const Path& cache, WithoutPrepared without) {
    const Path memory = cache / fmt::format(".inputs-{}.json", to_hex(hash128(names_of_input())));
    const std::string told = run_on_rank0(world_, "look into the cache", [&] {
      Json known = Json::array();
      const ContentMemory remembered = ContentMemory::read(memory);
      for (const InputFile& file : inputs_.files) {
        const auto sum = remembered.find(file);
        known.push_back(sum ? Json(*sum) : Json());
      }
      return to_text(known);
    });
    std::vector<std::optional<std::uint64_t>> known;
    for (const Json& sum : parse_json(told, "sums of the input"))
      known.push_back(sum.is_null() ? std::nullopt : std::optional(sum.get<std::uint64_t>()));
    if (without == WithoutPrepared::tell &&
        !std::ranges::all_of(known, [](const auto& sum) { return sum.has_value(); }))
      return std::nullopt;
    if (is_root() && std::ranges::any_of(known, [](const auto& sum) { return !sum; }))
      output_.log().info("reading {} to check whether it is already prepared", join(config_.text(), " "));
    const InputSums found = complete_sums(session_, inputs_.files, known);
    bytes_read_ += found.bytes_read;
    together(world_, "load the tokenizer", [&] {
      const auto tokenizer = tokenizer_of(config_.data);
      key_ = preparation_key(config_.data, tokenizer.get(), message_format_hash(config_.data, tokenizer.get()),
                             inputs_.files, found.sums);
    });
    config_.output = cache / to_hex(*key_);
    const bool is_there = is_up_to_date();
    if (!is_there && without == WithoutPrepared::tell) return std::nullopt;
    if (!is_there && without == WithoutPrepared::refuse) refuse_unprepared(config_);
    if (!is_there) {
      together(world_, "remember the input", [&] {
        if (!is_root()) return;
        make_folder(cache);
        memory_of(inputs_.files, stamps_, found.sums).write(memory);
      });
      run();
    } else if (without != WithoutPrepared::tell) {
      together(world_, "look into the cache", [&] {
        if (!is_root()) return;
        remove_leftovers();
        if (found.bytes_read > 0) remember_if_possible(memory, found.sums);
      });
    }
    if (is_there && is_root())
      output_.log().info("{} is already prepared: {}", join(config_.text(), " "), config_.output);
    return Path(config_.output);
  }

  void run() {
    const double start_s = monotonic_seconds();
    std::unique_ptr<OutputFolder> output;  // on rank 0; goes with everything in it unless published
    const auto paths = take_turn(
        session_, output_.log(), output, [this] { return make_output(); }, [this] { return is_up_to_date(); });
    if (!paths) return tell_up_to_date(monotonic_seconds() - start_s);
    staging_ = paths->content;
    spill_ = paths->scratch;
    if (inputs_.files.empty()) {
      inputs_.files.push_back(copy_standard_input(session_, text_format_of(*config_.input_format()).value(), spill_));
      stamps_.emplace_back();  // nothing to remember: it is read once
      bytes_read_ += inputs_.files[0].bytes;
    }
    UnpackedInput unpacked = unpack_large_files(session_, inputs_.files, spill_);
    files_ = std::move(unpacked.files);
    bytes_read_ += unpacked.bytes_read;
    if (is_root())
      for (const std::string& warning : unpacked.warnings) output_.log().warning("{}", warning);
    if (config_.train_tokenizer) return make_trained_tokenizer(std::move(output), start_s);
    make_tokenizer();
    std::unique_ptr<WorkFolder> work;  // on rank 0; goes before the lock of the output does
    units_ = start_work(work);
    try {
      make_dataset(unpacked.contents, output.get());
    } catch (const AgreedError& error) {
      if (work && error.code() == ExitCode::verdict && holds_full_units(work->path())) work->keep();
      throw;
    }
    together(world_, "remove leftovers", [&] {
      if (work) remove_work_beside(config_.output, work->path());
      work.reset();
    });
    output.reset();  // with the dataset that this one replaced
    if (is_root()) tell(summary(monotonic_seconds() - start_s));
  }

 private:
  bool is_root() const { return world_.rank() == 0; }

  bool makes_records() const { return config_.data.records.form != RecordForm::text; }

  void require_records() const {
    const auto text = std::ranges::find(inputs_.files, TextFormat::text, &InputFile::format);
    if (!makes_records() || text == inputs_.files.end()) return;
    throw Error(ExitCode::usage,
                fmt::format("{} holds one text, not records, but data.records is {}", text->name(),
                            lockstep::json_of(config_.data.records)["records"].get<std::string>()),
                "name only files with records, or leave data.records out");
  }

  /// Remembers files that were written again with the same content. A cache that cannot be written is used as it is.
  void remember_if_possible(const Path& memory, const std::vector<std::uint64_t>& sums) const {
    try {
      memory_of(inputs_.files, stamps_, sums).write(memory);
    } catch (const Error& error) {
      if (error.code() != ExitCode::storage) throw;
      output_.log().debug("{}", error.what());
    }
  }

  std::unique_ptr<OutputFolder> make_output() const {
    return std::make_unique<OutputFolder>(config_.output,
                                          config_.train_tokenizer ? tokenizer_output() : dataset_output(),
                                          config_.overwrite || key_ ? Existing::replace : Existing::refuse);
  }

  std::string names_of_input() const {
    std::string names;
    for (const InputFile& file : inputs_.files) names += absolute_path(file.path).string() + "\n";
    return names;
  }

  // Standard input can be read only once, and --overwrite asks for the dataset anew.
  bool is_up_to_date() {
    if (key_)
      return run_on_rank0(world_, "look into the cache",
                          [&] { return holds_prepared(config_.output, *key_) ? "yes" : "no"; }) == "yes";
    if (inputs_.files.empty() || config_.train_tokenizer || config_.overwrite) return false;
    const PreparedLookup found = look_for_prepared(session_, config_.output, config_.data, inputs_.files);
    bytes_read_ += found.bytes_read;
    return found.is_same;
  }

  // A job that was killed once the dataset was there has left what it worked with.
  void remove_leftovers() const {
    const Path target = absolute_path(config_.output);
    const std::string prefix = fmt::format(".{}.", target.filename().string());
    const auto is_left = [&](const Path& path) { return path.filename().string().starts_with(prefix); };
    if (std::ranges::any_of(list_folder(target.parent_path()), is_left))
      clean_up_beside(target, [&] { remove_work_beside(target); });
  }

  void tell_up_to_date(double seconds) {
    together(world_, "read the dataset", [&] {
      if (!is_root()) return;
      remove_leftovers();
      manifest_ = read_dataset_manifest(config_.output);
      PreparationSummary told = summary(seconds);
      told.up_to_date = true;
      told.records.reset();
      tell(told);
    });
  }

  /// Of the file system that the output goes to.
  std::uint64_t free_bytes() const {
    Path folder = absolute_path(config_.output).parent_path();
    while (!is_there(folder) && folder.has_relative_path()) folder = folder.parent_path();
    std::error_code unknown;
    const auto space = std::filesystem::space(folder, unknown);
    return unknown ? 0 : space.available;
  }

  std::uint64_t total_bytes() const {
    return std::accumulate(inputs_.files.begin(), inputs_.files.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const InputFile& file) { return sum + file.bytes; });
  }

  // Progress is that of rank 0, as if all ranks were as far.
  BlockPass pass(const std::string& what, LastCut last_cut, std::unique_ptr<Progress>& progress) {
    const Progress::Style style = is_root() ? progress_style(output_.common().progress, 2) : Progress::Style::none;
    progress = std::make_unique<Progress>(output_.log(),
                                          Progress::Settings{what, "bytes", static_cast<double>(total_bytes()), style});
    const double share = static_cast<double>(bytes_of_rank(files_, world_.rank(), world_.size()));
    const double scale = static_cast<double>(total_bytes()) / std::max(share, 1.0);
    return {
        session_, files_,
        what,     std::move(last_cut),
        threads_, [&progress, scale](std::uint64_t bytes) { progress->update(static_cast<double>(bytes) * scale); }};
  }

  TokenizerTraining training_of_tokenizer() const {
    TokenizerTraining training;
    training.counting.rule = rule_of(config_.bpe.pattern);
    training.counting.text_field = config_.data.text_field;
    training.counting.malformed = config_.data.malformed;
    training.counting.folder = spill_;
    training.end_name = config_.data.end_of_text.value_or(default_end_name);
    training.bpe = {*config_.train_tokenizer, static_cast<std::uint64_t>(config_.bpe.min_count), {training.end_name}};
    for (const std::string& token : config_.bpe.special_tokens) training.bpe.special_tokens.push_back(token);
    return training;
  }

  void make_trained_tokenizer(std::unique_ptr<OutputFolder> output, double start_s) {
    const TokenizerTraining training = training_of_tokenizer();
    const auto last_cut = [cuts = PreTokenizer(training.counting.rule)](std::string_view text) {
      return cuts.last_cut(text);
    };
    std::unique_ptr<Progress> progress;
    TrainedTokenizer facts = train_tokenizer(pass("count pieces", last_cut, progress), training, staging_);
    facts.corpus.input.bytes += bytes_read_;
    together(world_, "complete the tokenizer", [&] {
      if (is_root()) output->publish();
    });
    output.reset();
    if (is_root())
      lockstep::summarise(facts, training, config_.output, total_bytes(), monotonic_seconds() - start_s, output_);
  }

  void make_tokenizer() {
    const TokenizerChoice choice = config_.data.tokenizer_or_bytes();
    const std::string end_name = config_.data.end_of_text.value_or("");
    if (choice.kind != TokenizerChoice::Kind::chars) {
      together(world_, "load the tokenizer", [&] {
        tokenizer_ = lockstep::make_tokenizer(choice.text(), end_name, config_.data.special_tokens_in_text());
      });
      for (const std::string& note : tokenizer_->notes())
        if (is_root()) output_.log().info("{}", note);
      return;
    }
    std::unique_ptr<Progress> progress;
    const CorpusCharacters found =
        scan_characters(pass(
                            "find characters", [](std::string_view text) { return text.size(); }, progress),
                        config_.data.text_field, config_.data.malformed);
    bytes_read_ += found.input.bytes;
    const bool joins = found.documents > 1 || !end_name.empty();
    tokenizer_ = chars_tokenizer(found.characters,
                                 !joins             ? ""
                                 : end_name.empty() ? default_end_name
                                                    : end_name,
                                 config_.data.special_tokens_in_text());
  }

  // `unpacked`: what was read of files that were copied first.
  void write_tokens(const Path& folder, const std::vector<ReadContent>& unpacked) {
    manifest_.tokenizer = tokenizer_->name();
    manifest_.tokenizer_hash = tokenizer_->hash();
    manifest_.vocabulary = tokenizer_->vocabulary();
    manifest_.end_of_text = tokenizer_->end_of_text();
    manifest_.special_tokens = tokenizer_->special_tokens();
    manifest_.shard_tokens = config_.data.shard_tokens;
    manifest_.masks = makes_records() ? TokenMasks::present : TokenMasks::absent;
    std::shared_ptr<const MessageFormat> messages;
    together(world_, "read the chat template", [&] { messages = message_format(config_.data, *tokenizer_); });
    if (messages) tokenizer_->set_chat_templates(messages->texts);  // the model that is trained will need it
    std::unique_ptr<Progress> progress;
    const BlockPass tokenizing =
        pass("tokenize", [&](std::string_view text) { return tokenizer_->last_cut(text); }, progress);
    const TokenizedCorpus corpus =
        tokenize(tokenizing, *tokenizer_,
                 {config_.data.records, config_.data.text_field, config_.data.seed, config_.data.malformed, spill_,
                  units_, manifest_.token_bytes(), config_.data.deduplicate, messages});
    progress->finish(static_cast<double>(total_bytes()));
    bytes_read_ += corpus.input.bytes;
    records_ = corpus.records;
    const std::vector<std::uint64_t> sums = sums_of_input(corpus.input.contents, unpacked);
    if (is_root()) tell_left_out(corpus);
    refuse_without_documents(corpus);
    AssembledSplits splits = assemble(session_, corpus,
                                      {folder, config_.data.validation, manifest_.end_of_text, manifest_.masks,
                                       manifest_.shard_tokens, manifest_.token_bytes(), config_.data.shards});
    manifest_.shard_tokens = splits.shard_tokens;
    duplicates_ = corpus.duplicate_documents;
    manifest_.train = std::move(splits.train);
    manifest_.validation = std::move(splits.validation);
    Json options{{"text_field", config_.data.text_field}};
    if (makes_records()) options = lockstep::json_of(config_.data.records);
    options["deduplicate"] = name_of(config_.data.deduplicate);
    if (messages) options["chat_template"] = lockstep::json_of(*messages);
    options["validation"] = splits.by.text();
    options["malformed"] = config_.data.malformed == OnMalformed::skip ? "skip" : "stop";
    options["seed"] = config_.data.seed;
    manifest_.options = to_text(options);
    manifest_.inputs = to_text(description_of_inputs(corpus, sums));
    const bool of_text = config_.data.tokenizer_or_bytes().kind == TokenizerChoice::Kind::chars;
    const Tokenizer* const given = of_text ? nullptr : tokenizer_.get();
    const std::string format = message_format_hash(config_.data, given);
    manifest_.key = preparation_key(config_.data, given, format, inputs_.files, sums);
    if (key_ && manifest_.key != key_)
      throw Error(ExitCode::input, "the input changed during preparation", "start again");
    if (!is_root()) return;
    if (!config_.data.validation && splits.by.by != ValidationSplit::Kind::hash)
      output_.log().info("validation is {}: hash:0.01 would leave a split empty", splits.by.text());
    if (makes_records() && splits.by.by == ValidationSplit::Kind::tail)
      output_.log().warning("validation is {}, which can cut a record in two: data.validation count:N takes whole ones",
                            splits.by.text());
  }

  /// Throws if all documents are malformed, with the place of the first one. Collective.
  void refuse_without_documents(const TokenizedCorpus& corpus) {
    std::int64_t kept = 0;
    for (const TokenizedBlock& block : corpus.blocks)
      kept += block.left_out ? 0 : checked_cast<std::int64_t>(block.fragments, "fragments", ExitCode::input);
    if (world_.all_reduce(kept, Reduce::sum) > 0 || corpus.malformed_documents == 0) return;
    const std::vector<std::string>& places = corpus.malformed_places;
    together(world_, "tokenize", [&] {
      throw Error(ExitCode::input,
                  fmt::format("all documents are malformed ({}){}", corpus.malformed_documents,
                              places.empty() ? "" : ", the first: " + places.front()),
                  "data.malformed stop ends at the first; data.records and its fields say how records are read");
    });
  }

  void tell_left_out(const TokenizedCorpus& corpus) {
    Log& log = output_.log();
    if (corpus.duplicate_documents > 0)
      log.info("left out {}", counted(corpus.duplicate_documents, "duplicate document"));
    if (corpus.left_out > 0) {
      log.warning("left out {} without a token in the vocabulary (characters, or bytes of a byte-level tokenizer)",
                  counted(corpus.left_out, "symbol"));
    }
    if (corpus.empty_documents > 0) log.warning("left out {} empty documents", corpus.empty_documents);
    for (const std::string& warning : corpus.input.warnings) log.warning("{}", warning);
    if (corpus.malformed_documents == 0) return;
    log.warning("left out {}, first:\n  {}", counted(corpus.malformed_documents, "malformed document"),
                join(corpus.malformed_places, "\n  "));
  }

  // Where units of text are tokenized, which a job that is killed leaves to the next one with the same work: files that
  // have not been written since, tokenizer and options. Standard input is there once.
  Path start_work(std::unique_ptr<WorkFolder>& work) {
    return run_on_rank0(world_, "start", [&] {
      if (std::ranges::any_of(stamps_, [](const auto& stamp) { return !stamp; })) return spill_.string();
      std::string text =
          to_hex(preparation_key(config_.data, tokenizer_.get(), message_format_hash(config_.data, tokenizer_.get()),
                                 inputs_.files, std::vector<std::uint64_t>(inputs_.files.size())));
      for (const auto& stamp : stamps_)
        text += fmt::format("\n{} {} {}", stamp->bytes, stamp->modified_ns, stamp->inode);
      work = std::make_unique<WorkFolder>(config_.output, to_hex(hash128(text)).substr(0, 16));
      return work->path().string();
    });
  }

  void make_dataset(const std::vector<ReadContent>& unpacked, OutputFolder* output) {  // which only rank 0 has
    const Path assembled = config_.data.write ? spill_ / "dataset" : staging_;
    write_tokens(assembled, unpacked);
    if (config_.data.write)
      write_dataset_as(session_, *config_.data.write, assembled, manifest_, manifest_.shard_tokens, staging_);
    together(world_, "complete the dataset", [&] {
      if (!is_root()) return;
      memory_.write(staging_ / input_memory_name);
      publish_dataset(*output, manifest_, *tokenizer_);
    });
  }

  // Of the whole input; what ranks have not read as they tokenized is read for it.
  std::vector<std::uint64_t> sums_of_input(const std::vector<ReadContent>& read,
                                           const std::vector<ReadContent>& unpacked) {
    std::vector<std::optional<std::uint64_t>> known;
    for (std::size_t i = 0; i < inputs_.files.size(); ++i) {
      const ReadContent& content = files_[i].is_copy() && !inputs_.files[i].is_copy() ? unpacked[i] : read[i];
      known.push_back(content.bytes == inputs_.files[i].bytes ? std::optional(content.sum) : std::nullopt);
    }
    const InputSums found = complete_sums(session_, inputs_.files, known);
    bytes_read_ += found.bytes_read;
    if (is_root()) memory_ = memory_of(inputs_.files, stamps_, found.sums);
    return found.sums;
  }

  Json description_of_inputs(const TokenizedCorpus& corpus, const std::vector<std::uint64_t>& sums) const {
    Json files = Json::array();
    for (std::size_t i = 0; i < inputs_.files.size(); ++i) {
      const InputFile& file = inputs_.files[i];
      files.push_back(
          {{"file", hub_name_of(file.path).value_or(file.name())}, {"bytes", file.bytes}, {"content_sum", sums[i]}});
      if (file.modified_ns != 0) files.back()["modified_ns"] = file.modified_ns;
    }
    Json inputs{{"files", files},
                {"empty_documents", corpus.empty_documents},
                {"malformed_documents", corpus.malformed_documents},
                {"duplicate_documents", corpus.duplicate_documents}};
    if (corpus.left_out > 0) inputs["symbols_without_token"] = corpus.left_out;
    if (makes_records()) inputs["records"] = lockstep::json_of(corpus.records);
    return inputs;
  }

  PreparationSummary summary(double seconds) const {
    return {config_.output, manifest_,   false,  duplicates_, makes_records() ? std::optional(records_) : std::nullopt,
            total_bytes(),  bytes_read_, seconds};
  }

  void tell(const PreparationSummary& summary) {
    switch (report_to_) {
      case ReportTo::log: return output_.log().info("{}", text_of(summary));
      case ReportTo::result:
        if (output_.common().json)
          output_.print_json(lockstep::json_of(summary));
        else
          output_.print(text_of(summary));
    }
  }

  PrepareConfig config_;
  Session& session_;
  Communicator& world_;
  Output& output_;
  ReportTo report_to_;
  std::optional<Hash128> key_;  // of what belongs into a cache
  InputFiles inputs_;
  std::vector<std::optional<FileStamp>> stamps_;  // of the input, on rank 0
  ContentMemory memory_;                          // likewise, once it has been read
  std::vector<InputFile> files_;                  // what is read of them: themselves, or copies
  std::int64_t duplicates_ = 0;                   // documents that were left out
  std::uint64_t bytes_read_ = 0;                  // of the input, by all ranks
  int threads_ = 1;
  Path staging_;  // becomes the dataset
  Path spill_;
  Path units_;
  std::unique_ptr<Tokenizer> tokenizer_;
  DatasetManifest manifest_;
  RecordCounts records_;
};

void refuse_options_of_token_files(const PrepareConfig& config) {
  if (config.data.validation_files)
    throw Error(ExitCode::usage, "data.validation_files is for token files, but the input is text",
                "for text, data.validation chooses the validation documents");
}

}  // namespace

int prepare_data(const PrepareConfig& named, Session& session, Output& output) {
  hand_to_plugins(named.plugin_values);
  const Path folder = named.verify ? *named.verify : named.inspect.value_or(named.output);
  session.configure({.watchdog_s = named.watchdog.value, .folder = absolute_path(folder).parent_path()});
  session.accept_stop_signals();
  agree_on_start(session.world(), output.settings());
  if (named.verify) return verify_dataset(*named.verify, session, output);
  if (named.inspect) return inspect_dataset(named, session, output);
  const LocalInputs local = bring_hub_inputs(named, session, output);
  if (!local.complete) return static_cast<int>(ExitCode::done);
  PrepareConfig config = named;
  config.inputs = local.words;
  if (!config.train_tokenizer) {
    if (const auto tokens = find_token_input(config, session)) {
      prepare_tokens(config, *tokens, session, output);
      return static_cast<int>(ExitCode::done);
    }
  }
  together(session.world(), "read text", [&] { refuse_options_of_token_files(config); });
  Preparation preparation(config, session, output, ReportTo::result);
  if (output.common().dry_run) {
    preparation.plan_only();
  } else {
    preparation.run();
  }
  return static_cast<int>(ExitCode::done);
}

std::optional<Path> prepare_in_cache(const PrepareConfig& named, const Path& cache, WithoutPrepared without,
                                     Session& session, Output& output) {
  const LocalInputs local = bring_hub_inputs(named, session, output);
  if (!local.complete) return std::nullopt;
  PrepareConfig text = named;
  text.inputs = local.words;
  if (const auto tokens = find_token_input(text, session))
    return prepare_tokens_in_cache(text, *tokens, cache, without, session, output);
  together(session.world(), "prepare text", [&] { refuse_options_of_token_files(text); });
  return Preparation(text, session, output, ReportTo::log).run_in(cache, without);
}

}  // namespace lockstep
