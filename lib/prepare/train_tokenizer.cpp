#include "prepare/train_tokenizer.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "remote/hub_cache.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizer_json.hpp"
#include "tokenizer/tokenizers.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace lockstep {

namespace {

constexpr const char* record_name = "TRAINED.json";
constexpr std::array<const char*, 5> written_files{"tokenizer.json", "tokenizer_config.json", "vocab.json",
                                                   "merges.txt", record_name};

std::string merges_text(const ModelDescription& model) {
  std::string text = "#version: 0.2\n";
  for (const auto& [left, right] : model.merges) text += fmt::format("{} {}\n", left, right);
  return text;
}

std::string vocabulary_text(const ModelDescription& model) {
  Json vocabulary = Json::object();
  auto& entries = vocabulary.get_ref<Json::object_t&>();  // tokens differ: no look-up for each
  for (const auto& [token, id] : model.vocabulary) entries.emplace_back(token, id);
  return to_text(vocabulary) + "\n";
}

/// What made it, for people; by this file a folder is known as one that may be replaced.
std::string record_of(const TrainedBpe& trained, const TokenizerTraining& settings, const CountedCorpus& corpus,
                      const std::vector<InputFile>& inputs) {
  Json files = Json::array();
  for (const InputFile& file : inputs) files.push_back(hub_name_of(file.path).value_or(file.name()));
  const Json record{{"format", "lockstep trained tokenizer"},
                    {"version", 1},
                    {"pattern", expression_of(settings.counting.rule)},
                    {"min_count", settings.bpe.min_count},
                    {"special_tokens", settings.bpe.special_tokens},
                    {"inputs", files},
                    {"text_bytes", corpus.text_bytes},
                    {"pieces", corpus.pieces},
                    {"different_pieces", corpus.different},
                    {"left_out_pieces", corpus.left_out},
                    {"malformed_documents", corpus.malformed},
                    {"vocabulary", trained.model.vocabulary.size()},
                    {"tokens", trained.tokens}};
  return to_text(record, 2) + "\n";
}

void write_files(const TrainedBpe& trained, const TokenizerTraining& settings, const Path& folder) {
  make_folder(folder);
  TokenizerDescription description;
  description.model = trained.model;
  for (std::size_t id = 0; id < settings.bpe.special_tokens.size(); ++id)
    description.added_tokens.push_back({static_cast<std::int32_t>(id), settings.bpe.special_tokens[id]});
  publish_file(folder / "vocab.json", vocabulary_text(trained.model));
  publish_file(folder / "merges.txt", merges_text(trained.model));
  publish_file(folder / "tokenizer_config.json", tokenizer_config_json(settings.end_name, SpecialTokens::special));
  publish_file(folder / "tokenizer.json", bpe_tokenizer_json(description, byte_level_parts(settings.counting.rule)));
  if (file_tokenizer(folder)->vocabulary() != std::ssize(trained.model.vocabulary))
    fail(ExitCode::bug, "the trained tokenizer reads back differently");
}

TrainedBpe train(const CountedCorpus& corpus, const BpeTraining& settings, const std::function<void()>& alive) {
  std::string bytes;  // of all pieces that are kept
  std::vector<std::pair<std::size_t, std::uint64_t>> sizes;
  for (const Path& file : corpus.files) {
    for_each_piece(file, [&](const CountedPiece& piece) {
      alive();
      if (piece.count < corpus.min_count) return;
      bytes += piece.bytes;
      sizes.emplace_back(piece.bytes.size(), piece.count);
    });
  }
  std::vector<CountedPiece> pieces;
  pieces.reserve(sizes.size());
  for (std::size_t at = 0; const auto& [size, count] : sizes) {
    pieces.push_back({std::string_view(bytes).substr(at, size), count});
    at += size;
  }
  return train_bpe(pieces, settings, [&](std::int64_t) { alive(); });
}

}  // namespace

OutputKind tokenizer_output() {
  const auto files = [](const Path&) { return std::set<Path>(written_files.begin(), written_files.end()); };
  return {.name = "tokenizer", .marker = record_name, .files = files};
}

TrainedTokenizer train_tokenizer(const BlockPass& pass, const TokenizerTraining& settings, const Path& folder) {
  Communicator& world = pass.session.world();
  TrainedTokenizer facts;
  facts.corpus = count_pieces(pass, settings.counting);
  if (facts.corpus.different == 0) fail(ExitCode::input, "cannot train a tokenizer: the input holds no text");
  std::array<std::int64_t, 3> numbers{};
  long_work_together(pass.session, "train the tokenizer", [&](const std::function<void()>& alive) {
    if (world.rank() != 0) return;
    const TrainedBpe trained = train(facts.corpus, settings.bpe, alive);
    write_files(trained, settings, folder);
    publish_file(folder / record_name, record_of(trained, settings, facts.corpus, pass.files));
    numbers = {std::ssize(trained.model.vocabulary), std::ssize(trained.model.merges),
               static_cast<std::int64_t>(trained.tokens)};
  });
  world.broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  facts.vocabulary = numbers[0];
  facts.merges = numbers[1];
  facts.tokens = numbers[2];
  return facts;
}

void summarise(const TrainedTokenizer& facts, const TokenizerTraining& settings, const std::string& folder,
               std::uint64_t input_bytes, double seconds, Output& output) {
  const CountedCorpus& corpus = facts.corpus;
  const double rate = static_cast<double>(corpus.text_bytes) / 1e6 / std::max(seconds, 1e-9);
  const double bytes_per_token =
      static_cast<double>(corpus.text_bytes) / static_cast<double>(std::max<std::int64_t>(facts.tokens, 1));
  for (const std::string& warning : corpus.input.warnings) output.log().warning("{}", warning);
  if (corpus.malformed > 0) output.log().warning("left out {}", counted(corpus.malformed, "malformed document"));
  if (corpus.left_out > 0)
    output.log().info("left out {} of {} that occur less than {}: all pieces together exceed {}", corpus.left_out,
                      counted(corpus.different, "different piece"),
                      counted(static_cast<std::int64_t>(corpus.min_count), "time"),
                      human_bytes(settings.counting.most_piece_bytes));
  if (facts.vocabulary < settings.bpe.vocabulary)
    output.log().warning("the vocabulary has {} tokens, not {}: no other pair occurs {}", facts.vocabulary,
                         settings.bpe.vocabulary, counted(static_cast<std::int64_t>(settings.bpe.min_count), "time"));
  if (output.common().json) {
    output.print_json({{"output", folder},
                       {"vocabulary", facts.vocabulary},
                       {"merges", facts.merges},
                       {"text_bytes", corpus.text_bytes},
                       {"pieces", corpus.pieces},
                       {"different_pieces", corpus.different},
                       {"left_out_pieces", corpus.left_out},
                       {"malformed_documents", corpus.malformed},
                       {"tokens", facts.tokens},
                       {"bytes_per_token", bytes_per_token},
                       {"input_bytes", input_bytes},
                       {"input_bytes_read", corpus.input.bytes},
                       {"seconds", seconds},
                       {"megabytes_per_second", rate}});
    return;
  }
  output.print(fmt::format(
      "{}: a tokenizer of {} tokens from {} of text ({}, {} different) in {}, {:.1f} MB/s\n  on this text {:.2f} "
      "bytes/token\n",
      folder, facts.vocabulary, human_bytes(static_cast<std::uint64_t>(corpus.text_bytes)),
      counted(corpus.pieces, "piece"), corpus.different, human_seconds(seconds), rate, bytes_per_token));
}

}  // namespace lockstep
