// Reads objects of S3 and Google Cloud Storage as files of a corpus, through the plug-in that also reads tables. It
// uses Arrow's file systems, which find credentials in the same places as the stores' own programs.
#pragma once

#include "readers/byte_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// The functions of the plug-in, in plain C. A call that fails writes the reason into `problem`, which has `room`
/// bytes, with a final zero.
struct StorePlugin {
  static constexpr int version_here = 1;
  static constexpr const char* entry = "lockstep_stores";  // const StorePlugin* lockstep_stores()
  enum class Outcome : int { done, nothing_there, failed };
  using Found = void (*)(void* listener, const char* path, std::uint64_t bytes, std::int64_t modified_ns);

  int version = version_here;
  /// Calls `found` for the object of that name, or for all objects below it. Paths are BUCKET/KEY.
  Outcome (*list)(const char* uri, void* listener, Found found, char* problem, std::size_t room) = nullptr;
  void* (*open)(const char* uri, char* problem, std::size_t room) = nullptr;  // null on failure
  /// Reads bytes from `offset` on. Returns their number, less than `bytes` at the end; −1 on failure.
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

/// The objects that a word names, sorted by name: one object, all objects below a prefix as in a folder, or the matches
/// of a pattern with * ? [ ] and **. Arrow's options may follow after a question mark (endpoint_override, scheme,
/// region). Local. Throws Error(input) if there are none, Error(storage) if the store cannot be listed, Error(usage) if
/// the word contains credentials.
std::vector<StoredObject> find_objects(const std::string& word);

/// Opens the object at byte `offset`. Throws Error(storage).
std::unique_ptr<ByteReader> open_object(const std::string& uri, std::uint64_t offset);

}  // namespace lockstep
