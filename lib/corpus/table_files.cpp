#include "corpus/table_files.hpp"

#include "base/error.hpp"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <vector>

namespace lockstep {

namespace {

constexpr const char* plugin_file = "lockstep-tables.so";

const TablePlugin* load_plugin() {
  std::error_code unknown;
  const Path program = std::filesystem::read_symlink("/proc/self/exe", unknown);
  // Installed beside bin, or in a build folder, where tests lie deeper than programs.
  std::vector<Path> places;
  for (Path folder = program.parent_path(); places.size() < 8 && folder.has_relative_path();
       folder = folder.parent_path()) {
    places.push_back(folder / "libexec/lockstep" / plugin_file);
    places.push_back(folder / "lib/corpus" / plugin_file);
  }
  for (const Path& path : places) {
    if (!std::filesystem::exists(path, unknown)) continue;
    void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      throw Error(ExitCode::input, fmt::format("cannot load {}: {}", path.string(), ::dlerror()),
                  "it needs the libraries of the pyarrow wheel where they were when it was built: build anew");
    const auto tables = reinterpret_cast<const TablePlugin* (*)()>(::dlsym(library, TablePlugin::entry));
    if (tables == nullptr || tables()->version != TablePlugin::version_here)
      fail(ExitCode::input, "{} is of another version of this program: build anew", path.string());
    return tables();
  }
  return nullptr;
}

class Table : public ByteReader {
 public:
  Table(const TablePlugin& plugin, const InputFile& file)
      : plugin_(plugin), name_(file.name()), table_(nullptr, plugin.close) {
    std::array<char, 512> problem{};
    table_.reset(plugin.open(file.path.c_str(), file.format == TextFormat::parquet, problem.data(), problem.size()));
    if (!table_) fail(ExitCode::input, "cannot read {}: {}", name_, problem.data());
  }
  std::size_t read(std::span<char> out) override {
    std::array<char, 512> problem{};
    const std::int64_t got = plugin_.read(table_.get(), out.data(), out.size(), problem.data(), problem.size());
    if (got < 0) fail(ExitCode::input, "cannot read {}: {}", name_, problem.data());
    return static_cast<std::size_t>(got);
  }
  std::uint64_t consumed() const override { return plugin_.consumed(table_.get()); }

 private:
  const TablePlugin& plugin_;
  std::string name_;
  std::unique_ptr<void, void (*)(void*)> table_;
};

}  // namespace

std::unique_ptr<ByteReader> open_table(const InputFile& file) {
  static const TablePlugin* const plugin = load_plugin();
  if (plugin == nullptr)
    throw Error(ExitCode::input, fmt::format("cannot read {}: this build reads neither Parquet nor Arrow", file.name()),
                "scripts/setup --tables, then build anew; or convert it to .jsonl");
  return std::make_unique<Table>(*plugin, file);
}

}  // namespace lockstep
