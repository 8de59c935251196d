// The sections model and data of train, and the datasets that other sections name.
#include "config/train_choices.hpp"
#include "config/train_sections.hpp"
#include "options/option.hpp"
#include "options/ranges.hpp"

namespace lockstep {

namespace {

// Why checkpoint.allow_change cannot permit a change.
constexpr std::string_view counts_samples =
    "the saved position in the data is a number of samples, and would mean others";
constexpr std::string_view shape_of_model = "the weights in the checkpoint have the shape of its model";

/// How text is prepared.
void describe_preparation(Declaration& visit, DataOptions& data) {
  visit.field("prepare", data.prepare,
              {.brief = "tokenize raw text before training: auto or skip",
               .details = "It applies to text that data.path, data.datasets or eval.datasets name"});
  visit.field("cache", data.cache,
              {.brief = "cache folder for prepared text, visible to all ranks",
               .unset = ".lockstep-cache beside train.run_dir",
               .value_name = "DIR",
               .completes = Completes::folders});
  describe(visit, data.preparation);
}

void describe_choice(Declaration& visit, DatasetChoice& dataset, const std::string& usual_split) {
  visit.field("path", dataset.path,
              {.brief = "token shards, text as in data.path, or dummy",
               .details = "dummy makes tokens for tests of speed",
               .value_name = "PATH",
               .required = true,
               .completes = Completes::files});
  visit.field("name", dataset.name, {.brief = "name in plans and records", .unset = "last part of the path"});
  visit.field("split", dataset.split, {.brief = "split", .unset = usual_split, .value_name = "NAME"});
  visit.field("hub_name", dataset.hub_name,
              {.brief = "configuration (subset), if path is a Hugging Face hub dataset", .unset = "data.name"});
  visit.field("hub_split", dataset.hub_split,
              {.brief = "split to prepare, if path is a Hugging Face hub dataset", .unset = "data.split"});
  visit.field("fraction", dataset.fraction,
              {.brief = "use only this fraction of its samples, drawn by data.seed",
               .unset = "all",
               .min = 0,
               .max = 1,
               .above_min = true});
  visit.field("samples", dataset.samples,
              {.brief = "use only this many first samples; of dummy, their number",
               .unset = "all",
               .unit = "samples",
               .min = 1,
               .max = most_count});
  visit.field("shard", dataset.shard, {.brief = "use part I of N equal parts, counted from 1", .unset = "all"});
  visit.field("length", dataset.length,
              {.brief = "tokens in samples of dummy; padding follows",
               .unset = "data.sequence_length",
               .unit = "tokens",
               .min = 1,
               .max = most_count});
  visit.field("tokens", dataset.tokens,
              {.brief = "tokens of dummy: random or constant",
               .details = "random draws ids of the model's vocabulary by data.seed. constant is the id 0"});
}

}  // namespace

void describe(Declaration& visit, ModelOptions& model) {
  visit.field(
      "config", model.config,
      {.brief = "Hugging Face config.json (file, folder, OWNER/NAME): from scratch",
       .details = "OWNER/NAME is read from the cache of the Hugging Face hub. Weights are initialised from train.seed",
       .value_name = "PATH",
       .on_resume = OnResume::by_content(shape_of_model),
       .completes = Completes::files});
  visit.field(
      "path", model.path,
      {.brief = "Hugging Face model (folder or OWNER/NAME): fine-tune its weights",
       .details =
           "The folder holds config.json and safetensors. OWNER/NAME is read from the cache of the Hugging Face hub",
       .value_name = "DIR",
       .on_resume = OnResume::by_content(shape_of_model),
       .completes = Completes::folders});
  const auto rate = [&](const std::string& name, std::optional<double>& value, const std::string& brief) {
    visit.field(name, value, {.brief = brief, .min = 0, .max = 0.99, .on_resume = OnResume::fixed()});
  };
  rate("dropout", model.dropout, "dropout rate of embedding, attention and residual (not config.json's)");
  rate("embedding_dropout", model.embedding_dropout, "dropout rate of the embedding");
  rate("attention_dropout", model.attention_dropout, "dropout rate of the attention probabilities");
  rate("residual_dropout", model.residual_dropout, "dropout rate of the attention and MLP outputs (residual)");
}

void describe(Declaration& visit, DataOptions& data) {
  visit.field("path", data.path,
              {.brief = "training data: token shards, or text and records to tokenize first",
               .details = "Token shards are a folder that prepare-data wrote. Text and records are files, quoted globs "
                          "or folders, as prepare-data takes them",
               .value_name = "PATH",
               .on_resume = OnResume::by_content(counts_samples),
               .completes = Completes::files});
  visit.field("datasets", data.datasets,
              {.brief = "several datasets (a mixture) instead of data.path",
               .details = "All use one tokenizer. Without weights, each sample of each dataset comes once per epoch. "
                          "With weights, each dataset has epochs of its own",
               .on_resume = OnResume::by_content(counts_samples)});
  visit.field("shard", data.shard,
              {.brief = "train on part I of N equal parts of each dataset, counted from 1",
               .unset = "all of it",
               .on_resume = OnResume::fixed(counts_samples)});
  visit.field("train_split", data.train_split,
              {.brief = "split to train on", .value_name = "NAME", .on_resume = OnResume::fixed(counts_samples)});
  visit.field("validation_split", data.validation_split, {.brief = "split to evaluate on", .value_name = "NAME"});
  visit.field("sequence_length", data.sequence_length,
              {.brief = "sequence length of a sample",
               .unit = "tokens",
               .min = 1,
               .max = most_count,
               .required = true,
               .needless_with = {"sample_", "sample_file"},
               .on_resume = OnResume::fixed(counts_samples)});
  visit.field("shuffle", data.shuffle, {.brief = "shuffle the samples in each epoch", .on_resume = OnResume::fixed()});
  visit.field("shuffle_where", data.shuffle_where,
              {.brief = "scope of data.shuffle in a mixture",
               .unset = "datasets with weights, mixture without",
               .on_resume = OnResume::fixed()});
  visit.field("isolate_documents", data.isolate_documents,
              {.brief = "mask attention at document boundaries", .on_resume = OnResume::fixed()});
  visit.field("packing", data.packing,
              {.brief = "packing of documents into samples",
               .details = "Rows that hold several documents mask attention between them. Plug-ins add names",
               .on_resume = OnResume::fixed(counts_samples)});
  visit.field("packing_group", data.packing_group,
              {.brief = "documents that multipack and best_fit pack together in one group",
               .unit = "documents",
               .min = 1,
               .max = most_count,
               .on_resume = OnResume::fixed(counts_samples)});
  visit.field("long_documents", data.long_documents,
              {.brief = "documents longer than a row: split, truncate or drop",
               .details = "It applies to all packings but windows",
               .on_resume = OnResume::fixed(counts_samples)});
  visit.field("pad_to_multiple_of", data.pad_to_multiple_of,
              {.brief = "pad each packed document to a multiple of this many tokens",
               .unit = "tokens",
               .min = 1,
               .max = most_count,
               .on_resume = OnResume::resolved({}, counts_samples)});
  visit.field("max_documents_per_row", data.max_documents_per_row,
              {.brief = "maximum documents in a sample, for planning with parallel.ring",
               .details = "The dataset is checked against it; memory is planned for this many documents",
               .unset = "data.sequence_length",
               .unit = "documents",
               .min = 1,
               .max = most_count});
  visit.field("seed", data.seed,
              {.brief = "seed of the sample order", .unset = "train.seed", .min = 0, .on_resume = OnResume::fixed()});
  visit.field("repeat_order", data.repeat_order,
              {.brief = "keep the sample order of the first epoch in all epochs", .on_resume = OnResume::fixed()});
  visit.field(
      "drop_last", data.drop_last,
      {.brief = "drop the last incomplete step of an epoch",
       .details = "Otherwise the first samples of the next epoch complete the step, unless data.short_last_step is set",
       .on_resume = OnResume::fixed(counts_samples)});
  visit.field("short_last_step", data.short_last_step,
              {.brief = "end each epoch with a step of the samples that are left",
               .details = "transformers does so. With drop_last, samples are dropped if they are fewer than a "
                          "micro-batch of every rank of the first start",
               .on_resume = OnResume::fixed(counts_samples)});
  visit.field("prefetch", data.prefetch,
              {.brief = "batches that the data loader makes ahead in a background thread",
               .details = "0 makes each batch when its step needs it",
               .unit = "batches",
               .min = 0,
               .max = 1024});
  visit.field("verify", data.verify, {.brief = "verify shard hashes: use, start or off"});
  describe_preparation(visit, data);
}

void describe(Declaration& visit, TrainingDataset& dataset) {
  describe_choice(visit, dataset, "data.train_split");
  visit.field(
      "weight", dataset.weight,
      {.brief = "weight in the mixture",
       .details =
           "Its share of the samples is its weight divided by the sum of all. Set it for all datasets or for none",
       .min = 0,
       .above_min = true});
}

void describe(Declaration& visit, EvaluationDataset& dataset) {
  describe_choice(visit, dataset, "data.validation_split");
  visit.field("batches", dataset.batches,
              {.brief = "evaluation size in global batches, spread evenly",
               .unset = "eval.batches",
               .min = 1,
               .max = most_count});
}

}  // namespace lockstep
