// The kernels of the fake device: those of the CPU, as jobs. Arguments are kept by value; pointers to device memory
// become those that a job may use.
#include "architecture/gpu_attention.hpp"
#include "memory.hpp"
#include "queues.hpp"
#include "tensor/functions/kernel_names.hpp"

#include <ATen/ops/empty.h>

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::fake {

namespace {

template <class T>
T for_job(T value) {
  if constexpr (std::is_pointer_v<T>)
    return static_cast<T>(opened(value));
  else
    return value;
}
template <class T>
MatrixView<T> for_job(MatrixView<T> view) {
  view.data = for_job(view.data);
  return view;
}
template <class M>
Rotation<M> for_job(Rotation<M> rotation) {
  return {for_job(rotation.cosine), for_job(rotation.sine)};
}
template <class M>
AuxSlopes<M> for_job(AuxSlopes<M> aux) {
  return {for_job(aux.samples), for_job(aux.slopes)};
}
template <class M>
UpdatedWeights<M> for_job(UpdatedWeights<M> weights) {
  return {for_job(weights.master), for_job(weights.compute), for_job(weights.short_weights),
          for_job(weights.compensation)};
}
template <class M>
AdafactorPass<M> for_job(AdafactorPass<M> pass) {
  pass.weights = for_job(pass.weights);
  pass.gradient = for_job(pass.gradient);
  for (M*& state : pass.states) state = for_job(state);
  pass.first = for_job(pass.first);
  pass.second = for_job(pass.second);
  pass.factors = for_job(pass.factors);
  return pass;
}
Segments for_job(Segments segments) {
  return {for_job(segments.starts), segments.count, segments.tokens, segments.longest};
}
RowGroups for_job(RowGroups groups) { return {for_job(groups.offsets), groups.count}; }
AttentionDropout for_job(AttentionDropout dropout) {
  dropout.places = for_job(dropout.places);
  return dropout;
}
CachedTexts for_job(CachedTexts texts) {
  return {for_job(texts.rows), for_job(texts.slots), for_job(texts.positions), texts.capacity};
}
RingRows for_job(RingRows rows) { return {for_job(rows.parts), for_job(rows.positions)}; }
RingStep for_job(RingStep step) {
  step.own = for_job(step.own);
  step.theirs = for_job(step.theirs);
  return step;
}

template <class Table>
const Table* of_cpu = nullptr;

/// What a kernel does besides its work.
enum class KernelFault : std::uint8_t { none, wrong, silent };

/// Of the GPU that the device stands for; 0: none.
int multiprocessors = 0;

/// The memory of flash attention, as its description says.
template <class T>
AttentionScratch flash_memory(const AttentionShape& shape, const Segments& segments, const Rotation<float>& rotation,
                              const AttentionDropout& dropout, bool has_output = true) {
  const AttentionUse use{.compute = std::is_same_v<T, Bf16>   ? DType::bf16
                                    : std::is_same_v<T, Fp16> ? DType::f16
                                                              : DType::f32,
                         .head_size = shape.head_size,
                         .has_dropout = static_cast<bool>(dropout.mask)};
  if (multiprocessors == 0 || choose_gpu_attention(use).attention != GpuAttention::flash) return {};
  return flash_scratch(shape, {.rows = segments.tokens,
                               .fewest_segments = segments.count,
                               .most_segments = segments.count,
                               .multiprocessors = multiprocessors,
                               .rotates = rotation.cosine != nullptr,
                               .has_output = has_output});
}

/// Bytes of tensors that a call makes and releases: of attention in both directions, and none of other kernels.
template <class... Arguments>
std::int64_t bytes_within(const Arguments&...) {
  return 0;
}
template <class T>
std::int64_t bytes_within(const T* const&, const AttentionShape& shape, const Segments& segments,
                          const Rotation<float>& rotation, const std::int32_t* const&, T* const&, float* const&,
                          const AttentionDropout& dropout) {
  return flash_memory<T>(shape, segments, rotation, dropout).forward;
}
template <class T>
std::int64_t bytes_within(const T* const&, const T* const&, const T* const& y, const float* const&,
                          const AttentionShape& shape, const Segments& segments, const Rotation<float>& rotation,
                          const std::int32_t* const&, T* const&, const AttentionDropout& dropout) {
  return flash_memory<T>(shape, segments, rotation, dropout, y != nullptr).backward;
}

/// Flips a high bit of the first value that a kernel may write to.
template <class T>
void spoil(const T& argument) {
  if constexpr (std::is_pointer_v<T> && !std::is_const_v<std::remove_pointer_t<T>>) {
    constexpr std::byte high_bit{0x40};
    if (argument != nullptr) reinterpret_cast<std::byte*>(argument)[sizeof(*argument) - 1] ^= high_bit;
  }
}

/// Flips low bits of the first value that a kernel writes, as an algorithm that rounds otherwise.
template <class T>
void round_otherwise(const T& argument, int proposal) {
  if constexpr (std::is_pointer_v<T> && !std::is_const_v<std::remove_pointer_t<T>>) {
    if (argument != nullptr) reinterpret_cast<std::byte*>(argument)[0] ^= static_cast<std::byte>(proposal);
  }
}

/// The products that were computed, as "bf16 gemm 3 4 5", and the chosen proposals.
auto& products = *new std::map<std::string, int>;

/// How often each entry was called, by its name: "bf16 gemm".
auto& called_entries = *new std::map<std::string, const std::atomic<std::int64_t>*>;

/// One entry of a table, by its member pointer and its place.
template <auto Member>
struct Queued;
template <class T, class... Arguments, void (*Kernels<T>::*Member)(Arguments...)>
struct Queued<Member> {
  using Table = Kernels<T>;
  static inline std::atomic<std::int64_t> calls = 0;
  static inline KernelFault fault = KernelFault::none;
  static inline std::string product;  // its name, for a product
  static void call(Arguments... arguments) {
    ++calls;
    if (fault == KernelFault::silent) return;
    at::Tensor within;
    if (const std::int64_t bytes = bytes_within(arguments...); bytes > 0)
      within = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(at::kPrivateUse1));
    submit(DeviceQueue::compute,
           [kept = std::tuple<std::decay_t<Arguments>...>(for_job(std::decay_t<Arguments>(arguments))...),
            proposal = proposal_for(arguments...)] {
             std::apply(of_cpu<Table>->*Member, kept);
             if (fault == KernelFault::wrong) std::apply([](const auto&... each) { (spoil(each), ...); }, kept);
             if (proposal > 0) std::apply([&](const auto&... each) { (round_otherwise(each, proposal), ...); }, kept);
           });
  }

 private:
  static int proposal_for(Arguments... arguments) {
    if constexpr (sizeof...(Arguments) > 3) {
      const auto all = std::tie(arguments...);
      if constexpr (requires { std::get<0>(all) * std::get<1>(all) * std::get<2>(all); }) {
        const auto& [m, n, k] = std::tie(std::get<0>(all), std::get<1>(all), std::get<2>(all));
        if (!product.empty() && m * n > 0) return products[fmt::format("{} {} {} {}", product, m, n, k)];
      }
    }
    return 0;
  }
};

bool is_product(std::string_view entry) {
  return entry == "gemm" || entry == "gemm_add" || entry == "gemm_rounded" || entry == "gemm_scaled";
}

template <class T>
Kernels<T> kernels_of(const Kernels<T>& cpu, const std::set<std::string>& without, const std::string& wrong,
                      const std::string& silent) {
  of_cpu<Kernels<T>> = &cpu;
  Kernels<T> kernels;
#define LOCKSTEP_QUEUED(entry)                                                       \
  if (const auto name = std::string(table_name<T>) + " " #entry;                     \
      cpu.entry != nullptr && !without.contains(name) && !without.contains("all")) { \
    called_entries[name] = &Queued<&Kernels<T>::entry>::calls;                       \
    if (name == wrong) Queued<&Kernels<T>::entry>::fault = KernelFault::wrong;       \
    if (name == silent) Queued<&Kernels<T>::entry>::fault = KernelFault::silent;     \
    if (is_product(#entry)) Queued<&Kernels<T>::entry>::product = name;              \
    kernels.entry = Queued<&Kernels<T>::entry>::call;                                \
  }
  LOCKSTEP_KERNELS(LOCKSTEP_QUEUED)
#undef LOCKSTEP_QUEUED
  return kernels;
}

ExchangeKernels exchange_of_cpu;
KernelFault fault_of_copies = KernelFault::none, fault_of_sums = KernelFault::none;

void copy_pieces(const MemoryCopy* copies, int count) {
  if (fault_of_copies == KernelFault::silent) return;
  std::vector<MemoryCopy> kept(copies, copies + count);
  for (MemoryCopy& one : kept) one = {for_job(one.from), for_job(one.to), one.bytes};
  submit(DeviceQueue::exchange, [kept = std::move(kept)] {
    exchange_of_cpu.copy_pieces(kept.data(), static_cast<int>(kept.size()));
    if (fault_of_copies == KernelFault::wrong) spoil(kept.front().to + kept.front().bytes - 1);
  });
}

void sum_operands(const OperandSum& sum) {
  if (fault_of_sums == KernelFault::silent) return;
  OperandSum kept = sum;
  kept.operands = for_job(kept.operands);
  kept.place = for_job(kept.place);
  submit(DeviceQueue::exchange, [kept] {
    exchange_of_cpu.sum_operands(kept);
    const int width = kept.place_dtype == DType::f64 ? 8 : kept.place_dtype == DType::f32 ? 4 : 2;
    if (fault_of_sums == KernelFault::wrong) spoil(kept.place + width - 1);
  });
}

KernelFault fault_of(std::string_view kernel, const std::string& wrong, const std::string& silent) {
  return kernel == wrong ? KernelFault::wrong : kernel == silent ? KernelFault::silent : KernelFault::none;
}

}  // namespace

void stand_for_gpu(int with_multiprocessors) { multiprocessors = with_multiprocessors; }

const KernelTables& kernels(const KernelTables& cpu, const std::set<std::string>& without, const std::string& wrong,
                            const std::string& silent) {
  static const KernelTables kept = cpu;
  static const KernelTables tables{
      kernels_of(kept.f32, without, wrong, silent), kernels_of(kept.f64, without, wrong, silent),
      kernels_of(kept.bf16, without, wrong, silent), kernels_of(kept.f16, without, wrong, silent),
      ExchangeKernels{copy_pieces, sum_operands}};
  exchange_of_cpu = kept.exchange;
  fault_of_copies = fault_of("copy_pieces", wrong, silent);
  fault_of_sums = fault_of("sum_operands", wrong, silent);
  return tables;
}

std::map<std::string, int>& computed_products() { return products; }

std::string called_kernels() {
  std::string names;
  for (const auto& [name, calls] : called_entries)
    if (*calls > 0) names += name + " " + std::to_string(*calls) + "\n";
  return names;
}

}  // namespace lockstep::fake
