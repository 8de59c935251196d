// Added and special tokens that files next to a tokenizer declare: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json, read as transformers 5 reads them. They are found in text like those of tokenizer.json:
// tokenizer/added_tokens.hpp.
#pragma once

#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "tokenizer/added_tokens.hpp"
#include "tokenizer/special_tokens.hpp"
#include "tokenizer/tokenizer_class.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A token and the file that declares it.
struct DeclaredToken {
  AddedToken token;                    // its id is not set
  std::optional<std::int32_t> stated;  // the id that the file states
  std::string file;
};

/// The files next to a tokenizer, in `folder`.
class TokenizerSettings {
 public:
  /// Throws Error(input) for a malformed file.
  explicit TokenizerSettings(const Path& folder);

  /// The class by which transformers reads the folder, without "Fast"; empty if none is named.
  const std::string& tokenizer_class() const { return class_; }
  /// A member of tokenizer_config.json; null if it is absent.
  Json value(const std::string& key) const;
  bool has_config() const;
  /// The text of tokenizer_config.json; the file must exist.
  const std::string& config_text() const { return config_text_; }
  /// tokenizer_config.json together with the named tokens of special_tokens_map.json; null if both files are absent.
  Json config_with_named_tokens() const;
  SpecialTokens reading() const;

  /// Tokens in the order in which transformers adds them after `own`, the tokens of the tokenizer's file. Includes a
  /// token of `own` if tokenizer_config.json states other flags for it. `defaults` are the named tokens of the class,
  /// `pieces` the special pieces of a sentencepiece model. Throws Error(input) for a member of the wrong type.
  std::vector<DeclaredToken> tokens(std::span<const AddedToken> own, std::span<const NamedToken> defaults,
                                    std::span<const AddedToken> pieces = {}) const;
  /// The eos_token, or the one of `defaults`; empty if there is none.
  std::string end_name(std::span<const NamedToken> defaults) const;

 private:
  struct Named {
    std::string key;
    AddedToken token;
    std::string file;
  };
  /// Named tokens, in the order of their keys in transformers.
  std::vector<Named> named(std::span<const NamedToken> defaults) const;
  /// A special token without a name.
  struct Extra {
    AddedToken token;
    std::string file;
    bool marks_added;  // a token of added_tokens.json with this content is special
  };
  std::vector<Extra> extra(std::span<const AddedToken> pieces) const;
  /// Tokens whose ids a file states, sorted by id.
  std::vector<DeclaredToken> numbered() const;

  Path folder_;
  std::string config_text_;
  std::string class_;
  // Objects; null if the file is absent or not needed.
  std::shared_ptr<const Json> config_;
  std::shared_ptr<const Json> map_;
  std::shared_ptr<const Json> added_;
};

/// Gives each declared token the id that the tokenizers library gives it: its id in the vocabulary (`id_of`), otherwise
/// the next one after `vocabulary` tokens and all added ones. Returns whether a token was added or changed. Throws
/// Error(usage) if a file states another id.
bool add_declared_tokens(std::span<const DeclaredToken> declared, std::size_t vocabulary,
                         const std::function<std::optional<std::int32_t>(const std::string&)>& id_of,
                         std::vector<AddedToken>& added);

}  // namespace lockstep
