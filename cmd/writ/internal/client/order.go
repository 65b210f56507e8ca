package client

import (
	"errors"
	"time"

	"writ"
	"writ/identity"
	"writ/scripts"
)

// Order holds the user's parameters for a run.
type Order struct {
	Script     Script
	Params     map[string]any // given parameters; the script's defaults are added
	Datacenter writ.DatacenterID
	Project    identity.Project
	Deployment identity.Deployment
	Uses       []string      // other deployments whose resources the script may change
	Expires    time.Duration // relative to the current time
	Deadline   time.Duration // relative to acceptance
	MaxCalls   int
	Targets    []string    // resources that the script may destroy, "volume/web-0" or "volume/web-*"; see NameTargets
	Prune      []string    // resources to delete at the end of the run, "volume/web-0"; see PruneKept
	PlanDigest writ.Digest // digest of the plan that the run is bound to, or zero; see Bind
	Secrets    []string    // with versions, "db-password@3"
	Images     []string    // full references with digests, "docker.io/library/nginx:1.27@sha256:…"; see registry.ResolveImages
}

// Payload returns the text to sign for an order. The text names the signer and the digest of the roster.
func (o Order) Payload(roster *identity.Roster, by Signatory) ([]byte, error) {
	if err := o.Script.Report.Err(); err != nil {
		return nil, err
	}
	params, err := o.Script.Report.Params.Fill(o.Params)
	if err != nil {
		return nil, err
	}
	digest, err := roster.Digest()
	if err != nil {
		return nil, err
	}
	certificate, now := identity.CertificateDigest(by.Key), time.Now()
	p := &identity.Payload{
		Format:       identity.FormatFor(certificate),
		Cluster:      roster.Cluster,
		Datacenter:   o.Datacenter,
		Roster:       roster.Version,
		RosterDigest: digest,
		Project:      o.Project.ID,
		ProjectName:  o.Project.Name,
		Deployment:   o.Deployment,
		Uses:         o.Uses,
		Signer:       by.Name,
		Certificate:  certificate,
		Created:      now,
		Expires:      now.Add(o.Expires),
		Deadline:     o.Deadline,
		Nonce:        identity.NewNonce(),
		Engine:       scripts.Engine,
		Allow:        o.operations(),
		Targets:      o.destructive(),
		Prune:        o.Prune,
		MaxCalls:     o.MaxCalls,
		Params:       params,
		Plan:         o.PlanDigest,
		Secrets:      o.Secrets,
		Images:       o.Images,
		Script:       identity.File(o.Script.Bundle.Main),
	}
	for _, m := range o.Script.Bundle.Modules {
		p.Modules = append(p.Modules, identity.File(m))
	}
	text, err := p.Text()
	if e, ok := errors.AsType[*writ.Error](err); ok && e.Code == writ.CodePayloadMalformed {
		return nil, writ.Errorf(writ.CodeUsage, "%s", e.Message) // the user's input is invalid; it is not a forgery
	}
	return text, err
}

// Sign returns the signed submission of an order.
func (o Order) Sign(roster *identity.Roster, by *Person) ([]byte, error) {
	text, err := o.Payload(roster, by.Signatory())
	if err != nil {
		return nil, err
	}
	return by.SignPayload(text)
}
