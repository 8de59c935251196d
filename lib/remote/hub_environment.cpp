#include "remote/hub_environment.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace lockstep {

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) {
  std::string value = variable(name);
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "ON" || value == "YES" || value == "TRUE";
}

Path at_home(const std::string& path) {
  return path == "~" || path.starts_with("~/") ? Path(variable("HOME") + path.substr(1)) : Path(path);
}

Path hub_home() {
  if (const std::string home = variable("HF_HOME"); !home.empty()) return at_home(home);
  const std::string caches = variable("XDG_CACHE_HOME");
  return (caches.empty() ? at_home("~/.cache") : at_home(caches)) / "huggingface";
}

}  // namespace

Path hub_cache_folder() {
  const std::string folder = variable("HF_HUB_CACHE");
  return absolute_path(folder.empty() ? hub_home() / "hub" : at_home(folder));
}

std::string hub_endpoint() {
  std::string endpoint = variable("HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint.empty() ? "https://huggingface.co" : endpoint;
}

bool hub_is_offline() { return is_set("HF_HUB_OFFLINE"); }

std::string hub_token() {
  if (is_set("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  std::string token = variable("HF_TOKEN");
  std::string from = "HF_TOKEN";
  if (trim(token).empty()) {
    const std::string named = variable("HF_TOKEN_PATH");
    const Path path = named.empty() ? hub_home() / "token" : at_home(named);
    if (!is_there(path)) return "";
    token = read_file(path);
    from = path.string();
  }
  token = std::string(trim(token));
  const bool whole = std::ranges::all_of(token, [](unsigned char c) { return c > ' ' && c < 0x7f; });
  if (!whole) fail(ExitCode::usage, "{} has no valid Hugging Face token: a token is ASCII text without spaces", from);
  return token;
}

}  // namespace lockstep
