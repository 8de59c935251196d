#include "prepare/preparation_key.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "options/option.hpp"
#include "readers/plugin_reader.hpp"

#include <utility>

namespace lockstep {

namespace {

// Raised when the same input, tokenizer and options give other bytes than before.
constexpr int preparation_version = 3;

std::string form_of(const InputFile& file) {
  switch (file.format) {
    case TextFormat::text: return "text";
    case TextFormat::json_lines: return "json lines";
    case TextFormat::json: return "json";
    case TextFormat::csv: return "csv";
    case TextFormat::tsv: return "tsv";
    case TextFormat::parquet: return "parquet";
    case TextFormat::arrow: return "arrow";
    case TextFormat::plugin: return identity_of_reader(file.reader);
  }
  fail(ExitCode::bug, "unknown format of input");
}

std::string_view name_of(Compression compression) {
  switch (compression) {
    case Compression::none: return "none";
    case Compression::gzip: return "gzip";
    case Compression::zstd: return "zstd";
    case Compression::bzip2: return "bzip2";
    case Compression::xz: return "xz";
  }
  fail(ExitCode::bug, "unknown compression");
}

/// By name, those that are not as built in.
std::vector<std::pair<std::string, Json>> changed(PrepareDataOptions options) {
  PrepareDataOptions unset;
  Declaration built_in, declaration;
  describe(built_in, unset);
  describe(declaration, options);
  std::vector<std::pair<std::string, Json>> values;
  for (std::size_t i = 0; i < declaration.options().size(); ++i) {
    const Option& option = declaration.options()[i];
    Json value = option.get();
    if (value != built_in.options()[i].built_in) values.emplace_back(option.path, std::move(value));
  }
  return values;
}

}  // namespace

Hash128 preparation_key(const PrepareDataOptions& options, const Tokenizer* tokenizer, const std::string& messages,
                        const std::vector<InputFile>& files, const std::vector<std::uint64_t>& sums) {
  Json document{{"version", preparation_version}, {"tokenizer", tokenizer ? to_hex(tokenizer->hash()) : "chars"}};
  for (const auto& [name, value] : changed(options))
    if (name != "tokenizer" && name != "format")  // told by its hash and by the files
      document["options"][name] = value;
  if (!messages.empty()) document["messages"] = messages;
  for (std::size_t i = 0; i < files.size(); ++i)
    document["files"].push_back({form_of(files[i]), name_of(files[i].compression), files[i].bytes, sums[i]});
  return hash128(to_text(document));
}

std::string quoted_word(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char character : word) quoted += character == '\'' ? "'\\''" : std::string(1, character);
  return quoted + "'";
}

std::string changed_options(const PrepareDataOptions& options) {
  std::string words;
  for (const auto& [name, value] : changed(options)) {
    const std::string text = value.is_string() ? value.get<std::string>() : to_text(value);
    words += fmt::format("{}--data.{} {}", words.empty() ? "" : " ", name, quoted_word(text));
  }
  return words;
}

void refuse_unprepared(const PrepareConfig& config) {
  std::string words = "prepare-data";
  for (const std::string& word : config.text()) words += " " + quoted_word(word);
  if (const std::string options = changed_options(config.data); !options.empty()) words += " " + options;
  throw Error(ExitCode::input, fmt::format("{} is not prepared, and data.prepare is skip", join(config.text(), " ")),
              fmt::format("make it with: {} --output {}", words, quoted_word(config.output)));
}

}  // namespace lockstep
