#include "test/bench/figures.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dra::bench {
namespace {

std::string Number(double value) {
  if (value >= 1000) return absl::StrFormat("%.0f", value);
  if (value >= 10) return absl::StrFormat("%.1f", value);
  return absl::StrFormat("%.3f", value);
}

std::string Target(const Figure& figure) {
  if (figure.bound == Figure::Bound::kNone) return "";
  return absl::StrCat(figure.bound == Figure::Bound::kAtMost ? "<= " : ">= ", figure.limit);
}

std::string Line(const Figure& figure) {
  const std::optional<bool> reached = figure.Reached();
  return absl::StrFormat("  %-58s %10s %-8s %-9s %s", figure.name, Number(figure.value),
                         figure.unit, Target(figure),
                         !reached.has_value() ? "" : (*reached ? "ok" : "MISSED"));
}

// "prepare, 1 at once: p50" -> "prepare, 1 at once"; "" for a name without such an end.
std::string RowOf(const Figure& figure) {
  const size_t colon = figure.name.rfind(": ");
  return colon == std::string::npos ? "" : figure.name.substr(0, colon);
}

std::string Cell(const Figure& figure, const std::string& row) {
  const std::optional<bool> reached = figure.Reached();
  std::string verdict;
  if (reached.has_value())
    verdict = absl::StrCat(" (", Target(figure), *reached ? " ok)" : " MISSED)");
  return absl::StrFormat("  %s %8s %s%s", figure.name.substr(row.size() + 2), Number(figure.value),
                         figure.unit, verdict);
}

// "<row>: p50", "<row>: p99", ... share a line.
std::string GroupTable(const std::vector<Figure>& figures) {
  std::string table;
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::string row = RowOf(figures[i]);
    const auto goes_on = [&] {
      return !row.empty() && i + 1 < figures.size() && RowOf(figures[i + 1]) == row;
    };
    std::string how = figures[i].how;
    if (goes_on()) {
      absl::StrAppend(&table, absl::StrFormat("  %-44s", row), Cell(figures[i], row));
      while (goes_on()) {
        ++i;
        absl::StrAppend(&table, Cell(figures[i], row));
        if (how.empty()) how = figures[i].how;
      }
    } else {
      absl::StrAppend(&table, Line(figures[i]));
    }
    absl::StrAppend(&table, "\n");
    if (!how.empty()) absl::StrAppend(&table, "      ", how, "\n");
  }
  return table;
}

}  // namespace

double Quantile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const size_t index =
      std::min(values.size() - 1, static_cast<size_t>(p * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(index),
                   values.end());
  return values[index];
}

std::optional<bool> Figure::Reached() const {
  if (bound == Bound::kNone) return std::nullopt;
  return bound == Bound::kAtMost ? value <= limit : value >= limit;
}

void Figures::Push(Figure figure) {
  // Said as it comes: a run takes minutes.
  std::cerr << Line(figure) << std::endl;
  figures_.push_back(std::move(figure));
}

void Figures::Add(absl::string_view group, absl::string_view name, double value,
                  absl::string_view unit, absl::string_view how) {
  Push({std::string(group), std::string(name), value, std::string(unit), Figure::Bound::kNone, 0,
        std::string(how)});
}

void Figures::AddAtMost(absl::string_view group, absl::string_view name, double value,
                        absl::string_view unit, double limit, absl::string_view how) {
  Push({std::string(group), std::string(name), value, std::string(unit), Figure::Bound::kAtMost,
        limit, std::string(how)});
}

void Figures::AddAtLeast(absl::string_view group, absl::string_view name, double value,
                         absl::string_view unit, double limit, absl::string_view how) {
  Push({std::string(group), std::string(name), value, std::string(unit), Figure::Bound::kAtLeast,
        limit, std::string(how)});
}

std::string Figures::Table() const {
  // A group may have been added to at several times; it is read in one piece.
  std::vector<std::string> groups;
  std::map<std::string, std::vector<Figure>> figures_of;
  for (const Figure& figure : figures_) {
    if (figures_of.count(figure.group) == 0) groups.push_back(figure.group);
    figures_of[figure.group].push_back(figure);
  }
  std::string table;
  for (const std::string& group : groups) {
    absl::StrAppend(&table, "\n", group, "\n", GroupTable(figures_of[group]));
  }
  return table;
}

Json Figures::ToJson(const Json& conditions) const {
  Json list = Json::array();
  for (const Figure& figure : figures_) {
    Json entry = {{"group", figure.group},
                  {"name", figure.name},
                  {"value", figure.value},
                  {"unit", figure.unit}};
    if (!figure.how.empty()) entry["how"] = figure.how;
    if (const std::optional<bool> reached = figure.Reached()) {
      entry["target"] = Target(figure);
      entry["reached"] = *reached;
    }
    list.push_back(std::move(entry));
  }
  return {{"conditions", conditions}, {"figures", std::move(list)}};
}

}  // namespace dra::bench
