#include "tensor/saved_memory.hpp"

#include "base/error.hpp"
#include "tensor/arena.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace lockstep {

namespace {

thread_local SavedMemory* collected_into = nullptr;

bool has(const std::vector<c10::Storage>& storages, const at::Tensor& tensor) {
  return std::ranges::any_of(storages, [&](const c10::Storage& one) {
    return one.unsafeGetStorageImpl() == tensor.unsafeGetTensorImpl()->storage().unsafeGetStorageImpl();
  });
}

std::byte* bytes_at(const c10::DataPtr& memory) { return static_cast<std::byte*>(memory.get()); }

}  // namespace

SavedMemory::Collection::Collection(SavedMemory* into) {
  invariant(collected_into == nullptr, "one block runs forward at a time");
  collected_into = into;
}
SavedMemory::Collection::~Collection() { collected_into = nullptr; }

void note_saved(std::initializer_list<at::Tensor> tensors) {
  if (collected_into == nullptr) return;
  std::vector<c10::Storage>& storages = collected_into->storages_;
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined() && !has(storages, tensor)) storages.push_back(tensor.storage());
}

void SavedMemory::leave(std::initializer_list<at::Tensor> shared) {
  for (const at::Tensor& tensor : shared)
    if (tensor.defined())
      std::erase_if(storages_, [&](const c10::Storage& one) { return one.is_alias_of(tensor.storage()); });
}

std::int64_t SavedMemory::bytes() const {
  std::int64_t sum = 0;
  for (const c10::Storage& storage : storages_) sum += static_cast<std::int64_t>(storage.nbytes());
  return sum;
}

SavedMemory::Move SavedMemory::move_out() {
  host_ = empty_in(Arena::host, bytes(), at::kByte);
  auto left = std::make_shared<std::vector<c10::DataPtr>>();
  left->reserve(storages_.size());
  Move move;
  std::byte* place = region_of(host_, Arena::host).pointer;
  for (c10::Storage& storage : storages_) {
    const std::size_t bytes = storage.nbytes();
    left->push_back(storage.set_data_ptr({}));
    move.copies.push_back({{Arena::device, bytes_at(left->back()), bytes}, {Arena::host, place, bytes}});
    place += bytes;
  }
  move.left = std::move(left);
  return move;
}

std::vector<RegionCopy> SavedMemory::move_in() {
  std::vector<c10::DataPtr> memory;
  for (const c10::Storage& storage : storages_) memory.push_back(storage.allocator()->allocate(storage.nbytes()));
  std::vector<RegionCopy> copies;
  std::byte* place = region_of(host_, Arena::host).pointer;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    const std::size_t bytes = storages_[i].nbytes();
    copies.push_back({{Arena::host, place, bytes}, {Arena::device, bytes_at(memory[i]), bytes}});
    storages_[i].set_data_ptr_noswap(std::move(memory[i]));
    place += bytes;
  }
  return copies;
}

}  // namespace lockstep
