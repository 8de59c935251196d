#include "config/prepare_config.hpp"

#include "config/option.hpp"
#include "config/problems.hpp"
#include "config/ranges.hpp"
#include "config/tool.hpp"

namespace lockstep {

void describe(Declaration& visit, PrepareConfig& config) {
  visit.field(
      "inputs", config.inputs,
      {.help = "text (.txt) or JSON lines (.jsonl), plain or compressed (.gz, .zst): files, quoted globs, folders",
       .value_name = "INPUT",
       .required = true,
       .positional = true,
       .completes = Completes::files});
  visit.field("output", config.output,
              {.help = "folder to create, with token shards and their description",
               .value_name = "DIR",
               .letter = 'o',
               .required = true,
               .completes = Completes::folders});
  visit.field("overwrite", config.overwrite,
              {.help = "replace a dataset that is there; anything else is never replaced"});
  visit.field(
      "threads", config.threads,
      {.help = "threads of a rank; null: cores divided by the ranks of this machine", .min = 1, .max = most_threads});
  visit.section("data", "how text becomes tokens", [&] {
    PrepareDataOptions& data = config.data;
    visit.field(
        "tokenizer", data.tokenizer,
        {.help = "bytes, chars (a vocabulary of the characters that occur), or a tokenizer.json, or a folder with one "
                 "or with vocab.json and merges.txt",
         .completes = Completes::files});
    visit.field("text_field", data.text_field,
                {.help = "field of a JSON line that holds the text", .value_name = "NAME"});
    visit.field("validation", data.validation,
                {.help = "documents held back for validation: a fraction by content hash, or the tail of the stream"});
    visit.field("shard_tokens", data.shard_tokens,
                {.help = "size of a shard file, at most", .unit = "tokens", .min = 1, .max = 0x1p40});
    visit.field("end_of_text", data.end_of_text,
                {.help = "token between documents; null: the tokenizer's own, if it has one", .value_name = "TOKEN"});
    visit.field("seed", data.seed, {.help = "of the hash that chooses validation documents", .min = 0});
  });
}

Tool tool_of(const PrepareConfig&) {
  return {.name = "prepare-data",
          .summary = "turn text into token shards to train on",
          .synopsis = {"[OPTION...] INPUT... --output DIR"},
          .arguments = Tool::Arguments::options,
          .dry_run = Tool::DryRun::yes,
          .output = Tool::Output::text_or_json};
}

void check(const PrepareConfig& config, Problems& problems) {
  if (config.data.seed != 0 && config.data.validation.by != ValidationSplit::By::hash) {
    problems.add({"data.seed", "data.validation"}, "data.seed has no effect unless data.validation is hash:FRACTION");
  }
}

}  // namespace lockstep
