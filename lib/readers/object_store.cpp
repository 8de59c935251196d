#include "readers/object_store.hpp"

#include "base/error.hpp"
#include "base/plugin.hpp"
#include "base/text.hpp"
#include "remote/file_pattern.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {

namespace {

constexpr const char* s3 = "s3://";
constexpr const char* gcs = "gs://";

const StorePlugin& plugin() {
  static const auto* const opened = static_cast<const StorePlugin*>(
      open_plugin("readers", "lockstep-tables.so", StorePlugin::entry, StorePlugin::version_here));
  if (opened == nullptr)
    throw Error(ExitCode::input, "this build cannot read object stores",
                "run scripts/setup --tables and rebuild, or copy the objects to this machine");
  return *opened;
}

struct Problem {
  std::array<char, 1024> text{};
};

[[noreturn]] void fail_store(const std::string& uri, const Problem& problem) {
  throw Error(ExitCode::storage, fmt::format("cannot read {}: {}", uri, problem.text.data()),
              uri.starts_with(s3)
                  ? "for S3 set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
                    "for another endpoint set AWS_ENDPOINT_URL"
                  : "for Google Cloud Storage set GOOGLE_APPLICATION_CREDENTIALS, or log in with gcloud; "
                    "gs://anonymous@BUCKET needs no credentials");
}

/// SCHEME BUCKET / KEY ? QUERY
struct ObjectName {
  std::string bucket;  // with the scheme
  std::string key;
  std::string query;  // with the question mark

  std::string uri(const std::string& of_key) const {
    return fmt::format("{}{}{}{}", bucket, of_key.empty() ? "" : "/", of_key, query);
  }
};

// A question mark is of the query if an equals sign follows, else of a pattern.
ObjectName object_name(const std::string& word) {
  ObjectName name;
  const std::size_t equals = word.find('=');
  const std::size_t mark = equals == std::string::npos ? equals : word.rfind('?', equals);
  if (mark != std::string::npos) name.query = word.substr(mark);
  const std::string place = word.substr(0, mark);
  const std::size_t slash = std::min(place.find('/', std::strlen(s3)), place.size());
  name.bucket = place.substr(0, slash);
  if (slash < place.size()) name.key = place.substr(slash + 1);
  while (name.key.ends_with('/')) name.key.pop_back();
  if (name.bucket.size() == std::strlen(s3))
    throw Error(ExitCode::usage, fmt::format("cannot read {}: it names no bucket", word), "s3://BUCKET/KEY");
  const std::size_t at = name.bucket.find('@');
  if (at != std::string::npos && name.bucket.substr(0, at) != "gs://anonymous")
    throw Error(ExitCode::usage, "the name of an object contains credentials, which would be written into records",
                "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead, or AWS_PROFILE");
  return name;
}

// What is in front of the first name with a character of patterns.
std::string folder_before_pattern(const std::string& key) {
  const std::size_t first = key.find_first_of("*?[");
  if (first == std::string::npos) return key;
  const std::size_t slash = key.rfind('/', first);
  return slash == std::string::npos ? "" : key.substr(0, slash);
}

class ObjectReader : public ByteReader {
 public:
  ObjectReader(const std::string& uri, std::uint64_t offset)
      : uri_(uri), at_(offset), object_(nullptr, plugin().close) {
    Problem problem;
    object_.reset(plugin().open(uri.c_str(), problem.text.data(), problem.text.size()));
    if (!object_) fail_store(uri_, problem);
  }

  std::size_t read(std::span<char> out) override {
    if (given_ == held_.size()) refill();
    const std::size_t count = std::min(out.size(), held_.size() - given_);
    std::copy_n(held_.data() + given_, count, out.data());
    given_ += count;
    return count;
  }
  std::uint64_t consumed() const override { return consumed_; }

 private:
  // A request for each piece; pieces grow, so that what is read in vain at the end of a part is little of it.
  void refill() {
    constexpr std::uint64_t least = std::uint64_t{1} << 18, most = std::uint64_t{1} << 23;
    held_.resize(std::clamp(consumed_ / 32, least, most));
    Problem problem;
    const std::int64_t got =
        plugin().read_at(object_.get(), at_, held_.data(), held_.size(), problem.text.data(), problem.text.size());
    if (got < 0) fail_store(uri_, problem);
    held_.resize(static_cast<std::size_t>(got));
    given_ = 0;
    at_ += held_.size();
    consumed_ += held_.size();
  }

  std::string uri_;
  std::uint64_t at_;
  std::unique_ptr<void, void (*)(void*)> object_;
  std::vector<char> held_;
  std::size_t given_ = 0;
  std::uint64_t consumed_ = 0;
};

}  // namespace

bool names_objects(std::string_view word) { return word.starts_with(s3) || word.starts_with(gcs); }

std::vector<StoredObject> find_objects(const std::string& word) {
  const ObjectName name = object_name(word);
  const std::string folder = folder_before_pattern(name.key);
  const std::string from = name.uri(folder);
  struct Listener {
    const ObjectName& name;
    std::vector<StoredObject> objects;
  } listener{name, {}};
  const auto found = [](void* heard, const char* path, std::uint64_t bytes, std::int64_t modified_ns) {
    auto& [wanted, objects] = *static_cast<Listener*>(heard);
    const std::string_view whole = path;
    const std::string key(whole.substr(std::min(whole.find('/') + 1, whole.size())));
    if (matches_files(wanted.key.empty() ? "**" : wanted.key, key))
      objects.push_back({wanted.uri(key), key, bytes, modified_ns});
  };
  Problem problem;
  const auto outcome = plugin().list(from.c_str(), &listener, found, problem.text.data(), problem.text.size());
  if (outcome == StorePlugin::Outcome::failed) fail_store(from, problem);
  if (listener.objects.empty())
    fail(ExitCode::input, "{} {}", folder == name.key ? "there is no object" : "no object matches", word);
  std::ranges::sort(listener.objects, {}, &StoredObject::key);
  return std::move(listener.objects);
}

std::unique_ptr<ByteReader> open_object(const std::string& uri, std::uint64_t offset) {
  return std::make_unique<ObjectReader>(uri, offset);
}

}  // namespace lockstep
