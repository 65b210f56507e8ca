package client

import (
	"errors"
	"time"

	"writ"
	"writ/identity"
	"writ/scripts"
)

// Order is what a person wants to have done with a script.
type Order struct {
	Script      Script
	Params      map[string]any // those that are given; the script's defaults are filled in
	Datacenter  writ.DatacenterID
	Project     identity.Project
	Deployment  identity.Deployment
	Expires     time.Duration // from now
	Deadline    time.Duration // from acceptance
	MaxCalls    int
	Destructive bool        // what the script destroys is meant to be destroyed
	PlanDigest  writ.Digest // of the plan that the run is bound to, zero if to none; see Bind
	Secrets     []string    // with versions, "db-password@3"
}

// Payload returns the text to sign for an order, by a principal who knows a roster.
func (o Order) Payload(roster *identity.Roster, signer string, now time.Time) ([]byte, error) {
	if err := o.Script.Report.Err(); err != nil {
		return nil, err
	}
	if o.Script.Report.Destructive && !o.Destructive {
		return nil, writ.Errorf(writ.CodeDestructiveDenied, "%s may delete or overwrite data", o.Script.Path).
			WithHint("say --destructive if that is meant; `writ check` lists its operations")
	}
	params, err := o.Script.Report.Params.Fill(o.Params)
	if err != nil {
		return nil, err
	}
	p := &identity.Payload{
		Cluster:     roster.Cluster,
		Datacenter:  o.Datacenter,
		Roster:      roster.Version,
		Project:     o.Project.ID,
		ProjectName: o.Project.Name,
		Deployment:  o.Deployment,
		Signer:      signer,
		Created:     now,
		Expires:     now.Add(o.Expires),
		Deadline:    o.Deadline,
		Nonce:       identity.NewNonce(),
		Engine:      scripts.Engine,
		Allow:       o.Script.Report.Operations,
		Destructive: o.Destructive && o.Script.Report.Destructive,
		MaxCalls:    o.MaxCalls,
		Params:      params,
		Plan:        o.PlanDigest,
		Secrets:     o.Secrets,
		Script:      identity.File(o.Script.Bundle.Main),
	}
	for _, m := range o.Script.Bundle.Modules {
		p.Modules = append(p.Modules, identity.File(m))
	}
	text, err := p.Text()
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code == writ.CodePayloadMalformed {
		return nil, writ.Errorf(writ.CodeUsage, "%s", e.Message) // nobody's forgery, but what this person asks for
	}
	return text, err
}
