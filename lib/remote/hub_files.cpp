#include "remote/hub_files.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cctype>

namespace lockstep {

namespace {

constexpr std::string_view scheme = "hf:";
constexpr std::string_view datasets = "hf://datasets/";
constexpr const char* form = "a dataset is hf://datasets/OWNER/NAME[@REVISION][/FILES]";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text != "." && text.find("..") == std::string_view::npos &&
         text.front() != '-' && text.front() != '.' && std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

// Branches may have slashes in their names, which are then written %2F; those of the hub itself, as they are.
std::size_t end_of_revision(std::string_view text) {
  std::size_t slashes = 0;
  for (const std::string_view of_the_hub : {"refs/convert/", "refs/pr/"})
    if (text.starts_with(of_the_hub)) slashes = 2;
  std::size_t end = text.find('/');
  while (end != std::string_view::npos && slashes-- > 0) end = text.find('/', end + 1);
  return std::min(end, text.size());
}

std::string with_slashes(std::string_view text) {
  std::string result(text);
  for (std::size_t at = 0; (at = result.find("%2F", at)) != std::string::npos;) result.replace(at, 3, "/");
  return result;
}

}  // namespace

std::string HubReference::text() const {
  return fmt::format("{}{}{}{}{}{}", datasets, id, revision.empty() ? "" : "@", revision, files.empty() ? "" : "/",
                     files);
}

std::optional<HubReference> hub_reference(const std::string& word) {
  HubReference reference;
  std::string_view rest = word;
  const bool with_scheme = rest.starts_with(scheme);
  if (with_scheme && !rest.starts_with(datasets))
    throw Error(ExitCode::usage, fmt::format("cannot read {}: only datasets of the hub can be read as text", word),
                form);
  if (with_scheme) rest.remove_prefix(datasets.size());
  const std::size_t slash = rest.find('/');
  const bool has_owner = slash != std::string_view::npos;
  const std::size_t end = has_owner ? std::min(rest.find_first_of("@/", slash + 1), rest.size()) : rest.size();
  const bool named = has_owner && is_name(rest.substr(0, slash)) && is_name(rest.substr(slash + 1, end - slash - 1));
  if (!with_scheme && (!named || end != rest.size())) return std::nullopt;
  if (!named) throw Error(ExitCode::usage, fmt::format("cannot read {}: it does not name a dataset", word), form);
  reference.id = rest.substr(0, end);
  rest.remove_prefix(end);
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    const std::size_t length = end_of_revision(rest);
    reference.revision = with_slashes(rest.substr(0, length));
    rest.remove_prefix(length);
    const auto parts = split(reference.revision, '/');
    if (!std::ranges::all_of(parts, is_name))
      throw Error(ExitCode::usage, fmt::format("cannot read {}: {} is not a revision", word, reference.revision), form);
  }
  if (rest.starts_with('/')) rest.remove_prefix(1);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  reference.files = rest;
  return reference;
}

bool is_commit(std::string_view revision) {
  return revision.size() == 40 &&
         std::ranges::all_of(revision, [](unsigned char c) { return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f'); });
}

}  // namespace lockstep
