#include "prepare/input_contents.hpp"

#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "comm/long_work.hpp"
#include "prepare/gather_values.hpp"
#include "readers/object_store.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>

namespace lockstep {

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t coarsest_tick_ns = 2 * second_ns;  // of the times that file systems keep

/// A file of which a rank has read something.
struct RankContent {
  std::uint64_t file = 0;
  ReadContent content;
};

/// Adds up bytes [begin, end) of a file.
std::uint64_t sum_of(const Path& path, std::uint64_t begin, std::uint64_t end, const std::function<void()>& alive) {
  constexpr std::uint64_t most_bytes = std::uint64_t{4} << 20;
  const std::unique_ptr<ByteReader> bytes = open_stored(path, begin);
  std::vector<char> buffer(static_cast<std::size_t>(std::min(most_bytes, end - begin)));
  std::uint64_t sum = 0;
  for (std::uint64_t at = begin; at < end;) {
    alive();
    const auto wanted = std::span(buffer).first(static_cast<std::size_t>(std::min(most_bytes, end - at)));
    const auto part = wanted.first(bytes->read(wanted));
    if (part.empty())
      fail(ExitCode::input, "{} was truncated while it was read: it ends at byte {}", path.string(), at);
    sum = add_content_sums(sum, content_sum(std::as_bytes(part), at));
    at += part.size();
  }
  return sum;
}

}  // namespace

std::optional<FileStamp> stamp_of(const Path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const std::int64_t modified_ns = std::int64_t{status.st_mtim.tv_sec} * second_ns + status.st_mtim.tv_nsec;
  return FileStamp{static_cast<std::uint64_t>(status.st_size), modified_ns, status.st_ino};
}

std::optional<FileStamp> stamp_of(const InputFile& file) {
  const std::string name = file.path.string();
  if (names_objects(name)) return FileStamp{file.bytes, file.modified_ns, hash128(name).low};
  return stamp_of(file.path);
}

ContentMemory ContentMemory::read(const Path& path) {
  ContentMemory memory;
  const auto own = stamp_of(path);
  if (!own) return memory;
  memory.written_ns_ = own->modified_ns;
  const Json json = Json::parse(read_file(path), nullptr, false);
  if (!json.is_array()) return memory;
  try {
    for (const Json& entry : json) {
      const FileStamp stamp{integer_from<std::uint64_t>(entry.at("bytes")),
                            integer_from<std::int64_t>(entry.at("modified_ns")),
                            integer_from<std::uint64_t>(entry.at("inode"))};
      memory.add(stamp, integer_from<std::uint64_t>(entry.at("content_sum")));
    }
  } catch (const Json::exception&) {
    return {};
  } catch (const Error&) {  // a number that is none
    return {};
  }
  return memory;
}

void ContentMemory::write(const Path& path) const {
  Json json = Json::array();
  for (const auto& [stamp, sum] : sums_)
    json.push_back(
        {{"bytes", stamp.bytes}, {"modified_ns", stamp.modified_ns}, {"inode", stamp.inode}, {"content_sum", sum}});
  publish_file(path, to_text(json, 2) + "\n");
}

std::optional<std::uint64_t> ContentMemory::find(const InputFile& file) const {
  const auto stamp = stamp_of(file);
  if (!stamp || stamp->modified_ns + coarsest_tick_ns > written_ns_) return std::nullopt;
  const auto found = sums_.find(*stamp);
  return found == sums_.end() ? std::nullopt : std::optional(found->second);
}

ContentMemory memory_of(const std::vector<InputFile>& files, const std::vector<std::optional<FileStamp>>& stamps,
                        const std::vector<std::uint64_t>& sums) {
  ContentMemory memory;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (stamps[i] && stamp_of(files[i]) == stamps[i]) memory.add(*stamps[i], sums[i]);
  return memory;
}

std::vector<ReadContent> gather_contents(Communicator& ranks, const std::vector<ReadContent>& own) {
  std::vector<RankContent> read;
  for (std::size_t file = 0; file < own.size(); ++file)
    if (own[file].bytes > 0) read.push_back({file, own[file]});
  std::vector<ReadContent> all(own.size());
  for (const RankContent& part : gather_lists(ranks, read)) all[part.file].add(part.content);
  return all;
}

InputSums complete_sums(Session& session, const std::vector<InputFile>& files,
                        const std::vector<std::optional<std::uint64_t>>& known) {
  Communicator& world = session.world();
  InputSums result;
  std::vector<std::uint64_t> begins;  // of each file among all bytes that are read
  for (std::size_t i = 0; i < files.size(); ++i) {
    begins.push_back(result.bytes_read);
    if (!known[i]) result.bytes_read += files[i].bytes;
  }
  std::vector<ReadContent> own(files.size());
  if (result.bytes_read > 0) {
    const auto begin_of = [&](int rank) {
      const auto ranks = static_cast<std::uint64_t>(world.size()), before = static_cast<std::uint64_t>(rank);
      return result.bytes_read / ranks * before + result.bytes_read % ranks * before / ranks;
    };
    const std::uint64_t begin = begin_of(world.rank()), end = begin_of(world.rank() + 1);
    long_work_together(session, "read the input", [&](const std::function<void()>& alive) {
      for (std::size_t i = 0; i < files.size(); ++i) {
        const std::uint64_t from = std::max(begin, begins[i]), to = std::min(end, begins[i] + files[i].bytes);
        if (known[i] || from >= to) continue;
        own[i] = {to - from, sum_of(files[i].path, from - begins[i], to - begins[i], alive)};
      }
    });
  }
  const std::vector<ReadContent> read = gather_contents(world, own);
  for (std::size_t i = 0; i < files.size(); ++i) result.sums.push_back(known[i].value_or(read[i].sum));
  return result;
}

}  // namespace lockstep
