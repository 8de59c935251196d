#include "reshard/average.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "reshard/cast.hpp"
#include "reshard/made_from.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace lockstep {

namespace {

bool can_be_averaged(const StoredTensor& tensor) {
  const DType dtype = tensor.layout.dtype;
  return tensor.component == "model" && !is_values(tensor) && is_floating(dtype) && size_of(dtype) > 1;
}

std::string text_of(const StoredTensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.layout.dtype), to_text(known_shape(tensor.layout)));
}

[[noreturn]] void refuse(const StateSource& first, const StateSource& other, const std::string& difference) {
  throw Error(ExitCode::usage, fmt::format("cannot average {} and {}: {}", first.name(), other.name(), difference),
              "only checkpoints of the same model can be averaged; convert each to a common type first with --cast");
}

class AverageSource final : public StateSource {
 public:
  explicit AverageSource(std::vector<std::unique_ptr<StateSource>> sources);

  std::string name() const override { return fmt::format("{} and others", first().name()); }
  Json origin() const override {
    Json origins = Json::array();
    for (const auto& source : sources_) origins.push_back(source->origin());
    return origins;
  }
  const Manifest& manifest() const override { return manifest_; }
  bool has_fingerprint(std::size_t tensor) const override {
    return !is_averaged(tensor) && first().has_fingerprint(tensor);
  }
  std::string trainer_values() const override { return first().trainer_values(); }
  DType read_type(std::size_t tensor) const override {
    return is_averaged(tensor) ? DType::f64 : first().read_type(tensor);
  }
  void read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const override;
  std::uint64_t working_bytes(std::size_t tensor, const Shape& as, const Box& box) const override;
  int blocks() const override {
    int blocks = 0;
    for (const auto& source : sources_) blocks += source->blocks();
    return blocks;
  }
  std::vector<std::string> notes() const override { return notes_; }

 private:
  const StateSource& first() const { return *sources_.front(); }
  void read_average(std::size_t tensor, const Shape& as, const StateBox& wanted) const;
  bool is_averaged(std::size_t tensor) const { return can_be_averaged(manifest_.tensors[tensor]); }
  void match(const StateSource& other);
  void require_like(const StateSource& other, const StoredTensor& mine, const StoredTensor& its) const;

  std::vector<std::unique_ptr<StateSource>> sources_;
  std::vector<std::vector<std::size_t>> numbers_;  // by source, by tensor of the first one: of model alone
  Manifest manifest_;
  std::vector<std::string> notes_;
};

std::string model_config(const Manifest& manifest) {
  for (const auto& [name, text] : manifest.documents)
    if (name == "config.json") return text;
  return {};
}

AverageSource::AverageSource(std::vector<std::unique_ptr<StateSource>> sources) : sources_(std::move(sources)) {
  manifest_ = first().manifest();
  if (find_component(manifest_, "model") == nullptr)
    fail(ExitCode::usage, "cannot average {}: it holds no component model", first().name());
  for (const auto& source : sources_) match(*source);
  manifest_.metrics.clear();
  std::erase_if(manifest_.documents, [](const auto& document) { return document.first == "evaluation"; });
  add_made_from(manifest_, "average", origin());
}

// Finds the tensors of the first one in another, and none besides.
void AverageSource::match(const StateSource& other) {
  const std::vector<StoredTensor>& its = other.manifest().tensors;
  std::map<std::string, std::size_t> of_model;  // that were not found yet
  for (std::size_t i = 0; i < its.size(); ++i)
    if (its[i].component == "model") of_model[full_name(its[i])] = i;
  std::vector<std::size_t> numbers(manifest_.tensors.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const StoredTensor& mine = manifest_.tensors[i];
    if (mine.component != "model") continue;
    const auto found = of_model.find(full_name(mine));
    if (found == of_model.end()) refuse(first(), other, fmt::format("{} is only in the first", full_name(mine)));
    numbers[i] = found->second;
    of_model.erase(found);
    require_like(other, mine, its[numbers[i]]);
  }
  for (const StoredTensor& tensor : its)
    if (of_model.contains(full_name(tensor)))
      refuse(first(), other, fmt::format("{} is only in the second", full_name(tensor)));
  numbers_.push_back(std::move(numbers));
  if (model_config(other.manifest()) != model_config(manifest_))
    notes_.push_back(
        fmt::format("config.json of {} differs from that of {}, which is kept", other.name(), first().name()));
}

void AverageSource::require_like(const StateSource& other, const StoredTensor& mine, const StoredTensor& its) const {
  const std::string name = full_name(mine);
  if (text_of(mine) != text_of(its))
    refuse(first(), other,
           fmt::format("{} is {} in the first and {} in the second", name, text_of(mine), text_of(its)));
  if (!can_be_averaged(mine) && !(mine.fingerprint == its.fingerprint))
    refuse(first(), other,
           fmt::format("{} differs, but its type {} cannot be averaged", name, name_of(mine.layout.dtype)));
}

void AverageSource::read(std::size_t tensor, const Shape& as, std::span<const StateBox> boxes) const {
  if (!is_averaged(tensor)) return first().read(tensor, as, boxes);
  for (const StateBox& wanted : boxes) read_average(tensor, as, wanted);
}

void AverageSource::read_average(std::size_t tensor, const Shape& as, const StateBox& wanted) const {
  const DType dtype = manifest_.tensors[tensor].layout.dtype;
  const auto count = static_cast<std::size_t>(elements(wanted.box)), size = static_cast<std::size_t>(size_of(dtype));
  const auto count_of_all = static_cast<double>(sources_.size());
  constexpr std::size_t most = 4096;  // elements that are widened at once
  std::array<double, most> sums{}, values{};
  std::vector<std::byte> own(count * size);
  const StateBox mine{wanted.box, own};
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sources_[i]->read(numbers_[i][tensor], as, {&mine, 1});
    for (std::size_t begin = 0; begin < count; begin += most) {
      const std::size_t some = std::min(most, count - begin);
      const std::span<std::byte> place = wanted.bytes.subspan(begin * sizeof(double), some * sizeof(double));
      cast(dtype, std::span(own).subspan(begin * size, some * size), DType::f64,
           std::as_writable_bytes(std::span(values)).first(some * sizeof(double)));
      if (i > 0) {
        std::memcpy(sums.data(), place.data(), place.size());
        for (std::size_t k = 0; k < some; ++k) values[k] += sums[k];
      }
      if (i + 1 == sources_.size())
        for (std::size_t k = 0; k < some; ++k) values[k] /= count_of_all;
      std::memcpy(place.data(), values.data(), place.size());
    }
  }
}

std::uint64_t AverageSource::working_bytes(std::size_t tensor, const Shape& as, const Box& box) const {
  if (!is_averaged(tensor)) return first().working_bytes(tensor, as, box);
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i)
    most = std::max(most, sources_[i]->working_bytes(numbers_[i][tensor], as, box));
  return most + static_cast<std::uint64_t>(size_of(manifest_.tensors[tensor].layout.dtype));
}

}  // namespace

std::unique_ptr<StateSource> average_of(std::vector<std::unique_ptr<StateSource>> sources) {
  return std::make_unique<AverageSource>(std::move(sources));
}

}  // namespace lockstep
