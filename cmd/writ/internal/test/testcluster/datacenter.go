package testcluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"writ/coord/api"
	"writ/internal/test/testenv"
	"writ/runner/queue/redisqueue"
)

// Datacenter is a datacenter to add to a cluster.
type Datacenter struct {
	Name      string
	Redis     string     // URL
	NodeRedis string     // URL for nodes; Redis if ""
	Listen    string     // address of the supervisor's node API; a free port if ""
	NodeURL   string     // URL of the node API for nodes; derived from Listen if ""
	Nodes     int        // number of nodes, which are named NAME-n1, NAME-n2, ...
	Speed     string     // of the simulated drivers: 1 is as slow as real drivers, 0 has no delay
	Node      []string   // additional flags of each node
	Own       [][]string // additional flags of single nodes, in order
	// Coordinators lists additional coordinators for the supervisor to dial.
	Coordinators []string
	// NoWait skips the wait until other datacenters have the new roster, for tests that remove some of these datacenters.
	NoWait bool
}

// Add adds a datacenter with its supervisor and nodes, and returns when all nodes have joined.
func (s *Cluster) Add(d Datacenter) {
	s.T.Helper()
	listen := d.Listen
	if listen == "" {
		listen = fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(s.T))
	}
	nodeAPI := d.NodeURL
	if nodeAPI == "" {
		nodeAPI = "http://" + listen
	}
	add := s.Start("add "+d.Name, "Start the supervisor", "dc", "add", d.Name, "--region", "here", "--label", "name="+d.Name, "--token-file", d.Name+".token",
		"--no-wait="+strconv.FormatBool(d.NoWait))
	coordinators := strings.Join(append([]string{cmp.Or(s.Public, s.URL)}, d.Coordinators...), ",")
	s.Start(d.Name, "is listening", "supervisor", "--data", d.Name, "--dc", d.Name, "--coordinator", coordinators, "--redis", d.Redis,
		"--listen", listen,
		"--join", "@"+d.Name+".token")
	if err := add.Wait(); err != nil {
		s.T.Fatalf("dc add %s: %v\n%s", d.Name, err, add.Said())
	}
	s.Until("the datacenter is connected", func(ctx context.Context) bool {
		list, err := api.Answer[api.DatacenterList](s.Client.API.ListDatacenters(ctx))
		for _, one := range list.Items {
			if one.Name == d.Name && one.Placeable {
				return err == nil
			}
		}
		return false
	})
	// Nodes log in with the accounts that their supervisor creates.
	ours := redisqueue.Server{URL: cmp.Or(d.NodeRedis, d.Redis)}.WithoutLogin().URL
	for i := range d.Nodes {
		node := fmt.Sprintf("%s-n%d", d.Name, i+1)
		token := s.Writ("token", "create", "--dc", d.Name)
		if err := os.WriteFile(filepath.Join(s.Dir, node+".token"), []byte(token), 0o600); err != nil {
			s.T.Fatal(err)
		}
		more := d.Node
		if i < len(d.Own) {
			more = slices.Concat(more, d.Own[i])
		}
		s.Start(node, "has joined", append([]string{"runner", "--data", node, "--name", node, "--supervisor", nodeAPI, "--redis", ours,
			"--join", "@" + node + ".token", "--drivers", "simulated", "--simulate-speed", d.Speed, "--memory-mib", "65536", "--cpus", "32",
			"--disk-gib", "1000"}, more...)...)
	}
}
