#include "dra/loader/loader.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "loader/in_process_backend.h"
#include "loader/library.h"
#include "loader/library_file.h"

namespace dra::loader {
namespace {

constexpr absl::string_view kFilePrefix = "dra-backend-";
constexpr absl::string_view kFileSuffix = ".so";

// "fake" for dra-backend-fake.so, "" for another form.
std::string NameFromFile(const std::string& file) {
  if (!absl::StartsWith(file, kFilePrefix) || !absl::EndsWith(file, kFileSuffix)) return "";
  if (file.size() <= kFilePrefix.size() + kFileSuffix.size()) return "";
  return file.substr(kFilePrefix.size(), file.size() - kFilePrefix.size() - kFileSuffix.size());
}

BackendFile Judge(const std::string& directory, const std::string& file) {
  BackendFile row;
  row.path = absl::StrCat(directory, directory == "/" ? "" : "/", file);
  if (!absl::EndsWith(file, kFileSuffix)) {
    row.cause = "not a *.so file: ignored";
    return row;
  }
  row.state = BackendFile::State::kRefused;
  absl::StatusOr<std::unique_ptr<BackendHandle>> handle = LoadBackend(row.path);
  if (!handle.ok()) {
    row.cause = std::string(handle.status().message());
    return row;
  }
  const auto manifest = (*handle)->GetManifest();
  if (!manifest.ok()) {
    row.cause = std::string(manifest.status().message());
    return row;
  }
  row.state = BackendFile::State::kUsable;
  row.name = (*manifest)->name;
  row.version = (*manifest)->version;
  if (NameFromFile(file) != row.name) {
    row.cause = absl::StrCat("declares the name \"", row.name, "\": the file should be called ",
                             kFilePrefix, row.name, kFileSuffix);
  }
  return row;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BackendHandle>> LoadBackend(absl::string_view path,
                                                           const LoadOptions& options) {
  DRA_ASSIGN_OR_RETURN(Library library, OpenLibrary(path));
  DRA_ASSIGN_OR_RETURN(std::unique_ptr<InProcessBackend> backend,
                       InProcessBackend::Make(std::move(library), options));
  return std::unique_ptr<BackendHandle>(std::move(backend));
}

absl::StatusOr<std::vector<BackendFile>> ListBackends(absl::string_view directory_view) {
  std::string directory(directory_view);
  while (directory.size() > 1 && directory.back() == '/') directory.pop_back();
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::directory_iterator it(directory, error), end;
  for (; !error && it != end; it.increment(error)) files.push_back(it->path().filename().string());
  if (error) {
    const std::string text = absl::StrCat("list backends in ", directory, ": ", error.message());
    if (error == std::errc::no_such_file_or_directory) return absl::NotFoundError(text);
    return absl::UnavailableError(text);
  }
  std::sort(files.begin(), files.end());
  std::vector<BackendFile> rows;
  for (const std::string& file : files) rows.push_back(Judge(directory, file));
  return rows;
}

absl::Status CheckUnchanged(const BackendHandle& handle) {
  const auto* backend = dynamic_cast<const InProcessBackend*>(&handle);
  if (backend == nullptr)
    return absl::InvalidArgumentError(
        "check for a changed library: the handle is not of LoadBackend");
  const Library& library = backend->library();
  const absl::StatusOr<FileIdentity> now = ReadFileIdentity(library.path);
  if (now.ok() && *now == library.file) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "backend ", library.path, ": the file was ", now.ok() ? "replaced" : "removed",
      " since it was loaded; the old code keeps running: restart the process to load the new one"));
}

}  // namespace dra::loader
