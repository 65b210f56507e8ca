package coord

import (
	"context"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/ledger"
	"writ/supervisor/link"
)

// runView converts a run. A waiting run gets a reason.
func (c *Coordinator) runView(r ledger.Run) api.Run {
	v := viewOf(r.Run, api.RunState(r.State))
	v.Created = r.Created
	if r.State == ledger.StateWaiting {
		setWhy(&v, c.whyWaiting(r))
	}
	return v
}

func viewOf(r writ.Run, state api.RunState) api.Run {
	return api.Run{
		ID: r.ID, Datacenter: r.Datacenter, Project: r.Project, ProjectName: r.ProjectName, Deployment: r.Deployment, Revision: r.Revision,
		Signer: r.Signer, Script: r.Script, Payload: r.Payload, Plan: r.Plan, State: state, Why: reasonOf(r.Why, r.Reason), Reason: r.Reason, Failure: r.Failure, Decided: r.Decided,
		Output: r.Output, Summary: r.Summary, Accepted: r.Accepted, Started: r.Started, Ended: r.Ended, Deadline: r.Deadline,
	}
}

// setWhy sets the reason of a run and its sentence.
func setWhy(v *api.Run, why writ.Reason) { v.Why, v.Reason = why, why.String() }

// whyWaiting returns the reason why a submission waits for its delivery.
func (c *Coordinator) whyWaiting(r ledger.Run) writ.Reason {
	why := writ.Reason{Code: writ.ReasonDelivering, Datacenter: c.rosters.DatacenterName(r.Datacenter)}
	if _, connected := c.links.Session(r.Datacenter); !connected {
		why.Code = writ.ReasonConnect
	} else if trouble := c.outbox.trouble(r.Payload); trouble != nil {
		why.Code, why.Text = writ.ReasonRefusing, trouble.Message
	}
	return why
}

func valuesView(v link.RunValues) api.RunValues {
	setReason(&v.Run.Why, &v.Run.Reason)
	shown := api.RunValues{Run: viewOf(v.Run, api.RunState(v.Run.State)), Calls: []api.CallValues{}}
	for _, call := range v.Calls {
		setReason(&call.Why, &call.Reason)
		shown.Calls = append(shown.Calls, api.CallValues{Call: call.Call, Args: call.Args, Values: call.Values})
	}
	return shown
}

func eventView(e ledger.Event) api.Event {
	v := api.Event{
		ID: e.ID, Datacenter: e.Datacenter, Topic: api.Topic(e.Topic()), Journal: e.Journal, Seq: e.Seq, Time: e.Time,
		Submission: e.Submission, Call: e.Call, Log: e.Log, Node: e.Node, Resource: e.Resource,
	}
	if e.Run != nil {
		run := viewOf(*e.Run, api.RunState(e.Run.State))
		v.Run = &run
	}
	return v
}

// Datacenters lists the datacenters of the roster with their health, which is derived from their links.
func (c *Coordinator) Datacenters(ctx context.Context) ([]api.Datacenter, error) {
	all, err := c.Ledger.Datacenters(ctx)
	if err != nil {
		return nil, err
	}
	views := make([]api.Datacenter, 0, len(all))
	for _, d := range all {
		v := api.Datacenter{
			ID: d.ID, Name: d.Name, Region: d.Region, Labels: d.Labels, Key: d.Key, Enabled: d.Enabled, Health: api.DatacenterHealthAway,
		}
		if s, connected := c.links.Session(d.ID); connected {
			v.Health, v.Version, v.Roster, v.Connected = api.DatacenterHealthHealthy, s.Hello.Version, s.Hello.Roster, s.Since.UTC()
			if v.Fault = s.Fault(); v.Fault != "" {
				v.Health = api.DatacenterHealthFaulty
			}
		}
		v.Placeable = v.Enabled && v.Health == api.DatacenterHealthHealthy
		switch {
		case !v.Enabled:
			v.Reason = "it is disabled in the roster"
		case v.Fault != "":
			v.Reason = v.Fault
		case !v.Placeable:
			v.Reason = "its supervisor is not connected"
		}
		views = append(views, v)
	}
	return views, nil
}

// nodeView converts a stored node. While its datacenter is disconnected, the liveness of an approved node is unknown.
func (c *Coordinator) nodeView(n writ.Node) writ.Node {
	_, connected := c.links.Session(n.Datacenter)
	if !connected && (n.Admission == writ.AdmissionApproved || n.Liveness == writ.LivenessReady) {
		n.Liveness = writ.LivenessUnknown
	}
	return n
}

func registrationView(r ledger.Registration) api.Registration {
	v := api.Registration{
		Token: r.Token, Name: r.Name, Key: r.Key, Nonce: r.Nonce, Proof: r.Proof, URL: r.URL, Received: r.Received,
	}
	if key := identity.SSHKey(r.Key); key != nil {
		v.Fingerprint = ssh.FingerprintSHA256(key)
	}
	return v
}

func regionView(r ledger.Region) api.Region {
	return api.Region{Name: r.Name, Datacenters: r.Datacenters}
}

func projectView(p identity.Project) api.Project {
	return api.Project{ID: p.ID, Name: p.Name, Tenant: p.Tenant}
}

// views converts each item of a list.
func views[T, V any](list []T, view func(T) V) []V {
	all := make([]V, len(list))
	for i, item := range list {
		all[i] = view(item)
	}
	return all
}
