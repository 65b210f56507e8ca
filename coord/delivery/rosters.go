package delivery

import (
	"context"

	"writ"
	"writ/coord/rosters"
	"writ/supervisor/link"
)

// rosterFrame is the size of a list of rosters, in bytes, at which no further roster is added. With the largest roster
// at its end and a third more for base64, the list fits into a frame of a link.
const rosterFrame = 32 << 10

// RostersAfter returns links that lead from a version towards the newest roster, at most as many as one frame holds.
func RostersAfter(ctx context.Context, store *rosters.Store, version int) (link.Rosters, error) {
	links, err := store.PathWithin(ctx, version, rosterFrame)
	return link.Rosters{Signed: links}, err
}

// pushRosters sends a datacenter its missing roster versions and returns the version that it then has.
func pushRosters(ctx context.Context, store *rosters.Store, s *link.Session, have int) (int, error) {
	for {
		lacking, err := RostersAfter(ctx, store, have)
		if err != nil || len(lacking.Signed) == 0 {
			return have, err
		}
		var now link.RosterVersion
		if err := s.Request(ctx, link.VerbRoster, lacking, &now); err != nil {
			return have, err
		}
		if now.Version <= have {
			return have, writ.Errorf(writ.CodeRosterInvalid, "the datacenter stays at version %d of the roster", now.Version)
		}
		have = now.Version
	}
}
