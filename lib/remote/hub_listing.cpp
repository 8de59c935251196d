#include "remote/hub_listing.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "base/nesting.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cctype>
#include <exception>
#include <functional>
#include <utility>

namespace lockstep {

namespace {

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

HubFile checked(HubFile file) {
  if (!is_safe(file.name) || !is_etag(file.etag))
    fail(ExitCode::input, "invalid file name '{}' or hash '{}'", file.name, file.etag);
  return file;
}

// A file as the hub lists it; that of a large one stands under lfs.
HubFile file_in(const Json& sibling) {
  HubFile file;
  file.name = sibling.at("rfilename").get<std::string>();
  const bool large = sibling.contains("lfs") && sibling["lfs"].is_object();
  const Json& facts = large ? sibling["lfs"] : sibling;
  file.bytes = integer_from<std::uint64_t>(facts.at("size"), "size");
  file.etag = facts.at(large ? "sha256" : "blobId").get<std::string>();
  return checked(std::move(file));
}

HubListing read_listing(const std::string& text, const std::string& origin,
                        const std::function<HubListing(const Json& json)>& read) {
  try {
    refuse_deep_nesting(text, origin);
    HubListing listing = read(parse_json(text, origin));
    std::ranges::sort(listing.files, {}, &HubFile::name);
    return listing;
  } catch (const std::exception& error) {
    fail(ExitCode::input, "{} is not a list of files: {}", origin, error.what());
  }
}

}  // namespace

HubListing hub_listing(const std::string& answer, const std::string& origin) {
  return read_listing(answer, origin, [](const Json& json) {
    HubListing listing{json.at("sha").get<std::string>(), {}};
    if (!is_commit(listing.commit)) fail(ExitCode::input, "invalid commit '{}'", listing.commit);
    for (const Json& sibling : json.at("siblings")) listing.files.push_back(file_in(sibling));
    return listing;
  });
}

std::string text_of(const HubListing& listing) {
  Json files = Json::array();
  for (const HubFile& file : listing.files) files.push_back({file.name, file.bytes, file.etag});
  return to_text(files);
}

HubListing kept_listing(const std::string& text, const std::string& commit, const std::string& origin) {
  return read_listing(text, origin, [&](const Json& json) {
    HubListing listing{commit, {}};
    for (const Json& file : json)
      listing.files.push_back(checked({file.at(0).get<std::string>(), integer_from<std::uint64_t>(file.at(1), "size"),
                                       file.at(2).get<std::string>()}));
    return listing;
  });
}

}  // namespace lockstep
