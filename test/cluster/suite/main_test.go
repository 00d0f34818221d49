package suite

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var (
	clusterName = flag.String("cluster", "", "name of the cluster; empty: the tests are skipped, see run.sh")
	runScript   = flag.String("run-script", "../run.sh", "path of test/cluster/run.sh")
)

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if cluster, err = Connect(*clusterName, *runScript); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	fmt.Printf("cluster %s: Kubernetes %s\n", *clusterName, cluster.Version.GitVersion)
	os.Exit(m.Run())
}
