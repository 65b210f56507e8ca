package writ

import "time"

// Secret describes one version of a project's secret in a datacenter. It does not contain the value.
type Secret struct {
	Datacenter DatacenterID `json:"datacenter"`
	Project    ProjectID    `json:"project"`
	Name       string       `json:"name"`
	Version    int          `json:"version"` // from 1, per project and name
	SetBy      string       `json:"set_by"`
	Set        time.Time    `json:"set"`
	Removed    time.Time    `json:"removed,omitzero"` // when the value was deleted; the version number is not reused
}
