// Typed reading of keys of a Hugging Face document. All problems are collected, not only the first. Meaning of the
// keys: exchange/hf_config.hpp.
#pragma once

#include "base/error.hpp"
#include "base/json_fwd.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class HfKeys {
 public:
  /// `document` must be an object and outlive the reader.
  HfKeys(const Json& document, std::string origin);

  /// Returns the value of a key; nullptr if it is missing or null.
  const Json* find(std::string_view key) const;
  bool is_null(std::string_view key) const;  // present, and null
  // Each reader adds a problem for a value of another type or out of range. If a key has several spellings, those
  // present must agree; messages name a spelling that is present.
  std::optional<std::int64_t> integer(const std::vector<std::string>& spellings, std::int64_t least, std::int64_t most);
  std::int64_t required_integer(const std::vector<std::string>& spellings, std::int64_t least, std::int64_t most);
  double number(std::string_view key, double otherwise, double least, double most);
  bool boolean(std::string_view key, bool otherwise);
  std::string string(std::string_view key, std::string otherwise);

  void malformed(std::string_view key, const std::string& what);    // the value is invalid for the key
  void unsupported(std::string_view key, const std::string& what);  // the value is valid, but not supported
  /// Adds the problems of the map under `key`.
  void take(std::string_view key, const HfKeys& map);
  /// Throws one error with all problems: input if any value is malformed, otherwise usage. Returns if there are none.
  void raise(const std::string& hint) const;

 private:
  const Json& document_;
  std::string origin_;
  std::vector<std::string> problems_;
  ExitCode code_ = ExitCode::usage;
};

/// Returns a value for messages: compact JSON, cut after 40 characters.
std::string excerpt(const Json& value);

}  // namespace lockstep
