// The reconciler's side that only reads: slices whose state is open, and what another instance has stored.
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "publisher/completeness.h"
#include "publisher/reconciler.h"
#include "publisher/slice_names.h"

namespace dra::publisher {

Reconciler::Step Reconciler::ReadAgain(const std::string& name, const std::stop_token& stop,
                                       absl::Status& error) {
  error = Verify({name}, stop);
  return error.ok() ? Step::kReplan : Step::kFailed;
}

absl::Status Reconciler::Verify(const std::vector<std::string>& names,
                                const std::stop_token& stop) {
  for (const std::string& name : names) {
    const auto slice = api_->Get(kube::ResourceSlices(), "", name, CallFor(stop));
    if (slice.ok()) {
      store_->Put(*slice);
    } else if (absl::IsNotFound(slice.status())) {
      store_->Remove(name);
    } else {
      return Annotate(slice.status(), absl::StrCat("read resource slice \"", name, "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status Reconciler::Refresh(const std::stop_token& stop) {
  kube::ListOptions selector;
  selector.field_selector = SelectorOf(options_.driver_name, options_.node_name);
  const auto listed = api_->List(kube::ResourceSlices(), "", selector, CallFor(stop));
  if (!listed.ok()) return Annotate(listed.status(), "list resource slices");
  std::set<std::string> names;
  for (const Json& slice : listed->items) {
    names.insert(Meta(slice, "name"));
    store_->Put(slice);
  }
  std::vector<std::string> missing;
  for (const Json& slice : store_->All()) {
    if (names.count(Meta(slice, "name")) == 0) missing.push_back(Meta(slice, "name"));
  }
  return Verify(missing, stop);
}

bool Reconciler::Observe(const Wanted& wanted) {
  // The other instance's writes are no answers to ours, and undoing one would be no repair.
  written_.clear();
  created_keys_.clear();
  std::vector<Json> ours;
  for (Json& slice : store_->All()) {
    if (IsOurs(slice, options_.driver_name, options_.node_name)) ours.push_back(std::move(slice));
  }
  if (wanted.withdrawn) return ours.empty();
  std::vector<std::string> pools;
  for (const inventory::Pool& pool : wanted.snapshot->pools) pools.push_back(pool.name);
  return AreComplete(ours, pools);
}

}  // namespace dra::publisher
