package differential

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
)

// One refused field.
type fault struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// What one side says about a slice.
type verdict struct {
	Errors []fault `json:"errors"`
	// The text is no ResourceSlice at all: the server answers 400 and names no field.
	NotDecoded bool `json:"notDecoded,omitempty"`
}

func (v verdict) accepted() bool { return len(v.Errors) == 0 }

var decoder = legacyscheme.Codecs.UniversalDecoder(resource.SchemeGroupVersion)

// The gates by which the server's registry looks at a slice. Our validation takes every one as on.
var gates = []featuregate.Feature{
	features.DRAConsumableCapacity,
	features.DRADeviceBindingConditions,
	features.DRADeviceCompatibilityGroups,
	features.DRADeviceTaints,
	features.DRAFractionalCapacityRange,
	features.DRAListTypeAttributes,
	features.DRANodeAllocatableResources,
	features.DRAOptionalNodeOperations,
	features.DRAPartitionableDevices,
	features.DRAPartitionableDevicesType,
	features.DRAResourceClaimDeviceStatus,
	features.DRAResourcePoolStatus, // DRAPartitionableDevicesType asks for it
}

func switchOnGates(t *testing.T) {
	t.Helper()
	switched := map[string]bool{}
	for _, gate := range gates {
		if !utilfeature.DefaultFeatureGate.Enabled(gate) {
			switched[string(gate)] = true
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(switched); err != nil {
		t.Fatal(err)
	}
}

// What the API server does with a POST of the object: decode v1, default, convert, then what its registry does before
// it stores. That is the strategy with its hand-written and its declarative validation.
func serverVerdict(t *testing.T, slice object) verdict {
	t.Helper()
	text, err := json.Marshal(slice)
	if err != nil {
		t.Fatal(err)
	}
	kind := resourcev1.SchemeGroupVersion.WithKind("ResourceSlice")
	decoded, _, err := decoder.Decode(text, &kind, nil)
	if err != nil {
		return verdict{Errors: []fault{{Message: err.Error()}}, NotDecoded: true}
	}
	created := decoded.(*resource.ResourceSlice)
	rest.FillObjectMetaSystemFields(created)
	if created.Name == "" && created.GenerateName != "" {
		created.Name = resourceslice.Strategy.GenerateName(created.GenerateName)
	}
	ctx := genericapirequest.WithNamespace(context.Background(), "")
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{
		APIGroup: resource.GroupName, APIVersion: "v1", Resource: "resourceslices", Verb: "create"})
	return asVerdict(t, rest.BeforeCreate(resourceslice.Strategy, ctx, runtime.Object(created)))
}

func asVerdict(t *testing.T, err error) verdict {
	t.Helper()
	if err == nil {
		return verdict{}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonInvalid || status.Status().Details == nil {
		t.Fatalf("the server's registry answers neither OK nor 422: %v", err)
	}
	var result verdict
	for _, cause := range status.Status().Details.Causes {
		result.Errors = append(result.Errors, fault{Path: cause.Field, Message: cause.Message})
	}
	return result
}
