#include "remote/hub_cache.hpp"

#include "base/error.hpp"
#include "base/own_files.hpp"
#include "base/text.hpp"
#include "remote/hub_environment.hpp"
#include "remote/hub_listing.hpp"
#include "remote/sha.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

namespace lockstep {

namespace {

constexpr const char* prefix = "datasets--";
constexpr const char* prefix_of_models = "models--";
constexpr const char* listings = ".lockstep";

std::string folder_name(const std::string& id, HubKind kind) {
  const std::size_t slash = id.find('/');
  return fmt::format("{}{}--{}", kind == HubKind::model ? prefix_of_models : prefix, id.substr(0, slash),
                     id.substr(slash + 1));
}

// huggingface_hub takes turns by the same file in the same way.
FileDescriptor locked(const Path& path, const std::function<void()>& alive) {
  make_folder(path.parent_path());
  FileDescriptor lock = open_file(path, O_RDWR | O_CREAT | O_CLOEXEC);
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail_errno("lock", path);
    alive();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return lock;
}

/// What the hub would call a file with these bytes: a large one by its SHA-256, others as git does, by a SHA-1 of a
/// header and the bytes.
std::string etag_of(const Path& path, ShaKind kind, const std::function<void()>& alive) {
  const FileDescriptor file = open_regular(path);
  const std::uint64_t length = length_of(path).value_or(0);
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  Sha hash(kind);
  if (kind == ShaKind::sha1) {
    const std::string header = fmt::format("blob {}", length);
    hash.add(std::as_bytes(std::span(header.c_str(), header.size() + 1)));
  }
  for (std::uint64_t at = 0; at < length;) {
    alive();
    const std::span<std::byte> piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), length - at));
    read_at(file, piece, at, path);
    hash.add(piece);
    at += piece.size();
  }
  return hash.hex();
}

void list_below(const Path& folder, const std::string& before, std::vector<HubFile>& files) {
  for (const Path& path : list_folder(folder)) {
    const std::string name = before + path.filename().string();
    const FileKind kind = kind_of(path);
    if (kind == FileKind::folder) list_below(path, name + "/", files);
    if (kind == FileKind::file) files.push_back({name, length_of(path).value_or(0), ""});
  }
}

}  // namespace

HubCache::HubCache(const std::string& id, HubKind kind)
    : root_(hub_cache_folder()), folder_(root_ / folder_name(id, kind)) {}

std::optional<std::string> HubCache::commit_of(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const Path path = folder_ / "refs" / revision;
  if (kind_of(path) != FileKind::file) return std::nullopt;
  const std::string text = read_file(path);
  const std::string commit(trim(text));
  if (!is_commit(commit)) fail(ExitCode::input, "{} does not contain a commit", path.string());
  return commit;
}

std::optional<HubListing> HubCache::listing(const std::string& commit) const {
  const Path path = folder_ / listings / (commit + ".json");
  if (!is_there(path)) return std::nullopt;
  return kept_listing(read_file(path), commit, path.string());
}

HubListing HubCache::snapshot(const std::string& commit) const {
  HubListing listing{commit, {}};
  const Path folder = folder_ / "snapshots" / commit;
  if (is_folder(folder)) list_below(folder, "", listing.files);
  return listing;
}

Path HubCache::path_of(const std::string& commit, const std::string& name) const {
  return folder_ / "snapshots" / commit / name;
}

bool HubCache::has(const std::string& commit, const HubFile& file) const {
  const Path path = path_of(commit, file.name);
  return kind_of(path) == FileKind::file && length_of(path) == file.bytes;
}

void HubCache::keep(const HubListing& listing) const {
  const Path path = folder_ / listings / (listing.commit + ".json");
  make_folder(path.parent_path());
  publish_file(path, text_of(listing));
}

void HubCache::keep(const std::string& revision, const std::string& commit) const {
  if (is_commit(revision)) return;
  const Path path = folder_ / "refs" / revision;
  make_folder(path.parent_path());
  publish_file(path, commit);
}

void HubCache::bring(const std::string& commit, const HubFile& file, const std::function<void(const Path& part)>& fetch,
                     const std::function<void()>& alive) const {
  const Path blob = blob_of(file);
  make_folder(blob.parent_path());
  const FileDescriptor lock = locked(root_ / ".locks" / folder_.filename() / (file.etag + ".lock"), alive);
  if (!is_there(blob) || length_of(blob) != file.bytes) {
    const Path part = blob.string() + ".lockstep.incomplete";
    fetch(part);
    if (etag_of(part, file.has_sha256() ? ShaKind::sha256 : ShaKind::sha1, alive) != file.etag) {
      remove_tree(part);
      fail(ExitCode::input, "{}: the received bytes do not match its {}", file.name,
           file.has_sha256() ? "SHA-256" : "git hash");
    }
    publish_rename(part, blob);
  }
  link(commit, file);
}

void HubCache::link(const std::string& commit, const HubFile& file) const {
  const Path path = path_of(commit, file.name);
  make_folder(path.parent_path());
  const Path target = blob_of(file).lexically_relative(path.parent_path());
  const Path beside = temporary_beside(path);
  if (::symlink(target.c_str(), beside.c_str()) != 0) fail_errno("link", beside);
  publish_rename(beside, path);
}

std::optional<Path> cached_model(const std::string& word) {
  const auto reference = word.starts_with("hf:") ? std::nullopt : hub_reference(word);
  if (!reference) return std::nullopt;
  const HubCache cache(reference->id, HubKind::model);
  const auto commit = cache.commit_of("main");
  if (!commit || !is_folder(cache.path_of(*commit, ""))) return std::nullopt;
  return cache.path_of(*commit, "").parent_path();
}

std::optional<std::string> hub_name_of(const Path& path) {
  std::vector<std::string> parts;
  for (const Path& part : path) parts.push_back(part.string());
  for (std::size_t i = 0; i + 3 < parts.size(); ++i) {
    if (!parts[i].starts_with(prefix) || parts[i + 1] != "snapshots" || !is_commit(parts[i + 2])) continue;
    std::string id = parts[i].substr(std::string_view(prefix).size());
    const std::size_t dashes = id.find("--");
    if (dashes == std::string::npos) continue;
    id.replace(dashes, 2, "/");
    const std::vector<std::string> name(parts.begin() + static_cast<std::ptrdiff_t>(i) + 3, parts.end());
    return HubReference{id, parts[i + 2], join(name, "/")}.text();
  }
  return std::nullopt;
}

}  // namespace lockstep
