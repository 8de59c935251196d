#include "remote/hub_client.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/nesting.hpp"
#include "base/text.hpp"
#include "remote/hub_environment.hpp"

#include <algorithm>
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

// A name that leads nowhere but below the folder of a snapshot.
bool is_safe(const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](unsigned char c) { return c >= ' ' && c != 0x7f && c != '\\'; });
  const auto parts = split(name, '/');
  return plain && std::ranges::none_of(
                      parts, [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
}

bool is_etag(const std::string& etag) {
  return (etag.size() == 40 || etag.size() == 64) &&
         std::ranges::all_of(etag, [](unsigned char c) { return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f'); });
}

// A file as the hub lists it; that of a large one stands under lfs.
HubFile file_in(const Json& sibling) {
  HubFile file;
  file.name = sibling.at("rfilename").get<std::string>();
  const bool large = sibling.contains("lfs") && sibling["lfs"].is_object();
  const Json& facts = large ? sibling["lfs"] : sibling;
  file.bytes = integer_from<std::uint64_t>(facts.at("size"), "size");
  file.etag = facts.at(large ? "sha256" : "blobId").get<std::string>();
  if (!is_safe(file.name) || !is_etag(file.etag)) fail(ExitCode::input, "a file has the name '{}'", file.name);
  return file;
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
  const char* const login = "a token is read from HF_TOKEN, or from the file that hf auth login writes";
  if (answer.status == 404 && code == "RevisionNotFound")
    throw Error(ExitCode::input, fmt::format("{}: it has no such revision", tried),
                "--data.revision main is the usual one");
  if (answer.status == 404 && code == "EntryNotFound")
    throw Error(ExitCode::input, fmt::format("{}: the file is not there", tried), "");
  if (answer.status == 401 || answer.status == 404)
    throw Error(ExitCode::input,
                fmt::format("{}: there is no such dataset, or it is private and {}{}", tried,
                            has_token_ ? "the token may not read it" : "no token is there", with_word),
                login);
  if (answer.status == 403)
    throw Error(
        ExitCode::storage,
        fmt::format("{}: {}{}", tried,
                    has_token_ ? "the token has no right to it" : "it asks for a token, and none is there", with_word),
        code == "GatedRepo" ? "ask for access on the page of the dataset" : login);
  throw Error(ExitCode::storage, fmt::format("{}: it answers with status {}{}", tried, answer.status, with_word),
              answer.status == 429 ? "it takes no more requests for now: try again later" : "try again later");
}

HubListing HubClient::list(const std::string& revision) const {
  const std::string what = HubReference{id_, revision, ""}.text();
  const std::string url =
      fmt::format("{}/api/datasets/{}/revision/{}?blobs=true", endpoint_, id_, escaped(revision, ""));
  const HttpAnswer answer = http_.get(url, most_listing);
  require(answer, what);
  HubListing listing;
  try {
    refuse_deep_nesting(answer.body, what);
    const Json json = parse_json(answer.body, what);
    listing.commit = json.at("sha").get<std::string>();
    if (!is_commit(listing.commit)) fail(ExitCode::input, "its commit is '{}'", listing.commit);
    for (const Json& sibling : json.at("siblings")) listing.files.push_back(file_in(sibling));
  } catch (const std::exception& error) {
    throw Error(ExitCode::input,
                fmt::format("{} lists {} in a form that is not known: {}", endpoint_, what, error.what()),
                "HF_ENDPOINT names another hub than https://huggingface.co");
  }
  std::ranges::sort(listing.files, {}, &HubFile::name);
  return listing;
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
