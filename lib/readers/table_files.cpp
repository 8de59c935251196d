#include "readers/table_files.hpp"

#include "base/error.hpp"
#include "base/plugin.hpp"

#include <array>

namespace lockstep {

namespace {

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
  static const auto* const plugin = static_cast<const TablePlugin*>(
      open_plugin("readers", "lockstep-tables.so", TablePlugin::entry, TablePlugin::version_here));
  if (plugin == nullptr)
    throw Error(ExitCode::input,
                fmt::format("cannot read {}: this build cannot read Parquet or Arrow files", file.name()),
                "run scripts/setup --tables and rebuild, or convert the file to .jsonl");
  return std::make_unique<Table>(*plugin, file);
}

}  // namespace lockstep
