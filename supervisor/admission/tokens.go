package admission

import (
	"fmt"
	"time"

	"writ"
	"writ/identity"
	"writ/supervisor/fleet"
	"writ/supervisor/journal"
)

// MakerMay returns an error unless the maker of a token may create tokens at the time `now`. A token therefore ends
// with the right of its maker. A thief with the key of a person cannot add nodes after the key was revoked.
func MakerMay(roster *identity.Roster, maker string, now time.Time) error {
	return roster.Allows(maker, identity.ActionCreateTokens, "", now)
}

// TokenEnds returns the end of a token for lists. A token ends at the time `now` if its maker may not create tokens any
// more.
func TokenEnds(roster *identity.Roster, maker string, expires, now time.Time) time.Time {
	if MakerMay(roster, maker, now) != nil && expires.After(now) {
		return now
	}
	return expires
}

// JoinedWith returns the names of the nodes that joined with a token, sorted.
func JoinedWith(members *fleet.Members, token string) (names []string) {
	for _, n := range members.Select(func(n *journal.Node) bool { return n.Token == token }) {
		names = append(names, n.Name)
	}
	return names
}

// checkMaker returns TOKEN_INVALID unless the maker of a token may create tokens at the time `now`.
func checkMaker(roster *identity.Roster, token *journal.Token, now time.Time) error {
	err := MakerMay(roster, token.CreatedBy, now)
	if err == nil {
		return nil
	}
	return (&writ.Error{
		Code:    writ.CodeTokenInvalid,
		Message: "the join token " + token.ID + " is not valid any more: its creator has lost the right to create tokens", Err: err,
	}).
		WithHint("have an admin make another one with `writ token create`")
}

// refuseToken returns the reason why a token admits no node.
func refuseToken(token *journal.Token, now time.Time) error {
	if token.Revoked() {
		return writ.Errorf(writ.CodeTokenInvalid, "the join token %s was revoked", token.ID).
			WithHint("make another one with `writ token create`")
	}
	if !token.Expires.After(now) {
		return writ.Errorf(writ.CodeTokenInvalid, "the join token expired on %s", token.Expires.Format(time.RFC3339)).
			WithHint("make another one with `writ token create`")
	}
	return tokenSpent(token)
}

func tokenSpent(token *journal.Token) error {
	nodes := "another node"
	if token.Uses != 1 {
		nodes = fmt.Sprintf("all %d nodes that it admits", token.Uses)
	}
	return writ.Errorf(writ.CodeTokenSpent, "the join token %s has admitted %s", token.ID, nodes).
		WithHint("make another one with `writ token create`")
}
