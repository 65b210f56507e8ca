package supervisor

import (
	"context"
	"encoding/json"

	"writ"
	"writ/supervisor/link"
	"writ/supervisor/query"
)

// verbHandler answers a request with encoded parameters.
type verbHandler func(ctx context.Context, params json.RawMessage) (any, error)

// verbTable holds the handler of each request of a coordinator.
type verbTable map[link.Verb]verbHandler

// newVerbTable returns the handlers of a supervisor.
func newVerbTable(s *Supervisor) verbTable {
	nodes := &query.Nodes{Members: s.fleet.Members.List, Pending: s.pending.List}
	return verbTable{
		link.VerbSubmit: decoded(func(ctx context.Context, p link.Submit) (writ.Run, error) {
			return s.Submit(ctx, p.Signed)
		}),
		link.VerbStatement: decoded(func(ctx context.Context, p link.Statement) (link.StatementAnswer, error) {
			return s.Decide(ctx, p.Signed)
		}),
		link.VerbRoster: decoded(func(ctx context.Context, p link.Rosters) (link.RosterVersion, error) {
			version, err := s.AdoptRosters(ctx, p.Signed)
			return link.RosterVersion{Version: version}, err
		}),
		link.VerbPlan: decoded(s.Preview),

		link.VerbAdopted:       decoded(s.standings.Adopted),
		link.VerbStanding:      decoded(s.standings.Run),
		link.VerbNodeStanding:  decoded(s.standings.Node),
		link.VerbTokenStanding: decoded(s.standings.Tokens),
		link.VerbHoldStanding:  decoded(s.standings.Holds),

		link.VerbLogs:      decoded(s.records.Logs),
		link.VerbValues:    decoded(s.records.Values),
		link.VerbResources: decoded(s.records.Resources),
		link.VerbSecrets:   decoded(s.records.Secrets),

		link.VerbNodeLog: decoded(s.nodeLogs.Read),
		link.VerbBoots: decoded(func(_ context.Context, p link.Boots) (link.BootList, error) {
			return s.ListBoots(p), nil
		}),

		link.VerbLoads: decoded(func(_ context.Context, p link.Loads) (link.LoadList, error) {
			return s.loads.Answer(p, s.Now()), nil
		}),

		link.VerbQueues:       bare(s.queues.List),
		link.VerbTokens:       bare(s.tokens.List),
		link.VerbBatches:      bare(s.batches.List),
		link.VerbNodes:        bare(nodes.List),
		link.VerbHolds:        bare(func(context.Context) ([]link.Hold, error) { return s.holding.List(), nil }),
		link.VerbCertificates: bare(s.certificates.List),
	}
}

// decoded returns the handler of a verb with parameters.
func decoded[P, A any](answer func(context.Context, P) (A, error)) verbHandler {
	return func(ctx context.Context, params json.RawMessage) (any, error) {
		var p P
		if err := link.Decode(params, &p); err != nil {
			return nil, err
		}
		return answer(ctx, p)
	}
}

// bare returns the handler of a verb without parameters.
func bare[A any](answer func(context.Context) (A, error)) verbHandler {
	return func(ctx context.Context, _ json.RawMessage) (any, error) { return answer(ctx) }
}

// answer implements link.Handler.
func (t verbTable) answer(ctx context.Context, verb link.Verb, params json.RawMessage) (any, error) {
	if handler := t[verb]; handler != nil {
		return handler(ctx, params)
	}
	return nil, writ.Errorf(writ.CodeVerbUnsupported, "this supervisor does not know the verb %q", verb)
}
