package coord

import (
	"strings"

	"writ/coord/spans"
	"writ/coord/webhook"
)

// webhooks returns the sender of webhooks.
func (c *Coordinator) webhooks() *webhook.Sender {
	return &webhook.Sender{
		Endpoints: c.Webhooks, Ledger: c.Ledger, News: c.news.Next, Ends: c.expiries.All,
		DatacenterName: c.rosters.DatacenterName, ProjectName: c.rosters.ProjectName,
		PublicURL: strings.TrimSuffix(c.PublicURL, "/"), Version: c.Version, Now: c.Now, Log: c.Log,
		Tried: func(endpoint, outcome string) { c.metrics.webhooks.WithLabelValues(endpoint, outcome).Inc() },
	}
}

// spans returns the recorder of the spans of runs.
func (c *Coordinator) spans() *spans.Recorder {
	return &spans.Recorder{
		Ledger: c.Ledger, News: c.news.Next, Record: c.Record, DatacenterName: c.rosters.DatacenterName, Log: c.Log,
	}
}
