package identity

import (
	"bytes"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity/chain"
	"writ/identity/header"
	"writ/identity/sshsig"
)

// SignRoster returns the roster's text followed by the signatures of signers: the root, or as many operators of the
// previous version as its threshold requires.
func SignRoster(r *Roster, signers ...sshsig.Signer) ([]byte, error) {
	signed, err := r.Text()
	if err != nil {
		return nil, err
	}
	text := slices.Clip(signed)
	for _, s := range signers {
		armored, err := s.Sign(sshsig.RosterNamespace, text)
		if err != nil {
			return nil, err
		}
		signed = append(signed, armored...)
	}
	return signed, nil
}

// VerifyRoster verifies a link as the successor of previous. If previous is nil, the link must be version 1, signed by
// the root that it names. The caller compares its Cluster with the expected one.
//
// A successor has the same cluster and root, the next version and the digest of previous. The root or a threshold of
// the operators of previous must sign it. A link may skip versions if it contains their digests: the history of the
// successor must then match previous and these digests. The skipped digests may include the digest of previous itself.
// A recovery has no predecessor, may skip versions, and must be signed by the root.
//
// The roster must not have expired at `now`; the zero time disables this check, for stored rosters. The error is
// ROSTER_INVALID unless the text or a signature is malformed.
func VerifyRoster(previous *Roster, link []byte, now time.Time) (*Roster, error) {
	skipped, signed, err := chain.Split(link)
	if err != nil {
		return nil, err
	}
	text, armored, err := sshsig.SplitAll(signed)
	if err != nil {
		return nil, err
	}
	var next *Roster
	if previous == nil {
		next, err = verifyFirst(text, armored, skipped)
	} else {
		next, err = verifySuccessor(previous, text, armored, skipped)
	}
	if err != nil {
		return nil, err
	}
	if err := notExpired(next, now); err != nil {
		return nil, err
	}
	return next, nil
}

// verifyFirst verifies version 1: the root that it names must have signed it.
func verifyFirst(text []byte, armored [][]byte, skipped []writ.Digest) (*Roster, error) {
	first, err := ParseRoster(text)
	if err != nil {
		return nil, err
	}
	root := string(first.Root.Marshal())
	keys, err := verifySignatures(text, armored, func(key string) bool { return key == root })
	switch {
	case err != nil:
		return nil, err
	case first.Version != 1 || len(skipped) > 0:
		return nil, badRoster("version %d cannot be the first", first.Version)
	case len(keys) == 0:
		return nil, badRoster("version 1 is not signed by the root that it names")
	}
	first.follow(nil, nil)
	return first, nil
}

// verifySuccessor verifies a version that follows previous and the skipped versions. It parses the text only if a
// signer of previous has signed it.
func verifySuccessor(previous *Roster, text []byte, armored [][]byte, skipped []writ.Digest) (*Roster, error) {
	keys, err := verifySignatures(text, armored, signersAfter(previous))
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, badRoster("no root operator of version %d has signed it, nor the root", previous.Version)
	}
	next, err := ParseRoster(text)
	if err != nil {
		return nil, err
	}
	skipped, ok := previous.Chain().SkipKnown(next.Version-1-len(skipped), skipped)
	if !ok && next.Version > previous.Version {
		return nil, followsAnother(next, previous)
	}
	if err := (succession{previous, next, skipped, keys}).check(); err != nil {
		return nil, err
	}
	next.follow(previous, skipped)
	return next, nil
}

// notExpired returns ROSTER_INVALID if the roster has expired at `now`. The zero time disables the check.
func notExpired(r *Roster, now time.Time) error {
	if now.IsZero() || !now.After(r.Expires) {
		return nil
	}
	return badRoster("version %d expired on %s, and the clock of this machine shows %s",
		r.Version, header.FormatTime(r.Expires), header.FormatTime(now)).
		WithHint("if the clock is right, a root operator signs a new version: writ roster renew")
}

// verifySignatures returns the distinct keys that signed a text, if counts returns true for their wire form. Anyone can
// append hundreds of signatures, so signatures of other keys are not verified. They are not even parsed if no signature
// counts.
func verifySignatures(text []byte, armored [][]byte, counts func(key string) bool) (keys []ssh.PublicKey, err error) {
	verified := make(map[string]bool)
	var others [][]byte
	for _, a := range armored {
		key := string(sshsig.SigningKey(a))
		if verified[key] || !counts(key) {
			others = append(others, a)
			continue
		}
		s, err := sshsig.Parse(sshsig.RosterNamespace, a)
		if err != nil {
			return nil, err
		}
		if string(s.Key.Marshal()) != key {
			return nil, sshsig.Malformed("the key of the SSH signature cannot be read")
		}
		if err := s.Verify(text); err != nil {
			return nil, err
		}
		verified[key] = true
		keys = append(keys, s.Key)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	for _, a := range others {
		if _, err := sshsig.Parse(sshsig.RosterNamespace, a); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// signersAfter returns a function that reports whether a key, in its wire form, may sign the version after r.
func signersAfter(r *Roster) func(key string) bool {
	root, owners := string(r.Root.Marshal()), r.owners()
	return func(key string) bool {
		o := owners[key]
		return key == root || o.principal != nil && o.state == Active && slices.Contains(r.Operators, o.principal.Name)
	}
}

// succession is a claim that a roster follows previous and the skipped versions. keys are the keys that signed the text
// of next.
type succession struct {
	previous, next *Roster
	skipped        []writ.Digest
	keys           []ssh.PublicKey
}

// check returns nil if the claim is true, and enough signers of previous signed the roster.
func (s succession) check() error {
	previous, next := s.previous, s.next
	// This implies the same root, because the cluster's id is the hash of the root.
	if next.Cluster != previous.Cluster {
		return badRoster("it belongs to another cluster")
	}
	if next.Version <= previous.Version {
		return badRoster("version %d is not newer than version %d", next.Version, previous.Version)
	}
	root := s.signedByRoot()
	if next.Previous.IsZero() {
		if !root || len(s.skipped) > 0 {
			return badRoster("version %d is a recovery and not signed by the root", next.Version)
		}
		return nil
	}
	if err := s.continues(); err != nil {
		return err
	}
	if n := s.operators(); !root && n < previous.Threshold {
		return badRoster("version %d is signed by %d root operators of version %d, %d are needed",
			next.Version, n, previous.Version, previous.Threshold)
	}
	return nil
}

// continues checks that the roster follows the skipped versions, and that these follow previous.
func (s succession) continues() error {
	previous, next := s.previous, s.next
	if next.Version != previous.Version+1+len(s.skipped) || len(s.skipped) > 0 && next.History.IsZero() {
		return badRoster("version %d cannot follow version %d", next.Version, previous.Version)
	}
	before, err := previous.textDigest()
	if err != nil {
		return err
	}
	history := chain.History(chain.History(previous.History, before), s.skipped...)
	if len(s.skipped) > 0 {
		before = s.skipped[len(s.skipped)-1]
	}
	if next.Previous != before || !next.History.IsZero() && next.History != history {
		return followsAnother(next, previous)
	}
	return nil
}

func followsAnother(next, previous *Roster) error {
	return badRoster("version %d follows another version %d than this verifier has", next.Version, previous.Version).
		WithHint("the root can sign a recovery version")
}

// operators counts the root operators of previous (people, not keys) with an active key among keys.
func (s succession) operators() int {
	owners := s.previous.owners()
	signed := map[string]bool{}
	for _, key := range s.keys {
		o := owners[string(key.Marshal())]
		if o.principal != nil && o.state == Active && slices.Contains(s.previous.Operators, o.principal.Name) {
			signed[o.principal.Name] = true
		}
	}
	return len(signed)
}

func (s succession) signedByRoot() bool {
	root := s.next.Root.Marshal()
	return slices.ContainsFunc(s.keys, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), root) })
}

func badRoster(format string, args ...any) *writ.Error {
	return writ.Errorf(writ.CodeRosterInvalid, "roster: "+format, args...)
}
