package coord

import (
	"strings"

	"writ"
	"writ/coord/spans"
	"writ/coord/webhook"
)

// webhooks returns the sender of webhooks.
func (c *Coordinator) webhooks() *webhook.Sender {
	return &webhook.Sender{
		Endpoints: c.Webhooks, Ledger: c.Ledger, News: c.news.Next, Ends: c.ends, DatacenterName: c.datacenterName, ProjectName: c.projectName,
		PublicURL: strings.TrimSuffix(c.PublicURL, "/"), Version: c.Version, Now: c.Now, Log: c.Log,
		Tried: func(endpoint, outcome string) { c.metrics.webhooks.WithLabelValues(endpoint, outcome).Inc() },
	}
}

// spans returns the recorder of the spans of runs.
func (c *Coordinator) spans() *spans.Recorder {
	return &spans.Recorder{Ledger: c.Ledger, News: c.news.Next, Record: c.Record, DatacenterName: c.datacenterName, Log: c.Log}
}

// datacenterName returns the name of a datacenter in the newest roster, or its id.
func (c *Coordinator) datacenterName(id writ.DatacenterID) string {
	if roster := c.rosters.current.Load(); roster != nil {
		if d := roster.Datacenter(id); d != nil {
			return d.Name
		}
	}
	return string(id)
}

// projectName returns the name of a project in the newest roster, or its id.
func (c *Coordinator) projectName(id writ.ProjectID) string {
	if roster := c.rosters.current.Load(); roster != nil {
		if p := roster.Project(id); p != nil {
			return p.Name
		}
	}
	return string(id)
}
