#include "reshard/state_source.hpp"

#include "base/json.hpp"

namespace lockstep {

namespace {

class CheckpointSource final : public StateSource {
 public:
  CheckpointSource(const Path& checkpoint, int blocks) : reader_(checkpoint), blocks_(blocks) {
    reader_.hold_blocks(static_cast<std::size_t>(blocks));
    reader_.fetch_ahead(2 * block_bytes);
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
  DType read_type(std::size_t tensor) const override { return manifest().tensors[tensor].layout.dtype; }
  void read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const override {
    reader_.read(tensor, as, boxes);
  }
  std::uint64_t working_bytes(std::size_t, const Shape&, const Box&) const override { return 0; }
  int blocks() const override { return blocks_; }

 private:
  CheckpointReader reader_;
  int blocks_;
};

}  // namespace

std::unique_ptr<StateSource> open_checkpoint_source(const Path& checkpoint, int blocks) {
  return std::make_unique<CheckpointSource>(checkpoint, blocks);
}

}  // namespace lockstep
