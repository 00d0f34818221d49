#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace dra::loader {

// Keeps an object until the process ends: what a backend's own threads may still touch after its handle is gone
// (libraries, host tables) must never be freed. Reachable, so that leak checkers see it as intended.
template <typename T>
T* KeepForever(std::unique_ptr<T> object) {
  static std::mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<T>>();
  const std::lock_guard lock(mutex);
  kept->push_back(std::move(object));
  return kept->back().get();
}

}  // namespace dra::loader
