// Package pki issues and verifies the TLS certificates of the processes of a cluster. No authority certificate has to
// be distributed. Each supervisor and coordinator creates an authority in memory, and delegates to it with its own key
// in the roster. The authority's certificate contains this delegation, so a peer needs only the roster.
//
// A certificate contains one statement: its owner, as a URI. Host names and addresses in it are for other tools and
// authorize no one. The package uses rosters, keys and certificates. It must not read files or the content of
// connections.
package pki

import (
	"net/url"
	"strings"

	"writ"
)

// Role is the role of a certificate's owner.
type Role string

// The roles.
const (
	Coordinator Role = "coordinator" // serves people and supervisors
	Supervisor  Role = "supervisor"  // serves its nodes
	Redis       Role = "redis"       // serves the nodes of a datacenter
	Node        Role = "node"        // client of its supervisor and its Redis; it never serves with a certificate
)

// Name identifies the owner of a certificate.
type Name struct {
	Cluster    writ.ClusterID
	Role       Role
	Datacenter writ.DatacenterID // empty for a coordinator
	ID         string            // UUID of a node or coordinator, otherwise empty
}

// URI formats a name: "writ://CLUSTER/coordinator/ID", "writ://CLUSTER/dc/ID/supervisor" or
// "writ://CLUSTER/dc/ID/node/ID".
func (n Name) URI() *url.URL {
	parts := []string{"", string(n.Role)}
	if n.Datacenter != "" {
		parts = []string{"", "dc", string(n.Datacenter), string(n.Role)}
	}
	if n.ID != "" {
		parts = append(parts, n.ID)
	}
	return &url.URL{Scheme: "writ", Host: string(n.Cluster), Path: strings.Join(parts, "/")}
}

// String returns the URI.
func (n Name) String() string { return n.URI().String() }

// valid reports whether the name has exactly the parts that its role needs.
func (n Name) valid() bool {
	if _, known := usages[n.Role]; !known || !validCluster(n.Cluster) {
		return false
	}
	isID := func(s string, needed bool) bool { return needed && writ.ValidUUID(s) || !needed && s == "" }
	return isID(string(n.Datacenter), n.Role != Coordinator) && isID(n.ID, n.Role == Coordinator || n.Role == Node)
}

func validCluster(id writ.ClusterID) bool {
	_, err := writ.ParseDigest(string(id))
	return err == nil
}

// parseName parses the output of URI. It rejects every other spelling.
func parseName(u *url.URL) (Name, bool) {
	var n Name
	parts := strings.Split(u.Path, "/")
	if len(parts) > 3 && parts[1] == "dc" {
		n.Datacenter, parts = writ.DatacenterID(parts[2]), parts[2:]
	}
	if len(parts) == 3 {
		n.ID, parts = parts[2], parts[:2]
	}
	if len(parts) != 2 {
		return n, false
	}
	n.Cluster, n.Role = writ.ClusterID(u.Host), Role(parts[1])
	return n, n.valid() && n.String() == u.String()
}

// owner returns the owner of the delegating key: a coordinator, or a datacenter, whose supervisor has the key.
func (n Name) owner() owner {
	if n.Role == Coordinator {
		return owner{Cluster: n.Cluster, Coordinator: n.ID}
	}
	return owner{Cluster: n.Cluster, Datacenter: n.Datacenter}
}

type owner struct {
	Cluster     writ.ClusterID    `json:"cluster"`
	Datacenter  writ.DatacenterID `json:"datacenter,omitempty"`
	Coordinator string            `json:"coordinator,omitempty"`
}
