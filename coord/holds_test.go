package coord

import (
	"context"
	"encoding/json"
	"testing"

	"writ"
	"writ/coord/api"
	"writ/supervisor/link"
)

// A supervisor of an earlier version holds nothing, and is not shown as one that cannot be asked.
func TestAnEarlierSupervisorHoldsNothing(t *testing.T) {
	p := start(t, nil)
	s := connect(p, vienna, func(s *supervisor) {
		handle := s.handle
		s.dialer.Handle = func(ctx context.Context, verb link.Verb, params json.RawMessage, progress func(stage, detail string)) (any, error) {
			if verb == link.VerbHolds {
				return nil, writ.Errorf(writ.CodeVerbUnsupported, "what is %q?", verb)
			}
			return handle(ctx, verb, params, progress)
		}
	})
	defer s.leave()
	list, err := api.Answer[api.HoldList](p.client.ListHolds(t.Context(), &api.ListHoldsParams{Datacenter: string(vienna)}))
	if err != nil || len(list.Items) != 1 || list.Items[0].Error != nil || len(list.Items[0].Holds) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
