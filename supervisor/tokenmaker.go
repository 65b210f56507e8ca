package supervisor

import (
	"time"

	"writ"
	"writ/identity"
)

// tokenMakerMay returns an error unless the maker of a token may create tokens now. A token therefore ends with the
// right of its maker: a thief with the key of a person cannot add nodes after the key was revoked.
func (s *Supervisor) tokenMakerMay(maker string) error {
	return s.rosters.Current().Allows(maker, identity.ActionCreateTokens, "", s.Now())
}

// checkTokenMaker returns TOKEN_INVALID unless the maker of a token may create tokens now.
func (s *Supervisor) checkTokenMaker(id, maker string) error {
	err := s.tokenMakerMay(maker)
	if err == nil {
		return nil
	}
	return (&writ.Error{
		Code:    writ.CodeTokenInvalid,
		Message: "the join token " + id + " has ended: its maker may not create tokens any more", Err: err,
	}).
		WithHint("have an admin make another one with `writ token create`")
}

// tokenEnds returns the end of a token for lists. A token whose maker may not create tokens any more has ended.
func (s *Supervisor) tokenEnds(maker string, expires time.Time) time.Time {
	if now := s.Now(); s.tokenMakerMay(maker) != nil && expires.After(now) {
		return now
	}
	return expires
}
