#include "reshard/state_source.hpp"

#include "base/json.hpp"
#include "base/rounding.hpp"

#include <algorithm>

namespace lockstep {

namespace {

class CheckpointSource final : public StateSource {
 public:
  CheckpointSource(const Path& checkpoint, int blocks) : reader_(checkpoint), blocks_(blocks) {
    reader_.hold_blocks(static_cast<std::size_t>(blocks));
  }

  std::string name() const override { return reader_.path().string(); }
  Json origin() const override {
    return {{"path", absolute_path(reader_.path()).string()},
            {"step", manifest().step},
            {"uuid", manifest().uuid},
            {"state_digest", to_hex(manifest().state_digest)}};
  }
  const Manifest& manifest() const override { return reader_.manifest(); }
  bool has_fingerprint(std::size_t) const override { return true; }
  std::string trainer_values() const override {
    return find_component(manifest(), "trainer") == nullptr ? "" : reader_.values_text("trainer", "all");
  }
  DType read_type(std::size_t tensor) const override { return layout(tensor).dtype; }
  void read(std::size_t tensor, const Shape& as, const Box& box, std::span<std::byte> out) const override {
    reader_.read(tensor, as, box, out);
  }
  std::uint64_t working_bytes(std::size_t tensor, const Shape& as, const Box& box) const override {
    return spread_of(layout(tensor).global, as, box) * static_cast<std::uint64_t>(size_of(layout(tensor).dtype));
  }
  int blocks() const override { return blocks_; }

 private:
  const Layout& layout(std::size_t tensor) const { return manifest().tensors[tensor].layout; }
  CheckpointReader reader_;
  int blocks_;
};

}  // namespace

std::uint64_t spread_of(const Shape& stored, const Shape& as, const Box& box) {
  if (stored == as) return 0;
  const std::int64_t rows = std::max<std::int64_t>(as.empty() ? 1 : as[0], 1);
  const std::int64_t own_rows = std::max<std::int64_t>(box.extent.empty() ? 1 : box.extent[0], 1);
  const std::int64_t row = elements(as) / rows, own_row = std::max<std::int64_t>(elements(box) / own_rows, 1);
  return static_cast<std::uint64_t>(divided_up(row, own_row));
}

std::unique_ptr<StateSource> open_checkpoint_source(const Path& checkpoint, int blocks) {
  return std::make_unique<CheckpointSource>(checkpoint, blocks);
}

}  // namespace lockstep
