#include "dialects/dialect_trl.hpp"

#include "base/files.hpp"
#include "dialects/dialect_hf.hpp"
#include "options/interpret.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <tuple>

namespace lockstep::trl {

namespace {

using enum DialectKey::Value;
using enum DialectKey::State;
using hf::jointly;

constexpr const char* no_remote_code = "code that comes with models or data is never run";

void activation_offloading(const Node& value, Lowering& lowering) {
  if (flag_word(value.text).value_or(false)) hf::offload({"activations"}, value, lowering);
}

void chat_template(const Node& value, Lowering& lowering) { lowering.set("data.chat_template", value); }

/// A folder has one revision.
void revision(const Node& value, Lowering& lowering) {
  const Node* const model = lowering.given("model_name_or_path");
  if (value.text == "main" || (model != nullptr && is_folder(model->text))) return;
  lowering.refuse(value, "name the folder of that revision");
}

void train_split(const Node& value, Lowering& lowering) {
  if (value.text != "train") lowering.set("data.split", value);
}

void model_init(const Node& value, Lowering& lowering) {
  for (const auto& [key, argument] : value.entries)
    if (key != "attn_implementation" && key != "dtype" && key != "torch_dtype" && key != "use_cache")
      lowering.refuse(argument, fmt::format("{}: the model is as its config.json says", key));
}

constexpr std::array trl_keys{
    DialectKey{"model_revision", text, "main", taken, "", "another than main is refused, except of a folder", "", "",
               revision},
    DialectKey{"dtype", text, "float32", noted, "",
               "precision.dtype and precision.weights say which types weights have", "float32|auto"},
    DialectKey{"torch_dtype", text, "", noted, "", "precision.dtype and precision.weights say which types weights have",
               "float32|auto"},
    DialectKey{"attn_implementation", text, "", moot, "", "there is one attention kernel, computed in blocks"},
    DialectKey{"use_flash_attention_2", flag, "", moot, "", "there is one attention kernel, computed in blocks"},
    DialectKey{"model_init_kwargs", map, "", taken, "", "its types and kernels have no effect", "", "", model_init},
    DialectKey{"trust_remote_code", flag, "false", noted, "", no_remote_code, "false"},
    DialectKey{"router_aux_loss_coef", number, "0.001", noted, "", "that of config.json counts"},

    DialectKey{"dataset_name", text, "", taken, "data.path", "files, or a dataset of the hub", "", "", jointly},
    DialectKey{"dataset_config", text, "", taken, "data.name"},
    DialectKey{"dataset_train_split", text, "train", taken, "data.split", "train is the default there and here", "", "",
               train_split},
    DialectKey{"dataset_test_split", text, "test", noted, "", "data.validation chooses documents to evaluate on",
               "test"},
    DialectKey{"dataset_mixture", map, "", taken, "data.path, data.datasets, data.seed, data.validation",
               "one whole dataset is data.path, others are data.datasets; columns name the records", "", "", jointly},
    DialectKey{"dataset_streaming", flag, "false", noted, "", "data is prepared once, before the first step", "false"},
    DialectKey{"dataset_text_field", text, "text", taken, "data.text_field"},
    DialectKey{"dataset_num_proc", number, "", taken, "threads", "of a rank of prepare-data"},
    DialectKey{"preprocessing_num_workers", number, "", taken, "threads", "of a rank of prepare-data"},
    DialectKey{"dataset_kwargs", map, "", noted, "", "data is prepared as the options of data say"},
    DialectKey{"ignore_bias_buffers", flag, "false", moot, "", hf::not_needed},
    DialectKey{"chat_template_path", text, "", taken, "data.chat_template, data.records, data.train_on",
               "for conversations", "", "", chat_template},
    DialectKey{"chat_template", text, "", taken, "data.chat_template, data.records, data.train_on",
               "a template, or its file, for conversations", "", "", chat_template},
    DialectKey{"eos_token", text, "", taken, "data.end_of_text"},
    DialectKey{"pad_token", text, "", moot, "", "padding is no label"},
    DialectKey{"max_length", number, "1024", taken, "data.sequence_length", "longer documents as packing_strategy says",
               "", "", jointly},
    DialectKey{"max_seq_length", number, "", taken, "data.sequence_length", "the former name of max_length", "", "",
               jointly},
    DialectKey{"truncation_mode", text, "keep_start", refused, "", "the beginning of a document is kept", "keep_start"},
    DialectKey{"packing", flag, "false", taken, "data.packing, data.long_documents",
               "false: none; long documents are cut", "", "", jointly},
    DialectKey{"packing_strategy", text, "bfd", taken, "data.packing, data.long_documents",
               "bfd, ffd and bfd_split: best_fit; wrapped: windows", "", "packing", jointly},
    DialectKey{"eval_packing", flag, "", taken, "eval.packing", "false: none", "", "", jointly},
    DialectKey{"padding_free", flag, "false", moot, "", "attention ends with a document"},
    DialectKey{"pad_to_multiple_of", number, "", taken, "data.pad_to_multiple_of"},
    DialectKey{"shuffle_dataset", flag, "false", moot, "", "data.shuffle draws the order of samples"},
    DialectKey{"completion_only_loss", flag, "", taken, "data.records, data.train_on",
               "true: records of prompt and completion, of which the completion is trained", "", "", jointly},
    DialectKey{"assistant_only_loss", flag, "false", taken, "data.records, data.train_on",
               "true: conversations, of which the assistant's messages are trained", "", "", jointly},
    DialectKey{"loss_type", text, "", refused, "", "the loss is cross-entropy: train.loss names one of a plug-in",
               "nll|chunked_nll"},
    DialectKey{"activation_offloading", flag, "false", taken, "train.offload", "true: activations", "", "",
               activation_offloading},

    DialectKey{"use_peft", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"lora_r", number, "16", refused, "", hf::no_adapters, "", "use_peft"},
    DialectKey{"lora_alpha", number, "32", refused, "", hf::no_adapters, "", "use_peft"},
    DialectKey{"lora_dropout", number, "0.05", refused, "", hf::no_adapters, "", "use_peft"},
    DialectKey{"lora_target_modules", list, "", refused, "", hf::no_adapters, "", "use_peft"},
    DialectKey{"lora_target_parameters", list, "", refused, "", hf::no_adapters, "", "use_peft"},
    DialectKey{"lora_modules_to_save", list, "", refused, "", hf::no_adapters, "", "use_peft"},
    DialectKey{"lora_task_type", text, "CAUSAL_LM", refused, "", hf::no_adapters, "", "use_peft"},
    DialectKey{"use_rslora", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"use_dora", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"load_in_8bit", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"load_in_4bit", flag, "false", refused, "", hf::no_adapters, "false"},
    DialectKey{"bnb_4bit_quant_type", text, "nf4", refused, "", hf::no_adapters, "", "load_in_4bit"},
    DialectKey{"bnb_4bit_quant_storage", text, "", refused, "", hf::no_adapters, "", "load_in_4bit"},
    DialectKey{"use_bnb_nested_quant", flag, "false", refused, "", hf::no_adapters, "", "load_in_4bit"},
    DialectKey{"beta", number, "", refused, "", hf::no_preferences},
    DialectKey{"max_prompt_length", number, "", refused, "", hf::no_preferences},
};

void lower_packing(Lowering& lowering) {
  const Node* const packing = lowering.given_beyond_preset("packing");
  const Node* length = lowering.given_beyond_preset("max_length");
  if (length == nullptr) length = lowering.given_beyond_preset("max_seq_length");
  const Node* const any_length = length == nullptr ? lowering.given_null("max_length") : nullptr;
  const Node* place = packing != nullptr ? packing : length != nullptr ? length : any_length;
  if (place == nullptr && lowering.given("block_size") == nullptr) {  // a file without both has the defaults there
    place = lowering.given("dataset_name");
    if (place == nullptr) place = lowering.given("dataset_mixture");
  }
  if (place == nullptr) return;
  if (length != nullptr)
    lowering.set("data.sequence_length", *length);
  else if (any_length == nullptr && !lowering.is_set("data.sequence_length"))
    lowering.set("data.sequence_length", lowering.text("max_length"), *place);
  const char* const long_ones = any_length == nullptr ? "truncate" : "split";  // without a length nothing is cut
  const Node* const how = lowering.given("packing_strategy");
  const std::string strategy = how == nullptr ? "bfd" : how->text;
  if (!lowering.on("packing", false)) {
    lowering.set("data.packing", "none", *place);
    lowering.set("data.long_documents", long_ones, *place);
  } else if (strategy == "wrapped") {
    lowering.set("data.packing", "windows", *place);
  } else if (strategy == "bfd" || strategy == "ffd" || strategy == "bfd_split") {
    lowering.set("data.packing", "best_fit", *place);
    lowering.set("data.long_documents", strategy == "bfd_split" ? "split" : long_ones, *place);
  } else {
    lowering.refuse(*how, "it must be bfd, ffd, bfd_split or wrapped");
  }
  const Node* const evaluation = lowering.given("eval_packing");
  if (evaluation != nullptr && lowering.on("packing", false) && !lowering.on("eval_packing", true))
    lowering.set("eval.packing", "none", *evaluation);
}

const Node* value_of(const Node& entry, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const Node* const value = entry.find(name); value != nullptr && value->kind != Node::Kind::null) return value;
  return nullptr;
}

/// The columns that all datasets of the mixture name; nullptr: none, or not of all.
const Node* columns_of(const Lowering& lowering, std::string_view column) {
  const Node* const mixture = lowering.given("dataset_mixture");
  const Node* const datasets = mixture != nullptr ? mixture->find("datasets") : nullptr;
  const Node* first = nullptr;
  if (datasets == nullptr) return nullptr;
  for (const Node& dataset : datasets->items) {
    const Node* const columns = value_of(dataset, {"columns"});
    if (columns == nullptr || std::ranges::find(columns->items, column, &Node::text) == columns->items.end())
      return nullptr;
    if (first == nullptr) first = columns;
  }
  return first;
}

/// Records and labels. TRL sees them by the columns of the dataset; the keys say them without opening it.
void lower_labels(Lowering& lowering) {
  const Node* const completion = lowering.on("completion_only_loss", false) ? lowering.given("completion_only_loss")
                                                                            : columns_of(lowering, "completion");
  const Node* messages = lowering.given("chat_template");
  if (messages == nullptr) messages = lowering.given("chat_template_path");
  if (messages == nullptr) messages = columns_of(lowering, "messages");
  if (lowering.on("assistant_only_loss", false)) {
    lowering.set("data.records", "messages", *lowering.given("assistant_only_loss"));
    lowering.set("data.train_on", "assistant", *lowering.given("assistant_only_loss"));
  } else if (completion != nullptr) {
    const Node* const said = lowering.given("completion_only_loss");
    const bool all = said != nullptr && !lowering.on("completion_only_loss", false);
    lowering.set("data.records", "prompt", *completion);
    lowering.set("data.train_on", all ? "all" : "completion", all ? *said : *completion);
  } else if (messages != nullptr) {
    lowering.set("data.records", "messages", *messages);
    lowering.set("data.train_on", "all", *messages);
  }
}

bool is_one(const Node& value) { return value.text == "1" || value.text == "1.0"; }

/// An entry of a mixture.
Node entry_of(const Node& given, bool single, Lowering& lowering) {
  static constexpr std::array known{
      DialectKey{.name = "path", .lower = jointly},
      DialectKey{.name = "id", .lower = jointly},
      DialectKey{.name = "name", .lower = jointly},
      DialectKey{.name = "config", .lower = jointly},
      DialectKey{.name = "split", .lower = jointly},
      DialectKey{.name = "columns", .value = list, .lower = jointly},
      DialectKey{.name = "data_files", .lower = jointly},
      DialectKey{.name = "fraction", .value = number, .lower = jointly},
      DialectKey{.name = "weight", .value = number, .lower = jointly},
      DialectKey{.name = "data_dir", .state = refused, .note = "name its files with data_files"},
  };
  lowering.part(known, "a dataset of dataset_mixture", given);
  Node entry;
  entry.kind = Node::Kind::map;
  entry.origin = given.origin;
  const Node* const path = value_of(given, {"path", "id"});
  if (path == nullptr)
    lowering.refuse(given, "an entry must be a map with a path or an id");
  else
    entry.entries.push_back({"path", *path});
  for (const auto& [part, option, of_entry] : {std::tuple(value_of(given, {"name", "config"}), "data.name", "hub_name"),
                                               std::tuple(value_of(given, {"split"}), "data.split", "hub_split")}) {
    if (part == nullptr || part->text == "train" || part->text == "default") continue;  // what nothing said means
    if (single)
      lowering.set(option, *part);
    else
      entry.entries.push_back({of_entry, *part});
  }
  if (const Node* const files = value_of(given, {"data_files"})) lowering.set("data.data_files", *files);
  if (const Node* const part = value_of(given, {"fraction", "weight"}); part != nullptr && !is_one(*part))
    entry.entries.push_back({"fraction", *part});
  return entry;
}

void lower_data(Lowering& lowering) {
  const Node* const mixture = lowering.given("dataset_mixture");
  if (mixture == nullptr) {
    if (const Node* const name = lowering.given("dataset_name")) lowering.set("data.path", *name);
    return;
  }
  static constexpr std::array known{
      DialectKey{.name = "datasets", .value = list, .lower = jointly},
      DialectKey{.name = "seed", .value = number, .lower = jointly},
      DialectKey{.name = "test_split_size", .value = number, .lower = jointly},
      DialectKey{.name = "streaming",
                 .value = flag,
                 .state = noted,
                 .note = "data is prepared once, before the first step",
                 .harmless = "false"},
  };
  if (mixture->kind == Node::Kind::map) lowering.part(known, "dataset_mixture", *mixture);
  const Node* const given = mixture->kind == Node::Kind::map ? mixture->find("datasets") : nullptr;
  if (given == nullptr || given->kind != Node::Kind::list || given->items.empty())
    return lowering.refuse(*mixture, "it must be a map with a list of datasets");
  const bool single = given->items.size() == 1;
  Node datasets;
  datasets.kind = Node::Kind::list;
  datasets.origin = given->origin;
  for (const Node& entry : given->items) datasets.items.push_back(entry_of(entry, single, lowering));
  const Node* const path = datasets.items.front().find("path");
  if (!single || datasets.items.front().find("fraction") != nullptr)
    lowering.set("data.datasets", datasets);
  else if (path != nullptr)
    lowering.set("data.path", *path);
  if (const Node* const seed = value_of(*mixture, {"seed"})) lowering.set("data.seed", *seed);
  if (const Node* const held = value_of(*mixture, {"test_split_size"}))
    lowering.set("data.validation", (held->text.find('.') == std::string::npos ? "count:" : "hash:") + held->text,
                 *held);
}

}  // namespace

std::span<const DialectKey> keys() { return trl_keys; }

void finish(Lowering& lowering) {
  lower_data(lowering);
  lower_packing(lowering);
  lower_labels(lowering);
}

}  // namespace lockstep::trl
