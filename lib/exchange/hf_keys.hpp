// Typed reading of the keys of a Hugging Face document that notes every problem instead of stopping at the first.
// What the keys mean: exchange/hf_config.hpp.
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
  /// `document` must be an object and outlive this.
  HfKeys(const Json& document, std::string origin);

  /// The value of a key; nothing if it is absent or null.
  const Json* find(std::string_view key) const;
  bool is_null(std::string_view key) const;  // present, and null
  // The readers note a problem for a value of another type or out of range. Of several spellings the present ones must
  // agree; messages use the first.
  std::optional<std::int64_t> integer(const std::vector<std::string>& spellings, std::int64_t least, std::int64_t most);
  std::int64_t required_integer(const std::vector<std::string>& spellings, std::int64_t least, std::int64_t most);
  double number(std::string_view key, double otherwise, double least, double most);
  bool boolean(std::string_view key, bool otherwise);
  std::string string(std::string_view key, std::string otherwise);

  void malformed(std::string_view key, const std::string& what);    // the value is not what the key can hold
  void unsupported(std::string_view key, const std::string& what);  // the value is legitimate, but not for this version
  /// Adds the problems of the map that `key` holds.
  void take(std::string_view key, const HfKeys& map);
  /// Throws one error with all problems noted: input if any is malformed, else usage. Nothing if there are none.
  void raise(const std::string& hint) const;

 private:
  const Json& document_;
  std::string origin_;
  std::vector<std::string> problems_;
  ExitCode code_ = ExitCode::usage;
};

/// A value as a message shows it: compact JSON, cut after 40 characters.
std::string excerpt(const Json& value);

}  // namespace lockstep
