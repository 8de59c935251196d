// The choice of algorithms for matrix products on a device, by time (precision.product_search). The first step of a run
// takes the first proposal of the device's library for each product. After it, one rank of each kind of device times
// the first proposals, and all ranks of that kind take the fastest ones. RUN/products.json keeps the choices and the
// step after which they were made: a resumed run takes the same algorithms.
#pragma once

#include "base/files.hpp"
#include "comm/session.hpp"
#include "config/train_config.hpp"
#include "device/device_products.hpp"
#include "report/log.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// Devices of one kind have equal proposals.
struct DeviceKind {
  std::string device;  // its name
  ProductVersions versions;
  bool operator==(const DeviceKind&) const = default;
};
/// Returns "NVIDIA H200 (cublasLt 13.1.0, driver for CUDA 13.0)".
std::string text_of(const DeviceKind& kind);

/// ProductChoices has the numbers of the proposals for the products of one kind of device.
struct ProductChoices {
  DeviceKind kind;
  std::int64_t after_step = 0;           // the steps that were done then: they hold for later steps
  std::map<std::string, int> proposals;  // at least one
  bool operator==(const ProductChoices&) const = default;
};
/// Returns the text of products.json. Pure.
std::string to_json_text(const std::vector<ProductChoices>& choices);
/// The inverse of to_json_text. Pure. Throws Error(input) naming `origin`, the value, and the removal of the file as
/// the hint.
std::vector<ProductChoices> parse_choices(const std::string& text, const std::string& origin);

class ProductSearch {
 public:
  static constexpr const char* file = "products.json";

  /// Does nothing if the option is off or the run is on the CPU. An empty `folder`: nothing is read or written. All
  /// arguments must outlive the object. Local.
  ProductSearch(const TrainConfig& config, Path folder, Session& session, Log& log);

  /// Reads the choices of earlier jobs of the run, and uses those that hold after `step` steps. Names devices for which
  /// there are none, and choices that hold from a later step on. Called before the first step. Collective over the
  /// world. Throws AgreedError(input) for a file that has other contents, AgreedError(storage) for one that cannot be
  /// read.
  void begin(std::int64_t step);
  /// Uses choices that hold from now on. After the first step of the job, searches for the kinds of devices that have
  /// none, and writes the file; a failure to write is a warning. Collective over the world. Throws
  /// AgreedError(resources).
  void after_step(std::int64_t step);

 private:
  const ProductChoices* choices_of(const DeviceKind& kind) const;
  /// The first rank of each kind of device, in their order.
  std::vector<int> leaders() const;
  const DeviceKind& own_kind() const;
  void use_choices_made_at(std::int64_t first, std::int64_t last);
  void search(std::int64_t step);
  /// `products` is the number of products to choose for.
  void tell_choices(const ProductChoices& made, std::int64_t products, double seconds) const;
  void tell_unknown();
  void write() const;

  bool is_on_;
  Path folder_;
  Session& session_;
  Log& log_;
  std::vector<DeviceKind> kinds_;  // of each rank
  std::vector<ProductChoices> choices_;
  bool is_first_step_ = true;
};

}  // namespace lockstep
