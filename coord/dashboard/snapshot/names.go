package snapshot

import (
	"slices"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/widget"
	"writ/identity"
)

// Datacenter returns a datacenter. A datacenter that is not in the roster has its short id as name and counts as away.
func (m *Snapshot) Datacenter(id writ.DatacenterID) api.Datacenter {
	for _, dc := range m.Datacenters {
		if dc.ID == id {
			return dc
		}
	}
	return api.Datacenter{ID: id, Name: widget.Short(id), Health: api.DatacenterHealthAway}
}

// ProjectName returns the name of a project in the roster, or a part of its id.
func (m *Snapshot) ProjectName(id writ.ProjectID) string {
	for _, p := range m.projects {
		if p.ID == id {
			return p.Name
		}
	}
	return widget.Short(id)
}

// NodeName returns the name of a node from the last report of its datacenter, or a part of its id.
func (m *Snapshot) NodeName(datacenter writ.DatacenterID, id writ.NodeID) string {
	for _, queues := range m.Queues {
		for _, q := range queues.Queues {
			if q.Node == id && (datacenter == "" || queues.Datacenter == datacenter) && q.NodeName != "" {
				return q.NodeName
			}
		}
	}
	return widget.Short(id)
}

// ProjectWord returns the name of a project for a command, or its id if another tenant has a project of the same name.
// It returns "" for an unknown project.
func (m *Snapshot) ProjectWord(project writ.ProjectID) string {
	i := slices.IndexFunc(m.projects, func(p identity.Project) bool { return p.ID == project })
	if i < 0 || !writ.ValidName(m.projects[i].Name) {
		return ""
	}
	if slices.ContainsFunc(m.projects,
		func(p identity.Project) bool { return p.ID != project && p.Name == m.projects[i].Name }) {
		return string(project)
	}
	return m.projects[i].Name
}

// DatacenterName returns the name of a datacenter, "" for "".
func (m *Snapshot) DatacenterName(id writ.DatacenterID) string {
	if id == "" {
		return ""
	}
	return m.Datacenter(id).Name
}
