#include "base/plugin.hpp"

#include "base/error.hpp"
#include "base/files.hpp"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

namespace lockstep {

const void* open_plugin_file(const std::string& path, const char* entry, int version) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(ExitCode::input, fmt::format("cannot load {}: {}", path, ::dlerror()),
                "its libraries must be where they were when it was built: rebuild it");
  const auto tables = reinterpret_cast<const void* (*)()>(::dlsym(library, entry));
  if (tables == nullptr || *static_cast<const int*>(tables()) != version)
    fail(ExitCode::input, "{} belongs to another version of this program: rebuild it", path);
  return tables();
}

std::vector<Path> plugin_places(const std::string& room, const std::string& file) {
  std::error_code unknown;
  const Path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  // Installed beside bin, or in a build folder, where tests lie deeper than programs.
  std::vector<Path> places;
  for (Path folder = program.parent_path(); places.size() < 8 && folder.has_relative_path();
       folder = folder.parent_path()) {
    places.push_back(folder / "libexec/lockstep" / file);
    places.push_back(folder / "lib" / room / file);
  }
  return places;
}

std::optional<Path> find_plugin(const std::string& room, const std::string& file) {
  std::error_code unknown;
  for (const Path& path : plugin_places(room, file))
    if (std::filesystem::exists(path, unknown)) return path;
  return std::nullopt;
}

const void* open_plugin(const std::string& room, const std::string& file, const char* entry, int version) {
  const std::optional<Path> path = find_plugin(room, file);
  return path ? open_plugin_file(path->string(), entry, version) : nullptr;
}

}  // namespace lockstep
