// MixtureSchedule text into token ids and back. Many threads share a tokenizer; each thread encodes with its own
// Encoder, which holds regex state and a cache of pieces. How the command line names tokenizers:
// tokenizer/tokenizers.hpp.
#pragma once

#include "base/files.hpp"
#include "base/hash.hpp"
#include "tokenizer/marked_text.hpp"
#include "tokenizer/special_tokens.hpp"

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

/// Encodes on one thread. It keeps bounded caches between calls; the ids never depend on earlier texts.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Appends the ids of `text`, which is valid UTF-8. Throws Error(input) for a character that the vocabulary lacks,
  /// unless the library that made the tokenizer drops it.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) = 0;
  /// The ids of a text with marked places. Special tokens are recognised outside of literal ranges, regardless of
  /// special_tokens. Throws as encode does.
  virtual MarkedIds encode_marked(const MarkedText& text) = 0;
  /// Number of characters of all texts so far that had no token and were dropped, as the tokenizers library does; bytes
  /// for a byte-level tokenizer.
  virtual std::uint64_t left_out() const { return 0; }
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;                         // "bytes", "chars", "bpe"
  virtual std::int64_t vocabulary() const = 0;                  // V: all ids are less
  virtual std::optional<std::int32_t> end_of_text() const = 0;  // the id that joins documents
  virtual SpecialTokens special_tokens() const = 0;             // how special tokens spelled out in text are read
  virtual std::vector<std::string> special_names() const = 0;   // the texts of special tokens
  virtual std::unique_ptr<Encoder> encoder() const = 0;         // must not outlive the tokenizer
  /// The text of the ids. An incomplete sequence of ids may give bytes that are not valid UTF-8. Throws Error(input)
  /// for an id outside V.
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  /// The largest known cut p ≤ text.size() at which encode(x + text + y) = encode(x + text[0, p)) + encode(text[p, end)
  /// + y) for all x and y; 0 if none is known. `text` may begin anywhere in a document, so that a long one can be cut
  /// at any of its parts.
  virtual std::size_t last_cut(std::string_view text) const = 0;
  /// Files that an export or a dataset includes, normally tokenizer.json, from which the tokenizers library makes the
  /// same ids, and tokenizer_config.json, which tells transformers how special tokens are read. sentencepiece models
  /// have tokenizer.model instead of tokenizer.json, tokenizers of plug-ins only plugin_tokenizer.json.
  virtual const std::vector<TokenizerFile>& files() const = 0;

  /// The ids of one text. For many texts use an encoder.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// A hash of the name, the end-of-text id, the reading of special tokens and all files that decide ids: equal hashes
  /// mean equal ids.
  Hash128 hash() const;

  /// Facts for the log about its files; they change no ids.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Chat templates by name ("default", "tool_use"). They lie in files next to the tokenizer and are saved with it;
  /// they decide no ids.
  const std::map<std::string, std::string>& chat_templates() const { return chat_templates_; }
  void set_chat_templates(std::map<std::string, std::string> templates) { chat_templates_ = std::move(templates); }

 protected:
  void set_notes(std::vector<std::string> notes) { notes_ = std::move(notes); }

 private:
  std::vector<std::string> notes_;
  std::map<std::string, std::string> chat_templates_;
};

}  // namespace lockstep
