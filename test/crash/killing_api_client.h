#pragma once

#include <memory>

#include "dra/kube/api_client.h"
#include "test/crash/kill_points.h"

namespace dra::crash {

// `base` with a kill point before each request is sent and one after its answer has come: "api <verb>
// <resource>[/<subresource>] before" and "... after". A watch has one before it is opened and one after it was; a
// request outside the resources ("/version") is one that a driver makes of its own accord at any time, and has none.
// points outlives the client. As thread-safe as base.
std::unique_ptr<kube::ApiClient> MakeKillingApiClient(std::unique_ptr<kube::ApiClient> base,
                                                      KillPoints* points);

}  // namespace dra::crash
