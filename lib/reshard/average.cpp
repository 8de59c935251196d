#include "reshard/average.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "reshard/cast.hpp"
#include "reshard/made_from.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace lockstep {

namespace {

bool can_be_averaged(const StoredTensor& tensor) {
  const DType dtype = tensor.layout.dtype;
  return tensor.component == "model" && !is_values(tensor) && is_floating(dtype) && size_of(dtype) > 1;
}

std::string text_of(const StoredTensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.layout.dtype), to_text(known_shape(tensor.layout)));
}

[[noreturn]] void refuse(const CheckpointReader& first, const CheckpointReader& other, const std::string& difference) {
  throw Error(ExitCode::usage,
              fmt::format("cannot average {} and {}: {}", first.path().string(), other.path().string(), difference),
              "checkpoints of one model are averaged; --cast brings them to one type, one by one");
}

class AverageSource final : public StateSource {
 public:
  explicit AverageSource(const std::vector<Path>& checkpoints);

  std::string name() const override { return fmt::format("{} and others", first().path().string()); }
  const Manifest& manifest() const override { return manifest_; }
  bool has_fingerprint(std::size_t tensor) const override { return !can_be_averaged(manifest_.tensors[tensor]); }
  std::string trainer_values() const override {
    return find_component(manifest_, "trainer") == nullptr ? "" : first().values_text("trainer", "all");
  }
  DType read_type(std::size_t tensor) const override {
    const StoredTensor& stored = manifest_.tensors[tensor];
    return can_be_averaged(stored) ? DType::f64 : stored.layout.dtype;
  }
  void read(std::size_t tensor, const Shape& as, const Box& box, std::span<std::byte> out) const override;
  std::uint64_t working_bytes(std::size_t tensor, const Shape& as, const Box& box) const override;
  int blocks() const override { return static_cast<int>(readers_.size()); }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  const CheckpointReader& first() const { return *readers_.front(); }
  void match(std::size_t other);
  void require_like(const CheckpointReader& other, std::size_t tensor, std::optional<std::size_t> number) const;
  void tell_origin();

  std::vector<std::unique_ptr<CheckpointReader>> readers_;
  std::vector<std::vector<std::size_t>> numbers_;  // by checkpoint, by tensor of the first one: of model alone
  Manifest manifest_;
  std::vector<std::string> notes_;
};

std::string model_config(const Manifest& manifest) {
  for (const auto& [name, text] : manifest.documents)
    if (name == "config.json") return text;
  return {};
}

AverageSource::AverageSource(const std::vector<Path>& checkpoints) {
  for (const Path& checkpoint : checkpoints) readers_.push_back(std::make_unique<CheckpointReader>(checkpoint));
  manifest_ = first().manifest();
  manifest_.files.clear();
  if (find_component(manifest_, "model") == nullptr)
    fail(ExitCode::usage, "cannot average {}: it holds no component model", first().path().string());
  for (std::size_t i = 0; i < readers_.size(); ++i) match(i);
  tell_origin();
}

// Finds the tensors of the first one in another, and none besides.
void AverageSource::match(std::size_t other) {
  const CheckpointReader& reader = *readers_[other];
  std::vector<std::size_t> numbers(manifest_.tensors.size());
  std::vector<bool> found(reader.manifest().tensors.size(), false);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (manifest_.tensors[i].component != "model") continue;
    const auto number = reader.find_tensor(full_name(manifest_.tensors[i]));
    require_like(reader, i, number);
    numbers[i] = *number;
    found[*number] = true;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const StoredTensor& tensor = reader.manifest().tensors[i];
    if (tensor.component == "model" && !found[i])
      refuse(first(), reader, fmt::format("{} is in the latter alone", full_name(tensor)));
  }
  numbers_.push_back(std::move(numbers));
  if (model_config(reader.manifest()) != model_config(first().manifest()))
    notes_.push_back(fmt::format("config.json of {} is not that of {}, which is kept", reader.path().string(),
                                 first().path().string()));
}

void AverageSource::require_like(const CheckpointReader& other, std::size_t tensor,
                                 std::optional<std::size_t> number) const {
  const StoredTensor& mine = manifest_.tensors[tensor];
  const std::string name = full_name(mine);
  if (!number || full_name(other.manifest().tensors[*number]) != name)
    refuse(first(), other, fmt::format("{} is in the former alone", name));
  const StoredTensor& its = other.manifest().tensors[*number];
  if (text_of(mine) != text_of(its))
    refuse(first(), other, fmt::format("{} is {} in the one and {} in the other", name, text_of(mine), text_of(its)));
  if (!can_be_averaged(mine) && !(mine.fingerprint == its.fingerprint))
    refuse(first(), other,
           fmt::format("{} has no fraction to average ({}), and is not equal", name, name_of(mine.layout.dtype)));
}

void AverageSource::tell_origin() {
  manifest_.metrics.clear();
  std::erase_if(manifest_.documents, [](const auto& document) { return document.first == "evaluation"; });
  Json sources = Json::array();
  for (const auto& reader : readers_)
    sources.push_back({{"path", absolute_path(reader->path()).string()},
                       {"step", reader->manifest().step},
                       {"uuid", reader->manifest().uuid},
                       {"state_digest", to_hex(reader->manifest().state_digest)}});
  add_made_from(manifest_, "average", std::move(sources));
}

void AverageSource::read(std::size_t tensor, const Shape& as, const Box& box, std::span<std::byte> out) const {
  if (has_fingerprint(tensor)) return first().read(tensor, as, box, out);
  const DType dtype = manifest_.tensors[tensor].layout.dtype;
  const auto count = static_cast<std::size_t>(elements(box)), size = static_cast<std::size_t>(size_of(dtype));
  const auto readers = static_cast<double>(readers_.size());
  constexpr std::size_t most = 4096;  // elements that are widened at once
  std::array<double, most> sums{}, values{};
  std::vector<std::byte> own(count * size);
  for (std::size_t i = 0; i < readers_.size(); ++i) {
    readers_[i]->read(numbers_[i][tensor], as, box, own);
    for (std::size_t begin = 0; begin < count; begin += most) {
      const std::size_t some = std::min(most, count - begin);
      const std::span<std::byte> place = out.subspan(begin * sizeof(double), some * sizeof(double));
      cast(dtype, std::span(own).subspan(begin * size, some * size), DType::f64,
           std::as_writable_bytes(std::span(values)).first(some * sizeof(double)));
      if (i > 0) {
        std::memcpy(sums.data(), place.data(), place.size());
        for (std::size_t k = 0; k < some; ++k) values[k] += sums[k];
      }
      if (i + 1 == readers_.size())
        for (std::size_t k = 0; k < some; ++k) values[k] /= readers;
      std::memcpy(place.data(), values.data(), place.size());
    }
  }
}

std::uint64_t AverageSource::working_bytes(std::size_t tensor, const Shape& as, const Box& box) const {
  const auto size = static_cast<std::uint64_t>(size_of(manifest_.tensors[tensor].layout.dtype));
  const auto spread = [&](std::size_t reader, std::size_t number) {
    return spread_of(readers_[reader]->manifest().tensors[number].layout.global, as, box);
  };
  if (has_fingerprint(tensor)) return spread(0, tensor) * size;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < readers_.size(); ++i) most = std::max(most, spread(i, numbers_[i][tensor]));
  return (1 + most) * size;
}

}  // namespace

std::unique_ptr<StateSource> open_average(const std::vector<Path>& checkpoints) {
  return std::make_unique<AverageSource>(checkpoints);
}

}  // namespace lockstep
