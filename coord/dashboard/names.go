package dashboard

import (
	"slices"
	"writ"
	"writ/coord/api"
	"writ/identity"
)

// datacenter returns a datacenter. If it is not in the roster, only the id is set.
func (m *moment) datacenter(id writ.DatacenterID) api.Datacenter {
	for _, dc := range m.datacenters {
		if dc.ID == id {
			return dc
		}
	}
	return api.Datacenter{ID: id, Name: short(id), Health: api.DatacenterHealthAway}
}

// projectName returns the name of a project in the roster.
func (m *moment) projectName(id writ.ProjectID) string {
	for _, p := range m.projects {
		if p.ID == id {
			return p.Name
		}
	}
	return short(id)
}

// nodeName returns the name of a node from the last report of its datacenter, or the beginning of its id.
func (m *moment) nodeName(datacenter writ.DatacenterID, id writ.NodeID) string {
	for _, queues := range m.queues {
		for _, q := range queues.Queues {
			if q.Node == id && (datacenter == "" || queues.Datacenter == datacenter) && q.NodeName != "" {
				return q.NodeName
			}
		}
	}
	return short(id)
}

// projectWord returns the name of a project for a command, or its id if another tenant has a project of the same name.
// It returns "" for an unknown project.
func (m *moment) projectWord(project writ.ProjectID) string {
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

// datacenterName returns the name of a datacenter, "" for "".
func (m *moment) datacenterName(id writ.DatacenterID) string {
	if id == "" {
		return ""
	}
	return m.datacenter(id).Name
}
