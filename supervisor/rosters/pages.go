package rosters

import "context"

// Pages serves the chain of rosters to nodes.
type Pages struct{ keeper *Keeper }

// NewPages returns the pages of the rosters of a keeper.
func NewPages(keeper *Keeper) *Pages { return &Pages{keeper} }

// Rosters implements nodes.Backend.
func (p *Pages) Rosters(ctx context.Context, after int) ([][]byte, error) {
	return p.keeper.Current().Chain().Path(after, p.keeper.Text(ctx))
}

// RosterPage implements nodes.Members.
func (p *Pages) RosterPage(after int) (start, newest int) {
	roster := p.keeper.Current()
	return roster.Chain().PageStart(after), roster.Version
}
