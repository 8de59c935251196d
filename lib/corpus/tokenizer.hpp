// Text to token ids and back. A tokenizer is a value that many threads share; what a thread needs to encode fast (regex
// state, the cache of pieces) is its own Encoder. Which tokenizer a word of the command line means:
// corpus/tokenizers.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "config/special_tokens.hpp"
#include "corpus/marked_text.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// A file that belongs to a tokenizer: its name within a folder and its whole content.
struct TokenizerFile {
  std::string name;
  std::string content;
};

/// Encodes for one thread. Keeps bounded caches between calls; the ids never depend on what was encoded before.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Appends the ids of `text`, valid UTF-8. Throws Error(input) for a character that the vocabulary lacks, unless the
  /// library that made the tokenizer leaves it out.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) = 0;
  /// The ids of a text with places marked. Special tokens count but in what is literal, whatever special_tokens says.
  /// Throws as encode does.
  virtual MarkedIds encode_marked(const MarkedText& text) = 0;
  /// Characters of all texts so far, or bytes of a byte-level tokenizer, that have no token and were left out, as the
  /// tokenizers library does.
  virtual std::uint64_t left_out() const { return 0; }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;                         // "bytes", "chars", "bpe"
  virtual std::int64_t vocabulary() const = 0;                  // V: every id is below it
  virtual std::optional<std::int32_t> end_of_text() const = 0;  // the id that joins documents
  virtual SpecialTokens special_tokens() const = 0;             // how those that a text spells out are read
  virtual std::vector<std::string> special_names() const = 0;   // the texts of special tokens
  virtual std::unique_ptr<Encoder> encoder() const = 0;         // must not outlive the tokenizer
  /// The text of the ids; bytes that are not UTF-8 alone may result from a cut sequence. Throws Error(input) for an id
  /// outside V.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// A cut p ≤ text.size(), as large as is known, at which encode(x + text + y) = encode(x + text[0, p)) +
  /// encode(text[p, end) + y) whatever x and y are; 0 if none is known. `text` may begin anywhere in a document: cuts
  /// of a long one are found in any of its parts.
  virtual std::size_t last_cut(std::string_view text) const = 0;
  /// What an export or a dataset carries along: tokenizer.json, from which the tokenizers library makes the same ids,
  /// and tokenizer_config.json, which tells transformers how special tokens are read.
  virtual const std::vector<TokenizerFile>& files() const = 0;

  /// The ids of one text. For many texts use an encoder.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Of the name and of all files that decide ids: equal hashes mean equal ids.
  Hash128 hash() const;

  /// Facts about its files that change no ids here, for a log.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Chat templates by name ("default", "tool_use"), which lie in files beside the tokenizer and go along with it; they
  /// decide no ids.
  const std::map<std::string, std::string>& chat_templates() const { return chat_templates_; }
  void set_chat_templates(std::map<std::string, std::string> templates) { chat_templates_ = std::move(templates); }

 protected:
  void set_notes(std::vector<std::string> notes) { notes_ = std::move(notes); }

 private:
  std::vector<std::string> notes_;
  std::map<std::string, std::string> chat_templates_;
};

}  // namespace lockstep
