#include "base/checked_cast.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "plugin/plugins.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizers.hpp"

#include <algorithm>

namespace lockstep {

namespace {

using Entry = PluginEntry<lockstep_tokenizer>;

/// A tokenizer that a plug-in has made, as several threads share it.
class Made {
 public:
  explicit Made(const Entry& entry) : entry_(entry) {
    if (const char* const problem = entry.table->make(entry.plugin->values(), &self_)) refuse(problem);
    vocabulary = entry.table->vocabulary(self_);
    if (const std::int64_t end = entry.table->end_of_text(self_); end >= 0)
      end_of_text = checked_cast<std::int32_t>(end, "the end-of-text id", ExitCode::input);
    if (vocabulary < 1 || vocabulary > (std::int64_t{1} << 31) || end_of_text.value_or(0) >= vocabulary)
      drop_and_refuse(
          fmt::format("it has {} tokens, but its end-of-text id is {}", vocabulary, end_of_text.value_or(-1)));
  }
  ~Made() { entry_.table->drop(self_); }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  const Entry& entry() const { return entry_; }
  std::string who() const { return fmt::format("the tokenizer {} of {}", entry_.table->name, entry_.plugin->file()); }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const {
    const std::size_t before = ids.size();
    const auto fill = [&](std::int64_t room, std::int64_t& count) {
      ids.resize(before + static_cast<std::size_t>(room));
      return entry_.table->encode(self_, text.data(), std::ssize(text), ids.data() + before, room, &count);
    };
    ids.resize(before + filled(std::ssize(text), fill));
    for (std::size_t i = before; i < ids.size(); ++i)
      if (ids[i] < 0 || ids[i] >= vocabulary)
        refuse(fmt::format("it returned id {}, but has {} tokens", ids[i], vocabulary));
  }

  std::string decode(std::span<const std::int32_t> ids) const {
    for (const std::int32_t id : ids)
      if (id < 0 || id >= vocabulary)
        fail(ExitCode::input, "cannot decode id {}: {} has ids 0 to {}", id, who(), vocabulary - 1);
    std::string text;
    const auto fill = [&](std::int64_t room, std::int64_t& count) {
      text.resize(static_cast<std::size_t>(room));
      return entry_.table->decode(self_, ids.data(), std::ssize(ids), text.data(), room, &count);
    };
    text.resize(filled(4 * std::ssize(ids), fill));
    return text;
  }

  std::size_t last_cut(std::string_view text) const {
    if (entry_.table->last_cut == nullptr) return 0;
    const std::int64_t cut = entry_.table->last_cut(self_, text.data(), std::ssize(text));
    if (cut < 0 || cut > std::ssize(text))
      refuse(fmt::format("it split a text of {} bytes at byte {}", text.size(), cut));
    return static_cast<std::size_t>(cut);
  }

  std::int64_t vocabulary = 0;
  std::optional<std::int32_t> end_of_text;

 private:
  [[noreturn]] void refuse(const std::string& problem) const { fail(ExitCode::input, "{} failed: {}", who(), problem); }
  [[noreturn]] void drop_and_refuse(const std::string& problem) const {  // of the constructor
    entry_.table->drop(self_);
    refuse(problem);
  }

  /// How much a function gives that is asked again where there was no room for it.
  template <class Fill>
  std::size_t filled(std::int64_t room, const Fill& fill) const {
    constexpr std::int64_t most = std::int64_t{1} << 33;
    for (int attempt = 0; attempt < 2; ++attempt) {
      std::int64_t count = -1;
      if (const char* const problem = fill(room, count)) refuse(problem);
      if (count < 0 || count > most) refuse(fmt::format("it returned the size {}", count));
      if (count <= room) return static_cast<std::size_t>(count);
      room = count;
    }
    refuse("it returned more than the size that it announced");
  }

  const Entry& entry_;
  void* self_ = nullptr;
};

class PluginEncoder : public Encoder {
 public:
  explicit PluginEncoder(const Made& made) : made_(&made) {}
  void encode(std::string_view text, std::vector<std::int32_t>& ids) override { made_->encode(text, ids); }
  MarkedIds encode_marked(const MarkedText& text) override {
    if (!text.literal.empty())
      throw Error(ExitCode::usage,
                  fmt::format("{} cannot distinguish special tokens from text that spells them, but a message of a "
                              "conversation has such text",
                              made_->who()),
                  "data.special_tokens: special reads such text as special tokens");
    return encode_marked_parts(text, none_, [this](std::string_view part, auto& ids) { made_->encode(part, ids); });
  }

 private:
  const Made* made_;
  AddedTokens none_;
};

class PluginTokenizer : public Tokenizer {
 public:
  explicit PluginTokenizer(const Entry& entry) : made_(entry) {
    const Json description{{"tokenizer", entry.table->name},
                           {"identity", entry.plugin->identity_of(entry.table->name, entry.table->version)},
                           {"plugin", entry.plugin->table().name},
                           {"vocabulary", made_.vocabulary},
                           {"end_of_text", made_.end_of_text ? Json(*made_.end_of_text) : Json()}};
    files_ = {{plugin_tokenizer_file, to_text(description, 1) + "\n"}};
  }
  std::string name() const override { return made_.entry().table->name; }
  std::int64_t vocabulary() const override { return made_.vocabulary; }
  std::optional<std::int32_t> end_of_text() const override { return made_.end_of_text; }
  SpecialTokens special_tokens() const override { return SpecialTokens::special; }
  std::vector<std::string> special_names() const override { return {}; }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<PluginEncoder>(made_); }
  std::size_t last_cut(std::string_view text) const override { return made_.last_cut(text); }
  const std::vector<TokenizerFile>& files() const override { return files_; }
  std::string decode(std::span<const std::int32_t> ids) const override { return made_.decode(ids); }

 private:
  Made made_;
  std::vector<TokenizerFile> files_;
};

const Entry* find_entry(std::string_view name) {
  const auto& tokenizers = Plugins::opened().tokenizers();
  const auto found =
      std::ranges::find_if(tokenizers, [&](const Entry& entry) { return std::string_view(entry.table->name) == name; });
  return found == tokenizers.end() ? nullptr : &*found;
}

Json description_in(const Path& path) {
  const Json description = parse_json(read_file(path), path.string());
  const auto is_text = [&](const char* key) { return description.contains(key) && description[key].is_string(); };
  const bool whole = description.is_object() && is_text("tokenizer") && is_text("plugin") && is_text("identity") &&
                     description.contains("end_of_text") &&
                     (description["end_of_text"].is_null() || description["end_of_text"].is_number_integer());
  if (!whole) fail(ExitCode::input, "{} does not describe a tokenizer of a plug-in", path.string());
  return description;
}

}  // namespace

std::unique_ptr<Tokenizer> plugin_tokenizer(const std::string& word, const std::string& end_name,
                                            SpecialTokens reading) {
  const Entry* const entry = find_entry(word);
  if (entry == nullptr) return nullptr;
  for (const auto& [option, says] :
       {std::pair("data.end_of_text", !end_name.empty()), {"data.special_tokens", reading != SpecialTokens::special}})
    if (says)
      fail(ExitCode::usage, "{} has no effect: the tokenizer {} of {} decides that itself", option, word,
           entry->plugin->file());
  return std::make_unique<PluginTokenizer>(*entry);
}

std::unique_ptr<Tokenizer> load_plugin_tokenizer(const Path& folder) {
  const Path path = folder / plugin_tokenizer_file;
  if (!is_there(path)) return nullptr;
  const Json description = description_in(path);
  const auto name = description["tokenizer"].get<std::string>();
  const auto plugin = description["plugin"].get<std::string>();
  const Entry* const entry = find_entry(name);
  if (entry == nullptr || plugin != entry->plugin->table().name)
    throw Error(
        ExitCode::input,
        fmt::format("the tokenizer in {} is {} of the plug-in {}, which is not loaded", folder.string(), name, plugin),
        "load its file with the option plugin, see lockstep-plugin(7)");
  auto tokenizer = std::make_unique<PluginTokenizer>(*entry);
  const auto identity = description["identity"].get<std::string>();
  const std::string present = entry->plugin->identity_of(entry->table->name, entry->table->version);
  if (identity != present)
    throw Error(ExitCode::input,
                fmt::format("the tokenizer in {} is {}, but {} has {}", folder.string(), identity,
                            entry->plugin->file(), present),
                "use the plug-in with the same version and options: others may give other ids");
  return tokenizer;
}

std::optional<std::int32_t> end_of_text_in(const Path& folder) {
  const Path path = folder / plugin_tokenizer_file;
  if (!is_there(path)) return load_tokenizer(folder)->end_of_text();
  const Json end = description_in(path)["end_of_text"];
  if (end.is_null()) return std::nullopt;
  return checked_cast<std::int32_t>(end.get<std::int64_t>(), "the end-of-text id", ExitCode::input);
}

}  // namespace lockstep
