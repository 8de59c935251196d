#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "store/listed_path.hpp"
#include "store/token_elements.hpp"
#include "store/token_shards.hpp"

#include <algorithm>
#include <filesystem>

namespace lockstep {

namespace {

constexpr std::int64_t format_version = 2;
// With tokens outside, or masks: programs that do not know these must neither take such files for shards nor train on
// every token.
constexpr std::int64_t newer_version = 3;

Json to_json(const OutsideTokens& outside) {
  return {{"offset", outside.offset},
          {"extent", outside.extent},
          {"dtype", name_of(outside.dtype)},
          {"apart", outside.apart},
          {"documents", outside.documents},
          {"document_bytes", outside.document_bytes},
          {"document_hash", to_hex(outside.document_hash)}};
}

OutsideTokens outside_from(const Json& json) {
  OutsideTokens outside;
  outside.offset = integer_from<std::uint64_t>(json.at("offset"));
  outside.extent = integer_from<std::uint64_t>(json.at("extent"));
  const auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  if (!dtype || !can_hold_tokens(*dtype))
    fail(ExitCode::input, "token type {} is not supported", to_text(json.at("dtype")));
  outside.dtype = *dtype;
  outside.apart = json.at("apart").get<bool>();
  outside.documents = json.at("documents");
  outside.document_bytes = integer_from<std::uint64_t>(json.at("document_bytes"));
  outside.document_hash = hash_from_hex(json.at("document_hash").get<std::string>());
  return outside;
}

Json to_json(const SplitEntry& split) {
  Json shards = Json::array();
  for (const ShardEntry& shard : split.shards) {
    shards.push_back({{"file", shard.file},
                      {"first_token", shard.first_token},
                      {"tokens", shard.tokens},
                      {"first_document", shard.first_document},
                      {"documents", shard.documents},
                      {"bytes", shard.bytes},
                      {"hash", to_hex(shard.hash)}});
    if (shard.outside) shards.back()["outside"] = to_json(*shard.outside);
  }
  return {
      {"tokens", split.tokens}, {"documents", split.documents}, {"text_bytes", split.text_bytes}, {"shards", shards}};
}

SplitEntry split_from(const Json& json) {
  SplitEntry split{integer_from<std::int64_t>(json.at("tokens")),
                   integer_from<std::int64_t>(json.at("documents")),
                   integer_from<std::uint64_t>(json.at("text_bytes")),
                   {}};
  for (const Json& shard : json.at("shards")) {
    split.shards.push_back(
        {shard.at("file"), integer_from<std::int64_t>(shard.at("first_token")),
         integer_from<std::int64_t>(shard.at("tokens")), integer_from<std::int64_t>(shard.at("first_document")),
         integer_from<std::int64_t>(shard.at("documents")), integer_from<std::uint64_t>(shard.at("bytes")),
         hash_from_hex(shard.at("hash").get<std::string>())});
    if (shard.contains("outside")) split.shards.back().outside = outside_from(shard["outside"]);
  }
  return split;
}

bool has_outside(const DatasetManifest& manifest) {
  const auto outside = [](const ShardEntry& shard) { return shard.outside.has_value(); };
  return std::ranges::any_of(manifest.train.shards, outside) ||
         std::ranges::any_of(manifest.validation.shards, outside);
}

Json without_hash(const DatasetManifest& manifest) {
  const Json end = manifest.end_of_text ? Json(*manifest.end_of_text) : Json();
  const bool masked = manifest.masks == TokenMasks::present;
  Json json{{"format", "lockstep dataset"},
            {"version", masked || has_outside(manifest) ? newer_version : format_version},
            {"tokenizer",
             {{"name", manifest.tokenizer},
              {"hash", to_hex(manifest.tokenizer_hash)},
              {"vocabulary", manifest.vocabulary},
              {"end_of_text", end},
              {"special_tokens", manifest.special_tokens == SpecialTokens::text ? "text" : "special"}}},
            {"options", parse_json(manifest.options, "options")},
            {"inputs", parse_json(manifest.inputs, "inputs")},
            {"token_bytes", manifest.token_bytes()},
            {"shard_tokens", manifest.shard_tokens},
            {"splits", {{"train", to_json(manifest.train)}, {"validation", to_json(manifest.validation)}}}};
  if (masked) json["masks"] = true;
  if (manifest.key) json["key"] = to_hex(*manifest.key);
  return json;
}

std::string hash_of(const Json& document) { return to_hex(hash128(to_text(document))); }

/// Throws Error(input), without the file's name, for numbers that no dataset has.
void check_split(const SplitEntry& split) {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  for (const ShardEntry& shard : split.shards) {
    const bool counts = shard.tokens >= 0 && shard.documents >= 0 &&
                        !__builtin_add_overflow(tokens, shard.tokens, &tokens) &&
                        !__builtin_add_overflow(documents, shard.documents, &documents);
    if (!counts)
      fail(ExitCode::input, "the shard {} has an invalid size: {} tokens and {} documents", shard.file, shard.tokens,
           shard.documents);
    if (!stays_below(shard.outside ? shard.outside->documents : shard.file))
      fail(ExitCode::input, "the shard '{}' does not lie in the dataset's folder", shard.file);
  }
}

void check_numbers(const DatasetManifest& manifest) {
  constexpr std::int64_t most_ids = std::int64_t{1} << 31;
  if (manifest.vocabulary < 1 || manifest.vocabulary > most_ids)
    fail(ExitCode::input, "a vocabulary of {} tokens is not between 1 and {}", manifest.vocabulary, most_ids);
  if (manifest.end_of_text && (*manifest.end_of_text < 0 || *manifest.end_of_text >= manifest.vocabulary)) {
    fail(ExitCode::input, "the end-of-text token {} lies outside the vocabulary of {}", *manifest.end_of_text,
         manifest.vocabulary);
  }
  if (manifest.shard_tokens < 1)
    fail(ExitCode::input, "shard_tokens is {}, but must be at least 1", manifest.shard_tokens);
  check_split(manifest.train);
  check_split(manifest.validation);
}

DatasetManifest manifest_from(const Json& document) {
  const Json& tokenizer = document.at("tokenizer");
  DatasetManifest manifest;
  manifest.tokenizer = tokenizer.at("name");
  manifest.tokenizer_hash = hash_from_hex(tokenizer.at("hash").get<std::string>());
  manifest.vocabulary = integer_from<std::int64_t>(tokenizer.at("vocabulary"));
  if (!tokenizer.at("end_of_text").is_null())
    manifest.end_of_text = integer_from<std::int32_t>(tokenizer.at("end_of_text"));
  if (tokenizer.value("special_tokens", "special") == "text") manifest.special_tokens = SpecialTokens::text;
  if (document.value("masks", false)) manifest.masks = TokenMasks::present;
  if (document.contains("key")) manifest.key = hash_from_hex(document.at("key").get<std::string>());
  manifest.options = to_text(document.at("options"));
  manifest.inputs = to_text(document.value("inputs", Json()));
  manifest.shard_tokens = integer_from<std::int64_t>(document.at("shard_tokens"));
  manifest.train = split_from(document.at("splits").at("train"));
  manifest.validation = split_from(document.at("splits").at("validation"));
  check_numbers(manifest);
  const auto token_bytes = integer_from<std::int64_t>(document.at("token_bytes"));
  if (token_bytes != manifest.token_bytes())
    fail(ExitCode::input, "token_bytes is {}, but ids of a vocabulary of {} have {} bytes each", token_bytes,
         manifest.vocabulary, manifest.token_bytes());
  return manifest;
}

}  // namespace

std::string to_text(const DatasetManifest& manifest) {
  Json document = without_hash(manifest);
  document["self_hash"] = hash_of(document);
  return to_text(document, 2) + "\n";
}

DatasetManifest read_dataset_manifest(const Path& folder) {
  const Path path = folder / "DATASET.json";
  Json document = parse_json(read_file(path), path.string());
  if (!document.is_object() || document.value("format", Json()) != "lockstep dataset")
    fail(ExitCode::input, "{} is not the manifest of a dataset", path.string());
  const Json version = document.value("version", Json());
  if (version != format_version && version != newer_version) {
    throw Error(ExitCode::input,
                fmt::format("{} has format version {}; this program reads versions {} and {}", path.string(),
                            to_text(version), format_version, newer_version),
                "prepare the dataset again");
  }
  const Json stored = document.value("self_hash", Json());
  document.erase("self_hash");
  if (!stored.is_string() || stored.get<std::string>() != hash_of(document)) {
    throw Error(ExitCode::input,
                fmt::format("{} is damaged or was edited: its content does not match its self_hash", path.string()),
                "prepare the dataset again");
  }
  try {
    return manifest_from(document);
  } catch (const Error& error) {
    fail(ExitCode::input, "{}: {}", path.string(), error.what());
  } catch (const Json::exception&) {
    fail(ExitCode::input, "{}: a key is missing or has the wrong type", path.string());
  }
}

}  // namespace lockstep
