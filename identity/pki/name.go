// Package pki makes and verifies the certificates with which the processes of a cluster speak TLS. There is no authority whose
// certificate anybody has to copy. A supervisor and a coordinator each make an authority of their own, in memory, and delegate to it with
// the key that the roster has for them. An authority shows this delegation inside its certificate, so that a roster is all that a
// peer needs.
//
// A certificate says one thing: who its owner is, as one URI. Names of hosts and addresses in it are for tools of others, and
// authorise nothing. The package knows rosters, keys and certificates; it must not know what is said over a connection, nor files.
package pki

import (
	"net/url"
	"strings"

	"writ"
)

// Role says what the owner of a certificate is.
type Role string

// The roles.
const (
	Coordinator Role = "coordinator" // serves people and links
	Supervisor  Role = "supervisor"  // serves its nodes
	Redis       Role = "redis"       // of a datacenter
	Node        Role = "node"        // asks its supervisor and its Redis; it serves nothing with a certificate
)

// Name is who a certificate belongs to.
type Name struct {
	Cluster    writ.ClusterID
	Role       Role
	Datacenter writ.DatacenterID // "" of a coordinator
	ID         string            // UUID of a node or coordinator, "" of others
}

// URI writes a name: "writ://CLUSTER/coordinator/ID", "writ://CLUSTER/dc/ID/supervisor", "writ://CLUSTER/dc/ID/node/ID".
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

// valid reports whether a name has the parts that its role needs, and no others.
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

// parseName reads what URI wrote, and nothing that it would have written otherwise.
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

// owner is who delegates to an authority: a datacenter, by the key of its supervisor, or a coordinator.
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
