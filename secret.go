package writ

import "time"

// Secret is one version of a secret of a project in a datacenter, without its value, which is encrypted: only the node that needs it opens it.
type Secret struct {
	Datacenter DatacenterID `json:"datacenter"`
	Project    ProjectID    `json:"project"`
	Name       string       `json:"name"`
	Version    int          `json:"version"` // from 1, counted per project and name
	SetBy      string       `json:"set_by"`
	Set        time.Time    `json:"set"`
	Removed    time.Time    `json:"removed,omitzero"` // its value is gone then; the version is not given to another one
}
