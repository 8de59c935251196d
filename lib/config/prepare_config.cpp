#include "config/prepare_config.hpp"

#include "config/record_config.hpp"
#include "options/option.hpp"
#include "options/problems.hpp"
#include "options/ranges.hpp"
#include "options/tool.hpp"

#include <algorithm>

namespace lockstep {

ChoiceList<InputFormat> choices_of(InputFormat) {
  return {{InputFormat::txt, "txt"},
          {InputFormat::jsonl, "jsonl"},
          {InputFormat::json, "json"},
          {InputFormat::csv, "csv"},
          {InputFormat::tsv, "tsv"},
          {InputFormat::parquet, "parquet"},
          {InputFormat::arrow, "arrow"},
          {InputFormat::megatron, "megatron"},
          {InputFormat::llmc, "llmc"},
          {InputFormat::nanogpt, "nanogpt"},
          {InputFormat::datatrove, "datatrove"},
          {InputFormat::mds, "mds"}};
}
ChoiceList<WriteFormat> choices_of(WriteFormat) {
  return {{WriteFormat::lockstep, "lockstep"},
          {WriteFormat::megatron, "megatron"},
          {WriteFormat::llmc, "llmc"},
          {WriteFormat::nanogpt, "nanogpt"},
          {WriteFormat::datatrove, "datatrove"}};
}
ChoiceList<TrainedPattern> choices_of(TrainedPattern) {
  return {{TrainedPattern::gpt2, "gpt2"},
          {TrainedPattern::llama3, "llama3"},
          {TrainedPattern::qwen2, "qwen2"},
          {TrainedPattern::o200k, "o200k"}};
}
ChoiceList<Deduplicate> choices_of(Deduplicate) {
  return {{Deduplicate::none, "none"}, {Deduplicate::exact, "exact"}, {Deduplicate::caseless, "caseless"}};
}
ChoiceList<ShownSplit> choices_of(ShownSplit) {
  return {{ShownSplit::train, "train"}, {ShownSplit::validation, "validation"}};
}
ChoiceList<OnMalformed> choices_of(OnMalformed) { return {{OnMalformed::stop, "stop"}, {OnMalformed::skip, "skip"}}; }
ChoiceList<SpecialTokens> choices_of(SpecialTokens) {
  return {{SpecialTokens::special, "special"}, {SpecialTokens::text, "text"}};
}

bool is_text_format(InputFormat format) {
  switch (format) {
    case InputFormat::txt:
    case InputFormat::jsonl:
    case InputFormat::json:
    case InputFormat::csv:
    case InputFormat::tsv:
    case InputFormat::parquet:
    case InputFormat::arrow: return true;
    case InputFormat::megatron:
    case InputFormat::llmc:
    case InputFormat::nanogpt:
    case InputFormat::datatrove:
    case InputFormat::mds: return false;
  }
  fail(ExitCode::bug, "unknown format of input");
}

void describe(Declaration& visit, PrepareDataOptions& data) {
  visit.field("tokenizer", data.tokenizer,
              {.brief = "tokenizer: bytes, chars, a file, a folder, or hub model OWNER/NAME",
               .details = "chars is a vocabulary of the characters that occur. A file is a tokenizer.json or a "
                          "tokenizer.model. A folder holds one of them, or vocab.json and merges.txt. A model "
                          "OWNER/NAME is read from the cache of the Hugging Face hub. Plug-ins add names",
               .unset = "in train the tokenizer of model.path, or in the folder of model.config; else bytes",
               .completes = Completes::files});
  visit.field(
      "format", data.format,
      {.brief = "format of input files whose name or content does not tell it", .unset = "names and content tell"});
  visit.field("text_field", data.text_field,
              {.brief = "field of a record, or column of a table, that holds the text", .value_name = "NAME"});
  describe_records(visit, data.records);
  visit.field(
      "validation", data.validation,
      {.brief = "documents held out for validation: hash:F, tail:F or count:N",
       .details = "hash:F takes a fraction F by content hash, tail:F the end of the stream, count:N the N documents "
                  "with the lowest hashes. Of token files, those named val or validation, or tail:0.01",
       .unset = "hash:0.01; where that leaves a split empty, tail:0.01, or count:1 of records"});
  visit.field("validation_files", data.validation_files,
              {.brief = "token files of the validation split, as shell patterns (* ? [ ])", .value_name = "PATTERN"});
  visit.field("malformed", data.malformed,
              {.brief = "malformed record or text that is not UTF-8: stop, or skip and count it",
               .details = "Skipped records are counted, and the first ones are named"});
  visit.field("deduplicate", data.deduplicate,
              {.brief = "drop duplicate documents: exact or caseless",
               .details = "Documents are compared by a hash of their text, with each run of white space as one space "
                          "and none at the ends. caseless also ignores case. For records other than text, exact drops "
                          "samples with the same tokens and the same trained tokens"});
  visit.field("shard_tokens", data.shard_tokens,
              {.brief = "maximum tokens in a shard file", .unit = "tokens", .min = 1, .max = 0x1p40});
  visit.field("shards", data.shards,
              {.brief = "number of shard files of the training split",
               .details = "It replaces data.shard_tokens",
               .unset = "as many as data.shard_tokens gives",
               .unit = "files",
               .min = 1,
               .max = 100000});
  visit.field(
      "end_of_text", data.end_of_text,
      {.brief = "token between documents", .unset = "the tokenizer's own, if it has one", .value_name = "TOKEN"});
  visit.field("special_tokens", data.special_tokens,
              {.brief = "special tokens spelled out in documents: special or text",
               .details = "special encodes <|endoftext|> and the like as their ids, as the tokenizers library does "
                          "with the dataset's tokenizer.json. text encodes them as characters",
               .unset = "special; text for messages, where roles are special tokens"});
  visit.field("write", data.write,
              {.brief = "output format: token shards or files of another program",
               .unset = "token shards; token files are used in place and nothing is written"});
  visit.field("validation_seed", data.seed, {.brief = "seed of the hash that chooses validation documents", .min = 0});
  visit.field(
      "name", data.hub.configuration,
      {.brief = "configuration (subset) of a Hugging Face hub dataset", .unset = "its default, or its only one"});
  visit.field("split", data.hub.split, {.brief = "split of a Hugging Face hub dataset to prepare", .unset = "train"});
  visit.field("revision", data.hub.revision,
              {.brief = "branch, tag or commit of a Hugging Face hub dataset", .unset = "main"});
  visit.field("data_files", data.hub.data_files,
              {.brief = "files of a Hugging Face hub dataset, as patterns (* ? [ ] **)",
               .details = "They replace the splits of the dataset. ** matches any folders",
               .value_name = "PATTERN"});
}

void describe(Declaration& visit, PrepareConfig& config) {
  describe_plugin_files(visit, config.plugin);
  visit.field(
      "inputs", config.inputs,
      {.brief = "input: text, records, tables, token files, a hub dataset, or -",
       .details =
           "Text is .txt; records are .jsonl, .json, .csv and .tsv, plain or compressed (.gz, .zst, .bz2, .xz); tables "
           "are .parquet and .arrow. Token files of other programs and prepared datasets work too. Inputs are files, "
           "quoted globs, folders, hub datasets (hf://datasets/OWNER/NAME), or - for standard input",
       .value_name = "INPUT",
       .positional = true,
       .completes = Completes::files});
  visit.field("output", config.output,
              {.brief = "folder to create for the token shards",
               .value_name = "DIR",
               .letter = 'o',
               .completes = Completes::folders});
  visit.field("verify", config.verify,
              {.brief = "verify a dataset against its description and hashes; exit 1 if bad",
               .value_name = "DIR",
               .command_line_only = true,
               .completes = Completes::folders});
  visit.field("inspect", config.inspect,
              {.brief = "show documents of a dataset as text, and document lengths",
               .value_name = "DIR",
               .command_line_only = true,
               .completes = Completes::folders});
  visit.field("plot", config.plot,
              {.brief = "with --inspect: draw the document lengths into an SVG file",
               .value_name = "FILE",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("train_tokenizer", config.train_tokenizer,
              {.brief = "train a byte-level BPE tokenizer with this vocabulary size",
               .details = "No dataset is made",
               .unit = "tokens",
               .min = 257,
               .max = 1 << 22,
               .value_name = "SIZE",
               .command_line_only = true});
  visit.field("format", config.format,
              {.brief = "format of standard input, or of files whose name does not tell it",
               .details = "It is also needed for token files of nanogpt, whose content does not tell their program",
               .unset = "data.format"});
  visit.field("overwrite", config.overwrite,
              {.brief = "replace an existing dataset", .details = "Anything else at that path is never replaced"});
  visit.field("threads", config.threads,
              {.brief = "threads per rank",
               .unset = "cores divided by the ranks of this machine",
               .min = 1,
               .max = most_threads});
  visit.field("watchdog", config.watchdog,
              {.brief = "end the job when a rank makes no progress for this long",
               .details = "The job ends with code 7 and a table of every rank's phase. 0 sets no limit"});
  visit.section("data", "tokenization, records and validation split", [&] {
    visit.field("path", config.path,
                {.brief = "text to prepare if no INPUT is named: files, quoted globs, folders",
                 .details = "A configuration file for all programs can name it",
                 .value_name = "PATH",
                 .completes = Completes::files});
    describe(visit, config.data);
  });
  visit.section("bpe", "tokenizer training (--train-tokenizer)", [&] {
    TrainedBpeOptions& bpe = config.bpe;
    visit.field("pattern", bpe.pattern, {.brief = "pre-tokenizer pattern: gpt2, llama3, qwen2 or o200k"});
    visit.field("min_count", bpe.min_count,
                {.brief = "minimum count of a pair of tokens to merge", .min = 1, .max = 0x1p40});
    visit.field("special_tokens", bpe.special_tokens,
                {.brief = "special tokens to add, such as <|im_start|>",
                 .details = "They follow the end-of-text token, which is data.end_of_text or <|endoftext|>"});
  });
  visit.section("samples", "output of --inspect", [&] {
    ShownSamples& samples = config.samples;
    visit.field("split", samples.split, {.brief = "split of the dataset to show"});
    visit.field("count", samples.count, {.brief = "number of documents to show", .min = 0, .max = 1 << 20});
    visit.field("first", samples.first,
                {.brief = "index of the first document to show, from 0",
                 .details = "The following documents are shown too",
                 .unset = "documents are drawn at random",
                 .min = 0,
                 .max = 0x1p53});
    visit.field("seed", samples.seed, {.brief = "seed of the random choice", .min = 0});
    visit.field("tokens", samples.tokens,
                {.brief = "maximum tokens shown of each document", .unit = "tokens", .min = 1, .max = 1 << 24});
  });
  describe_plugin_options(visit, config.plugin_values);
}

Tool tool_of(const PrepareConfig&) {
  return {.name = "prepare-data",
          .summary = "turn text into token shards to train on",
          .synopsis = {"[OPTION...] INPUT... --output DIR", "[OPTION...] - --format FORMAT --output DIR",
                       "[OPTION...] INPUT... --train-tokenizer SIZE --output DIR",
                       "[OPTION...] CONFIG.yaml... --output DIR", "--verify DIR",
                       "[--samples.NAME VALUE...] --inspect DIR"},
          .arguments = Tool::Arguments::options_and_config_files,
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::text_or_json,
          .first_options = {"output", "data.tokenizer", "data.validation", "data.text_field", "data.records",
                            "data.chat_template", "train-tokenizer", "inspect", "verify", "overwrite", "format",
                            "config", "dry-run", "json"}};
}

namespace {

void check_trained(const PrepareConfig& config, Problems& problems) {
  std::vector<std::string> tokens = config.bpe.special_tokens;
  tokens.push_back(config.data.end_of_text.value_or("<|endoftext|>"));
  std::ranges::sort(tokens);
  if (tokens.front().empty()) problems.add({"bpe.special_tokens"}, "a special token must not be empty");
  if (const auto twice = std::ranges::adjacent_find(tokens); twice != tokens.end())
    problems.add({"bpe.special_tokens", "data.end_of_text"},
                 fmt::format("the special token {} is given twice", *twice));
  const std::int64_t least = 256 + std::ssize(tokens);
  if (*config.train_tokenizer < least)
    problems.add(
        {"train_tokenizer", "bpe.special_tokens"},
        fmt::format("--train-tokenizer must be at least {}: 256 bytes and {} special tokens", least, tokens.size()));
}

}  // namespace

void check(const PrepareConfig& config, Problems& problems) {
  if (config.plot && !config.inspect) problems.add({"plot"}, "--plot needs --inspect DIR");
  if (config.samples != ShownSamples{} && !config.inspect)
    problems.add({"samples.split", "samples.count", "samples.first", "samples.seed", "samples.tokens"},
                 "samples.* has no effect without --inspect");
  if (config.bpe != TrainedBpeOptions{} && !config.train_tokenizer)
    problems.add({"bpe.pattern", "bpe.min_count", "bpe.special_tokens"},
                 "bpe.* has no effect without --train-tokenizer");
  if (config.samples.first && config.samples.seed != 0)
    problems.add({"samples.seed", "samples.first"}, "samples.seed has no effect with samples.first: nothing is drawn");
  if (config.inspect) {
    if (config.verify || config.train_tokenizer || !config.inputs.empty() || !config.output.empty())
      problems.add({"inspect", "inputs", "output", "verify", "train_tokenizer"},
                   "--inspect only shows a dataset: it takes no INPUT, --output, --verify or --train-tokenizer");
    return;
  }
  if (config.verify) {
    if (config.train_tokenizer)
      problems.add({"verify", "train_tokenizer"}, "--verify and --train-tokenizer exclude each other: choose one");
    if (!config.inputs.empty() || !config.output.empty())
      problems.add({"verify", "inputs", "output"}, "--verify only checks a dataset: it takes no INPUT and no --output");
    return;
  }
  if (config.train_tokenizer) check_trained(config, problems);
  if (config.train_tokenizer && config.data.write)
    problems.add({"train_tokenizer", "data.write"}, "--train-tokenizer writes no tokens: leave data.write out");
  if (config.train_tokenizer && config.data.deduplicate != Deduplicate::none)
    problems.add({"train_tokenizer", "data.deduplicate"},
                 "--train-tokenizer does not deduplicate documents: leave data.deduplicate out");
  if (config.text().empty()) problems.add({"inputs"}, "INPUT is needed: files, quoted globs or folders of text, or -");
  if (config.output.empty()) problems.add({"output"}, "--output is needed: the folder to create");
  if (std::ranges::find(config.path, "-") != config.path.end())
    problems.add({"data.path"}, "data.path takes files and folders: name standard input (-) on the command line");
  const bool reads_standard_input = std::ranges::find(config.inputs, "-") != config.inputs.end();
  if (reads_standard_input && config.inputs.size() > 1)
    problems.add({"inputs"}, "standard input (-) must be the only INPUT: name no other");
  const auto format = config.input_format();
  if (reads_standard_input && !(format && is_text_format(*format)))
    problems.add({"format"},
                 "--format txt, jsonl, json, csv, tsv, parquet or arrow is needed: standard input has no file "
                 "name");
  if (config.format == InputFormat::txt && config.data.records.form != RecordForm::text)
    problems.add({"format", "data.records"}, "--format txt has no records: data.records must be text");
  if (config.train_tokenizer && config.data.records.form != RecordForm::text)
    problems.add({"train_tokenizer", "data.records"}, "--train-tokenizer reads only text: data.records must be text");
  check(config.data, problems);
}

void check(const PrepareDataOptions& data, Problems& problems) {
  check_records(data.records, problems);
  if (data.format == InputFormat::txt && data.records.form != RecordForm::text)
    problems.add({"data.format", "data.records"}, "data.format txt has no records: data.records must be text");
  if (data.records.form != RecordForm::text) {
    if (data.text_field != PrepareDataOptions{}.text_field)
      problems.add({"data.text_field", "data.records"}, "data.text_field has no effect unless data.records is text");
    if (data.write)
      problems.add({"data.write", "data.records"}, "data.write cannot keep loss masks: data.records must be text");
    if (data.deduplicate == Deduplicate::caseless)
      problems.add({"data.deduplicate", "data.records"},
                   "data.deduplicate caseless needs data.records text: use exact");
    if (data.tokenizer_or_bytes().kind == TokenizerChoice::Kind::chars)
      problems.add({"data.tokenizer", "data.records"},
                   "data.tokenizer chars needs data.records text: name the folder of a tokenizer");
  }
  if (data.shards && data.shard_tokens != PrepareDataOptions{}.shard_tokens)
    problems.add({"data.shards", "data.shard_tokens"},
                 "data.shards and data.shard_tokens both set the size of shards: leave one out");
  if (data.validation && data.validation_files)
    problems.add({"data.validation", "data.validation_files"},
                 "data.validation and data.validation_files both choose the validation split: leave one out");
  const bool by_hash = !data.validation || data.validation->by == ValidationSplit::Kind::hash ||
                       data.validation->by == ValidationSplit::Kind::count;
  if (data.seed != 0 && !by_hash) {
    problems.add({"data.validation_seed", "data.validation"},
                 "data.validation_seed has no effect unless data.validation is hash:FRACTION or count:N");
  }
  if (data.hub.split && *data.hub.split != "train" && !data.hub.data_files.empty())
    problems.add({"data.split", "data.data_files"},
                 "data.split has no effect: data.data_files names the files to prepare");
}

}  // namespace lockstep
