package suite

import "flag"

// What is under test: see run.sh.
var (
	driverPath  = flag.String("driver", "", "path of dra-driver")
	backendPath = flag.String("backend", "", "path of the fake backend's library")
)

// cluster is the one that the tests run on.
var cluster *Cluster
