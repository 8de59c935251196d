#include "config/prepare_config.hpp"

#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/ranges.hpp"
#include "config/record_config.hpp"
#include "config/tool.hpp"

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
  visit.field(
      "tokenizer", data.tokenizer,
      {.help = "what turns text into tokens: bytes, chars (a vocabulary of the characters that occur), a "
               "tokenizer.json or tokenizer.model, a folder with one or with vocab.json and merges.txt, or a model "
               "OWNER/NAME in the cache of the Hugging Face hub, or the name of one of a plug-in; null: "
               "bytes, and of token files none",
       .completes = Completes::files});
  visit.field("format", data.format,
              {.help = "format of the files that the input names, whose names or content do not tell it: one text, "
                       "records or tables of these forms, or token files; null: names and content tell"});
  visit.field("text_field", data.text_field,
              {.help = "field of a record, or column of a table, that holds the text", .value_name = "NAME"});
  describe_records(visit, data.records);
  visit.field("validation", data.validation,
              {.help = "documents held back for validation: a fraction by content hash, the tail of the stream, or "
                       "so many with the lowest hashes; "
                       "null: hash:0.01, or tail:0.01 where that leaves a split empty; of token files those named "
                       "val or validation, or tail:0.01"});
  visit.field(
      "validation_files", data.validation_files,
      {.help = "token files that are the validation split: names with * ? [ ] as in a shell", .value_name = "PATTERN"});
  visit.field(
      "malformed", data.malformed,
      {.help = "a record that cannot be read or used, or a text that is not UTF-8: stop there, or skip it, count "
               "it and name the first ones"});
  visit.field("deduplicate", data.deduplicate,
              {.help = "leave out documents that are there already, by a hash of their text with each run of white "
                       "space as one space, none at the ends: exact; caseless, of lower-case letters as well; of "
                       "records that do not hold "
                       "text, exact leaves out samples with the same tokens of which the same count"});
  visit.field("shard_tokens", data.shard_tokens,
              {.help = "size of a shard file, at most", .unit = "tokens", .min = 1, .max = 0x1p40});
  visit.field("shards", data.shards,
              {.help = "so many shard files of the training split, instead of data.shard_tokens; null: as many as "
                       "that gives",
               .unit = "files",
               .min = 1,
               .max = 100000});
  visit.field(
      "end_of_text", data.end_of_text,
      {.help = "token between documents of text; null: the tokenizer's own, if it has one", .value_name = "TOKEN"});
  visit.field("special_tokens", data.special_tokens,
              {.help = "what a special token is that a document spells out, such as <|endoftext|>: special, the ids "
                       "that the tokenizers library gives with the dataset's tokenizer.json; text, ids of its "
                       "characters; null: special, and in messages, where roles are special tokens, text"});
  visit.field("write", data.write,
              {.help = "what is written: token shards, or files as another program reads them; null: token shards, "
                       "and of token files, which are used where they lie, nothing"});
  visit.field("validation_seed", data.seed, {.help = "of the hash that chooses validation documents", .min = 0});
  visit.field("name", data.hub.configuration,
              {.help = "configuration of a dataset of the Hugging Face hub; null: its default, or its only one"});
  visit.field("split", data.hub.split,
              {.help = "split of a dataset of the Hugging Face hub that is prepared; null: train"});
  visit.field("revision", data.hub.revision,
              {.help = "branch, tag or commit of a dataset of the Hugging Face hub; null: main"});
  visit.field("data_files", data.hub.data_files,
              {.help = "files of a dataset of the Hugging Face hub that are prepared, whatever its splits are: names "
                       "with * ? [ ] as in a shell, and ** for any folders",
               .value_name = "PATTERN"});
}

void describe(Declaration& visit, PrepareConfig& config) {
  describe_plugin_files(visit, config.plugin);
  visit.field(
      "inputs", config.inputs,
      {.help =
           "text (.txt) or records (.jsonl, .json, .csv, .tsv), plain or compressed (.gz, .zst, .bz2, .xz), or tables "
           "(.parquet, .arrow), or token files of other programs, or a prepared dataset: files, quoted globs, folders, "
           "datasets of the Hugging Face hub (hf://datasets/OWNER/NAME); or - for standard input",
       .value_name = "INPUT",
       .positional = true,
       .completes = Completes::files});
  visit.field("output", config.output,
              {.help = "folder to create, with token shards and their description",
               .value_name = "DIR",
               .letter = 'o',
               .completes = Completes::folders});
  visit.field(
      "verify", config.verify,
      {.help = "make nothing, but compare a dataset with its description and its hashes; exit 1 if it is damaged",
       .value_name = "DIR",
       .command_line_only = true,
       .completes = Completes::folders});
  visit.field("inspect", config.inspect,
              {.help = "make nothing, but show documents of a dataset as text, and how long all of them are",
               .value_name = "DIR",
               .command_line_only = true,
               .completes = Completes::folders});
  visit.field("plot", config.plot,
              {.help = "with --inspect: draw the lengths of documents into an SVG file",
               .value_name = "FILE",
               .command_line_only = true,
               .completes = Completes::files});
  visit.field("train_tokenizer", config.train_tokenizer,
              {.help = "make no dataset, but a tokenizer of so many tokens from the input: byte-level BPE",
               .unit = "tokens",
               .min = 257,
               .max = 1 << 22,
               .value_name = "SIZE",
               .command_line_only = true});
  visit.field("format", config.format,
              {.help = "format of INPUT: of standard input; of files whose names do not tell it; or of token files "
                       "whose content does not tell it, those of nanogpt; null: data.format"});
  visit.field("overwrite", config.overwrite,
              {.help = "replace a dataset that is there; anything else is never replaced"});
  visit.field(
      "threads", config.threads,
      {.help = "threads of a rank; null: cores divided by the ranks of this machine", .min = 1, .max = most_threads});
  visit.field(
      "watchdog", config.watchdog,
      {.help = "longest time that a rank may go on without progress before the job ends with code 7 and a table of "
               "where every rank is; 0: no limit"});
  visit.section("data", "how text becomes tokens", [&] {
    visit.field("path", config.path,
                {.help = "text to prepare where no INPUT is named, as a file for all programs says it: files, quoted "
                         "globs, folders",
                 .value_name = "PATH",
                 .completes = Completes::files});
    describe(visit, config.data);
  });
  visit.section("bpe", "the tokenizer that --train-tokenizer makes", [&] {
    TrainedBpeOptions& bpe = config.bpe;
    visit.field("pattern", bpe.pattern, {.help = "whose pattern cuts text into the pieces that tokens are parts of"});
    visit.field(
        "min_count", bpe.min_count,
        {.help = "how often two tokens have to stand beside each other to become one", .min = 1, .max = 0x1p40});
    visit.field(
        "special_tokens", bpe.special_tokens,
        {.help = "tokens with a meaning of their own, such as <|im_start|>, behind the end-of-text token, which "
                 "is data.end_of_text, or <|endoftext|>"});
  });
  visit.section("samples", "what --inspect shows", [&] {
    ShownSamples& samples = config.samples;
    visit.field("split", samples.split, {.help = "split of the dataset"});
    visit.field("count", samples.count, {.help = "documents that are shown", .min = 0, .max = 1 << 20});
    visit.field("first", samples.first,
                {.help = "number of the first one, from 0; others follow it; null: they are drawn from all",
                 .min = 0,
                 .max = 0x1p53});
    visit.field("seed", samples.seed, {.help = "of the drawing", .min = 0});
    visit.field("tokens", samples.tokens,
                {.help = "of a document, at most", .unit = "tokens", .min = 1, .max = 1 << 24});
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
          .output = Tool::Output::text_or_json};
}

namespace {

void check_trained(const PrepareConfig& config, Problems& problems) {
  std::vector<std::string> tokens = config.bpe.special_tokens;
  tokens.push_back(config.data.end_of_text.value_or("<|endoftext|>"));
  std::ranges::sort(tokens);
  if (tokens.front().empty()) problems.add({"bpe.special_tokens"}, "a special token needs characters");
  if (const auto twice = std::ranges::adjacent_find(tokens); twice != tokens.end())
    problems.add({"bpe.special_tokens", "data.end_of_text"},
                 fmt::format("the special token {} is there twice", *twice));
  const std::int64_t least = 256 + std::ssize(tokens);
  if (*config.train_tokenizer < least)
    problems.add({"train_tokenizer", "bpe.special_tokens"},
                 fmt::format("--train-tokenizer takes at least {}: 256 bytes and {} special", least, tokens.size()));
}

}  // namespace

void check(const PrepareConfig& config, Problems& problems) {
  if (config.plot && !config.inspect)
    problems.add({"plot"}, "--plot draws what --inspect shows: name a dataset with it");
  if (config.samples != ShownSamples{} && !config.inspect)
    problems.add({"samples.split", "samples.count", "samples.first", "samples.seed", "samples.tokens"},
                 "samples says what --inspect shows: it has no effect without it");
  if (config.bpe != TrainedBpeOptions{} && !config.train_tokenizer)
    problems.add({"bpe.pattern", "bpe.min_count", "bpe.special_tokens"},
                 "bpe is of the tokenizer that --train-tokenizer makes: it has no effect without it");
  if (config.samples.first && config.samples.seed != 0)
    problems.add({"samples.seed", "samples.first"}, "samples.seed has no effect with samples.first: nothing is drawn");
  if (config.inspect) {
    if (config.verify || config.train_tokenizer || !config.inputs.empty() || !config.output.empty())
      problems.add({"inspect", "inputs", "output", "verify", "train_tokenizer"},
                   "--inspect shows a dataset and makes nothing: it takes no INPUT, no --output and no other task");
    return;
  }
  if (config.verify) {
    if (config.train_tokenizer)
      problems.add({"verify", "train_tokenizer"}, "--verify checks a dataset, and --train-tokenizer makes a tokenizer");
    if (!config.inputs.empty() || !config.output.empty())
      problems.add({"verify", "inputs", "output"},
                   "--verify checks a dataset and makes none: it takes no INPUT and no --output");
    return;
  }
  if (config.train_tokenizer) check_trained(config, problems);
  if (config.train_tokenizer && config.data.write)
    problems.add({"train_tokenizer", "data.write"}, "--train-tokenizer makes a tokenizer, and no tokens to write");
  if (config.train_tokenizer && config.data.deduplicate != Deduplicate::none)
    problems.add({"train_tokenizer", "data.deduplicate"},
                 "--train-tokenizer counts documents that are there twice twice: "
                 "it takes no data.deduplicate");
  if (config.text().empty()) problems.add({"inputs"}, "INPUT is needed: files, quoted globs or folders of text, or -");
  if (config.output.empty()) problems.add({"output"}, "--output is needed: the folder to create");
  if (std::ranges::find(config.path, "-") != config.path.end())
    problems.add({"data.path"},
                 "standard input (-) is prepared where it is named on the command line: data.path takes "
                 "files and folders");
  const bool reads_standard_input = std::ranges::find(config.inputs, "-") != config.inputs.end();
  if (reads_standard_input && config.inputs.size() > 1)
    problems.add({"inputs"}, "standard input (-) is prepared alone: name no other INPUT beside it");
  const auto format = config.input_format();
  if (reads_standard_input && !(format && is_text_format(*format)))
    problems.add({"format"},
                 "--format txt, jsonl, json, csv, tsv, parquet or arrow is needed: standard input has no name that "
                 "tells");
  if (config.format == InputFormat::txt && config.data.records.form != RecordForm::text)
    problems.add({"format", "data.records"}, "--format txt holds one text, no records: data.records must be text");
  if (config.train_tokenizer && config.data.records.form != RecordForm::text)
    problems.add({"train_tokenizer", "data.records"}, "--train-tokenizer reads texts: data.records must be text");
  check(config.data, problems);
}

void check(const PrepareDataOptions& data, Problems& problems) {
  check_records(data.records, problems);
  if (data.format == InputFormat::txt && data.records.form != RecordForm::text)
    problems.add({"data.format", "data.records"},
                 "data.format txt holds one text, no records: data.records must be text");
  if (data.records.form != RecordForm::text) {
    if (data.text_field != PrepareDataOptions{}.text_field)
      problems.add({"data.text_field", "data.records"}, "data.text_field has no effect unless data.records is text");
    if (data.write)
      problems.add({"data.write", "data.records"}, "data.write has no place for masks: data.records must be text");
    if (data.deduplicate == Deduplicate::caseless)
      problems.add({"data.deduplicate", "data.records"},
                   "data.deduplicate caseless compares texts: of data.records of another form it takes exact");
    if (data.tokenizer_or_bytes().kind == TokenizerChoice::Kind::chars)
      problems.add({"data.tokenizer", "data.records"},
                   "data.tokenizer chars is made of text: data.records of another form needs a tokenizer of a folder");
  }
  if (data.shards && data.shard_tokens != PrepareDataOptions{}.shard_tokens)
    problems.add({"data.shards", "data.shard_tokens"},
                 "data.shards and data.shard_tokens both say how large shards are");
  if (data.validation && data.validation_files)
    problems.add(
        {"data.validation", "data.validation_files"},
        "data.validation says which documents are validation, data.validation_files which files are: leave one out");
  const bool by_hash = !data.validation || data.validation->by == ValidationSplit::By::hash ||
                       data.validation->by == ValidationSplit::By::count;
  if (data.seed != 0 && !by_hash) {
    problems.add({"data.validation_seed", "data.validation"},
                 "data.validation_seed has no effect unless data.validation is hash:FRACTION or count:N");
  }
  if (data.hub.split && *data.hub.split != "train" && !data.hub.data_files.empty())
    problems.add({"data.split", "data.data_files"}, "data.data_files says which files are prepared: they are no split");
}

}  // namespace lockstep
