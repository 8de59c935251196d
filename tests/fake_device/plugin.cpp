// A plug-in with a device that needs no GPU: memory that the host may not touch, and queues that run late. For tests,
// which open it by LOCKSTEP_TEST_DEVICE. LOCKSTEP_FAKE_DEVICE has its parameters, as "seed=7,memory=1000000":
//   seed           draws the order of jobs
//   turns          one of so many times a job runs when another one is queued (3); 0: never
//   memory         bytes of the device
//   count          devices of the machine
//   taken          bytes of it that other processes use
//   workspace      bytes that its libraries take
//   vocabulary_multiple  of which the rows of vocabulary matrices in memory are a multiple (1)
//   multiprocessors those of an NVIDIA GPU; attention then takes the memory of flash attention
//   communicator   bytes that a communicator of NCCL is said to take
//   numa           the NUMA node of its devices
//   bound          1: each rank sees one device, of its own
//   wait_left_out  the number of a wait of the host that returns at once
//   other_moment   the number of a follow that gets the moment of an earlier job
//   copy_cut_short the number of a copy of which half is made
//   freed_early    the number of an allocation that is given to the next one too
//   no_memory_at   the number of an allocation that fails
//   dies_after     so many jobs that the device runs before it fails
//   nccl           1: ranks exchange by its functions of NCCL
//   nccl_refused   the number of a call of NCCL that answers with an error
//   nccl_lost      the number of one that never ends, after which the ranks are lost
//   nccl_hangs     the number of one that never ends
//   only_rank      the rank that has these faults and the two before; default: each
//   report         a file with the counts, written at each wait
//   kernels        a file of each rank, FILE.RANK, with the entries of the kernel tables that were called, and how
//                  often, written at each wait
//   wrong_kernel   an entry that spoils the first value of each output, as "bf16 gemm" or "copy_pieces"
//   silent_kernel  an entry that does nothing
//   library        the version of its library of products ("fake 1.0")
//   other_from     the first rank whose device is another one
//   untimed_from   the number of the first product that there is no memory to time
//   products       a file of each rank, FILE.RANK, with the products that were timed and the proposals in use
//   without        an entry that the device does not have, as "bf16 gemm", or "all"
#include "device/device_plugin.hpp"

#include "base/error.hpp"
#include "device/device_build.hpp"
#include "memory.hpp"
#include "nccl.hpp"
#include "queues.hpp"
#include "tensor/functions/kernel_table.hpp"

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace lockstep::fake {

void register_operations();
const KernelTables& kernels(const KernelTables& cpu, const std::set<std::string>& without, const std::string& wrong,
                            const std::string& silent);
std::string called_kernels();
void stand_for_gpu(int with_multiprocessors);
/// The products that were computed or chosen for, each with the number of its proposal.
std::map<std::string, int>& computed_products();

namespace {

std::map<std::string, std::string> parameters() {
  std::map<std::string, std::string> all;
  const char* const given = std::getenv("LOCKSTEP_FAKE_DEVICE");
  std::istringstream list(given == nullptr ? "" : given);
  for (std::string one; std::getline(list, one, ',');) {
    const std::size_t end = one.find('=');
    invariant(end != std::string::npos, "a parameter of the fake device is NAME=VALUE");
    all[one.substr(0, end)] = one.substr(end + 1);
  }
  return all;
}

std::int64_t number(const char* name, std::int64_t otherwise);

/// A fault of this rank alone, or of all.
std::int64_t fault(const char* name) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const std::int64_t only = number("only_rank", -1);
  return only < 0 || (rank != nullptr && std::stoll(rank) == only) ? number(name, 0) : 0;
}

std::int64_t number(const char* name, std::int64_t otherwise) {
  const auto all = parameters();
  const auto found = all.find(name);
  if (found == all.end()) return otherwise;
  std::int64_t value = 0;
  const char* const end = found->second.data() + found->second.size();
  if (const auto [rest, failed] = std::from_chars(found->second.data(), end, value);
      failed != std::errc() || rest != end)
    fail(ExitCode::usage, "the parameter {} of the fake device is '{}', which is no whole number", name, found->second);
  return value;
}

std::string text(const char* name) {
  const auto all = parameters();
  const auto found = all.find(name);
  return found == all.end() ? std::string() : found->second;
}

int rank_of_process() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? 0 : std::stoi(rank);
}

std::size_t memory() { return static_cast<std::size_t>(number("memory", std::int64_t{8} << 30)); }

DeviceProperties properties(int index) {
  return {.name = rank_of_process() >= number("other_from", 1000) ? "other device" : "fake device",
          .uuid = "fake-" + std::to_string(index),
          .memory_bytes = static_cast<std::int64_t>(memory()),
          .overhead = {.context_bytes = 0,
                       .workspace_bytes = number("workspace", 0),
                       .communicator_bytes = number("communicator", 0)},
          .vocabulary_multiple = number("vocabulary_multiple", 1),
          .multiprocessors = static_cast<int>(number("multiprocessors", 0)),
          .numa_node = static_cast<int>(number("numa", -1)),
          .tensor_type = static_cast<int>(c10::kPrivateUse1),
          .tensor_index = index,
          .is_host = false};
}

class FakeDevice final : public Device {
 public:
  FakeDevice(int index, void (*count)(std::int64_t bytes)) : properties_(fake::properties(index)) {
    set_tensor_device(index);
    stand_for_gpu(properties_.multiprocessors);
    reserve_memory(memory(), {.no_memory_at = fault("no_memory_at"), .freed_early = number("freed_early", 0)}, count);
    cut_short_ = number("copy_cut_short", 0);
    set_order({.seed = static_cast<std::uint64_t>(number("seed", 1)),
               .turns = static_cast<std::uint64_t>(number("turns", 3)),
               .wait_left_out = number("wait_left_out", 0),
               .other_moment = number("other_moment", 0),
               .dies_after = fault("dies_after"),
               .report = text("report")});
    register_operations();
  }
  const DeviceProperties& properties() const override { return properties_; }
  DeviceCounts counts() const override { return {.waits = fake::counts().waits}; }
  std::int64_t free_memory() const override {
    return properties_.memory_bytes - fake::bytes_in_use() - number("taken", 0);
  }
  std::shared_ptr<std::byte> pinned_memory(std::size_t bytes) override { return fake::pinned_memory(bytes); }
  void copy(std::span<const RegionCopy> copies, DeviceQueue queue) override {
    bool waits = false;
    for (const RegionCopy& one : copies) {
      invariant(one.from.bytes == one.to.bytes, "the two regions of a copy have one length");
      if (one.from.bytes == 0) continue;
      const std::size_t bytes = count_copy(one.from.bytes) == cut_short_ ? one.from.bytes / 2 : one.from.bytes;
      if (one.from.arena == Arena::host && !is_pinned(one.from.pointer)) {
        std::vector<std::byte> kept(one.from.pointer, one.from.pointer + bytes);
        submit(queue, [kept = std::move(kept), to = place_of(one.to)] { std::memcpy(to, kept.data(), kept.size()); });
        continue;
      }
      waits |= one.to.arena == Arena::host && !is_pinned(one.to.pointer);
      submit(queue, [from = place_of(one.from), to = place_of(one.to), bytes] { std::memcpy(to, from, bytes); });
    }
    if (waits) wait_for(now(queue));
  }
  DeviceMoment record(DeviceQueue queue) override { return std::make_shared<Moment>(now(queue)); }
  void follow(DeviceQueue queue, const DeviceMoment& moment) override {
    if (moment) fake::follow(queue, *std::static_pointer_cast<Moment>(moment));
  }
  bool is_over(const DeviceMoment& moment) override {
    return !moment || fake::is_over(*std::static_pointer_cast<Moment>(moment));
  }
  double seconds_of(const DeviceMoment& moment) override {
    return fake::seconds_of(*std::static_pointer_cast<Moment>(moment));
  }
  void wait(const DeviceMoment& moment) override {
    if (moment) wait_for(*std::static_pointer_cast<Moment>(moment));
    if (const std::string file = text("kernels"); !file.empty()) {
      const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
      std::ofstream(file + "." + (rank == nullptr ? "0" : rank)) << called_kernels();
    }
  }
  void* handle_of(DeviceQueue queue) override { return queue_handle(queue); }
  void note(std::string action) override { fake::note(std::move(action)); }

 private:
  static std::byte* place_of(const Region& region) {
    return region.arena == Arena::host ? region.pointer : static_cast<std::byte*>(opened(region.pointer));
  }
  DeviceProperties properties_;
  std::int64_t cut_short_ = 0;
};

/// Its library has eight proposals for each product, and one of them is the fastest on this device.
class FakeProducts final : public DeviceProducts {
 public:
  ProductVersions versions() override {
    const std::string library = text("library");
    return {.driver = "CUDA 13.0", .library = library.empty() ? "fake 1.0" : library};
  }
  std::vector<std::string> computed() override {
    std::vector<std::string> names;
    for (const auto& [name, proposal] : computed_products()) names.push_back(name);
    return names;
  }
  int fastest(const std::string& product) override {
    const std::int64_t untimed_from = number("untimed_from", 0);
    TORCH_CHECK_WITH(OutOfMemoryError, untimed_from == 0 || ++asked_ < untimed_from, "fake device: out of memory");
    note("timed " + product);
    const std::string all = product + properties(0).name + versions().library;
    return static_cast<int>(std::hash<std::string>()(all) % proposals);
  }
  void use(const std::string& product, int proposal) override {
    if (product.find("gemm") == std::string::npos) fail(ExitCode::input, "this is no product: '{}'", product);
    note("uses " + product + " by " + std::to_string(proposal));
    computed_products()[product] = proposal;
  }

 private:
  static void note(const std::string& line) {
    if (const std::string file = text("products"); !file.empty())
      std::ofstream(file + "." + std::to_string(rank_of_process()), std::ios::app) << line << "\n";
  }
  std::int64_t asked_ = 0;  // products to time
};

class Plugin final : public DevicePlugin {
 public:
  std::vector<DeviceProperties> devices() override {
    std::vector<DeviceProperties> all;
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    if (number("bound", 0) == 1) return {properties(rank == nullptr ? 0 : std::stoi(rank))};
    for (int index = 0; index < number("count", 8); ++index) all.push_back(properties(index));
    return all;
  }
  std::unique_ptr<Device> open(int index, const DeviceSettings&, void (*count)(std::int64_t bytes)) override {
    return std::make_unique<FakeDevice>(index, count);
  }
  const void* kernels(const void* of_cpu) override {
    return &fake::kernels(*static_cast<const KernelTables*>(of_cpu), {text("without")}, text("wrong_kernel"),
                          text("silent_kernel"));
  }
  const NcclTable& nccl() override {
    if (number("nccl", 0) == 0) fail(ExitCode::resources, "the fake device has no NCCL");
    return nccl_over_mpi({.refused = fault("nccl_refused"), .lost = fault("nccl_lost"), .hangs = fault("nccl_hangs")});
  }
  DeviceProducts& products() override { return products_; }

 private:
  FakeProducts products_;
};

}  // namespace

}  // namespace lockstep::fake

extern "C" __attribute__((visibility("default"))) const lockstep::DevicePluginTable* lockstep_device() {
  static auto* const plugin = new lockstep::fake::Plugin;
  static const lockstep::DevicePluginTable table{lockstep::device_build, plugin};
  return &table;
}
