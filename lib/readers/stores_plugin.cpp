// The part of the plug-in that reads object stores. What it offers: readers/object_store.hpp.
#include "readers/arrow_files.hpp"
#include "readers/object_store.hpp"

#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/file.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>

namespace lockstep {

namespace {

constexpr std::int64_t most_retries = 5;
constexpr double connect_s = 10;
constexpr double silent_s = 60;
constexpr double google_retries_s = 30;

class Retries : public arrow::fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail& error, std::int64_t retries) override {
    return error.should_retry && retries < most_retries;
  }
  std::int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, std::int64_t retries) override {
    return std::int64_t{250} << retries;  // milliseconds
  }
};

/// A file system, and the path in it that a URI names.
struct Place {
  std::shared_ptr<arrow::fs::FileSystem> files;
  std::string path;
};

// The endpoint of the environment, which is a URL, as a URI of Arrow says it.
std::string with_endpoint(const std::string& uri) {
  if (uri.find("endpoint_override=") != std::string::npos) return uri;
  for (const char* const name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    std::string endpoint = value;
    while (endpoint.ends_with('/')) endpoint.pop_back();
    const std::size_t scheme = endpoint.find("://");
    const std::string query = scheme == std::string::npos ? "endpoint_override=" + endpoint
                                                          : "scheme=" + endpoint.substr(0, scheme) +
                                                                "&endpoint_override=" + endpoint.substr(scheme + 3);
    return uri + (uri.find('?') == std::string::npos ? "?" : "&") + query;
  }
  return uri;
}

std::shared_ptr<arrow::fs::FileSystem> open_s3(const std::string& uri, std::string& path) {
  static const arrow::Status started = [] {
    arrow::fs::S3GlobalOptions options = arrow::fs::S3GlobalOptions::Defaults();
    options.log_level = arrow::fs::S3LogLevel::Off;
    return arrow::fs::InitializeS3(options);  // what it starts ends with the process, by _Exit (app/leave.hpp)
  }();
  require_ok(started);
  auto options = value_of(arrow::fs::S3Options::FromUri(with_endpoint(uri), &path));
  options.connect_timeout = connect_s;
  options.request_timeout = silent_s;
  options.retry_strategy = std::make_shared<Retries>();
  return value_of(arrow::fs::S3FileSystem::Make(options));
}

std::shared_ptr<arrow::fs::FileSystem> open_google(const std::string& uri, std::string& path) {
  auto options = value_of(arrow::fs::GcsOptions::FromUri(uri, &path));
  if (!options.retry_limit_seconds) options.retry_limit_seconds = google_retries_s;
  return value_of(arrow::fs::GcsFileSystem::Make(options));
}

// One for each bucket, so that connections are used again.
Place place_of(const std::string& uri) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<arrow::fs::FileSystem>> opened;
  const std::lock_guard lock(mutex);
  const std::size_t scheme_end = uri.find("://") + 3;
  const std::size_t query = std::min(uri.rfind('?'), uri.size());
  const std::size_t slash = std::min(uri.find('/', scheme_end), query);
  const std::string bucket = uri.substr(0, slash) + uri.substr(query);
  auto& files = opened[bucket];
  if (!files) {
    std::string path;
    files = uri.starts_with("s3://") ? open_s3(bucket, path) : open_google(bucket, path);
  }
  std::string path = uri.substr(scheme_end, query - scheme_end);
  const std::size_t user = path.find('@');
  if (user != std::string::npos && user < path.find('/')) path.erase(0, user + 1);
  return {files, path};
}

struct OpenObject {
  std::shared_ptr<arrow::io::RandomAccessFile> file;
};

template <class Result, class Work>
Result guarded(Result failed, char* problem, std::size_t room, Work work) {
  try {
    return work();
  } catch (const std::exception& error) {
    copy_error_message(problem, room, error.what());
    return failed;
  }
}

StorePlugin::Outcome list(const char* uri, void* listener, StorePlugin::Found found, char* problem, std::size_t room) {
  return guarded(StorePlugin::Outcome::failed, problem, room, [&] {
    const Place place = place_of(uri);
    const auto tell = [&](const arrow::fs::FileInfo& file) {
      const auto modified = std::chrono::duration_cast<std::chrono::nanoseconds>(file.mtime().time_since_epoch());
      found(listener, file.path().c_str(), static_cast<std::uint64_t>(file.size()), modified.count());
    };
    const arrow::fs::FileInfo named = value_of(place.files->GetFileInfo(place.path));
    if (named.type() == arrow::fs::FileType::NotFound) return StorePlugin::Outcome::nothing_there;
    if (named.IsFile()) {
      tell(named);
      return StorePlugin::Outcome::done;
    }
    arrow::fs::FileSelector below;
    below.base_dir = place.path;
    below.recursive = true;
    for (const arrow::fs::FileInfo& file : value_of(place.files->GetFileInfo(below)))
      if (file.IsFile()) tell(file);
    return StorePlugin::Outcome::done;
  });
}

void* open(const char* uri, char* problem, std::size_t room) {
  return guarded(static_cast<void*>(nullptr), problem, room,
                 [&]() -> void* { return new OpenObject{open_to_read(uri)}; });
}

std::int64_t read_at(void* object, std::uint64_t offset, char* out, std::size_t bytes, char* problem,
                     std::size_t room) {
  return guarded(std::int64_t{-1}, problem, room, [&] {
    arrow::io::RandomAccessFile& file = *static_cast<OpenObject*>(object)->file;
    const auto at = static_cast<std::int64_t>(offset);
    if (at >= value_of(file.GetSize())) return std::int64_t{0};  // which a store may refuse to read
    return value_of(file.ReadAt(at, static_cast<std::int64_t>(bytes), out));
  });
}

void close(void* object) { delete static_cast<OpenObject*>(object); }

}  // namespace

std::shared_ptr<arrow::io::RandomAccessFile> open_to_read(const std::string& name) {
  if (!name.starts_with("s3://") && !name.starts_with("gs://")) return value_of(arrow::io::ReadableFile::Open(name));
  const Place place = place_of(name);
  return value_of(place.files->OpenInputFile(place.path));
}

}  // namespace lockstep

extern "C" __attribute__((visibility("default"))) const lockstep::StorePlugin* lockstep_stores() {
  using namespace lockstep;
  static const StorePlugin plugin{StorePlugin::version_here, list, open, read_at, close};
  return &plugin;
}
