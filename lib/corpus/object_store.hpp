// Objects of S3 and Google Cloud Storage as files of a corpus, through the plug-in that reads tables, too: Arrow's file
// systems, which find credentials where the programs of those stores do.
#pragma once

#include "corpus/byte_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// What the plug-in offers: plain C. A call that fails writes why into `problem`, of `room` bytes, with a zero at the
/// end.
struct StorePlugin {
  static constexpr int version_here = 1;
  static constexpr const char* entry = "lockstep_stores";  // const StorePlugin* lockstep_stores()
  enum class Outcome : int { done, nothing_there, failed };
  using Found = void (*)(void* listener, const char* path, std::uint64_t bytes, std::int64_t modified_ns);

  int version = version_here;
  /// The object of that name, or all below it. Paths are BUCKET/KEY.
  Outcome (*list)(const char* uri, void* listener, Found found, char* problem, std::size_t room) = nullptr;
  void* (*open)(const char* uri, char* problem, std::size_t room) = nullptr;  // null on failure
  /// The bytes from `offset` on, fewer at the end; −1 on failure.
  std::int64_t (*read_at)(void* object, std::uint64_t offset, char* out, std::size_t bytes, char* problem,
                          std::size_t room) = nullptr;
  void (*close)(void* object) = nullptr;
};

/// Whether a word names objects: s3://BUCKET/KEY, gs://BUCKET/KEY.
bool names_objects(std::string_view word);

struct StoredObject {
  std::string uri;
  std::string key;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
};

/// The objects that a word names: one, those below it as if slashes were folders, or those that match it with * ? [ ]
/// and **; with what Arrow takes behind a question mark (endpoint_override, scheme, region). In the order of their
/// names. Local. Throws Error(input) if there are none, Error(storage) if the store does not say, Error(usage) for
/// credentials in the word.
std::vector<StoredObject> find_objects(const std::string& word);

/// The object from `offset` on. Throws Error(storage).
std::unique_ptr<ByteReader> open_object(const std::string& uri, std::uint64_t offset);

}  // namespace lockstep
