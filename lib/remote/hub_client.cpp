#include "remote/hub_client.hpp"

#include "base/error.hpp"
#include "remote/hub_environment.hpp"
#include "remote/hub_listing.hpp"

#include <cctype>
#include <utility>

namespace lockstep {

namespace {

constexpr std::size_t most_listing = std::size_t{256} << 20;
constexpr std::size_t most_text = std::size_t{4} << 20;

std::string escaped(std::string_view text, std::string_view kept) {
  std::string url;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string_view("-._~").find(c) != std::string_view::npos ||
        kept.find(c) != std::string_view::npos) {
      url += c;
    } else {
      url += fmt::format("%{:02X}", byte);
    }
  }
  return url;
}

}  // namespace

HubClient::HubClient(std::string id, std::function<void()> alive)
    : endpoint_(hub_endpoint()),
      id_(std::move(id)),
      has_token_(!hub_token().empty()),
      http_(hub_token(), std::move(alive)) {}

std::string HubClient::url_of(const std::string& commit, const HubFile& file) const {
  return fmt::format("{}/datasets/{}/resolve/{}/{}", endpoint_, id_, commit, escaped(file.name, "/"));
}

void HubClient::require(const HttpAnswer& answer, const std::string& what) const {
  if (answer.status == 200) return;
  const std::string code = answer.header("x-error-code");
  const std::string tried = fmt::format("cannot read {} from {}", what, endpoint_);
  const std::string said = answer.header("x-error-message").substr(0, 300);
  const std::string with_word = said.empty() ? "" : fmt::format(" ({})", said);
  const char* const login = "set HF_TOKEN, or log in with hf auth login";
  if (answer.status == 404 && code == "RevisionNotFound")
    throw Error(ExitCode::input, fmt::format("{}: the dataset has no such revision", tried),
                "the usual one is --data.revision main");
  if (answer.status == 404 && code == "EntryNotFound")
    throw Error(ExitCode::input, fmt::format("{}: no such file", tried), "");
  if (code == "GatedRepo")
    throw Error(ExitCode::storage,
                fmt::format("{}: access is granted by the owners of the dataset, and {}{}", tried,
                            has_token_ ? "the token has no access" : "there is no token", with_word),
                has_token_ ? "ask for access on the page of the dataset" : login);
  if (answer.status == 401 || answer.status == 404)
    throw Error(ExitCode::input,
                fmt::format("{}: there is no such dataset, or it is private and {}{}", tried,
                            has_token_ ? "the token has no access" : "there is no token", with_word),
                login);
  if (answer.status == 403)
    throw Error(
        ExitCode::storage,
        fmt::format("{}: {}{}", tried,
                    has_token_ ? "the token has no access" : "a token is required, and there is none", with_word),
        login);
  throw Error(ExitCode::storage,
              fmt::format("{}: the answer has the HTTP status {}{}", tried, answer.status, with_word),
              answer.status == 429 ? "too many requests for now: try again later" : "try again later");
}

HubListing HubClient::list(const std::string& revision) const {
  const std::string what = HubReference{id_, revision, ""}.text();
  const std::string url =
      fmt::format("{}/api/datasets/{}/revision/{}?blobs=true", endpoint_, id_, escaped(revision, ""));
  const HttpAnswer answer = http_.get(url, most_listing);
  require(answer, what);
  return hub_listing(answer.body, fmt::format("the answer of {} for {}", endpoint_, what));
}

std::string HubClient::read(const std::string& commit, const HubFile& file) const {
  HttpAnswer answer = http_.get(url_of(commit, file), most_text);
  require(answer, HubReference{id_, commit, file.name}.text());
  return std::move(answer.body);
}

void HubClient::fetch(const std::string& commit, const HubFile& file, const Path& part) const {
  require(http_.complete(url_of(commit, file), part, file.bytes), HubReference{id_, commit, file.name}.text());
}

}  // namespace lockstep
