package supervisor

import (
	"context"
	"crypto/ed25519"
	"encoding/json"

	"writ"
	"writ/identity"
	"writ/supervisor/journal"
	"writ/supervisor/link"
)

// maxLogLines bounds one answer of the verb logs.
const maxLogLines = 1000

// hello returns the first frame of a link: datacenter, version, epoch, roster version and the given journal generation.
func (s *Supervisor) hello(generation string) link.Hello {
	return link.Hello{
		Datacenter: s.Datacenter, Journal: generation, Version: s.Version,
		Verbs: link.ToSupervisor,
		Epoch: s.epoch, Roster: s.roster.Load().Version,
	}
}

func (s *Supervisor) signHello(hello link.Hello, nonce []byte, url string) ([]byte, error) {
	return ed25519.Sign(s.Key, identity.LinkHelloText(nonce, url, hello.Datacenter, hello.Journal)), nil
}

// catchUp fetches the rosters that a coordinator has and the supervisor lacks.
func (s *Supervisor) catchUp(ctx context.Context, coordinator *link.Dialer, version int) {
	for have := s.roster.Load().Version; have < version; {
		var newer link.Rosters
		err := coordinator.Request(ctx, link.VerbRoster, link.RosterVersion{Version: have}, &newer)
		now := have
		if err == nil {
			now, err = s.AdoptRosters(ctx, newer.Signed)
		}
		if err != nil && ctx.Err() == nil {
			s.warnings.Refused("", "adopt newer rosters", err, "have", have, "coordinator", version)
		}
		if err != nil || now <= have {
			return
		}
		have = now
	}
}

// handle answers a request of a coordinator.
func (s *Supervisor) handle(
	ctx context.Context, verb link.Verb, params json.RawMessage, _ func(stage, detail string),
) (any, error) {
	switch verb {
	case link.VerbSubmit:
		p, err := decode[link.Submit](params)
		if err != nil {
			return nil, err
		}
		return s.Submit(ctx, p.Signed)
	case link.VerbStatement:
		p, err := decode[link.Statement](params)
		if err != nil {
			return nil, err
		}
		return s.Decide(ctx, p.Signed)
	case link.VerbRoster:
		p, err := decode[link.Rosters](params)
		if err != nil {
			return nil, err
		}
		version, err := s.AdoptRosters(ctx, p.Signed)
		return link.RosterVersion{Version: version}, err
	case link.VerbAdopted:
		p, err := decode[link.Adopted](params)
		if err != nil {
			return nil, err
		}
		return s.adopted(p.Nonce)
	case link.VerbStanding:
		p, err := decode[link.Standing](params)
		if err != nil {
			return nil, err
		}
		return s.standing(ctx, p.Run, p.Nonce)
	case link.VerbNodeStanding:
		p, err := decode[link.StandingOfNode](params)
		if err != nil {
			return nil, err
		}
		return s.standingOfNode(ctx, p.Node, p.Nonce)
	case link.VerbTokenStanding:
		p, err := decode[link.StandingOfTokens](params)
		if err != nil {
			return nil, err
		}
		return s.standingOfTokens(ctx, p.Nonce)
	case link.VerbHoldStanding:
		p, err := decode[link.StandingOfHolds](params)
		if err != nil {
			return nil, err
		}
		return s.standingOfHolds(p)
	case link.VerbPlan:
		p, err := decode[link.Plan](params)
		if err != nil {
			return nil, err
		}
		return s.Preview(ctx, p)
	case link.VerbLogs:
		p, err := decode[link.Logs](params)
		if err != nil {
			return nil, err
		}
		return s.logs(ctx, p)
	case link.VerbValues:
		p, err := decode[link.Values](params)
		if err != nil {
			return nil, err
		}
		return s.values(ctx, p)
	case link.VerbQueues:
		return s.queues(ctx)
	case link.VerbResources:
		p, err := decode[link.Resources](params)
		if err != nil {
			return nil, err
		}
		return s.resources(ctx, p.Project)
	case link.VerbNodes:
		return s.nodesNow(), nil
	case link.VerbTokens:
		return s.listTokens(ctx)
	case link.VerbBatches:
		return s.listBatches(ctx)
	case link.VerbHolds:
		return s.listHolds(), nil
	case link.VerbNodeLog:
		p, err := decode[link.LogOfNode](params)
		if err != nil {
			return nil, err
		}
		return s.nodeLogs.Read(ctx, p)
	case link.VerbBoots:
		p, err := decode[link.Boots](params)
		if err != nil {
			return nil, err
		}
		return s.boots.list(p, s.Now()), nil
	case link.VerbCertificates:
		return s.certificates()
	case link.VerbSecrets:
		p, err := decode[link.Secrets](params)
		if err != nil {
			return nil, err
		}
		return s.listSecrets(ctx, p.Project)
	default:
		return nil, writ.Errorf(writ.CodeVerbUnsupported, "this supervisor does not know the verb %q", verb)
	}
}

// decode reads the params of a verb.
func decode[T any](params json.RawMessage) (p T, err error) {
	err = link.Decode(params, &p)
	return p, err
}

func (s *Supervisor) logs(ctx context.Context, p link.Logs) (lines []writ.LogLine, err error) {
	if _, err := s.stored(ctx, p.Run); err != nil {
		return nil, err
	}
	limit := maxLogLines
	if p.Max > 0 {
		limit = min(p.Max, maxLogLines)
	}
	err = s.Journal.Read(ctx, func(tx *journal.Tx) error {
		lines, err = tx.Logs(p.Run, p.After, limit)
		return err
	})
	return lines, err
}

func (s *Supervisor) values(ctx context.Context, p link.Values) (link.RunValues, error) {
	var v link.RunValues
	err := s.Journal.Read(ctx, func(tx *journal.Tx) error {
		run, err := tx.Run(p.Run)
		if err != nil {
			return err
		}
		if run == nil {
			return writ.Errorf(writ.CodeNotFound, "there is no run %s in this datacenter", p.Run)
		}
		v.Run = run.Run
		calls, err := tx.CallsAfter(p.Run, p.After)
		for _, c := range calls {
			v.Calls = append(v.Calls, link.CallValues{Call: c.Call, Args: c.Args, Values: c.Values})
		}
		return err
	})
	return v, err
}

// queues returns the depth of every node's queue, nodes without work included.
func (s *Supervisor) queues(ctx context.Context) ([]link.QueueDepth, error) {
	var loads map[writ.NodeID]journal.Load
	err := s.Journal.Read(ctx, func(tx *journal.Tx) (err error) {
		loads, err = tx.Loads()
		return err
	})
	if err != nil {
		return nil, err
	}
	all := []link.QueueDepth{}
	if l := loads[""]; l.Open() > 0 {
		all = append(all, s.depthOf("", "(no node yet)", l))
	}
	for _, n := range s.fleet.Members.List() {
		if l := loads[n.ID]; l.Open() > 0 || n.Admission == writ.AdmissionApproved {
			all = append(all, s.depthOf(n.ID, n.Name, l))
		}
	}
	return all, nil
}

// nodesNow returns the present state of every node, including nodes that wait for admission.
func (s *Supervisor) nodesNow() []link.NodeNow {
	all := []link.NodeNow{}
	for _, n := range s.fleet.Members.List() {
		all = append(all, link.NodeNowOf(n))
	}
	for _, n := range s.pending.list() {
		all = append(all, link.NodeNow{ID: n.ID, Waiting: &n})
	}
	return all
}

// depthOf returns the queue depth of a node, with ages from the last scan of the watch.
func (s *Supervisor) depthOf(node writ.NodeID, name string, l journal.Load) link.QueueDepth {
	q := link.QueueDepth{
		QueueDepth: writ.QueueDepth{Node: node, NodeName: name, Planned: l.Planned, Queued: l.Queued, Running: l.Running},
	}
	if seen, now := s.seen.Load(), s.Now(); seen != nil {
		q.OldestPlanned, q.OldestQueued = age(now, seen.planned[node]), age(now, seen.queued[node])
	}
	return q
}

func (s *Supervisor) resources(ctx context.Context, project writ.ProjectID) ([]writ.Resource, error) {
	found := []writ.Resource{}
	err := s.Journal.Read(ctx, func(tx *journal.Tx) error {
		all, err := tx.Resources()
		for _, r := range all {
			if project == "" || r.Project == project {
				found = append(found, r.Resource)
			}
		}
		return err
	})
	return found, err
}
