#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::bench {

// The p-th quantile (0 <= p <= 1) of `values`, which need not be sorted; 0 for none.
double Quantile(std::vector<double> values, double p);

// One measured figure. `limit` is what is to be reached, if anything is.
struct Figure {
  std::string group;  // "latency", "memory", ...
  std::string name;
  double value = 0;
  std::string unit;
  enum class Bound { kNone, kAtMost, kAtLeast } bound = Bound::kNone;
  double limit = 0;
  std::string how;  // how it was measured, where the name does not say it

  std::optional<bool> Reached() const;
};

// All figures of one run, in the order in which they are to be read. One thread.
class Figures {
 public:
  void Add(absl::string_view group, absl::string_view name, double value, absl::string_view unit,
           absl::string_view how = "");
  void AddAtMost(absl::string_view group, absl::string_view name, double value,
                 absl::string_view unit, double limit, absl::string_view how = "");
  void AddAtLeast(absl::string_view group, absl::string_view name, double value,
                  absl::string_view unit, double limit, absl::string_view how = "");

  const std::vector<Figure>& all() const { return figures_; }
  // For people: one line a figure with its target and "ok" or "MISSED".
  std::string Table() const;
  // {"conditions": ..., "figures": [{"group", "name", "value", "unit", "target", "reached", "how"}]}
  Json ToJson(const Json& conditions) const;

 private:
  void Push(Figure figure);

  std::vector<Figure> figures_;
};

}  // namespace dra::bench
